"""The results of a run: the ledger's records of the trials that its sweep declares now.

A ledger keeps every result it ever held, also of trials that a later form of the sweep no longer declares. Thresholds, laws,
figures and exit codes rest on the declared ones alone; the others are counted and named in a note, and so are trials of which
other files know that they ended, and the ledger does not: its lines were lost.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stsq_core.configs import SAMPLES, WIDTH, TrialConfig, TrialFamily, UserError
from sweeps.cells import Cell, ExpandedSweep, SearchedCell, Trials, cell_of, twice_the_steps
from sweeps.schema import SweepSpec, with_field
from sweeps.store.gc_pause import gc_paused
from sweeps.store.journal import trials_of_journal
from sweeps.store.jsonl import JsonLines, unsealed
from sweeps.store.ledger import Ledger
from sweeps.store.live_training import last_step
from sweeps.store.outcomes import Outcomes, Rows
from sweeps.store.run_directory import RunDirectory

OUTCOME = ".outcome.json"


@dataclass(frozen=True)
class Results:
    """Records of declared trials. `declared` names all trials that the sweep declares, ended or not.

    Of a searched cell, whose trials are not declared beforehand, that is every trial that the ledger holds within its range
    and at its rates, whoever asked for it. `rechecks` are trials of cells with twice the steps (module `recheck`).
    `ledger_notes` says what the ledger had to leave out when it was read, and what it `lacks` that other files know of;
    `num_others` counts the records of other trials, `num_twice` the declared ones with two results.
    """

    records: Outcomes
    declared: frozenset[str]
    num_others: int
    ledger_notes: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    foreign_cells: frozenset[str] = frozenset()
    searched: tuple[SearchedCell, ...] = ()
    rechecks: Outcomes = field(default_factory=lambda: Outcomes.of(()))
    num_twice: int = 0

    @property
    def num_of_points(self) -> int:
        """Records of searched cells."""
        families = {cell.family.key for cell in self.searched}
        own = [place for place, family in enumerate(self.records.trials.families) if family.key in families]
        return int(np.count_nonzero(np.isin(self.records.trials.family, own)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the records, in words."""
        return (*self.ledger_notes, *filter(None, [self.note_on_others]))

    @property
    def note_on_others(self) -> str:
        """How many records are left out because the sweep does not declare their trials; nothing where there are none."""
        if not self.num_others:
            return ""
        one = self.num_others == 1
        trials, are = ("trial", "is") if one else ("trials", "are")
        return f"{self.num_others} {trials} in the ledger that this sweep does not declare {are} kept there and left out here"


def read_results(run: RunDirectory, sweep: SweepSpec | ExpandedSweep | None = None) -> Results:
    """The results of a run; the sweep is that of its own file unless given.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    sweep = run.read_sweep() if sweep is None else ExpandedSweep.of(sweep)
    witnesses = Witnesses(run, sweep)
    ledger = Ledger(run.ledger, on_line=witnesses.strike if witnesses.any else None)
    with gc_paused():  # a million rows that stay
        results = _collected(ledger.lines(), sweep)
    lacks = witnesses.notes(lambda: (*results.records.trial_ids, *results.rechecks.trial_ids))
    notes = [*ledger.notes, *lacks]
    if results.num_twice:
        notes.append(f"{run.ledger.name}: {results.num_twice} trials have two results each, of which the newer counts")
    return replace(results, ledger_notes=tuple(notes), lacks=lacks)


def _collected(lines: Iterable[Mapping[str, Any]], sweep: ExpandedSweep) -> Results:
    """The newest line of each trial of the sweep, in the order in which trials first ended, declared ones first."""
    declared = Trials.joined([cell.trials for cell in sweep.cells])
    places = {trial_id: place for place, trial_id in enumerate(declared.trial_ids)}
    rows, row_of = Rows(), dict[int, int]()
    failed, twice = set[int](), set[int]()
    families = _Families(sweep)
    found, again = _Found(), _Found()
    others: set[str] = set()
    samples: dict[str, Mapping[str, Any]] = {}
    for values in lines:
        place = places.get(values["trial_id"])
        if place is not None:
            is_failure = values["status"] == "failed"
            if place in row_of and place not in failed:
                if is_failure:  # of a try that was given up before the other ended
                    continue
                twice.add(place)
            if is_failure:
                failed.add(place)
            elif failed:
                failed.discard(place)
            row_of[place] = len(rows)
            rows.add(values)
        elif (family := families.searched_by(values["config"])) is not None:
            found.add(family, values)
        elif (family := families.doubled(values["config"])) is not None:
            again.add(family, values)
        elif values["trial_id"] not in others:
            others.add(values["trial_id"])
            samples.setdefault(families.key_of(values["config"]), values["config"])
    taken = declared.take(np.fromiter(row_of, dtype=np.int64, count=len(row_of)))
    named = (cell_of(TrialConfig.model_validate(dict(config)), sweep.spec.criterion.size) for config in samples.values())
    records, points = rows.outcomes(taken, list(row_of.values())), found.outcomes()
    return Results(
        Outcomes.joined([records, points]),
        frozenset(places).union(points.trial_ids),
        len(others),
        foreign_cells=frozenset(named) - sweep.labels.keys(),
        searched=sweep.searched,
        rechecks=again.outcomes(),
        num_twice=len(twice),
    )


def cells_with_points(sweep: ExpandedSweep, records: Outcomes) -> tuple[Cell, ...]:
    """The declared cells, and of the searched ones those with points, each with the trials of its points."""
    families = [family.key for family in records.trials.families]
    found = list(sweep.cells)
    for cell in sweep.searched:
        own = [place for place, key in enumerate(families) if key == cell.family.key]
        trials = records.trials.take(np.isin(records.trials.family, own))
        if len(trials):
            found.append(Cell(cell.cell_id, cell.group, cell.label, trials))
    return tuple(found)


class _Families:
    """Says to which searched cell, or cell with twice the steps, an undeclared line of a ledger belongs."""

    def __init__(self, sweep: ExpandedSweep) -> None:
        families = [*(cell.trials.families[0] for cell in sweep.cells), *(cell.family for cell in sweep.searched)]
        self._families = families
        self._size_fields = {family.sample.model.kind: size_field(family) for family in families}
        self._searched = {self._key(cell.family): cell for cell in sweep.searched}

    @cached_property
    def _doubled(self) -> dict[str, TrialFamily]:
        twice = [TrialFamily(twice_the_steps(family.sample), family.size) for family in self._families]
        return {self._key(family): family for family in twice if family.size != SAMPLES}

    def searched_by(self, config: Mapping[str, Any]) -> TrialFamily | None:
        """The family of the searched cell that a trial is a point of."""
        cell = self._searched.get(self.key_of(config)) if self._searched else None
        if cell is None or config["optimizer"]["lr"] not in cell.rates:
            return None
        return cell.family if cell.low <= size_in(config, cell.family) <= cell.high else None

    def doubled(self, config: Mapping[str, Any]) -> TrialFamily | None:
        """The family of a cell with twice the steps that a trial belongs to."""
        return self._doubled.get(self.key_of(config))

    def key_of(self, config: Mapping[str, Any]) -> str:
        """Equal for ledger configs that differ in size, seed and rate only."""
        fields = with_field(config, "optimizer.lr", 0)
        if name := self._size_fields.get(config["model"]["kind"]):
            fields = with_field(fields, name, 0)
        return json.dumps({**fields, "seed": 0}, sort_keys=True)

    def _key(self, family: TrialFamily) -> str:
        return self.key_of(family.sample.model_dump(mode="json"))


class _Found:
    """Lines of trials that are not declared beforehand, the newest of each."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._row_of: dict[str, int] = {}
        self._families: list[TrialFamily] = []
        self._trials: dict[str, tuple[int, int, float, int]] = {}

    def add(self, family: TrialFamily, values: Mapping[str, Any]) -> None:
        if family not in self._families:
            self._families.append(family)
        config = values["config"]
        own = self._families.index(family), size_in(config, family), float(config["optimizer"]["lr"]), int(config["seed"])
        self._trials[values["trial_id"]] = own
        self._row_of[values["trial_id"]] = len(self._rows)
        self._rows.add(values)

    def outcomes(self) -> Outcomes:
        """The lines as outcomes, in the order in which trials first ended."""
        if not self._trials:
            return Outcomes.of(())
        family, widths, rates, seeds = zip(*self._trials.values(), strict=True)
        columns = np.array(family), np.array(widths), np.array(rates), np.array(seeds)
        return self._rows.outcomes(Trials(self._families, *columns), list(self._row_of.values()))


def size_field(family: TrialFamily) -> str | None:
    """The dotted field that sets a family's size, also where the task fixes it; None for what is counted."""
    if family.size == WIDTH:
        return f"model.{family.sample.model.size_field}"
    return next(iter(family.size.fields(family.sample)), None)


def size_in(config: Mapping[str, Any], family: TrialFamily) -> int:
    """The size in a ledger's config of this family."""
    sample, name = family.sample, size_field(family)
    if name is None:
        return family.size.of(sample)
    number: Any = config
    for part in name.split("."):
        number = number[part]
    return int(number) + (sample.model.offset(sample.task) if family.size == WIDTH else 0)


class Witnesses:
    """The journals, outcomes and publications of a run of which the ledger has no line: `strike` is called with every line."""

    def __init__(self, run: RunDirectory, sweep: ExpandedSweep) -> None:
        self._run = run
        self._sweep = sweep
        self._outcomes = {path.name.removesuffix(OUTCOME) for path in run.checkpoints.glob(f"*{OUTCOME}")}
        self._journals = {path.stem for path in run.curves.glob("*.jsonl")}
        self._published = _published(run) - sweep.labels.keys()

    @property
    def any(self) -> bool:
        """Whether there is anything to strike."""
        return bool(self._outcomes or self._journals or self._published)

    def strike(self, line: Mapping[str, Any]) -> None:
        """Take note of a line of the ledger."""
        self._outcomes.discard(line["pack_id"])
        self._journals.discard(line["pack_id"])
        self._published.discard(line["trial_id"])

    def notes(self, held: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """What the ledger lacks, in words; `held` gives the trials that it holds."""
        name, notes = self._run.ledger.name, []
        if num := sum(_gave_results(self._run.checkpoints / f"{pack_id}{OUTCOME}") for pack_id in self._outcomes):
            notes.append(f"{name}: {num} packs have ended whose trials the next run takes into it")
        open_packs = {path.name.partition(".")[0] for path in self._run.checkpoints.glob("*")}
        packs = sorted(self._journals - open_packs)
        lost = {trial_id: pack_id for pack_id in packs for trial_id in self._ended(pack_id)}
        for trial_id in held() if lost else ():
            lost.pop(trial_id, None)
        parts = [f"of {len(lost)} trials whose journals have ended, such as curves/{min(lost.values())}.jsonl"] if lost else []
        if sent := self._published - lost.keys():
            parts.append(f"of {len(sent)} trials that were published to W&B, such as {min(sent)}")
        if parts:
            notes.append(f"{name} has no line {' and '.join(parts)}: the next run trains what the sweep declares of them again")
        return tuple(notes)

    def _ended(self, pack_id: str) -> tuple[str, ...]:
        """The trials of a journal that reached their last step."""
        path = self._run.curves / f"{pack_id}.jsonl"
        step = last_step(path)
        return tuple(one for one in trials_of_journal(path) if step >= self._steps.get(one, self._steps_of_points))

    @cached_property
    def _steps(self) -> dict[str, int]:
        """The steps of each declared trial."""
        cells = self._sweep.cells
        return {one: cell.trials.families[0].sample.training.steps for cell in cells for one in cell.trials.trial_ids}

    @property
    def _steps_of_points(self) -> float:
        return max((cell.family.sample.training.steps for cell in self._sweep.searched), default=float("inf"))


def _gave_results(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return bool(unsealed(path.read_bytes())[0].get("results"))
    return False


def _published(run: RunDirectory) -> set[str]:
    """The keys of the runs that publishers have recorded."""

    def key(fields: dict[str, Any], _: bool) -> str:
        return str(fields.get("key", fields.get("trial_id")))

    keys: set[str] = set()
    for path in run.wandb.glob("published*.jsonl"):
        with suppress(UserError):  # a directory in its place: the publisher says so
            keys.update(JsonLines(path, key))
    return keys
