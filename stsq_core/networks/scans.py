"""Recurrent nets along a sequence, with hand-derived gradients: the state's products of all steps are one product at the end.

States are (k, rows, units): the net's own, then a one, which feeds the bias, then zeros up to a whole number of vectors.
Weights `W` are (k, gates x units, units), zero in the rows and all but one of the columns beyond the net's own units; so those
stay zero.

Source: the GRU is `torch.nn.GRU`'s (Cho et al. 2014, arXiv:1406.1078, the reset gate after the product), the others Elman's.
"""

from typing import Any, assert_never

import torch

from stsq_core.configs import Cell
from stsq_core.numerics import product

VECTORS = 32
"""Units are filled up to a multiple of this: elementwise loops then leave nothing over (see `stsq_core.numerics.activations`).
"""


def padded_units(units: int) -> int:
    """Units with the one beside them."""
    return -(-(units + 1) // VECTORS) * VECTORS


def scan(x: torch.Tensor, W: torch.Tensor, *, units: int, cell: Cell, reverse: bool) -> torch.Tensor:
    """The states after each step, (k, T, rows, units padded), from zero.

    Args:
        x: what the inputs add at the gates, (k, T, rows, gates x units padded).
        W: (k, gates x units padded, units padded); the column `units` is the bias.
        units: the net's own.
        cell: gru, whose gates are reset, update and candidate; or relu or tanh, with one.
        reverse: from the last position to the first.
    """
    match cell:
        case "gru":
            found = _Gru.apply(x, W, units, reverse)  # type: ignore[no-untyped-call]
        case "relu" | "tanh":
            found = _Elman.apply(x, W, units, reverse, cell)  # type: ignore[no-untyped-call]
        case _:
            assert_never(cell)
    assert isinstance(found, torch.Tensor)
    return found


def _start(x: torch.Tensor, size: int, units: int) -> torch.Tensor:
    state = x.new_zeros((len(x), x.shape[2], size))
    state[..., units] = 1
    return state


def _order(T: int, reverse: bool) -> list[int]:
    return list(range(T))[::-1] if reverse else list(range(T))


def _befores(states: torch.Tensor, units: int, reverse: bool) -> torch.Tensor:
    """The state before each step."""
    before = torch.empty_like(states)
    first = _start(states, states.shape[-1], units)
    if reverse:
        before[:, :-1], before[:, -1] = states[:, 1:], first
    else:
        before[:, 1:], before[:, 0] = states[:, :-1], first
    return before


def _weight_gradient(slopes: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """`sum slope before^T` over steps and rows, (k, gates x units, units)."""
    return product(slopes.flatten(1, 2).mT, before.flatten(1, 2))


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, W: torch.Tensor, units: int, reverse: bool) -> torch.Tensor:
        k, T, rows, _ = x.shape
        H = W.shape[2]
        states = x.new_empty((k, T, rows, H))
        gates, fed = x.new_empty((3, k, T, rows, H)), x.new_empty((k, T, rows, H))
        h = _start(x, H, units)
        for t in _order(T, reverse):
            fed_r, fed_z, fed_n = product(h, W.mT).chunk(3, -1)
            x_r, x_z, x_n = x[:, t].chunk(3, -1)
            r, z = (x_r + fed_r).sigmoid_(), (x_z + fed_z).sigmoid_()
            fed_n = fed_n.contiguous()
            n = (x_n + r * fed_n).tanh_()
            h = n + z * (h - n)
            h[..., units] = 1
            for store, value in zip((states, *gates, fed), (h, r, z, n, fed_n), strict=True):
                store[:, t] = value
        ctx.save_for_backward(W, states, gates, fed)
        ctx.units, ctx.reverse = units, reverse
        return states

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        (slope,) = outer
        W, states, gates, fed = ctx.saved_tensors
        before = _befores(states, ctx.units, ctx.reverse)
        at_x, at_fed = (slope.new_empty((*fed.shape[:3], W.shape[1])) for _ in range(2))
        carried = torch.zeros_like(fed[:, 0])
        for t in reversed(_order(fed.shape[1], ctx.reverse)):
            r, z, n = gates[:, :, t]
            at_h = slope[:, t] + carried
            at_h[..., ctx.units] = 0
            at_n = at_h * (1 - z) * (1 - n * n)
            at_r = at_n * fed[:, t] * r * (1 - r)
            at_z = at_h * (before[:, t] - n) * z * (1 - z)
            at_x[:, t] = torch.cat([at_r, at_z, at_n], -1)
            here = torch.cat([at_r, at_z, at_n * r], -1)
            at_fed[:, t] = here
            carried = at_h * z + product(here, W)
        return at_x, _weight_gradient(at_fed, before), None, None


class _Elman(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, W: torch.Tensor, units: int, reverse: bool, cell: str) -> torch.Tensor:
        k, T, rows, H = x.shape
        states = x.new_empty((k, T, rows, H))
        h = _start(x, H, units)
        for t in _order(T, reverse):
            h = x[:, t] + product(h, W.mT)
            h = h.tanh_() if cell == "tanh" else h.relu_()
            h[..., units] = 1
            states[:, t] = h
        ctx.save_for_backward(W, states)
        ctx.units, ctx.reverse, ctx.cell = units, reverse, cell
        return states

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        (slope,) = outer
        W, states = ctx.saved_tensors
        at_x = torch.empty_like(states)
        carried = torch.zeros_like(states[:, 0])
        for t in reversed(_order(states.shape[1], ctx.reverse)):
            h, at_h = states[:, t], slope[:, t] + carried
            at_h[..., ctx.units] = 0
            here = at_h * (1 - h * h) if ctx.cell == "tanh" else at_h * (h > 0)
            at_x[:, t] = here
            carried = product(here, W)
        return at_x, _weight_gradient(at_x, _befores(states, ctx.units, ctx.reverse)), None, None, None
