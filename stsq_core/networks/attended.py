"""What attention does with the tokens of a batch, as functions with derived gradients on compiled loops.

Plain tensor operations do the same on devices without such loops, and where the query is attended to.
"""

import math
from collections.abc import Sequence
from typing import Any, get_args

import torch

from stsq_core.configs import Scores, missing_case
from stsq_core.kernels import Kernels
from stsq_core.numerics import dot, placeless, product
from stsq_core.programs import SampleBook, Samples, SharedCodes

KINDS = get_args(Scores)


class Weighing:
    """How scores become weights, on one device."""

    def __init__(self, kind: Scores, kernels: Kernels) -> None:
        self.kind, self.kernels = kind, kernels

    def attended(self, samples: Samples, u: torch.Tensor, *, bias: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights p of the columns for directions u, (k, rows, columns), and the context Z p, (k, rows, d + d_e)."""
        if self._is_plain(samples):
            p = self.weights(samples.scores(u), q=samples.y.shape[-1], bias=bias)
            return p, samples.mixture(p)
        return self._attend(samples, None, u, kind=self.kind, bias=bias)

    def learned(
        self,
        samples: Samples,
        target: torch.Tensor,
        W: Sequence[torch.Tensor],
        V: Sequence[torch.Tensor],
        *,
        bias: torch.Tensor | None,
        layers: int,
        rounds: bool,
        mean: float,
    ) -> tuple[torch.Tensor, list[torch.Tensor]] | None:
        """Outputs, (k, rows, size), and the gradients at W, V and bias, by one loop, see `Kernels.learn_heads`.

        None where there is no such loop: it reads codes that samples share and that are not trained.
        """
        codes = samples.codes
        if self._is_plain(samples) or not isinstance(codes, SharedCodes) or (book := codes.dense) is None:
            return None
        all_W, all_V = (own[0].unsqueeze(0) if len(own) == 1 else torch.stack(tuple(own)) for own in (W, V))
        kind, T, q = KINDS.index(self.kind), samples.X.shape[3], samples.y.shape[-1]
        outputs, at_W, at_V, at_scores, at_bias = self.kernels.learn_heads(
            samples.filled_up, book, samples.x_query, samples.y, codes.c, target, all_W, all_V, _numbers(bias, book),
            T=T, kind=kind, q=q, layers=layers, rounds=rounds, mean=mean,
        )  # fmt: skip
        gradients = [*at_W.unbind(), *at_V.unbind()]
        if bias is not None:
            parts = [at_bias.unsqueeze(1)] if layers == 2 else []
            parts += [own.flatten(1).sum(-1, keepdim=True) for own in reversed(at_scores.unbind(0))]
            gradients.append(sum(parts[1:], parts[0]))
        return outputs, gradients

    def scores(self, samples: Samples, u: torch.Tensor) -> torch.Tensor:
        """`Samples.scores`."""
        return samples.scores(u) if self._is_plain(samples) else self._attend(samples, None, u, kind="linear", mixes=False)[0]

    def mixture(self, samples: Samples, p: torch.Tensor) -> torch.Tensor:
        """`Samples.mixture`."""
        return samples.mixture(p) if self._is_plain(samples) else self._attend(samples, p, None, kind="linear")[1]

    def _is_plain(self, samples: Samples) -> bool:
        return samples.attend_query or not self.kernels.fuses

    def weights(self, scores: torch.Tensor, *, q: int, bias: torch.Tensor | None) -> torch.Tensor:
        """`weigh`."""
        return weigh(scores, self.kind, q=q, bias=bias)

    def relayed(
        self, samples: Samples, first: list[torch.Tensor], base: torch.Tensor, a: torch.Tensor, *, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The weights p of a second layer behind one with weights P_h of its own for every token, and `P_h^T p`.

        The scores of answer g are `base_g + sum_h P_h a_gh`.

        Args:
            samples: the columns.
            first: W of each head of the first layer.
            base: (k, rows, G, T).
            a: (k, rows, G, heads, T).
            bias: b of `sigmoid`, in both layers.

        Returns:
            p, (k, rows, G, T), and (k, rows, G, heads, T).
        """
        q, T, d = samples.y.shape[-1], samples.X.shape[3], samples.X.shape[2]
        if self.kernels.fuses and not isinstance(samples.codes, SampleBook):
            E = samples.codes.columns
            asked = [product(W[..., d:].contiguous(), E) for W in first]
            D, L, C, W_x = (
                torch.stack(parts, 1)
                for parts in (
                    [product(own[:, d:].mT, E) for own in asked],
                    [
                        product(W[:, d:].mT.contiguous(), E)[:, :d] for W in first
                    ],  # d rows alone would be added in another order
                    [own[:, :d] for own in asked],
                    [W[:, :d, :d] for W in first],
                )
            )
            wide = E.shape[-1] - T
            inputs = (samples.filled_up, D, L, C, W_x, _padded(base, wide), _padded(a, wide))
            p, v = _Relay.apply(*inputs, bias, T, KINDS.index(self.kind), q, self.kernels)  # type: ignore[no-untyped-call]
            return _cut(p, T), _cut(v, T)
        keys = tokens_of(samples)
        P = [self.weights(_pairwise(keys, W), q=q, bias=bias) for W in first]
        terms = [dot(own.unsqueeze(2), a[:, :, :, h].unsqueeze(3)) for h, own in enumerate(P)]
        p = self.weights(base + sum(terms), q=q, bias=bias)
        mixed = [dot(own.mT.contiguous().unsqueeze(2), p.unsqueeze(3)) for own in P]
        return p, torch.stack(mixed, 3)

    def _attend(
        self,
        samples: Samples,
        scores: torch.Tensor | None,
        u: torch.Tensor | None,
        *,
        kind: Scores,
        bias: torch.Tensor | None = None,
        mixes: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights of `scores + Z^T u`, (k, rows, T), and the columns, or without `mixes` the tokens alone, mixed with them."""
        X, codes = samples.X, samples.codes
        d, T = X.shape[2], X.shape[3]
        book = codes.dense if isinstance(codes, SharedCodes) else None
        if book is None and u is not None:
            own = codes.scores(u[..., d:].contiguous())
            scores, u = own if scores is None else scores + own, u[..., :d]
        inputs = (scores, samples.filled_up, u, book, bias, mixes, T, KINDS.index(kind), samples.y.shape[-1], self.kernels)
        p, c = _Attend.apply(*inputs)  # type: ignore[no-untyped-call]
        if book is None and mixes:
            c = torch.cat([c, codes.mixture(_cut(p, T) if isinstance(codes, SampleBook) else p)], -1)
        return _cut(p, T), c


def tokens_of(samples: Samples) -> torch.Tensor:
    """The columns of Z as rows, (k, rows, T, d + d_e)."""
    k, rows, _, T = samples.X.shape
    codes = samples.codes.codes if isinstance(samples.codes, SampleBook) else samples.codes.rows.unsqueeze(1)
    return torch.cat([samples.X.mT, codes.expand(k, rows, T, -1)], -1)


def weigh(scores: torch.Tensor, kind: Scores, *, q: int, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The weights p of scores along the last axis, of the same shape (`architecture.Scores` says how).

    Args:
        scores: (k, ..., T).
        kind: which attention.
        q: how many scores `top_q` keeps at least.
        bias: b of `sigmoid`, (k, 1).
    """
    match kind:
        case "softmax":
            return scores.softmax(-1)
        case "linear":
            return scores
        case "top_q":
            least = scores.detach().topk(min(q, scores.shape[-1]), -1, sorted=True).values[..., -1:]
            return scores.masked_fill(scores.detach() < least, -math.inf).softmax(-1)
        case "sigmoid":
            assert bias is not None
            return placeless(torch.sigmoid, scores + bias.view(-1, *[1] * (scores.dim() - 1)))
        case _:
            raise missing_case(kind, "stsq_core/networks/attended.py: weigh")


def _pairwise(Z: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    """`<z_s, W z_t>` for columns as rows, (k, rows, T, m): (k, rows, t, s)."""
    k, rows, T, m = Z.shape
    asked = product(Z.view(k, rows * T, m), W.mT).reshape(k * rows, T, m)
    return product(asked, Z.view(k * rows, T, m).mT).view(k, rows, T, T)


def _padded(values: torch.Tensor, rest: int) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, rest)) if rest else values


def _cut(values: torch.Tensor, T: int) -> torch.Tensor:
    return values if values.shape[-1] == T else values[..., :T]


class _Attend(torch.autograd.Function):
    """Weights p, (k, rows, Tp), of `scores + Z^T u`, and `Z p`, where Z has the tokens X, (k, rows, d, Tp), and below them the
    codes of a book, (k, Tp, d_e); without a book, as u has d coordinates, X alone. Without `mixes` the second is None.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor | None, X: torch.Tensor, u: torch.Tensor | None, book: torch.Tensor | None,
        bias: torch.Tensor | None, mixes: bool, T: int, kind: int, q: int, kernels: Kernels,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:  # fmt: skip
        k, rows, d, wide = X.shape
        ctx.set_materialize_grads(False)
        given = X.new_zeros((k, rows, T)) if scores is None else scores.detach()
        asked = None
        if book is not None and u is not None:
            asked = u[..., d:].contiguous()
            own = product(asked, book.mT)
            given = own if scores is None else own.add_(_padded(given, wide - T))
        of_tokens = None if u is None else u.detach()[..., :d]
        p, c = kernels.attend(given.detach(), X, of_tokens, _numbers(bias, X), T=T, kind=kind, q=q, mixes=mixes)
        ctx.save_for_backward(X, book, asked, p)
        ctx.kind, ctx.kernels, ctx.columns = kind, kernels, None if scores is None else scores.shape[-1]
        ctx.asks, ctx.has_bias = u is not None, bias is not None
        return p, torch.cat([c, product(p, book)], -1) if book is not None and c is not None else c

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        X, book, asked, p = ctx.saved_tensors
        (at_p, at_c), d, at_mixed = outer, X.shape[2], None
        if book is not None and at_c is not None:
            at_mixed, at_c = at_c[..., d:].contiguous(), at_c[..., :d]
            own = product(at_mixed, book.mT)
            at_p = own if at_p is None else own.add_(at_p)
        at_scores, at_u = ctx.kernels.attend_back(X, p, at_p, at_c, kind=ctx.kind, asks=ctx.asks)
        at_book = None
        if ctx.needs_input_grad[3]:
            pairs = [(weights, codes) for weights, codes in ((p, at_mixed), (at_scores, asked)) if codes is not None]
            at_book = sum(product(weights.mT, codes) for weights, codes in pairs)
        if asked is not None:
            at_u = torch.cat([at_u, product(at_scores, book)], -1)
        at_bias = at_scores.flatten(1).sum(-1, keepdim=True) if ctx.has_bias else None
        at_given = None if ctx.columns is None else at_scores[..., : ctx.columns]
        return at_given, None, at_u, at_book, at_bias, *[None] * 5


class _Relay(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, X: torch.Tensor, D: torch.Tensor, L: torch.Tensor, C: torch.Tensor, W: torch.Tensor, base: torch.Tensor,
        a: torch.Tensor, bias: torch.Tensor | None, T: int, kind: int, q: int, kernels: Kernels,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        D, L, C, W, base, a = (values.detach().contiguous() for values in (D, L, C, W, base, a))
        P, p, v = kernels.relay(X, D, L, C, W, base, a, _numbers(bias, X), T=T, kind=kind, q=q)
        ctx.save_for_backward(X, L, C, W, a, P, p)
        ctx.T, ctx.kind, ctx.kernels, ctx.has_bias = T, kind, kernels, bias is not None
        return p, v

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        *grads, at_bias = ctx.kernels.relay_back(*ctx.saved_tensors, *outer, T=ctx.T, kind=ctx.kind)
        return None, *grads, at_bias.unsqueeze(1) if ctx.has_bias else None, *[None] * 4


def _numbers(bias: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """One a trial."""
    return like.new_zeros(len(like)) if bias is None else bias.detach().view(-1)
