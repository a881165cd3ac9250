"""The columns Z = [X; E] of a batch and the queries in them, for any attention network on any task that shows y.

Every output is a sample of its own: where a task asks for R outputs a sample, its tokens stand R times. Codes and draws are
those of `stsq_core.programs.minibatch_transformer`, whose `Samples` these are.
"""

import torch

from stsq_core.configs import Learned, Positions, UserError, padded_tokens
from stsq_core.kernels import Kernels
from stsq_core.numerics import Streams
from stsq_core.programs import BookSource, CodeBook, Codes, DenseBook, SampleBook, Samples, SharedCodes, Tensors
from stsq_core.tasks import Batch, Source


class Columns:
    """Makes the `Samples` of batches; `books` are those of codes that a batch shares, None where it shares none."""

    def __init__(
        self,
        codes: Codes,
        positions: Positions,
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
        y, X = batch.y.reshape(k, count * R, q), batch.X.mT
        if R > 1:
            X = X.unsqueeze(2).expand(-1, -1, R, -1, -1).flatten(1, 2)
        codes = self._read(parameters, y, source, T=X.shape[3])
        x_query = codes.z.new_zeros((k, count * R, X.shape[2]))
        if self._x_query:
            x_query = source.normals("queries", count * R, X.shape[2])
        return Samples(y, X.contiguous(), codes, torch.cat([x_query, codes.z], -1), self._attend_query)

    def _read(self, parameters: Tensors, y: torch.Tensor, source: Source, *, T: int) -> SharedCodes | SampleBook:
        if isinstance(self._positions, Learned):
            return SharedCodes(self._learned(parameters["E"], T), y, T=T)
        if self._books is None:
            return SampleBook(self._codes, self._positions.query, source.draws("codes"), y, T=T)
        book = self._books.fresh(int(source.step), T) if source.fresh else self._books.training(source.step)
        return SharedCodes(book, y, T=T)

    def _learned(self, E: torch.Tensor, T: int) -> CodeBook:
        if (trained := E.shape[1]) < T:
            raise UserError(f"learned codes end at the T of the task; got T={T} beyond T={trained}: use other codes")
        return DenseBook(torch.nn.functional.pad(E[:, :T], (0, 0, 0, padded_tokens(T) - T)), "sum", self._kernels)


def dense(samples: Samples) -> torch.Tensor:
    """The columns of Z as rows, z_query behind them, (k, rows, T + 1, d + d_e): what a layer that updates them needs."""
    k, rows, _, T = samples.X.shape
    codes = samples.codes.codes if isinstance(samples.codes, SampleBook) else samples.codes.rows.unsqueeze(1)
    Z = torch.cat([samples.X.mT, codes.expand(k, rows, T, -1)], -1)
    return torch.cat([Z, samples.z_query.unsqueeze(2)], 2)
