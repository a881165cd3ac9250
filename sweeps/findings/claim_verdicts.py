"""Verdicts: what came of each claim of a sweep, as numbers with their seeds and intervals.

A number is a mean over seeds with Student's interval at the criterion's level; ratios are averaged as logarithms. A setting
`holds` when its whole interval keeps the rule, `does not hold` when none of it does, and else there is not enough data, as
with too few seeds (`with_seeds`). A claim holds when it holds in every setting, and not as soon as it does not in one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from stsq_core.configs import Transformer
from stsq_core.oracles import theory
from sweeps.findings.claim_results import ClaimSetting, Verdict, answer_of, is_within, leaf, sides, with_seeds
from sweeps.findings.observations import Observation, cells_of, differing, selected
from sweeps.findings.threshold_verdicts import threshold_verdict
from sweeps.schema import Bound, Claim, Compare, Exponent, Floor, LawSettings, Sharpness, Slope, ThresholdClaim
from sweeps.thresholds import WidthThreshold, attainable_level, interval_of, mean_interval

TrialClaim = Bound | Compare | Slope | Exponent | Floor | Sharpness

REPLICATES = 1_000
SMALL = 1e-12
THREE_ERRORS = 0.997
"""The level of an interval of 3 standard errors."""
LEAST_POINTS = 6
"""Fewer evaluations on the stretch give no exponent."""


def verdicts(
    claims: Sequence[Claim],
    observations: Sequence[Observation],
    *,
    level: float,
    thresholds: Sequence[WidthThreshold] = (),
    laws: LawSettings | None = None,
) -> tuple[Verdict, ...]:
    """What came of each claim: those about thresholds look at the thresholds, all others at the trials.

    `laws` say which cells are held out of the fits behind claims of growth.
    """
    return tuple(
        threshold_verdict(claim, thresholds, laws)
        if isinstance(claim, ThresholdClaim)
        else _verdict(claim, selected(observations, claim), level)
        for claim in claims
    )


def _verdict(claim: TrialClaim, observations: list[Observation], level: float) -> Verdict:
    match claim:
        case Bound():
            settings, rule = _bound(claim, observations, level), sides(claim.at_least, claim.at_most)
            quantity = f"{claim.metric} after training" + (" over that before" if claim.over_step0 else "")
        case Compare():
            settings, rule = _compare(claim, observations, level), "below 1"
            quantity = f"{' and '.join(claim.metrics)}: {leaf(claim.field)} = {claim.smaller} over {claim.than}"
        case Slope():
            settings = _per_seed(observations, _slope_ratio, (1 - claim.within, 1 + claim.within), level)
            quantity, rule = "slope of 1/L over that of the recursion", f"{1 - claim.within:g} to {1 + claim.within:g}"
        case Exponent():
            settings = _per_seed(observations, partial(_exponent, claim), _range(claim), level)
            quantity, rule = "p in L ~ (t - t_0)^-p (1/L is linear where p = 1)", sides(claim.at_least, claim.at_most)
        case Floor():
            settings, quantity = _floor(claim, observations), "mean loss over the exact floor (interval: 3 standard errors)"
            rule = f"above it (3 standard errors), within {claim.within:.0%} up to m = {claim.near_up_to}"
        case Sharpness():
            settings, rule = _sharpness(claim, observations, level), sides(claim.at_least, claim.at_most)
            quantity = f"width({claim.reaches:g}) / width({claim.begins:g})"
    rests_on_ranks = isinstance(claim, Sharpness)
    own_level = THREE_ERRORS if isinstance(claim, Floor) else level
    settings = [
        with_seeds(one, level=own_level, attainable=attainable_level(one.num_seeds, 0.5) if rests_on_ranks else 1.0)
        for one in settings
    ]
    return Verdict(claim.name, claim.says, quantity, rule, tuple(sorted(settings, key=_order)))


def _order(setting: ClaimSetting) -> list[tuple[bool, float, str]]:
    """Numbers by size, before words."""
    values = [value for _, value in setting.fields]
    return [(isinstance(v, str), float(v) if isinstance(v, int | float) else 0.0, str(v)) for v in values]


def _setting(
    fields: tuple[tuple[str, Any], ...], values: Sequence[float], rule: tuple[float, float], level: float
) -> ClaimSetting:
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2 or len(known) < len(values):
        mean = sum(known) / len(known) if known else None
        return ClaimSetting(fields, mean, None, None, len(known), "not enough data")
    mean, low, high = mean_interval(known, level=level)
    return ClaimSetting(fields, mean, low, high, len(known), answer_of(low, high, rule))


def _per_seed(
    observations: Sequence[Observation], number: Callable[[Observation], float], rule: tuple[float, float], level: float
) -> list[ClaimSetting]:
    names = differing(observations)
    return [_setting(_fields(cell[0], names), [number(one) for one in cell], rule, level) for cell in cells_of(observations)]


def _fields(observation: Observation, names: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, observation.fields.get(name)) for name in names)


def _bound(claim: Bound, observations: Sequence[Observation], level: float) -> list[ClaimSetting]:
    def number(one: Observation) -> float:
        value = one.metrics.get(claim.metric, math.nan)
        if not claim.over_step0:
            return value
        _, values = one.courses.get(claim.metric, (np.array([0]), np.array([math.nan])))
        return value / float(values[0]) if values[0] else math.nan

    return _per_seed(observations, number, _range(claim), level)


def _range(claim: Bound | Exponent | Sharpness) -> tuple[float, float]:
    return -math.inf if claim.at_least is None else claim.at_least, math.inf if claim.at_most is None else claim.at_most


def _compare(claim: Compare, observations: Sequence[Observation], level: float) -> list[ClaimSetting]:
    """Log ratios of two groups of seeds that are equal in all else, a pair of groups a setting and metric."""
    groups: dict[object, dict[object, list[Observation]]] = {}
    free = (claim.field, *claim.ignoring)
    for one in observations:
        rest = tuple((name, value) for name, value in one.cell if not is_within(name, free))
        groups.setdefault(rest, {}).setdefault(one.fields.get(claim.field), []).append(one)
    names = [name for name in differing(observations) if not is_within(name, free)]
    settings = []
    for pair in groups.values():
        small, large = pair.get(claim.smaller, []), pair.get(claim.than, [])
        if not small and not large:
            continue
        lacking = [value for value, own in ((claim.smaller, small), (claim.than, large)) if not own]
        note = f"no ended trial with {leaf(claim.field)} = {lacking[0]} is equal in all else" if lacking else ""
        for metric in claim.metrics:
            where = (("metric", metric),) if len(claim.metrics) > 1 else ()
            fields = (*where, *_fields((small or large)[0], names))
            ratio = _ratio(fields, _logs(small, metric), _logs(large, metric), level)
            settings.append(replace(ratio, note=note))
    return settings


def _logs(observations: Sequence[Observation], metric: str) -> list[float]:
    """Logarithms; nothing where a trial has no number, so that no comparison rests on the survivors alone."""
    if any(metric not in one.metrics for one in observations):
        return []
    return [math.log(max(one.metrics[metric], SMALL)) for one in observations]


def _ratio(fields: tuple[tuple[str, Any], ...], small: list[float], large: list[float], level: float) -> ClaimSetting:
    """The ratio of geometric means, with Welch's interval."""
    num = min(len(small), len(large))
    if num < 2:
        return ClaimSetting(fields, None, None, None, num, "not enough data")
    value, low, high = (math.exp(end) for end in mean_interval(small, large, level=level))
    return ClaimSetting(fields, value, low, high, num, answer_of(low, high, (0.0, 1.0)))


def _slope_ratio(one: Observation) -> float:
    """The slope of 1/L over the last half of training, over that of the exact recursion at the same steps."""
    steps, losses = one.courses.get("loss", (np.array([]), np.array([])))
    config = one.config
    later = steps >= config.training.steps / 2
    if later.sum() < 2:
        return math.nan
    task = config.task
    exact = theory.one_hot_descent(T=task.T, q=task.q, d=task.d, lr=config.optimizer.lr, steps=config.training.steps)
    relative = 2 * exact * task.q / task.d
    measured, expected = (np.polyfit(steps[later], 1 / y, 1)[0] for y in (losses[later], relative[steps[later].astype(int)]))
    return float(measured / expected)


def _exponent(claim: Exponent, one: Observation) -> float:
    """The p that fits `L ~ (t - t_0)^-p` best in log L, from the first loss of at most `below` to the first below the least."""
    steps, losses = one.courses.get("loss", (np.array([]), np.array([])))
    match one.config.model:
        case Transformer(positions=positions) if positions.kind != "one_hot":
            least = claim.above_reference * theory.attention_reference(
                T=one.config.task.T, q=one.config.task.q, d_e=positions.d_e, query=positions.query
            )
        case _:
            least = SMALL
    begun, ended = np.maximum.accumulate(losses <= claim.below), np.maximum.accumulate(losses < least)
    t, y = steps[begun & ~ended].astype(float), np.log(losses[begun & ~ended])
    if len(t) < LEAST_POINTS:
        return math.nan
    before = (t[-1] - t[0]) * np.geomspace(1e-3, 1e2, 200)  # how long before the first point t_0 lies
    designs = np.stack([np.ones((len(before), len(t))), np.log(t - t[0] + before[:, None])], axis=-1)
    fits = np.linalg.pinv(designs) @ y
    misfits = ((np.einsum("fnp,fp->fn", designs, fits) - y) ** 2).sum(axis=-1)
    return float(-fits[misfits.argmin(), 1])


def _floor(claim: Floor, observations: Sequence[Observation]) -> list[ClaimSetting]:
    names = differing(observations)
    settings = []
    for cell in cells_of(observations):
        task, width = cell[0].config.task, cell[0].config.width
        floor = theory.fcn_floor(width, T=task.T, d=task.d, q=task.q)
        if not floor:
            continue
        if any("loss" not in one.metrics for one in cell):
            settings.append(ClaimSetting(_fields(cell[0], names), None, None, None, len(cell), "not enough data"))
            continue
        losses = np.array([one.metrics["loss"] for one in cell])
        error = float(np.mean([one.metrics["loss_stderr"] ** 2 for one in cell]) ** 0.5 / len(cell) ** 0.5)
        mean, fields = float(losses.mean()), _fields(cell[0], names)
        above, near = mean + 3 * error >= floor, width > claim.near_up_to or mean - 3 * error <= floor * (1 + claim.within)
        ratios = (mean / floor, (mean - 3 * error) / floor, (mean + 3 * error) / floor)
        settings.append(ClaimSetting(fields, *ratios, len(cell), "holds" if above and near else "does not hold"))
    return settings


def _sharpness(claim: Sharpness, observations: Sequence[Observation], level: float) -> list[ClaimSetting]:
    """The ratio of two widths between which the median over seeds falls, with an interval from bootstrapping seeds."""
    groups: dict[object, list[Observation]] = {}
    for one in observations:
        groups.setdefault(tuple(item for item in one.cell if item[0] not in _WIDTHS), []).append(one)
    names = [name for name in differing(observations) if name not in _WIDTHS]
    return [_ratio_of_widths(claim, _fields(group[0], names), cells_of(group), level) for group in groups.values()]


_WIDTHS = ("m", "model.width", "model.positions.d_e")


def _ratio_of_widths(
    claim: Sharpness, fields: tuple[tuple[str, Any], ...], cells: list[list[Observation]], level: float
) -> ClaimSetting:
    """A loss that the widths tried do not reach leaves the ratio above what they span; a trial without a number counts as one
    that learned nothing. The interval is a bootstrap of the medians over seeds."""
    cells = sorted(cells, key=lambda cell: cell[0].config.width)
    widths, num = np.log([cell[0].config.width for cell in cells]), min(len(cell) for cell in cells)
    losses = np.log(np.maximum([[one.metrics.get("loss", 1.0) for one in cell[:num]] for cell in cells], SMALL))
    least, largest = _log_ratio(widths, losses, claim)
    if num < 2 or math.isnan(least):
        return ClaimSetting(fields, None, None, None, num, "not enough data")
    drawn = np.random.default_rng(0).integers(0, num, (REPLICATES, len(cells), num))
    replicates = np.array([_log_ratio(widths, np.take_along_axis(losses, places, 1), claim) for places in drawn])
    bounds = (
        np.where(np.isnan(column), unknown, column) for column, unknown in zip(replicates.T, (0.0, math.inf), strict=True)
    )
    low, high = (math.exp(interval_of(bound, level=level, num=num)[end]) for end, bound in enumerate(bounds))
    value = math.exp(least) if least == largest else None
    return ClaimSetting(fields, value, low, high if math.isfinite(high) else None, num, answer_of(low, high, _range(claim)))


def _log_ratio(log_widths: np.ndarray, log_losses: np.ndarray, claim: Sharpness) -> tuple[float, float]:
    """The log ratio as its least and its largest value: inf where the widths do not reach the second loss, nan where they do
    not cross the first."""
    medians = np.median(log_losses, axis=1)
    begins, reaches = (_crossing(log_widths, medians, math.log(target)) for target in (claim.begins, claim.reaches))
    if math.isnan(reaches) and not math.isnan(begins):
        return float(log_widths[-1]) - begins, math.inf
    return reaches - begins, reaches - begins


def _crossing(x: np.ndarray, y: np.ndarray, target: float) -> float:
    """The least x at which a broken line comes down to the target; nan where it does not within the range."""
    below = np.flatnonzero(y <= target)
    if not len(below) or below[0] == 0:
        return math.nan
    place = below[0]
    return float(x[place - 1] + (x[place] - x[place - 1]) * (y[place - 1] - target) / (y[place - 1] - y[place]))
