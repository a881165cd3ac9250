"""The CPU's inner loops, compiled by Numba: draws, dual coefficients, attention a sample at a time, nets a block at a time.

All compiled code lives in this one file, because Numba's cache on disk notices a change of the file that holds a function and
not of the files that it calls. Every trial is a loop of its own over contiguous rows whose length is a multiple of `LANES`, so
its bits cannot depend on the trials beside it; whole vectors leave no scalar tail.
Indices that are not plain loop variables are unsigned: a signed one might count from the end, which no vector loop can do.

Sources: Philox4x32-7 is Salmon, Moraes, Dror, Shaw 2011 (Parallel random numbers: as easy as 1, 2, 3); normals are Box and
Muller 1958; subsets are Floyd's algorithm (Bentley, Floyd 1987); the polynomial of exp is that of the Cephes library (Moshier),
those of normals are minimax fits, all good to about one unit in the last place of float32 on the ranges used here.
"""

import math
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba import float32, int32, types, uint32, uint64
from numba.core import cgutils
from numba.extending import intrinsic, overload

from stsq_core.configs import LANES

GROUP = 16
"""Numbers of a stream come in groups of four words of this many consecutive Philox counters."""

# Of powers of f, of the square of x and of the square of x, highest first: `-2 log(1 + f) / f` for 1 + f between the roots of
# 1/2 and 2, `sin(x) / x` and `cos(x)` for x up to pi/4, with relative errors of at most 1.7e-7, 4e-9 and 4e-8.
LOG = (
    0.20213806629180908, -0.3244519531726837, 0.3450166881084442, -0.3980032801628113,
    0.4993981719017029, -0.6667011976242065, 1.0000072717666626, -1.9999998807907104,
)  # fmt: skip
SINE = -0.00019515282474458218, 0.00833216030150652, -0.16666655242443085, 1.0
COSINE = -0.0013591854367405176, 0.041655778884887695, -0.4999988377094269, 1.0

BLOCK = 32
"""Samples of a trial that are taken together."""

TOKENS_IN_CACHE = 65536
"""Token coordinates of a batch that are drawn at a time where trials share a seed."""


def _keep_cache() -> None:
    """Let Numba keep its cache below the temporary directory where it may write to neither its source's folder nor the user's,
    as in a container: else it compiles nothing. As the cache is code, nobody else may write to it.
    """
    try:
        numba.njit(cache=True)(_keep_cache)
    except RuntimeError:
        folder = Path(tempfile.gettempdir(), f"stsq-numba-{os.getuid()}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        held = folder.lstat()
        is_own = stat.S_ISDIR(held.st_mode) and held.st_uid == os.getuid() and not held.st_mode & 0o077
        own = str(folder) if is_own else tempfile.mkdtemp(prefix="stsq-numba-")
        numba.config.CACHE_DIR = own  # type: ignore[attr-defined]  # one of those that it makes from the environment


_keep_cache()


def _compiled(function: Callable[..., None]) -> Any:
    """Sums may be reordered (the same way for every trial), nothing else: NaN and infinity keep their meaning."""
    return numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract", "arcp"})(function)


def _inlined(function: Callable[..., Any]) -> Any:
    """A piece of a vectorised loop, in the order in which it is written."""
    return numba.njit(cache=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function)


# Vectors


VECTOR_BYTES, PANEL = (64, 4) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (32, 2)
"""A vector of this machine, and how many of them a product takes side by side: its sums fill about half of the registers."""

_LANES_OF_WORDS = VECTOR_BYTES // 4


def _emitted(function: Callable[..., Any]) -> Any:
    """Instructions on vectors written out: sums of several rows that stay in registers are no loop that LLVM would find."""
    return intrinsic(function)


class _Vectors:
    """Writes loads, stores and sums of whole vectors of an array's numbers; places are in numbers."""

    def __init__(self, context, builder, kind):
        self.context, self.builder = context, builder
        self.number, self.size = context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.size
        self.type = ir.VectorType(self.number, self.lanes)
        self.zero = ir.Constant(self.type, [0.0] * self.lanes)
        name = f"llvm.fmuladd.v{self.lanes}{self.number.intrinsic_name}"
        self._fused = cgutils.get_or_insert_function(builder.module, ir.FunctionType(self.type, [self.type] * 3), name)

    def data(self, kind, array):
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def place(self, array, *terms):
        """The address of a number at the sum of some terms."""
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, term)
        return self.builder.gep(array, [total])

    def load(self, array, *terms):
        place = self.builder.bitcast(self.place(array, *terms), self.type.as_pointer())
        return self.builder.load(place, align=self.size)

    def store(self, value, array, *terms):
        place = self.builder.bitcast(self.place(array, *terms), self.type.as_pointer())
        self.builder.store(value, place, align=self.size)

    def repeated(self, array, *terms):
        """A vector of one number."""
        value = self.builder.load(self.place(array, *terms))
        one = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), value, ir.IntType(32)(0))
        return self.shuffled(one, one, [0] * self.lanes)

    def shuffled(self, a, b, lanes):
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def add_product(self, total, a, b):
        """`total += a b` of a vector in a variable, rounded once where the machine can."""
        self.builder.store(self.builder.call(self._fused, [a, b, self.builder.load(total)]), total)


def _product(rows, finish):
    """`C[r] = finish(C[r], sum_j B[extra[r, j]] + sum_k A[r, k] B[k])` of vectors, for so many rows r, whose sums stay in
    registers: `set`, `rectify` and `mask` replace C, `add` adds, and `spread` adds the sum over k to each row `extra[j]` of C
    instead.

    Each sum is one chain of additions in the order above, so its bits depend neither on `rows` nor on the length of a vector.
    C, A, B, extra and mask are arrays, each with the place where it begins and its strides over r, k or j; mask has C's.
    """

    @_emitted
    def multiply(typing, C, c, c_row, A, a, a_row, a_step, B, b, b_step, steps, extra, e, e_row, num_extra, mask, vectors):
        ints = types.intp
        arguments = (C, ints, ints, A, ints, ints, ints, B, ints, ints, ints, extra, ints, ints, ints, mask, ints)

        def lower(context, builder, signature, values):
            C_, c, c_row, A_, a, a_row, a_step, B_, b, b_step, steps, extra_, e, e_row, num_extra, mask_, vectors = values
            lines, integer, spreads = _Vectors(context, builder, C), b_step.type, finish == "spread"
            C_, A_, B_, extra_, mask_ = map(lines.data, (C, A, B, extra, mask), (C_, A_, B_, extra_, mask_))

            def emit(count):
                sums = [[cgutils.alloca_once_value(builder, lines.zero) for _ in range(count)] for _ in range(rows)]
                columns = [integer(v * lines.lanes) for v in range(count)]
                with cgutils.for_range(builder, integer(0) if spreads else num_extra) as loop:
                    for r in range(rows):
                        member = lines.place(extra_, e, builder.mul(e_row, integer(r)), loop.index)
                        row = builder.mul(builder.load(member), b_step)
                        for v, total in enumerate(sums[r]):
                            builder.store(builder.fadd(builder.load(total), lines.load(B_, b, row, columns[v])), total)
                with cgutils.for_range(builder, steps) as loop:
                    row = builder.mul(loop.index, b_step)
                    read = [lines.load(B_, b, row, column) for column in columns]
                    for r in range(rows):
                        factor = lines.repeated(A_, a, builder.mul(a_row, integer(r)), builder.mul(loop.index, a_step))
                        for v, total in enumerate(sums[r]):
                            lines.add_product(total, factor, read[v])
                totals = [[builder.load(total) for total in row] for row in sums]
                with cgutils.for_range(builder, num_extra if spreads else integer(1)) as loop:
                    first = builder.load(lines.place(extra_, e, loop.index)) if spreads else integer(0)
                    for r, v in product(range(rows), range(count)):
                        place = c, builder.mul(c_row, builder.add(first, integer(r))), columns[v]
                        total = totals[r][v]
                        match finish:  # a comparison with NaN is false, so NaN stays
                            case "set":
                                pass
                            case "rectify":
                                total = builder.select(builder.fcmp_ordered("<", total, lines.zero), lines.zero, total)
                            case "mask":
                                asleep = builder.fcmp_ordered("<=", lines.load(mask_, *place), lines.zero)
                                total = builder.select(asleep, lines.zero, total)
                            case _:
                                total = builder.fadd(lines.load(C_, *place), total)
                        lines.store(total, C_, *place)

            end = builder.append_basic_block("end")
            choice = builder.switch(vectors, end)
            for count in range(1, PANEL + 1):
                case = builder.append_basic_block(f"vectors{count}")
                choice.add_case(integer(count), case)
                builder.position_at_end(case)
                emit(count)
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(*arguments), lower

    return multiply


def _reduced(greatest):
    """`sum_j A[a + j] B[b + j]` over so many vectors, or the greatest A[a + j], whose lanes are then put together in halves."""

    @_emitted
    def reduce(typing, A, a, B, b, steps):
        ints = types.intp

        def lower(context, builder, signature, values):
            A_, a, B_, b, steps = values
            lines = _Vectors(context, builder, A)
            A_, B_ = lines.data(A, A_), lines.data(B, B_)
            total = cgutils.alloca_once_value(builder, lines.load(A_, a) if greatest else lines.zero)

            def joined(x, y):  # a NaN is lost here, and found again when the greatest is subtracted from it
                return builder.select(builder.fcmp_ordered(">", x, y), x, y) if greatest else builder.fadd(x, y)

            with cgutils.for_range(builder, steps) as loop:
                j = builder.mul(loop.index, steps.type(lines.lanes))
                if greatest:
                    builder.store(joined(lines.load(A_, a, j), builder.load(total)), total)
                else:
                    lines.add_product(total, lines.load(A_, a, j), lines.load(B_, b, j))
            total, half = builder.load(total), lines.lanes
            while half > 1:
                half //= 2
                total = joined(*(lines.shuffled(total, total, list(range(n, n + half))) for n in (0, half)))
            return builder.extract_element(total, ir.IntType(32)(0))

        return A.dtype(A, ints, B, ints, ints), lower

    return reduce


@_emitted
def _transpose(typing, A, a, a_row, B, b, b_row):
    """The square block of A at a, whose side is a vector, turned over into that of B at b."""
    ints = types.intp

    def lower(context, builder, signature, values):
        A_, a, a_row, B_, b, b_row = values
        lines = _Vectors(context, builder, A)
        A_, B_, side = lines.data(A, A_), lines.data(B, B_), lines.lanes
        rows = [lines.load(A_, a, builder.mul(a_row, a_row.type(n))) for n in range(side)]
        half = side // 2
        while half:  # every square block of twice a half swaps the two quarters off its diagonal
            above = [side + j - half if j & half else j for j in range(side)]
            below = [side + j if j & half else j + half for j in range(side)]
            for n in (n for n in range(side) if not n & half):
                pair = rows[n], rows[n + half]
                rows[n], rows[n + half] = lines.shuffled(*pair, above), lines.shuffled(*pair, below)
            half //= 2
        for n in range(side):
            lines.store(rows[n], B_, b, builder.mul(b_row, b_row.type(n)))
        return context.get_dummy_value()

    return types.void(A, ints, ints, B, ints, ints), lower


_dot, _greatest = _reduced(greatest=False), _reduced(greatest=True)
_rectified_4, _rectified_1 = _product(4, "rectify"), _product(1, "rectify")
_masked_4, _masked_1 = _product(4, "mask"), _product(1, "mask")
_added_4, _added_1 = _product(4, "add"), _product(1, "add")
_spread = _product(1, "spread")
_set_4, _set_1 = _product(4, "set"), _product(1, "set")


@_compiled
def _multiply(C, c, c_row, A, a, a_row, a_step, rows, B, b, steps, columns, extra):
    """`C = A B` for A of rows x steps, whose strides are given, and B of steps x columns, whole vectors."""
    lanes = VECTOR_BYTES // C.itemsize
    for p in range(0, columns, PANEL * lanes):
        v = min(PANEL * lanes, columns - p) // lanes
        whole = rows // 4 * 4
        for r in range(0, whole, 4):
            _set_4(C, c + r * c_row + p, c_row, A, a + r * a_row, a_row, a_step, B, b + p, columns, steps, extra, 0, 0, 0, C, v)
        for r in range(whole, rows):
            _set_1(C, c + r * c_row + p, 0, A, a + r * a_row, 0, a_step, B, b + p, columns, steps, extra, 0, 0, 0, C, v)


@_emitted
def _add_rows(typing, C, c, A, a, B, b, b_row, steps, columns):
    """`C += sum_k A[k] B[k]` for rows B[k] of so many columns, whole vectors: little code, for few rows."""
    ints = types.intp

    def lower(context, builder, signature, values):
        C_, c, A_, a, B_, b, b_row, steps, columns = values
        lines = _Vectors(context, builder, C)
        C_, A_, B_ = lines.data(C, C_), lines.data(A, A_), lines.data(B, B_)
        total = cgutils.alloca_once(builder, lines.type)
        with cgutils.for_range_slice(builder, columns.type(0), columns, columns.type(lines.lanes)) as (p, _):
            builder.store(lines.load(C_, c, p), total)
            with cgutils.for_range(builder, steps) as loop:
                row = builder.mul(loop.index, b_row)
                lines.add_product(total, lines.repeated(A_, a, loop.index), lines.load(B_, b, row, p))
            lines.store(builder.load(total), C_, c, p)
        return context.get_dummy_value()

    return types.void(C, ints, A, ints, B, ints, ints, ints, ints), lower


def _each(finish):
    """`C = finish(C, B, factor)` of so many columns, whole vectors: `set`, B times the factor; `scale`, C times that; `slope`,
    `B (C - factor)`. A loop over two arrays in Numba would ask at each start whether they overlap."""

    @_emitted
    def run(typing, C, c, B, b, factor, columns):
        ints = types.intp

        def lower(context, builder, signature, values):
            C_, c, B_, b, factor, columns = values
            lines = _Vectors(context, builder, C)
            C_, B_ = lines.data(C, C_), lines.data(B, B_)
            one = builder.insert_element(ir.Constant(lines.type, ir.Undefined), factor, ir.IntType(32)(0))
            factors = lines.shuffled(one, one, [0] * lines.lanes)
            with cgutils.for_range_slice(builder, columns.type(0), columns, columns.type(lines.lanes)) as (p, _):
                read = lines.load(B_, b, p)
                if finish == "slope":
                    value = builder.fmul(read, builder.fsub(lines.load(C_, c, p), factors))
                else:
                    value = builder.fmul(read, factors)
                    value = builder.fmul(lines.load(C_, c, p), value) if finish == "scale" else value
                lines.store(value, C_, c, p)
            return context.get_dummy_value()

        return types.void(C, ints, B, ints, C.dtype, ints), lower

    return run


_set_each, _scale_each, _slope_each = _each("set"), _each("scale"), _each("slope")


@_compiled
def _room(like, value, numbers):
    """So many equal numbers from the start of a cache line: a vector that lies on two lines takes twice as long."""
    room = np.empty(numbers + 64, like.dtype)
    first = (-room.ctypes.data) % 64 // like.itemsize
    room = room[first : first + numbers]
    room[:] = value
    return room


@_inlined
def _line_of(numbers, itemsize):
    """So many numbers, filled up to whole cache lines."""
    return -(-numbers * itemsize // 64) * (64 // itemsize)


# Random words


@_inlined
def _philox_round(c0, c1, c2, c3, k0, k1):
    p0 = uint64(c0) * uint64(0xD2511F53)
    p1 = uint64(c2) * uint64(0xCD9E8D57)
    return (
        uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0),
        uint32(p1),
        uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1),
        uint32(p0),
    )


@_inlined
def _bumped(k0, k1):
    return uint32(k0 + uint32(0x9E3779B9)), uint32(k1 + uint32(0xBB67AE85))


@_inlined
def philox(i, row, k0, k1):
    """The four words of counter (i, row, 0, 0). Seven rounds written out: a loop here would not vectorise its caller's."""
    c0, c1, c2, c3 = _philox_round(uint32(i), uint32(row), uint32(0), uint32(0), k0, k1)
    k0, k1 = _bumped(k0, k1)
    c0, c1, c2, c3 = _philox_round(c0, c1, c2, c3, k0, k1)
    k0, k1 = _bumped(k0, k1)
    c0, c1, c2, c3 = _philox_round(c0, c1, c2, c3, k0, k1)
    k0, k1 = _bumped(k0, k1)
    c0, c1, c2, c3 = _philox_round(c0, c1, c2, c3, k0, k1)
    k0, k1 = _bumped(k0, k1)
    c0, c1, c2, c3 = _philox_round(c0, c1, c2, c3, k0, k1)
    k0, k1 = _bumped(k0, k1)
    c0, c1, c2, c3 = _philox_round(c0, c1, c2, c3, k0, k1)
    k0, k1 = _bumped(k0, k1)
    return _philox_round(c0, c1, c2, c3, k0, k1)


@_inlined
def _halves(key):
    return uint32(uint64(key) & uint64(0xFFFFFFFF)), uint32(uint64(key) >> uint64(32))


@_compiled
def keys(bases, step, out):
    """See `Kernels.keys`."""
    for s in range(len(bases)):
        x = uint64(bases[s]) + uint64(step) + uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        out[s] = np.int64(x ^ (x >> uint64(31)))


# Elementary functions


@_inlined
def _exp_single(x):
    x = float32(-87) if x < float32(-87) else x  # written so that NaN stays NaN
    shifted = x * float32(1.44269504) + float32(12582912)  # rounds to an integer in the low bits
    n = shifted - float32(12582912)
    # ln 2 in two parts: n times the first is exact, so r loses nothing to cancellation.
    r = x - n * float32(0.693359375) - n * float32(-2.12194440e-4)
    p = float32(1.9875691500e-4)
    p = p * r + float32(1.3981999507e-3)
    p = p * r + float32(8.3334519073e-3)
    p = p * r + float32(4.1665795894e-2)
    p = p * r + float32(1.6666665459e-1)
    p = p * r + float32(5.0000001201e-1)
    p = p * r * r + r + float32(1)
    bits = int32(np.float32(shifted).view(np.int32) + int32(127))
    return p * np.int32(int32(bits << int32(23))).view(np.float32)


def _exp(x):
    """`exp` of a number that is not positive, in its own precision."""


@overload(_exp, jit_options={"error_model": "numpy", "forceinline": True})
def _exp_of(x):
    if x == types.float32:
        return lambda x: _exp_single(x)
    return lambda x: math.exp(x)


@_inlined
def _uniform(word):
    """Uniform on (-1, 1), on a grid of 2^-23."""
    return (float32(int32(word >> uint32(8))) + float32(0.5)) * float32(2.0**-23) - float32(1)


# Draws


@_emitted
def _normals_at(typing, out, place, i, row, k0, k1):
    """The 4 GROUP normals of the counters (i, row, 0, 0), ... into out from a place on.

    A 64-bit lane holds a counter's word in its lower half, so that a product's halves, which a round sets apart, cost one
    shift; even and odd counters are two vectors.
    """

    def lower(context, builder, signature, values):
        out_, place, *counter = values
        lanes, word, wide = _LANES_OF_WORDS, ir.IntType(32), ir.IntType(64)
        half = ir.VectorType(wide, lanes // 2)
        words, floats = ir.VectorType(word, lanes), ir.VectorType(ir.FloatType(), lanes)
        lines = _Vectors(context, builder, out)
        data = lines.data(out, out_)

        def splat(value, type_):
            one = builder.insert_element(ir.Constant(type_, ir.Undefined), value, word(0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(word, type_.count), [0] * type_.count))

        def all_of(type_, value):
            return ir.Constant(type_, [value] * type_.count)

        def called(name, *arguments):
            kind = ir.FunctionType(floats, [floats] * len(arguments))
            name = f"llvm.{name}.v{lanes}f32"
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

        def polynomial(x, *coefficients):
            """From the highest power down."""
            value = all_of(floats, coefficients[0])
            for coefficient in coefficients[1:]:
                value = called("fmuladd", value, x, all_of(floats, coefficient))
            return value

        low = all_of(half, 0xFFFFFFFF)
        first, row, k0, k1 = (builder.zext(value, wide) for value in counter)
        keys = []
        for n in range(7):
            bumped = (builder.add(key, wide(n * step)) for key, step in ((k0, 0x9E3779B9), (k1, 0xBB67AE85)))
            keys.append([splat(builder.and_(key, wide(0xFFFFFFFF)), half) for key in bumped])

        def drawn(start):
            """The four words of the counters from `start` on."""
            parities = []
            for parity in (0, 1):
                steps = ir.Constant(half, [start + 2 * j + parity for j in range(lanes // 2)])
                c0, c1, c2, c3 = builder.add(splat(first, half), steps), splat(row, half), all_of(half, 0), all_of(half, 0)
                for key0, key1 in keys:
                    p0, p1 = (
                        builder.mul(builder.and_(c, low), all_of(half, factor))
                        for c, factor in ((c0, 0xD2511F53), (c2, 0xCD9E8D57))
                    )
                    high0, high1 = (builder.lshr(p, all_of(half, 32)) for p in (p0, p1))
                    c0, c1, c2, c3 = (
                        builder.xor(builder.xor(high1, c1), key0),
                        p1,
                        builder.xor(builder.xor(high0, c3), key1),
                        p0,
                    )
                parities.append((c0, c1, c2, c3))
            for even, odd in zip(*parities, strict=True):
                both = builder.or_(builder.and_(even, low), builder.shl(odd, all_of(half, 32)))
                yield builder.bitcast(both, words)

        def pair(w0, w1):
            """Two independent standard normals from two words; none is beyond 6.7, where 3e-11 of the mass lies."""
            u = builder.sitofp(builder.lshr(w0, all_of(words, 1)), floats)
            u = called("fmuladd", u, all_of(floats, 2.0**-31), all_of(floats, 2.0**-32))
            # u = 2^exponent (1 + f) with 1 + f between the roots of 1/2 and 2: 0x3F3504F3 holds the bits of the root of 1/2.
            bits = builder.bitcast(u, words)
            above = builder.ashr(builder.sub(bits, all_of(words, 0x3F3504F3)), all_of(words, 23))
            f = builder.bitcast(builder.sub(bits, builder.shl(above, all_of(words, 23))), floats)
            f = builder.fadd(f, all_of(floats, -1.0))
            square = builder.fmul(f, polynomial(f, *LOG))
            square = called("fmuladd", builder.sitofp(above, floats), all_of(floats, -2 * math.log(2)), square)
            radius = called("sqrt", square)
            # The word, with its sign, is an angle of at most pi/4 from an axis; its last two bits choose among the four.
            x = builder.fmul(builder.sitofp(w1, floats), all_of(floats, math.pi / 4 * 2.0**-31))
            z = builder.fmul(x, x)
            across = builder.fmul(builder.fmul(radius, x), polynomial(z, *SINE))
            along = builder.bitcast(builder.fmul(radius, polynomial(z, *COSINE)), words)
            sign = builder.and_(builder.shl(w1, all_of(words, 30)), all_of(words, 0x80000000))
            along = builder.bitcast(builder.xor(along, sign), floats)
            turned = builder.icmp_unsigned("!=", builder.and_(w1, all_of(words, 1)), all_of(words, 0))
            return builder.select(turned, across, along), builder.select(turned, along, across)

        for start in range(0, GROUP, lanes):
            w0, w1, w2, w3 = drawn(start)
            for n, numbers in enumerate((*pair(w0, w1), *pair(w2, w3))):
                kept = numbers if out.dtype == types.float32 else builder.fpext(numbers, ir.VectorType(ir.DoubleType(), lanes))
                target = lines.place(data, place, place.type(GROUP * n + start))
                builder.store(kept, builder.bitcast(target, kept.type.as_pointer()), align=lines.size)
        return context.get_dummy_value()

    return types.void(out, types.uint64, types.uint32, types.uint32, types.uint32, types.uint32), lower


@_inlined
def _fill_normals(k0, k1, row, out, start, stop, group):
    """Numbers 4 GROUP group, ... of a row's stream into out[start:stop], whose length is a multiple of 4 GROUP."""
    for h in range((stop - start) // (4 * GROUP)):
        _normals_at(out, uint64(start + 4 * GROUP * h), uint32(GROUP * (group + h)), uint32(row), k0, k1)


@_compiled
def _fill_batch(k0, k1, out, first, count):
    """So many numbers of row 0, from number `first` on, into out; how many others stand before them."""
    before = first % (4 * GROUP)
    _fill_normals(k0, k1, 0, out, 0, _room_for(before + count) - 4 * GROUP, first // (4 * GROUP))
    return before


@_inlined
def _room_for(numbers):
    """Numbers that hold so many in whole groups, wherever in a group they begin."""
    return (-(-numbers // (4 * GROUP)) + 1) * (4 * GROUP)


@_compiled
def normals(keys, out):
    """Standard normals into out of shape (n, rows, numbers), for keys of shape (n,)."""
    numbers = out.shape[2]
    whole = numbers // (4 * GROUP) * (4 * GROUP)
    rest = np.empty(4 * GROUP, out.dtype)
    for s in range(out.shape[0]):
        k0, k1 = _halves(keys[s])
        for row in range(out.shape[1]):
            target = out[s, row]
            _fill_normals(k0, k1, row, target, 0, whole, 0)
            if whole < numbers:
                _fill_normals(k0, k1, row, rest, 0, len(rest), whole // len(rest))
                target[whole:] = rest[: numbers - whole]


@_compiled
def uniforms(keys, out):
    """Uniforms on (-1, 1) into out of shape (n, numbers)."""
    numbers = out.shape[1]
    for s in range(out.shape[0]):
        k0, k1 = _halves(keys[s])
        for h in range(-(-numbers // (4 * GROUP))):
            for lane in range(GROUP):
                words = philox(GROUP * h + lane, 0, k0, k1)
                for j in range(4):
                    place = 4 * GROUP * h + GROUP * j + lane
                    if place < numbers:
                        out[s, place] = _uniform(words[j])


@_compiled
def signs(keys, out):
    """Uniform signs into out of shape (n, tokens, length): bit e % 32 of word e // 32 of a token."""
    n, tokens, length = out.shape
    one = out.dtype.type(1)
    for s in range(n):
        k0, k1 = _halves(keys[s])
        for t in range(tokens):
            for block in range(-(-length // 128)):
                words = philox(t, block, k0, k1)
                for j in range(4):
                    first = 128 * block + 32 * j
                    word = words[j]
                    for e in range(first, min(first + 32, length)):
                        out[s, t, e] = one - 2 * out.dtype.type(int32((word >> uint32(e - first)) & uint32(1)))


@_compiled
def subsets(keys, T, out):
    """Uniform q-subsets of [T] into out of shape (n, rows, q), by Floyd's algorithm: exact in q draws of 64 bits."""
    n, rows, q = out.shape
    drawn = np.empty((2, GROUP), np.int64)
    for s in range(n):
        k0, k1 = _halves(keys[s])
        for block in range(-(-q // 2)):
            j = 2 * block
            for first in range(0, rows, GROUP):
                for lane in range(GROUP):
                    w0, w1, w2, w3 = philox(first + lane, block, k0, k1)
                    drawn[0, lane] = _below(w0, w1, T - q + j + 1)
                    drawn[1, lane] = _below(w2, w3, T - q + j + 2)
                for lane in range(min(GROUP, rows - first)):
                    out[s, first + lane, j] = drawn[0, lane]
                    if j + 1 < q:
                        out[s, first + lane, j + 1] = drawn[1, lane]
        # A number that was drawn before gives way to the greatest that draw j allows, which cannot have been drawn.
        for row in range(rows):
            for j in range(1, q):
                for earlier in range(j):
                    if out[s, row, earlier] == out[s, row, j]:
                        out[s, row, j] = T - q + j
                        break


@_inlined
def _below(high, low, bound):
    """`floor(bound u)` for u the 64-bit fraction of the two words: each value within bound / 2^64 of equally likely."""
    part = uint64(low) * uint64(bound) >> uint64(32)
    return (uint64(high) * uint64(bound) + part) >> uint64(32)


# The dual query


@_compiled
def dual(codes, y, tolerance, out):
    """Coefficients c of the minimum-norm least-squares query into out of shape (k, rows, q); see `Kernels.dual`.

    Conjugate gradients take the rows of a block side by side: each has a chain of divisions to wait for.
    """
    (k, rows, q), (_, tokens, D) = y.shape, codes.shape
    width, lanes, double = _line_of(D, 8), VECTOR_BYTES // 8, np.empty(0)
    book, gram = _room(double, 0, tokens * width), np.empty((q * q, BLOCK))
    c, residual, direction, image = np.empty((q, BLOCK)), np.empty((q, BLOCK)), np.empty((q, BLOCK)), np.empty((q, BLOCK))
    slope, enough, total, ratio = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for trial in range(k):
        for t in range(tokens):
            for e in range(D):
                book[t * width + e] = codes[trial, t, e]
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            for n in range(count):
                for i in range(q):
                    for j in range(i + 1):
                        a, b = y[trial, first + n, i], y[trial, first + n, j]
                        gram[i * q + j, n] = gram[j * q + i, n] = _dot(book, a * width, book, b * width, width // lanes)
            c[:], residual[:], direction[:] = 0, 1, 1
            _form(gram, residual, q, count, slope)
            for n in range(count):
                enough[n] = tolerance * tolerance * slope[n]
            for _ in range(q):
                _image(gram, direction, q, count, image)
                total[:] = 0
                for i in range(q):
                    for n in range(count):
                        total[n] += image[i, n] * image[i, n]
                for n in range(count):  # a row that is done takes steps of zero
                    going = slope[n] > enough[n] and total[n] > 0
                    ratio[n] = slope[n] / total[n] if going else 0.0
                for i in range(q):
                    for n in range(count):
                        c[i, n] += ratio[n] * direction[i, n]
                        residual[i, n] -= ratio[n] * image[i, n]
                _form(gram, residual, q, count, total)
                for n in range(count):
                    going = ratio[n] > 0
                    ratio[n] = total[n] / slope[n] if going else 0.0
                    slope[n] = total[n] if going else 0.0
                for i in range(q):
                    for n in range(count):
                        direction[i, n] = residual[i, n] + ratio[n] * direction[i, n]
            for n in range(count):
                for i in range(q):
                    out[trial, first + n, i] = c[i, n]


@_inlined
def _image(gram, x, q, count, out):
    """`gram x` of each row."""
    for i in range(q):
        for n in range(count):
            out[i, n] = gram[i * q, n] * x[0, n]
        for j in range(1, q):
            for n in range(count):
                out[i, n] += gram[i * q + j, n] * x[j, n]


@_inlined
def _form(gram, x, q, count, out):
    """`x^T gram x` of each row."""
    out[:] = 0
    for i in range(q):
        for j in range(q):
            for n in range(count):
                out[n] += x[i, n] * gram[i * q + j, n] * x[j, n]


# Attention


# A block of samples goes through each of the short loops below before the next begins: what one sample must wait for, a sum of
# lanes or a polynomial, then overlaps with the others' work.


@_compiled
def _edges(like, T, padded):
    """Ones at the tokens and zeros beyond, then zeros and, beyond, minus infinity."""
    inside, beyond = _room(like, 1, padded), _room(like, 0, padded)
    inside[T:] = 0
    beyond[T:] = -np.inf
    return inside, beyond


@_inlined
def _query_scores(S, N, y, c, at, q, count, padded, beyond):
    """`sum_m c_m N[y_m]` of some samples, whose subsets begin at `at`."""
    for n in range(count):
        _set_each(S, n * padded, beyond, 0, S.dtype.type(1), padded)
        for m in range(at + n * q, at + (n + 1) * q):
            _add_rows(S, n * padded, c, m, N, y[m] * padded, 0, 1, padded)


@_inlined
def _softmax(S, count, padded, inside, sums):
    """Softmax of some samples' scores in place, zeros beyond the tokens."""
    vectors, one = padded // (VECTOR_BYTES // S.itemsize), S.dtype.type(1)
    for n in range(count):
        sums[n] = _greatest(S, n * padded, S, 0, vectors)
    for n in range(count):
        most = sums[n]
        for h in range(padded // LANES):  # loops of a known length are whole vectors without a rest
            for t in range(LANES):
                place = uint64(n * padded + LANES * h + t)
                S[place] = _exp(S[place] - most)
    for n in range(count):
        sums[n] = one / _dot(S, n * padded, inside, 0, vectors)
    for n in range(count):
        _scale_each(S, n * padded, inside, 0, sums[n], padded)


@_inlined
def _slopes(S, g, count, padded, sums):
    """The gradients at the weights S, in g, become those at the scores; `<S, g>` stays in sums."""
    for n in range(count):
        sums[n] = _dot(S, n * padded, g, n * padded, padded // (VECTOR_BYTES // S.itemsize))
    for n in range(count):
        _slope_each(g, n * padded, S, n * padded, sums[n], padded)


@_inlined
def _gather(G, rows, y, c, at, q, count, columns):
    """`G[y_m] += c_m rows[n]` for the members of each sample."""
    for n in range(count):
        for m in range(at + n * q, at + (n + 1) * q):
            _add_rows(G, y[m] * columns, c, m, rows, n * columns, 0, 1, columns)


@_compiled
def _attend_subsets(N, scale, y, c, q, T, padded, gradient, squares, G):
    """One trial of `Kernels.attend_population`: adds to G, writes `squares`, and hands back the mean share."""
    kind, rows = N.dtype.type, len(squares)
    share, mean, shares, vectors = kind(1) / kind(q), kind(1) / kind(rows), kind(0), padded // (VECTOR_BYTES // N.itemsize)
    S, g, sums, (inside, beyond) = (
        _room(N, 0, BLOCK * padded),
        _room(N, 0, BLOCK * padded),
        _room(N, 0, BLOCK),
        _edges(N, T, padded),
    )
    for first in range(0, rows, BLOCK):
        count, at = min(BLOCK, rows - first), first * q
        _query_scores(S, N, y, c, at, q, count, padded, beyond)
        _softmax(S, count, padded, inside, sums)
        _set_each(g, 0, S, 0, scale, count * padded)
        for n in range(count):
            for m in range(at + n * q, at + (n + 1) * q):
                g[uint64(n * padded + y[m])] -= share
        for n in range(count):
            squares[first + n] = _dot(g, n * padded, g, n * padded, vectors)
        if gradient:
            _slopes(S, g, count, padded, sums)
            for n in range(count):
                shares += mean * sums[n]
            for h in range(count * padded // LANES):
                for t in range(LANES):
                    g[uint64(LANES * h + t)] *= mean
            _gather(G, g, y, c, at, q, count, padded)
    return shares


@_compiled
def attend_population(N, v, y, c, T, gradient, squares, shares, G):
    """See `Kernels.attend_population`; adds to `shares` (k,) and `G`, and writes `squares`."""
    k, padded, q = len(N), N.shape[2], y.shape[2]
    for i in range(k):
        own, ys, cs = G[i * gradient].reshape(-1), y[i].reshape(-1), c[i].reshape(-1)
        share = _attend_subsets(N[i].reshape(-1), v[i], ys, cs, q, T, padded, gradient, squares[i], own)
        shares[i * gradient] += share


@_compiled
def _rooms_of_block(like, padded, line):
    """S, g, contexts, residuals, u and sums of a block."""
    wide, short = BLOCK * padded, BLOCK * line
    return (
        _room(like, 0, wide), _room(like, 0, wide), _room(like, 0, short), _room(like, 0, short), _room(like, 0, short),
        _room(like, 0, BLOCK),
    )  # fmt: skip


@_compiled
def _attend_block(
    N, K, Qt, V, y, c, at, q, X, x, count, mean, T, padded, d, line, gradient, squares, G, R, Ht, grad_V, rooms, edges, extra,
):  # fmt: skip
    """Some samples of one trial of `Kernels.attend_tokens`, whose tokens begin at x in X and whose subsets at `at`; writes
    their `squares`, and adds to G, R, Ht and grad_V.

    Rows of d numbers are filled up with zeros to whole cache lines: of Qt and Ht, one a token, of V, which is V_x and then its
    transpose, and of grad_V.
    """
    (S, g, contexts, residuals, u, sums), (inside, beyond) = rooms, edges
    kind, lanes, numbers = S.dtype.type, VECTOR_BYTES // S.itemsize, d * T
    vectors, share = padded // lanes, kind(1) / kind(q)
    _query_scores(S, N, y, c, at, q, count, padded, beyond)
    u[:] = 0
    for n in range(count):
        for m in range(at + n * q, at + (n + 1) * q):
            _add_rows(u, n * line, c, m, Qt, y[m] * line, 0, 1, line)
    for n in range(count):
        _add_rows(S, n * padded, u, n * line, X, x + n * numbers, T, d, padded)
    _softmax(S, count, padded, inside, sums)
    residuals[:] = 0
    for n in range(count):
        for e in range(d):
            contexts[uint64(n * line + e)] = _dot(S, n * padded, X, x + n * numbers + e * T, vectors)
            residuals[uint64(n * line + e)] = _dot(S, n * padded, K, e * padded, vectors)
    for n in range(count):
        for e in range(d):
            target = kind(0)
            for m in range(at + n * q, at + (n + 1) * q):
                target += X[uint64(x + n * numbers + e * T + y[m])]
            residuals[uint64(n * line + e)] -= share * target
    for n in range(count):
        _add_rows(residuals, n * line, contexts, n * line, V, d * line, line, d, line)
    for n in range(count):
        squares[n] = _dot(residuals, n * line, residuals, n * line, line // lanes)
    if not gradient:
        return
    for j in range(count * line):
        residuals[uint64(j)] *= mean
    u[:] = 0
    g[:] = 0
    for n in range(count):
        _add_rows(u, n * line, residuals, n * line, V, 0, line, d, line)
    for n in range(count):
        _add_rows(g, n * padded, residuals, n * line, K, 0, padded, d, padded)
        _add_rows(g, n * padded, u, n * line, X, x + n * numbers, T, d, padded)
    _slopes(S, g, count, padded, sums)
    for n in range(count):
        for e in range(d):
            u[uint64(n * line + e)] = _dot(g, n * padded, X, x + n * numbers + e * T, vectors)
    _gather(Ht, u, y, c, at, q, count, line)
    _gather(G, g, y, c, at, q, count, padded)
    for e in range(d):
        for p in range(0, padded, PANEL * lanes):
            v = min(PANEL * lanes, padded - p) // lanes
            _added_1(R, e * padded + p, 0, residuals, e, 0, line, S, p, padded, count, extra, 0, 0, 0, R, v)
        for p in range(0, line, PANEL * lanes):
            v = min(PANEL * lanes, line - p) // lanes
            _added_1(grad_V, e * line + p, 0, residuals, e, 0, line, contexts, p, line, count, extra, 0, 0, 0, grad_V, v)


@_compiled
def _both_ways(V_x, V, d, line):
    """V_x and its transpose, with zeros up to whole cache lines."""
    for e in range(d):
        for f in range(d):
            V[e * line + f] = V_x[e, f]
            V[(d + f) * line + e] = V_x[e, f]


@_compiled
def attend_tokens(keys, owner, N, K, Q, V_x, y, c, T, gradient, squares, G, R, H, grad_V_x):
    """See `Kernels.attend_tokens`; adds to `G`, `R`, `H` and `grad_V_x`, and writes `squares`.

    Tokens are drawn where they are used, a batch or a few samples of it at a time, and never leave the cache.
    """
    k, rows, q = y.shape
    d, padded = K.shape[1], N.shape[2]
    mean, numbers, line = N.dtype.type(1) / N.dtype.type(rows), d * T, _line_of(d, N.itemsize)
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = _room(N, 0, _room_for(room * numbers) + LANES)  # the last row is read, times zero, up to LANES beyond its end
    rooms, edges, extra = _rooms_of_block(N, padded, line), _edges(N, T, padded), np.zeros(1, np.int64)
    Qt, Ht = _room(N, 0, padded * line), _room(N, 0, padded * line)
    V, grad_V = _room(N, 0, 2 * d * line), _room(N, 0, d * line)
    for seed in range(len(keys)):
        k0, k1 = _halves(keys[seed])
        drawn, before, shared = -1, 0, 0
        for i in range(k):
            shared += owner[i] == seed
        chunk = room if shared > 1 else BLOCK  # what one trial alone reads need not be kept for the next
        for i in range(k):
            if owner[i] != seed:
                continue
            for e in range(d):
                for t in range(padded):
                    Qt[t * line + e] = Q[i, e, t]
            _both_ways(V_x[i], V, d, line)
            Ht[:] = 0
            grad_V[:] = 0
            own_N, own_K, ys, cs = N[i].reshape(-1), K[i].reshape(-1), y[i].reshape(-1), c[i].reshape(-1)
            own_G, own_R = G[i * gradient].reshape(-1), R[i * gradient].reshape(-1)
            for first in range(0, rows, BLOCK):
                if first // chunk != drawn:
                    drawn = first // chunk
                    before = _fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
                _attend_block(
                    own_N, own_K, Qt, V, ys, cs, first * q, q, X, before + first % chunk * numbers, min(BLOCK, rows - first),
                    mean, T, padded, d, line, gradient, squares[i, first:], own_G, own_R, Ht, grad_V, rooms, edges, extra,
                )  # fmt: skip
            if gradient:
                for e in range(d):
                    for t in range(padded):
                        H[i, e, t] += Ht[t * line + e]
                    for f in range(d):
                        grad_V_x[i, e, f] += grad_V[e * line + f]


@_compiled
def _read_book(E, padded, D, width, book, turned):
    """A trial's codes with zeros up to whole cache lines, (padded, width), and turned over, (width, padded)."""
    for t in range(padded):
        for e in range(D):
            book[t * width + e] = E[t, e]
    lanes = VECTOR_BYTES // book.itemsize
    for t in range(0, padded, lanes):
        for e in range(0, width, lanes):
            _transpose(book, t * width + e, width, turned, e * padded + t, padded)


@_compiled
def _scores_of_book(W, w, D, turned, padded, half, N, extra):
    """`N = E W^T E^T`."""
    _multiply(half, 0, padded, W, w, D, 1, D, turned, 0, D, padded, extra)
    _multiply(N, 0, padded, half, 0, 1, padded, padded, turned, 0, D, padded, extra)


@_compiled
def _gradient_of_book(G, padded, book, D, width, half, own, out, place, factor, extra):
    """The gradient of W from that of `_scores_of_book`, times a factor, into out."""
    _multiply(half, 0, width, G, 0, padded, 1, padded, book, 0, padded, width, extra)
    _multiply(own, 0, width, half, 0, 1, width, D, book, 0, padded, width, extra)
    for r in range(D):
        for e in range(D):
            out[place + r * D + e] = factor * own[r * width + e]


@_compiled
def _move_all(i, weights, gradients, m, v, numbers_of_step):
    """Trial i's step, from gradients of one trial."""
    rate, root, beta1, beta2, eps, adam = numbers_of_step
    for n in range(len(weights)):
        size = len(gradients[n])
        own = slice(i * size, (i + 1) * size)
        _move(gradients[n], weights[n][own], m[n][own], v[n][own], rate[i], root[i], beta1[i], beta2[i], eps[i], adam[i])


@_compiled
def learn_population(E, y, c, T, d, weights, squares, gradients, moves, m, v, numbers_of_step):
    """See `Kernels.learn_attention`: weights `W_e` and v, flat; where they move, the gradients are those of one trial."""
    k, padded, D = E.shape
    W, scale = weights
    width = _line_of(D, W.itemsize)
    book, turned, half = _room(W, 0, padded * width), _room(W, 0, padded * width), _room(W, 0, padded * max(width, padded))
    N, G, own = _room(W, 0, padded * padded), _room(W, 0, padded * padded), _room(W, 0, D * width)
    extra = np.zeros(1, np.int64)
    for i in range(k):
        place = 0 if moves else i
        _read_book(E[i], padded, D, width, book, turned)
        _scores_of_book(W, i * D * D, D, turned, padded, half, N, extra)
        G[:] = 0
        ys, cs = y[i].reshape(-1), c[i].reshape(-1)
        gradients[1][place] = _attend_subsets(N, scale[i], ys, cs, y.shape[2], T, padded, True, squares[i], G)
        _gradient_of_book(G, padded, book, D, width, half, own, gradients[0], place * D * D, scale[i] * W.dtype.type(d), extra)
        if moves:
            _move_all(i, weights, gradients, m, v, numbers_of_step)


@_compiled
def learn_tokens(keys, owner, E, y, c, T, d, weights, squares, gradients, moves, m, v, numbers_of_step):
    """See `Kernels.learn_attention`: weights `W_x`, `W_e`, `V_x`, `V_e`, flat; where they move, the gradients are those of one
    trial. Tokens as in `attend_tokens`.
    """
    (k, padded, D), (_, rows, q) = E.shape, y.shape
    W_x, W_e, V_x, V_e = weights
    kind, width, line = W_e.dtype.type, _line_of(D, W_e.itemsize), _line_of(d, W_e.itemsize)
    mean, numbers = kind(1) / kind(rows), d * T
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = _room(W_e, 0, _room_for(room * numbers) + LANES)
    book, turned, half = (
        _room(W_e, 0, padded * width),
        _room(W_e, 0, padded * width),
        _room(W_e, 0, padded * max(width, padded)),
    )
    N, G, own = _room(W_e, 0, padded * padded), _room(W_e, 0, padded * padded), _room(W_e, 0, max(D, d) * width)
    K, R, Wt = _room(W_e, 0, d * padded), _room(W_e, 0, d * padded), _room(W_e, 0, D * line)
    Qt, Ht, V, grad_V = (
        _room(W_e, 0, padded * line),
        _room(W_e, 0, padded * line),
        _room(W_e, 0, 2 * d * line),
        _room(W_e, 0, d * line),
    )
    rooms, edges, extra = _rooms_of_block(W_e, padded, line), _edges(W_e, T, padded), np.zeros(1, np.int64)
    for seed in range(len(keys)):
        k0, k1 = _halves(keys[seed])
        drawn, before, shared = -1, 0, 0
        for i in range(k):
            shared += owner[i] == seed
        chunk = room if shared > 1 else BLOCK
        for i in range(k):
            if owner[i] != seed:
                continue
            place, ys, cs = 0 if moves else i, y[i].reshape(-1), c[i].reshape(-1)
            _read_book(E[i], padded, D, width, book, turned)
            _scores_of_book(W_e, i * D * D, D, turned, padded, half, N, extra)
            _multiply(K, 0, padded, V_e, i * d * D, D, 1, d, turned, 0, D, padded, extra)
            for e in range(d):
                for j in range(D):
                    Wt[j * line + e] = W_x[i * d * D + e * D + j]
            _multiply(Qt, 0, line, book, 0, width, 1, padded, Wt, 0, D, line, extra)
            _both_ways(V_x[i * d * d : (i + 1) * d * d].reshape(d, d), V, d, line)
            G[:] = 0
            R[:] = 0
            Ht[:] = 0
            grad_V[:] = 0
            for first in range(0, rows, BLOCK):
                if first // chunk != drawn:
                    drawn = first // chunk
                    before = _fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
                _attend_block(
                    N, K, Qt, V, ys, cs, first * q, q, X, before + first % chunk * numbers, min(BLOCK, rows - first), mean,
                    T, padded, d, line, True, squares[i, first:], G, R, Ht, grad_V, rooms, edges, extra,
                )  # fmt: skip
            _gradient_of_book(G, padded, book, D, width, half, own, gradients[1], place * D * D, kind(1), extra)
            for e in range(d):
                for f in range(d):
                    gradients[2][(place * d + e) * d + f] = grad_V[e * line + f]
            _multiply(own, 0, width, Ht, 0, 1, line, d, book, 0, padded, width, extra)
            for e in range(d):
                for j in range(D):
                    gradients[0][(place * d + e) * D + j] = own[e * width + j]
            _multiply(own, 0, width, R, 0, padded, 1, d, book, 0, padded, width, extra)
            for e in range(d):
                for j in range(D):
                    gradients[3][(place * d + e) * D + j] = own[e * width + j]
            if moves:
                _move_all(i, weights, gradients, m, v, numbers_of_step)


# Fully connected nets


@_compiled
def _forward(W, w, columns, inputs, x, a, a_row, extra, num_extra, out, c, units, count):
    """`out = relu(W x)`: the layer's packed weights at w, its bias and subset among the extra rows."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, PANEL * lanes):
        width = min(PANEL * lanes, units - p)
        b, v = w + p * columns, width // lanes
        whole = count // 4 * 4
        for s in range(0, whole, 4):
            _rectified_4(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, b, width, inputs,
                         extra, s * num_extra, num_extra, num_extra, out, v)  # fmt: skip
        for s in range(whole, count):
            _rectified_1(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, b, width, inputs,
                         extra, s * num_extra, num_extra, num_extra, out, v)  # fmt: skip


@_compiled
def _backward(W, w, columns, above, x, a, a_row, h, out, c, units, count, extra):
    """`out = (W^T x)` where h is positive, zero elsewhere; rows of W as they are kept."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, PANEL * lanes):
        v = min(PANEL * lanes, units - p) // lanes
        whole = count // 4 * 4
        for s in range(0, whole, 4):
            _masked_4(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, w + p, columns, above,
                      extra, 0, 0, 0, h, v)  # fmt: skip
        for s in range(whole, count):
            _masked_1(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, w + p, columns, above,
                      extra, 0, 0, 0, h, v)  # fmt: skip


@_compiled
def _accumulate(G, w, columns, inputs, x, a, a_row, g, c, units, count, one, extra, num_extra):
    """Add `x^T g` to a layer's packed gradient, and g to the rows of its bias and subset."""
    lanes = VECTOR_BYTES // g.itemsize
    for p in range(0, units, PANEL * lanes):
        width = min(PANEL * lanes, units - p)
        b, v = w + p * columns, width // lanes
        whole = inputs // 4 * 4
        for i in range(0, whole, 4):
            _added_4(G, b + i * width, width, x, a + i, 1, a_row, g, c + p, units, count, extra, 0, 0, 0, G, v)
        for i in range(whole, inputs):
            _added_1(G, b + i * width, width, x, a + i, 1, a_row, g, c + p, units, count, extra, 0, 0, 0, G, v)
        _added_1(G, b + extra[0] * width, 0, one, 0, 0, 0, g, c + p, units, count, extra, 0, 0, 0, G, v)
        for s in range(count):
            _spread(G, b, width, one, 0, 0, 0, g, c + p + s * units, 0, 1, extra, s * num_extra + 1, 0, num_extra - 1, G, v)


@_compiled
def _pack(W, start, own, columns, out, w, units):
    """A layer's weights by panels of units, the units of an input side by side, with zeros up to whole vectors of units."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, lanes):
        width, first = _panel(p, units, lanes)
        here = w + first * columns + p - first
        if p + lanes <= own:
            for j in range(0, columns, lanes):
                _transpose(W, start + p * columns + j, columns, out, here + j * width, width)
        else:
            for j in range(columns):
                for u in range(lanes):
                    out[here + j * width + u] = W[start + (p + u) * columns + j] if p + u < own else 0


@_compiled
def _unpack(G, w, units, out, start, own, columns):
    """`_pack` back."""
    lanes = VECTOR_BYTES // G.itemsize
    for p in range(0, units, lanes):
        width, first = _panel(p, units, lanes)
        here = w + first * columns + p - first
        if p + lanes <= own:
            for j in range(0, columns, lanes):
                _transpose(G, here + j * width, width, out, start + p * columns + j, columns)
        else:
            for u in range(own - p):
                for j in range(columns):
                    out[start + (p + u) * columns + j] = G[here + j * width + u]


@_inlined
def _panel(p, units, lanes):
    """The width of the panel that holds unit p, and its first unit."""
    first = p // (PANEL * lanes) * (PANEL * lanes)
    return min(PANEL * lanes, units - first), first


@_compiled
def _residuals(W, w, columns, h, c, units, X, x, numbers, y, i, first, count, d, r, bias, squares):
    """The residuals of some samples, over the batch's size, and their squares."""
    q, kind = y.shape[2], h.dtype.type
    mean, share, vectors = kind(1) / kind(y.shape[1]), kind(1) / kind(q), units // (VECTOR_BYTES // h.itemsize)
    for s in range(count):
        square = kind(0)
        for e in range(d):
            target = kind(0)
            for m in range(q):
                target += X[uint64(x + s * numbers + y[i, first + s, m] * d + e)]
            row = w + e * columns
            total = _dot(h, c + s * units, W, row, vectors) + W[row + bias] - share * target
            square += total * total
            r[s * d + e] = mean * total
        squares[i, first + s] = square


@_compiled
def connect(keys, owner, y, weights, layout, gradient, squares, gradients, moves, m, v, numbers_of_step):
    """See `Kernels.connect`; writes `squares` (k, rows) and the gradients.

    Args:
        weights, gradients, m, v: of each layer, flat; where the net moves, the gradients are those of one trial.
        moves: whether each trial takes its step.
        numbers_of_step: of the step, in the order of `Rates`.
        layout: of each layer its units, its columns, what it reads of the layer below, and the tokens that it reads.
    """
    k, rows, q = y.shape
    top, d, numbers = len(weights) - 1, layout[-1, 0], layout[0, 2]
    last = weights[-1]
    line, lanes = 64 // last.itemsize, VECTOR_BYTES // last.itemsize
    # Whole vectors of units; where each layer's packed weights begin, and where its units of a block of samples.
    units, starts, places = np.zeros(top, np.int64), np.zeros(top + 1, np.int64), np.zeros(top + 1, np.int64)
    for n in range(top):
        units[n] = -(-layout[n, 0] // line) * line
        starts[n + 1] = starts[n] + units[n] * layout[n, 1]
        places[n + 1] = places[n] + units[n] * BLOCK
    W, G, h, g = (
        _room(last, 0, starts[top]),
        _room(last, 0, starts[top]),
        _room(last, 0, places[top]),
        _room(last, 0, places[top]),
    )
    r, one, extra = np.empty(BLOCK * d, last.dtype), np.ones(1, last.dtype), np.empty((top, BLOCK * (q + 1)), np.int64)
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = _room(last, 0, _room_for(room * numbers))
    for seed in range(len(keys)):
        k0, k1 = _halves(keys[seed])
        drawn, before, shared = -1, 0, 0
        for i in range(k):
            shared += owner[i] == seed
        chunk = room if shared > 1 else BLOCK  # what one trial alone reads need not be kept for the next
        for i in range(k):
            if owner[i] != seed:
                continue
            columns, final, below = layout[top, 1], i * d * layout[top, 1], places[top - 1]
            output = 0 if moves else final
            for n in range(top):
                size = layout[n, 0] * layout[n, 1]
                _pack(weights[n], i * size, layout[n, 0], layout[n, 1], W, starts[n], units[n])
            if gradient:
                G[:] = 0
                gradients[-1][output : output + d * columns] = 0
            for first in range(0, rows, BLOCK):
                count = min(BLOCK, rows - first)
                if first // chunk != drawn:
                    drawn = first // chunk
                    before = _fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
                tokens = before + first % chunk * numbers
                for n in range(top):
                    num = 1 + q * (layout[n, 3] > 0)
                    for s in range(count):
                        extra[n, s * num] = layout[n, 2] + layout[n, 3]
                        for j in range(num - 1):
                            extra[n, s * num + 1 + j] = layout[n, 2] + y[i, first + s, j]
                    source, x, stride = (X, tokens, numbers) if n == 0 else (h, places[n - 1], units[n - 1])
                    _forward(W, starts[n], layout[n, 1], layout[n, 2], source, x, stride, extra[n], num, h, places[n], units[n],
                             count)  # fmt: skip
                _residuals(last, final, columns, h, below, units[top - 1], X, tokens, numbers, y, i, first, count, d, r,
                           layout[top, 2], squares)  # fmt: skip
                if not gradient:
                    continue
                for e in range(d):
                    for p in range(0, units[top - 1], PANEL * lanes):
                        vectors = min(PANEL * lanes, units[top - 1] - p) // lanes
                        _added_1(gradients[-1], output + e * columns + p, 0, r, e, 0, d, h, below + p, units[top - 1], count,
                                 extra[0], 0, 0, 0, h, vectors)  # fmt: skip
                    for s in range(count):
                        gradients[-1][output + e * columns + layout[top, 2]] += r[s * d + e]
                _backward(last, final, columns, d, r, 0, d, h, g, below, units[top - 1], count, extra[0])
                for n in range(top - 1, -1, -1):
                    num = 1 + q * (layout[n, 3] > 0)
                    source, x, stride = (X, tokens, numbers) if n == 0 else (h, places[n - 1], units[n - 1])
                    _accumulate(G, starts[n], layout[n, 1], layout[n, 2], source, x, stride, g, places[n], units[n], count,
                                one, extra[n], num)  # fmt: skip
                    if n > 0:
                        _backward(weights[n], i * layout[n, 0] * layout[n, 1], layout[n, 1], layout[n, 0], g, places[n],
                                  units[n], h, g, places[n - 1], units[n - 1], count, extra[0])  # fmt: skip
            if gradient:
                for n in range(top):
                    size = layout[n, 0] * layout[n, 1]
                    _unpack(G, starts[n], units[n], gradients[n], 0 if moves else i * size, layout[n, 0], layout[n, 1])
            if moves:
                _move_all(i, weights, gradients, m, v, numbers_of_step)


@_compiled
def population_steps(asked, owner, first, num, T, d, code_keys, scale, E, dual_query, tolerance, y, c, weights, squares,
                     gradients, m, v, by_step, beta1, beta2, eps, adam):  # fmt: skip
    """`learn_population` with its draws, as `connect_steps`."""
    for step in range(first, first + num):
        _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c)
        numbers = (by_step[step, 0], by_step[step, 1], beta1, beta2, eps, adam)
        learn_population(E, y, c, T, d, weights, squares, gradients, True, m, v, numbers)


@_compiled
def token_steps(tokens, asked, owner, first, num, T, d, code_keys, scale, E, dual_query, tolerance, y, c, weights, squares,
                gradients, m, v, by_step, beta1, beta2, eps, adam):  # fmt: skip
    """`learn_tokens` with its draws, as `connect_steps`."""
    token_keys = np.empty_like(tokens)
    for step in range(first, first + num):
        keys(tokens, step, token_keys)
        _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c)
        numbers = (by_step[step, 0], by_step[step, 1], beta1, beta2, eps, adam)
        learn_tokens(token_keys, owner, E, y, c, T, d, weights, squares, gradients, True, m, v, numbers)


@_compiled
def _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c):
    """A step's subsets y (k, rows, q), random-sign codes E (k, padded, length), and the coefficients c of its queries.

    Args:
        code_keys: of each distinct seed what its keys of codes are made of; none where E stays as it is.
        scale: (k, length), of a sign.
    """
    own = np.empty_like(asked)
    keys(asked, step, own)
    distinct = np.empty((len(asked), y.shape[1], y.shape[2]), np.int64)
    subsets(own, T, distinct)
    for i in range(len(y)):
        y[i] = distinct[owner[i]]
    if len(code_keys):
        keys(code_keys, step, own)
        drawn = np.empty((len(code_keys), T, E.shape[2]), E.dtype)
        signs(own, drawn)
        for i in range(len(E)):
            for t in range(T):
                for e in range(E.shape[2]):
                    E[i, t, e] = drawn[owner[i], t, e] * scale[i, e]
    if dual_query:
        dual(E, y, tolerance, c)


@_compiled
def connect_steps(
    tokens, asked, owner, first, num, T, y, weights, layout, squares, gradients, m, v, by_step, beta1, beta2, eps, adam
):
    """`connect` with its draws, `num` steps from `first` on; `squares` are those of the last.

    Args:
        tokens, asked: of each distinct seed what its keys of tokens and of subsets are made of (`keys`).
        y: (k, rows, q), written.
        by_step: (steps, 2, k), the first two of `Rates` at each step; the others follow.
    """
    token_keys, subset_keys = np.empty_like(tokens), np.empty_like(asked)
    distinct = np.empty((len(asked), y.shape[1], y.shape[2]), np.int64)
    for step in range(first, first + num):
        keys(tokens, step, token_keys)
        keys(asked, step, subset_keys)
        subsets(subset_keys, T, distinct)
        for i in range(len(y)):
            y[i] = distinct[owner[i]]
        numbers = (by_step[step, 0], by_step[step, 1], beta1, beta2, eps, adam)
        connect(token_keys, owner, y, weights, layout, True, squares, gradients, True, m, v, numbers)


# Descent


@_compiled
def descend(gradient, parameter, rate):
    """See `Kernels.descend`; arrays are (k, numbers)."""
    for i in range(parameter.shape[0]):
        for j in range(parameter.shape[1]):
            parameter[i, j] -= rate[i] * gradient[i, j]


@_compiled
def descend_with_moments(gradient, parameter, m, v, rate, root, beta1, beta2, eps, adam):
    """See `Kernels.descend`; arrays are (k, numbers)."""
    for i in range(parameter.shape[0]):
        _move(gradient[i], parameter[i], m[i], v[i], rate[i], root[i], beta1[i], beta2[i], eps[i], adam[i])


@_compiled
def _move(gradient, parameter, m, v, rate, root, beta1, beta2, eps, adam):
    """`descend_with_moments` for the numbers of one trial."""
    one = parameter.dtype.type(1)
    if not adam:
        for j in range(len(parameter)):
            parameter[j] -= rate * gradient[j]
        return
    rest1, rest2, inverse = one - beta1, one - beta2, one / root
    for j in range(len(parameter)):
        g = gradient[j]
        first = beta1 * m[j] + rest1 * g
        second = beta2 * v[j] + rest2 * g * g
        m[j] = first
        v[j] = second
        parameter[j] -= rate * first / (np.sqrt(second) * inverse + eps)
