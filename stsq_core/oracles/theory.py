"""The oracles: closed forms and exact recursions that measurements are held against, and what the paper's theorems assume.

No torch, float64 throughout. Derivations are in docs/theory.md; each is re-derived by brute force in
tests/stsq_core/oracles/test_theory.py.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from stsq_core.configs import GradientDescent, OneHot, Query, Stsq, Transformer, TrialConfig, UserError


def fcn_floor(width: float, *, T: int, d: int, q: int) -> float:
    """The least relative loss of any net that sees X through a linear map of rank `width`, the subset being known.

    ```
    1 - m q / (d T)                      0 <= m <= d
    (T d - m)(T - q) / (d T (T - 1))     d <= m <= T d
    0                                    m >= T d
    ```
    """
    _check_task(T=T, d=d, q=q)
    if width < 0:
        raise UserError(f"width must be at least 0; got {width}")
    if width >= T * d:
        return 0.0
    if width <= d:
        return 1 - width * q / (d * T)
    return max(0.0, (T * d - width) * (T - q) / (d * T * (T - 1)))


def fcn_width_bound(target_loss: float, *, T: int, d: int, q: int) -> float:
    """The first-layer width below which no net reaches a relative loss of `target_loss`, a real number: inverts `fcn_floor`."""
    _check_task(T=T, d=d, q=q)
    if not 0 <= target_loss <= 1:
        raise UserError(f"target_loss must be between 0 and 1; got {target_loss}")
    if target_loss > 1 - q / T:
        return (1 - target_loss) * d * T / q
    if q == T:
        return float(d)
    return T * d * (1 - target_loss * (T - 1) / (T - q))


def one_hot_gap_loss(gap: float, *, T: int, q: int) -> float:
    """The relative loss when member scores exceed the rest by `gap`, at the best value: `(T-q) / (q e^{2 gap} + T - q)`."""
    _check_task(T=T, d=1, q=q)
    return (T - q) / (q * math.exp(2 * gap) + T - q)


def one_hot_descent(*, T: int, q: int, d: int, lr: float, steps: int) -> np.ndarray:
    """The population loss along gradient descent from zero with one-hot codes, exact: a recursion in two variables.

    From zero `W = alpha (I - J/T)` and `V = v I` for ever; the slope of 1/L tends to `4 lr / (T - 1)` a step.

    Returns:
        The absolute losses `L = 1/2 E ||f - target||^2`, float64, shape (steps + 1,), from step 0.
    """
    _check_task(T=T, d=d, q=q)
    if T < 2:
        raise UserError(f"T must be at least 2; got T={T}")
    alpha = v = 0.0
    losses = np.empty(steps + 1)
    for step in range(steps + 1):
        total = q * math.exp(alpha) + T - q
        p_in, p_out = math.exp(alpha) / total, 1 / total
        miss = v * p_in - 1 / q
        losses[step] = d / 2 * (q * miss**2 + (T - q) * (v * p_out) ** 2)
        slope_in, slope_out = d * v * miss, d * v**2 * p_out
        grad_in = p_in * (slope_in - (q * p_in * slope_in + (T - q) * p_out * slope_out))
        alpha -= lr * q / (T - 1) * grad_in
        v -= lr * (q * p_in * miss + (T - q) * p_out * v * p_out)
    return losses


def step_size_bound(d: int) -> float:
    """The largest rate for which Theorem 1 of arXiv:2406.06893 promises convergence: `1 / (20 d^2)`.

    It is about gradient descent on the population loss, from zero and with one-hot codes. The factor of its loss is not
    stated; ours is 1/2. Larger rates often converge, and faster.
    """
    if d < 1:
        raise UserError(f"d must be at least 1; got d={d}")
    return 1 / (20 * d**2)


ALL, FIRST = "the theorems of arXiv:2406.06893", "Theorem 1 of arXiv:2406.06893"


class Gap(NamedTuple):
    """A condition that a trial does not meet, whose it is, and the trial's values.

    All theorems are about 2 <= q < T/4 and losses eps < d T / (100 (T - q) q). Theorem 1 is about gradient descent on the
    population loss at a rate of at most 1/(20 d^2), with one-hot codes, zero initial values and x_query = 0; other codes are
    those of Theorems 2 and 3.
    """

    of: str
    condition: str
    values: tuple[tuple[str, float | str], ...]


def relative_loss_bound(*, T: int, q: int) -> float:
    """The relative losses of which the theorems speak lie below `T / (100 (T - q))`.

    That is eps over d/q, for a loss `E ||f - target||^2` summed over coordinates. The factor of the paper's loss is not known:
    with 1/2 the bound is twice this.
    """
    return T / (100 * (T - q))


def theorem_gaps(config: TrialConfig, *, rate: float, target_loss: float | None) -> tuple[Gap, ...]:
    """What the theorems assume and a transformer's trial does not meet; nothing for other models, which they are not about.

    Args:
        rate: the largest learning rate of the trial's cell.
        target_loss: the relative loss to reach; None where none is asked for.
    """
    model, task, gaps = config.model, config.task, []
    if not isinstance(model, Transformer) or type(task) is not Stsq:
        return ()
    T, q, d = task.T, task.q, task.d
    if not 2 <= q < T / 4:
        gaps.append(Gap(ALL, "2 <= q < T/4", (("q", q), ("T", T))))
    if target_loss is not None and q < T and target_loss >= relative_loss_bound(T=T, q=q):
        condition = "a relative loss below T / (100 (T - q)), or twice that if their loss has a factor 1/2"
        gaps.append(Gap(ALL, condition, (("target", target_loss), ("bound", round(relative_loss_bound(T=T, q=q), 4)))))
    if isinstance(model.positions, OneHot):
        if not isinstance(config.optimizer, GradientDescent):
            gaps.append(Gap(FIRST, "gradient descent", (("optimizer", config.optimizer.kind),)))
        elif rate > step_size_bound(d):
            gaps.append(Gap(FIRST, "lr <= 1/(20 d^2); larger rates may converge or diverge", (("lr", rate), ("d", d))))
        if (config.training.objective, config.training.batch_size) != ("population", "all"):
            sampled = f"{config.training.objective} with {config.training.batch_size} subsets a step"
            gaps.append(Gap(FIRST, "the population loss", (("objective", sampled),)))
        if model.extensions:
            gaps.append(Gap(FIRST, "zero initial values and x_query = 0", (("model", ", ".join(model.extensions)),)))
    return tuple(gaps)


def theorem_lines(cells: Iterable[tuple[TrialConfig, float]], *, target_loss: float | None) -> list[str]:
    """A line for each condition that cells do not meet; a cell is one of its trials and its largest rate."""
    found = [theorem_gaps(config, rate=rate, target_loss=target_loss) for config, rate in cells]
    lines = []
    for of, condition in dict.fromkeys((gap.of, gap.condition) for gaps in found for gap in gaps):
        outside = [gap.values for gaps in found for gap in gaps if (gap.of, gap.condition) == (of, condition)]
        columns = (dict.fromkeys(column) for column in zip(*outside, strict=True))
        values = "; ".join(f"{next(iter(own))[0]} = {_listed([value for _, value in own])}" for own in columns)
        num = f"{len(outside)} cell{'s' if len(outside) > 1 else ''}"
        lines.append(f"outside the range of {of}, {condition}: {num} ({values})")
    return lines


def _listed(values: list[float | str]) -> str:
    numbers = sorted(value for value in values if not isinstance(value, str))
    if len(numbers) > 6:
        return f"{numbers[0]:g} to {numbers[-1]:g}"
    return ", ".join(f"{number:g}" for number in numbers) or " / ".join(map(str, values))


@cache
def attention_reference(
    *, T: int, q: int, d_e: int, query: Query, num_books: int = 64, num_subsets: int = 64, seed: int = 0
) -> float:
    """The relative loss of the plain construction `W = beta I` with the best beta and v, stochastic random-sign codes.

    A reference, not a bound: with fixed codes a trained W whitens the book and beats it.

    Args:
        query: how the subset is named, `sum` or `dual`.
        num_books: code books averaged over.
        num_subsets: subsets drawn for each book.

    Returns:
        The least over beta of the Monte Carlo mean; its relative error is a few times `1 / sqrt(num_books * num_subsets)`.
    """
    _check_task(T=T, d=1, q=q)
    rng = np.random.default_rng(seed)
    E = rng.choice([-1.0, 1.0], size=(num_books, T, d_e)) / math.sqrt(d_e)
    y = np.argsort(rng.random((num_books, num_subsets, T)), axis=-1)[..., :q]
    members = E[np.arange(num_books)[:, None, None], y]
    z = members.sum(2)
    if query == "dual":
        gram = members @ members.swapaxes(2, 3)
        coefficients = np.linalg.pinv(gram, rcond=1e-10, hermitian=True).sum(-1)
        z = (members * coefficients[..., None]).sum(2)
    return _least_over_beta((z @ E.swapaxes(1, 2)).reshape(-1, T), y.reshape(-1, q), q=q)


def _least_over_beta(scores: np.ndarray, members: np.ndarray, *, q: int) -> float:
    """Minimise the loss of `v softmax(beta s)` over beta and v: a grid in log beta, then golden sections around its best.

    `E q ||v p - 1_y/q||^2` is least at `v = E<p, 1_y> / (q E||p||^2)`, where it is `1 - (E<p, 1_y>)^2 / (q E||p||^2)`.
    """
    shifted = scores - scores.max(1, keepdims=True)

    def loss(log_beta: float) -> float:
        weights = np.exp(math.exp(log_beta) * shifted)
        weights /= weights.sum(1, keepdims=True)
        inside = np.take_along_axis(weights, members, 1).sum(1).mean()
        return float(1 - inside**2 / (q * np.einsum("nt,nt->n", weights, weights).mean()))

    grid = np.linspace(-2.0, 5.0, 15)
    best = int(np.argmin([loss(x) for x in grid]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(15):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return loss((low + high) / 2)


def _check_task(*, T: int, d: int, q: int) -> None:
    if not 1 <= q <= T or d < 1:
        raise UserError(f"a task needs 1 <= q <= T and d >= 1; got T={T}, q={q}, d={d}")
