"""Updates of parameters in place, one trial after another."""

import numpy as np

from stsq_core.kernels.jit import jitted


@jitted
def descend(gradient, parameter, rate):
    """See `Kernels.descend`; arrays are (k, numbers)."""
    for i in range(parameter.shape[0]):
        for j in range(parameter.shape[1]):
            parameter[i, j] -= rate[i] * gradient[i, j]


@jitted
def descend_with_moments(gradient, parameter, m, v, rate, root, beta1, beta2, eps, adam):
    """See `Kernels.descend`; arrays are (k, numbers)."""
    for i in range(parameter.shape[0]):
        move(gradient[i], parameter[i], m[i], v[i], rate[i], root[i], beta1[i], beta2[i], eps[i], adam[i])


@jitted
def move(gradient, parameter, m, v, rate, root, beta1, beta2, eps, adam):
    """`descend_with_moments` for the numbers of one trial."""
    one = parameter.dtype.type(1)
    if not adam:
        for j in range(len(parameter)):
            parameter[j] -= rate * gradient[j]
        return
    rest1, rest2, inverse = one - beta1, one - beta2, one / root
    for j in range(len(parameter)):
        g = gradient[j]
        first = beta1 * m[j] + rest1 * g
        second = beta2 * v[j] + rest2 * g * g
        m[j] = first
        v[j] = second
        parameter[j] -= rate * first / (np.sqrt(second) * inverse + eps)


@jitted
def move_all(i, weights, gradients, m, v, numbers_of_step):
    """Trial i's step, from gradients of one trial."""
    rate, root, beta1, beta2, eps, adam = numbers_of_step
    for n in range(len(weights)):
        size = len(gradients[n])
        own = slice(i * size, (i + 1) * size)
        move(gradients[n], weights[n][own], m[n][own], v[n][own], rate[i], root[i], beta1[i], beta2[i], eps[i], adam[i])
