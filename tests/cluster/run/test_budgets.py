"""Budgets: time and failures, over all sessions of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.run.budgets import Budgets
from sweeps.schedule.queue import PackQueue
from sweeps.schedule.strategy import Grid
from sweeps.schema.spec import Budget
from sweeps.store.ledger import Ledger
from sweeps.store.live_training import last_step

Write = Callable[..., Path]
QUIET = ("--inline", "--wandb", "disabled")


@pytest.fixture
def queue(tmp_path: Path) -> PackQueue:
    return PackQueue(Grid([]), Ledger(tmp_path / "ledger.jsonl"))


def test_time_runs_on_from_what_earlier_sessions_took(queue: PackQueue) -> None:
    clock = iter([100.0, 130.0, 220.0])
    budgets = Budgets(Budget(minutes=10), queue, spent_minutes=8.5, now=lambda: next(clock))
    assert [budgets.allow(), budgets.allow()] == [True, False]


@pytest.mark.parametrize(
    ("failures", "total", "failed", "spent"),
    [
        (None, 10, 10, False),
        (3, 10, 2, False),
        (3, 10, 3, True),
        (0.25, 100, 24, False),
        (0.25, 100, 25, True),
        (0.25, 1, 1, True),
    ],
)
def test_failures_are_a_number_or_a_share(
    queue: PackQueue, failures: float | None, total: int, failed: int, spent: bool
) -> None:
    queue.total, queue.failed_before, queue.failed = total, failed // 2, failed - failed // 2
    assert Budgets(Budget(failures=failures), queue, spent_minutes=0.0).failures_spent is spent


def test_a_sweep_whose_trials_fail_stops_in_one_line_and_a_resume_does_not_burn_on(
    here: Callable[..., Any], write_sweep: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such kernel")

    with monkeypatch.context() as breaking:
        breaking.setattr("stsq_core.training.train_pack", broken)
        first = here("run", write_sweep(), "--set", "budget.failures=3", *QUIET)
    assert first.code == 1, first
    assert "the sweep is stopped: 3 trials have failed, and its failure budget is 3 (5 trials are untrained)" in first.err
    ledger = (tmp_path / "runs/small/ledger.jsonl").read_text()
    assert ledger.count('"failed"') == 3

    again = here("run", write_sweep(), "--set", "budget.failures=3", *QUIET)
    assert again.code == 1, again
    assert "the sweep is stopped: 3 trials have failed" in again.err
    assert (tmp_path / "runs/small/ledger.jsonl").read_text() == ledger

    mended = here("run", write_sweep(), "--set", "budget.failures=3", "--retry-failed", *QUIET)
    assert mended.code == 0, mended
    assert "--retry-failed: 3 failed trials to be trained again" in mended.err
    assert {record.status for record in Ledger(tmp_path / "runs/small/ledger.jsonl").read()} == {"finished"}


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(), "the run ended while 4 trials are untrained, and no budget is spent: the same command goes on from here"),
        (
            Budget(minutes=60, failures=3),
            "the run ended while 4 trials are untrained, and no budget is spent: the same command",
        ),
        (
            Budget(minutes=5),
            "the time budget of 5 minutes is spent and 4 trials are untrained: raise it (--set budget.minutes=12)",
        ),
        (
            Budget(minutes=5, failures=2),
            "the sweep is stopped: 2 trials have failed, and its failure budget is 2 (4 trials are",
        ),
    ],
)
def test_an_unfinished_run_is_told_in_words_whatever_budget_it_has(queue: PackQueue, budget: Budget, words: str) -> None:
    queue.total, queue.done, queue.failed = 9, 5, 2
    assert Budgets(budget, queue, spent_minutes=6.0, now=lambda: 0.0).words().startswith(words)


@pytest.mark.parametrize("printed", ["0", "1.5", "-1", "many"])
def test_a_failure_budget_out_of_range_is_refused(here: Callable[..., Any], write_sweep: Write, printed: str) -> None:
    ended = here("run", write_sweep(), "--set", f"budget.failures={printed}", *QUIET)
    assert ended.code == 2, ended
    assert "budget.failures" in ended.err


def test_a_run_ends_with_its_time_and_a_larger_budget_goes_on(stsq: Any, write_sweep: Write, small: dict[str, Any]) -> None:
    """The steps would take hours, and a table of all their rates would fill the memory."""
    small["trials"] = small["trials"][1:]
    small["trials"][0] |= {"grid": {}, "seeds": 2}
    small["trials"][0]["base"]["training"] |= {"steps": 2_000_000_000, "log_every": 10_000}
    run, reached = stsq.folder / "runs/small", [0]
    for minutes in (0.1, 0.2):
        ended = stsq.run("run", write_sweep(small), *QUIET, "--set", f"budget.minutes={minutes}")
        assert ended.code == 1, ended
        assert f"the time budget of {minutes} minutes is spent and 2 trials are untrained: raise it (--set" in ended.err
        [journal], [_] = run.glob("curves/*.jsonl"), run.glob("checkpoints/*.state")
        reached.append(last_step(journal))
    assert reached == sorted(set(reached))
