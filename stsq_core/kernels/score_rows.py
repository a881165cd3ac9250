"""Rows of scores that stay in registers from the product that makes them to the weights, written in LLVM's instructions.

A row passes through memory once, four rows at a time, and has the bits of the loops that take any row
(`stsq_core.kernels.attended_loops`): products and sums are in their order.
"""

import math
from functools import reduce
from itertools import product

from llvmlite import ir
from numba import types
from numba.core import cgutils

from stsq_core.kernels.exponentials import vector_exp_below_zero
from stsq_core.kernels.jit import emitted, exact
from stsq_core.kernels.vectors import PANEL, VECTOR_BYTES, Vectors, add_dots, add_rows

ROWS = 4
"""Rows that are taken together: the lanes of their sums, and what is greatest in them, are put together at once."""

SIDE = 4 if VECTOR_BYTES == 64 else 2
"""Vectors of a row that sums take side by side while there are so many."""


def _products(lines, start, s, s_row, A, a, B, b, width, steps, count, chain=False):
    """`start[r] + sum_j A[j, r] B[j]` of each row in so many vectors; a chain of additions begins with the start."""
    builder, integer = lines.builder, width.type
    rows, columns = range(ROWS), [integer(v * lines.lanes) for v in range(count)]

    def begun(r, column):
        return lines.load(start, s, builder.mul(s_row, integer(r)), column)

    totals = [[cgutils.alloca_once_value(builder, begun(r, c) if chain else lines.zero) for c in columns] for r in rows]
    with cgutils.for_range(builder, steps) as loop:
        step = builder.mul(loop.index, width)
        read = [lines.load(B, b, step, column) for column in columns]
        for r in rows:
            factor = lines.repeated(A, a, step, integer(r))
            for total, own in zip(totals[r], read, strict=True):
                lines.add_product(total, factor, own)
    found = [[builder.load(total) for total in own] for own in totals]
    return found if chain else [[builder.fadd(begun(r, columns[v]), found[r][v]) for v in range(count)] for r in rows]


def _side_by_side(lines, own):
    """A row's vectors as one: in pairs where sums take so many side by side, or one after another."""
    if len(own) == SIDE:
        while len(own) > 1:
            own = [lines.builder.fadd(x, y) for x, y in zip(own[::2], own[1::2], strict=True)]
    return reduce(lines.builder.fadd, own)


@emitted
def _weigh(typing, S, s, start, e, A, a, B, b, width, steps, T, vectors):
    """The weights of rows of scores `start[r] + sum_j A[j, r] B[j]`, and zeros beyond T."""
    ints = types.intp

    def lower(context, builder, signature, values):
        S_, s, start_, e, A_, a, B_, b, width, steps, T, vectors = values
        lines = Vectors(context, builder, S)
        S_, start_, A_, B_ = map(lines.data, (S, start, A, B), (S_, start_, A_, B_))
        low, word = ir.Constant(lines.type, [-math.inf] * lines.lanes), ir.IntType(32)

        def greater(x, y):
            return builder.select(builder.fcmp_ordered(">", x, y), x, y)

        def repeated(lanes, r):
            return lines.shuffled(lanes, lanes, [r] * lines.lanes)

        def emit(count):
            rows = _products(lines, start_, e, width, A_, a, B_, b, width, steps, count)
            for v in range(count):
                places = ir.Constant(ir.VectorType(word, lines.lanes), list(range(v * lines.lanes, (v + 1) * lines.lanes)))
                one = builder.insert_element(ir.Constant(places.type, ir.Undefined), builder.trunc(T, word), word(0))
                within = builder.icmp_signed("<", places, lines.shuffled(one, one, [0] * lines.lanes))
                for own in rows:
                    own[v] = builder.select(within, own[v], low)
            greatest = lines.sums([reduce(lambda most, vector: greater(vector, most), own) for own in rows], greater)
            rows = [
                [vector_exp_below_zero(lines, builder.fsub(vector, repeated(greatest, r))) for vector in own]
                for r, own in enumerate(rows)
            ]
            totals = lines.sums([_side_by_side(lines, own) for own in rows])
            shares = builder.fdiv(ir.Constant(totals.type, [1.0] * ROWS), totals)
            for r, v in product(range(ROWS), range(count)):
                value = builder.fmul(rows[r][v], repeated(shares, r))
                lines.store(value, S_, s, builder.mul(width, width.type(r)), width.type(v * lines.lanes))

        lines.choose(vectors, emit if S.dtype == types.float32 else lambda count: None)
        return context.get_dummy_value()

    return types.void(S, ints, start, ints, A, ints, B, ints, ints, ints, ints, ints), lower


@exact
def weigh_fours(S, s, start, e, A, a, B, b, width, steps, T, rows):
    """Weights of so many rows of scores, see `_weigh`, as far as four of them and a vector's parts fit: how many are done."""
    vectors = width * S.itemsize // VECTOR_BYTES
    done = rows // ROWS * ROWS if S.itemsize == 4 and vectors <= PANEL else 0
    for r in range(0, done, ROWS):
        _weigh(S, s + r * width, start, e + r * width, A, a + r, B, b, width, steps, T, vectors)
    return done


@emitted
def _slope(typing, G, g, start, e, e_row, A, a, B, b, width, steps, P, p, D, to, adds, vectors):
    """`G = P (S - <P, S>)` of rows P and `S[r] = start[r] + sum_j A[j, r] B[j]`, added to D as well where this is asked for."""
    ints = types.intp

    def lower(context, builder, signature, values):
        G_, g, start_, e, e_row, A_, a, B_, b, width, steps, P_, p, D_, to, adds, vectors = values
        lines, halves = Vectors(context, builder, G), Vectors(context, builder, G, parts=2)
        G_, start_, A_, B_, P_, D_ = map(lines.data, (G, start, A, B, P, D), (G_, start_, A_, B_, P_, D_))

        def emit(count):
            rows = _products(lines, start_, e, e_row, A_, a, B_, b, width, steps, count, chain=True)
            places = [
                [(builder.mul(width, width.type(r)), width.type(v * lines.lanes)) for v in range(count)] for r in range(ROWS)
            ]
            weights = [[lines.load(P_, p, *place) for place in own] for own in places]
            if count == 4:  # `vectors.add_dots` takes so many side by side
                pairs = [
                    [lines.fused(x, y, lines.zero) for x, y in zip(*own, strict=True)]
                    for own in zip(weights, rows, strict=True)
                ]
                dots = lines.sums([_side_by_side(lines, own) for own in pairs])
            else:
                sums = [halves.zero] * ROWS
                for v, first in product(range(count), (0, halves.lanes)):
                    part = list(range(first, first + halves.lanes))
                    for r in range(ROWS):
                        x, y = (lines.shuffled(own[r][v], own[r][v], part) for own in (weights, rows))
                        sums[r] = halves.fused(x, y, sums[r])
                dots = halves.sums(sums)
            dots = builder.fadd(ir.Constant(dots.type, [0.0] * ROWS), dots)
            for r, own in enumerate(rows):
                dot = lines.shuffled(dots, dots, [r] * lines.lanes)
                for v in range(count):
                    own[v] = builder.fmul(weights[r][v], builder.fsub(own[v], dot))
                    lines.store(own[v], G_, g, *places[r][v])
            with builder.if_then(builder.icmp_signed("!=", adds, adds.type(0))):
                for r, v in product(range(ROWS), range(count)):
                    lines.store(builder.fadd(lines.load(D_, to, *places[r][v]), rows[r][v]), D_, to, *places[r][v])

        lines.choose(vectors, emit)
        return context.get_dummy_value()

    return types.void(G, ints, start, ints, ints, A, ints, B, ints, ints, ints, P, ints, D, ints, ints, ints), lower


@exact
def slope_fours(G, g, start, e, e_row, A, a, B, b, width, steps, P, p, D, to, adds, rows):
    """Gradients at so many rows of scores from those at their weights, see `_slope`, as `weigh_fours`."""
    vectors = width * G.itemsize // VECTOR_BYTES
    done = rows // ROWS * ROWS if vectors <= PANEL else 0
    for r in range(0, done, ROWS):
        n = r * width
        _slope(G, g + n, start, e + r * e_row, e_row, A, a + r, B, b, width, steps, P, p + n, D, to + n, adds, vectors)
    return done


@emitted
def _add_rows(typing, C, c, c_row, A, a, a_row, B, b, b_row, width, steps, vectors):
    """`C[r] += sum_j A[r, j] B[r, j]` of four rows, each in the order of `vectors.add_rows`."""
    ints = types.intp

    def lower(context, builder, signature, values):
        C_, c, c_row, A_, a, a_row, B_, b, b_row, width, steps, vectors = values
        lines, integer = Vectors(context, builder, C), width.type
        C_, A_, B_ = map(lines.data, (C, A, B), (C_, A_, B_))

        def emit(count):
            places = [
                (c, builder.mul(c_row, integer(r)), integer(v * lines.lanes)) for r, v in product(range(ROWS), range(count))
            ]
            totals = [cgutils.alloca_once_value(builder, lines.load(C_, *place)) for place in places]
            with cgutils.for_range(builder, steps) as loop:
                for n, total in enumerate(totals):
                    r, v = divmod(n, count)
                    factor = lines.repeated(A_, a, builder.mul(a_row, integer(r)), loop.index)
                    step = builder.mul(loop.index, width)
                    lines.add_product(
                        total, factor, lines.load(B_, b, builder.mul(b_row, integer(r)), step, integer(v * lines.lanes))
                    )
            for total, place in zip(totals, places, strict=True):
                lines.store(builder.load(total), C_, *place)

        lines.choose(vectors, emit)
        return context.get_dummy_value()

    return types.void(C, ints, ints, A, ints, ints, B, ints, ints, ints, ints, ints), lower


@exact
def add_rows_of_all(C, c, c_row, A, a, a_row, B, b, b_row, rows, steps, width):
    """`C[r] += sum_j A[r, j] B[r, j]` of so many rows r, see `vectors.add_rows`: four side by side wait less for their sums."""
    lanes, whole = VECTOR_BYTES // C.itemsize, rows // ROWS * ROWS
    for r in range(0, whole, ROWS):
        for n in range(0, width, PANEL * lanes):
            parts = min(PANEL, (width - n) // lanes)
            _add_rows(
                C, c + r * c_row + n, c_row, A, a + r * a_row, a_row, B, b + r * b_row + n, b_row, width, steps, parts
            )  # fmt: skip
    for r in range(whole, rows):
        add_rows(C, c + r * c_row, A, a + r * a_row, B, b + r * b_row, width, steps, width)


@emitted
def _add_dots(typing, C, c, c_row, A, a, a_row, B, b, b_row, columns):
    """`C[c + j c_row + r] += <A_r, B_j>` of four rows and four others, each sum in the order of `vectors.add_dots`.

    As half a vector is added at a time there, a vector has those of two rows.
    """
    ints = types.intp

    def lower(context, builder, signature, values):
        C_, c, c_row, A_, a, a_row, B_, b, b_row, columns = values
        lines, halves, integer = Vectors(context, builder, A), Vectors(context, builder, A, parts=2), columns.type
        C_, A_, B_ = map(lines.data, (C, A, B), (C_, A_, B_))
        totals = [[cgutils.alloca_once_value(builder, lines.zero) for _ in range(0, ROWS, 2)] for _ in range(ROWS)]
        both = list(range(lines.lanes))
        with cgutils.for_range_slice(builder, integer(0), columns, integer(halves.lanes)) as (place, _):
            rows = [halves.load(A_, a, builder.mul(a_row, integer(r)), place) for r in range(ROWS)]
            pairs = [lines.shuffled(x, y, both) for x, y in zip(rows[::2], rows[1::2], strict=True)]
            for j in range(ROWS):
                other = halves.load(B_, b, builder.mul(b_row, integer(j)), place)
                twice = lines.shuffled(other, other, both)
                for total, pair in zip(totals[j], pairs, strict=True):
                    lines.add_product(total, pair, twice)
        found = lines.sums([builder.load(total) for own in totals for total in own], lanes=halves.lanes)
        for j in range(ROWS):
            own = lines.shuffled(found, found, list(range(j * ROWS, (j + 1) * ROWS)))
            target = builder.bitcast(lines.place(C_, c, builder.mul(c_row, integer(j))), own.type.as_pointer())
            builder.store(builder.fadd(builder.load(target, align=lines.size), own), target, align=lines.size)
        return context.get_dummy_value()

    return types.void(C, ints, ints, A, ints, ints, B, ints, ints, ints), lower


@exact
def add_dots_of_all(C, c, c_row, A, a, a_row, rows, B, b, b_row, others, columns):
    """`C[c + j c_row + r] += <A_r, B_j>` for so many rows and others, see `vectors.add_dots`."""
    fits = VECTOR_BYTES == 64 and columns * A.itemsize < SIDE * VECTOR_BYTES
    fours_r, fours_j = (rows // ROWS * ROWS, others // ROWS * ROWS) if fits else (0, 0)
    for r in range(0, fours_r, ROWS):
        for j in range(0, fours_j, ROWS):
            _add_dots(C, c + j * c_row + r, c_row, A, a + r * a_row, a_row, B, b + j * b_row, b_row, columns)
    for j in range(others):
        done = fours_r if j < fours_j else 0
        add_dots(C, c + j * c_row + done, A, a + done * a_row, a_row, rows - done, B, b + j * b_row, 0, columns)
