"""Do several families of cells share a number? A law with one number, fitted to all families of an architecture at once.

A family is the cells of one regime. Families are compared at the T, q and d that all of them have: elsewhere a misfit of the
law would count as a difference between families. Models are nested: one number for all, one for each value of a field in which
families differ (a code, an optimizer), one for each combination. All have one scatter, and are compared by AICc as laws are.
The ratio of two families' numbers has its interval from a joint bootstrap: replicates of both, with one draw of the scatter.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sweeps.laws.cells import LawCells, joined_cells, law_cells, regime_fields
from sweeps.laws.comparison import LawComparison, Standing, standing_beside
from sweeps.laws.fit import Estimate, LawFit, aicc_of, fit_law, likelihoods_of, with_one_scatter
from sweeps.laws.formulas import ATTENTION, FCN_LINE, Law
from sweeps.laws.scaling_law import NUM_REPLICATES, ScalingLaw, draws_at, ends, spread_words
from sweeps.thresholds import WidthThreshold

MAX_MISFITS = 4
"""Families in which a misfit is named; of more, their number is."""

MAX_FIELDS = 3
"""Fields of which every combination is tried; of more, each alone and all together."""


@dataclass(frozen=True)
class FamilyField:
    """A field in which families differ: its value in each, and the other fields that differ between the same families."""

    name: str
    values: tuple[str, ...]
    together_with: tuple[str, ...]


@dataclass(frozen=True)
class SharedModel:
    """A number for each combination of the values of some fields; of no field, one number for all."""

    fields: tuple[str, ...]
    num_numbers: int
    log_likelihood: float
    aicc: float


@dataclass(frozen=True)
class NumberRatio:
    """The number at a field's value over that at another, over the pairs of families that differ in this field alone."""

    field: str
    value: str
    reference: str
    num_pairs: int
    ratio: Estimate


@dataclass(frozen=True)
class FamilyComparison:
    """The models of one architecture, the least AICc first, and the ratios between its families.

    `num_cells` are compared, `num_left_out` have a T, q and d that another family lacks; without two found thresholds of each
    family to compare there are no models. `misfits` says of each family in which the law misfits how it does. `target` is set
    where the sweep has several.
    """

    kind: str
    target: float | None
    formula: str
    letter: str
    level: float
    num_families: int
    num_cells: int
    num_left_out: int
    misfits: tuple[str, ...]
    fields: tuple[FamilyField, ...]
    models: tuple[SharedModel, ...]
    ratios: tuple[NumberRatio, ...]

    def delta(self, model: SharedModel) -> float:
        """By how much a model's AICc exceeds the least; nan where cells are too few."""
        return model.aicc - self.models[0].aicc if self._num_compared > 1 and math.isfinite(model.aicc) else math.nan

    def standing(self, model: SharedModel) -> Standing:
        """A model's place, as that of a law among laws; none is best where several are as good."""
        if model is self.models[0] and self._num_compared > 1:
            return "as good" if any(self.standing(other) == "as good" for other in self.models[1:]) else "best"
        worse = 2 * (self.models[0].log_likelihood - model.log_likelihood)
        return standing_beside(self.delta(model), worse, is_nested=set(self.models[0].fields) < set(model.fields))

    @property
    def _num_compared(self) -> int:
        return sum(math.isfinite(model.aicc) for model in self.models)

    def words(self, model: SharedModel) -> str:
        """A model in words: `one b for all`, `a b for each optimizer.kind`, `an s for each model.depth`."""
        article = "an" if self.letter == "s" else "a"
        fields = spread_words(model.fields)
        return f"{article} {self.letter} for each {fields}" if fields else f"one {self.letter} for all"

    @property
    def conclusion(self) -> str:
        """Whether the families share the number, in a few sentences; of several targets, at which."""
        return self._conclusion if self.target is None else f"At a target of {self.target:g}: {self._conclusion}"

    @property
    def _conclusion(self) -> str:
        if not self.models:
            told = (
                f"The {self.num_families} families have fewer than two (T, q, d) in common at which thresholds were found, so"
            )
            return " ".join([f"{told} {self.letter} of {self.formula} is not compared between them.", *self._misfits()])
        best, cells = self.models[0], f"{self.num_cells} cells in {self.num_families} families"
        places = {model.fields: self.standing(model) for model in self.models}
        alike, richer = (
            [self.words(model) for model in self.models[1:] if places[model.fields] == place]
            for place in ("as good", "richer than needed")
        )
        fit = "fits" if len(richer) == 1 else "fit"
        if self._num_compared < 2:
            told = f"Undecided: {cells} are too few to tell whether the families share {self.letter} of {self.formula}."
        elif alike:
            told = f"Undecided: in {self.formula}, {cells} do not tell {spread_words([self.words(best), *alike])} apart."
        elif not best.fields:
            told = f"The {self.num_families} families share {self.letter} of {self.formula}: one {self.letter} is enough"
            told += f"; {spread_words(richer)} {fit} as well, with more numbers." if richer else "."
        else:
            told = f"The {self.num_families} families do not share {self.letter} of {self.formula}: it differs by"
            told += f" {spread_words(best.fields)}."
        if places[()] in ("less likely", "ruled out") and self._num_compared > 1:
            one = next(model for model in self.models if not model.fields)
            told += f" One {self.letter} for all is {places[()]}: its AICc is {self.delta(one):.1f} larger."
        confounded = [
            f"{field.name} differs together with {spread_words(field.together_with)}."
            for field in self.fields
            if field.together_with
        ]
        left = f"{self.num_left_out} {'cell' if self.num_left_out == 1 else 'cells'}"
        left_out = [f"{left} at T, q and d that not all families have {'is' if self.num_left_out == 1 else 'are'} left out."]
        return " ".join([told, *self._misfits(), *(left_out if self.num_left_out else ()), *confounded])

    def _misfits(self) -> list[str]:
        more = len(self.misfits) - MAX_MISFITS
        told = [*self.misfits[:MAX_MISFITS], *([f"in {more} more"] if more > 0 else [])]
        return [f"{self.formula} misfits {spread_words(told)}."] if told else []

    def ratio_words(self, own: NumberRatio) -> str:
        """A ratio with its interval: `b at optimizer.kind = gd over b at adam: 1.20 (1.10 to 1.31)`."""
        pairs = f", over {own.num_pairs} pairs of families" if own.num_pairs > 1 else ""
        ratio = f"{own.ratio.value:.2f} ({own.ratio.low:.2f} to {own.ratio.high:.2f})"
        return f"{self.letter} at {own.field} = {own.value} over {self.letter} at {own.reference}: {ratio}{pairs}"


def compare_families(comparisons: Iterable[LawComparison]) -> tuple[FamilyComparison, ...]:
    """The comparison for each architecture with several families of two found cells or more, and a law of one number.

    Families of several targets rest on the same trials, and are compared target by target.
    """
    by_kind: dict[tuple[str, float], list[ScalingLaw]] = {}
    for comparison in comparisons:
        law = _law_of(comparison)
        fitted = comparison.law(law.name) if law else None
        if fitted is not None and fitted.num_cells > 1:
            by_kind.setdefault((comparison.kind, fitted.fit.cells.tasks.target_loss), []).append(fitted)
    return tuple(_compared(kind, laws) for (kind, _), laws in by_kind.items() if len(laws) > 1)


def _law_of(comparison: LawComparison) -> Law | None:
    """The law of one number: attention's, or the line of fully connected nets."""
    if comparison.expected is None:
        return None
    return ATTENTION if comparison.expected == ATTENTION.name else FCN_LINE


def _compared(kind: str, laws: Sequence[ScalingLaw]) -> FamilyComparison:
    law, everywhere = laws[0].fit.law, [own.fit.cells for own in laws]
    fields = _fields([regime_fields(own.thresholds[0].config_sample) for own in everywhere])
    cells, first = _at_shared_tasks(everywhere), everywhere[0].thresholds[0]
    models = sorted(_models(law, cells, fields), key=lambda model: (model.aicc, model.num_numbers)) if cells else []
    ratios = _ratios(with_one_scatter([fit_law(law, own) for own in cells]), fields) if cells else ()
    return FamilyComparison(
        kind=kind,
        target=first.target_loss if first.num_targets > 1 else None,
        formula=law.formula,
        letter=law.reported[0],
        level=laws[0].level,
        num_families=len(laws),
        num_cells=sum(map(len, cells)),
        num_left_out=sum(map(len, everywhere)) - sum(map(len, cells)),
        misfits=tuple(_misfits(laws, fields)),
        fields=fields,
        models=tuple(models),
        ratios=tuple(ratios),
    )


def _at_shared_tasks(families: Sequence[LawCells]) -> list[LawCells]:
    """The cells of each family at the T, q and d of all; none where a family has fewer than two found ones there."""
    shared = set.intersection(*({_letters(one) for one in own.thresholds} for own in families))
    kept = [law_cells(one for one in own.thresholds if _letters(one) in shared) for own in families]
    enough = [own for own in kept if own is not None and own.found.sum() > 1]
    return enough if len(enough) == len(families) else []


def _letters(threshold: WidthThreshold) -> tuple[int, int, int]:
    task = threshold.config_sample.task
    return task.T, task.q, task.d


def _misfits(laws: Sequence[ScalingLaw], fields: Sequence[FamilyField]) -> Iterable[str]:
    """Where the law misfits, and how: `at optimizer.kind = gd (residuals fall with T, p = 0.03)`."""
    for place, law in enumerate(laws):
        if law.test is not None and law.test.misfits:
            where = ", ".join(f"{field.name} = {field.values[place]}" for field in fields)
            yield f"at {where} ({law.test.words}, {law.test.p_words})"


def _fields(families: Sequence[Mapping[str, object]]) -> tuple[FamilyField, ...]:
    """The fields that differ; those that part the families alike are one, named by a kind where there is one."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for own in families for name in own):
        values = [str(own.get(name, "none")) for own in families]
        if len(set(values)) > 1:
            alike.setdefault(tuple(values.index(value) for value in values), []).append(name)
    fields = []
    for names in alike.values():
        # Of a kind that has fields of its own (beta1 of Adam) the kind alone is told.
        told = [name for name in names if all(name in family for family in families)] or names
        first, *others = sorted(told, key=lambda name: not name.endswith(".kind"))
        fields.append(FamilyField(first, tuple(str(family.get(first, "none")) for family in families), tuple(others)))
    return tuple(fields)


def _models(law: Law, cells: Sequence[LawCells], fields: Sequence[FamilyField]) -> Iterable[SharedModel]:
    """The models, each way to part the families once."""
    sizes = range(len(fields) + 1) if len(fields) <= MAX_FIELDS else (0, 1, len(fields))
    parted: dict[tuple[tuple[str, ...], ...], tuple[str, ...]] = {}
    seen = set()
    for own in (own for size in sizes for own in combinations(fields, size)):
        values = tuple(tuple(field.values[place] for field in own) for place in range(len(cells)))
        pattern = tuple(values.index(value) for value in values)
        if pattern not in seen:
            seen.add(pattern)
            parted[values] = tuple(field.name for field in own)
    for values, names in parted.items():
        groups = [
            joined_cells([one for one, own in zip(cells, values, strict=True) if own == value])
            for value in dict.fromkeys(values)
        ]
        likelihood = float(np.sum([likelihoods_of(law, group)[0] for group in groups], axis=0).max())
        aicc = aicc_of(
            likelihood,
            num_parameters=len(groups) + 1,
            num_cells=sum(map(len, groups)),
            num_found=sum(int(group.found.sum()) for group in groups),
        )
        yield SharedModel(names, len(groups), likelihood, aicc)


def _ratios(fits: Sequence[LawFit], fields: Sequence[FamilyField]) -> Iterable[NumberRatio]:
    """The ratio of each value of each field to its first."""
    shared = np.random.default_rng([int(one.cell_id, 16) for one in fits[0].cells.thresholds] + [3])
    scatters = fits[0].scatters.at(shared.random(NUM_REPLICATES))
    logs = np.log([fit.theta[0] for fit in fits])
    draws = np.log(np.stack([_replicates(fit, scatters) for fit in fits], axis=1))
    for field in fields:
        rest = [tuple(other.values[place] for other in fields if other is not field) for place in range(len(fits))]
        first, *others = dict.fromkeys(field.values)
        for value in others:
            pairs = [
                (place, other)
                for place in range(len(fits))
                for other in range(len(fits))
                if field.values[place] == value and field.values[other] == first and rest[place] == rest[other]
            ]
            if pairs:
                over, under = (list(side) for side in zip(*pairs, strict=True))
                ratio = float(np.exp(np.mean(logs[over] - logs[under])))
                low, high = ends(np.exp(np.mean(draws[:, over] - draws[:, under], axis=1)), level=fits[0].cells.level)
                yield NumberRatio(
                    field.name, value, first, len(pairs), Estimate(ratio, min(float(low), ratio), max(float(high), ratio))
                )


def _replicates(fit: LawFit, scatters: np.ndarray) -> np.ndarray:
    """A family's number in each replicate of a joint bootstrap."""
    stream = np.random.default_rng([int(one.cell_id, 16) for one in fit.cells.thresholds] + [4])
    numbers: np.ndarray = np.maximum(draws_at(fit, scatters, stream).theta[:, 0], 1e-9)
    return numbers
