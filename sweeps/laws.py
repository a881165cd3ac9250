"""Scaling laws of width thresholds over cells: `m = d + b q ln T` for attention, `m = c (T d)^gamma` for fully connected nets.

Both are least squares on log residuals, so that every cell counts by its relative error. Intervals come from drawing cells
with replacement and, within each drawn cell, a replicate of its threshold: seeds *and* cells are resampled. Only thresholds
that were found enter a fit; the censored ones are counted, because leaving them out can bend a law. With d the same in all
cells, `d` in the first law is the definition of m and not a finding: b alone is measured.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from stsq_core.task import Stsq
from stsq_core.trial import TrialConfig
from sweeps.intervals import interval_of
from sweeps.plan import describe
from sweeps.thresholds import WidthThreshold

NUM_REPLICATES = 2000
Fit = Callable[[np.ndarray, np.ndarray, np.ndarray], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Estimate:
    """A fitted number with its interval; nan ends where there are too few cells for one."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LawPoint:
    """One cell under a law: `relative_residual` is m* over the law's value, less 1."""

    cell_id: str
    label: str
    task: Stsq
    m_star: float
    predicted: float
    relative_residual: float


@dataclass(frozen=True)
class ScalingLaw:
    """A law fitted to the thresholds of one family of cells, which differ in T, q and d only."""

    name: Literal["attention", "fcn"]
    formula: str
    family: str
    parameters: Mapping[str, Estimate]
    level: float
    points: tuple[LawPoint, ...]
    num_censored: int
    note: str

    @property
    def num_cells(self) -> int:
        """Cells that the fit rests on."""
        return len(self.points)

    @property
    def largest_residual(self) -> float:
        """The largest relative residual in absolute value."""
        return max(abs(point.relative_residual) for point in self.points)

    def predict(self, *, T: float, d: float, q: float) -> float:
        """The law's width at a task."""
        return _value(self.name, {name: estimate.value for name, estimate in self.parameters.items()}, T=T, d=d, q=q)


@dataclass(frozen=True)
class LineRatio:
    """A measured FCN threshold over the exact bound: `ratio = m* / fcn_width_bound`, `low` and `high` likewise."""

    cell_id: str
    label: str
    m_star: float
    M: int
    bound: float
    ratio: float
    low: float | None
    high: float | None


def fit_attention_law(thresholds: Iterable[WidthThreshold], *, kind: str = "transformer") -> ScalingLaw | None:
    """Fit `m = d + b q ln T` to the found thresholds of one architecture; None where no threshold was found."""
    return _fit("attention", "m = d + b q ln T", thresholds, kind, _fit_attention, least_cells=1)


def fit_fcn_law(thresholds: Iterable[WidthThreshold], *, kind: str = "fcn") -> ScalingLaw | None:
    """Fit `m = c (T d)^gamma` to the found thresholds of one architecture; None with fewer than two different values of T d."""
    return _fit("fcn", "m = c (T d)^gamma", thresholds, kind, _fit_power, least_cells=2)


def fit_laws(thresholds: Iterable[WidthThreshold]) -> tuple[ScalingLaw, ...]:
    """The law of each family of cells: attention for transformers, the power law for fully connected nets.

    A family is all cells that agree in everything but T, q and d; families with too few thresholds have no law.
    """
    families: dict[str, list[WidthThreshold]] = {}
    for threshold in thresholds:
        families.setdefault(_family_key(threshold.config_sample), []).append(threshold)
    laws = [(fit_attention_law if members[0].kind == "transformer" else fit_fcn_law)(members) for members in families.values()]
    return tuple(law for law in laws if law is not None)


def fcn_line(thresholds: Iterable[WidthThreshold]) -> tuple[LineRatio, ...]:
    """Each found FCN threshold against the exact bound on the width at its target loss."""
    from stsq_core import theory

    ratios = []
    for threshold in thresholds:
        if threshold.kind == "fcn" and threshold.m_star is not None and threshold.M is not None:
            task = threshold.config_sample.task
            bound = theory.fcn_width_bound(threshold.target_loss, T=task.T, d=task.d, q=task.q)
            low, high = (None if end is None else end / bound for end in (threshold.low, threshold.high))
            ratio = threshold.m_star / bound
            ratios.append(LineRatio(threshold.cell_id, threshold.label, threshold.m_star, threshold.M, bound, ratio, low, high))
    return tuple(ratios)


def _fit(
    name: Literal["attention", "fcn"],
    formula: str,
    thresholds: Iterable[WidthThreshold],
    kind: str,
    fit: Fit,
    *,
    least_cells: int,
) -> ScalingLaw | None:
    cells = [threshold for threshold in thresholds if threshold.kind == kind]
    found = [threshold for threshold in cells if threshold.m_star is not None]
    censored = sum(threshold.status in ("above_range", "below_range") for threshold in cells)
    scales = {_scale(name, threshold.config_sample.task) for threshold in found}
    if len(scales) < least_cells:
        return None
    values = {key: float(value[0]) for key, value in fit(*_columns(name, found, np.arange(len(found))[None, :], None)).items()}
    parameters = _with_intervals(name, found, values, fit)
    return ScalingLaw(
        name=name,
        formula=formula,
        family=_family(found[0].config_sample),
        parameters=MappingProxyType(parameters),
        level=found[0].level,
        points=tuple(_point(name, values, threshold) for threshold in found),
        num_censored=censored,
        note="; ".join(_notes(found, censored, num_parameters=len(parameters))),
    )


def _with_intervals(name: str, found: Sequence[WidthThreshold], values: dict[str, float], fit: Fit) -> dict[str, Estimate]:
    if len(found) < 2:
        return {key: Estimate(value, math.nan, math.nan) for key, value in values.items()}
    stream = np.random.default_rng([int(threshold.cell_id, 16) for threshold in found])
    draws = stream.integers(len(found), size=(NUM_REPLICATES, len(found)))
    drawn = fit(*_columns(name, found, draws, stream))
    estimates = {}
    for key, value in values.items():
        usable = drawn[key][np.isfinite(drawn[key])]
        low, high = interval_of(usable, level=found[0].level, num=len(found))
        estimates[key] = Estimate(value, min(low, value), max(high, value))
    return estimates


def _columns(
    name: str, found: Sequence[WidthThreshold], draws: np.ndarray, stream: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log thresholds, scales (q ln T or T d) and d of drawn cells, each [replicate, cell]; with a stream, replicates of the
    thresholds.

    A replicate beyond a cell's range is set to the end of the range.
    """
    scales = np.array([_scale(name, threshold.config_sample.task) for threshold in found])
    offsets = np.array([float(threshold.config_sample.task.d) for threshold in found])
    if stream is None:
        return np.log([threshold.m_star or math.nan for threshold in found])[draws], scales[draws], offsets[draws]
    resampled = np.stack([_resampled(threshold, stream) for threshold in found])  # [cell, replicate]
    return resampled[draws, np.arange(len(draws))[:, None]], scales[draws], offsets[draws]


def _resampled(threshold: WidthThreshold, stream: np.random.Generator) -> np.ndarray:
    within = np.clip(threshold.replicates, math.log(threshold.widths[0]), math.log(threshold.widths[-1]))
    return stream.choice(within, size=NUM_REPLICATES)


def _fit_attention(log_m: np.ndarray, scales: np.ndarray, offsets: np.ndarray) -> dict[str, np.ndarray]:
    """The b with least squared log residual of `d + b s`, by Gauss-Newton in log b, which keeps b positive."""
    log_b = np.mean(np.log(np.maximum(np.exp(log_m) - offsets, 0.5) / scales), axis=1)
    for _ in range(50):
        slope = np.exp(log_b)[:, None] * scales
        predicted = offsets + slope
        share = slope / predicted  # d log(predicted) / d log b
        log_b = log_b + np.sum(share * (log_m - np.log(predicted)), axis=1) / np.sum(share**2, axis=1)
    return {"b": np.exp(log_b)}


def _fit_power(log_m: np.ndarray, scales: np.ndarray, offsets: np.ndarray) -> dict[str, np.ndarray]:
    """`log m = log c + gamma log s` by least squares; nan where all cells drawn have one scale."""
    x = np.log(scales)
    centred = x - x.mean(axis=1, keepdims=True)
    spread = np.sum(centred**2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        gamma = np.where(spread > 1e-12, np.sum(centred * log_m, axis=1) / spread, np.nan)
    return {"c": np.exp(log_m.mean(axis=1) - gamma * x.mean(axis=1)), "gamma": gamma}


def _scale(name: str, task: Stsq) -> float:
    return task.q * math.log(task.T) if name == "attention" else float(task.T * task.d)


def _value(name: str, values: Mapping[str, float], *, T: float, d: float, q: float) -> float:
    if name == "attention":
        return d + values["b"] * q * math.log(T)
    return float(values["c"] * (T * d) ** values["gamma"])


def _point(name: str, values: Mapping[str, float], threshold: WidthThreshold) -> LawPoint:
    task, m_star = threshold.config_sample.task, threshold.m_star or math.nan
    predicted = _value(name, values, T=task.T, d=task.d, q=task.q)
    return LawPoint(threshold.cell_id, threshold.label, task, m_star, predicted, m_star / predicted - 1)


def _notes(found: Sequence[WidthThreshold], censored: int, *, num_parameters: int) -> Iterable[str]:
    if censored:
        yield f"{censored} censored threshold{'s are' if censored > 1 else ' is'} left out"
    if len(found) < 2:
        yield "one cell gives no interval over cells"
    if len(found) <= num_parameters:
        yield "no more cells than parameters: the fit passes through them and tests nothing"
    if len({_family_key(threshold.config_sample) for threshold in found}) > 1:
        yield "the cells differ in more than T, q and d"
    if any(np.mean(np.isinf(threshold.replicates)) > 0.05 for threshold in found):
        yield "some thresholds lie near the end of their widths, so the interval is too narrow"


def _family_key(config: TrialConfig) -> str:
    """Equal for configs that differ in T, q, d, width, seed and rate only."""
    told = config.model_dump(mode="json", exclude={"seed": True, "task": {"T", "q", "d"}, "optimizer": {"lr"}})
    told["model"].pop("width", None)
    told["model"].get("positions", {}).pop("d_e", None)
    return repr(told)


def _family(config: TrialConfig) -> str:
    """The words of `describe` that do not speak of T, q and d."""
    return " ".join(word for word in describe(config).split() if word[:2] not in ("T=", "q=", "d="))
