"""What the networks need of a device beyond `stsq_core.kernels.interface`: attention, recurrent cells and rectified layers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch


class NetworkKernels(ABC):
    """One device's implementation; `attend`, `relay` and `net` with their gradients only where it fuses (`Kernels.fuses`)."""

    def turned(self, X: torch.Tensor) -> torch.Tensor:
        """The tokens of samples, (k, rows, T, d), a row a coordinate: (k, rows, d, T)."""
        return X.mT.contiguous()

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
        """Weights p of the scores with `X^T u` added, (k, rows, Tp), zero beyond T, and where it `mixes` `X p`, (k, rows, d).

        Args:
            scores: (k, rows, T) or more, of which T count.
            X: tokens, (k, rows, d, Tp), zero beyond T.
            u: (k, rows, d), or None for zero.
            bias: one a trial, added by `sigmoid`.
            T: how many tokens there are.
            kind: the place of the kind of weights in `Scores`.
            q: how many scores `top_q` keeps at least.
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

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
        """The gradients at the scores, (k, rows, Tp), and where it `asks` at u, from those at p and at `X p`, None for zero."""
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

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
        """Attention of all tokens to all, in several heads h, and behind it that of answers g to what they found.

        P_h are the weights of the scores `D_h + X^T L_h + (W_h X + C_h)^T X`, p_g those of `base_g + sum_h P_h a_gh`.

        Args:
            X, bias, T, kind, q: as in `attend`.
            D: (k, heads, Tp, Tp), a row for each token that asks.
            L, C: (k, heads, d, Tp).
            W: (k, heads, d, d).
            base: (k, rows, answers, Tp).
            a: (k, rows, answers, heads, Tp).

        Returns:
            P, (k, rows, heads, T, Tp); p, (k, rows, answers, Tp); and `P_h^T p_g`, (k, rows, answers, heads, Tp).
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

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
        """The gradients at D, L, C, W, base, a and bias from those at p and at `P_h^T p_g`."""
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

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
        """Attention over columns `z_t = [x_t; e_t]` in one layer or two, from weights to their gradients, a trial at a time.

        Args:
            X, bias, T, kind, q: as in `attend`.
            E: codes that a trial's rows share, (k, Tp, d_e).
            x_query, y, c: what the first layer asks with, `[x_query; sum_j c_j e_{y_j}]`: (k, rows, d), and (k, rows, q) each.
            target: (k, rows, size).
            W: (heads, k, m, m) for `m = d + d_e`; of two layers the heads of the first, those of the second, and U of the
                first, one behind another.
            V: of the last layer, (heads, k, size, m).
            layers: 1 or 2.
            rounds: whether products with V round each number before they add it, in four sums for the outputs.
            mean: what the slope at the outputs is times their residual.

        Returns:
            The outputs, (k, rows, size), and the gradients at W, at V, at the scores of the first layer, (heads, k, rows, Tp),
            no rows where the weights have no bias, and at the bias by the second layer and the tokens that it reads, (k,).
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

    @abstractmethod
    def gru(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, kept: torch.Tensor, *, t: int, before: int, units: int
    ) -> None:
        """One step of a GRU: writes the state after it, whose place is the other of t and t + 1, and what `gru_back` needs.

        Args:
            x: what the inputs add at the gates reset, update and candidate, (k, T, rows, 3 H).
            fed: what the state adds, (k, rows, 3 H).
            states: (k, T + 1, rows, H); a one stands at the place `units` of each.
            kept: the gates, and what the state adds at the candidate, (k, T, rows, 4 H).
            t: the step.
            before: the place of the state before it.
            units: the net's own.
        """

    @abstractmethod
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
        """The gradients at x and at fed of a step, (k, T, rows, 3 H), from that at the state after it: what comes from outside,
        `slope`, (k, T, rows, H), what the step after fed back through its product, (k, rows, H), and what it `carried` on.
        """

    @abstractmethod
    def elman(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, *, t: int, before: int, units: int, is_tanh: bool
    ) -> None:
        """One step of an Elman cell of tanh or ReLU, as `gru`."""

    @abstractmethod
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
        """As `gru_back`; the gradient at x is that at fed."""

    def net(
        self, X: torch.Tensor, y: torch.Tensor, weights: Sequence[torch.Tensor], layout: Sequence[tuple[int, int]]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Rectified layers and an affine one behind them, where there is `Kernels.connect`.

        Args:
            X: what the first reads, (k, rows, inputs) or whole cache lines.
            y: columns behind the inputs that hot layers add, int64, (k, rows, q), each once.
            weights: as in `Kernels.connect`.
            layout: of each layer how many numbers it reads of the layer below, and how many columns are behind these.

        Returns:
            The units of each layer but the last, in whole cache lines, and the outputs, (k, rows, size).
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse nets")

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
        """The gradients at X, where it is asked for and has whole cache lines, and at the weights, from that at the outputs."""
        raise NotImplementedError(f"{type(self).__name__} does not fuse nets")
