"""Which law a search decides for, and where it looks next: a function of the points that have ended, and of nothing else.

The cells of a regime are candidates. The first rounds go to cells that lie far apart in ln T, q and d, as many as the laws have
numbers and two more; then a round goes to those of the greatest discrimination between the laws (module `rivals`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from stsq_core.configs import UserError
from sweeps.cells import SearchedCell
from sweeps.laws.cells import LawCells, law_cells, regime_key, regime_summary, tasks_of
from sweeps.laws.fit import fit_law
from sweeps.laws.formulas import LAWS, Law, Tasks, are_same
from sweeps.laws.misfit import fit_test
from sweeps.laws.rivals import Candidates, Standoff
from sweeps.schema import DecideSettings, SweepSpec
from sweeps.thresholds import WidthThreshold

MAX_ODDS = 1e6
"""Larger odds are not told apart."""

DECIDED_POINTS = 150
"""Points of a family after which a law has been decided for on average (docs/search.md)."""

ENDS = {"": "", "points": "; undecided: the points are spent", "cells": "; undecided: every cell has all of its points"}
Reason = Literal["", "decided", "points", "cells"]


@dataclass(frozen=True)
class NextRound:
    """A cell to ask, by its place, and the log widths to ask it at; None where the laws do not say."""

    cell: int
    span: tuple[float, float] | None


@dataclass(frozen=True)
class Decision:
    """How far rival laws are told apart.

    `num_points` [cell] have ended in rounds of `batch`, and `is_open` [cell] says which cells may have more. `summary` names
    the regime, `cell_ids` its cells, and `cells` those of them that a law can be fitted to.
    """

    settings: DecideSettings
    laws: tuple[Law, ...]
    known: Candidates
    num_points: np.ndarray
    is_open: np.ndarray
    batch: int
    summary: str = ""
    cell_ids: tuple[str, ...] = ()
    cells: LawCells | None = None

    @cached_property
    def standoff(self) -> Standoff | None:
        """The rivals given the points; None where these do not determine every law yet."""
        return Standoff.of(self.laws, self.known)

    @property
    def total(self) -> int:
        """Points of all cells."""
        return int(self.num_points.sum())

    @property
    def reason(self) -> Reason:
        """Why the search has ended: a law leads by the odds, or points or cells are spent; empty where it goes on."""
        if self.odds is not None and self.odds >= self.settings.odds:
            return "decided"
        return "points" if not self._rounds_left else "" if self.is_open.any() else "cells"

    @property
    def _rounds_left(self) -> int:
        return max(0, self.settings.points - self.total) // self.batch

    @property
    def points_ahead(self) -> int:
        """How many more points the decision is expected to take: log odds grow about as the points do."""
        if self.reason:
            return 0
        expected = DECIDED_POINTS - self.total
        if self.odds is not None:
            expected = round(self.total * (math.log(self.settings.odds) / max(1.0, math.log(self.odds)) - 1))
        return min(max(expected, self.batch), self._rounds_left * self.batch)

    def next_rounds(self) -> list[NextRound]:
        """The cells of the next round; none where the search has ended."""
        if self.reason:
            return []
        if self.standoff is None:
            order = [place for place in spread_order(self.known.tasks) if self.is_open[place]]
            fewest = sorted(order, key=lambda place: int(self.num_points[place]))
            first = max(len(law.letters) for law in self.laws) + 2
            num = min(self.settings.cells if self.total else first, self._rounds_left)
            return [NextRound(place, None) for place in fewest[:num]]
        gains = np.where(self.is_open, self.standoff.discrimination(), -np.inf)
        num = min(self.settings.cells, self._rounds_left, int(self.is_open.sum()))
        best = np.argsort(-gains, kind="stable")[:num].tolist()
        return [NextRound(place, self.standoff.span(place)) for place in best]

    @property
    def leader(self) -> Law | None:
        """The most probable law; None before all can be compared."""
        return None if self.standoff is None else self.laws[int(np.argmax(self.standoff.probabilities))]

    @property
    def odds(self) -> float | None:
        """Of the most probable law against the next, at most `MAX_ODDS`; None before all can be compared."""
        return None if self.standoff is None else min(self.standoff.odds, MAX_ODDS)

    @property
    def probabilities(self) -> dict[str, float]:
        """Of each law by its name; nothing before all can be compared."""
        shares = [] if self.standoff is None else self.standoff.probabilities.tolist()
        return {law.name: share for law, share in zip(self.laws, shares, strict=False)}

    @property
    def asked(self) -> dict[str, int]:
        """The points of each cell that was asked, by its letters as in `T=8 q=1 d=4`, most first."""
        tasks = self.known.tasks
        rows = zip(tasks.T.tolist(), tasks.q.tolist(), tasks.d.tolist(), self.num_points.tolist(), strict=True)
        points = {f"T={T:g} q={q:g} d={d:g}": num for T, q, d, num in rows if num}
        return dict(sorted(points.items(), key=lambda one: -one[1]))

    @property
    def progress(self) -> str:
        """Who leads and by how much, as short as a progress line needs."""
        leads = f"{self.leader.formula} leads {odds_words(self.odds)}, " if self.leader is not None and self.odds else ""
        return f"{leads}{self.total} of at most {self.settings.points} points"

    @property
    def words(self) -> str:
        """Who leads, by how much, after how many points, and why it ended."""
        asked = f"{self.total} of at most {self.settings.points} points in {len(self.asked)} of {len(self.num_points)} cells"
        shares = sorted(self.probabilities.items(), key=lambda one: -one[1])
        formulas = {law.name: law.formula for law in self.laws}
        if not shares:
            rivals = ", ".join(formulas.values())
            return f"{self.summary}: too little is known to compare {rivals}; {asked}{ENDS[self.reason]}"
        (first, most), *others = shares
        against = [f"{odds_words(most / max(share, most / MAX_ODDS))} against {formulas[name]}" for name, share in others]
        leads = f"{formulas[first]} leads {', '.join(against)}"
        goal = f"{self.settings.odds:g} to 1"
        why = {"": f"; goes on until the odds are {goal}", "decided": f"; decided at {goal}"}
        return f"{self.summary}: {leads}; {asked}{why.get(self.reason) or ENDS[self.reason]}{self._misfit}"

    @property
    def _misfit(self) -> str:
        """That the leader of a search that has ended does not fit the thresholds: the best of rivals may be a poor law."""
        if not self.reason or self.leader is None or self.cells is None:
            return ""
        test = fit_test(fit_law(self.leader, self.cells))
        return f"; but it misfits: {test.words}" if test is not None and test.misfits else ""


def odds_words(odds: float) -> str:
    """Odds as `34 to 1`."""
    return f"{odds:.1f} to 1" if odds < 10 else f"{odds:.0f} to 1" if odds < MAX_ODDS else f"over {MAX_ODDS:,.0f} to 1"


def spread_order(tasks: Tasks) -> list[int]:
    """Cells, each as far as possible in ln T, q and d from those before."""
    places = np.stack([np.log(tasks.T), tasks.q, tasks.d], axis=1)
    places = (places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-9)
    order, nearest = [0], np.linalg.norm(places - places[0], axis=1)
    while len(order) < len(places):
        nearest[order] = -1.0
        order.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(places - places[order[-1]], axis=1))
    return order


def families_of(searched: Iterable[SearchedCell]) -> tuple[tuple[SearchedCell, ...], ...]:
    """The searched cells of each regime, in the order of their first."""
    regimes: dict[str, list[SearchedCell]] = {}
    for cell in searched:
        regimes.setdefault(regime_key(cell.family.sample), []).append(cell)
    return tuple(map(tuple, regimes.values()))


def decisions_of(
    spec: SweepSpec, searched: Iterable[SearchedCell], thresholds: Iterable[WidthThreshold]
) -> tuple[Decision, ...]:
    """The decision of each regime of searched cells; none where the sweep asks for none.

    Raises:
        UserError: the cells of a regime cannot tell the laws apart.
    """
    settings = spec.search.decide
    if settings is None:
        return ()
    by_cell = {threshold.cell_id: threshold for threshold in thresholds if threshold.search is not None}
    return tuple(_decision(spec, settings, cells, by_cell) for cells in families_of(searched))


def _decision(
    spec: SweepSpec, settings: DecideSettings, cells: Sequence[SearchedCell], by_cell: Mapping[str, WidthThreshold]
) -> Decision:
    tasks = tasks_of([cell.family.sample for cell in cells], spec.criterion.target)
    laws, summary = _rivals(settings, tasks), regime_summary(cells[0].family.sample)
    own = [by_cell.get(cell.cell_id) for cell in cells]
    num_points = np.array([one.search.num_points if one is not None and one.search is not None else 0 for one in own])
    is_over = [one is not None and one.search is not None and one.search.reason not in ("", "precise") for one in own]
    y, side, sd = np.zeros(len(cells)), np.zeros(len(cells), dtype=int), np.full(len(cells), math.inf)
    place_of = {cell.cell_id: place for place, cell in enumerate(cells)}
    if (found := law_cells(one for one in own if one is not None)) is not None:
        places = [place_of[threshold.cell_id] for threshold in found.thresholds]
        y[places], side[places], sd[places] = found.y, found.side, found.sd
    return Decision(
        settings,
        laws,
        Candidates(tasks, y, side, sd, num_points / spec.search.batch),
        num_points,
        (num_points < spec.search.cap) & ~np.array(is_over),
        spec.search.batch,
        summary,
        tuple(place_of),
        found,
    )


def _rivals(settings: DecideSettings, tasks: Tasks) -> tuple[Law, ...]:
    """The laws by their names, where every cell together tells each from the others."""
    named = {law.name: law for law in LAWS}
    laws = tuple(named[name] for name in settings.between)
    for place, law in enumerate(laws):
        same = next((other for other in laws[:place] if are_same(other, law, tasks)), None)
        if same is not None or not law.is_identifiable(tasks):
            problem = f"cannot tell {same.name} from {law.name}" if same else f"do not determine the numbers of {law.name}"
            raise UserError(
                f"search.decide.between: the cells of a family {problem}: vary T, q or d among them, or leave the law out"
            )
    return laws


def unfinished_cells(spec: SweepSpec, searched: Sequence[SearchedCell], thresholds: Sequence[WidthThreshold]) -> frozenset[str]:
    """The searched cells that may be asked for more points: of a decision, all of its cells until it ends."""
    if spec.search.decide is not None:
        decisions = decisions_of(spec, searched, thresholds)
        return frozenset(cell_id for one in decisions if not one.reason for cell_id in one.cell_ids)
    searches = [(threshold.cell_id, threshold.search.finished) for threshold in thresholds if threshold.search is not None]
    ended = {cell_id for cell_id, is_over in searches if is_over} - {cell_id for cell_id, is_over in searches if not is_over}
    return frozenset(cell.cell_id for cell in searched) - ended
