"""The CPU's loop over whole models of attention: a trial's layers forward and back while what they make is in the cache.

Products are chains of fused additions in the order of their inner index (`multiply_rows`), and sums over heads go the way
autograd goes, so that a trial has the bits of the same layers by autograd (`stsq_core.networks.attention`) wherever torch's
products add in this order. Rows of m numbers are filled up with zeros to `line`, those of codes to `width`.
"""

import numpy as np
from numba import uint64

from stsq_core.kernels.attended_loops import copy, relay, relay_back, slopes_of, weigh
from stsq_core.kernels.jit import exact, inlined, jitted
from stsq_core.kernels.score_rows import add_rows_of_all
from stsq_core.kernels.vectors import (
    VECTOR_BYTES,
    add_dots,
    add_each,
    held_so_far,
    lent,
    line_of,
    multiply_rounded,
    multiply_rows,
    room_of,
    transpose,
)

# Matrices and rows


@jitted
def _read(W, w, rows, columns, width, own, turned, at, height):
    """A matrix with zeros up to whole cache lines, (height, width), and turned over, (width, height), each at a place."""
    _pad(W, w, rows, columns, width, own, at)
    lanes = VECTOR_BYTES // own.itemsize
    for r in range(0, height, lanes):
        for e in range(0, width, lanes):
            transpose(own, at + r * width + e, width, turned, at + e * height + r, height)


@jitted
def _pad(X, x, rows, columns, width, out, at):
    """Rows with what `out` has, zeros, up to whole cache lines."""
    for b in range(rows):
        for e in range(columns):
            out[uint64(at + b * width + e)] = X[uint64(x + b * columns + e)]


@jitted
def _cut(X, rows, columns, width, out, at, adds):
    """The rows of `_pad` without the zeros, set or added."""
    for b in range(rows):
        for e in range(columns):
            place = uint64(at + b * columns + e)
            out[place] = out[place] + X[uint64(b * width + e)] if adds else X[uint64(b * width + e)]


@jitted
def _score(S, s, s_row, u, line, x, X, d, wide, D, rows, turned_book, none):
    """`Z^T u` of each sample."""
    multiply_rows(S, s, s_row, u, d, line, 1, rows, turned_book, 0, D, wide, none)
    add_rows_of_all(S, s, s_row, u, 0, line, X, x, d * wide, rows, d, wide)


@jitted
def _mix(c, at, line, S, s, s_row, x, X, d, wide, width, rows, book, none):
    """`Z p` of each sample; a row more than these is written to."""
    multiply_rows(c, at + d, line, S, s, s_row, 1, rows, book, 0, wide, width, none)  # zeros reach into the next row's tokens
    for b in range(rows):
        for e in range(d):
            c[uint64(at + b * line + e)] = 0
        add_dots(c, at + b * line, X, x + b * d * wide, wide, d, S, s + b * s_row, 0, wide)


@inlined
def _multiply(total, t, A, a, rows, B, b, K, line, none):
    """`A B` of rows of whole cache lines."""
    multiply_rows(total, t, line, A, a, line, 1, rows, B, b, K, line, none)


@inlined
def _add_product(total, t, A, a, rows, B, b, K, line, part, none):
    _multiply(part, 0, A, a, rows, B, b, K, line, none)
    add_each(total, t, part, 0, total.dtype.type(1), rows * line)


@inlined
def _of_weights(A, a, B, b, rows, m, line, part, out, at, none, adds):
    """`sum_n A[n] B[n]^T`, set or added."""
    multiply_rows(part, 0, line, A, a, 1, line, m, B, b, rows, line, none)
    _cut(part, m, m, line, out, at, adds)


@jitted
def _query(x_query, x, y, c, first, q, rows, d, D, book, width, line, z, order):
    """`z = [x_query; sum_j c_j e_{y_j}]` of each sample, its tokens one after another, as in a product with all of E."""
    for b in range(rows):
        for e in range(d):
            z[uint64(b * line + e)] = x_query[uint64(x + b * d + e)]
        for e in range(D):
            z[uint64(b * line + d + e)] = 0
        for j in range(q):
            n, member = j, first + b * q + j
            while n > 0 and y[order[n - 1]] > y[member]:
                order[n] = order[n - 1]
                n -= 1
            order[n] = member
        for j in range(q):
            if j + 1 < q and y[order[j]] == y[order[j + 1]]:
                continue  # a token that is asked for twice has the coefficient of the last
            factor, row = c[order[j]], y[order[j]] * width
            for e in range(D):
                z[uint64(b * line + d + e)] += factor * book[uint64(row + e)]


# The answer


@exact
def _answer_in_lanes(c, at, line, m, V, o, rows, size, out, short, turned, part, none):
    """`V c` of each sample in four sums that are put together in pairs, each number rounded before it is added."""
    tall, lanes = line_of(rows, c.itemsize), VECTOR_BYTES // c.itemsize
    for b in range(0, tall, lanes):
        for e in range(0, line, lanes):
            transpose(c, at + b * line + e, line, turned, e * tall + b, tall)
    for n in range(4):
        steps = (m - n + 3) // 4
        multiply_rounded(part, n * size * tall, tall, V, o + n, m, 4, size, turned, n * tall, 4 * tall, steps, tall, none)
    for e in range(size):
        for b in range(rows):
            place, next_one = uint64(e * tall + b), uint64(size * tall)
            even, odd = part[place] + part[place + 2 * next_one], part[place + next_one] + part[place + 3 * next_one]
            out[uint64(b * short + e)] += even + odd


@jitted
def learn_heads(
    X, E, x_query, y, c, target, W, V, bias, T, kind, q, layers, rounds, mean, outputs, at_W, at_V, at_scores, at_bias
):  # fmt: skip
    """See `Kernels.learn_heads`."""
    (k, rows, d, wide), m, D, (H, _, size, _) = X.shape, W.shape[2], E.shape[2], V.shape
    line, width = line_of(m, X.itemsize), line_of(D, X.itemsize)
    short, tall = line_of(size, X.itemsize), line_of(rows, X.itemsize)
    tokens, codes, asked_x, asked_c, wanted, found, matrices, answers, to_W, to_V, to_scores = lent((
        X.reshape(-1), E.reshape(-1), x_query.reshape(-1), c.reshape(-1), target.reshape(-1), outputs.reshape(-1),
        W.reshape(-1), V.reshape(-1), at_W.reshape(-1), at_V.reshape(-1), at_scores.reshape(-1),
    ))  # fmt: skip
    size_y = y.shape[2]
    long, most, square, deep, one = rows * line, (tall + 1) * line, m * m, layers == 2, X.dtype.type(1)
    h_2 = H if deep else 0
    block = max(line, short) * line
    of_tokens, of_rows, of_pairs = h_2 * d * wide, rows * h_2 * wide, rows * h_2 * h_2 * wide
    indices = np.zeros(1, np.int64), np.zeros(y.shape[2], np.int64), y.reshape(-1)
    held = (
        room_of(X, 0, rows), room_of(X, 0, wide), room_of(X, 1, wide), room_of(X, 0, wide * width), room_of(X, 0, wide * width),
        room_of(X, 0, len(W) * block), room_of(X, 0, len(W) * block), room_of(X, 0, H * block), room_of(X, 0, H * block),
        room_of(X, 0, max(max(rows, m + 1) * max(line, wide), 4 * size * tall)), room_of(X, 0, line * tall),
    )  # fmt: skip
    none, order, subsets = lent(indices)
    sums, rest, ones, book, turned_book, own, turned, own_V, turned_V, part, lying = lent(held)
    held_1 = (
        room_of(X, 0, long), room_of(X, 0, most), room_of(X, 0, most), room_of(X, 0, rows * short), room_of(X, 0, rows * short),
        room_of(X, 0, rows * wide), room_of(X, 0, H * rows * wide), room_of(X, 0, H * most),
    )  # fmt: skip
    asks, u, g, r, out, S, p_1, c_1 = lent(held_1)
    # Of the second layer, as `relay` has them.
    held_2 = (
        room_of(X, 0, h_2 * long), room_of(X, 0, long), room_of(X, 0, h_2 * long), room_of(X, 0, h_2 * most),
        room_of(X, 0, H * h_2 * most), room_of(X, 0, D * wide), room_of(X, 0, wide * width), room_of(X, 0, h_2 * wide * wide),
        room_of(X, 0, of_tokens), room_of(X, 0, of_tokens), room_of(X, 0, of_tokens), room_of(X, 0, of_tokens),
        room_of(X, 0, h_2 * d * d), room_of(X, 0, h_2 * d * d), room_of(X, 0, of_rows), room_of(X, 0, of_rows),
        room_of(X, 0, of_rows), room_of(X, 0, of_rows), room_of(X, 0, of_pairs), room_of(X, 0, of_pairs),
        room_of(X, 0, of_pairs), room_of(X, 0, of_pairs), room_of(X, 0, of_rows * T),
    )  # fmt: skip
    (
        z_2, at_z, u_2, c_2, mixed, asked, back, at_once, at_level, at_shift, level, shift, turn, at_turn, base, at_base, p,
        at_p, a, at_a, v, at_v, P,
    ) = lent(held_2)  # fmt: skip
    squares, coordinates, turns = (1, h_2, wide, wide), (1, h_2, d, wide), (1, h_2, d, d)
    by_row, by_pair = (1, rows, h_2, wide), (1, rows, h_2, h_2, wide)
    row_p, row_v = H * wide, H * H * wide
    for i in range(k):
        x, first, second, third = i * rows * d * wide, i * square, (H * k + i) * square, (2 * H * k + i) * square
        _read(codes, i * wide * D, wide, D, width, book, turned_book, 0, wide)
        for n in range(len(W)):
            _read(matrices, (n * k + i) * square, m, m, line, own, turned, n * block, line)
        for o in range(H):
            _read(answers, (o * k + i) * size * m, size, m, line, own_V, turned_V, o * block, short)
        _query(asked_x, i * rows * d, subsets, asked_c, i * rows * size_y, size_y, rows, d, D, book, width, line, asks, order)
        if deep:
            copy(z_2, 0, asks, 0, long)
        for h in range(H):
            _multiply(u, 0, asks, 0, rows, turned, h * block, m, line, none)
            _score(p_1, h * rows * wide, wide, u, line, x, tokens, d, wide, D, rows, turned_book, none)
            weigh(p_1, h * rows * wide, rows, wide, T, kind, q, bias[i], sums, rest, ones)
            _mix(c_1, h * most, line, p_1, h * rows * wide, wide, x, tokens, d, wide, width, rows, book, none)
            if deep:
                _add_product(z_2, 0, c_1, h * most, rows, turned, (2 * H + h) * block, m, line, part, none)
        if deep:
            for h in range(H):
                w, at = first + h * k * square, h * d * wide
                multiply_rows(level, at, wide, matrices, w + d * m, 1, m, d, turned_book, 0, D, wide, none)
                multiply_rows(shift, at, wide, matrices, w + d, m, 1, d, turned_book, 0, D, wide, none)
                multiply_rows(asked, 0, wide, matrices, w + d * m + d, m, 1, D, turned_book, 0, D, wide, none)
                multiply_rows(at_once, h * wide * wide, wide, asked, 0, 1, wide, wide, turned_book, 0, D, wide, none)
                for e in range(d):
                    for f in range(d):
                        turn[uint64((h * d + e) * d + f)] = matrices[uint64(w + e * m + f)]
            for o in range(H):
                _multiply(u_2, o * long, z_2, 0, rows, turned, (H + o) * block, m, line, none)
                copy(u, 0, u_2, o * long, long)
                _score(base, o * wide, row_p, u, line, x, tokens, d, wide, D, rows, turned_book, none)
                for h in range(H):
                    _multiply(u, 0, u_2, o * long, rows, own, (2 * H + h) * block, m, line, none)
                    _score(a, (o * H + h) * wide, row_v, u, line, x, tokens, d, wide, D, rows, turned_book, none)
            only = slice(i, i + 1)
            relay(
                X[only], at_once.reshape(squares), level.reshape(coordinates), shift.reshape(coordinates), turn.reshape(turns),
                base.reshape(by_row), a.reshape(by_pair), T, kind, q, bias[only], P.reshape((1, rows, h_2, T, wide)),
                p.reshape(by_row), v.reshape(by_pair),
            )  # fmt: skip
            for o in range(H):
                _mix(c_2, o * most, line, p, o * wide, row_p, x, tokens, d, wide, width, rows, book, none)
                for h in range(H):
                    at, ours = (o * H + h) * wide, (o * H + h) * most
                    _mix(mixed, ours, line, v, at, row_v, x, tokens, d, wide, width, rows, book, none)
                    _add_product(c_2, o * most, mixed, ours, rows, turned, (2 * H + h) * block, m, line, part, none)
        last = c_2 if deep else c_1
        out[:] = 0
        for o in range(H):
            at, ours = o * most, (o * k + i) * size * m
            if rounds:
                _answer_in_lanes(last, at, line, m, answers, ours, rows, size, out, short, lying, part, none)
            else:
                multiply_rows(part, 0, short, last, at, line, 1, rows, turned_V, o * block, m, short, none)
                add_each(out, 0, part, 0, one, rows * short)
        _cut(out, rows, size, short, found, i * rows * size, False)
        for b in range(rows):
            for e in range(size):
                r[uint64(b * short + e)] = (out[uint64(b * short + e)] - wanted[uint64((i * rows + b) * size + e)]) * mean
        for o in range(H):
            ours = (o * k + i) * size * m
            if rounds:
                multiply_rounded(part, 0, line, r, 0, 1, short, size, last, o * most, line, rows, line, none)
            else:
                multiply_rows(part, 0, line, r, 0, 1, short, size, last, o * most, rows, line, none)
            _cut(part, size, m, line, to_V, ours, False)
        if deep:
            for o in range(H - 1, -1, -1):
                multiply_rows(g, 0, line, r, 0, short, 1, rows, own_V, o * block, size, line, none)
                for h in range(H - 1, -1, -1):
                    _multiply(u, 0, g, 0, rows, own, (2 * H + h) * block, m, line, none)
                    _of_weights(
                        g, 0, mixed, (o * H + h) * most, rows, m, line, part, to_W, third + h * k * square, none, o < H - 1
                    )
                    _score(at_v, (o * H + h) * wide, row_v, u, line, x, tokens, d, wide, D, rows, turned_book, none)
                _score(at_p, o * wide, row_p, g, line, x, tokens, d, wide, D, rows, turned_book, none)
            at_once[:] = 0
            at_level[:] = 0
            at_shift[:] = 0
            at_turn[:] = 0
            relay_back(
                X[only], level.reshape(coordinates), shift.reshape(coordinates), turn.reshape(turns), a.reshape(by_pair),
                P.reshape((1, rows, h_2, T, wide)), p.reshape(by_row), at_p.reshape(by_row), at_v.reshape(by_pair), T, kind,
                at_once.reshape(squares), at_level.reshape(coordinates), at_shift.reshape(coordinates), at_turn.reshape(turns),
                at_base.reshape(by_row), at_a.reshape(by_pair), at_bias[only],
            )  # fmt: skip
            for o in range(H - 1, -1, -1):
                for h in range(H - 1, -1, -1):
                    _mix(u, 0, line, at_a, (o * H + h) * wide, row_v, x, tokens, d, wide, width, rows, book, none)
                    _of_weights(u_2, o * long, u, 0, rows, m, line, part, to_W, third + h * k * square, none, True)
                    if h == H - 1:
                        _multiply(g, 0, u, 0, rows, turned, (2 * H + h) * block, m, line, none)
                    else:
                        _add_product(g, 0, u, 0, rows, turned, (2 * H + h) * block, m, line, part, none)
                _mix(u, 0, line, at_base, o * wide, row_p, x, tokens, d, wide, width, rows, book, none)
                add_each(g, 0, u, 0, one, long)
                _of_weights(g, 0, z_2, 0, rows, m, line, part, to_W, second + o * k * square, none, False)
                if o == H - 1:
                    _multiply(at_z, 0, g, 0, rows, own, (H + o) * block, m, line, none)
                else:
                    _add_product(at_z, 0, g, 0, rows, own, (H + o) * block, m, line, part, none)
        for h in range(H - 1, -1, -1):
            w = first + h * k * square
            if deep:
                _of_weights(at_z, 0, c_1, h * most, rows, m, line, part, to_W, third + h * k * square, none, True)
                _multiply(g, 0, at_z, 0, rows, own, (2 * H + h) * block, m, line, none)
            else:
                multiply_rows(g, 0, line, r, 0, short, 1, rows, own_V, h * block, size, line, none)
            _score(S, 0, wide, g, line, x, tokens, d, wide, D, rows, turned_book, none)
            slopes_of(p_1, h * rows * wide, S, 0, rows, wide, kind, sums)
            if len(to_scores):
                copy(to_scores, (h * k + i) * rows * wide, S, 0, rows * wide)
            _mix(u, 0, line, S, 0, wide, x, tokens, d, wide, width, rows, book, none)
            _of_weights(u, 0, asks, 0, rows, m, line, part, to_W, w, none, False)
            if deep:
                multiply_rows(back, 0, width, at_once, h * wide * wide, wide, 1, wide, book, 0, wide, width, none)
                multiply_rows(part, 0, width, back, 0, 1, width, D, book, 0, wide, width, none)
                for e in range(D):
                    for f in range(D):
                        to_W[uint64(w + (d + e) * m + d + f)] += part[uint64(e * width + f)]
                multiply_rows(back, 0, width, at_shift, h * d * wide, wide, 1, d, book, 0, wide, width, none)
                multiply_rows(part, 0, width, at_level, h * d * wide, wide, 1, d, book, 0, wide, width, none)
                for e in range(d):
                    for f in range(D):
                        to_W[uint64(w + e * m + d + f)] += back[uint64(e * width + f)]
                        to_W[uint64(w + (d + f) * m + e)] += part[uint64(e * width + f)]
                    for f in range(d):
                        to_W[uint64(w + e * m + f)] += at_turn[uint64((h * d + e) * d + f)]
    held_so_far(held)
    held_so_far(held_1)
    held_so_far(held_2)
    held_so_far(indices)
