"""The coefficients of dual queries: conjugate gradients, a block of rows side by side."""

import numpy as np

from stsq_core.kernels.jit import inlined, jitted
from stsq_core.kernels.vectors import BLOCK, VECTOR_BYTES, dot, line_of, room_of


@jitted
def dual(codes, y, tolerance, out):
    """Coefficients c of the minimum-norm least-squares query into out of shape (k, rows, q); see `Kernels.dual`.

    Conjugate gradients take the rows of a block side by side: each has a chain of divisions to wait for.
    """
    (k, rows, q), (_, tokens, D) = y.shape, codes.shape
    width, lanes, double = line_of(D, 8), VECTOR_BYTES // 8, np.empty(0)
    book, gram = room_of(double, 0, tokens * width), np.empty((q * q, BLOCK))
    c, residual, direction, image = np.empty((q, BLOCK)), np.empty((q, BLOCK)), np.empty((q, BLOCK)), np.empty((q, BLOCK))
    slope, enough, total, ratio = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for trial in range(k):
        for t in range(tokens):
            for e in range(D):
                book[t * width + e] = codes[trial, t, e]
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            for n in range(count):
                for i in range(q):
                    for j in range(i + 1):
                        a, b = y[trial, first + n, i], y[trial, first + n, j]
                        gram[i * q + j, n] = gram[j * q + i, n] = dot(book, a * width, book, b * width, width // lanes)
            c[:], residual[:], direction[:] = 0, 1, 1
            _form(gram, residual, q, count, slope)
            for n in range(count):
                enough[n] = tolerance * tolerance * slope[n]
            for _ in range(q):
                _image(gram, direction, q, count, image)
                total[:] = 0
                for i in range(q):
                    for n in range(count):
                        total[n] += image[i, n] * image[i, n]
                for n in range(count):  # a row that is done takes steps of zero
                    going = slope[n] > enough[n] and total[n] > 0
                    ratio[n] = slope[n] / total[n] if going else 0.0
                for i in range(q):
                    for n in range(count):
                        c[i, n] += ratio[n] * direction[i, n]
                        residual[i, n] -= ratio[n] * image[i, n]
                _form(gram, residual, q, count, total)
                for n in range(count):
                    going = ratio[n] > 0
                    ratio[n] = total[n] / slope[n] if going else 0.0
                    slope[n] = total[n] if going else 0.0
                for i in range(q):
                    for n in range(count):
                        direction[i, n] = residual[i, n] + ratio[n] * direction[i, n]
            for n in range(count):
                for i in range(q):
                    out[trial, first + n, i] = c[i, n]


@inlined
def _image(gram, x, q, count, out):
    """`gram x` of each row."""
    for i in range(q):
        for n in range(count):
            out[i, n] = gram[i * q, n] * x[0, n]
        for j in range(1, q):
            for n in range(count):
                out[i, n] += gram[i * q + j, n] * x[j, n]


@inlined
def _form(gram, x, q, count, out):
    """`x^T gram x` of each row."""
    out[:] = 0
    for i in range(q):
        for j in range(q):
            for n in range(count):
                out[n] += x[i, n] * gram[i * q + j, n] * x[j, n]
