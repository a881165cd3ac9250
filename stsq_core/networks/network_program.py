"""The program of any task and any model: a task's `Examples`, a model's `Network`, and the gradient by autograd.

The pairs that the papers are about have programs with gradients derived by hand (`stsq_core.programs`), several times faster;
those of any pair are held to the same law of the pack.
"""

from functools import cached_property
from typing import Protocol, cast, runtime_checkable

import numpy as np
import torch

from stsq_core.configs import (
    CHUNK,
    Architecture,
    Attention,
    BitAttention,
    Fcn,
    Ffn,
    Model,
    Rnn,
    StreamTransformer,
    Transformer,
    TransformerMlp,
    TrialConfig,
    missing_case,
)
from stsq_core.networks.attention import AttentionNetwork
from stsq_core.networks.bit_attention import BitAttentionNetwork
from stsq_core.networks.feedforward import FcnNetwork, FeedforwardNetwork
from stsq_core.networks.network import Network
from stsq_core.networks.recurrent import RecurrentNetwork
from stsq_core.networks.stream import StreamNetwork
from stsq_core.networks.transformer_mlp import TransformerMlpNetwork
from stsq_core.numerics import Step
from stsq_core.programs import Program, Tensors
from stsq_core.tasks import Batch, Source, examples_of


@runtime_checkable
class PluginModel(Protocol):
    """A plugin's model names its network in a method."""

    def network(self) -> type[Network]: ...


def network_of(model: Architecture) -> type[Network]:
    """The network that computes a model on any task."""
    if isinstance(model, PluginModel):
        return model.network()
    own = cast(Model, model)
    match own:
        case Transformer() | Attention():
            return AttentionNetwork
        case Fcn():
            return FcnNetwork
        case TransformerMlp():
            return TransformerMlpNetwork
        case Rnn():
            return RecurrentNetwork
        case Ffn():
            return FeedforwardNetwork
        case StreamTransformer():
            return StreamNetwork
        case BitAttention():
            return BitAttentionNetwork
        case _:
            raise missing_case(own, "stsq_core/networks/network_program.py: network_of")


class NetworkProgram(Program):
    """Trains k networks on a task's examples."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.examples = examples_of(self.task)
        build = network_of(configs[0].model)
        self.network = build(configs, kernels=self.kernels, streams=self.streams, dtype=self.dtype)

    def initial(self) -> Tensors:
        return self.network.initial()

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        batch, source = self.training_batch(step), self.source(step, fresh=False)
        outputs, gradients = self.network.learned(parameters, batch, source)
        return self.examples.relative_losses(outputs, batch).mean(-1), gradients

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """Relative losses of fresh samples, also on another number of tokens or positions where task and model have it."""
        task = self.task.model_copy(update={"T": T or self.task.T, "q": q or self.task.q})
        examples, source = examples_of(task), self.source(chunk, fresh=True)
        batch = examples.batch(source, CHUNK)
        return examples.relative_losses(self.network.outputs(parameters, batch, source), batch)

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor | None:
        source = self.source(chunk, fresh=True)
        return self.network.attention_mass(parameters, self.examples.batch(source, CHUNK), source)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        return self.network.weights(parameters, trial)

    def source(self, step: Step, *, fresh: bool) -> Source:
        """The draws of a step of training, or of a chunk of fresh samples."""
        return Source(self.streams, self.kernels, step, fresh=fresh, dtype=self.dtype)

    def training_batch(self, step: Step) -> Batch:
        """A step's batch: new samples, or rows of the training set where it is finite, drawn with replacement."""
        num_samples = self.configs[0].training.num_samples
        if num_samples is None:
            return self.examples.batch(self.source(step, fresh=False), self.batch)
        rows = self.source(step, fresh=False).integers("rows of the training set", 1, self.batch, below=num_samples)
        return self._training_set.taken(rows[:, 0])

    @cached_property
    def _training_set(self) -> Batch:
        """All samples of a finite training set: a longer one begins with a shorter one only where the task draws by rows."""
        return self.examples.batch(self.source(0, fresh=False), self.configs[0].training.num_samples or 0)
