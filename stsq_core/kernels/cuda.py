"""The kernels of an NVIDIA GPU: Triton programs, launched so that a whole step can be captured as one CUDA graph.

Nothing here waits for the device, copies from the host or lets a shape follow a value. Choices that were made by counting, for
T = 200, q = 3, d = 5, d_e = 64 and a batch of 256 on an H100 (67 TFLOP/s in float32, 3 TB/s of memory, 28e12 instructions a
second on its lanes), per model-step:

- *Tokens are drawn into memory*, once a seed, and attention reads them through the trial's seed. A token takes 256 thousand
  numbers of about 40 instructions, 0.35 us, and writing and reading them 2 MB, 0.7 us, which overlap. Drawing them in the
  registers of the attention program would save the memory, but one Philox counter gives four numbers that lie 16 apart: in the
  order in which attention needs them three words of four, and half of every Box-Muller pair, would be thrown away (1.0 us). And
  trials that share a seed would each draw anew what they now read from the cache.
- *`G = a g^T` is gathered*, not multiplied: a has q of T entries, so the dense product is 2 * 224 * 256 * 224 = 26 million
  operations a model-step, 0.5 us at the rate of real products; `triton_kernels.gather` does 2 * 3 * 256 * 224 = 0.3 million and
  looks through 768 members for each of 224 tokens, 0.02 us of instructions. It reads g three times, mostly from the cache.
- *R is summed in the attention programs' registers* over their samples, and the few partial sums are added afterwards, so that
  p is never written.
"""

from typing import Any

import torch

from stsq_core.kernels import triton_kernels as device
from stsq_core.kernels.interface import DUAL_TOLERANCE, PopulationStep, Rates, StreamKeys, TokenStep
from stsq_core.kernels.plain import PlainKernels

COUNTERS = 512
"""Philox counters that one program of a draw takes."""

PARTIAL_SUMS = 64
"""At most about so many programs share the samples of a trial's step."""

LEAST_SAMPLES = 8
"""The least samples that an attention program takes where the batch has them: what it keeps of K and R pays from there on."""

SCAN = 256
"""Members of subsets that a gathering program looks through at a time."""

REGISTERS = 176
"""How many 32-bit registers of a thread an attention program may fill with vectors over tokens."""


MOST_MEMBERS = 8
"""The largest subset whose dual query one lane solves: builds of longer straight-line code take minutes."""

MOST_COORDINATES = 12
"""The most coordinates of tokens that an attention program keeps; more are left to plain operations, which use the memory."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """Start a kernel's programs on the current stream.

    Loops are not pipelined: the loads of a sample depend on its subset, and occupancy hides them.
    """
    if 0 in grid:
        return
    kernel[grid](*arguments, **constants, num_warps=warps, num_stages=1, enable_fp_fusion=True)


class CudaKernels(PlainKernels):
    """One launch a draw, one or two an attention step, one a parameter's update."""

    capturable = True

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._tolerance = torch.full((1,), DUAL_TOLERANCE, dtype=torch.float64, device=device)

    def keys(self, bases: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
        if isinstance(step, int):
            step = torch.full((1,), step, dtype=torch.int64, device=self.device)
        keys = torch.empty_like(bases)
        launch(device.keys, (_blocks(len(bases), 128),), bases, step, keys, len(bases), BLOCK=128)
        return keys

    def normals(self, draws: StreamKeys, *, rows: int, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        return self._numbers(draws, rows, numbers, dtype, normal=True)

    def uniforms(self, draws: StreamKeys, *, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        return self._numbers(draws, 1, numbers, dtype, normal=False).squeeze(1)

    def signs(self, draws: StreamKeys, *, tokens: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        k = len(draws.owner)
        out = torch.empty((k, tokens, length), dtype=dtype, device=self.device)
        grid = (_blocks(tokens, 16), k, _blocks(length, 128))
        width = min(128, _power(length))
        launch(device.signs, grid, draws.keys, draws.owner, out, tokens, LENGTH=length, BLOCK=16, WIDTH=width)
        return out

    def subsets(self, draws: StreamKeys, *, rows: int, T: int, q: int) -> torch.Tensor:
        k = len(draws.owner)
        out = torch.empty((k, rows, q), dtype=torch.int64, device=self.device)
        launch(device.subsets, (_blocks(rows, 128), k), draws.keys, draws.owner, out, ROWS=rows, T=T, Q=q, BLOCK=128)
        return out

    def dual(self, codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        codes, y = codes.contiguous(), y.contiguous()
        k, rows, q = y.shape
        tokens, length = codes.shape[1:]
        total, width = k * rows, min(64, _power(length))
        grams = torch.empty((q, q, k, rows), dtype=torch.float64, device=self.device)
        out = torch.empty(y.shape, dtype=codes.dtype, device=self.device)
        block = max(1, 512 // width)
        launch(
            device.gram, (_blocks(total, block),), codes, y, grams, total,
            ROWS=rows, TOKENS=tokens, LENGTH=length, Q=q, BLOCK=block, WIDTH=width, warps=1,
        )  # fmt: skip
        if q <= MOST_MEMBERS:
            launch(device.dual, (_blocks(total, 64),), grams, out, total, self._tolerance, Q=q, BLOCK=64, warps=2)
        else:
            members = _power(q)
            block = max(1, 1024 // members**2)
            launch(
                device.dual_of_many, (_blocks(total, block),), grams, out, total, self._tolerance,
                Q=q, BLOCK=block, MEMBERS=members,
            )  # fmt: skip
        return out

    def attend_population(
        self, N: torch.Tensor, v: torch.Tensor, y: torch.Tensor, c: torch.Tensor, *, T: int, gradient: bool
    ) -> PopulationStep:
        N, v, y, c = (tensor.contiguous() for tensor in (N, v, y, c))
        (k, rows, q), padded = y.shape, N.shape[-1]
        squares, shares = N.new_empty((2, k, rows)).unbind(0)
        g = N.new_empty((k, rows, padded) if gradient else (1,))
        samples = _samples(rows)
        launch(
            device.attend_population, (_blocks(rows, samples), k), N, v, y, c, squares, shares, g,
            ROWS=rows, T=T, PADDED=padded, Q=q, BLOCK=_power(padded), SAMPLES=samples, GRADIENT=gradient,
            warps=_warps(padded, 6, N.dtype),
        )  # fmt: skip
        if not gradient:
            return PopulationStep(squares, torch.zeros_like(v), torch.zeros_like(N))
        G, _ = self._gathered(y, c, g, None, mean=True)
        return PopulationStep(squares, shares.mean(-1), G)

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
        N, K, Q, V_x, y, c = (tensor.contiguous() for tensor in (N, K, Q, V_x, y, c))
        (k, rows, q), (d, padded) = y.shape, K.shape[1:]
        if d > MOST_COORDINATES:
            return super().attend_tokens(draws, N, K, Q, V_x, y, c, T=T, gradient=gradient)
        X = self._tokens(draws, rows * d * T)
        squares = N.new_empty((k, rows))
        samples = _samples(rows)
        programs = _blocks(rows, samples)
        g = N.new_empty((k, rows, padded) if gradient else (1,))
        r, context, slopes = N.new_empty((3, k, rows, d) if gradient else (3, 1)).unbind(0)
        R = N.new_empty((k, programs, d, padded) if gradient else (1,))
        launch(
            device.attend_tokens, (programs, k), X, draws.owner, N, K, Q, V_x, y, c, squares, g, r, context, slopes, R,
            ROWS=rows, T=T, PADDED=padded, D=d, Q=q, BLOCK=_power(padded), SAMPLES=samples, GRADIENT=gradient,
            warps=_warps(padded, 3 * d + 6, N.dtype),
        )  # fmt: skip
        if not gradient:
            return TokenStep(squares, torch.zeros_like(N), torch.zeros_like(K), torch.zeros_like(Q), torch.zeros_like(V_x))
        G, H = self._gathered(y, c, g, slopes, mean=False)
        return TokenStep(squares, G, R.sum(1), H, torch.bmm(r.mT, context))

    def layer(self, values: torch.Tensor, hot: torch.Tensor | None, *, columns: int, rectify: bool) -> torch.Tensor:
        k, rows, units = values.shape
        out = values.new_empty((k, rows, columns))
        strides = values.stride()[:2]
        launch(
            device.layer, (_blocks(rows * columns, 1024), k), values, out if hot is None else hot, out, *strides,
            ROWS=rows, UNITS=units, HOT=0 if hot is None else hot.shape[-1], COLUMNS=columns, RECTIFY=rectify, BLOCK=1024,
        )  # fmt: skip
        return out

    def descend(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor] | None, rates: Rates
    ) -> None:
        k = len(parameter)
        numbers = parameter.numel() // k
        while gradient.ndim < 3:
            gradient = gradient.unsqueeze(-1)
        m, v = moments or (parameter, parameter)
        launch(
            device.descend, (_blocks(numbers, 1024), k), parameter, gradient, m, v, *vars(rates).values(), *gradient.stride(),
            NUMBERS=numbers, COLUMNS=gradient.shape[-1], MOMENTS=moments is not None, BLOCK=1024,
        )  # fmt: skip

    def _numbers(self, draws: StreamKeys, rows: int, numbers: int, dtype: torch.dtype, *, normal: bool) -> torch.Tensor:
        """Four numbers to a counter; the last group of a row may be cut."""
        k, counters = len(draws.owner), 16 * _blocks(numbers, 64)
        out = torch.empty((k, rows, numbers), dtype=dtype, device=self.device)
        launch(
            device.numbers, (_blocks(rows * counters, COUNTERS), k), draws.keys, draws.owner, out,
            ROWS=rows, NUMBERS=numbers, COUNTERS=counters, NORMAL=normal, BLOCK=COUNTERS,
        )  # fmt: skip
        return out

    def _tokens(self, draws: StreamKeys, numbers: int) -> torch.Tensor:
        """A batch's tokens, one draw a seed, in float32: the other precision holds the same numbers."""
        one_a_seed = StreamKeys(draws.keys, torch.arange(len(draws.keys), device=self.device)) if draws.shared else draws
        return self._numbers(one_a_seed, 1, numbers, torch.float32, normal=True)

    def _gathered(
        self, y: torch.Tensor, c: torch.Tensor, g: torch.Tensor, slopes: torch.Tensor | None, *, mean: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        (k, rows, q), padded = y.shape, g.shape[-1]
        d = 0 if slopes is None else slopes.shape[-1]
        G, H = g.new_empty((k, padded, padded)), g.new_empty((k, d, padded))
        launch(
            device.gather, (padded, k), y, c, g, g if slopes is None else slopes, G, H,
            ROWS=rows, PADDED=padded, Q=q, D=d, MEAN=mean, BLOCK=_power(padded), WIDTH=_power(max(d, 1)),
            SCAN=min(SCAN, _power(rows * q)), warps=_warps(padded, 6, g.dtype),
        )  # fmt: skip
        return G, H


def _blocks(size: int, block: int) -> int:
    """How many blocks cover a size."""
    return -(-size // block)


def _power(size: int) -> int:
    """The least power of two that is at least a size: Triton's vectors have no other lengths."""
    return 1 << (size - 1).bit_length()


def _samples(rows: int) -> int:
    """Samples that one attention program takes: a function of the batch alone, so that its sums do not depend on the pack."""
    return min(_power(rows), max(LEAST_SAMPLES, _power(_blocks(rows, PARTIAL_SUMS))))


def _warps(padded: int, vectors: int, dtype: torch.dtype) -> int:
    """Warps that keep so many vectors over the tokens in registers: one if it can."""
    registers = _power(padded) * vectors * dtype.itemsize // 4
    return max(1, min(16, _power(_blocks(registers, 32 * REGISTERS))))
