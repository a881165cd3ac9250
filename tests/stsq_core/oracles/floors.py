"""Floors of the tasks beside sparse token selection: the least relative loss that a model can have. Float64.

Derivations are in docs/attention.md; each is checked by brute force in test_floors.py.
"""

import math

import numpy as np

from stsq_core.configs import Moment, Query, SelectedMean, UserError
from stsq_core.tasks.selected_tokens import covariance, second_moment


def noise_floor(noise: float) -> float:
    """The share of a target's variance that is noise, `noise^2 / (1 + noise^2)`: no model on any data comes below."""
    return noise**2 / (1 + noise**2)


def linear_floor(task: SelectedMean, width: int) -> float:
    """The least relative loss of any predictor that is linear in what it sees of X: `width` linear functionals, y known.

    With C the tokens' covariance and `S = E_y a a^T`, `a_t = w_t 1[t in y] / q`, it is the sum of all but the `width` greatest
    eigenvalues of `C^{1/2} S C^{1/2} kron I_d` over their sum, and the noise's share is added. For Gaussian tokens the best
    predictor is linear, so it is the floor of every fully connected net; for others a net that is not linear may come below.
    """
    if width < 0:
        raise UserError(f"width must be at least 0; got {width}")
    values, vectors = np.linalg.eigh(covariance(task))
    root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    shares = np.repeat(np.sort(np.linalg.eigvalsh(root @ second_moment(task) @ root)), task.d)
    missed = float(max(0.0, shares[: max(0, len(shares) - width)].sum()) / shares.sum())
    noise = noise_floor(task.noise)
    return noise + (1 - noise) * missed


def moment_floor(task: Moment, width: int) -> float:
    """The least relative loss of any net that sees X through a linear map of rank `width`, y known: `1 - m/(T d)`, about zero.

    Raises:
        UserError: for the plain mean, whose floor is `theory.fcn_floor`, and about the mean, for which none is derived.
    """
    if task.order == 1 or task.about == "mean":
        raise UserError(
            f"there is a floor for orders 2 and 3 about zero; got order={task.order}, about={task.about}: "
            "use theory.fcn_floor for the mean; for central moments none is derived"
        )
    return max(0.0, 1 - width / (task.T * task.d))


def linear_attention_loss(*, T: int, d_e: int, query: Query, q: int = 1) -> float:
    """The least relative loss of linear attention (one layer, one head, `V = v I`) with random-sign codes that are redrawn.

    By symmetry the best W is `beta I`. With `query: sum` it is `(T - 1) / (T - 1 + d_e)`, whatever q. With `dual` it is
    `(T - q) c / (q + (T - q) c)`, `c = E ||e_y||^2 / d_e`, which is exact where every certificate is, as it is for q <= 2 up to
    members of equal or opposite codes; it is given for q = 1 and 2 (with two opposite codes the query is zero).
    """
    if not 1 <= q < T or d_e < 1:
        raise UserError(f"a task needs 1 <= q < T and d_e >= 1; got T={T}, q={q}, d_e={d_e}")
    if query == "sum":
        return (T - 1) / (T - 1 + d_e)
    if q > 2:
        raise UserError(f"the closed form for dual queries is for q = 1 and 2; got q={q}: use query: sum")
    if q == 1:
        return (T - 1) / (T - 1 + d_e)
    agree = np.arange(d_e + 1)
    chance = np.array([math.comb(d_e, int(n)) for n in agree]) / 2.0**d_e
    solvable = agree > 0  # codes that are opposite in every coordinate name nothing
    norms = np.where(solvable, 2 / (1 + (2 * agree - d_e) / d_e + (~solvable)), 0.0)
    inside = 2 * float(chance[solvable].sum())
    outside = (T - 2) * float(chance @ norms) / d_e
    return 1 - inside**2 / (2 * (inside + outside))
