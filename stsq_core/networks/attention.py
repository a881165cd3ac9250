"""Attention of any kind on any task: scores, rank, heads and layers as `configs.Attention` declares, and `Transformer`.

Arrays of one head are named as in the papers, `W` and `V`; those of several are numbered. With a rank, W is held as its factors
`A` and `B`, and of two layers the first has `W_1` (or factors) and `U`.

Every output is a sample of its own: where a task asks for R outputs a sample, its tokens stand R times. Codes and draws are
those of `stsq_core.programs.full_transformer`, whose `Samples` these are.

Source: arXiv:2406.06893 for one layer of softmax; the other kinds are the usual ones (docs/attention.md).
"""

import math
from collections.abc import Iterator

import numpy as np
import torch

from stsq_core.configs import Attention, Learned, PositionalCode, Transformer, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.networks.attended import Weighing
from stsq_core.networks.network import Network
from stsq_core.numerics import Purpose, Streams, product
from stsq_core.programs import BookSource, Codes, LearnedBook, SampleBook, Samples, SharedCodes, Tensors, codes_for
from stsq_core.tasks import Batch, Source

_ROUNDS: dict[object, bool | None] = {}
"""How `AttentionNetwork.learned` rounds, by the numbers that choose the order of torch's products."""


class AttentionNetwork(Network):
    """k models of one record."""

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        super().__init__(configs, kernels=kernels, streams=streams, dtype=dtype)
        match configs[0].model:
            case Attention() as model:
                self.model, asks = model, {}
            case Transformer() as model:
                self.model = Attention(positions=model.positions)
                asks = {"x_query": model.x_query == "gaussian", "attend_query": model.attend_query}
            case other:
                raise TypeError(f"not a model of attention: {other.kind}")
        self.weighing = Weighing(self.model.scores, kernels)
        self._scale = model.init_scale if model.init == "gaussian" else 0.0
        d_e = model.positions.d_e
        self.codes = codes_for((model.positions,) * len(configs), length=d_e, dtype=dtype, kernels=kernels)
        self.m = self.task.d + d_e
        self.columns = Columns(
            self.codes, model.positions, T=self.task.T, streams=streams, kernels=kernels, **asks
        )  # fmt: skip

    def initial(self) -> Tensors:
        parameters = {name: self._drawn(place, *shape) for place, (name, shape) in enumerate(self._shapes().items())}
        if self.model.scores == "sigmoid":
            parameters["b"] = torch.full(
                (len(self.configs), 1), -math.log(self.task.T), dtype=self.dtype, device=self.kernels.device
            )
        if isinstance(self.model.positions, Learned):
            parameters["E"] = self.codes.rows(self.streams.draws(Purpose.CODES, 0), self.task.T)
        return parameters

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        samples = self.columns.samples(parameters, batch, source)
        answer = sum(product(c, parameters[f"V{h}"].mT) for h, _, c in self._heads(parameters, samples))
        assert isinstance(answer, torch.Tensor)
        return answer.view(*batch.target.shape)

    def learned(self, parameters: Tensors, batch: Batch, source: Source) -> tuple[torch.Tensor, Tensors]:
        """By one loop where it has autograd's bits, or by autograd."""
        key = self.model, self.task, tuple(batch.target.shape[1:]), self.weighing.kernels.fuses, self.dtype
        if key not in _ROUNDS:
            _ROUNDS[key] = self._rounds(parameters, batch, source)
        rounds = _ROUNDS[key]
        found = None if rounds is None else self._learned(parameters, batch, source, rounds=rounds)
        return super().learned(parameters, batch, source) if found is None else found

    def _rounds(self, parameters: Tensors, batch: Batch, source: Source) -> bool | None:
        """Which of the loop's ways has autograd's bits on this machine, tried with random weights; None for neither."""
        generator = torch.Generator().manual_seed(0)
        drawn = {
            name: torch.randn(value.shape, generator=generator, dtype=self.dtype).mul_(value.shape[-1] ** -0.5)
            for name, value in parameters.items()
        }
        for rounds in (False, True):
            found = self._learned(drawn, batch, source, rounds=rounds)
            if found is None:
                return None
            outputs, gradients = super().learned(drawn, batch, source)
            if torch.equal(found[0], outputs) and all(torch.equal(found[1][name], own) for name, own in gradients.items()):
                return rounds
        return None

    def _learned(
        self, parameters: Tensors, batch: Batch, source: Source, *, rounds: bool
    ) -> tuple[torch.Tensor, Tensors] | None:
        if self.model.rank is not None or not self.kernels.fuses or not self.examples.descends_squares or "E" in parameters:
            return None
        if self.dtype != torch.float32:  # whose products have another order in torch
            return None
        kinds = ("W",) if self.model.layers == 1 else ("W_1", "W", "U")
        W, V = ([f"{kind}{h}" for kind in own for h in self._suffixes()] for own in (kinds, ("V",)))
        samples, bias = self.columns.samples(parameters, batch, source), parameters.get("b")
        found = self.weighing.learned(
            samples, batch.target.flatten(1, 2), [parameters[name] for name in W], [parameters[name] for name in V], bias=bias,
            layers=self.model.layers, rounds=rounds, mean=1 / batch.target.shape[1],
        )  # fmt: skip
        if found is None:
            return None
        outputs, gradients = found
        names = [*W, *V, *([] if bias is None else ["b"])]
        return outputs.view(*batch.target.shape), dict(zip(names, gradients, strict=True))

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        """Of the layer that answers, the mean over heads and outputs; of absolute weights where some are negative."""
        samples = self.columns.samples(parameters, batch, source)
        masses = [mass(p, samples.y) for _, p, _ in self._heads(parameters, samples)]
        return torch.stack(masses).mean(0).view(*batch.target.shape[:3]).mean(-1)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays of one trial, with `W = A B^T` beside its factors."""
        arrays = super().weights(parameters, trial)
        factors = [name for name in arrays if name.startswith("A")]
        return arrays | {f"W{name[1:]}": arrays[name] @ arrays[f"B{name[1:]}"].T for name in factors}

    def _heads(self, parameters: Tensors, samples: Samples) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Each head's suffix, its weights p, (k, rows, columns), and its context Z p, (k, rows, m)."""
        if self.model.layers == 2:
            yield from self._second_layer(parameters, samples)
            return
        for h in self._suffixes():
            u = self._asked(parameters, h, samples.z_query)
            yield h, *self.weighing.attended(samples, u, bias=parameters.get("b"))

    def _second_layer(self, parameters: Tensors, samples: Samples) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        """Heads of columns `z_t + sum_h U_h Z p_ht`, which are not written down: inner products with u are those of Z with u
        and of Z p_ht with `U_h^T u`; a mixture by p is that of Z by p, and `U_h Z` times that of the p_ht by p.
        """
        heads, z, bias = self._suffixes(), samples.z_query, parameters.get("b")
        for h in heads:
            _, c = self.weighing.attended(samples, self._asked(parameters, f"_1{h}", samples.z_query), bias=bias)
            z = z + product(c, parameters[f"U{h}"].mT)
        base, a = [], []
        for g in heads:
            u = self._asked(parameters, g, z)
            base.append(self.weighing.scores(samples, u))
            a.append(torch.stack([self.weighing.scores(samples, product(u, parameters[f"U{h}"])) for h in heads], 2))
        first = [self._matrix(parameters, f"_1{h}") for h in heads]
        p, mixed = self.weighing.relayed(samples, first, torch.stack(base, 2), torch.stack(a, 2), bias=bias)
        for place, g in enumerate(heads):
            c = self.weighing.mixture(samples, p[:, :, place])
            for n, h in enumerate(heads):
                c = c + product(self.weighing.mixture(samples, mixed[:, :, place, n]), parameters[f"U{h}"].mT)
            yield g, p[:, :, place], c

    def _matrix(self, parameters: Tensors, name: str) -> torch.Tensor:
        if self.model.rank is None:
            return parameters[f"W{name}"]
        return product(parameters[f"A{name}"], parameters[f"B{name}"].mT)

    def _asked(self, parameters: Tensors, name: str, z: torch.Tensor) -> torch.Tensor:
        """`W z` for rows z, (k, rows, m)."""
        if self.model.rank is None:
            return product(z, parameters[f"W{name}"].mT)
        return product(product(z, parameters[f"B{name}"]), parameters[f"A{name}"].mT)

    def _suffixes(self) -> list[str]:
        return [""] if self.model.heads == 1 else [str(h) for h in range(1, self.model.heads + 1)]

    def _shapes(self) -> dict[str, tuple[int, int]]:
        """The arrays by name, (rows, columns)."""
        m, shapes = self.m, dict[str, tuple[int, int]]()
        for h in self._suffixes():
            for name in (h, f"_1{h}")[: self.model.layers]:
                if self.model.rank is None:
                    shapes[f"W{name}"] = (m, m)
                else:
                    shapes |= {f"A{name}": (m, self.model.rank), f"B{name}": (m, self.model.rank)}
            shapes[f"V{h}"] = (self.examples.output_size, m)
            if self.model.layers == 2:
                shapes[f"U{h}"] = (m, m)
        return shapes

    def _drawn(self, place: int, rows: int, columns: int) -> torch.Tensor:
        """Zeros, or entries of standard deviation `init_scale`: W and V of the first head are those of `FullTransformer`."""
        draws = self.streams.draws(Purpose.INIT, place)
        return self.kernels.normals(draws, rows=rows, numbers=columns, dtype=self.dtype).mul_(self._scale)


class Columns:
    """Makes the `Samples` of batches; `books` are those of codes that a batch shares, None where it shares none."""

    def __init__(
        self,
        codes: Codes,
        positions: PositionalCode,
        *,
        T: int,
        streams: Streams,
        kernels: Kernels,
        x_query: bool = False,
        attend_query: bool = False,
    ) -> None:
        self._codes, self._positions, self._kernels = codes, positions, kernels
        self._x_query, self._attend_query = x_query, attend_query
        shared = positions.redraw != "per_sample" and not isinstance(positions, Learned)
        self._books = BookSource(codes, positions, T=T, streams=streams, kernels=kernels) if shared else None

    def samples(self, parameters: Tensors, batch: Batch, source: Source) -> Samples:
        """The columns of a batch, k trials of batch R rows."""
        assert batch.y is not None  # stsq_core.configs.compatibility refuses the others
        k, count, R, q = batch.y.shape
        y, X = batch.y.reshape(k, count * R, q), self._kernels.turned(batch.X)
        if R > 1:
            X = X.unsqueeze(2).expand(-1, -1, R, -1, -1).flatten(1, 2)
        codes = self._read(parameters, y, source, T=X.shape[3])
        x_query = X.new_zeros((k, count * R, X.shape[2]))
        if self._x_query:
            x_query = source.normals("queries", 1, x_query[0].numel()).view_as(x_query)
        return Samples(y, X, codes, x_query, self._attend_query)

    def _read(self, parameters: Tensors, y: torch.Tensor, source: Source, *, T: int) -> SharedCodes | SampleBook:
        if isinstance(self._positions, Learned):
            return SharedCodes(LearnedBook(parameters["E"], T, self._positions.query, self._kernels), y, T=T)
        if self._books is None:
            return SampleBook(self._codes, self._positions.query, source.draws("codes"), y, T=T)
        book = self._books.fresh(int(source.step), T) if source.fresh else self._books.training(source.step)
        return SharedCodes(book, y, T=T)


def mass(weights: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The share of the weights' absolute sum that lies on y, (k, rows), for weights (k, rows, columns) and y (k, rows, q)."""
    size = weights.abs()
    return size.gather(2, y).sum(-1) / size.sum(-1).clamp_min(torch.finfo(size.dtype).tiny)
