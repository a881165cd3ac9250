"""The CPU's inner loops of the networks: attention, one layer of it behind another, recurrent cells, rectified layers.

As in the other loops (`stsq_core.kernels.jit`), every trial is a loop of its own over its own rows.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from stsq_core.kernels.jit import emitted, inlined, jitted, summed
from stsq_core.kernels.net_loops import accumulate, backward, forward, pack_weights, unpack_weights
from stsq_core.kernels.vectors import BLOCK, PANEL, VECTOR_BYTES, Vectors, added_1, added_4, exp_below_zero

SOFTMAX, LINEAR, SIGMOID, TOP_Q = range(4)
"""The numbers of `Scores`."""

LANES = 16
"""Rows of scores are filled up to whole vectors of so many."""

# Elementary functions


@inlined
def _sigmoid(x, one):
    e = exp_below_zero(-abs(x))
    return (one if x >= 0 else e) / (one + e)


@inlined
def _tanh(x, one):
    e = exp_below_zero(-(one + one) * abs(x))
    t = (one - e) / (one + e)
    return t if x >= 0 else -t


# Weights of attention


@emitted
def _greatest(typing, s):
    """The greatest number of a row of whole vectors; what is not a number counts or not, by its place."""

    def lower(context, builder, signature, values):
        lines = Vectors(context, builder, s)
        array = context.make_array(s)(context, builder, values[0])
        number = ir.IntType(64)
        most = lines.load(array.data, number(0))
        total = cgutils.alloca_once_value(builder, most)
        vectors = builder.udiv(builder.extract_value(array.shape, 0), number(lines.lanes))
        with cgutils.for_range(builder, vectors) as loop:
            x, most = lines.load(array.data, builder.mul(loop.index, number(lines.lanes))), builder.load(total)
            builder.store(builder.select(builder.fcmp_ordered(">", x, most), x, most), total)
        most, half = builder.load(total), lines.lanes
        while half > 1:
            half //= 2
            low, high = (lines.shuffled(most, most, list(range(n, n + half))) for n in (0, half))
            most = builder.select(builder.fcmp_ordered(">", high, low), high, low)
        return builder.extract_element(most, ir.IntType(32)(0))

    return s.dtype(s), lower


@inlined
def _keep_greatest(s, T, q, rest):
    """Minus infinity in the place of those of s[:T] that are less than the q-th greatest."""
    low, zero, one = s.dtype.type(-np.inf), s.dtype.type(0), s.dtype.type(1)
    least = _greatest(s)
    for _ in range(q - 1):  # a step down for each greatest that is not yet counted; NaN takes no step, and stays
        count = zero
        for t in range(T):
            count += one if s[t] >= least else zero
        if count >= q:
            break
        for t in range(len(s)):
            rest[t] = s[t] if s[t] < least else low
        least = _greatest(rest)
    for t in range(T):
        s[t] = low if s[t] < least else s[t]


@jitted
def _weigh(s, T, kind, q, bias, rest):
    """Weights in the place of the scores s[:, :T], see `architecture.Scores`, and zeros beyond; rows are whole vectors."""
    rows, width = s.shape
    low, zero, one = s.dtype.type(-np.inf), s.dtype.type(0), s.dtype.type(1)
    if kind == LINEAR:
        s[:, T:] = 0
        return
    flat = s.reshape(rows * width)
    if kind == SIGMOID:
        for n in range(rows * width):
            flat[n] = _sigmoid(flat[n] + bias, one)
        s[:, T:] = 0
        return
    for r in range(rows):
        own = s[r]
        for t in range(T, width):
            own[t] = low
        if kind == TOP_Q and q < T:
            _keep_greatest(own, T, q, rest)
        most, total = _greatest(own), zero
        for t in range(width):
            e = zero if own[t] == low else exp_below_zero(own[t] - most)
            own[t] = e
            total += e
        share = one / total
        for t in range(width):
            own[t] *= share


@summed
def _dot(a, b):
    total = a.dtype.type(0)
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@summed
def _four_dots(A, r, b):
    """Inner products of four rows of A from r on with b."""
    a0, a1, a2, a3 = A[r], A[r + 1], A[r + 2], A[r + 3]
    t0 = t1 = t2 = t3 = b.dtype.type(0)
    for t in range(len(b)):
        x = b[t]
        t0 += a0[t] * x
        t1 += a1[t] * x
        t2 += a2[t] * x
        t3 += a3[t] * x
    return t0, t1, t2, t3


@summed
def _add_rows(out, f, A, T):
    """`out += sum_r f[r] A[r]` over the first T rows."""
    whole = T // 4 * 4
    for r in range(0, whole, 4):
        f0, f1, f2, f3, a0, a1, a2, a3 = f[r], f[r + 1], f[r + 2], f[r + 3], A[r], A[r + 1], A[r + 2], A[r + 3]
        for t in range(len(out)):
            out[t] += f0 * a0[t] + f1 * a1[t] + f2 * a2[t] + f3 * a3[t]
    for r in range(whole, T):
        _add_times(out, f[r], A[r])


@summed
def _add_dots(out, A, b, T):
    """`out[r] += <A[r], b>` over the first T rows."""
    whole = T // 4 * 4
    for r in range(0, whole, 4):
        t0, t1, t2, t3 = _four_dots(A, r, b)
        out[r] += t0
        out[r + 1] += t1
        out[r + 2] += t2
        out[r + 3] += t3
    for r in range(whole, T):
        out[r] += _dot(A[r], b)


@summed
def _add_times(out, f, a):
    for t in range(len(a)):
        out[t] += f * a[t]


@summed
def _slopes(p, g, kind):
    """The gradient at the scores in the place of that at the weights p."""
    if kind == SIGMOID:
        for t in range(len(p)):
            g[t] *= p[t] * (p.dtype.type(1) - p[t])
    elif kind != LINEAR:
        mean = _dot(p, g)
        for t in range(len(p)):
            g[t] = p[t] * (g[t] - mean)


@jitted
def attend(scores, X, u, T, kind, q, bias, p, c):
    """See `Kernels.attend`; rows of p are whole vectors."""
    k, rows, d, width = X.shape
    rest = np.empty(width, X.dtype)
    for i in range(k):
        for b in range(rows):
            s = p[i, b]
            for t in range(T):
                s[t] = scores[i, b, t]
            for t in range(T, width):
                s[t] = 0
            _add_rows(s, u[i, b], X[i, b], d)
        _weigh(p[i], T, kind, q, bias[i], rest)
        for b in range(rows):
            for j in range(d):
                c[i, b, j] = 0
            _add_dots(c[i, b], X[i, b], p[i, b], d)


@jitted
def attend_back(X, p, grad_p, grad_c, kind, grad_s, grad_u):
    """See `Kernels.attend_back`."""
    k, rows, d, width = X.shape
    for i in range(k):
        for b in range(rows):
            g = grad_s[i, b]
            for t in range(width):
                g[t] = grad_p[i, b, t]
            _add_rows(g, grad_c[i, b], X[i, b], d)
            _slopes(p[i, b], g, kind)
            for j in range(d):
                grad_u[i, b, j] = 0
            _add_dots(grad_u[i, b], X[i, b], g, d)


@jitted
def relay(X, D, L, C, W, base, a, T, kind, q, bias, P, p, v):
    """See `Kernels.relay`; rows over tokens are whole vectors, zero beyond T."""
    k, rows, d, width = X.shape
    heads, answers = D.shape[1], base.shape[2]
    rest, none = np.empty(width, X.dtype), np.zeros(1, np.int64)
    # What a token asks with, [x, W x + C], a row a token, and what it is asked for, [L, x], a row a coordinate.
    asks, asked, y = np.empty((T, 2 * d), X.dtype), np.empty((2 * d, width), X.dtype), np.empty((d, width), X.dtype)
    scores, asking, wanted = P.reshape(P.size), asks.reshape(asks.size), asked.reshape(asked.size)
    lanes = VECTOR_BYTES // X.itemsize
    for i in range(k):
        for b in range(rows):
            x = X[i, b]
            asked[d:] = x
            for g in range(answers):
                for t in range(width):
                    p[i, b, g, t] = base[i, b, g, t]
            for h in range(heads):
                for j in range(d):
                    for t in range(width):
                        y[j, t] = C[i, h, j, t]
                    _add_rows(y[j], W[i, h, j], x, d)
                    asked[j] = L[i, h, j]
                    for t in range(T):
                        asks[t, j], asks[t, d + j] = x[j, t], y[j, t]
                here = ((i * rows + b) * heads + h) * T * width
                own = D[i, h].reshape(width * width)
                to = scores[here : here + T * width]
                for n in range(T * width):
                    to[n] = own[n]
                for column in range(0, width, PANEL * lanes):
                    vectors = min(PANEL * lanes, width - column) // lanes
                    for t in range(0, T // 4 * 4, 4):
                        added_4(scores, here + t * width + column, width, asking, t * 2 * d, 2 * d, 1, wanted, column, width,
                                 2 * d, none, 0, 0, 0, scores, vectors)  # fmt: skip
                    for t in range(T // 4 * 4, T):
                        added_1(scores, here + t * width + column, width, asking, t * 2 * d, 2 * d, 1, wanted, column, width,
                                 2 * d, none, 0, 0, 0, scores, vectors)  # fmt: skip
                _weigh(P[i, b, h], T, kind, q, bias[i], rest)
                for g in range(answers):
                    _add_dots(p[i, b, g], P[i, b, h], a[i, b, g, h], T)
            _weigh(p[i, b], T, kind, q, bias[i], rest)
            for g in range(answers):
                for h in range(heads):
                    for t in range(width):
                        v[i, b, g, h, t] = 0
                    _add_rows(v[i, b, g, h], p[i, b, g], P[i, b, h], T)


@summed
def _settle(p, g, mean, kind, total):
    """The gradient at the scores in the place of that at the weights p, and added to `total`; `mean` is `<p, g>`."""
    one = g.dtype.type(1)
    if kind == SIGMOID:
        for m in range(len(g)):
            x = g[m] * p[m] * (one - p[m])
            g[m] = x
            total[m] += x
    elif kind == LINEAR:
        for m in range(len(g)):
            total[m] += g[m]
    else:
        for m in range(len(g)):
            x = p[m] * (g[m] - mean)
            g[m] = x
            total[m] += x


@jitted
def relay_back(X, L, C, W, a, P, p, grad_p, grad_v, T, kind, at_D, at_L, at_C, at_W, at_base, at_a, at_bias):
    """See `Kernels.relay_back`."""
    k, rows, d, width = X.shape
    heads, answers = W.shape[1], a.shape[2]
    at_y, slopes = np.empty((d, width), X.dtype), np.empty((T, width), X.dtype)
    for i in range(k):
        for b in range(rows):
            x = X[i, b]
            for n in range(answers):
                at = at_base[i, b, n]
                for t in range(width):
                    at[t] = grad_p[i, b, n, t]
                for h in range(heads):
                    _add_dots(at, P[i, b, h], grad_v[i, b, n, h], T)
                _slopes(p[i, b, n], at, kind)
                if kind == SIGMOID:
                    at_bias[i] += np.sum(at)
            for h in range(heads):
                for n in range(answers):
                    _add_rows(at_a[i, b, n, h], at_base[i, b, n], P[i, b, h], T)
                for t in range(T):
                    own, g = P[i, b, h, t], slopes[t]
                    for n in range(answers):
                        f, e, ask, back = at_base[i, b, n, t], p[i, b, n, t], a[i, b, n, h], grad_v[i, b, n, h]
                        if n == 0:
                            for m in range(width):
                                g[m] = f * ask[m] + e * back[m]
                        else:
                            for m in range(width):
                                g[m] += f * ask[m] + e * back[m]
                    _settle(own, g, _dot(own, g), kind, at_D[i, h, t])
                    if kind == SIGMOID:
                        at_bias[i] += np.sum(g)
                for j in range(d):
                    for t in range(width):
                        at_y[j, t] = 0
                    _add_rows(at_L[i, h, j], x[j], slopes, T)
                    _add_dots(at_y[j], slopes, x[j], T)
                    for t in range(width):
                        at_C[i, h, j, t] += at_y[j, t]
                    _add_dots(at_W[i, h, j], x, at_y[j], d)


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
                keep[u] = _sigmoid(own[u] + add[u], one)
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
    for i in range(k):
        below, stride, inputs = X[i].reshape(rows * width), width, X[i]
        for n in range(top):
            own, columns, units = layout[n, 0], layout[n, 1], h[n].shape[2]
            num = _added(y, i, layout, n, extra)
            pack_weights(weights[n], i * own * columns, own, columns, W, 0, units)
            out = h[n][i].reshape(rows * units)
            forward(W, 0, columns, layout[n, 2], below, 0, stride, extra, num, out, 0, units, rows)
            below, stride, inputs = out, units, h[n][i]
        for e in range(size):
            row = weights[top][(i * size + e) * layout[top, 1] : (i * size + e + 1) * layout[top, 1]]
            for b in range(rows):
                outputs[i, b, e] = _dot(inputs[b], row[:stride]) + row[layout[top, 2]]


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
