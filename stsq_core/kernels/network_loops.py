"""The CPU's inner loops of the networks: recurrent cells and rectified layers.

As in the other loops (`stsq_core.kernels.jit`), every trial is a loop of its own over its own rows.
"""

import numpy as np

from stsq_core.kernels.exponentials import exp_below_zero
from stsq_core.kernels.jit import inlined, jitted, summed
from stsq_core.kernels.net_loops import accumulate, backward, forward, pack_weights, unpack_weights
from stsq_core.kernels.vectors import BLOCK, PANEL, VECTOR_BYTES, add_dots, added_1, added_4

# Elementary functions


@inlined
def sigmoid(x, one):
    e = exp_below_zero(-abs(x))
    return (one if x >= 0 else e) / (one + e)


@inlined
def _tanh(x, one):
    e = exp_below_zero(-(one + one) * abs(x))
    t = (one - e) / (one + e)
    return t if x >= 0 else -t


# Recurrent cells


@jitted
def gru(x, fed, states, kept, t, before, after, units):
    """See `Kernels.gru`."""
    k, _, rows, H = states.shape
    one = states.dtype.type(1)
    for i in range(k):
        for b in range(rows):
            own, add, keep, h, new = x[i, t, b], fed[i, b], kept[i, t, b], states[i, before, b], states[i, after, b]
            for u in range(2 * H):
                keep[u] = sigmoid(own[u] + add[u], one)
            for u in range(H):
                keep[3 * H + u] = add[2 * H + u]
            for u in range(H):
                new[u] = _tanh(own[2 * H + u] + keep[u] * add[2 * H + u], one)
            for u in range(H):
                n = new[u]
                keep[2 * H + u] = n
                new[u] = n + keep[H + u] * (h[u] - n)
            new[units] = 1


@jitted
def gru_back(slope, fed_back, carried, states, kept, at_x, at_fed, t, before, units):
    """See `Kernels.gru_back`."""
    k, _, rows, H = states.shape
    one = states.dtype.type(1)
    for i in range(k):
        for b in range(rows):
            keep, h, g, read, fed = kept[i, t, b], states[i, before, b], carried[i, b], at_x[i, t, b], at_fed[i, t, b]
            own, back = slope[i, t, b], fed_back[i, b]
            for u in range(H):
                g[u] += own[u] + back[u]
            g[units] = 0
            for u in range(H):
                n = keep[2 * H + u]
                read[2 * H + u] = g[u] * (one - keep[H + u]) * (one - n * n)
            for u in range(H):
                r = keep[u]
                read[u] = read[2 * H + u] * keep[3 * H + u] * r * (one - r)
            for u in range(H):
                z = keep[H + u]
                read[H + u] = g[u] * (h[u] - keep[2 * H + u]) * z * (one - z)
            for u in range(2 * H):
                fed[u] = read[u]
            for u in range(H):
                fed[2 * H + u] = read[2 * H + u] * keep[u]
            for u in range(H):
                g[u] *= keep[H + u]


@jitted
def elman(x, fed, states, t, after, units, is_tanh):
    """See `Kernels.elman`."""
    k, _, rows, H = states.shape
    zero, one = states.dtype.type(0), states.dtype.type(1)
    for i in range(k):
        for b in range(rows):
            own, add, new = x[i, t, b], fed[i, b], states[i, after, b]
            if is_tanh:
                for u in range(H):
                    new[u] = _tanh(own[u] + add[u], one)
            else:
                for u in range(H):
                    z = own[u] + add[u]
                    new[u] = zero if z <= zero else z  # NaN stays NaN
            new[units] = 1


@jitted
def elman_back(slope, fed_back, states, at_x, t, after, units, is_tanh):
    """See `Kernels.elman_back`."""
    k, _, rows, H = states.shape
    zero, one = states.dtype.type(0), states.dtype.type(1)
    for i in range(k):
        for b in range(rows):
            own, back, h, g = slope[i, t, b], fed_back[i, b], states[i, after, b], at_x[i, t, b]
            if is_tanh:
                for u in range(H):
                    g[u] = (own[u] + back[u]) * (one - h[u] * h[u])
            else:
                for u in range(H):
                    g[u] = zero if h[u] <= zero else own[u] + back[u]
            g[units] = 0


# Rectified layers


@summed
def _added(y, i, layout, n, out):
    """Writes which columns of a layer's weights each sample adds, its bias and its subset's, and returns how many they are."""
    _, rows, q = y.shape
    num = 1 + q * (layout[n, 3] > 0)
    for b in range(rows):
        out[b * num] = layout[n, 2] + layout[n, 3]
        for j in range(num - 1):
            out[b * num + 1 + j] = layout[n, 2] + y[i, b, j]
    return num


@jitted
def net(X, y, weights, layout, h, outputs):
    """See `Kernels.net`; weights are flat."""
    k, rows, width = X.shape
    top, size = len(weights) - 1, outputs.shape[2]
    most = 0
    for n in range(top):
        most = max(most, h[n].shape[2] * layout[n, 1])
    W, extra = np.empty(most, X.dtype), np.empty(rows * (1 + y.shape[2]), np.int64)
    dots = np.empty(rows, X.dtype)
    for i in range(k):
        below, stride = X[i].reshape(rows * width), width
        for n in range(top):
            own, columns, units = layout[n, 0], layout[n, 1], h[n].shape[2]
            num = _added(y, i, layout, n, extra)
            pack_weights(weights[n], i * own * columns, own, columns, W, 0, units)
            out = h[n][i].reshape(rows * units)
            forward(W, 0, columns, layout[n, 2], below, 0, stride, extra, num, out, 0, units, rows)
            below, stride = out, units
        for e in range(size):
            row = (i * size + e) * layout[top, 1]
            dots[:] = 0
            add_dots(dots, 0, weights[top], row, 0, rows, below, 0, stride, stride)
            for b in range(rows):
                outputs[i, b, e] = dots[b] + weights[top][row + layout[top, 2]]


@jitted
def net_back(X, y, weights, layout, h, slope, gradients, at_X):
    """See `Kernels.net_back`; at_X is empty where nobody asks for it."""
    k, rows, width = X.shape
    top, size, lanes = len(weights) - 1, slope.shape[2], VECTOR_BYTES // X.itemsize
    most, widest = 0, 0
    for n in range(top):
        most, widest = max(most, h[n].shape[2] * layout[n, 1]), max(widest, h[n].shape[2])
    G, extra = np.empty(most, X.dtype), np.empty(rows * (1 + y.shape[2]), np.int64)
    g, g_below = np.empty(rows * widest, X.dtype), np.empty(rows * widest, X.dtype)
    one, none = np.ones(1, X.dtype), np.zeros(1, np.int64)
    for i in range(k):
        columns, units, r = layout[top, 1], h[top - 1].shape[2], slope[i].reshape(rows * size)
        final, seen = i * size * columns, h[top - 1][i].reshape(rows * units)
        last = gradients[top]
        for e in range(size):
            row = final + e * columns
            for c in range(columns):
                last[row + c] = 0
            for p in range(0, units, PANEL * lanes):
                vectors = min(PANEL * lanes, units - p) // lanes
                added_1(last, row + p, 0, r, e, 0, size, seen, p, units, rows, none, 0, 0, 0, seen, vectors)
            for b in range(rows):
                last[row + layout[top, 2]] += r[b * size + e]
        backward(weights[top], final, columns, size, r, 0, size, seen, g, 0, units, rows, none)
        for n in range(top - 1, -1, -1):
            own, columns, units = layout[n, 0], layout[n, 1], h[n].shape[2]
            num, start = _added(y, i, layout, n, extra), i * own * columns
            below, stride = X[i].reshape(rows * width), width
            if n > 0:
                stride = h[n - 1].shape[2]
                below = h[n - 1][i].reshape(rows * stride)
            G[: units * columns] = 0
            for b in range(0, rows, BLOCK):
                count = min(BLOCK, rows - b)
                accumulate(G, 0, columns, layout[n, 2], below, b * stride, stride, g, b * units, units, count, one,
                            extra[b * num :], num)  # fmt: skip
            unpack_weights(G, 0, units, gradients[n], start, own, columns)
            if n > 0:
                backward(weights[n], start, columns, own, g, 0, units, below, g_below, 0, stride, rows, none)
                g, g_below = g_below, g
            elif len(at_X):
                to = at_X[i].reshape(rows * width)
                for p in range(0, width, PANEL * lanes):
                    vectors = min(PANEL * lanes, width - p) // lanes
                    for b in range(0, rows // 4 * 4, 4):
                        added_4(to, b * width + p, width, g, b * units, units, 1, weights[0], start + p, columns, own,
                                 none, 0, 0, 0, to, vectors)  # fmt: skip
                    for b in range(rows // 4 * 4, rows):
                        added_1(to, b * width + p, width, g, b * units, units, 1, weights[0], start + p, columns, own,
                                 none, 0, 0, 0, to, vectors)  # fmt: skip
