"""Several steps of training in one call, each with its draws.

That a step learns is written `num > 0`: a constant is a type of its own to Numba, which would compile each loop a second time.
"""

import numpy as np

from stsq_core.kernels.attention_loops import learn_population, learn_tokens
from stsq_core.kernels.draws import keys, signs, subsets
from stsq_core.kernels.jit import jitted
from stsq_core.kernels.net_loops import connect
from stsq_core.kernels.queries import dual


@jitted
def population_steps(asked, owner, first, num, T, d, code_keys, scale, E, dual_query, tolerance, y, c, weights, squares,
                     gradients, m, v, begins, by_step, beta1, beta2, eps, adam):  # fmt: skip
    """`learn_population` with its draws, as `connect_steps`."""
    for step in range(first, first + num):
        _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c)
        numbers = (by_step[step - begins, 0], by_step[step - begins, 1], beta1, beta2, eps, adam)
        learn_population(E, y, c, T, d, weights, squares, gradients, num > 0, m, v, numbers)


@jitted
def token_steps(tokens, asked, owner, first, num, T, d, code_keys, scale, E, dual_query, tolerance, y, c, weights, squares,
                gradients, m, v, begins, by_step, beta1, beta2, eps, adam):  # fmt: skip
    """`learn_tokens` with its draws, as `connect_steps`."""
    token_keys = np.empty_like(tokens)
    for step in range(first, first + num):
        keys(tokens, step, token_keys)
        _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c)
        numbers = (by_step[step - begins, 0], by_step[step - begins, 1], beta1, beta2, eps, adam)
        learn_tokens(token_keys, owner, E, y, c, T, d, weights, squares, gradients, num > 0, m, v, numbers)


@jitted
def _draw_selection(asked, owner, step, T, code_keys, scale, E, dual_query, tolerance, y, c):
    """A step's subsets y (k, rows, q), random-sign codes E (k, padded, length), and the coefficients c of its queries.

    Args:
        code_keys: of each distinct seed what its keys of codes are made of; none where E stays as it is.
        scale: (k, length), of a sign.
    """
    _draw_subsets(asked, owner, step, T, y)
    if len(code_keys):
        own = np.empty_like(code_keys)
        keys(code_keys, step, own)
        drawn = np.empty((len(code_keys), T, E.shape[2]), E.dtype)
        signs(own, drawn)
        for i in range(len(E)):
            for t in range(T):
                for e in range(E.shape[2]):
                    E[i, t, e] = drawn[owner[i], t, e] * scale[i, e]
    if dual_query:
        dual(E, y, tolerance, c)


@jitted
def connect_steps(tokens, asked, owner, first, num, T, layout, y, addresses, squares, begins, by_step, beta1, beta2, eps, adam):
    """`connect` with its draws, `num` steps from `first` on; `squares` are those of the last.

    Args:
        tokens, asked: of each distinct seed what its keys of tokens and of subsets are made of (`keys`).
        y: (k, rows, q), written.
        by_step: (steps, 2, k), the first two of `Rates` at each step from `begins` on; the others follow.
    """
    token_keys = np.empty_like(tokens)
    for step in range(first, first + num):
        keys(tokens, step, token_keys)
        _draw_subsets(asked, owner, step, T, y)
        numbers = (by_step[step - begins, 0], by_step[step - begins, 1], beta1, beta2, eps, adam)
        connect(token_keys, owner, y, addresses, layout, num > 0, squares, num > 0, numbers)


@jitted
def _draw_subsets(asked, owner, step, T, y):
    """A step's subsets y (k, rows, q), of each distinct seed once."""
    own = np.empty_like(asked)
    keys(asked, step, own)
    distinct = np.empty((len(asked), y.shape[1], y.shape[2]), np.int64)
    subsets(own, T, distinct)
    for i in range(len(y)):
        for row in range(y.shape[1]):  # an array set as a whole would compile the words of an error, for two seconds
            for j in range(y.shape[2]):
                y[i, row, j] = distinct[owner[i], row, j]
