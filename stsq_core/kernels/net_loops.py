"""Fully connected nets of rectified units, a trial and a block of its samples at a time."""

import numpy as np
from numba import uint64

from stsq_core.kernels.descent_loops import move
from stsq_core.kernels.draws import fill_batch, halves, room_for
from stsq_core.kernels.jit import inlined, jitted
from stsq_core.kernels.vectors import (
    BLOCK,
    PANEL,
    TOKENS_IN_CACHE,
    VECTOR_BYTES,
    added_1,
    added_4,
    array_at,
    dot,
    masked_1,
    masked_4,
    rectified_1,
    rectified_4,
    room_of,
    spread,
    transpose,
)


@jitted
def forward(W, w, columns, inputs, x, a, a_row, extra, num_extra, out, c, units, count):
    """`out = relu(W x)`: the layer's packed weights at w, its bias and subset among the extra rows."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, PANEL * lanes):
        width = min(PANEL * lanes, units - p)
        b, v = w + p * columns, width // lanes
        whole = count // 4 * 4
        for s in range(0, whole, 4):
            rectified_4(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, b, width, inputs,
                         extra, s * num_extra, num_extra, num_extra, out, v)  # fmt: skip
        for s in range(whole, count):
            rectified_1(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, b, width, inputs,
                         extra, s * num_extra, num_extra, num_extra, out, v)  # fmt: skip


@jitted
def backward(W, w, columns, above, x, a, a_row, h, out, c, units, count, extra):
    """`out = (W^T x)` where h is positive, zero elsewhere; rows of W as they are kept."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, PANEL * lanes):
        v = min(PANEL * lanes, units - p) // lanes
        whole = count // 4 * 4
        for s in range(0, whole, 4):
            masked_4(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, w + p, columns, above,
                      extra, 0, 0, 0, h, v)  # fmt: skip
        for s in range(whole, count):
            masked_1(out, c + s * units + p, units, x, a + s * a_row, a_row, 1, W, w + p, columns, above,
                      extra, 0, 0, 0, h, v)  # fmt: skip


@jitted
def accumulate(G, w, columns, inputs, x, a, a_row, g, c, units, count, one, extra, num_extra):
    """Add `x^T g` to a layer's packed gradient, and g to the rows of its bias and subset."""
    lanes = VECTOR_BYTES // g.itemsize
    for p in range(0, units, PANEL * lanes):
        width = min(PANEL * lanes, units - p)
        b, v = w + p * columns, width // lanes
        whole = inputs // 4 * 4
        for i in range(0, whole, 4):
            added_4(G, b + i * width, width, x, a + i, 1, a_row, g, c + p, units, count, extra, 0, 0, 0, G, v)
        for i in range(whole, inputs):
            added_1(G, b + i * width, width, x, a + i, 1, a_row, g, c + p, units, count, extra, 0, 0, 0, G, v)
        added_1(G, b + extra[0] * width, 0, one, 0, 0, 0, g, c + p, units, count, extra, 0, 0, 0, G, v)
        for s in range(count):
            spread(G, b, width, one, 0, 0, 0, g, c + p + s * units, 0, 1, extra, s * num_extra + 1, 0, num_extra - 1, G, v)


@jitted
def pack_weights(W, start, own, columns, out, w, units):
    """A layer's weights by panels of units, the units of an input side by side, with zeros up to whole vectors of units."""
    lanes = VECTOR_BYTES // out.itemsize
    for p in range(0, units, lanes):
        width, first = _panel(p, units, lanes)
        here = w + first * columns + p - first
        if p + lanes <= own:
            for j in range(0, columns, lanes):
                transpose(W, start + p * columns + j, columns, out, here + j * width, width)
        else:
            for j in range(columns):
                for u in range(lanes):
                    out[here + j * width + u] = W[start + (p + u) * columns + j] if p + u < own else 0


@jitted
def unpack_weights(G, w, units, out, start, own, columns):
    """`pack_weights` back."""
    lanes = VECTOR_BYTES // G.itemsize
    for p in range(0, units, lanes):
        width, first = _panel(p, units, lanes)
        here = w + first * columns + p - first
        if p + lanes <= own:
            for j in range(0, columns, lanes):
                transpose(G, here + j * width, width, out, start + p * columns + j, columns)
        else:
            for u in range(own - p):
                for j in range(columns):
                    out[start + (p + u) * columns + j] = G[here + j * width + u]


@inlined
def _panel(p, units, lanes):
    """The width of the panel that holds unit p, and its first unit."""
    first = p // (PANEL * lanes) * (PANEL * lanes)
    return min(PANEL * lanes, units - first), first


@jitted
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
            total = dot(h, c + s * units, W, row, vectors) + W[row + bias] - share * target
            square += total * total
            r[s * d + e] = mean * total
        squares[i, first + s] = square


@inlined
def _layer(addresses, layout, n, which, i, like):
    """The weights, gradient, m or v of trial i in a layer."""
    size = layout[n, 0] * layout[n, 1]
    return array_at(addresses[n, which] + i * size * like.itemsize, like, size)


@jitted
def connect(keys, owner, y, addresses, layout, gradient, squares, moves, numbers_of_step):
    """See `Kernels.connect`; writes `squares` (k, rows) and the gradients.

    Args:
        addresses: of each layer those of its weights, gradients, m and v (`array_at`); where the net moves, the gradients are
            those of one trial.
        moves: whether each trial takes its step.
        numbers_of_step: of the step, in the order of `Rates`.
        layout: of each layer its units, its columns, what it reads of the layer below, and the tokens that it reads.
    """
    k, rows, q = y.shape
    top, d, numbers = len(layout) - 1, layout[-1, 0], layout[0, 2]
    line, lanes = 64 // squares.itemsize, VECTOR_BYTES // squares.itemsize
    # Whole vectors of units; where each layer's packed weights begin, and where its units of a block of samples.
    units, starts, places = np.zeros(top, np.int64), np.zeros(top + 1, np.int64), np.zeros(top + 1, np.int64)
    for n in range(top):
        units[n] = -(-layout[n, 0] // line) * line
        starts[n + 1] = starts[n] + units[n] * layout[n, 1]
        places[n + 1] = places[n] + units[n] * BLOCK
    W, G, h, g = (
        room_of(squares, 0, starts[top]),
        room_of(squares, 0, starts[top]),
        room_of(squares, 0, places[top]),
        room_of(squares, 0, places[top]),
    )
    r, one, extra = np.empty(BLOCK * d, squares.dtype), np.ones(1, squares.dtype), np.empty((top, BLOCK * (q + 1)), np.int64)
    room = max(1, min(-(-rows // BLOCK), TOKENS_IN_CACHE // (BLOCK * numbers))) * BLOCK
    X = room_of(squares, 0, room_for(room * numbers))
    for seed in range(len(keys)):
        k0, k1 = halves(keys[seed])
        drawn, before, shared = -1, 0, 0
        for i in range(k):
            shared += owner[i] == seed
        chunk = room if shared > 1 else BLOCK  # what one trial alone reads need not be kept for the next
        for i in range(k):
            if owner[i] != seed:
                continue
            columns, below, kept = layout[top, 1], places[top - 1], 0 if moves else i
            last, last_gradient = (
                _layer(addresses, layout, top, 0, i, squares),
                _layer(addresses, layout, top, 1, kept, squares),
            )
            for n in range(top):
                own = _layer(addresses, layout, n, 0, i, squares)
                pack_weights(own, 0, layout[n, 0], layout[n, 1], W, starts[n], units[n])
            if gradient:
                G[:] = 0
                last_gradient[:] = 0
            for first in range(0, rows, BLOCK):
                count = min(BLOCK, rows - first)
                if first // chunk != drawn:
                    drawn = first // chunk
                    before = fill_batch(k0, k1, X, first * numbers, min(chunk, rows - first) * numbers)
                tokens = before + first % chunk * numbers
                for n in range(top):
                    num = 1 + q * (layout[n, 3] > 0)
                    for s in range(count):
                        extra[n, s * num] = layout[n, 2] + layout[n, 3]
                        for j in range(num - 1):
                            extra[n, s * num + 1 + j] = layout[n, 2] + y[i, first + s, j]
                    source, x, stride = (X, tokens, numbers) if n == 0 else (h, places[n - 1], units[n - 1])
                    forward(W, starts[n], layout[n, 1], layout[n, 2], source, x, stride, extra[n], num, h, places[n], units[n],
                             count)  # fmt: skip
                _residuals(last, 0, columns, h, below, units[top - 1], X, tokens, numbers, y, i, first, count, d, r,
                           layout[top, 2], squares)  # fmt: skip
                if not gradient:
                    continue
                for e in range(d):
                    for p in range(0, units[top - 1], PANEL * lanes):
                        vectors = min(PANEL * lanes, units[top - 1] - p) // lanes
                        added_1(last_gradient, e * columns + p, 0, r, e, 0, d, h, below + p, units[top - 1], count,
                                 extra[0], 0, 0, 0, h, vectors)  # fmt: skip
                    for s in range(count):
                        last_gradient[e * columns + layout[top, 2]] += r[s * d + e]
                backward(last, 0, columns, d, r, 0, d, h, g, below, units[top - 1], count, extra[0])
                for n in range(top - 1, -1, -1):
                    num = 1 + q * (layout[n, 3] > 0)
                    source, x, stride = (X, tokens, numbers) if n == 0 else (h, places[n - 1], units[n - 1])
                    accumulate(G, starts[n], layout[n, 1], layout[n, 2], source, x, stride, g, places[n], units[n], count,
                                one, extra[n], num)  # fmt: skip
                    if n > 0:
                        own = _layer(addresses, layout, n, 0, i, squares)
                        backward(own, 0, layout[n, 1], layout[n, 0], g, places[n], units[n], h, g, places[n - 1], units[n - 1],
                                  count, extra[0])  # fmt: skip
            if gradient:
                for n in range(top):
                    out = _layer(addresses, layout, n, 1, kept, squares)
                    unpack_weights(G, starts[n], units[n], out, 0, layout[n, 0], layout[n, 1])
            if moves:
                rate, root, beta1, beta2, eps, adam = numbers_of_step
                for n in range(top + 1):
                    out, own = _layer(addresses, layout, n, 1, kept, squares), _layer(addresses, layout, n, 0, i, squares)
                    m, v = _layer(addresses, layout, n, 2, i, squares), _layer(addresses, layout, n, 3, i, squares)
                    move(out, own, m, v, rate[i], root[i], beta1[i], beta2[i], eps[i], adam[i])
