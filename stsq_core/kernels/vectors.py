"""Products and sums of rows of whole vectors, written in LLVM's instructions, and the rooms that they work in."""

from itertools import product

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

from stsq_core.kernels.jit import emitted, exact, inlined, jitted

BLOCK = 32
"""Samples of a trial that are taken together."""

TOKENS_IN_CACHE = 65536
"""Token coordinates of a batch that are drawn at a time where trials share a seed."""

VECTOR_BYTES, PANEL = (64, 4) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (32, 2)
"""A vector of this machine, and how many of them a product takes side by side: its sums fill about half of the registers."""

LANES_OF_WORDS = VECTOR_BYTES // 4


class Vectors:
    """Writes loads, stores and sums of whole vectors of an array's numbers, or of parts of them; places are in numbers."""

    def __init__(self, context, builder, kind, parts=1):
        self.context, self.builder = context, builder
        self.number, self.size = context.get_data_type(kind.dtype), kind.dtype.bitwidth // 8
        self.lanes = VECTOR_BYTES // self.size // parts
        self.type = ir.VectorType(self.number, self.lanes)
        self.zero = ir.Constant(self.type, [0.0] * self.lanes)
        name = f"llvm.fmuladd.v{self.lanes}{self.number.intrinsic_name}"
        self._fused = cgutils.get_or_insert_function(builder.module, ir.FunctionType(self.type, [self.type] * 3), name)

    def data(self, kind, array):
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def place(self, array, *terms):
        """The address of a number at the sum of some terms."""
        total = terms[0]
        for term in terms[1:]:
            total = self.builder.add(total, term)
        return self.builder.gep(array, [total])

    def load(self, array, *terms):
        place = self.builder.bitcast(self.place(array, *terms), self.type.as_pointer())
        return self.builder.load(place, align=self.size)

    def store(self, value, array, *terms):
        place = self.builder.bitcast(self.place(array, *terms), self.type.as_pointer())
        self.builder.store(value, place, align=self.size)

    def repeated(self, array, *terms):
        """A vector of one number."""
        value = self.builder.load(self.place(array, *terms))
        one = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), value, ir.IntType(32)(0))
        return self.shuffled(one, one, [0] * self.lanes)

    def shuffled(self, a, b, lanes):
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def add_product(self, total, a, b, rounds=False):
        """`total += a b` of a vector in a variable, rounded once where the machine can, or twice."""
        so_far = self.builder.load(total)
        twice = rounds and self.builder.fadd(so_far, self.builder.fmul(a, b))
        self.builder.store(twice or self.fused(a, b, so_far), total)

    def fused(self, a, b, c):
        """`a b + c`, rounded once where the machine can."""
        return self.builder.call(self._fused, [a, b, c])

    def choose(self, vectors, emit):
        """What is emitted for so many vectors, 1 to `PANEL`."""
        end = self.builder.append_basic_block("end")
        choice = self.builder.switch(vectors, end)
        for count in range(1, PANEL + 1):
            case = self.builder.append_basic_block(f"vectors{count}")
            choice.add_case(vectors.type(count), case)
            self.builder.position_at_end(case)
            emit(count)
            self.builder.branch(end)
        self.builder.position_at_end(end)

    def sums(self, rows, join=None, lanes=None):
        """The sum of each vector's lanes, or of so many, which are put together in halves, as the lanes of one vector."""
        join = join or self.builder.fadd
        lanes = lanes or rows[0].type.count  # of each row that is left; a vector has its rows one after another
        while lanes > 1:
            half = lanes // 2
            starts = range(0, (2 if len(rows) > 1 else 1) * rows[0].type.count, lanes)
            low, high = ([n + start for start in starts for n in range(first, first + half)] for first in (0, half))
            pairs = list(zip(rows[::2], rows[1::2], strict=True)) if len(rows) > 1 else [(rows[0], rows[0])]
            rows = [join(self.shuffled(a, b, low), self.shuffled(a, b, high)) for a, b in pairs]
            lanes = half
        while len(rows) > 1:
            both = list(range(2 * rows[0].type.count))
            rows = [self.shuffled(a, b, both) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        return rows[0]


def _product(rows, finish, rounds=False):
    """`C[r] = finish(C[r], sum_j B[extra[r, j]] + sum_k A[r, k] B[k])` of vectors, for so many rows r, whose sums stay in
    registers: `set`, `rectify` and `mask` replace C, `add` adds, `spread` adds the sum over k to each row `extra[j]` of C
    instead, and `chain` begins the sum over k with C. A product that `rounds` does so before it is added, in an `exact` loop.

    Each sum is one chain of additions in the order above, so its bits depend neither on `rows` nor on the length of a vector.
    C, A, B, extra and mask are arrays, each with the place where it begins and its strides over r, k or j; mask has C's.
    """

    @emitted
    def multiply(typing, C, c, c_row, A, a, a_row, a_step, B, b, b_step, steps, extra, e, e_row, num_extra, mask, vectors):
        ints = types.intp
        arguments = (C, ints, ints, A, ints, ints, ints, B, ints, ints, ints, extra, ints, ints, ints, mask, ints)

        def lower(context, builder, signature, values):
            C_, c, c_row, A_, a, a_row, a_step, B_, b, b_step, steps, extra_, e, e_row, num_extra, mask_, vectors = values
            lines, integer, spreads = Vectors(context, builder, C), b_step.type, finish == "spread"
            C_, A_, B_, extra_, mask_ = map(lines.data, (C, A, B, extra, mask), (C_, A_, B_, extra_, mask_))

            def emit(count):
                columns = [integer(v * lines.lanes) for v in range(count)]

                def begun(r, column):
                    place = c, builder.mul(c_row, integer(r)), column
                    return cgutils.alloca_once_value(builder, lines.load(C_, *place) if finish == "chain" else lines.zero)

                sums = [[begun(r, column) for column in columns] for r in range(rows)]
                with cgutils.for_range(builder, integer(0) if spreads else num_extra) as loop:
                    for r in range(rows):
                        member = lines.place(extra_, e, builder.mul(e_row, integer(r)), loop.index)
                        row = builder.mul(builder.load(member), b_step)
                        for v, total in enumerate(sums[r]):
                            builder.store(builder.fadd(builder.load(total), lines.load(B_, b, row, columns[v])), total)
                with cgutils.for_range(builder, steps) as loop:
                    row = builder.mul(loop.index, b_step)
                    read = [lines.load(B_, b, row, column) for column in columns]
                    for r in range(rows):
                        factor = lines.repeated(A_, a, builder.mul(a_row, integer(r)), builder.mul(loop.index, a_step))
                        for v, total in enumerate(sums[r]):
                            lines.add_product(total, factor, read[v], rounds)
                totals = [[builder.load(total) for total in row] for row in sums]
                with cgutils.for_range(builder, num_extra if spreads else integer(1)) as loop:
                    first = builder.load(lines.place(extra_, e, loop.index)) if spreads else integer(0)
                    for r, v in product(range(rows), range(count)):
                        place = c, builder.mul(c_row, builder.add(first, integer(r))), columns[v]
                        total = totals[r][v]
                        match finish:  # a comparison with NaN is false, so NaN stays
                            case "set" | "chain":
                                pass
                            case "rectify":
                                total = builder.select(builder.fcmp_ordered("<", total, lines.zero), lines.zero, total)
                            case "mask":
                                asleep = builder.fcmp_ordered("<=", lines.load(mask_, *place), lines.zero)
                                total = builder.select(asleep, lines.zero, total)
                            case _:
                                total = builder.fadd(lines.load(C_, *place), total)
                        lines.store(total, C_, *place)

            lines.choose(vectors, emit)
            return context.get_dummy_value()

        return types.void(*arguments), lower

    return multiply


def _reduced(greatest):
    """`sum_j A[a + j] B[b + j]` over so many vectors, or the greatest A[a + j], whose lanes are then put together in halves."""

    @emitted
    def reduce(typing, A, a, B, b, steps):
        ints = types.intp

        def lower(context, builder, signature, values):
            A_, a, B_, b, steps = values
            lines = Vectors(context, builder, A)
            A_, B_ = lines.data(A, A_), lines.data(B, B_)
            total = cgutils.alloca_once_value(builder, lines.load(A_, a) if greatest else lines.zero)

            def joined(x, y):  # a NaN is lost here, and found again when the greatest is subtracted from it
                return builder.select(builder.fcmp_ordered(">", x, y), x, y) if greatest else builder.fadd(x, y)

            with cgutils.for_range(builder, steps) as loop:
                j = builder.mul(loop.index, steps.type(lines.lanes))
                if greatest:
                    builder.store(joined(lines.load(A_, a, j), builder.load(total)), total)
                else:
                    lines.add_product(total, lines.load(A_, a, j), lines.load(B_, b, j))
            total, half = builder.load(total), lines.lanes
            while half > 1:
                half //= 2
                total = joined(*(lines.shuffled(total, total, list(range(n, n + half))) for n in (0, half)))
            return builder.extract_element(total, ir.IntType(32)(0))

        return A.dtype(A, ints, B, ints, ints), lower

    return reduce


def _dots(rows):
    """`C[c + r] += <A_r, B_r>` for so many rows r, which begin at `a + r a_row` and `b + r b_row` and have so many columns.

    Each sum has the order that LLVM gives to a plain loop, which these sums were before, so that trials keep their bits: four
    vectors side by side while there are columns for them, or two where four rows would leave no registers, put together in
    pairs, then vectors of half the length, the first of whose lanes goes on from the sum so far.
    """
    side = 4 if rows == 1 or VECTOR_BYTES == 64 else 2

    @emitted
    def add(typing, C, c, A, a, a_row, B, b, b_row, columns):
        ints = types.intp

        def lower(context, builder, signature, values):
            C_, c, A_, a, a_row, B_, b, b_row, columns = values
            lines, halves, integer = Vectors(context, builder, A), Vectors(context, builder, A, parts=2), columns.type
            C_, A_, B_ = map(lines.data, (C, A, B), (C_, A_, B_))
            starts = [
                (builder.add(a, builder.mul(a_row, integer(r))), builder.add(b, builder.mul(b_row, integer(r))))
                for r in range(rows)
            ]

            def add_products(of, totals, place):
                for (a_r, b_r), own in zip(starts, totals, strict=True):
                    for v, total in enumerate(own):
                        at = builder.add(place, integer(v * of.lanes))
                        of.add_product(total, of.load(A_, a_r, at), of.load(B_, b_r, at))

            found = cgutils.alloca_once_value(builder, ir.Constant(ir.VectorType(lines.number, rows), [0.0] * rows))
            block = integer(side * lines.lanes)
            main = builder.mul(builder.sdiv(columns, block), block)
            with builder.if_then(builder.icmp_signed(">", main, integer(0))):
                totals = [[cgutils.alloca_once(builder, lines.type) for _ in range(side)] for _ in range(rows)]
                for total in (total for own in totals for total in own):
                    builder.store(lines.zero, total)
                with cgutils.for_range_slice(builder, integer(0), main, block) as (place, _):
                    add_products(lines, totals, place)
                parts = [[builder.load(total) for total in own] for own in totals]
                while len(parts[0]) > 1:
                    parts = [[builder.fadd(x, y) for x, y in zip(own[::2], own[1::2], strict=True)] for own in parts]
                builder.store(lines.sums([own[0] for own in parts]), found)
            with builder.if_then(builder.icmp_signed("<", main, columns)):
                so_far, of, both = builder.load(found), lines if rows > 1 else halves, list(range(lines.lanes))
                totals = [cgutils.alloca_once(builder, of.type) for _ in starts[::2]]
                for n, total in enumerate(totals):  # a vector has the halves of two rows
                    value = of.zero
                    for r in range(2 * n, min(2 * n + 2, rows)):
                        first = builder.extract_element(so_far, ir.IntType(32)(r))
                        value = builder.insert_element(value, first, ir.IntType(32)((r - 2 * n) * halves.lanes))
                    builder.store(value, total)
                with cgutils.for_range_slice(builder, main, columns, integer(halves.lanes)) as (place, _):
                    for n, total in enumerate(totals):
                        read = [
                            (halves.load(A_, a_r, place), halves.load(B_, b_r, place)) for a_r, b_r in starts[2 * n : 2 * n + 2]
                        ]
                        factors = (
                            [lines.shuffled(own[0], own[1], both) for own in zip(*read, strict=True)] if rows > 1 else read[0]
                        )
                        of.add_product(total, *factors)
                builder.store(of.sums([builder.load(total) for total in totals], lanes=halves.lanes), found)
            target = builder.bitcast(lines.place(C_, c), found.type)
            value = builder.fadd(builder.load(target, align=lines.size), builder.load(found))
            builder.store(value, target, align=lines.size)
            return context.get_dummy_value()

        return types.void(C, ints, A, ints, ints, B, ints, ints, ints), lower

    return add


_add_dots_4, _add_dots_1 = _dots(4), _dots(1)


@inlined
def add_dots(C, c, A, a, a_row, rows, B, b, b_row, columns):
    """`C[c + r] += <A_r, B_r>` for so many rows, see `_dots`."""
    whole = rows // 4 * 4 if b_row == 0 or VECTOR_BYTES == 64 else 0
    for r in range(0, whole, 4):
        _add_dots_4(C, c + r, A, a + r * a_row, a_row, B, b + r * b_row, b_row, columns)
    for r in range(whole, rows):
        _add_dots_1(C, c + r, A, a + r * a_row, a_row, B, b + r * b_row, b_row, columns)


@emitted
def transpose(typing, A, a, a_row, B, b, b_row):
    """The square block of A at a, whose side is a vector, turned over into that of B at b."""
    ints = types.intp

    def lower(context, builder, signature, values):
        A_, a, a_row, B_, b, b_row = values
        lines = Vectors(context, builder, A)
        A_, B_, side = lines.data(A, A_), lines.data(B, B_), lines.lanes
        rows = [lines.load(A_, a, builder.mul(a_row, a_row.type(n))) for n in range(side)]
        half = side // 2
        while half:  # every square block of twice a half swaps the two quarters off its diagonal
            above = [side + j - half if j & half else j for j in range(side)]
            below = [side + j if j & half else j + half for j in range(side)]
            for n in (n for n in range(side) if not n & half):
                pair = rows[n], rows[n + half]
                rows[n], rows[n + half] = lines.shuffled(*pair, above), lines.shuffled(*pair, below)
            half //= 2
        for n in range(side):
            lines.store(rows[n], B_, b, builder.mul(b_row, b_row.type(n)))
        return context.get_dummy_value()

    return types.void(A, ints, ints, B, ints, ints), lower


MOST_TURNED = 8
"""Columns that `turn_columns` knows."""


@emitted
def turn_columns(typing, A, a, columns, B, b, b_row):
    """As many rows of A as a vector has lanes, of 2 to `MOST_TURNED` columns and one after another, into the columns of B."""
    ints = types.intp

    def lower(context, builder, signature, values):
        A_, a, columns, B_, b, b_row = values
        lines = Vectors(context, builder, A)
        A_, B_, lanes = lines.data(A, A_), lines.data(B, B_), lines.lanes
        end = builder.append_basic_block("end")
        choice = builder.switch(columns, end)
        for count in range(2, MOST_TURNED + 1):
            case = builder.append_basic_block(f"columns{count}")
            choice.add_case(columns.type(count), case)
            builder.position_at_end(case)
            read = [lines.load(A_, a, columns.type(n * lanes)) for n in range(count)]
            for e in range(count):
                column, places = read[0], [divmod(e + count * r, lanes) for r in range(lanes)]
                for n, part in enumerate(read):
                    column = lines.shuffled(column, part, [lanes + at if n == own else r for r, (own, at) in enumerate(places)])
                lines.store(column, B_, b, builder.mul(b_row, b_row.type(e)))
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(A, ints, ints, B, ints, ints), lower


dot, greatest_of = _reduced(greatest=False), _reduced(greatest=True)
rectified_4, rectified_1 = _product(4, "rectify"), _product(1, "rectify")
masked_4, masked_1 = _product(4, "mask"), _product(1, "mask")
added_4, added_1 = _product(4, "add"), _product(1, "add")
chained_4, chained_1 = _product(4, "chain"), _product(1, "chain")
spread = _product(1, "spread")
_set_4, _set_1 = _product(4, "set"), _product(1, "set")
_rounded_1 = _product(1, "set", rounds=True)


@jitted
def multiply_rows(C, c, c_row, A, a, a_row, a_step, rows, B, b, steps, columns, extra):
    """`C = A B` for A of rows x steps, whose strides are given, and B of steps x columns, whole vectors."""
    lanes = VECTOR_BYTES // C.itemsize
    for p in range(0, columns, PANEL * lanes):
        v = min(PANEL * lanes, columns - p) // lanes
        whole = rows // 4 * 4
        for r in range(0, whole, 4):
            _set_4(C, c + r * c_row + p, c_row, A, a + r * a_row, a_row, a_step, B, b + p, columns, steps, extra, 0, 0, 0, C, v)
        for r in range(whole, rows):
            _set_1(C, c + r * c_row + p, 0, A, a + r * a_row, 0, a_step, B, b + p, columns, steps, extra, 0, 0, 0, C, v)


@exact
def multiply_rounded(C, c, c_row, A, a, a_row, a_step, rows, B, b, b_step, steps, columns, extra):
    """`multiply_rows` of which each product is rounded before it is added; B has a stride, too."""
    lanes = VECTOR_BYTES // C.itemsize
    for p in range(0, columns, PANEL * lanes):
        v = min(PANEL * lanes, columns - p) // lanes
        for r in range(rows):
            _rounded_1(C, c + r * c_row + p, 0, A, a + r * a_row, 0, a_step, B, b + p, b_step, steps, extra, 0, 0, 0, C, v)


@emitted
def add_rows(typing, C, c, A, a, B, b, b_row, steps, columns):
    """`C += sum_k A[k] B[k]` for rows B[k] of so many columns, whole vectors: little code, for few rows."""
    ints = types.intp

    def lower(context, builder, signature, values):
        C_, c, A_, a, B_, b, b_row, steps, columns = values
        lines = Vectors(context, builder, C)
        C_, A_, B_ = lines.data(C, C_), lines.data(A, A_), lines.data(B, B_)
        total = cgutils.alloca_once(builder, lines.type)
        with cgutils.for_range_slice(builder, columns.type(0), columns, columns.type(lines.lanes)) as (p, _):
            builder.store(lines.load(C_, c, p), total)
            with cgutils.for_range(builder, steps) as loop:
                row = builder.mul(loop.index, b_row)
                lines.add_product(total, lines.repeated(A_, a, loop.index), lines.load(B_, b, row, p))
            lines.store(builder.load(total), C_, c, p)
        return context.get_dummy_value()

    return types.void(C, ints, A, ints, B, ints, ints, ints, ints), lower


def _each(finish):
    """`C = finish(C, B, factor)` of so many columns, whole vectors: `set`, B times the factor; `scale`, C times that; `add`, C
    plus that; `slope`, `B (C - factor)`. A loop over two arrays in Numba would ask at each start whether they overlap."""

    @emitted
    def run(typing, C, c, B, b, factor, columns):
        ints = types.intp

        def lower(context, builder, signature, values):
            C_, c, B_, b, factor, columns = values
            lines = Vectors(context, builder, C)
            C_, B_ = lines.data(C, C_), lines.data(B, B_)
            one = builder.insert_element(ir.Constant(lines.type, ir.Undefined), factor, ir.IntType(32)(0))
            factors = lines.shuffled(one, one, [0] * lines.lanes)
            with cgutils.for_range_slice(builder, columns.type(0), columns, columns.type(lines.lanes)) as (p, _):
                read = lines.load(B_, b, p)
                if finish == "slope":
                    value = builder.fmul(read, builder.fsub(lines.load(C_, c, p), factors))
                else:
                    value = builder.fmul(read, factors)
                    value = builder.fmul(lines.load(C_, c, p), value) if finish == "scale" else value
                    value = builder.fadd(lines.load(C_, c, p), value) if finish == "add" else value
                lines.store(value, C_, c, p)
            return context.get_dummy_value()

        return types.void(C, ints, B, ints, C.dtype, ints), lower

    return run


set_each, scale_each, slope_each, add_each = _each("set"), _each("scale"), _each("slope"), _each("add")


@jitted
def room_of(like, value, numbers):
    """So many equal numbers from the start of a cache line: a vector that lies on two lines takes twice as long."""
    room = np.empty(numbers + 64, like.dtype)
    first = (-room.ctypes.data) % 64 // like.itemsize
    room = room[first : first + numbers]
    room[:] = value
    return room


@emitted
def lent(typing, arrays):
    """A tuple of arrays as a tuple of the same arrays that count no uses, for as long as others hold them: every loop that an
    array is passed to would enter and leave it by an atomic instruction."""

    def lower(context, builder, signature, values):
        uncounted = []
        for kind, value in zip(arrays, cgutils.unpack_tuple(builder, values[0], len(arrays)), strict=True):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
            uncounted.append(array._getvalue())
        return context.make_tuple(builder, arrays, uncounted)

    return arrays(arrays), lower


@emitted
def array_at(typing, address, like, numbers):
    """So many numbers of like's kind at an address, for as long as others hold them, as an array that counts no uses: a loop
    that is passed a tuple of arrays is compiled anew for each length."""
    kind = types.Array(like.dtype, 1, "C")

    def lower(context, builder, signature, values):
        array, size = context.make_array(kind)(context, builder), context.get_constant(types.intp, kind.dtype.bitwidth // 8)
        data = builder.inttoptr(values[0], array.data.type)
        populate_array(array, data=data, shape=[values[2]], strides=[size], itemsize=size, meminfo=None)
        return array._getvalue()

    return kind(types.intp, like, types.intp), lower


@emitted
def held_so_far(typing, arrays):
    """Nothing: it uses the arrays, which were lent until here."""
    return types.void(arrays), lambda context, builder, signature, values: context.get_dummy_value()


@inlined
def line_of(numbers, itemsize):
    """So many numbers, filled up to whole cache lines."""
    return -(-numbers * itemsize // 64) * (64 // itemsize)
