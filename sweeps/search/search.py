"""The strategy of a threshold search: rounds of points for every searched cell, through one Optuna study a cell.

A round of a cell is asked for when none of its points is in flight, so that the points of a search depend on its sweep alone
and not on the number of workers or the order in which packs end. Cells search side by side: their points share packs and keep
workers fed.

Where laws decide (`search.decide`), a family of cells asks together: once none of its points is in flight, the next round goes
to the cells that tell the rival laws apart best.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from sweeps.cells import SearchedCell, Trials, point_seed
from sweeps.laws import Decision, decisions_of, families_of, outlook_of
from sweeps.sampler import ThresholdResult, ThresholdSampler, publish
from sweeps.schedule import Outlook, Strategy
from sweeps.schema import SweepSpec
from sweeps.search.cell_study import CellStudy, OpenPoint
from sweeps.search.finished_points import Curves, FinishedPoint, finished_points
from sweeps.search.samplers import sampler_for
from sweeps.search.study_storage import open_storage, storage_errors
from sweeps.store import LedgerRecord, Outcomes, Round, append_rounds
from sweeps.thresholds import (
    CellPoints,
    SearchPlan,
    WidthThreshold,
    open_target,
    outcomes_by_cell,
    plan_of,
    searched_threshold,
)

MAX_NAME = 64


class Search(Strategy):
    """Searches the threshold of each cell. `journal` is the file of the studies where the sweep names no storage.

    `rounds` is where others read what was asked for. `owner` names the run directory, `kin` its shards, or the run that it is a
    shard of; `again` are trials that failed before and are to be tried again. `former_seeds` are values that `search.seed` had
    before: points that were begun with them are completed.
    """

    def __init__(
        self,
        spec: SweepSpec,
        cells: Sequence[SearchedCell],
        *,
        journal: Path,
        owner: str,
        kin: Collection[str] = (),
        curves: Curves,
        again: Outcomes | None = None,
        former_seeds: Collection[int] = (),
        rounds: Path | None = None,
    ) -> None:
        self._spec = spec
        self._rounds = rounds
        self._journal = journal
        self._place = spec.search.storage or str(journal)
        retried = outcomes_by_cell(cells, again) if again is not None else {}
        seeds = frozenset({spec.search.seed, *former_seeds})
        self._cells = {cell.cell_id: _CellSearch(spec, cell, seeds=seeds, again=retried.get(cell.cell_id)) for cell in cells}
        self._owner, self._kin = owner, kin
        self._curves = curves
        self._opened = False
        self._families = families_of(cells) if spec.search.decide is not None else ()
        self._decisions: dict[int, Decision] = {}
        self._decide()

    def ask(self) -> Trials:
        """The next round of every cell that waits for none of its points."""
        with storage_errors(self._place):
            if not self._opened:
                self._open()
                self._decide()
            asked = {cell_id: trials for cell_id, search in self._cells.items() if (trials := search.ask()) is not None}
        if asked and self._rounds is not None:
            append_rounds(self._rounds, [self._cells[cell_id].round for cell_id in asked])
        return Trials.joined([*asked.values()])

    def tell(self, records: Sequence[LedgerRecord]) -> None:
        """Take note of trials that ended; those of other cells are passed over."""
        by_cell = outcomes_by_cell([search.cell for search in self._cells.values()], records)
        with storage_errors(self._place):
            for cell_id, outcomes in by_cell.items():
                self._cells[cell_id].take(outcomes.judged_by(self._spec.criterion.metric))
        if by_cell:
            self._decide()

    def _decide(self) -> None:
        """Where laws decide, name the cells of the next round of each family none of whose points is in flight."""
        for place, family in enumerate(self._families):
            own = [self._cells[cell.cell_id] for cell in family]
            if any(search.is_busy for search in own):
                continue
            thresholds = [threshold for search in own if (threshold := search.threshold) is not None]
            (decision,) = decisions_of(self._spec, family, thresholds)
            self._decisions[place] = decision
            for search in own:
                search.chosen = False
            for one in decision.next_rounds():
                own[one.cell].choose(one.span)

    @property
    def finished(self) -> bool:
        return all(search.finished for search in self._cells.values())

    @property
    def progress(self) -> str:
        return "; ".join(decision.progress for decision in self._decisions.values())

    @property
    def outlook(self) -> Outlook:
        cells = [*self._cells.values()]
        if self._families:
            going_on = [
                family
                for place, family in enumerate(self._families)
                if place not in self._decisions
                or not self._decisions[place].reason
                or any(self._cells[cell.cell_id].is_busy for cell in family)
            ]
            unfinished = {cell.cell_id for family in going_on for cell in family}
        else:
            unfinished = {search.cell.cell_id for search in cells if not search.finished}
        return outlook_of(
            [search.plan for search in cells],
            [*self._decisions.values()],
            unfinished=unfinished,
            in_flight={search.cell.cell_id: search.round_size for search in cells},
            more={search.cell.cell_id: search.more for search in cells},
        )

    def close(self) -> None:
        """Leave no trial running in a study: points in flight wait for the next session."""
        if self._opened:
            with storage_errors(self._place):
                for search in self._cells.values():
                    search.close()

    def _open(self) -> None:
        storage = open_storage(self._spec.search.storage, self._journal)
        for search in self._cells.values():
            name = study_name(self._spec.name, search.cell)
            search.open(CellStudy(storage, name, search.cell, owner=self._owner, kin=self._kin, curves=self._curves))
        self._opened = True


class _CellSearch:
    """The search of one cell: what has ended, what is in flight, and its study once that is open.

    `round_size` counts the points of the round in flight, ended or not. `chosen` says whether laws gave it the next round,
    until it asks for that; None where it asks until its threshold is known.
    """

    def __init__(self, spec: SweepSpec, cell: SearchedCell, *, seeds: frozenset[int], again: Outcomes | None = None) -> None:
        self.cell = cell
        self._spec = spec
        self._seeds = seeds
        self._ended: list[Outcomes] = []
        self._open: dict[tuple[int, int], OpenPoint] = {}
        self._again = () if again is None else CellPoints.of(cell, again).pairs
        self._study: CellStudy | None = None
        self._asked = False
        self.round_size = 0
        self._look()
        self._threshold: WidthThreshold | None = None
        self.chosen = None if spec.search.decide is None else False
        self._span: tuple[int, int] | None = None

    @property
    def finished(self) -> bool:
        is_over = self._state.finished if self.chosen is None else not self.chosen
        return is_over and not self._open and not self._again

    @property
    def is_busy(self) -> bool:
        """Whether points are in flight, or are completed before others are asked for."""
        return bool(self._open or self._again)

    @property
    def threshold(self) -> WidthThreshold | None:
        """The cell's threshold; None before any point has ended."""
        if self._threshold is None and self._ended:
            spec, label = self._spec, self.cell.label
            outcomes = Outcomes.joined(self._ended)
            self._threshold = searched_threshold(self.cell, label, outcomes, spec.criterion, spec.search)
        return self._threshold

    def choose(self, span: tuple[float, float] | None) -> None:
        """Give the cell the next round, its first at these log widths."""
        self.chosen = True
        self._span = None if span is None else (math.floor(math.exp(span[0])), math.ceil(math.exp(span[1])))

    @property
    def more(self) -> int:
        """Points that are expected beyond the round in flight."""
        return max(0, self.plan.num_expected - self.round_size)

    @property
    def round(self) -> Round:
        """The points in flight, for others to read."""
        return Round(self.cell.cell_id, tuple(self._open), self.more)

    def open(self, study: CellStudy) -> None:
        """Take the study, and the points that it says go on; points of which the ledger holds a part go on as well."""
        self._study = study
        points = self._points()
        going_on = study.resume(self._finished_points(points), self._fresh_seeds(points))
        self._open = {point.key: point for point in going_on}
        if self.chosen is not None:  # what laws choose next, they choose from complete points
            self._again += tuple(
                pair for pair in self._unfinished(points) if pair not in self._open and pair not in self._again
            )

    def ask(self) -> Trials | None:
        """The points that go on from a former session, else a new round; None while points are in flight or when finished."""
        if self._study is None or self._asked or (self.finished and not self._open):
            return None
        if not self._open:
            self._open = {point.key: point for point in self._next_round(self._study)}
            self.chosen = None if self.chosen is None else False
        self._asked = True
        self.round_size = len(self._open)
        return self.cell.trials(tuple(self._open))

    def take(self, outcomes: Outcomes) -> None:
        """Take note of trials of this cell that ended, and of the round when all of its points have."""
        self._ended.append(outcomes)
        self._threshold = None
        points = self._points()
        if self._study is None:
            self._look(points)
            return
        ended = {pair for pair, complete in zip(points.pairs, points.complete.tolist(), strict=True) if complete}
        in_flight = self._open.keys() - ended
        # With several rates a point's own is known when its round has ended; with one, a dashboard may see it at once.
        if in_flight and len(self.cell.rates) > 1:
            return
        ended_points = self._finished_points(points)
        for one in ended_points:
            if (point := self._open.pop((one.width, one.seed), None)) is not None:
                self._study.tell(point, one)
        if not in_flight:
            self._study.reconcile(ended_points)
            self._look(points)
            publish(self._study.study, ThresholdResult.of(self._state, self._spec.criterion.level))
            self._asked = False
            self.round_size = 0

    def close(self) -> None:
        """Let the points in flight wait in the study."""
        if self._study is not None:
            self._study.release()
            self._open = {}

    def _next_round(self, study: CellStudy) -> tuple[OpenPoint, ...]:
        points = self._points()
        if self._again:
            again, self._again = self._again, ()
            return study.ask_for(again)
        if unfinished := self._unfinished(points):
            return study.ask_for(unfinished)
        settings, num = self._spec.search, points.num_complete
        posterior = self._state.posterior  # its range is the cell's, less the ends at which points fail
        low, high = (int(posterior.low), int(posterior.high)) if posterior else (self.cell.low, self.cell.high)
        if self._span is not None and not num:
            low, high = (min(max(end, low), high) for end in self._span)
        sampler = sampler_for(settings, self._criterion, self.cell, num_points=num, low=low, high=high)
        batch = settings.batch
        if isinstance(sampler, ThresholdSampler) and self.chosen is None:
            batch = sampler.batch_size(study.study)
        return study.ask(max(1, min(batch, settings.cap - num)), self._fresh_seeds(points), sampler, low=low, high=high)

    def _unfinished(self, points: CellPoints) -> tuple[tuple[int, int], ...]:
        """Points of this search of which some rates have ended and others not: the study that knew of them is gone."""
        numbers = range(2 * len(points.widths))
        own = {point_seed(self.cell.cell_id, number, seed=seed) for seed in self._seeds for number in numbers}
        partial = zip(points.pairs, points.complete.tolist(), strict=True)
        return tuple(pair for pair, complete in partial if not complete and pair[1] in own)

    def _fresh_seeds(self, points: CellPoints) -> Iterator[int]:
        """Seeds that no point of the cell has had, in an order that depends on the cell and `search.seed`."""
        used = {*points.seeds.tolist(), *(self._study.seeds if self._study else ())}
        number = 0
        while True:
            if (seed := point_seed(self.cell.cell_id, number, seed=self._spec.search.seed)) not in used:
                yield seed
            number += 1

    def _points(self) -> CellPoints:
        outcomes = Outcomes.joined(self._ended) if self._ended else Outcomes.of(())
        return CellPoints.of(self.cell, outcomes)

    def _finished_points(self, points: CellPoints) -> tuple[FinishedPoint, ...]:
        return finished_points(points, self._spec.criterion, self._spec.search.sampler)

    def _look(self, points: CellPoints | None = None) -> None:
        """Note the target that the next round is for, how far its search is, and what it is expected to take."""
        points = self._points() if points is None else points
        self._criterion, self._state = open_target(points, self._spec.criterion, self._spec.search)
        self.plan: SearchPlan = plan_of(points, self._spec, self._criterion, self._state)


def study_name(sweep: str, cell: SearchedCell) -> str:
    """The name of a cell's study: of one sweep and cell, so that sweeps share a storage and no study."""
    task = cell.family.sample.task
    words = f"{sweep} {cell.family.sample.model.kind} T={task.T} q={task.q} d={task.d}"
    slug = re.sub(r"[^\w=.-]+", "-", words)[:MAX_NAME]
    return f"{slug}-{cell.cell_id}"
