"""The largest of the selected tokens, coordinate by coordinate, and a net that pools over tokens: a plugin for stsq."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field

from stsq_core.plugins import (
    Architecture,
    Batch,
    Examples,
    Network,
    Source,
    Tensors,
    TokenTask,
    product,
    selected,
)


class SelectedMax(TokenTask):
    """The coordinatewise maximum of the tokens in a random q-subset."""

    kind: Literal["selected_max"] = "selected_max"

    def examples(self) -> "SelectedMaxExamples":
        return SelectedMaxExamples(self)


class SelectedMaxExamples(Examples[SelectedMax]):
    """`x_t ~ N(0, I_d)`, y a uniform q-subset, the target `max_{t in y} x_t`."""

    @property
    def output_size(self) -> int:
        return self.task.d

    @property
    def zero_loss(self) -> float:
        """`d E max(g_1..g_q)^2` for standard normals g, by the midpoint rule."""
        x = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
        density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
        largest = self.task.q * density * torch.special.ndtr(x) ** (self.task.q - 1)
        return self.task.d * float(torch.trapezoid(x.square() * largest, x))

    def batch(self, source: Source, count: int) -> Batch:
        T, q, d = self.task.T, self.task.q, self.task.d
        X = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
        y = source.subsets("subsets", count, T=T, q=q)
        return Batch(X, y.unsqueeze(2), selected(X, y).amax(2, keepdim=True))


class Pooled(Architecture):
    """`f(X, y) = V sum_t relu(W [x_t; is t in y; 1])` with `width` hidden units."""

    kind: Literal["pooled"] = "pooled"
    width: Annotated[int, Field(ge=1)]

    def network(self) -> type[Network]:
        return PooledNetwork


class PooledNetwork(Network):
    """W is (width, d + 2) and V is (d, width)."""

    def initial(self) -> Tensors:
        width, d, start = self.configs[0].model.size, self.task.d, self.start()
        return {
            "W": start.normals("start W", width, d + 2) / math.sqrt(d + 2),
            "V": start.normals("start V", d, width) / math.sqrt(width * self.task.T),
        }

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        k, count, T, d = batch.X.shape
        member = torch.zeros(k, count, T, dtype=batch.X.dtype, device=batch.X.device).scatter_(2, batch.y[:, :, 0], 1.0)
        tokens = torch.cat([batch.X, member.unsqueeze(-1), torch.ones_like(member).unsqueeze(-1)], -1)
        hidden = product(parameters["W"], tokens.view(k, count * T, d + 2).transpose(1, 2).contiguous()).relu()
        pooled = hidden.reshape(k, -1, count, T).sum(-1)
        return product(parameters["V"], pooled).transpose(1, 2).unsqueeze(2)
