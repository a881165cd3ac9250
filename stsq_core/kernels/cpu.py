"""The kernels of the CPU: thin wrappers that lend the compiled loops the tensors' memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from stsq_core.kernels import attended_loops, compiled, head_loops, network_loops
from stsq_core.kernels.interface import (
    DUAL_TOLERANCE,
    AttentionStreams,
    Kernels,
    NetStep,
    NetStreams,
    PopulationStep,
    Rates,
    RateTable,
    StreamKeys,
    TokenStep,
)
from stsq_core.kernels.plain import layer
from stsq_core.kernels.plain_networks import after_step


class CpuKernels(Kernels):
    """Compiled loops over NumPy views: bit for bit the same for a trial whoever shares its stack."""

    fuses = True

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._steps: dict[object, tuple[tuple[torch.Tensor, ...], tuple[np.ndarray, ...]]] = {}

    def keys(self, bases: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
        keys = torch.empty_like(bases)
        compiled.keys(bases.numpy(), int(step), keys.numpy())
        return keys

    def normals(self, draws: StreamKeys, *, rows: int, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), rows, numbers), dtype=dtype)
        compiled.normals(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def uniforms(self, draws: StreamKeys, *, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), numbers), dtype=dtype)
        compiled.uniforms(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def signs(self, draws: StreamKeys, *, tokens: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), tokens, length), dtype=dtype)
        compiled.signs(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def subsets(self, draws: StreamKeys, *, rows: int, T: int, q: int) -> torch.Tensor:
        out = torch.empty((len(draws.keys), rows, q), dtype=torch.int64)
        compiled.subsets(draws.keys.numpy(), T, out.numpy())
        return draws.spread(out)

    def dual(self, codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(y.shape, dtype=codes.dtype)
        compiled.dual(codes.numpy(), y.numpy(), DUAL_TOLERANCE, out.numpy())
        return out

    def attend_population(
        self, N: torch.Tensor, v: torch.Tensor, y: torch.Tensor, c: torch.Tensor, *, T: int, gradient: bool
    ) -> PopulationStep:
        outputs, arrays = self._zeros(("population", gradient), y.shape[:2], v.shape, N.shape, dtype=N.dtype, written=gradient)
        compiled.attend_population(*_arrays(N, v, y, c), T, gradient, *arrays)
        return PopulationStep(*outputs)

    def attend_tokens(
        self,
        draws: StreamKeys,
        N: torch.Tensor,
        K: torch.Tensor,
        Q: torch.Tensor,
        V_x: torch.Tensor,
        y: torch.Tensor,
        c: torch.Tensor,
        *,
        T: int,
        gradient: bool,
    ) -> TokenStep:
        shapes = (y.shape[:2], N.shape, K.shape, Q.shape, V_x.shape)
        outputs, arrays = self._zeros(("tokens", gradient), *shapes, dtype=N.dtype, written=gradient)
        inputs = _arrays(draws.keys, draws.owner, N, K, Q, V_x, y, c)
        compiled.attend_tokens(*inputs, T, gradient, *arrays)
        return TokenStep(*outputs)

    def connect(
        self,
        draws: StreamKeys,
        weights: Sequence[torch.Tensor],
        y: torch.Tensor,
        *,
        inputs: Sequence[int],
        hot: Sequence[bool],
        gradient: bool,
        moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None,
        rates: Rates | None = None,
    ) -> NetStep:
        moves, layout = rates is not None, _layout(weights, inputs, hot)
        shapes = y.shape[:2], *((1 if moves else len(y), *layer.shape[1:]) for layer in weights)
        kind = ("net", gradient, moves)
        (squares, *gradients), (sums, *outputs) = self._held(kind, *shapes, dtype=weights[0].dtype, written=gradient)
        m, v, numbers = _moving(weights, moments, rates)
        addresses = _addresses(_flat(weights), outputs, m, v)
        compiled.connect(*_arrays(draws.keys, draws.owner, y), addresses, layout, gradient, sums, moves, numbers)
        return NetStep(squares, tuple(gradients) if gradient and not moves else ())

    def attention_steps(
        self,
        streams: AttentionStreams,
        weights: Sequence[torch.Tensor],
        *,
        rows: int,
        T: int,
        q: int,
        d: int,
        is_dual: bool,
        moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None,
        rates: RateTable,
    ) -> Callable[[int, int], torch.Tensor]:
        squares, y, learnt = _learnt(weights, moments, rates, rows=rows, q=q)
        c, E = squares.new_ones(y.shape).numpy(), streams.book.clone().numpy()
        codes = np.zeros(0, np.int64) if streams.codes is None else streams.codes.numpy()
        drawn, scale = _arrays(streams.subsets, streams.owner), streams.scale.flatten(1).numpy()
        take = compiled.population_steps
        if streams.tokens is not None:
            take, drawn = compiled.token_steps, (streams.tokens.numpy(), *drawn)

        def run(step: int, count: int) -> torch.Tensor:
            take(*drawn, step, count, T, d, codes, scale, E, is_dual, DUAL_TOLERANCE, y, c, *learnt)
            return squares

        return run

    def net_steps(
        self,
        streams: NetStreams,
        weights: Sequence[torch.Tensor],
        *,
        rows: int,
        q: int,
        inputs: Sequence[int],
        hot: Sequence[bool],
        moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None,
        rates: RateTable,
    ) -> Callable[[int, int], torch.Tensor]:
        squares, y, (flat, sums, *learnt) = _learnt(weights, moments, rates, rows=rows, q=q)
        trained, numbers = learnt[:3], learnt[3:]
        T, layout, drawn = inputs[0] // weights[-1].shape[1], _layout(weights, inputs, hot), _arrays(*vars(streams).values())

        def run(step: int, count: int) -> torch.Tensor:
            compiled.connect_steps(*drawn, step, count, T, layout, y, _addresses(flat, *trained), sums, *numbers)
            return squares

        return run

    def learn_attention(
        self,
        draws: StreamKeys | None,
        codes: torch.Tensor,
        weights: Sequence[torch.Tensor],
        y: torch.Tensor,
        c: torch.Tensor,
        *,
        T: int,
        d: int,
        moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None,
        rates: Rates | None = None,
    ) -> NetStep:
        moves = rates is not None
        shapes = y.shape[:2], *((1 if moves else len(y), *weight.shape[1:]) for weight in weights)
        outputs, (sums, *gradients) = self._held(("learnt", draws is None, moves), *shapes, dtype=codes.dtype, written=True)
        streams, learn = (
            ((), compiled.learn_population) if draws is None else ((draws.keys, draws.owner), compiled.learn_tokens)
        )
        learn(
            *_arrays(*streams, codes, y, c), T, d, _flat(weights), sums, tuple(array.reshape(-1) for array in gradients), moves,
            *_moving(weights, moments, rates),
        )  # fmt: skip
        return NetStep(outputs[0], () if moves else outputs[1:])

    def turned(self, X: torch.Tensor) -> torch.Tensor:
        k, rows, T, d = X.shape
        out = X.new_empty((k, rows, d, T))
        attended_loops.turn(*_arrays(X, out))
        return out

    def attend(
        self,
        scores: torch.Tensor,
        X: torch.Tensor,
        u: torch.Tensor | None,
        bias: torch.Tensor,
        *,
        T: int,
        kind: int,
        q: int,
        mixes: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        p, c = X.new_empty((*X.shape[:2], X.shape[3])), X.new_empty(X.shape[:3]) if mixes else None
        attended_loops.attend(*_arrays(scores, X, *_given(X, u)), T, kind, q, *_arrays(bias, p, *_given(X, c)))
        return p, c

    def attend_back(
        self,
        X: torch.Tensor,
        p: torch.Tensor,
        grad_p: torch.Tensor | None,
        grad_c: torch.Tensor | None,
        *,
        kind: int,
        asks: bool,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        at_scores, at_u = torch.empty_like(p), X.new_empty(X.shape[:3]) if asks else None
        inputs = _arrays(X, p, *_given(X, grad_p, grad_c))
        attended_loops.attend_back(*inputs, kind, *_arrays(at_scores, *_given(X, at_u)))
        return at_scores, at_u

    def relay(
        self,
        X: torch.Tensor,
        D: torch.Tensor,
        L: torch.Tensor,
        C: torch.Tensor,
        W: torch.Tensor,
        base: torch.Tensor,
        a: torch.Tensor,
        bias: torch.Tensor,
        *,
        T: int,
        kind: int,
        q: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        P = X.new_empty((*X.shape[:2], D.shape[1], T, X.shape[3]))
        p, v = torch.empty_like(base), torch.empty_like(a)
        attended_loops.relay(*_arrays(X, D, L, C, W, base, a), T, kind, q, *_arrays(bias, P, p, v))
        return P, p, v

    def relay_back(
        self,
        X: torch.Tensor,
        L: torch.Tensor,
        C: torch.Tensor,
        W: torch.Tensor,
        a: torch.Tensor,
        P: torch.Tensor,
        p: torch.Tensor,
        grad_p: torch.Tensor,
        grad_v: torch.Tensor,
        *,
        T: int,
        kind: int,
    ) -> tuple[torch.Tensor, ...]:
        k, heads, wide = len(X), W.shape[1], X.shape[3]
        at_D, at_bias = X.new_zeros((k, heads, wide, wide)), X.new_zeros(k)
        grads = (at_D, *(torch.zeros_like(values) for values in (L, C, W, p, a)), at_bias)
        attended_loops.relay_back(*_arrays(X, L, C, W, a, P, p, grad_p, grad_v), T, kind, *_arrays(*grads))
        return grads

    def learn_heads(
        self,
        X: torch.Tensor,
        E: torch.Tensor,
        x_query: torch.Tensor,
        y: torch.Tensor,
        c: torch.Tensor,
        target: torch.Tensor,
        W: torch.Tensor,
        V: torch.Tensor,
        bias: torch.Tensor,
        *,
        T: int,
        kind: int,
        q: int,
        layers: int,
        rounds: bool,
        mean: float,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        slopes = X.new_empty((len(V), len(X), X.shape[1] if kind == attended_loops.SIGMOID else 0, X.shape[3]))
        found = X.new_empty(target.shape), torch.empty_like(W), torch.empty_like(V), slopes, X.new_zeros(len(X))
        inputs, outputs = _arrays(X, E, x_query, y, c, target, W, V, bias), _arrays(*found)
        head_loops.learn_heads(*inputs, T, kind, q, layers, rounds, inputs[0].dtype.type(mean), *outputs)
        return found

    def gru(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, kept: torch.Tensor, *, t: int, before: int, units: int
    ) -> None:
        network_loops.gru(*_arrays(x.detach(), fed, states, kept), t, before, after_step(t, before), units)

    def gru_back(
        self,
        slope: torch.Tensor,
        fed_back: torch.Tensor,
        carried: torch.Tensor,
        states: torch.Tensor,
        kept: torch.Tensor,
        at_x: torch.Tensor,
        at_fed: torch.Tensor,
        *,
        t: int,
        before: int,
        units: int,
    ) -> None:
        network_loops.gru_back(*_arrays(slope, fed_back, carried, states, kept, at_x, at_fed), t, before, units)

    def elman(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, *, t: int, before: int, units: int, is_tanh: bool
    ) -> None:
        network_loops.elman(*_arrays(x.detach(), fed, states), t, after_step(t, before), units, is_tanh)

    def elman_back(
        self,
        slope: torch.Tensor,
        fed_back: torch.Tensor,
        states: torch.Tensor,
        at_x: torch.Tensor,
        *,
        t: int,
        before: int,
        units: int,
        is_tanh: bool,
    ) -> None:
        network_loops.elman_back(*_arrays(slope, fed_back, states, at_x), t, after_step(t, before), units, is_tanh)

    def net(
        self, X: torch.Tensor, y: torch.Tensor, weights: Sequence[torch.Tensor], layout: Sequence[tuple[int, int]]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        line = 64 // X.itemsize
        h = [X.new_empty((*X.shape[:2], -(-W.shape[1] // line) * line)) for W in weights[:-1]]
        outputs = X.new_empty((*X.shape[:2], weights[-1].shape[1]))
        network_loops.net(*_arrays(X, y), _flat(weights), _table(weights, layout), _arrays(*h), outputs.numpy())
        return h, outputs

    def net_back(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        weights: Sequence[torch.Tensor],
        layout: Sequence[tuple[int, int]],
        h: Sequence[torch.Tensor],
        slope: torch.Tensor,
        *,
        at_inputs: bool,
    ) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
        gradients = [torch.empty_like(W) for W in weights]
        at_X = torch.zeros_like(X) if at_inputs else X.new_empty((0, *X.shape[1:]))
        table = _table(weights, layout)
        network_loops.net_back(
            *_arrays(X, y), _flat(weights), table, _arrays(*h), *_arrays(slope), _flat(gradients), at_X.numpy()
        )  # fmt: skip
        return at_X if at_inputs else None, gradients

    def layer(self, values: torch.Tensor, hot: torch.Tensor | None, *, columns: int, rectify: bool) -> torch.Tensor:
        return layer(values, hot, columns=columns, rectify=rectify)

    def descend(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor] | None, rates: Rates
    ) -> None:
        self.updater([parameter], None if moments is None else [moments])([gradient], rates)

    def updater(
        self, parameters: Sequence[torch.Tensor], moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None
    ) -> Callable[[Sequence[torch.Tensor], Rates], None]:
        rows = tuple(_rows(parameter) for parameter in parameters)
        pairs = None if moments is None else [(_rows(m), _rows(v)) for m, v in moments]

        def update(gradients: Sequence[torch.Tensor], rates: Rates) -> None:
            if pairs is None:
                rate = rates.rate.numpy()
                for parameter, gradient in zip(rows, gradients, strict=True):
                    compiled.descend(_rows(gradient.contiguous()), parameter, rate)
                return
            numbers = [vector.numpy() for vector in vars(rates).values()]
            for parameter, gradient, pair in zip(rows, gradients, pairs, strict=True):
                compiled.descend_with_moments(_rows(gradient.contiguous()), parameter, *pair, *numbers)

        return update

    def _zeros(
        self, kind: object, *shapes: tuple[int, ...], dtype: torch.dtype, written: bool
    ) -> tuple[tuple[torch.Tensor, ...], tuple[np.ndarray, ...]]:
        """The tensors and arrays of `_held`, full of zeros."""
        held = self._held(kind, *shapes, dtype=dtype, written=written)
        # Kept between steps: memory that is new in every step costs more than the zeros.
        for array in held[1]:
            array.fill(0)
        return held

    def _held(
        self, kind: object, *shapes: tuple[int, ...], dtype: torch.dtype, written: bool
    ) -> tuple[tuple[torch.Tensor, ...], tuple[np.ndarray, ...]]:
        """The tensors that a kind of step writes, and their arrays; where only the first is written, the others are one number
        each, the tensors seen in their shapes.
        """
        key = (kind, shapes, dtype)
        if key not in self._steps:
            held = [shape if written or place == 0 else (1,) * len(shape) for place, shape in enumerate(shapes)]
            tensors = tuple(torch.empty(shape, dtype=dtype) for shape in held)
            seen = tuple(tensor.expand(shape) for tensor, shape in zip(tensors, shapes, strict=True))
            self._steps[key] = seen, _arrays(*tensors)
        return self._steps[key]


def _arrays(*tensors: torch.Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.contiguous().numpy() for tensor in tensors)


def _given(like: torch.Tensor, *tensors: torch.Tensor | None) -> list[torch.Tensor]:
    """Tensors of three axes, empty where there is none."""
    return [like.new_empty((0, 0, 0)) if tensor is None else tensor for tensor in tensors]


def _table(weights: Sequence[torch.Tensor], layout: Sequence[tuple[int, int]]) -> np.ndarray:
    return np.array([(*W.shape[1:], *read) for W, read in zip(weights, layout, strict=True)])


def _flat(tensors: Sequence[torch.Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(tensor.view(-1).numpy() for tensor in tensors)


def _addresses(*arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Of each layer the addresses of its weights, its gradient and its moments, which the caller holds."""
    return np.array([[array.ctypes.data for array in layer] for layer in zip(*arrays, strict=True)])


def _layout(weights: Sequence[torch.Tensor], inputs: Sequence[int], hot: Sequence[bool]) -> np.ndarray:
    """Of each layer its units, its columns, what it reads of the layer below, and the tokens that it reads."""
    T = inputs[0] // weights[-1].shape[1]
    return _table(weights, [(below, T * is_hot) for below, is_hot in zip(inputs, hot, strict=True)])


def _learnt(
    weights: Sequence[torch.Tensor],
    moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None,
    rates: RateTable,
    *,
    rows: int,
    q: int,
) -> tuple[torch.Tensor, np.ndarray, tuple[Any, ...]]:
    """What steps in one call write: the squares, (k, rows); the subsets, (k, rows, q); and in the order of the loops' arguments
    weights, squares, the gradients of one trial, moments and rates.
    """
    squares = weights[0].new_empty((len(weights[0]), rows))
    flat, sums = _flat(weights), squares.numpy()
    gradients = tuple(np.empty(weight[0].numel(), sums.dtype) for weight in weights)
    first, *tables = vars(rates).values()
    numbers = (first, *(table.numpy() for table in tables))
    return squares, np.empty((*squares.shape, q), np.int64), (flat, sums, gradients, *_halves(flat, moments), *numbers)


def _halves(
    flat: tuple[np.ndarray, ...], moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None
) -> tuple[tuple[np.ndarray, ...], ...]:
    """First and second moments, flat; something of their types where there are none."""
    return (flat, flat) if moments is None else tuple(_flat(half) for half in zip(*moments, strict=True))


def _moving(
    weights: Sequence[torch.Tensor], moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None, rates: Rates | None
) -> tuple[tuple[np.ndarray, ...], ...]:
    """First and second moments, flat, and the numbers of a step; something of their types where there are none."""
    flat = _flat(weights)
    none = (*[np.zeros(0, flat[0].dtype)] * 5, np.zeros(0, np.bool_))
    return *_halves(flat, moments), none if rates is None else tuple(vector.numpy() for vector in vars(rates).values())


def _rows(tensor: torch.Tensor) -> np.ndarray:
    """A trial a row, as a view where the tensor is contiguous."""
    return tensor.reshape(len(tensor), -1).numpy()
