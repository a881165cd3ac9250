"""The GPU's inner loops in Triton: `stsq_core.kernels.cuda` launches them, and `interface` defines what they compute.

One program serves one trial, so that its numbers do not depend on the trials beside it, and every sum has one order: a program
owns what it writes, and nothing is added atomically. Shapes are compile-time constants: they decide vector widths, and a stack
lives long enough to pay for its own build.

Attention keeps a sample in the registers of as few warps as hold it (one, up to a length of 256), because a sum over tokens is
then a handful of shuffles and no barrier. The polynomials are those of `stsq_core.kernels.draws` and `vectors`.
"""

import triton
import triton.language as tl

ROUNDS = tl.constexpr(7)
"""Of Philox."""

# Random words and elementary functions


@triton.jit
def _normal_pair(w0, w1):
    u = (w0 >> 1).to(tl.int32).to(tl.float32) * 4.656612873077393e-10 + 2.3283064365386963e-10
    # The device's own logarithm is not accurate near one.
    bits = u.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    f = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    p = 0.20213806629180908 * f + -0.3244519531726837
    p = p * f + 0.3450166881084442
    p = p * f + -0.3980032801628113
    p = p * f + 0.4993981719017029
    p = p * f + -0.6667011976242065
    p = p * f + 1.0000072717666626
    p = p * f + -1.9999998807907104
    square = exponent.to(tl.float32) * -1.3862943611198906 + f * p
    inverse = tl.rsqrt(tl.maximum(square, 1e-30))  # one word in 2^25 gives log 1 = 0, whose radius is zero, not 0 / 0
    radius = square * inverse
    radius += 0.5 * inverse * tl.fma(-radius, radius, square)
    turn = w1.to(tl.int32, bitcast=True)
    x = turn.to(tl.float32) * 3.657295198167899e-10
    z = x * x
    across = (((-0.00019515282474458218 * z + 0.00833216030150652) * z + -0.16666655242443085) * z + 1.0) * (radius * x)
    along = (((-0.0013591854367405176 * z + 0.041655778884887695) * z + -0.4999988377094269) * z + 1.0) * radius
    along = tl.where((turn & 2) != 0, -along, along)
    turned = (turn & 1) != 0
    return tl.where(turned, across, along), tl.where(turned, along, across)


@triton.jit
def _uniform(word):
    return ((word >> 8).to(tl.int32).to(tl.float32) + 0.5) * 1.1920928955078125e-7 - 1.0


@triton.jit
def _key(keys, owner, trial):
    return tl.load(keys + tl.load(owner + trial))


@triton.jit
def keys(bases, step, out, n, BLOCK: tl.constexpr):
    """`streams.mix(base + step)`."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = (tl.load(bases + i, mask=i < n, other=0) + tl.load(step)).to(tl.uint64, bitcast=True)
    x = x + 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    tl.store(out + i, (x ^ (x >> 31)).to(tl.int64, bitcast=True), mask=i < n)


# Draws


@triton.jit
def numbers(
    keys, owner, out,
    ROWS: tl.constexpr, NUMBERS: tl.constexpr, COUNTERS: tl.constexpr, NORMAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Normals or uniforms, (k, ROWS, NUMBERS), four to a Philox counter; COUNTERS of them serve a row."""
    trial = tl.program_id(1)
    counter = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, i = counter // COUNTERS, counter % COUNTERS
    w0, w1, w2, w3 = tl.philox(_key(keys, owner, trial), i, row, 0, 0, ROUNDS)
    if NORMAL:
        x0, x1 = _normal_pair(w0, w1)
        x2, x3 = _normal_pair(w2, w3)
    else:
        x0, x1, x2, x3 = _uniform(w0), _uniform(w1), _uniform(w2), _uniform(w3)
    n = 64 * (i // 16) + i % 16
    here = out + trial.to(tl.int64) * (ROWS * NUMBERS) + row * NUMBERS + n
    drawn = row < ROWS
    tl.store(here, x0, mask=drawn & (n < NUMBERS))
    tl.store(here + 16, x1, mask=drawn & (n + 16 < NUMBERS))
    tl.store(here + 32, x2, mask=drawn & (n + 32 < NUMBERS))
    tl.store(here + 48, x3, mask=drawn & (n + 48 < NUMBERS))


@triton.jit
def signs(keys, owner, out, tokens, LENGTH: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Signs, (k, tokens, LENGTH): a program writes a strip of at most 128 coordinates, one counter a token."""
    trial, strip = tl.program_id(1), tl.program_id(2)
    token = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    bit = tl.arange(0, WIDTH)[None, :]
    w0, w1, w2, w3 = tl.philox(_key(keys, owner, trial), token, strip, 0, 0, ROUNDS)
    word = tl.where(bit < 64, tl.where(bit < 32, w0, w1), tl.where(bit < 96, w2, w3))
    sign = 1 - 2 * ((word >> (bit % 32).to(tl.uint32)) & 1).to(tl.int32)
    e = 128 * strip + bit
    here = out + (trial.to(tl.int64) * tokens + token) * LENGTH + e
    tl.store(here, sign.to(out.dtype.element_ty), mask=(token < tokens) & (e < LENGTH))


@triton.jit
def _below(high, low, bound):
    """`floor(bound u)` for u the 64-bit fraction of the two words."""
    part = tl.umulhi(low, (low * 0 + bound).to(tl.uint32))
    return ((high.to(tl.uint64) * bound + part) >> 32).to(tl.int32)


@triton.jit
def subsets(keys, owner, out, ROWS: tl.constexpr, T: tl.constexpr, Q: tl.constexpr, BLOCK: tl.constexpr):
    """q-subsets, (k, ROWS, Q), by Floyd's algorithm."""
    trial = tl.program_id(1)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = _key(keys, owner, trial)
    here = out + (trial.to(tl.int64) * ROWS + row) * Q
    chosen = ()
    for j in tl.static_range(Q):
        w0, w1, w2, w3 = tl.philox(key, row, j // 2, 0, 0, ROUNDS)
        if j % 2 == 0:  # noqa: SIM108 - decided when it is compiled
            candidate = _below(w0, w1, T - Q + j + 1)
        else:
            candidate = _below(w2, w3, T - Q + j + 1)
        taken = candidate < 0
        for earlier in tl.static_range(j):
            taken = taken | (candidate == chosen[earlier])
        member = tl.where(taken, T - Q + j, candidate)
        tl.store(here + j, member.to(tl.int64), mask=row < ROWS)
        chosen = chosen + (member,)  # noqa: RUF005 - Triton knows no unpacking


# The dual query


@triton.jit
def gram(codes, y, out, total, ROWS: tl.constexpr, TOKENS: tl.constexpr, LENGTH: tl.constexpr, Q: tl.constexpr,
         BLOCK: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """Inner products of the members' codes in float64, (Q, Q, total), for rows of all trials in one line."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < total
    book = codes + ((row // ROWS).to(tl.int64) * (TOKENS * LENGTH))[:, None]
    place = row.to(tl.int64) * Q
    target = out + row
    for i in range(Q):
        a = book + (tl.load(y + place + i, mask=live, other=0) * LENGTH)[:, None]
        for j in range(i + 1):
            b = book + (tl.load(y + place + j, mask=live, other=0) * LENGTH)[:, None]
            products = tl.zeros([BLOCK, WIDTH], tl.float64)
            for start in range(0, LENGTH, WIDTH):
                e = start + tl.arange(0, WIDTH)[None, :]
                held = live[:, None] & (e < LENGTH)
                left = tl.load(a + e, mask=held, other=0).to(tl.float64)
                products += left * tl.load(b + e, mask=held, other=0).to(tl.float64)
            product = tl.sum(products, 1)
            tl.store(target + (i * Q + j) * total, product, mask=live)
            tl.store(target + (j * Q + i) * total, product, mask=live)


@triton.jit
def dual(grams, out, total, tolerance, Q: tl.constexpr, BLOCK: tl.constexpr):
    """At most Q steps of conjugate gradients on the normal equations; a lane keeps the Q x Q numbers of a row in registers."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < total
    one = tl.full([BLOCK], 1.0, tl.float64)
    g, residual, c = (), (), ()
    for i in tl.static_range(Q):
        residual = residual + (one,)  # noqa: RUF005
        c = c + (0.0 * one,)  # noqa: RUF005
        for j in tl.static_range(Q):
            g = g + (tl.load(grams + (i * Q + j) * total + row, mask=live, other=0),)  # noqa: RUF005
    direction = residual
    slope = _form(g, residual, Q)
    least = tl.load(tolerance)
    enough = least * least * slope
    for _ in range(Q):
        curvature = 0.0 * one
        image = ()
        for i in tl.static_range(Q):
            total_i = g[i * Q] * direction[0]
            for j in tl.static_range(1, Q):
                total_i += g[i * Q + j] * direction[j]
            image = image + (total_i,)  # noqa: RUF005
            curvature += total_i * total_i
        going = (slope > enough) & (curvature > 0)
        step = tl.where(going, slope / tl.where(going, curvature, 1.0), 0.0)
        moved, left, turned = (), (), ()
        for i in tl.static_range(Q):
            moved = moved + (c[i] + step * direction[i],)  # noqa: RUF005
            left = left + (residual[i] - step * image[i],)  # noqa: RUF005
        new_slope = _form(g, left, Q)
        ratio = tl.where(going, new_slope / tl.where(going, slope, 1.0), 0.0)
        for i in tl.static_range(Q):
            turned = turned + (left[i] + ratio * direction[i],)  # noqa: RUF005
        c, residual, direction = moved, left, turned
        slope = tl.where(going, new_slope, 0.0)
    for i in tl.static_range(Q):
        tl.store(out + row.to(tl.int64) * Q + i, c[i].to(out.dtype.element_ty), mask=live)


@triton.jit
def _form(g, x, Q: tl.constexpr):
    """`x^T g x`."""
    value = 0.0 * x[0]
    for i in tl.static_range(Q):
        for j in tl.static_range(Q):
            value += x[i] * g[i * Q + j] * x[j]
    return value


@triton.jit
def dual_of_many(grams, out, total, tolerance, Q: tl.constexpr, BLOCK: tl.constexpr, MEMBERS: tl.constexpr):
    """`dual` for more members than a lane can hold: the matrix of a row is spread over lanes."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < total
    i = tl.arange(0, MEMBERS)
    member = live[:, None] & (i < Q)[None, :]
    place = (i[None, :, None] * Q + i[None, None, :]) * total + row[:, None, None]
    g = tl.load(grams + place, mask=member[:, :, None] & (i < Q)[None, None, :], other=0)
    residual = tl.where(member, 1.0, 0.0).to(tl.float64)
    c, direction = tl.zeros_like(residual), residual
    slope = tl.sum(tl.sum(g * residual[:, None, :], 2) * residual, 1)
    least = tl.load(tolerance)
    enough = least * least * slope
    for _ in range(Q):
        image = tl.sum(g * direction[:, None, :], 2)
        curvature = tl.sum(image * image, 1)
        going = (slope > enough) & (curvature > 0)
        step = tl.where(going, slope / tl.where(going, curvature, 1.0), 0.0)[:, None]
        c += step * direction
        residual -= step * image
        new_slope = tl.sum(tl.sum(g * residual[:, None, :], 2) * residual, 1)
        direction = residual + tl.where(going, new_slope / tl.where(going, slope, 1.0), 0.0)[:, None] * direction
        slope = tl.where(going, new_slope, 0.0)
    here = out + row.to(tl.int64)[:, None] * Q + i[None, :]
    tl.store(here, c.to(out.dtype.element_ty), mask=member)


# Attention


@triton.jit
def _softmax(s, inside):
    """Softmax over the tokens there are, and zeros beyond."""
    s = tl.where(inside, s, float("-inf"))
    p = tl.where(inside, tl.exp(s - tl.max(s, 0)), 0.0)
    return p * (1.0 / tl.sum(p, 0))


@triton.jit
def attend_population(
    N, v, y, c, squares, shares, g, ROWS: tl.constexpr, T: tl.constexpr, PADDED: tl.constexpr, Q: tl.constexpr,
    BLOCK: tl.constexpr, SAMPLES: tl.constexpr, GRADIENT: tl.constexpr
):  # fmt: skip
    """Per sample: `||residual||^2`, `<p, residual>` and g, (k, ROWS, PADDED). A program takes SAMPLES rows in turn."""
    trial = tl.program_id(1).to(tl.int64)
    t = tl.arange(0, BLOCK)
    inside = t < T
    scores = N + trial * (PADDED * PADDED) + t
    scale = tl.load(v + trial)
    first = tl.program_id(0) * SAMPLES
    for b in range(first, min(first + SAMPLES, ROWS)):
        row = trial * ROWS + b
        s = tl.zeros([BLOCK], N.dtype.element_ty)
        hits = tl.zeros([BLOCK], N.dtype.element_ty)
        for m in tl.static_range(Q):
            j = tl.load(y + row * Q + m)
            s += tl.load(c + row * Q + m) * tl.load(scores + j * PADDED, mask=inside, other=0)
            hits += tl.where(t == j, 1, 0)
        p = _softmax(s, inside)
        residual = scale * p - hits * (1.0 / Q)
        tl.store(squares + row, tl.sum(residual * residual, 0))
        if GRADIENT:
            part = p * residual
            share = tl.sum(part, 0)
            tl.store(shares + row, share)
            tl.store(g + row * PADDED + t, part - share * p, mask=t < PADDED)


@triton.jit
def attend_tokens(
    X, owner, N, K, W, V, y, c, squares, g, r, context, slopes, R,
    ROWS: tl.constexpr, T: tl.constexpr, PADDED: tl.constexpr, D: tl.constexpr, Q: tl.constexpr,
    BLOCK: tl.constexpr, SAMPLES: tl.constexpr, GRADIENT: tl.constexpr
):  # fmt: skip
    """Per sample: `||r||^2`, g, (k, ROWS, PADDED), and r, `X p` and `X g`, (k, ROWS, D); `r p^T` summed over a program's rows.

    W is the interface's Q. A sample's tokens, D vectors, stay in registers from the first use to the last.
    """
    kind = N.dtype.element_ty
    trial = tl.program_id(1).to(tl.int64)
    seed = tl.load(owner + trial)
    t = tl.arange(0, BLOCK)
    inside, held = t < T, t < PADDED
    scores = N + trial * (PADDED * PADDED) + t
    added, total = (), ()
    for e in tl.static_range(D):
        added = added + (tl.load(K + (trial * D + e) * PADDED + t, mask=inside, other=0),)  # noqa: RUF005
        total = total + (tl.zeros([BLOCK], kind),)  # noqa: RUF005
    first = tl.program_id(0) * SAMPLES
    for b in range(first, min(first + SAMPLES, ROWS)):
        row = trial * ROWS + b
        drawn = X + (seed * ROWS + b) * (D * T) + t
        x = ()
        for e in tl.static_range(D):
            x = x + (tl.load(drawn + e * T, mask=inside, other=0).to(kind),)  # noqa: RUF005
        s = tl.zeros([BLOCK], kind)
        hits = tl.zeros([BLOCK], kind)
        asked = ()
        for m in tl.static_range(Q):
            j = tl.load(y + row * Q + m)
            a = tl.load(c + row * Q + m)
            s += a * tl.load(scores + j * PADDED, mask=inside, other=0)
            hits += tl.where(t == j, 1, 0)
            sums = ()
            for e in tl.static_range(D):
                term = a * tl.load(W + (trial * D + e) * PADDED + j)
                sums = sums + (asked[e] + term if m > 0 else term,)  # noqa: RUF005
            asked = sums
        for e in tl.static_range(D):
            s += asked[e] * x[e]
        hits *= 1.0 / Q
        p = _softmax(s, inside)
        mixed, rest = (), ()
        for e in tl.static_range(D):
            mixed = mixed + (tl.sum(p * x[e], 0),)  # noqa: RUF005
        square = tl.sum(tl.zeros([BLOCK], kind), 0)
        for e in tl.static_range(D):
            error = tl.sum(p * added[e] - hits * x[e], 0)
            for f in tl.static_range(D):
                error += tl.load(V + (trial * D + e) * D + f) * mixed[f]
            square += error * error
            rest = rest + (error * (1.0 / ROWS),)  # noqa: RUF005
        tl.store(squares + row, square)
        if GRADIENT:
            grad_p = tl.zeros([BLOCK], kind)
            sums = ()
            for e in tl.static_range(D):
                back = rest[0] * tl.load(V + trial * D * D + e)
                for f in tl.static_range(1, D):
                    back += rest[f] * tl.load(V + (trial * D + f) * D + e)
                grad_p += rest[e] * added[e] + back * x[e]
                sums = sums + (total[e] + rest[e] * p,)  # noqa: RUF005
            total = sums
            slope = p * (grad_p - tl.sum(p * grad_p, 0))
            tl.store(g + row * PADDED + t, slope, mask=held)
            for e in tl.static_range(D):
                tl.store(r + row * D + e, rest[e])
                tl.store(context + row * D + e, mixed[e])
                tl.store(slopes + row * D + e, tl.sum(slope * x[e], 0))
    if GRADIENT:
        place = trial * tl.num_programs(0) + tl.program_id(0)
        for e in tl.static_range(D):
            tl.store(R + (place * D + e) * PADDED + t, total[e], mask=held)


@triton.jit
def gather(
    y, c, g, slopes, G, H, ROWS: tl.constexpr, PADDED: tl.constexpr, Q: tl.constexpr, D: tl.constexpr, MEAN: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, SCAN: tl.constexpr
):  # fmt: skip
    """`G = sum_b a g^T`, (k, PADDED, PADDED), and where D is not 0 `H = sum_b (X g) a^T`, (k, D, PADDED); MEAN divides by ROWS.

    A program owns the row of one token: it looks through all subsets for the token, SCAN members at a time, and adds the few
    samples that hold it in ascending order.
    """
    token = tl.program_id(0)
    trial = tl.program_id(1).to(tl.int64)
    t = tl.arange(0, BLOCK)
    e = tl.arange(0, WIDTH)
    kind = g.dtype.element_ty
    row = tl.zeros([BLOCK], kind)
    column = tl.zeros([WIDTH], kind)
    members = ROWS * Q
    for start in range(0, members, SCAN):
        place = start + tl.arange(0, SCAN)
        found = tl.load(y + trial * members + place, mask=place < members, other=-1) == token
        ahead = tl.where(found, place, members)
        member = tl.min(ahead, 0)
        while member < members:
            sample = trial * ROWS + member // Q
            a = tl.load(c + trial * members + member)
            row += a * tl.load(g + sample * PADDED + t, mask=t < PADDED, other=0)
            if D > 0:
                column += a * tl.load(slopes + sample * D + e, mask=e < D, other=0)
            ahead = tl.where(ahead == member, members, ahead)
            member = tl.min(ahead, 0)
    if MEAN:
        row *= 1.0 / ROWS
        column *= 1.0 / ROWS
    tl.store(G + (trial * PADDED + token) * PADDED + t, row, mask=t < PADDED)
    if D > 0:
        tl.store(H + (trial * D + e) * PADDED + token, column, mask=e < D)


# Fully connected nets


@triton.jit
def layer(
    values, hot, out, trial_stride, row_stride,
    ROWS: tl.constexpr, UNITS: tl.constexpr, HOT: tl.constexpr, COLUMNS: tl.constexpr, RECTIFY: tl.constexpr,
    BLOCK: tl.constexpr
):  # fmt: skip
    """Values, hot, a one and zeros side by side, (k, ROWS, COLUMNS): one pass over memory where torch takes three."""
    trial = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = n // COLUMNS, n % COLUMNS
    held = n < ROWS * COLUMNS
    x = tl.load(values + trial * trial_stride + row * row_stride + column, mask=held & (column < UNITS), other=0)
    if RECTIFY:
        x = tl.where(x < 0, 0.0, x)
    if HOT > 0:
        there = held & (column >= UNITS) & (column < UNITS + HOT)
        x += tl.load(hot + (trial * ROWS + row) * HOT + (column - UNITS), mask=there, other=0)
    x = tl.where(column == UNITS + HOT, 1.0, x)
    tl.store(out + trial * (ROWS * COLUMNS) + n, x.to(out.dtype.element_ty), mask=held)


# Descent


@triton.jit
def descend(
    parameter, gradient, m, v, rate, root, beta1, beta2, eps, adam, trial_stride, row_stride, column_stride,
    NUMBERS: tl.constexpr, COLUMNS: tl.constexpr, MOMENTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Each trial's NUMBERS parameters, by gradient descent or Adam; the gradient may be any view of rows of COLUMNS."""
    trial = tl.program_id(1)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    held = n < NUMBERS
    here = trial.to(tl.int64) * NUMBERS + n
    there = trial.to(tl.int64) * trial_stride + (n // COLUMNS) * row_stride + (n % COLUMNS) * column_stride
    direction = tl.load(gradient + there, mask=held, other=0)
    if MOMENTS:  # noqa: SIM102 - decided when it is compiled
        if tl.load(adam + trial) != 0:
            keep1, keep2 = tl.load(beta1 + trial), tl.load(beta2 + trial)
            first = keep1 * tl.load(m + here, mask=held, other=0) + (1.0 - keep1) * direction
            second = keep2 * tl.load(v + here, mask=held, other=0) + (1.0 - keep2) * direction * direction
            tl.store(m + here, first, mask=held)
            tl.store(v + here, second, mask=held)
            size = tl.sqrt_rn(second) if second.dtype == tl.float32 else tl.sqrt(second)
            direction = first / (size / tl.load(root + trial) + tl.load(eps + trial))
    tl.store(parameter + here, tl.load(parameter + here, mask=held, other=0) - tl.load(rate + trial) * direction, mask=held)
