"""The CPU's inner loops of attention in networks: any kind of weights, and one layer of it behind another.

As in the other loops (`stsq_core.kernels.jit`), every trial is a loop of its own over its own rows. Rows over tokens are whole
vectors. Arrays are read at places, not as views of their parts: a view counts as a use of its array, which every loop would
enter and leave again by an atomic instruction.
"""

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import overload

from stsq_core.kernels.exponentials import exp_below_zero
from stsq_core.kernels.jit import emitted, inlined, jitted
from stsq_core.kernels.network_loops import sigmoid
from stsq_core.kernels.score_rows import add_dots_of_all, add_rows_of_all, slope_fours, weigh_fours
from stsq_core.kernels.vectors import (
    MOST_TURNED,
    PANEL,
    VECTOR_BYTES,
    Vectors,
    add_dots,
    add_each,
    added_1,
    added_4,
    chained_1,
    chained_4,
    greatest_of,
    held_so_far,
    lent,
    multiply_rows,
    room_of,
    set_each,
    slope_each,
    turn_columns,
)

SOFTMAX, LINEAR, SIGMOID, TOP_Q = range(4)
"""The numbers of `Scores`."""

TOGETHER = 4
"""Samples whose answers are weighed together: each would wait for its own sums, and their scores are in the cache."""

# Weights


@emitted
def _total_of_vectors(typing, S, s, columns):
    """The sum of so many numbers of S, whole vectors, in the order that LLVM gives to a plain loop, as in `_dots`."""

    def lower(context, builder, signature, values):
        S_, s, columns = values
        lines, integer = Vectors(context, builder, S), columns.type
        side = 4 if VECTOR_BYTES == 64 else 2
        S_, block = lines.data(S, S_), integer(side * lines.lanes)
        totals = [cgutils.alloca_once_value(builder, lines.zero) for _ in range(side)]
        main = builder.mul(builder.sdiv(columns, block), block)
        with builder.if_then(builder.icmp_signed(">", main, integer(0))):
            with cgutils.for_range_slice(builder, integer(0), main, block) as (place, _):
                for v, total in enumerate(totals):
                    read = lines.load(S_, s, place, integer(v * lines.lanes))
                    builder.store(builder.fadd(builder.load(total), read), total)
            parts = [builder.load(total) for total in totals]
            while len(parts) > 1:
                parts = [builder.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            so_far = builder.extract_element(lines.sums(parts), ir.IntType(32)(0))
            builder.store(builder.insert_element(lines.zero, so_far, ir.IntType(32)(0)), totals[0])
        with cgutils.for_range_slice(builder, main, columns, integer(lines.lanes)) as (place, _):
            builder.store(builder.fadd(builder.load(totals[0]), lines.load(S_, s, place)), totals[0])
        return builder.extract_element(lines.sums([builder.load(totals[0])]), ir.IntType(32)(0))

    return S.dtype(S, types.intp, types.intp), lower


def _total(S, s, columns):
    """The sum of so many numbers of S."""


@overload(_total, jit_options={"error_model": "numpy", "forceinline": True, "fastmath": {"contract"}})
def _total_of(S, s, columns):
    if S.dtype == types.float32:
        return lambda S, s, columns: _total_of_vectors(S, s, columns)

    def one_after_another(S, s, columns):
        total = 0.0
        for t in range(columns):
            total += S[uint64(s + t)]
        return total

    return one_after_another


@jitted
def _keep_greatest(s, T, q, rest):
    """Minus infinity in the place of those of s[:T] that are less than the q-th greatest."""
    low, zero, one, vectors = s.dtype.type(-np.inf), s.dtype.type(0), s.dtype.type(1), len(s) * s.itemsize // VECTOR_BYTES
    least = greatest_of(s, 0, s, 0, vectors)
    for _ in range(q - 1):  # a step down for each greatest that is not yet counted; NaN takes no step, and stays
        count = zero
        for t in range(T):
            count += one if s[t] >= least else zero
        if count >= q:
            break
        for t in range(len(s)):
            rest[t] = s[t] if s[t] < least else low
        least = greatest_of(rest, 0, rest, 0, vectors)
    for t in range(T):
        s[t] = low if s[t] < least else s[t]


@jitted
def weigh(S, first, rows, width, T, kind, q, bias, sums, rest, ones):
    """Weights in the place of the scores of so many rows from `first` on, see `configs.Scores`, and zeros beyond T."""
    low, zero, one = S.dtype.type(-np.inf), S.dtype.type(0), S.dtype.type(1)
    if kind == SIGMOID:
        for n in range(rows * width):
            S[uint64(first + n)] = sigmoid(S[uint64(first + n)] + bias, one)
    if kind in (SIGMOID, LINEAR):
        for r in range(rows):
            for t in range(T, width):
                S[uint64(first + r * width + t)] = zero
        return
    if kind == SOFTMAX:
        done = weigh_fours(S, first, S, first, S, 0, S, 0, width, 0, T, rows)
        if done == rows:
            return
        first, rows = first + done * width, rows - done
    for r in range(rows):
        at = first + r * width
        for t in range(T, width):
            S[uint64(at + t)] = low
        if kind == TOP_Q and q < T:
            _keep_greatest(S[at : at + width], T, q, rest)
    for r in range(rows):
        sums[r] = greatest_of(S, first + r * width, S, 0, width * S.itemsize // VECTOR_BYTES)
    for r in range(rows):
        slope_each(S, first + r * width, ones, 0, sums[r], width)
    for n in range(rows * width):
        place = uint64(first + n)
        below = S[place]
        e = exp_below_zero(below)
        S[place] = zero if below == low else e
    for r in range(rows):
        sums[r] = one / _total(S, first + r * width, width)
    for r in range(rows):
        set_each(S, first + r * width, S, first + r * width, sums[r], width)


@inlined
def _sigmoid_slope(g, p, one):
    return g * p * (one - p)


@jitted
def slopes_of(p, first, g, at, rows, width, kind, sums):
    """The gradients at the scores of so many rows in the place of those at the weights p."""
    one = g.dtype.type(1)
    if kind == SIGMOID:
        for n in range(rows * width):
            g[uint64(at + n)] = _sigmoid_slope(g[uint64(at + n)], p[uint64(first + n)], one)
    elif kind != LINEAR:
        done = slope_fours(g, at, g, at, width, g, 0, g, 0, width, 0, p, first, g, 0, 0, rows)
        if done == rows:
            return
        first, at, rows = first + done * width, at + done * width, rows - done
        sums[:rows] = 0
        add_dots(sums, 0, p, first, width, rows, g, at, width, width)
        for r in range(rows):
            slope_each(g, at + r * width, p, first + r * width, sums[r], width)


@inlined
def copy(C, c, A, a, columns):
    set_each(C, c, A, a, C.dtype.type(1), columns)


# One layer


@jitted
def turn(X, out):
    """See `Kernels.turned`."""
    k, rows, T, d = X.shape
    x, to, lanes = X.reshape(-1), out.reshape(-1), VECTOR_BYTES // X.itemsize
    whole = T // lanes * lanes if 2 <= d <= MOST_TURNED else 0
    for b in range(k * rows):
        for t in range(0, whole, lanes):
            turn_columns(x, (b * T + t) * d, d, to, b * d * T + t, T)
        for e in range(d):
            for t in range(whole, T):
                to[uint64((b * d + e) * T + t)] = x[uint64((b * T + t) * d + e)]


@jitted
def attend(scores, X, u, T, kind, q, bias, p, c):
    """See `Kernels.attend`; u and c are empty where there is none."""
    (k, rows, d, width), given = X.shape, scores.shape[2]
    s, x, asked, S, mixed = scores.reshape(-1), X.reshape(-1), u.reshape(-1), p.reshape(-1), c.reshape(-1)
    rest, ones, sums = room_of(X, 0, width), room_of(X, 1, width), room_of(X, 0, rows)
    mixed[:] = 0
    for i in range(k):
        first = i * rows
        for b in range(first, first + rows):
            for t in range(T):
                S[uint64(b * width + t)] = s[uint64(b * given + t)]
            for t in range(T, width):
                S[uint64(b * width + t)] = 0
        if len(asked):
            add_rows_of_all(S, first * width, width, asked, first * d, d, x, first * d * width, d * width, rows, d, width)
        weigh(S, first * width, rows, width, T, kind, q, bias[i], sums, rest, ones)
        if len(mixed):
            for b in range(first, first + rows):
                add_dots(mixed, b * d, x, b * d * width, width, d, S, b * width, 0, width)


@jitted
def attend_back(X, p, grad_p, grad_c, kind, grad_s, grad_u):
    """See `Kernels.attend_back`; gradients are empty where there is none."""
    k, rows, d, width = X.shape
    x, S, at_p, at_c = X.reshape(-1), p.reshape(-1), grad_p.reshape(-1), grad_c.reshape(-1)
    g, asked, sums = grad_s.reshape(-1), grad_u.reshape(-1), room_of(X, 0, rows)
    asked[:] = 0
    for i in range(k):
        first = i * rows
        if len(at_p):
            copy(g, first * width, at_p, first * width, rows * width)
        else:
            g[first * width : (first + rows) * width] = 0
        if len(at_c):
            add_rows_of_all(g, first * width, width, at_c, first * d, d, x, first * d * width, d * width, rows, d, width)
        slopes_of(S, first * width, g, first * width, rows, width, kind, sums)
        if len(asked):
            for b in range(first, first + rows):
                add_dots(asked, b * d, x, b * d * width, width, d, g, b * width, 0, width)


# A layer behind another


@inlined
def _add_scores(S, s, asking, a, wanted, T, width, steps, none):
    """`S[t] += sum_j asking[j, a + t] wanted[j]` of T rows."""
    lanes = VECTOR_BYTES // S.itemsize
    for column in range(0, width, PANEL * lanes):
        vectors = min(PANEL * lanes, width - column) // lanes
        for t in range(0, T // 4 * 4, 4):
            added_4(S, s + t * width + column, width, asking, a + t, 1, width, wanted, column, width, steps,
                     none, 0, 0, 0, S, vectors)  # fmt: skip
        for t in range(T // 4 * 4, T):
            added_1(S, s + t * width + column, width, asking, a + t, 1, width, wanted, column, width, steps,
                     none, 0, 0, 0, S, vectors)  # fmt: skip


@inlined
def _chain_rows(C, c, A, a, a_row, rows, B, b, steps, width, none):
    """`C[r] = C[r] + A[r, 0] B[0] + A[r, 1] B[1] + ..` of so many rows, one addition after another."""
    lanes = VECTOR_BYTES // C.itemsize
    for column in range(0, width, PANEL * lanes):
        vectors = min(PANEL * lanes, width - column) // lanes
        for r in range(0, rows // 4 * 4, 4):
            chained_4(C, c + r * width + column, width, A, a + r * a_row, a_row, 1, B, b + column, width, steps,
                       none, 0, 0, 0, C, vectors)  # fmt: skip
        for r in range(rows // 4 * 4, rows):
            chained_1(C, c + r * width + column, width, A, a + r * a_row, a_row, 1, B, b + column, width, steps,
                       none, 0, 0, 0, C, vectors)  # fmt: skip


@jitted
def relay(X, D, L, C, W, base, a, T, kind, q, bias, P, p, v):
    """See `Kernels.relay`; rows are zero beyond T."""
    (k, rows, d, width), heads, answers = X.shape, D.shape[1], base.shape[2]
    v[:] = 0
    x, at_once, level, shift, turn, asked, first, S, mixed, scores = lent((
        X.reshape(-1), D.reshape(-1), L.reshape(-1), C.reshape(-1), W.reshape(-1), base.reshape(-1), a.reshape(-1),
        p.reshape(-1), v.reshape(-1), P.reshape(-1),
    ))  # fmt: skip
    # What a token asks with, [x; W x + C], and what it is asked for, [L; x], a row a coordinate.
    side, indices = d * width, (np.zeros(1, np.int64),)
    held = (
        room_of(X, 0, width), room_of(X, 1, width), room_of(X, 0, max(T, TOGETHER * answers)), room_of(X, 0, 2 * side),
        room_of(X, 0, 2 * side),
    )  # fmt: skip
    (none,), (rest, ones, sums, asking, wanted) = lent(indices), lent(held)
    for i in range(k):
        for begin in range(i * rows, (i + 1) * rows, TOGETHER):
            end = min(begin + TOGETHER, (i + 1) * rows)
            at, all_of = begin * answers * width, (end - begin) * answers
            copy(S, at, asked, at, all_of * width)
            for b in range(begin, end):
                copy(asking, 0, x, b * side, side)
                copy(wanted, side, x, b * side, side)
                for h in range(heads):
                    own, here = i * heads + h, (b * heads + h) * T * width
                    copy(wanted, 0, level, own * side, side)
                    copy(asking, side, shift, own * side, side)
                    _chain_rows(asking, side, turn, own * d * d, d, d, x, b * side, d, width, none)
                    start, done = own * width * width, 0
                    if kind == SOFTMAX:
                        done = weigh_fours(scores, here, at_once, start, asking, 0, wanted, 0, width, 2 * d, T, T)
                    if done < T:
                        left = here + done * width
                        copy(scores, left, at_once, start + done * width, (T - done) * width)
                        _add_scores(scores, left, asking, done, wanted, T - done, width, 2 * d, none)
                        weigh(scores, left, T - done, width, T, kind, q, bias[i], sums, rest, ones)
                    for g in range(b * answers, (b + 1) * answers):
                        add_dots(S, g * width, scores, here, width, T, first, (g * heads + h) * width, 0, width)
            weigh(S, at, all_of, width, T, kind, q, bias[i], sums, rest, ones)
            for h in range(heads):
                for g in range(begin * answers, begin * answers + answers):
                    add_rows_of_all(
                        mixed, (g * heads + h) * width, answers * heads * width, S, g * width, answers * width, scores,
                        (begin * heads + h) * T * width, heads * T * width, end - begin, T, width,
                    )  # fmt: skip
    held_so_far(held)
    held_so_far(indices)


@jitted
def relay_back(X, L, C, W, a, P, p, grad_p, grad_v, T, kind, at_D, at_L, at_C, at_W, at_base, at_a, at_bias):
    """See `Kernels.relay_back`."""
    (k, rows, d, width), heads, answers, zero = X.shape, W.shape[1], a.shape[2], X.dtype.type(0)
    at_a[:] = 0
    x, first, weights, S, at_p, at_v, to_D, to_L, to_C, to_W, to_base, to_a = lent((
        X.reshape(-1), a.reshape(-1), P.reshape(-1), p.reshape(-1), grad_p.reshape(-1), grad_v.reshape(-1), at_D.reshape(-1),
        at_L.reshape(-1), at_C.reshape(-1), at_W.reshape(-1), at_base.reshape(-1), at_a.reshape(-1),
    ))  # fmt: skip
    side, one, indices = d * width, X.dtype.type(1), (np.zeros(1, np.int64),)
    # The gradient at P is a product of [gradient at base, p], a row a token, with [a; gradient at v].
    held = (
        room_of(X, 0, side), room_of(X, 0, T * width), room_of(X, 0, max(T, TOGETHER * answers)),
        room_of(X, 0, 2 * answers * width), room_of(X, 0, 2 * answers * width), room_of(X, 0, width),
    )  # fmt: skip
    (none,), (at_y, g, sums, factors, directions, zeros) = lent(indices), lent(held)
    for i in range(k):
        for begin in range(i * rows, (i + 1) * rows, TOGETHER):
            end = min(begin + TOGETHER, (i + 1) * rows)
            at, all_of = begin * answers * width, (end - begin) * answers
            copy(to_base, at, at_p, at, all_of * width)
            for b in range(begin, end):
                for n in range(b * answers, (b + 1) * answers):
                    for h in range(heads):
                        here = (b * heads + h) * T * width
                        add_dots(to_base, n * width, weights, here, width, T, at_v, (n * heads + h) * width, 0, width)
            slopes_of(S, at, to_base, at, all_of, width, kind, sums)
            for h in range(heads):
                for n in range(begin * answers, begin * answers + answers):
                    add_rows_of_all(
                        to_a, (n * heads + h) * width, answers * heads * width, to_base, n * width, answers * width, weights,
                        (begin * heads + h) * T * width, heads * T * width, end - begin, T, width,
                    )  # fmt: skip
            for b in range(begin, end):
                first_of = b * answers * width
                if kind == SIGMOID:
                    for n in range(answers):
                        at_bias[i] += np.sum(to_base[first_of + n * width : first_of + (n + 1) * width])
                for n in range(answers):
                    copy(factors, 2 * n * width, to_base, first_of + n * width, width)
                    copy(factors, (2 * n + 1) * width, S, first_of + n * width, width)
                for h in range(heads):
                    own, here = i * heads + h, (b * heads + h) * T * width
                    for n in range(answers):
                        place = ((b * answers + n) * heads + h) * width
                        copy(directions, 2 * n * width, first, place, width)
                        copy(directions, (2 * n + 1) * width, at_v, place, width)
                    to, done = own * width * width, 0
                    if kind in (SOFTMAX, TOP_Q):
                        done = slope_fours(
                            g, 0, zeros, 0, 0, factors, 0, directions, 0, width, 2 * answers, weights, here, to_D, to, 1, T
                        )  # fmt: skip
                    if done < T:
                        left, rest = done * width, T - done
                        multiply_rows(g, left, width, factors, done, 1, width, rest, directions, 0, 2 * answers, width, none)
                        slopes_of(weights, here + left, g, left, rest, width, kind, sums)
                        add_each(to_D, to + left, g, left, one, rest * width)
                    if kind == SIGMOID:
                        for t in range(T):
                            at_bias[i] += np.sum(g[t * width : (t + 1) * width])
                    _chain_rows(to_L, own * side, x, b * side, width, d, g, 0, T, width, none)
                    for t in range(side):
                        at_y[uint64(t)] = zero
                    add_dots_of_all(at_y, 0, width, g, 0, width, T, x, b * side, width, d, width)
                    add_each(to_C, own * side, at_y, 0, one, side)
                    add_dots_of_all(to_W, own * d * d, d, x, b * side, width, d, at_y, 0, width, d, width)
    held_so_far(held)
    held_so_far(indices)
