"""The worker: orders and outcomes, state kept through a kill, and outcomes that a dead driver did not hear."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.run.claim import SupersededError
from cluster.run.worker import Order, adopt_outcomes, outcome_from_json, outcome_path, train_order
from stsq_core import TrialConfig, UserError
from sweeps.cells.packs import pack_of
from sweeps.store.journal import Preempted, read_metrics
from sweeps.store.ledger import Ledger, record_of_failure
from sweeps.store.run_directory import RunDirectory

ROOT = Path(__file__).parents[3]

LOOKS = 80
"""A worker looks up at least so often in 400 steps of which every tenth is reported: after each of these, and once in between,
however many steps are taken in one go."""


EVALUATION = {"every": 15, "q_test": [1]}


def order(
    run: Path,
    *,
    steps: int = 20,
    widths: tuple[int, ...] = (2, 8),
    T: int = 4,
    every_s: float = 20.0,
    evaluation: Any = None,
) -> Order:
    RunDirectory(run).make_rooms()
    configs = [
        TrialConfig.model_validate(
            {
                "task": {"T": T, "q": 2, "d": 2},
                "model": {"kind": "fcn", "width": width, "tail_width": 8},
                "optimizer": {"kind": "adam", "lr": 0.01},
                "training": {"batch_size": 8, "steps": steps, "log_every": 10},
                "evaluation": evaluation or {},
            }
        )
        for width in widths
    ]
    return Order(pack_of(configs), run, "cpu", False, every_s)


def test_an_order_survives_its_json(tmp_path: Path) -> None:
    assert Order.from_json(order(tmp_path).as_json()) == order(tmp_path)


def test_a_pack_ends_with_a_result_a_trial_and_leaves_no_state(tmp_path: Path) -> None:
    asked = order(tmp_path)
    outcome = outcome_from_json(train_order(asked.as_json()))
    assert outcome.failure is None
    assert [result.config for result in outcome.results] == list(asked.pack.configs)
    assert outcome.device == "cpu"
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"{asked.pack.pack_id}.outcome.json"]


def test_an_outcome_that_is_there_is_told_again_without_training(tmp_path: Path) -> None:
    printed = train_order(order(tmp_path).as_json())
    journal = next((tmp_path / "curves").iterdir())
    journal.unlink()
    assert train_order(order(tmp_path).as_json()) == printed
    assert not journal.exists()


def test_outcomes_that_nobody_heard_are_adopted_once(tmp_path: Path) -> None:
    run, ledger = RunDirectory(tmp_path), Ledger(tmp_path / "ledger.jsonl")
    printed = train_order(order(tmp_path).as_json())
    outcome = outcome_from_json(printed)
    path = outcome_path(run, outcome.pack.pack_id)
    assert adopt_outcomes(run, ledger) == 2
    assert not path.exists()
    path.write_text(printed)
    assert adopt_outcomes(run, ledger) == 0
    assert [record.relative_loss for record in ledger.read()] == [result.relative_loss for result in outcome.results]


def test_metrics_come_with_the_outcome_and_stand_in_journal_and_ledger(tmp_path: Path) -> None:
    run, ledger = RunDirectory(tmp_path), Ledger(tmp_path / "ledger.jsonl")
    outcome = outcome_from_json(train_order(order(tmp_path, evaluation=EVALUATION).as_json()))
    assert all(set(r.metrics) == {"loss", "loss_stderr", "loss@q=1", "loss_stderr@q=1"} for r in outcome.results)
    assert adopt_outcomes(run, ledger) == 2
    assert [record.metrics for record in ledger.read()] == [result.metrics for result in outcome.results]
    printed = read_metrics(run)
    for result in outcome.results:
        steps, losses = printed[result.config.trial_id]["loss@q=1"]
        assert steps.tolist() == [0, 15, 20]
        assert losses[-1] == result.metrics["loss@q=1"]


def test_an_outcome_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    printed = json.loads(train_order(order(tmp_path).as_json()))
    for result in printed["results"]:
        del result["metrics"]
    assert [result.metrics for result in outcome_from_json(json.dumps(printed)).results] == [{}, {}]


def test_a_late_outcome_takes_the_place_of_its_failure_once(tmp_path: Path) -> None:
    asked = order(tmp_path)
    outcome = outcome_from_json(train_order(asked.as_json()))
    run, ledger = RunDirectory(tmp_path), Ledger(tmp_path / "ledger.jsonl")
    configs = asked.pack.configs
    ledger.append(record_of_failure(config, "lost worker, 3 times", pack_id="0" * 16, device="cpu") for config in configs)
    assert adopt_outcomes(run, ledger) == 2
    assert [one.relative_loss for one in ledger.read()] == [one.relative_loss for one in outcome.results]
    train_order(asked.as_json())
    assert adopt_outcomes(run, ledger) == 0


@pytest.mark.parametrize("spoil", ["torn", "numerics", "failure"])
def test_what_cannot_be_trusted_is_not_adopted(tmp_path: Path, spoil: str) -> None:
    run, ledger = RunDirectory(tmp_path), Ledger(tmp_path / "ledger.jsonl")
    printed: dict[str, Any] = json.loads(train_order(order(tmp_path).as_json()))
    path = next((tmp_path / "checkpoints").glob("*.outcome.json"))
    printed |= {"numerics": -1} if spoil == "numerics" else {}
    printed |= {"failure": {"kind": "error", "reason": "x"}, "results": []} if spoil == "failure" else {}
    path.write_text(json.dumps(printed)[: -9 if spoil == "torn" else None])
    assert adopt_outcomes(run, ledger) == 0
    assert not ledger.read()
    assert not path.exists()


def test_too_little_memory_is_told_as_such(tmp_path: Path) -> None:
    outcome = outcome_from_json(train_order(order(tmp_path, widths=(2**24,), T=2**20).as_json()))
    assert outcome.failure is not None
    assert outcome.failure.kind == "out_of_memory"


def test_what_a_trial_raises_is_told_with_the_time_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: Any, **__: Any) -> None:
        raise ValueError("boom")

    monkeypatch.setattr("stsq_core.training.train_pack", boom)
    outcome = outcome_from_json(train_order(order(tmp_path).as_json()))
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == ("error", "ValueError: boom")
    assert outcome.failure.seconds > 0


def test_a_run_directory_that_cannot_be_written_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        outcome_from_json(train_order(order(tmp_path / "file").as_json()))


@pytest.mark.slow
def test_a_killed_worker_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path: Path, until: Any) -> None:
    evaluation = {"every": 1500, "q_test": [1]}
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=4000, evaluation=evaluation).as_json())
    asked = order(tmp_path / "killed", steps=4000, every_s=0.1, evaluation=evaluation)
    state = tmp_path / "killed/checkpoints" / f"{asked.pack.pack_id}.state"
    code = "import sys; from cluster.run.worker import train_order; train_order(sys.argv[1])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, asked.as_json()], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    until(state.exists, what="a checkpoint")
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved = json.loads(state.read_bytes().partition(b"\n")[0])
    assert saved["journal_size"] > 0
    resumed = train_order(asked.as_json())
    assert numbers(resumed) == numbers(undisturbed)
    name = f"curves/{asked.pack.pack_id}.jsonl"
    assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    assert not state.exists()


def test_a_worker_that_is_sent_away_leaves_a_state_and_the_pack_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=400).as_json())
    asked = order(tmp_path / "sent away", steps=400)
    looks = iter(range(10**6))
    with pytest.raises(Preempted):
        train_order(asked.as_json(), lambda: next(looks) > LOOKS // 2)
    assert LOOKS // 2 < next(looks) < LOOKS, "it left in mid-training, at once"
    assert [path.suffix for path in (tmp_path / "sent away/checkpoints").iterdir()] == [".state"]
    assert numbers(train_order(asked.as_json())) == numbers(undisturbed)


def test_a_pack_whose_time_is_up_leaves_a_state_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=400).as_json())
    asked = order(tmp_path / "bounded", steps=400)
    for _ in range(3):
        stopped = outcome_from_json(train_order(replace(asked, seconds_left=0.0).as_json()))
        assert stopped.failure is not None
        assert stopped.failure.kind == "budget"
        assert [path.suffix for path in (tmp_path / "bounded/checkpoints").iterdir()] == [".state"]
    assert numbers(train_order(asked.as_json())) == numbers(undisturbed)


def test_an_outage_in_mid_pack_costs_time_and_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder of the run is gone for a while, as below a mount that went away."""
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=400).as_json())
    asked, run, away = order(tmp_path / "run", steps=400, every_s=0.0), tmp_path / "run", tmp_path / "away"
    looks, pauses = iter(range(10**6)), iter(range(100))

    def leaving() -> bool:
        if next(looks) == LOOKS // 2:
            run.rename(away)
        return False

    def sleep(_: float) -> None:
        if next(pauses) == 3:
            away.rename(run)

    monkeypatch.setattr("time.sleep", sleep)
    assert numbers(train_order(asked.as_json(), leaving)) == numbers(undisturbed)
    assert next(pauses) == 4
    name = f"curves/{asked.pack.pack_id}.jsonl"
    assert (run / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


def test_an_outage_that_does_not_end_is_one_error_and_the_pack_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, run, away = order(tmp_path / "run", steps=400, every_s=0.0), tmp_path / "run", tmp_path / "away"
    looks = iter(range(10**6))

    def leaving() -> bool:
        if next(looks) == LOOKS // 2:
            run.rename(away)
        return False

    monkeypatch.setattr("sweeps.store.files.OUTAGE_PATIENCE_S", 0.5)
    with pytest.raises(UserError, match=r"could not be reached for 0 s.*the same command goes on"):
        outcome_from_json(train_order(asked.as_json(), leaving))
    away.rename(run)
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=400).as_json())
    assert numbers(train_order(asked.as_json())) == numbers(undisturbed)


@pytest.mark.parametrize("every_s", [0.0, 20.0])
def test_a_pack_goes_on_while_its_first_worker_is_frozen_and_what_that_one_writes_later_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float
) -> None:
    monkeypatch.setattr("cluster.run.claim.PATIENCE_S", 0.0)
    undisturbed = train_order(order(tmp_path / "undisturbed", steps=400).as_json())
    asked, run = order(tmp_path / "run", steps=400, every_s=every_s), tmp_path / "run"
    looks, printed = iter(range(10**6)), []

    def frozen() -> bool:
        if next(looks) == LOOKS // 2:
            printed.append(train_order(asked.as_json()))
        return False

    with pytest.raises(SupersededError):
        train_order(asked.as_json(), frozen)
    assert numbers(printed[0]) == numbers(undisturbed)
    name = f"curves/{asked.pack.pack_id}.jsonl"
    assert (run / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()
    assert [path.name for path in (run / "checkpoints").iterdir()] == [f"{asked.pack.pack_id}.outcome.json"]
    said: list[str] = []
    outcome_from_json(printed[0], notify=said.append)
    outcome_from_json(undisturbed, notify=said.append)
    assert len(said) == 1
    assert f"({json.loads(printed[0])['taken_from']})" in said[0]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), MemoryError()])
def test_a_device_or_a_host_without_memory_left_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """In mid-training, where the engine calls back: what a GPU's allocator raises, and what Python raises."""
    calls = iter(range(100))

    def append(*_: Any) -> None:
        if next(calls) == 1:
            raise error

    monkeypatch.setattr("sweeps.store.journal.JournalWriter.append", append)
    outcome = outcome_from_json(train_order(order(tmp_path).as_json()))
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.reason) == ("out_of_memory", "out of memory")


def numbers(printed: str) -> list[tuple[object, ...]]:
    return [(r.status, r.relative_loss, r.relative_loss_stderr, r.steps, r.metrics) for r in outcome_from_json(printed).results]
