"""exp of numbers that are not positive, in the loops of attention: of one number, and of a vector in LLVM's instructions.

The polynomial is that of the Cephes library (Moshier), good to about one unit in the last place of float32.
"""

import math

import numpy as np
from llvmlite import ir
from numba import float32, int32, types
from numba.extending import overload

from stsq_core.kernels.jit import inlined


@inlined
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


def exp_below_zero(x):
    """`exp` of a number that is not positive, in its own precision."""


@overload(exp_below_zero, jit_options={"error_model": "numpy", "forceinline": True})
def _exp_of(x):
    if x == types.float32:
        return lambda x: _exp_single(x)
    return lambda x: math.exp(x)


def vector_exp_below_zero(lines, x):
    """`exp_below_zero` of a vector of float32 that `lines` writes, bit for bit; 0 of minus infinity."""
    builder, bits = lines.builder, ir.VectorType(ir.IntType(32), lines.lanes)
    below = x

    def const(value):
        return ir.Constant(lines.type, [value] * lines.lanes)

    def whole(value):
        return ir.Constant(bits, [value] * lines.lanes)

    x = builder.select(builder.fcmp_ordered("<", x, const(-87.0)), const(-87.0), x)
    shifted = lines.fused(x, const(1.44269504), const(12582912.0))
    n = builder.fsub(shifted, const(12582912.0))
    r = lines.fused(n, const(2.12194440e-4), lines.fused(n, const(-0.693359375), x))
    p = const(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = lines.fused(p, r, const(factor))
    p = builder.fadd(lines.fused(builder.fmul(p, r), r, r), const(1.0))
    power = builder.shl(builder.add(builder.bitcast(shifted, bits), whole(127)), whole(23))
    e = builder.fmul(p, builder.bitcast(power, lines.type))
    return builder.select(builder.fcmp_ordered("==", below, const(-math.inf)), lines.zero, e)
