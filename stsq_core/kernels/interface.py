"""What the engine asks of a device: draws, the part of a step that touches every sample, and the optimizer's update.

The words of a draw are those of Philox4x32-7 (Salmon, Moraes, Dror, Shaw 2011, who found no failure of TestU01's BigCrush with
seven rounds or more) under a 64-bit key at the counter `(i, row, 0, 0)`, and every device maps them to numbers in the same way:

- *normals* and *uniforms*: number n of a row comes from the counter `i = 16 (n // 64) + n % 16`, word `n % 64 // 16`; a uniform
  is one word, and words 0, 1 and words 2, 3 make a Box-Muller pair each: the upper 31 bits of the first word are the uniform
  number of the radius; the second, as a signed number, is an angle of at most pi/4 from an axis, its last bit says which axis
  and the bit before on which side;
- *signs*: coordinate e of token t is bit `e % 32` of word `e % 128 // 32` at `i = t`, `row = e // 128`;
- *subsets*: draw j of row b takes two words, from word `2 (j % 2)`, at `i = b`, `row = j // 2`.

So a trial sees the same codes, subsets and tokens on every device and in either precision, up to the rounding of log, sine
and cosine in float32.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from stsq_core.kernels.network_interface import NetworkKernels

DUAL_TOLERANCE = 1e-7
"""Relative size of the least-squares gradient at which the dual query is taken as solved. What is left then is rounding, and
following it would divide by the zero singular values of dependent codes."""


@dataclass(frozen=True)
class StreamKeys:
    """Where the draws of k trials come from: a stream's key for each distinct seed, and each trial's place among them."""

    keys: torch.Tensor
    """int64, shape (n,)."""
    owner: torch.Tensor
    """int64, shape (k,)."""

    @property
    def shared(self) -> bool:
        return len(self.owner) != len(self.keys)

    def spread(self, draws: torch.Tensor) -> torch.Tensor:
        """From one draw a seed to one a trial."""
        return draws.index_select(0, self.owner) if self.shared else draws


@dataclass(frozen=True)
class PopulationStep:
    """With p the attention weights of a sample and `residual = v p - 1_y / q`.

    `squares` is `||residual||^2`, (k, batch). The others are batch means, zero where no gradient is asked for: `shares`, (k,),
    of `<p, residual>`; `G`, (k, Tp, Tp), of `a g^T`, where a spreads the query's coefficients over the tokens and `v d g` is
    the gradient at the scores.
    """

    squares: torch.Tensor
    shares: torch.Tensor
    G: torch.Tensor


@dataclass(frozen=True)
class TokenStep:
    """With r the residual `f - target`, p the attention weights and g the gradient at the scores of a sample.

    `squares` is `||r||^2`, (k, batch). The others are batch means, and zero where no gradient is asked for: `G = a g^T`,
    (k, Tp, Tp), where a spreads the query's coefficients over the tokens; `R = r p^T` and `H = (X g) a^T`, (k, d, Tp);
    `grad_V_x = r (X p)^T`, (k, d, d).
    """

    squares: torch.Tensor
    G: torch.Tensor
    R: torch.Tensor
    H: torch.Tensor
    grad_V_x: torch.Tensor


@dataclass(frozen=True)
class NetStep:
    """With r the residual `f - target` of a sample: `squares` is `||r||^2`, (k, batch), and `gradients` are the batch means of
    the gradients of `||r||^2 / 2` in the shapes of the weights, none where no gradient is asked for.
    """

    squares: torch.Tensor
    gradients: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Rates:
    """One step's numbers for each of k trials, each of shape (k,): see `Kernels.descend`."""

    rate: torch.Tensor
    root: torch.Tensor
    beta1: torch.Tensor
    beta2: torch.Tensor
    eps: torch.Tensor
    adam: torch.Tensor


@dataclass(frozen=True)
class RateTable:
    """The numbers of steps from `first` on: `by_step`, (steps, 2, k), has `rate` and `root` of `Rates`; others hold for all."""

    first: int
    by_step: torch.Tensor
    beta1: torch.Tensor
    beta2: torch.Tensor
    eps: torch.Tensor
    adam: torch.Tensor

    def at(self, step: int) -> Rates:
        """The numbers of a step."""
        rate, root = self.by_step[step - self.first]
        return Rates(rate, root, self.beta1, self.beta2, self.eps, self.adam)


@dataclass(frozen=True)
class NetStreams:
    """Of each distinct seed what the keys of a step's tokens and subsets are made of (`Kernels.keys`), and whose is whose."""

    tokens: torch.Tensor
    subsets: torch.Tensor
    owner: torch.Tensor


@dataclass(frozen=True)
class AttentionStreams:
    """As `NetStreams`; `tokens` is None where X is integrated out, `codes` where the `book` (k, Tp, length) stays, whose random
    signs are else drawn anew with `scale` (k, 1, length).
    """

    tokens: torch.Tensor | None
    subsets: torch.Tensor
    codes: torch.Tensor | None
    owner: torch.Tensor
    book: torch.Tensor
    scale: torch.Tensor


class Kernels(NetworkKernels):
    """One device's implementation.

    The tensors that a step of attention or of a net returns may be written anew by the next such step.
    """

    capturable = False
    """Whether a step's calls can be captured as a CUDA graph."""

    fuses = False
    """Whether there are `connect` and `learn_attention`, and for networks `attend`, `relay` and `net`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @abstractmethod
    def keys(self, bases: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
        """The keys of one step's streams: `mix(base + step)` for the finaliser of `streams.mix`, int64, (n,)."""

    @abstractmethod
    def normals(self, draws: StreamKeys, *, rows: int, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        """Standard normals, (k, rows, numbers)."""

    @abstractmethod
    def uniforms(self, draws: StreamKeys, *, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        """Uniform on (-1, 1), (k, numbers)."""

    @abstractmethod
    def signs(self, draws: StreamKeys, *, tokens: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        """Uniform signs, (k, tokens, length); the first coordinates of a longer draw are those of a shorter one."""

    @abstractmethod
    def subsets(self, draws: StreamKeys, *, rows: int, T: int, q: int) -> torch.Tensor:
        """Uniform q-subsets of [T], int64, (k, rows, q)."""

    @abstractmethod
    def dual(self, codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Coefficients c of the dual query `w = sum_j c_j e_{y_j}`: the least-squares `<e_j, w> = 1` for j in y, of least norm.

        Conjugate gradients on the normal equations, written in the q coefficients and in float64: from zero they stay in the
        span of the members and end after at most q steps, so no inverse of a singular matrix is ever formed.

        Args:
            codes: (k, tokens, d_e).
            y: subsets of the tokens, (k, rows, q).

        Returns:
            Coefficients, (k, rows, q), in the codes' dtype.
        """

    @abstractmethod
    def attend_population(
        self, N: torch.Tensor, v: torch.Tensor, y: torch.Tensor, c: torch.Tensor, *, T: int, gradient: bool
    ) -> PopulationStep:
        """Attention with X integrated out.

        Args:
            N: scores of every token (column) for a query of every single token (row), (k, Tp, Tp).
            v: (k,).
            y: subsets, (k, batch, q).
            c: the queries' coefficients, (k, batch, q).
            T: how many tokens there are.
            gradient: whether more than the squares is wanted.
        """

    @abstractmethod
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
        """Attention over sampled tokens, which are `normals(draws, rows=1, numbers=batch * d * T)`, sample by sample and in
        each one coordinate after another.

        Args:
            draws: of the tokens.
            N, y, c, T, gradient: as in `attend_population`.
            K: `V_e E^T`, what each token's code adds to the output, (k, d, Tp).
            Q: `W_x E^T`, what a query of a single token asks of the tokens' coordinates, (k, d, Tp).
            V_x: (k, d, d).
        """

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
        """A fully connected net of rectified units on sampled tokens, whose target is the mean of the subset's tokens.

        The tokens are `normals(draws, rows=1, numbers=batch * T * d)`, one after another, sample by sample.

        Args:
            draws: of the tokens.
            weights: of each layer, (k, units, columns): what it reads of the layer below, a column for each token where its
                inputs are hot, the bias, and zeros up to whole cache lines; d units in the last.
            y: subsets, (k, batch, q).
            inputs: how many numbers each layer reads of the layer below, `T d` in the first.
            hot: whether a layer reads the subset, too.
            gradient: whether more than the squares is wanted.
            moments, rates: where there are rates, each trial's weights take the step of `descend` while its gradient is in the
                cache, and no gradient is handed back.
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse nets")

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
        """As `net_steps`, each step as `learn_attention` takes it, with `dual` queries or sums."""
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

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
        """What takes so many steps from a step on, each as `connect` takes it, on batches of `rows` samples with subsets of q.

        It hands back the squares of the last. A step of a small net takes less time than the calls that it is made of.
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse nets")

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
        """Attention whose batch shares codes, from the weights to their gradients, a trial at a time.

        Args:
            draws: of the tokens, as in `attend_tokens`; None where X is integrated out.
            codes: (k, Tp, length), zero beyond T.
            weights: `W_x`, (k, d, length), `W_e`, (k, length, length), `V_x`, (k, d, d), and `V_e`, (k, d, length); without
                draws `W_e` and v, (k,), where `squares` is `||v p - 1_y / q||^2` and the gradients are those of `d/2` times its
                mean, that of v without the factor d.
            y, c: as in `attend_population`.
            T, d: how many tokens there are, and how many numbers a token has.
            moments, rates: as in `connect`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not fuse attention")

    @abstractmethod
    def layer(self, values: torch.Tensor, hot: torch.Tensor | None, *, columns: int, rectify: bool) -> torch.Tensor:
        """What a layer of a fully connected net reads: values, hot, a one for the bias, and zeros, (k, rows, columns).

        Args:
            values: (k, rows, units), which may be overwritten; negative ones become zero where `rectify`.
            hot: (k, rows, T), or None.
            columns: more than units and T together.
            rectify: whether values are rectified; NaN stays NaN.
        """

    @abstractmethod
    def descend(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor] | None, rates: Rates
    ) -> None:
        """One update in place: `parameter -= rate * direction`.

        The direction is the gradient, or where `adam` `m / (sqrt(v) / root + eps)` of the moments m and v, which are updated
        too; `rate` and `root` hold the step's bias corrections. Without moments no trial uses Adam.
        """

    def updater(
        self, parameters: Sequence[torch.Tensor], moments: Sequence[tuple[torch.Tensor, torch.Tensor]] | None
    ) -> Callable[[Sequence[torch.Tensor], Rates], None]:
        """An update of all these parameters, again and again in place, from their gradients and a step's rates."""
        pairs = [None] * len(parameters) if moments is None else moments

        def update(gradients: Sequence[torch.Tensor], rates: Rates) -> None:
            for parameter, gradient, pair in zip(parameters, gradients, pairs, strict=True):
                self.descend(parameter, gradient, pair, rates)

        return update
