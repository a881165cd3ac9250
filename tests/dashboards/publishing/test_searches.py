"""What is being searched is in W&B while it trains, as the trials of a grid are."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import NUM_POINTS, finish, measured, sweep, write_journal

from dashboards.publishing.publisher import publish
from dashboards.publishing.trial_runs import TrialRuns
from sweeps.cells import WHOLE, ExpandedSweep, Shard
from sweeps.cells.packs import Pack, make_packs
from sweeps.search import Search
from sweeps.store.journal import read_curves
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


@pytest.fixture
def hunt(tmp_path: Path) -> Callable[..., Hunt]:
    return lambda name="run", **changes: Hunt(tmp_path / name, **changes)


def of_trials(server: Any) -> dict[str, Any]:
    return {one.config["trial_id"]: one for one in [*server.runs.values()] if "trial_id" in one.config}


def when(*stages: tuple[Callable[[], bool], Callable[[], None]]) -> Callable[[], bool]:
    """A publisher's `stop` that waits for one thing after another, does something at each, and is true after the last."""
    left, deadline = list(stages), time.monotonic() + 300

    def stop() -> bool:
        assert time.monotonic() < deadline, "waited too long"
        while left and left[0][0]():
            left.pop(0)[1]()
        return not left

    return stop


def test_rows_of_a_searched_trial_are_on_the_server_before_it_has_ended(hunt: Any, server: Any) -> None:
    one = hunt()
    packs = one.ask()
    trial_ids = {trial_id for pack in packs for trial_id in pack.trial_ids}
    assert len(trial_ids) == 8
    one.train(packs, 5)
    held: dict[str, list[Any]] = {}

    def has_rows(num: int) -> Callable[[], bool]:
        return lambda: [len(run.rows) for run in of_trials(server).values()] == [num] * len(trial_ids)

    def look() -> None:
        assert not one.run.ledger.exists()
        held.update({trial_id: run.rows.copy() for trial_id, run in of_trials(server).items()})
        one.train(packs, 9)

    stop = when((has_rows(5), look), (has_rows(9), lambda: one.end(packs)))
    report = publish(one.run.path, stop=stop, poll_s=0.2)
    curves = read_curves(one.run)
    assert held.keys() == trial_ids
    for trial_id, run in of_trials(server).items():
        steps, losses = curves[trial_id]
        assert [row["relative_loss"] for row in held[trial_id]] == losses.tolist()[:5]
        assert [(row["step"], row["relative_loss"]) for row in run.rows] == [*zip(steps, losses, strict=True)]
        assert run.num_received == NUM_POINTS
        assert run.exit_code == 0
        assert run.fields["groupName"].startswith(f"fcn T={run.config['task']['T']} ")
    assert report.num_missing == 0


def rows_of(runs: TrialRuns) -> dict[str, list[int]]:
    runs.read_on()
    return {one.key: [row.step for row in one.rows] for one in runs.live()}


def test_a_journal_is_followed_from_its_first_row_when_its_round_becomes_known_later(hunt: Any) -> None:
    """A directory of an older version has no rounds: the session that resumes it writes them, after a first look."""
    one = hunt()
    one.train(packs := one.ask(), 3)
    rounds = one.run.rounds.rename(one.run.path / "kept")
    runs = TrialRuns(one.run, one.sweep, WHOLE, identity="0" * 8, tags=())
    assert rows_of(runs) == {}
    rounds.rename(one.run.rounds)
    shown = rows_of(runs)
    assert shown.keys() == {trial_id for pack in packs for trial_id in pack.trial_ids}
    assert set(map(len, shown.values())) == {3}
    one.end(packs)
    assert rows_of(runs) == {}
    assert runs.ended_keys == shown.keys()


def test_each_shard_of_a_publication_streams_its_own_points_and_a_resumed_search_those_that_go_on(hunt: Any) -> None:
    one = hunt()
    packs = one.ask()
    one.end(packs[:1])
    one.again()
    one.train(going_on := one.ask(), 4)
    shards = [TrialRuns(one.run, one.sweep, Shard(index, 2), identity="0" * 8, tags=()) for index in (0, 1)]
    shown = [rows_of(runs) for runs in shards]
    left = {trial_id for pack in packs[1:] for trial_id in pack.trial_ids}
    assert left
    assert {trial_id for pack in going_on for trial_id in pack.trial_ids} == left
    assert shown[0].keys() | shown[1].keys() == left
    assert not shown[0].keys() & shown[1].keys()
