"""Draws of random streams: words, normals, uniforms, signs and subsets (`stsq_core.kernels.interface` defines them).

Sources: Philox4x32-7 is Salmon, Moraes, Dror, Shaw 2011 (Parallel random numbers: as easy as 1, 2, 3); normals are Box and
Muller 1958; subsets are Floyd's algorithm (Bentley, Floyd 1987); the polynomials of normals are minimax fits, good to about one
unit in the last place of float32 on the ranges used here.
"""

import math

import numpy as np
from llvmlite import ir
from numba import float32, int32, types, uint32, uint64
from numba.core import cgutils

from stsq_core.kernels.jit import emitted, inlined, jitted
from stsq_core.kernels.vectors import LANES_OF_WORDS, Vectors

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


@inlined
def _philox_round(c0, c1, c2, c3, k0, k1):
    p0 = uint64(c0) * uint64(0xD2511F53)
    p1 = uint64(c2) * uint64(0xCD9E8D57)
    return (
        uint32(uint32(p1 >> uint64(32)) ^ c1 ^ k0),
        uint32(p1),
        uint32(uint32(p0 >> uint64(32)) ^ c3 ^ k1),
        uint32(p0),
    )


@inlined
def _bumped(k0, k1):
    return uint32(k0 + uint32(0x9E3779B9)), uint32(k1 + uint32(0xBB67AE85))


@inlined
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


@inlined
def halves(key):
    return uint32(uint64(key) & uint64(0xFFFFFFFF)), uint32(uint64(key) >> uint64(32))


@jitted
def keys(bases, step, out):
    """See `Kernels.keys`."""
    for s in range(len(bases)):
        x = uint64(bases[s]) + uint64(step) + uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
        out[s] = np.int64(x ^ (x >> uint64(31)))


@inlined
def _uniform(word):
    """Uniform on (-1, 1), on a grid of 2^-23."""
    return (float32(int32(word >> uint32(8))) + float32(0.5)) * float32(2.0**-23) - float32(1)


# Draws


@emitted
def _normals_at(typing, out, place, i, row, k0, k1):
    """The 4 GROUP normals of the counters (i, row, 0, 0), ... into out from a place on.

    A 64-bit lane holds a counter's word in its lower half, so that a product's halves, which a round sets apart, cost one
    shift; even and odd counters are two vectors.
    """

    def lower(context, builder, signature, values):
        out_, place, *counter = values
        lanes, word, wide = LANES_OF_WORDS, ir.IntType(32), ir.IntType(64)
        half = ir.VectorType(wide, lanes // 2)
        words, floats = ir.VectorType(word, lanes), ir.VectorType(ir.FloatType(), lanes)
        lines = Vectors(context, builder, out)
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


@inlined
def _fill_normals(k0, k1, row, out, start, stop, group):
    """Numbers 4 GROUP group, ... of a row's stream into out[start:stop], whose length is a multiple of 4 GROUP."""
    for h in range((stop - start) // (4 * GROUP)):
        _normals_at(out, uint64(start + 4 * GROUP * h), uint32(GROUP * (group + h)), uint32(row), k0, k1)


@jitted
def fill_batch(k0, k1, out, first, count):
    """So many numbers of row 0, from number `first` on, into out; how many others stand before them."""
    before = first % (4 * GROUP)
    _fill_normals(k0, k1, 0, out, 0, room_for(before + count) - 4 * GROUP, first // (4 * GROUP))
    return before


@inlined
def room_for(numbers):
    """Numbers that hold so many in whole groups, wherever in a group they begin."""
    return (-(-numbers // (4 * GROUP)) + 1) * (4 * GROUP)


@jitted
def normals(keys, out):
    """Standard normals into out of shape (n, rows, numbers), for keys of shape (n,)."""
    numbers = out.shape[2]
    whole = numbers // (4 * GROUP) * (4 * GROUP)
    rest = np.empty(4 * GROUP, out.dtype)
    for s in range(out.shape[0]):
        k0, k1 = halves(keys[s])
        for row in range(out.shape[1]):
            target = out[s, row]
            _fill_normals(k0, k1, row, target, 0, whole, 0)
            if whole < numbers:
                _fill_normals(k0, k1, row, rest, 0, len(rest), whole // len(rest))
                for n in range(whole, numbers):
                    target[n] = rest[n - whole]


@jitted
def uniforms(keys, out):
    """Uniforms on (-1, 1) into out of shape (n, numbers)."""
    numbers = out.shape[1]
    for s in range(out.shape[0]):
        k0, k1 = halves(keys[s])
        for h in range(-(-numbers // (4 * GROUP))):
            for lane in range(GROUP):
                words = philox(GROUP * h + lane, 0, k0, k1)
                for j in range(4):
                    place = 4 * GROUP * h + GROUP * j + lane
                    if place < numbers:
                        out[s, place] = _uniform(words[j])


@jitted
def signs(keys, out):
    """Uniform signs into out of shape (n, tokens, length): bit e % 32 of word e // 32 of a token."""
    n, tokens, length = out.shape
    one = out.dtype.type(1)
    for s in range(n):
        k0, k1 = halves(keys[s])
        for t in range(tokens):
            for block in range(-(-length // 128)):
                words = philox(t, block, k0, k1)
                for j in range(4):
                    first = 128 * block + 32 * j
                    word = words[j]
                    for e in range(first, min(first + 32, length)):
                        out[s, t, e] = one - 2 * out.dtype.type(int32((word >> uint32(e - first)) & uint32(1)))


@jitted
def subsets(keys, T, out):
    """Uniform q-subsets of [T] into out of shape (n, rows, q), by Floyd's algorithm: exact in q draws of 64 bits."""
    n, rows, q = out.shape
    drawn = np.empty((2, GROUP), np.int64)
    for s in range(n):
        k0, k1 = halves(keys[s])
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


@inlined
def _below(high, low, bound):
    """`floor(bound u)` for u the 64-bit fraction of the two words: each value within bound / 2^64 of equally likely."""
    part = uint64(low) * uint64(bound) >> uint64(32)
    return (uint64(high) * uint64(bound) + part) >> uint64(32)
