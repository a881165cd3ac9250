"""The CPU's inner loops, compiled by Numba: random draws, dual coefficients, and the attention step one sample at a time.

All compiled code lives in this one file, because Numba's cache on disk notices a change of the file that holds a function and
not of the files that it calls. Every trial is a loop of its own over contiguous rows whose length is a multiple of `LANES`, so
its bits cannot depend on the trials beside it; whole vectors leave no scalar tail.
Indices that are not plain loop variables are unsigned: a signed one might count from the end, which no vector loop can do.

Sources: Philox4x32-10 is Salmon, Moraes, Dror, Shaw 2011 (Parallel random numbers: as easy as 1, 2, 3); normals are Box and
Muller 1958; subsets are Floyd's algorithm (Bentley, Floyd 1987); the polynomials of log, exp, sin and cos are those of the
Cephes library (Moshier), good to about one unit in the last place of float32 on the ranges used here.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import float32, int32, types, uint32, uint64
from numba.extending import overload

from stsq_core.configs import LANES

GROUP = 8
"""Numbers of a stream come in groups of four words of this many consecutive Philox counters."""

TOKENS_IN_CACHE = 8192
"""Token coordinates drawn at a time, for all trials of one seed."""


def _compiled(function: Callable[..., None]) -> Any:
    """Sums may be reordered (the same way for every trial), nothing else: NaN and infinity keep their meaning."""
    return numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "nsz", "contract", "arcp"})(function)


def _inlined(function: Callable[..., Any]) -> Any:
    """A piece of a vectorised loop, in the order in which it is written."""
    return numba.njit(cache=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function)


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
    """The four words of counter (i, row, 0, 0). Ten rounds written out: a loop here would not vectorise its caller's."""
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
def _log(x):
    """The logarithm of a positive normal float32."""
    # x = 2^exponent (1 + f) with 1 + f between the roots of 1/2 and 2: 0x3F3504F3 holds the bits of the root of 1/2.
    bits = np.float32(x).view(np.int32)
    exponent = int32(int32(bits - int32(0x3F3504F3)) >> int32(23))
    f = np.int32(bits - int32(exponent << int32(23))).view(np.float32) - float32(1)
    p = float32(7.0376836292e-2)
    p = p * f + float32(-1.1514610310e-1)
    p = p * f + float32(1.1676998740e-1)
    p = p * f + float32(-1.2420140846e-1)
    p = p * f + float32(1.4249322787e-1)
    p = p * f + float32(-1.6668057665e-1)
    p = p * f + float32(2.0000714765e-1)
    p = p * f + float32(-2.4999993993e-1)
    p = p * f + float32(3.3333331174e-1)
    square = f * f
    e = float32(exponent)
    tail = f * square * p + e * float32(-2.12194440e-4) - float32(0.5) * square
    return f + tail + e * float32(0.693359375)


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
def _normal_pair(w0, w1):
    """Two independent standard normals from two words; none is beyond 5.9, where 4e-9 of the mass lies."""
    u = (float32(int32(w0 >> uint32(8))) + float32(0.5)) * float32(2.0**-24)
    radius = np.sqrt(float32(-2) * _log(u))
    # The word is a fraction of a whole turn; the nearest quarter is split off, which leaves an angle x of at most pi/4.
    turn = int32(w1)
    quarter = int32(int32(turn + int32(0x20000000)) >> int32(30))
    x = float32(int32(turn - int32(quarter << int32(30)))) * float32(math.pi / 2 * 2.0**-30)
    z = x * x
    sine = ((float32(-1.9515295891e-4) * z + float32(8.3321608736e-3)) * z + float32(-1.6666654611e-1)) * z * x + x
    cosine = (float32(2.443315711809948e-5) * z + float32(-1.388731625493765e-3)) * z + float32(4.166664568298827e-2)
    cosine = cosine * z * z - float32(0.5) * z + float32(1)
    odd = quarter & int32(1)
    cos_sign = float32(1) - float32(int32(int32(quarter + int32(1)) & int32(2)))
    sin_sign = float32(1) - float32(int32(quarter & int32(2)))
    return radius * cos_sign * (sine if odd else cosine), radius * sin_sign * (cosine if odd else sine)


@_inlined
def _uniform(word):
    """Uniform on (-1, 1), on a grid of 2^-23."""
    return (float32(int32(word >> uint32(8))) + float32(0.5)) * float32(2.0**-23) - float32(1)


# Draws


@_inlined
def _fill_normals(k0, k1, row, out, start, stop):
    """Numbers 0, 1, ... of a row's stream into out[start:stop], whose length is a multiple of 4 GROUP."""
    for h in range((stop - start) // (4 * GROUP)):
        for lane in range(GROUP):
            w0, w1, w2, w3 = philox(GROUP * h + lane, row, k0, k1)
            x0, x1 = _normal_pair(w0, w1)
            x2, x3 = _normal_pair(w2, w3)
            place = uint64(start) + uint64(4 * GROUP * h + lane)
            out[place] = x0
            out[place + uint64(GROUP)] = x1
            out[place + uint64(2 * GROUP)] = x2
            out[place + uint64(3 * GROUP)] = x3


@_compiled
def normals(keys, out):
    """Standard normals into out of shape (n, rows, numbers), for keys of shape (n,)."""
    numbers = out.shape[2]
    whole = numbers // (4 * GROUP) * (4 * GROUP)
    rest = np.empty(4 * GROUP, np.float32)
    for s in range(out.shape[0]):
        k0, k1 = _halves(keys[s])
        for row in range(out.shape[1]):
            target = out[s, row]
            _fill_normals(k0, k1, row, target, 0, whole)
            if whole < numbers:
                for lane in range(GROUP):
                    w0, w1, w2, w3 = philox(whole // 4 + lane, row, k0, k1)
                    rest[lane], rest[lane + GROUP] = _normal_pair(w0, w1)
                    rest[lane + 2 * GROUP], rest[lane + 3 * GROUP] = _normal_pair(w2, w3)
                for j in range(numbers - whole):
                    target[whole + j] = rest[j]


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
    for s in range(n):
        k0, k1 = _halves(keys[s])
        for block in range(-(-q // 2)):
            for row in range(rows):
                w0, w1, w2, w3 = philox(row, block, k0, k1)
                j = 2 * block
                out[s, row, j] = _below(w0, w1, T - q + j + 1)
                if j + 1 < q:
                    out[s, row, j + 1] = _below(w2, w3, T - q + j + 2)
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
    """Coefficients c of the minimum-norm least-squares query into out of shape (k, rows, q); see `Kernels.dual`."""
    k, rows, q = y.shape
    D = codes.shape[2]
    gram = np.empty((q, q))
    c, residual, direction, image = np.empty(q), np.empty(q), np.empty(q), np.empty(q)
    for trial in range(k):
        for row in range(rows):
            for i in range(q):
                for j in range(i + 1):
                    a, b = uint64(y[trial, row, i]), uint64(y[trial, row, j])
                    total = 0.0
                    for e in range(D):
                        total += np.float64(codes[trial, a, e]) * np.float64(codes[trial, b, e])
                    gram[i, j] = gram[j, i] = total
            for i in range(q):
                c[i], residual[i], direction[i] = 0.0, 1.0, 1.0
            slope = _slope(gram, residual)
            enough = tolerance * tolerance * slope
            for _ in range(q):
                curvature = 0.0
                for i in range(q):
                    total = 0.0
                    for j in range(q):
                        total += gram[i, j] * direction[j]
                    image[i] = total
                    curvature += total * total
                if not (slope > enough and curvature > 0):
                    break
                step = slope / curvature
                for i in range(q):
                    c[i] += step * direction[i]
                    residual[i] -= step * image[i]
                new_slope = _slope(gram, residual)
                for i in range(q):
                    direction[i] = residual[i] + new_slope / slope * direction[i]
                slope = new_slope
            for i in range(q):
                out[trial, row, i] = c[i]


@_inlined
def _slope(gram, residual):
    total = 0.0
    for i in range(len(residual)):
        for j in range(len(residual)):
            total += residual[i] * gram[i, j] * residual[j]
    return total


# Attention


@_inlined
def _softmax(s, top, T):
    """Softmax of s[:T] in place, and zeros beyond."""
    padded = len(s)
    for t in range(T, padded):
        s[t] = -np.inf
    # Eight maxima side by side are one vector; a single one would be a chain that no vector loop can take.
    for lane in range(8):
        top[lane] = s[lane]
    for h in range(1, padded // 8):
        for lane in range(8):
            x = s[8 * h + lane]
            top[lane] = x if x > top[lane] else top[lane]
    most = top[0]
    for lane in range(1, 8):
        most = top[lane] if top[lane] > most else most
    for t in range(padded):
        s[t] = _exp(s[t] - most)
    for t in range(T, padded):
        s[t] = 0


@_compiled
def attend_population(N, v, y, c, T, gradient, squares, shares, G):
    """See `Kernels.attend_population`; adds to `shares` (k,) and `G`, and writes `squares`."""
    k, rows, q = y.shape
    padded = N.shape[2]
    kind = N.dtype.type
    s, top, g = np.empty(padded, N.dtype), np.empty(8, N.dtype), np.empty(padded, N.dtype)
    share, mean = kind(1) / kind(q), kind(1) / kind(rows)
    for i in range(k):
        for b in range(rows):
            j = uint64(y[i, b, 0])
            a = c[i, b, 0]
            for t in range(padded):
                s[t] = a * N[i, j, t]
            for m in range(1, q):
                j = uint64(y[i, b, m])
                a = c[i, b, m]
                for t in range(padded):
                    s[t] += a * N[i, j, t]
            _softmax(s, top, T)
            total = kind(0)
            for t in range(padded):
                total += s[t]
            inverse = kind(1) / total
            scale = v[i]
            for t in range(padded):
                s[t] *= inverse
                g[t] = scale * s[t]
            for m in range(q):
                g[uint64(y[i, b, m])] -= share
            square = kind(0)
            for t in range(padded):
                square += g[t] * g[t]
            squares[i, b] = square
            if gradient:
                total = kind(0)
                for t in range(padded):
                    g[t] *= s[t]
                    total += g[t]
                shares[i] += mean * total
                for t in range(padded):
                    g[t] -= total * s[t]
                for m in range(q):
                    j = uint64(y[i, b, m])
                    a = mean * c[i, b, m]
                    for t in range(padded):
                        G[i, j, t] += a * g[t]


@_compiled
def attend_tokens(keys, owner, N, K, Q, V_x, y, c, T, gradient, squares, G, R, H, grad_V_x):
    """See `Kernels.attend_tokens`; adds to `G`, `R`, `H` and `grad_V_x`, and writes `squares`.

    Tokens are drawn where they are used, a few samples at a time, and never leave the cache.
    """
    k, rows, q = y.shape
    d, padded = K.shape[1], N.shape[2]
    kind = N.dtype.type
    mean = kind(1) / kind(rows)
    numbers = -(-d * T // (4 * GROUP)) * (4 * GROUP)
    block = max(1, TOKENS_IN_CACHE // numbers)
    X = np.zeros(block * numbers + LANES, N.dtype)  # the last row is read, and multiplied by zero, up to LANES beyond its end
    s, g, top = np.empty(padded, N.dtype), np.empty(padded, N.dtype), np.empty(8, N.dtype)
    context, r, w = np.empty(d, N.dtype), np.empty(d, N.dtype), np.empty(d, N.dtype)
    for seed in range(len(keys)):
        k0, k1 = _halves(keys[seed])
        for first in range(0, rows, block):
            count = min(block, rows - first)
            for b in range(count):
                _fill_normals(k0, k1, first + b, X, b * numbers, (b + 1) * numbers)
            for i in range(k):
                if owner[i] != seed:
                    continue
                for b in range(first, first + count):
                    start = uint64((b - first) * numbers)
                    j = uint64(y[i, b, 0])
                    a = c[i, b, 0]
                    for t in range(padded):
                        s[t] = a * N[i, j, t]
                    for m in range(1, q):
                        j = uint64(y[i, b, m])
                        a = c[i, b, m]
                        for t in range(padded):
                            s[t] += a * N[i, j, t]
                    for e in range(d):
                        a = kind(0)
                        for m in range(q):
                            a += c[i, b, m] * Q[i, e, uint64(y[i, b, m])]
                        x = start + uint64(e * T)
                        for t in range(padded):
                            s[t] += a * X[x + uint64(t)]
                    _softmax(s, top, T)
                    total = kind(0)
                    for t in range(padded):
                        total += s[t]
                    inverse = kind(1) / total
                    for t in range(padded):
                        s[t] *= inverse
                    for e in range(d):
                        x = start + uint64(e * T)
                        total = kind(0)
                        for t in range(padded):
                            total += s[t] * X[x + uint64(t)]
                        context[e] = total
                    square = kind(0)
                    for e in range(d):
                        total = kind(0)
                        for t in range(padded):
                            total += s[t] * K[i, e, t]
                        for f in range(d):
                            total += V_x[i, e, f] * context[f]
                        x = start + uint64(e * T)
                        target = kind(0)
                        for m in range(q):
                            target += X[x + uint64(y[i, b, m])]
                        total -= target / kind(q)
                        r[e] = total * mean
                        square += total * total
                    squares[i, b] = square
                    if not gradient:
                        continue
                    for e in range(d):
                        total = kind(0)
                        for f in range(d):
                            total += V_x[i, f, e] * r[f]
                            grad_V_x[i, e, f] += r[e] * context[f]
                        w[e] = total
                    for t in range(padded):
                        g[t] = 0
                    for e in range(d):
                        x = start + uint64(e * T)
                        a = r[e]
                        total = w[e]
                        for t in range(padded):
                            g[t] += a * K[i, e, t] + total * X[x + uint64(t)]
                        for t in range(padded):
                            R[i, e, t] += a * s[t]
                    total = kind(0)
                    for t in range(padded):
                        total += s[t] * g[t]
                    for t in range(padded):
                        g[t] = s[t] * (g[t] - total)
                    for e in range(d):
                        x = start + uint64(e * T)
                        total = kind(0)
                        for t in range(padded):
                            total += g[t] * X[x + uint64(t)]
                        for m in range(q):
                            H[i, e, uint64(y[i, b, m])] += c[i, b, m] * total
                    for m in range(q):
                        j = uint64(y[i, b, m])
                        a = c[i, b, m]
                        for t in range(padded):
                            G[i, j, t] += a * g[t]


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
    one = parameter.dtype.type(1)
    for i in range(parameter.shape[0]):
        scale = rate[i]
        if not adam[i]:
            for j in range(parameter.shape[1]):
                parameter[i, j] -= scale * gradient[i, j]
            continue
        keep1, keep2, inverse, least = beta1[i], beta2[i], one / root[i], eps[i]
        rest1, rest2 = one - keep1, one - keep2
        for j in range(parameter.shape[1]):
            g = gradient[i, j]
            first = keep1 * m[i, j] + rest1 * g
            second = keep2 * v[i, j] + rest2 * g * g
            m[i, j] = first
            v[i, j] = second
            parameter[i, j] -= scale * first / (np.sqrt(second) * inverse + least)
