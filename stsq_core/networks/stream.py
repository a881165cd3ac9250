"""The transformer of one stream: tokens and positions are embedded into the same m coordinates (`configs.StreamTransformer`).

With `h_t = A x_t + b_t` a score is `h_t^T u = x_t^T A^T u + b_t^T u`, u the query `W h_y`, and the mixture `A X p + B^T p`. So
it is attention on the columns `[x_t; b_t]` in the direction `[A^T u; u]`, whose context is mapped into the stream by `[A, I]`.
"""

import math

import torch

from stsq_core.configs import Learned, StreamTransformer, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.networks.attended import Weighing
from stsq_core.networks.attention import Columns, mass
from stsq_core.networks.network import Network
from stsq_core.numerics import Purpose, Streams, product
from stsq_core.programs import Samples, Tensors, codes_for
from stsq_core.tasks import Batch, Source


class StreamNetwork(Network):
    """Arrays `A` (m, d), `W` (m, m), `U` (d, m), and the positions `E` (T, m), of which row t is b_t."""

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        super().__init__(configs, kernels=kernels, streams=streams, dtype=dtype)
        model = configs[0].model
        assert isinstance(model, StreamTransformer)
        self.model, self.m = model, model.width
        positions = Learned(d_e=self.m)
        self._codes = codes_for((positions,) * len(configs), length=self.m, dtype=dtype, kernels=kernels)
        self._columns = Columns(self._codes, positions, T=self.task.T, streams=streams, kernels=kernels)
        self._weighing = Weighing("softmax", kernels)

    def initial(self) -> Tensors:
        d, m, scale = self.task.d, self.m, self.model.init_scale or 0.0
        return {
            "A": self._drawn("A", m, d) / math.sqrt(m),
            "W": self._drawn("W", m, m) * scale,
            "U": self._drawn("U", d, m) * scale,
            **({"E": self._positions()} if self.model.positions == "learned" else {}),
        }

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        _, c = self._attend(parameters, self._samples(parameters, batch, source))
        mixed = product(c[..., : self.task.d].contiguous(), parameters["A"].mT) + c[..., self.task.d :]
        return product(mixed, parameters["U"].mT).view(*batch.target.shape)

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        samples = self._samples(parameters, batch, source)
        p, _ = self._attend(parameters, samples)
        return mass(p, samples.y).view(*batch.target.shape[:3]).mean(-1)

    def _attend(self, parameters: Tensors, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
        u = product(samples.z_query[..., self.task.d :].contiguous(), parameters["W"].mT)
        return self._weighing.attended(samples, torch.cat([product(u, parameters["A"]), u], -1), bias=None)

    def _samples(self, parameters: Tensors, batch: Batch, source: Source) -> Samples:
        E = parameters["E"] if "E" in parameters else self._positions()
        return self._columns.samples({"E": E}, batch, source)

    def _positions(self) -> torch.Tensor:
        return self._codes.rows(self.streams.draws(Purpose.CODES, 0), self.task.T)

    def _drawn(self, name: str, rows: int, columns: int) -> torch.Tensor:
        return self.start().normals(f"start {name}", rows, columns)
