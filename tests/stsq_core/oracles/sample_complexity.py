"""How many training samples single out the hidden bits of a sparse Boolean function: no torch, float64.

A wrong s-subset survives a sample where its function has the label's value. Choosing any subset that survives all n samples
(empirical risk minimisation over the subsets) finds the right one at least with probability 1 - (expected number of wrong
survivors). Of the subsets that share j bits there are about T^(s-j), so the samples it takes grow as
`max_j (s - j) ln T / -ln agreement(j)`: `s log2 T` for parity and for balanced AND and OR.

Derived here for independent bits; checked by enumeration and on drawn samples in test_sample_complexity.py.
"""

import math

import numpy as np

from stsq_core.configs import SparseBoolean, UserError

MOST_LOG = 700.0
"""The logarithm of about the largest float."""


def agreement(task: SparseBoolean, overlap: int) -> float:
    """The probability that the function of an s-subset sharing `overlap` bits with the hidden one has the label's value.

    Raises:
        UserError: for inputs that are not independent, and overlaps outside 0..s.
    """
    if task.inputs != "iid":
        raise UserError(f"the agreement is derived for independent bits; got inputs={task.inputs}: use inputs: iid")
    if not 0 <= overlap <= task.q:
        raise UserError(f"two subsets of {task.q} bits share 0 to {task.q} of them; got overlap={overlap}")
    p, own = task.truth_probability, task.q - overlap
    truth = [_is_true(task, count) for count in range(task.q + 1)]
    shared, rest = _binomial(overlap, p), _binomial(own, p)
    is_true = np.array([rest @ np.array(truth[count : count + own + 1], dtype=float) for count in range(overlap + 1)])
    return float(shared @ (is_true**2 + (1 - is_true) ** 2))


def expected_survivors(task: SparseBoolean, num_samples: int) -> float:
    """The expected number of wrong s-subsets whose function has the label's value in all of `num_samples` samples."""
    s, others = task.q, task.T - task.q
    logs = [
        _log_choices(s, overlap) + _log_choices(others, s - overlap) + num_samples * math.log(agreement(task, overlap))
        for overlap in range(max(0, s - others), s)
    ]
    return math.fsum(math.exp(min(value, MOST_LOG)) for value in logs)


def sufficient_samples(task: SparseBoolean, success_rate: float) -> int:
    """The least n with which any choice among surviving subsets is right with at least this probability (union bound).

    Raises:
        UserError: for a rate outside (0, 1), and as `agreement`.
    """
    if not 0 < success_rate < 1:
        raise UserError(f"a success rate lies between 0 and 1; got {success_rate}")
    low, high = -1, 1
    while expected_survivors(task, high) > 1 - success_rate:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected_survivors(task, middle) > 1 - success_rate else (low, middle)
    return high


def _log_choices(of: int, num: int) -> float:
    """The logarithm of the number of subsets, which itself is no float where they are very many."""
    return math.lgamma(of + 1) - math.lgamma(num + 1) - math.lgamma(of - num + 1)


def _is_true(task: SparseBoolean, count: int) -> bool:
    """The function's value where `count` of its s bits are true."""
    match task.function:
        case "and":
            return count == task.q
        case "or":
            return count > 0
        case "majority":
            return 2 * count > task.q
        case "parity":
            return (task.q - count) % 2 == 0


def _binomial(n: int, p: float) -> np.ndarray:
    """The probabilities of 0..n successes in n draws, (n + 1,)."""
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
