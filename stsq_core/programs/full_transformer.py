"""The transformer in full on sampled tokens: any start, a query with tokens of its own, attention to the query, trained codes.

`f(X, y) = V Z softmax(Z^T W z_query)`, `Z = [X; E]`, `z_query = [x_query; e_y]`; with `attend_query` Z has z_query as one more
column. W and V are held whole, coordinates ordered [tokens, codes]. With `u = W z_query`, p the attention weights, `c = Z p`,
r the residual and `h = V^T r`, the gradient at the scores is `g = p (Z^T h - <p, Z^T h>)`, and

    W: (Z g) z_query^T    V: r c^T    Z: u g^T + h p^T    z_query: W^T Z g

of which trained codes take the E rows. With `x_query: zero` the X columns of W get exactly zero and keep their initial values.

Source: arXiv:2406.06893, whose figures are of this model. From zero, with the fields of `Transformer` at their defaults, it is
the model of `stsq_core.programs.theorem_transformer`, which takes about half the time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from stsq_core.configs import CHUNK, Learned, Transformer, TrialConfig, padded_tokens
from stsq_core.numerics import Purpose, Step, dot, product
from stsq_core.programs.certificate import through_dual
from stsq_core.programs.codebook import CodeBook, DenseBook, LearnedBook
from stsq_core.programs.program import Tensors
from stsq_core.programs.sample_codes import SampleBook, mixed_tokens, sample_book
from stsq_core.programs.theorem_transformer import TransformerProgram, scores_of_tokens


class SharedCodes:
    """A book that a batch shares, read as a `SampleBook` is: `z` holds the queries e_y, (k, batch, d_e).

    `named` spreads the coefficients c of the queries over the tokens, (k, batch, Tp): `z = named E`.
    """

    def __init__(self, book: CodeBook, y: torch.Tensor, *, T: int) -> None:
        self._book, self._y, self._T = book, y, T
        self.c = book.coefficients(y)

    @cached_property
    def named(self) -> torch.Tensor:
        return self.c.new_zeros((*self._y.shape[:2], padded_tokens(self._T))).scatter_(2, self._y, self.c)

    @cached_property
    def z(self) -> torch.Tensor:
        return self._book.asked(self.named, self._y)

    @property
    def dense(self) -> torch.Tensor | None:
        """The codes as the rows of an array, (k, Tp, d_e), where there is one."""
        return self._book.codes if isinstance(self._book, DenseBook) else None

    @property
    def columns(self) -> torch.Tensor:
        """The codes themselves, (k, d_e, Tp)."""
        if isinstance(self._book, DenseBook):
            return self._book.codes.mT
        k, _, d_e = self.z.shape
        unit = torch.eye(d_e, dtype=self.z.dtype, device=self.z.device).expand(k, -1, -1)
        return self._book.pull(unit)

    @property
    def rows(self) -> torch.Tensor:
        """The codes, (k, T, d_e)."""
        return self.columns[..., : self._T].mT

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        """`<e_t, u>` for one direction a sample, (k, batch, d_e): (k, batch, T)."""
        return self._book.pull(directions)[..., : self._T]

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        """`sum_t p_t e_t` for weights (k, batch, T or Tp): (k, batch, d_e)."""
        rest = padded_tokens(self._T) - weights.shape[-1]
        return self._book.push(torch.nn.functional.pad(weights, (0, rest)) if rest else weights)


@dataclass(frozen=True)
class Samples:
    """A batch: subsets y, (k, batch, q), tokens X, (k, batch, d, T), their codes, and x_query, (k, batch, d).

    The columns are those of Z, and z_query behind them where it is attended to.
    """

    y: torch.Tensor
    X: torch.Tensor
    codes: SharedCodes | SampleBook
    x_query: torch.Tensor
    attend_query: bool

    @cached_property
    def z_query(self) -> torch.Tensor:
        """(k, batch, d + d_e)."""
        return torch.cat([self.x_query, self.codes.z], -1)

    @cached_property
    def filled_up(self) -> torch.Tensor:
        """The tokens with zeros up to Tp, (k, batch, d, Tp)."""
        rest = padded_tokens(T := self.X.shape[3]) - T
        return torch.nn.functional.pad(self.X, (0, rest)) if rest else self.X

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        """Inner products of the columns with one direction a sample, (k, batch, d + d_e): (k, batch, columns)."""
        d = self.X.shape[2]
        scores = self.codes.scores(directions[..., d:].contiguous()) + scores_of_tokens(self.X, directions[..., :d])
        if not self.attend_query:
            return scores
        return torch.cat([scores, dot(self.z_query, directions).unsqueeze(-1)], -1)

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        """The columns mixed with weights (k, batch, columns): (k, batch, d + d_e)."""
        of_tokens = weights[..., : self.X.shape[3]].contiguous()
        mixed = torch.cat([mixed_tokens(self.X, of_tokens), self.codes.mixture(of_tokens)], -1)
        return torch.addcmul(mixed, weights[..., -1:], self.z_query) if self.attend_query else mixed


@dataclass(frozen=True)
class Attended:
    """The forward pass: `u = W z_query`, the weights p, `c = Z p` and the residual f - target."""

    u: torch.Tensor
    p: torch.Tensor
    c: torch.Tensor
    residual: torch.Tensor


class FullTransformer(TransformerProgram):
    """The minibatch objective for every start, query and kind of code."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.model = next(config.model for config in configs if isinstance(config.model, Transformer))
        self.learns_codes = isinstance(self.model.positions, Learned)
        shared = not self.learns_codes and self.model.positions.redraw != "per_sample"
        self._books = self.shared_books() if shared else None

    def initial(self) -> Tensors:
        d, m = self.task.d, self.task.d + self.length
        parameters = {"W": self.zeros(m, m), "V": self.zeros(d, m)}
        if self.model.init == "gaussian":
            parameters = {name: self._gaussian(len(value[0]), place) for place, (name, value) in enumerate(parameters.items())}
            parameters["W"] *= self._own().mT
        if self.learns_codes:
            parameters["E"] = self.codes.rows(self.streams.draws(Purpose.CODES, 0), self.task.T)
        return parameters

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        samples = self._samples(parameters, self.subsets(step), step, T=self.task.T, fresh=False)
        found = self._attend(parameters, samples)
        loss = dot(found.residual, found.residual).sum(-1) * (self.task.q / (self.task.d * self.batch))
        r = found.residual / self.batch
        h = product(r, parameters["V"])
        slopes = samples.scores(h)
        g = found.p * (slopes - dot(found.p, slopes).unsqueeze(-1))
        grad_u = samples.mixture(g)
        gradients = {"W": product(grad_u.mT, samples.z_query), "V": product(r.mT, found.c)}
        if isinstance(samples.codes, SharedCodes) and self.learns_codes:
            gradients["E"] = self._of_codes(parameters, samples, samples.codes, found, h=h, g=g, grad_u=grad_u)
        return loss, gradients

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`||f - target||^2 / (d/q)` on sampled tokens."""
        samples = self._fresh_samples(parameters, chunk, T=T or self.task.T, q=q or self.task.q)
        residual = self._attend(parameters, samples).residual
        return dot(residual, residual) * (samples.y.shape[-1] / self.task.d)

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        """`sum_{t in y} p_t` of the samples of `fresh_losses`, shape (k, CHUNK)."""
        samples = self._fresh_samples(parameters, chunk, T=self.task.T, q=self.task.q)
        return self._attend(parameters, samples).p.gather(2, samples.y).sum(-1)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """`W`, (d+d_e) x (d+d_e), `V`, d x (d+d_e), and, where it is trained, `E`, T x d_e."""
        m = self.configs[trial].width
        arrays = {name: value[trial].cpu().numpy() for name, value in parameters.items()}
        cut = {"W": arrays["W"][:m, :m], "V": arrays["V"][:, :m]}
        if self.learns_codes:
            cut["E"] = arrays["E"][:, : m - self.task.d]
        return {name: array.copy() for name, array in cut.items()}

    def _gaussian(self, rows: int, place: int) -> torch.Tensor:
        """Entries of standard deviation `init_scale`, zero in columns beyond a trial's own; a wider draw begins with these."""
        draws, m = self.streams.draws(Purpose.INIT, place), self.task.d + self.length
        normals = self.kernels.normals(draws, rows=rows, numbers=m, dtype=self.dtype)
        return normals.mul_(self._own()).mul_(self.model.init_scale)

    def _own(self) -> torch.Tensor:
        """One at the coordinates that a trial has, zero beyond: (k, 1, d + length)."""
        return torch.nn.functional.pad(self.codes.own, (self.task.d, 0), value=1.0)

    def _fresh_samples(self, parameters: Tensors, chunk: int, *, T: int, q: int) -> Samples:
        y = self.kernels.subsets(self.streams.draws(Purpose.FRESH_SUBSETS, chunk), rows=CHUNK, T=T, q=q)
        return self._samples(parameters, y, chunk, T=T, fresh=True)

    def _samples(self, parameters: Tensors, y: torch.Tensor, step: Step, *, T: int, fresh: bool) -> Samples:
        (k, count, _), d = y.shape, self.task.d
        codes = self._codes(parameters, y, step, T=T, fresh=fresh)
        tokens = self.streams.draws(Purpose.FRESH_TOKENS if fresh else Purpose.TOKENS, step)
        X = self.kernels.normals(tokens, rows=1, numbers=count * d * T, dtype=self.dtype).view(k, count, d, T)
        x_query = self.zeros(count, d)
        if self.model.x_query == "gaussian":
            queries = self.streams.draws(Purpose.FRESH_QUERIES if fresh else Purpose.QUERIES, step)
            x_query = self.kernels.normals(queries, rows=1, numbers=count * d, dtype=self.dtype).view(k, count, d)
        return Samples(y, X, codes, x_query, self.model.attend_query)

    def _codes(self, parameters: Tensors, y: torch.Tensor, step: Step, *, T: int, fresh: bool) -> SharedCodes | SampleBook:
        if self.learns_codes:
            return SharedCodes(LearnedBook(parameters["E"], T, self.model.positions.query, self.kernels), y, T=T)
        if self._books is None:
            return sample_book(self, y, Purpose.FRESH_CODES if fresh else Purpose.CODES, step, T)
        book = self._books.fresh(int(step), T) if fresh else self._books.training(step)
        return SharedCodes(book, y, T=T)

    def _attend(self, parameters: Tensors, samples: Samples) -> Attended:
        u = product(samples.z_query, parameters["W"].mT)
        p = samples.scores(u).softmax(-1)
        c = samples.mixture(p)
        members = samples.y.unsqueeze(2).expand(-1, -1, self.task.d, -1)
        target = samples.X.gather(3, members).sum(-1) / samples.y.shape[-1]
        return Attended(u, p, c, product(c, parameters["V"].mT) - target)

    def _of_codes(
        self,
        parameters: Tensors,
        samples: Samples,
        codes: SharedCodes,
        found: Attended,
        *,
        h: torch.Tensor,
        g: torch.Tensor,
        grad_u: torch.Tensor,
    ) -> torch.Tensor:
        """The gradient of E, (k, T, d_e): of the codes as columns of Z, and through the queries that they make up."""
        T, d = self.task.T, self.task.d
        grad_z = product(grad_u, parameters["W"])
        if samples.attend_query:
            grad_z = grad_z + g[..., -1:] * found.u + found.p[..., -1:] * h
        asked, rows = codes.named, grad_z[..., d:]
        if self.model.positions.query == "dual":
            asked, rows = through_dual(parameters["E"], samples.y, codes.z, rows)
        over_tokens = torch.cat([g[..., :T], found.p[..., :T], asked[..., :T]], 1)
        return product(over_tokens.mT, torch.cat([found.u[..., d:], h[..., d:], rows], 1))
