"""One attention head with a learned query over embedded bits, and a ReLU net or a linear readout of what it returns.

Bit b_t is embedded as `e_{b_t} + p_t`; the head returns `sum_t a_t W_V (e_{b_t} + p_t)` with
`a = softmax_t(<W_Q c, W_K (e_{b_t} + p_t)> / sqrt(m))`, c the query's own embedding. Scores and values are linear in the
embeddings: they are computed once for every position and value, not for every sample.

With values of bits alone the answer depends on a sample through the share of attention on its true bits, which is a weighted
sum of bits, or, where keys carry bits, a monotone function of one: with a linear readout the head decides as a linear
classifier whose weights are of one sign. Keys of positions and values of tokens are the two blocks that gradient descent finds
for sparse token selection (arXiv:2406.06893, theorem 1).

Whether true bits raise or lower the answer decides whether attention is drawn to the hidden bits or away from them.
`answer_gap` starts the readout with true bits raising it, and `readout_rate` lets attention form first. `E` is part of keys and
of values, and learns at the full rate.

Source: the single head of arXiv:2110.10090 with a `[CLS]` query; sizes and initial values are ours.
"""

import math

import numpy as np
import torch

from stsq_core.configs import BitAttention
from stsq_core.networks.layers import affine, initial_layer, relu_net, with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import product
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, BooleanExamples, Source

READOUT = ("W_V", "W1", "W2")


class BitAttentionNetwork(Network):
    """Arrays `P` (T, m) of positions, `E` (2, m) of false and true, `c` (1, m), `W_Q, W_K, W_V` (m, m); the net's `W1, W2`.

    A linear readout has `W2` alone. Those of the readout, `W_V`, `W1` and `W2`, are kept divided by `readout_rate`.
    """

    @property
    def model(self) -> BitAttention:
        model = self.configs[0].model
        assert isinstance(model, BitAttention)
        return model

    def initial(self) -> Tensors:
        start, m, model = self.start(), self.model.width, self.model
        rows = {"P": self.task.T, "E": 2, "c": 1}
        parameters = {name: start.normals(f"start {name}", count, m) * model.embedding_scale for name, count in rows.items()}
        for name in ("W_Q", "W_K", "W_V"):
            parameters[name] = start.uniforms(f"start {name}", m, m) / math.sqrt(m)
        if model.mlp_width:
            parameters["W1"] = initial_layer(start, "W1", units=model.mlp_width, inputs=m)
        parameters["W2"] = initial_layer(start, "W2", units=self.examples.output_size, inputs=model.mlp_width or m)
        if model.answer_gap is not None:
            parameters["W2"] = self._raised_by_true_bits(parameters, model.answer_gap)
        return parameters | {name: parameters[name] / model.readout_rate for name in READOUT if name in parameters}

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        is_true = self._is_true(batch)
        parameters = self._at_rate(parameters)
        p = self._attend(parameters, is_true)
        of_true = (p * is_true).sum(-1, keepdim=True)
        kinds = torch.cat([1 - of_true, of_true], -1)
        W_V = parameters["W_V"].mT
        mixed = product(kinds, product(parameters["E"], W_V))
        if self.model.values == "embeddings":
            mixed = product(p, product(parameters["P"], W_V)) + mixed
        layers = [parameters[name] for name in ("W1", "W2") if name in parameters]
        return relu_net(mixed, layers, kernels=self.kernels).unsqueeze(2)

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor | None:
        """The share of attention on the hidden bits, (k, batch)."""
        if not isinstance(self.examples, BooleanExamples):
            return None
        is_true = self._is_true(batch)
        p = self._attend(parameters, is_true).expand_as(is_true)
        return p.gather(2, self.examples.hidden(source).expand(-1, p.shape[1], -1)).sum(-1)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays that are computed with."""
        return super().weights(self._at_rate(parameters), trial)

    def _at_rate(self, parameters: Tensors) -> Tensors:
        return parameters | {name: parameters[name] * self.model.readout_rate for name in READOUT if name in parameters}

    def _raised_by_true_bits(self, parameters: Tensors, gap: float) -> torch.Tensor:
        """`W2` of least norm that answers -gap/2 where all bits are false and gap/2 where all are true, places left out.

        It lies along the difference of what the readout's last layer reads there, and is zero where there is none.
        """
        read = product(parameters["E"], parameters["W_V"].mT)
        if self.model.mlp_width:
            read = affine(with_one(read), parameters["W1"]).relu()
        false, true = read.unbind(1)
        difference = true - false
        norm = difference.square().sum(-1, keepdim=True)
        weights = gap * difference / norm.clamp(min=torch.finfo(norm.dtype).tiny)
        num_read = weights.shape[-1]
        W2 = torch.zeros_like(parameters["W2"])
        W2[:, 0, :num_read] = weights
        W2[:, 0, num_read] = -(weights * (true + false)).sum(-1) / 2
        return W2

    def _is_true(self, batch: Batch) -> torch.Tensor:
        """1 where a bit is +1, and 0, (k, batch, T)."""
        if batch.X.shape[3] != 1:
            raise ValueError(
                f"bit_attention reads bits, one number a token; got d={batch.X.shape[3]}: use kind: transformer_mlp"
            )
        return (batch.X[..., 0] + 1) / 2

    def _attend(self, parameters: Tensors, is_true: torch.Tensor) -> torch.Tensor:
        """Attention weights, (k, batch, T); (k, 1, T) where keys know no bits."""
        query = product(product(parameters["c"], parameters["W_Q"].mT), parameters["W_K"])
        scores = product(parameters["P"], query.mT).mT
        if self.model.keys == "embeddings":
            of_kind = product(parameters["E"], query.mT)
            scores = scores + of_kind[:, :1] + is_true * (of_kind[:, 1:] - of_kind[:, :1])
        return (scores / math.sqrt(self.model.width)).softmax(-1)
