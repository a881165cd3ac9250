"""Attention of sparse token selection, a trial and a block of its samples at a time."""

import numpy as np
from numba import uint64

from stsq_core.configs import LANES
from stsq_core.kernels.descent_loops import move_all
from stsq_core.kernels.draws import fill_batch, halves, room_for
from stsq_core.kernels.exponentials import exp_below_zero
from stsq_core.kernels.jit import inlined, jitted
from stsq_core.kernels.vectors import (
    BLOCK,
    PANEL,
    TOKENS_IN_CACHE,
    VECTOR_BYTES,
    add_rows,
    added_1,
    dot,
    greatest_of,
    line_of,
    multiply_rows,
    room_of,
    scale_each,
    set_each,
    slope_each,
    transpose,
)

# A block of samples goes through each of the short loops below before the next begins: what one sample must wait for, a sum of
# lanes or a polynomial, then overlaps with the others' work.


@jitted
def _edges(like, T, padded):
    """Ones at the tokens and zeros beyond, then zeros and, beyond, minus infinity."""
    inside, beyond = room_of(like, 1, padded), room_of(like, 0, padded)
    inside[T:] = 0
    beyond[T:] = -np.inf
    return inside, beyond


@inlined
def _query_scores(S, N, y, c, at, q, count, padded, beyond):
    """`sum_m c_m N[y_m]` of some samples, whose subsets begin at `at`."""
    for n in range(count):
        set_each(S, n * padded, beyond, 0, S.dtype.type(1), padded)
        for m in range(at + n * q, at + (n + 1) * q):
            add_rows(S, n * padded, c, m, N, y[m] * padded, 0, 1, padded)


@inlined
def _softmax(S, count, padded, inside, sums):
    """Softmax of some samples' scores in place, zeros beyond the tokens."""
    vectors, one = padded // (VECTOR_BYTES // S.itemsize), S.dtype.type(1)
    for n in range(count):
        sums[n] = greatest_of(S, n * padded, S, 0, vectors)
    for n in range(count):
        most = sums[n]
        for h in range(padded // LANES):  # loops of a known length are whole vectors without a rest
            for t in range(LANES):
                place = uint64(n * padded + LANES * h + t)
                S[place] = exp_below_zero(S[place] - most)
    for n in range(count):
        sums[n] = one / dot(S, n * padded, inside, 0, vectors)
    for n in range(count):
        scale_each(S, n * padded, inside, 0, sums[n], padded)


@inlined
def _slopes(S, g, count, padded, sums):
    """The gradients at the weights S, in g, become those at the scores; `<S, g>` stays in sums."""
    for n in range(count):
        sums[n] = dot(S, n * padded, g, n * padded, padded // (VECTOR_BYTES // S.itemsize))
    for n in range(count):
        slope_each(g, n * padded, S, n * padded, sums[n], padded)


@inlined
def _gather(G, rows, y, c, at, q, count, columns):
    """`G[y_m] += c_m rows[n]` for the members of each sample."""
    for n in range(count):
        for m in range(at + n * q, at + (n + 1) * q):
            add_rows(G, y[m] * columns, c, m, rows, n * columns, 0, 1, columns)


@jitted
def _attend_subsets(N, scale, y, c, q, T, padded, gradient, squares, G):
    """One trial of `Kernels.attend_population`: adds to G, writes `squares`, and hands back the mean share."""
    kind, rows = N.dtype.type, len(squares)
    share, mean, shares, vectors = kind(1) / kind(q), kind(1) / kind(rows), kind(0), padded // (VECTOR_BYTES // N.itemsize)
    S, g, sums, (inside, beyond) = (
        room_of(N, 0, BLOCK * padded),
        room_of(N, 0, BLOCK * padded),
        room_of(N, 0, BLOCK),
        _edges(N, T, padded),
    )
    for first in range(0, rows, BLOCK):
        count, at = min(BLOCK, rows - first), first * q
        _query_scores(S, N, y, c, at, q, count, padded, beyond)
        _softmax(S, count, padded, inside, sums)
        set_each(g, 0, S, 0, scale, count * padded)
        for n in range(count):
            for m in range(at + n * q, at + (n + 1) * q):
                g[uint64(n * padded + y[m])] -= share
        for n in range(count):
            squares[first + n] = dot(g, n * padded, g, n * padded, vectors)
        if gradient:
            _slopes(S, g, count, padded, sums)
            for n in range(count):
                shares += mean * sums[n]
            for h in range(count * padded // LANES):
                for t in range(LANES):
                    g[uint64(LANES * h + t)] *= mean
            _gather(G, g, y, c, at, q, count, padded)
    return shares


@jitted
def attend_population(N, v, y, c, T, gradient, squares, shares, G):
    """See `Kernels.attend_population`; adds to `shares` (k,) and `G`, and writes `squares`."""
    k, padded, q = len(N), N.shape[2], y.shape[2]
    for i in range(k):
        own, ys, cs = G[i * gradient].reshape(-1), y[i].reshape(-1), c[i].reshape(-1)
        share = _attend_subsets(N[i].reshape(-1), v[i], ys, cs, q, T, padded, gradient, squares[i], own)
        shares[i * gradient] += share


@jitted
def _rooms_of_block(like, padded, line):
    """S, g, contexts, residuals, u and sums of a block."""
    wide, short = BLOCK * padded, BLOCK * line
    return (
        room_of(like, 0, wide), room_of(like, 0, wide), room_of(like, 0, short), room_of(like, 0, short),
        room_of(like, 0, short), room_of(like, 0, BLOCK),
    )  # fmt: skip


@jitted
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
            add_rows(u, n * line, c, m, Qt, y[m] * line, 0, 1, line)
    for n in range(count):
        add_rows(S, n * padded, u, n * line, X, x + n * numbers, T, d, padded)
    _softmax(S, count, padded, inside, sums)
    residuals[:] = 0
    for n in range(count):
        for e in range(d):
            contexts[uint64(n * line + e)] = dot(S, n * padded, X, x + n * numbers + e * T, vectors)
            residuals[uint64(n * line + e)] = dot(S, n * padded, K, e * padded, vectors)
    for n in range(count):
        for e in range(d):
            target = kind(0)
            for m in range(at + n * q, at + (n + 1) * q):
                target += X[uint64(x + n * numbers + e * T + y[m])]
            residuals[uint64(n * line + e)] -= share * target
    for n in range(count):
        add_rows(residuals, n * line, contexts, n * line, V, d * line, line, d, line)
    for n in range(count):
        squares[n] = dot(residuals, n * line, residuals, n * line, line // lanes)
    if not gradient:
        return
    for j in range(count * line):
        residuals[uint64(j)] *= mean
    u[:] = 0
    g[:] = 0
    for n in range(count):
        add_rows(u, n * line, residuals, n * line, V, 0, line, d, line)
    for n in range(count):
        add_rows(g, n * padded, residuals, n * line, K, 0, padded, d, padded)
        add_rows(g, n * padded, u, n * line, X, x + n * numbers, T, d, padded)
    _slopes(S, g, count, padded, sums)
    for n in range(count):
        for e in range(d):
            u[uint64(n * line + e)] = dot(g, n * padded, X, x + n * numbers + e * T, vectors)
    _gather(Ht, u, y, c, at, q, count, line)
    _gather(G, g, y, c, at, q, count, padded)
    for e in range(d):
        for p in range(0, padded, PANEL * lanes):
            v = min(PANEL * lanes, padded - p) // lanes
            added_1(R, e * padded + p, 0, residuals, e, 0, line, S, p, padded, count, extra, 0, 0, 0, R, v)
        for p in range(0, line, PANEL * lanes):
            v = min(PANEL * lanes, line - p) // lanes
            added_1(grad_V, e * line + p, 0, residuals, e, 0, line, contexts, p, line, count, extra, 0, 0, 0, grad_V, v)


@jitted
def _both_ways(V_x, V, d, line):
    """V_x and its transpose, with zeros up to whole cache lines."""
    for e in range(d):
        for f in range(d):
            V[e * line + f] = V_x[e, f]
            V[(d + f) * line + e] = V_x[e, f]


@jitted
def attend_tokens(keys, owner, N, K, Q, V_x, y, c, T, gradient, squares, G, R, H, grad_V_x):
    """See `Kernels.attend_tokens`; adds to `G`, `R`, `H` and `grad_V_x`, and writes `squares`.

    Tokens are drawn where they are used, a batch or a few samples of it at a time, and never leave the cache.
    """
    k, rows, q = y.shape
    d, padded = K.shape[1], N.shape[2]
    mean, numbers, line = N.dtype.type(1) / N.dtype.type(rows), d * T, line_of(d, N.itemsize)
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = room_of(N, 0, room_for(room * numbers) + LANES)  # the last row is read, times zero, up to LANES beyond its end
    rooms, edges, extra = _rooms_of_block(N, padded, line), _edges(N, T, padded), np.zeros(1, np.int64)
    Qt, Ht = room_of(N, 0, padded * line), room_of(N, 0, padded * line)
    V, grad_V = room_of(N, 0, 2 * d * line), room_of(N, 0, d * line)
    for seed in range(len(keys)):
        k0, k1 = halves(keys[seed])
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
                    before = fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
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


@jitted
def _read_book(E, padded, D, width, book, turned):
    """A trial's codes with zeros up to whole cache lines, (padded, width), and turned over, (width, padded)."""
    for t in range(padded):
        for e in range(D):
            book[t * width + e] = E[t, e]
    lanes = VECTOR_BYTES // book.itemsize
    for t in range(0, padded, lanes):
        for e in range(0, width, lanes):
            transpose(book, t * width + e, width, turned, e * padded + t, padded)


@jitted
def _scores_of_book(W, w, D, turned, padded, half, N, extra):
    """`N = E W^T E^T`."""
    multiply_rows(half, 0, padded, W, w, D, 1, D, turned, 0, D, padded, extra)
    multiply_rows(N, 0, padded, half, 0, 1, padded, padded, turned, 0, D, padded, extra)


@jitted
def _gradient_of_book(G, padded, book, D, width, half, own, out, place, factor, extra):
    """The gradient of W from that of `_scores_of_book`, times a factor, into out."""
    multiply_rows(half, 0, width, G, 0, padded, 1, padded, book, 0, padded, width, extra)
    multiply_rows(own, 0, width, half, 0, 1, width, D, book, 0, padded, width, extra)
    for r in range(D):
        for e in range(D):
            out[place + r * D + e] = factor * own[r * width + e]


@jitted
def learn_population(E, y, c, T, d, weights, squares, gradients, moves, m, v, numbers_of_step):
    """See `Kernels.learn_attention`: weights `W_e` and v, flat; where they move, the gradients are those of one trial."""
    k, padded, D = E.shape
    W, scale = weights
    width = line_of(D, W.itemsize)
    book, turned, half = (
        room_of(W, 0, padded * width),
        room_of(W, 0, padded * width),
        room_of(W, 0, padded * max(width, padded)),
    )
    N, G, own = room_of(W, 0, padded * padded), room_of(W, 0, padded * padded), room_of(W, 0, D * width)
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
            move_all(i, weights, gradients, m, v, numbers_of_step)


@jitted
def learn_tokens(keys, owner, E, y, c, T, d, weights, squares, gradients, moves, m, v, numbers_of_step):
    """See `Kernels.learn_attention`: weights `W_x`, `W_e`, `V_x`, `V_e`, flat; where they move, the gradients are those of one
    trial. Tokens as in `attend_tokens`.
    """
    (k, padded, D), (_, rows, q) = E.shape, y.shape
    W_x, W_e, V_x, V_e = weights
    kind, width, line = W_e.dtype.type, line_of(D, W_e.itemsize), line_of(d, W_e.itemsize)
    mean, numbers = kind(1) / kind(rows), d * T
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = room_of(W_e, 0, room_for(room * numbers) + LANES)
    book, turned, half = (
        room_of(W_e, 0, padded * width),
        room_of(W_e, 0, padded * width),
        room_of(W_e, 0, padded * max(width, padded)),
    )
    N, G, own = (
        room_of(W_e, 0, padded * padded),
        room_of(W_e, 0, padded * padded),
        room_of(W_e, 0, max(D, d) * width),
    )
    K, R, Wt = room_of(W_e, 0, d * padded), room_of(W_e, 0, d * padded), room_of(W_e, 0, D * line)
    Qt, Ht, V, grad_V = (
        room_of(W_e, 0, padded * line),
        room_of(W_e, 0, padded * line),
        room_of(W_e, 0, 2 * d * line),
        room_of(W_e, 0, d * line),
    )
    rooms, edges, extra = _rooms_of_block(W_e, padded, line), _edges(W_e, T, padded), np.zeros(1, np.int64)
    for seed in range(len(keys)):
        k0, k1 = halves(keys[seed])
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
            multiply_rows(K, 0, padded, V_e, i * d * D, D, 1, d, turned, 0, D, padded, extra)
            for e in range(d):
                for j in range(D):
                    Wt[j * line + e] = W_x[i * d * D + e * D + j]
            multiply_rows(Qt, 0, line, book, 0, width, 1, padded, Wt, 0, D, line, extra)
            _both_ways(V_x[i * d * d : (i + 1) * d * d].reshape(d, d), V, d, line)
            G[:] = 0
            R[:] = 0
            Ht[:] = 0
            grad_V[:] = 0
            for first in range(0, rows, BLOCK):
                if first // chunk != drawn:
                    drawn = first // chunk
                    before = fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
                _attend_block(
                    N, K, Qt, V, ys, cs, first * q, q, X, before + first % chunk * numbers, min(BLOCK, rows - first), mean,
                    T, padded, d, line, True, squares[i, first:], G, R, Ht, grad_V, rooms, edges, extra,
                )  # fmt: skip
            _gradient_of_book(G, padded, book, D, width, half, own, gradients[1], place * D * D, kind(1), extra)
            for e in range(d):
                for f in range(d):
                    gradients[2][(place * d + e) * d + f] = grad_V[e * line + f]
            multiply_rows(own, 0, width, Ht, 0, 1, line, d, book, 0, padded, width, extra)
            for e in range(d):
                for j in range(D):
                    gradients[0][(place * d + e) * D + j] = own[e * width + j]
            multiply_rows(own, 0, width, R, 0, padded, 1, d, book, 0, padded, width, extra)
            for e in range(d):
                for j in range(D):
                    gradients[3][(place * d + e) * D + j] = own[e * width + j]
            if moves:
                move_all(i, weights, gradients, m, v, numbers_of_step)
