"""The progress line: counts, rates and the time left, read from a queue and from journals."""

import io
import time
from pathlib import Path

import pytest
from asked_once import Once
from rich.console import Console

from cluster.run import progress_line as module
from cluster.run.progress_line import ProgressLine
from stsq_core import Measurement, TrialConfig, TrialResult
from sweeps.cells.packs import Room
from sweeps.schedule.queue import PackOutcome, PackQueue
from sweeps.schedule.time_left import Ahead, Outlook
from sweeps.store.journal import JournalWriter
from sweeps.store.ledger import Ledger


def config(seed: int) -> TrialConfig:
    printed = {"task": {"T": 4, "q": 2, "d": 2}, "model": {"kind": "fcn", "width": 4}, "optimizer": {"kind": "adam", "lr": 0.1}}
    return TrialConfig.model_validate({**printed, "training": {"steps": 100}, "seed": seed})


@pytest.fixture
def queue(tmp_path: Path) -> PackQueue:
    return PackQueue(Once(tuple(map(config, range(4)))), Ledger(tmp_path / "ledger.jsonl"), room=Room(most=2))


def test_the_line_tells_what_running_packs_have_done(queue: PackQueue, tmp_path: Path) -> None:
    progress = ProgressLine(queue, tmp_path, Console(file=io.StringIO()), num_workers=2)
    assert "0 of 4 trials · starting" in progress.line()
    pack = queue.next()
    assert pack is not None
    progress.started(pack)
    assert "sent to 2 workers" in progress.line()
    with JournalWriter(tmp_path / f"{pack.pack_id}.jsonl", pack) as journal:
        journal.append(Measurement(50, pack.trial_ids, (0.5, 0.4)))
        time.sleep(0.01)
        assert "model-steps/s" in progress.line()
        assert "left" not in progress.line()  # it may have waited for its worker to start: the speed is that from here on
        journal.append(Measurement(60, pack.trial_ids, (0.5, 0.4)))
    time.sleep(0.01)
    assert "left" in progress.line()
    results = tuple(TrialResult(one, "finished", 0.1, 0.01, 100, 0.1) for one in pack.configs)
    outcome = PackOutcome(pack, results)
    queue.record(outcome)
    progress.ended(outcome)
    assert progress.line().startswith("2 of 4 trials")
    assert progress.summary().startswith("2 trials ended")
    assert progress.summary().endswith(" on 2 workers")
    progress.num_workers = 1
    assert progress.summary().endswith(" on 1 worker")


def test_a_pack_that_goes_on_from_before_the_end_of_its_journal_has_done_nothing_backwards(
    queue: PackQueue, tmp_path: Path
) -> None:
    """Its last state is older than its journal, which is cut back when the state is loaded."""
    progress, pack = ProgressLine(queue, tmp_path, Console(file=io.StringIO())), queue.next()
    assert pack is not None
    with JournalWriter(tmp_path / f"{pack.pack_id}.jsonl", pack) as journal:
        for step in (10, 50):
            at = journal.size()
            journal.append(Measurement(step, pack.trial_ids, (0.5, 0.4)))
        progress.started(pack)
        journal.truncate(at)
        assert "sent to" in progress.line()
        journal.append(Measurement(20, pack.trial_ids, (0.5, 0.4)))
        time.sleep(0.01)
        assert "model-steps/s" in progress.line()
        journal.append(Measurement(30, pack.trial_ids, (0.5, 0.4)))
    time.sleep(0.01)
    assert "model-steps/s" in progress.line()
    assert progress.pace.model_steps_per_s > 0
    assert progress.pace.seconds_left is not None
    assert progress.pace.seconds_left > 0


def test_a_plain_line_comes_at_once_with_the_first_result(queue: PackQueue, tmp_path: Path) -> None:
    said, pack = io.StringIO(), queue.next()
    assert pack is not None
    with ProgressLine(queue, tmp_path, Console(file=said, width=200)) as progress:
        progress.started(pack)
        outcome = PackOutcome(pack, tuple(TrialResult(one, "finished", 0.1, 0.01, 100, 0.1) for one in pack.configs))
        queue.record(outcome)
        progress.ended(outcome)
        deadline = time.monotonic() + module.PLAIN_EVERY_S / 2
        while not said.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert said.getvalue().startswith("2 of 4 trials")


def test_plain_lines_are_not_repeated_while_nothing_changes(
    queue: PackQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.01)
    said, pack = io.StringIO(), queue.next()
    assert pack is not None
    with ProgressLine(queue, tmp_path, Console(file=said)) as progress:
        time.sleep(0.2)
        progress.started(pack)
        deadline = time.monotonic() + 10
        while "sent to" not in said.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [line.partition(" · 0:0")[0] for line in said.getvalue().splitlines()] == [
        "0 of 4 trials · starting",
        "0 of 4 trials · 1 pack sent to 1 worker",
    ]


class Searching(Once):
    """Two of four searches go on, and expect 16 more trials."""

    outlook = Outlook(4, 2, (Ahead(("a", "b"), num_trials=16, num_rounds=2, operations=1e9),))


def test_the_line_counts_what_searches_are_expected_to_ask_for(tmp_path: Path) -> None:
    queue = PackQueue(Searching(tuple(map(config, range(4)))), Ledger(tmp_path / "ledger.jsonl"), room=Room(most=4))
    progress, pack = ProgressLine(queue, tmp_path, Console(file=io.StringIO())), queue.next()
    assert progress.state() == "0 of about 20 trials · 2 of 4 searches done · starting"
    assert pack is not None
    progress.started(pack)
    outcome = PackOutcome(pack, tuple(TrialResult(one, "finished", 0.1, 0.01, 100, 0.1) for one in pack.configs))
    queue.record(outcome)
    progress.ended(outcome)
    assert progress.state().startswith("4 of about 20 trials · 2 of 4 searches done · ")
    assert progress.pace.seconds_left == pytest.approx(0.4 * 1e9 / pack.operations, rel=0.1)


def test_trials_of_former_sessions_count_also_where_a_search_does_not_ask_for_them_again(tmp_path: Path) -> None:
    """As `stsq status` counts them."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    queue = PackQueue(Searching(tuple(map(config, range(4)))), ledger, room=Room(most=4), num_before=8)
    progress = ProgressLine(queue, tmp_path, Console(file=io.StringIO()))
    assert progress.state() == "8 of about 28 trials · 2 of 4 searches done · starting"
    assert (queue.num_ended, queue.num_open, queue.num_known) == (8, 4, 12)


def test_former_sessions_tell_the_speed_until_a_pack_has_ended(queue: PackQueue, tmp_path: Path) -> None:
    pack = queue.next()
    assert pack is not None
    progress = ProgressLine(queue, tmp_path, Console(file=io.StringIO()), rate_before=pack.operations / 50)
    progress.started(pack)
    with JournalWriter(tmp_path / f"{pack.pack_id}.jsonl", pack) as journal:
        for step in (50, 60):
            journal.append(Measurement(step, pack.trial_ids, (0.5, 0.4)))
            progress.state()
            time.sleep(0.01)
    assert progress.pace.seconds_left == pytest.approx(0.4 * 50 + 50, rel=0.01)  # what is left of this pack, and the other


def test_a_pack_without_a_report_is_said_to_wait_for_the_engine(
    queue: PackQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress, pack = ProgressLine(queue, tmp_path, Console(file=io.StringIO())), queue.next()
    assert pack is not None
    progress.started(pack)
    assert progress.state() == "0 of 4 trials · 1 pack sent to 1 worker"
    monkeypatch.setattr(module, "SILENT_S", -1.0)
    waits = "no report yet of 1 pack (a new machine compiles first)"
    assert progress.state() == f"0 of 4 trials · 1 pack sent to 1 worker · {waits}"
    with JournalWriter(tmp_path / f"{pack.pack_id}.jsonl", pack) as journal:
        journal.append(Measurement(50, pack.trial_ids, (0.5, 0.4)))
    assert "report" not in progress.state()
