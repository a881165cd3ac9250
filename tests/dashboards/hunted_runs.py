"""Runs whose thresholds are searched, round by round, with synthetic results: the rounds are those of the real search."""

from pathlib import Path
from typing import Any

from synthetic_runs import finish, measured, sweep, write_journal

from sweeps.cells import ExpandedSweep
from sweeps.cells.packs import Pack, make_packs
from sweeps.search import Search
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory, create_or_open

GROUP = {
    "name": "fcn",
    "base": {
        "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn"},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": 128, "steps": 2000},
    },
    "zip": {"task.T": [4, 6]},
    "search": {"low": 2, "high": 64},
}


WIDE = GROUP | {"zip": {"task.T": [48, 64]}, "search": {"low": 8, "high": 800}}
"""Searches whose thresholds lie so high that few points never suffice."""

LONG = {"trials": [WIDE], "search": {"batch": 4, "cap": 28, "tolerance": 0.001}}
"""Searches that go on to their cap."""


class Hunt:
    """A run of two searches whose rounds are trained by hand, each step by step."""

    def __init__(self, path: Path, **changes: Any) -> None:
        fields = {"trials": [GROUP], "search": {"batch": 4, "cap": 24}, "criterion": {"target_loss": 0.3}}
        self.sweep = ExpandedSweep.of(sweep(**(fields | changes)))
        self.run: RunDirectory = create_or_open(path, self.sweep)
        self.run.make_rooms()
        self._begin()

    def _begin(self) -> None:
        run, spec = self.run, self.sweep.spec
        self.search = Search(
            spec,
            self.sweep.searched,
            journal=run.studies,
            owner=run.owner(is_shared=False),
            curves=lambda _: {},
            rounds=run.rounds,
        )
        if run.ledger.exists():
            self.search.tell(Ledger(run.ledger).read())

    def again(self) -> None:
        """End the session and begin another."""
        self.search.close()
        self._begin()

    def ask(self) -> tuple[Pack, ...]:
        """The packs of the next rounds."""
        return make_packs([*self.search.ask()])

    def train(self, packs: tuple[Pack, ...], num_points: int) -> None:
        """Train up to a point of `NUM_POINTS`."""
        for pack in packs:
            write_journal(self.run, pack, [(config, measured(config)) for config in pack.configs], num_points=num_points)

    def end(self, packs: tuple[Pack, ...]) -> None:
        """Train to the end."""
        finish(self.run, packs)
        trial_ids = {trial_id for pack in packs for trial_id in pack.trial_ids}
        self.search.tell([record for record in Ledger(self.run.ledger).read() if record.trial_id in trial_ids])

    def go(self, *, rounds: int = 1000) -> None:
        """Train so many rounds."""
        while rounds and not self.search.finished:
            self.end(self.ask())
            rounds -= 1
