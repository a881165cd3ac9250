"""Models that read a task's prompt, a vector at each of T positions (the configs): transformer, recurrent and feedforward nets.

Source: arXiv:2503.11272 compares the first three on its tasks; the details are those of the authors' code: queries, keys and
values with biases and one output projection (`torch.nn.MultiheadAttention`), a GRU, and a feedforward net on all of the prompt.
`BitAttention` is the single head with a `[CLS]` query of arXiv:2110.10090; its sizes there are not known to us, ours are.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from stsq_core.configs.architecture import MAX_DEPTH, Architecture
from stsq_core.configs.optimizer import PositiveFloat
from stsq_core.configs.task import MAX_SIZE, PositiveInt, TokenTask

Cell = Literal["gru", "relu", "tanh"]


class TransformerMlp(Architecture):
    """One layer of `heads` softmax heads, each on all of the prompt, and a ReLU net with `width` hidden units on their outputs.

    Source: arXiv:2503.11272.
    """

    kind: Literal["transformer_mlp"] = "transformer_mlp"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T", "q")
    heads: PositiveInt = 1
    """Number of heads."""
    width: PositiveInt
    """Hidden units of the net on the heads' outputs."""

    def block_edges(self, task: TokenTask, array: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`W_QK1, ..`: tokens, own codes, codes asked for; rows are keys, columns queries."""
        return (task.prompt_edges, task.prompt_edges) if array.startswith("W_QK") else ((), ())

    def num_parameters(self, task: TokenTask) -> int:
        D, H = task.prompt_size, self.heads
        return 3 * H * D * (D + 1) + H * D * (H * D + 1) + self.width * (H * D + 1) + task.d * (self.width + 1)

    def multiplications(self, task: TokenTask) -> float:
        return float(task.T * (self.num_parameters(task) + 2 * self.heads * task.T * task.prompt_size))

    def activations(self, task: TokenTask) -> float:
        return float(task.T * (self.heads * (6 * task.prompt_size + 3 * task.T) + 2 * self.width))


class Rnn(Architecture):
    """A recurrent net with `width` hidden units a direction, read off linearly at every position, or, where a task asks for one
    output, at the end of each direction.
    """

    kind: Literal["rnn"] = "rnn"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T", "q")
    width: PositiveInt
    """Hidden units of a direction."""
    cell: Cell = "gru"
    """Kind of the recurrent unit."""
    bidirectional: bool = True
    """Whether the prompt is read from both ends."""

    @property
    def num_gates(self) -> int:
        """Blocks of `width` rows in the weights of a direction."""
        return 3 if self.cell == "gru" else 1

    @property
    def num_directions(self) -> int:
        return 2 if self.bidirectional else 1

    def num_parameters(self, task: TokenTask) -> int:
        per_direction = self.num_gates * self.width * (task.prompt_size + self.width + 2)
        return self.num_directions * (per_direction + task.d * self.width) + task.d

    def multiplications(self, task: TokenTask) -> float:
        return float(task.T * self.num_parameters(task))

    def activations(self, task: TokenTask) -> float:
        return float(task.T * self.num_directions * self.width * (3 * self.num_gates + 2))


class Ffn(Architecture):
    """A ReLU net on all of the prompt: `width` units, `depth - 2` layers of `tail_width`, then a linear map to all outputs.

    Without a width it has T d q units in the first layer, as in arXiv:2503.11272.
    """

    kind: Literal["ffn"] = "ffn"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("q",)
    width: PositiveInt
    """Units of the first layer; T d q where it is left out."""
    depth: Annotated[int, Field(ge=2, le=MAX_DEPTH)] = 3
    """Number of layers, the linear one at the end included."""
    tail_width: PositiveInt = 1000
    """Units of each layer after the first."""

    @classmethod
    def completed(cls, model: Mapping[str, Any], task: Mapping[str, Any]) -> Mapping[str, Any]:
        """With T d q units in the first layer where none are given."""
        match task:
            case {"T": int(T), "q": int(q)} if model.get("width") is None and isinstance(d := task.get("d", 1), int):
                return {**model, "width": T * q * d}
        return model

    def units(self, task: TokenTask) -> tuple[int, ...]:
        """Inputs, hidden units layer by layer."""
        return (task.T * task.prompt_size, self.width, *[self.tail_width] * (self.depth - 2))

    def num_parameters(self, task: TokenTask) -> int:
        units = (*self.units(task), task.T * task.d)
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(units))

    def activations(self, task: TokenTask) -> float:
        return float(2 * sum(self.units(task)))


class BitAttention(Architecture):
    """One head: a learned query attends to T bits, each embedded as its value's vector plus its position's, in R^`width`.

    A ReLU net, or a linear readout, reads what the head returns. With `answer_gap` the readout (values and net) starts so that
    answers go from `-answer_gap / 2` where all bits are false to `answer_gap / 2` where all are true.
    """

    kind: Literal["bit_attention"] = "bit_attention"
    width: PositiveInt
    """Length of the embeddings."""
    keys: Literal["embeddings", "positions"] = "embeddings"
    """What is attended by: embeddings, or those of positions alone."""
    values: Literal["embeddings", "bits"] = "embeddings"
    """What is returned: embeddings, or those of bits alone."""
    mlp_width: Annotated[int, Field(ge=0, le=MAX_SIZE)] = 32
    """Hidden units of the net on the head; 0 is a linear readout."""
    embedding_scale: PositiveFloat = 1.0
    """Standard deviation of the embeddings at the start."""
    answer_gap: PositiveFloat | None = None
    """Answers at the start, from all bits false to all true, are this far apart; random where it is left out."""
    readout_rate: PositiveFloat = 1.0
    """Rate of the readout over that of the embeddings."""

    def num_parameters(self, task: TokenTask) -> int:
        m = self.width
        readout = self.mlp_width * (m + 2) + 1 if self.mlp_width else m + 1
        return m * (task.T + 3) + 3 * m * m + readout

    def multiplications(self, task: TokenTask) -> float:
        of_values = task.T if self.values == "bits" else task.T * self.width
        return float(of_values + max(self.mlp_width, 1) * self.width)

    def activations(self, task: TokenTask) -> float:
        return float((3 if self.keys == "embeddings" else 2) * task.T + 2 * self.width + 2 * self.mlp_width)
