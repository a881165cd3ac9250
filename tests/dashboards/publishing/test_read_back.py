"""Offline files as W&B's own command reads them: trials of 200 steps, every number that of the journals and the ledger.

Both writers are read back: the quick one, and W&B's client with a release that the quick one is not tried with.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wandb.util import get_core_path
from wandb_files import read_run

from dashboards.publishing.keys import run_config
from dashboards.publishing.published import directory_id
from dashboards.publishing.publisher import publish
from stsq_core import Measurement
from sweeps import expand, make_packs
from sweeps.cells import cell_of
from sweeps.store.journal import JournalWriter, read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow


@pytest.fixture(params=[("quick", 16), ("client", 2)], ids=["quick", "client"])
def run(
    request: pytest.FixtureRequest,
    make_run: Callable[..., RunDirectory],
    small: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> RunDirectory:
    """Four trials a seed that report at every one of 200 steps, to be written by one of the writers."""
    writer, num_seeds = request.param
    if writer == "client":
        monkeypatch.setattr("dashboards.publishing.wandb_border.QUICK_FILES_BELOW", (0, 31))
        monkeypatch.setattr("dashboards.publishing.files.pack", None)
    training = {"objective": "minibatch", "batch_size": 8, "steps": 200, "log_every": 1}
    made = make_run(trials=[small | {"base": small["base"] | {"training": training}, "seeds": num_seeds}])
    configs = [config for cell in expand(made.read_spec()) for config in cell.configs]
    for pack in make_packs(configs):
        with JournalWriter(made.curves / f"{pack.pack_id}.jsonl", pack) as journal:
            journal.truncate()
            for step in range(201):
                losses = tuple(1 / (1 + step / (3 + place)) for place in range(len(pack.trial_ids)))
                journal(Measurement(step, pack.trial_ids, losses, {}))
    return made


def inspected(path: Path, *flags: str) -> str:
    """What `wandb leet inspect FLAGS PATH` prints: the program that it runs, without half a second of Python a file."""
    command = [get_core_path(), "leet", "inspect", "--no-observability", *flags, "--run-file", str(path), str(path.parent)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_file_equals_the_journal_and_the_ledger_for_both_readers(
    run: RunDirectory, wandb_command: Callable[..., str]
) -> None:
    """Scenario 16: offline with no key there are as many run files as trials, all readable back."""
    report = publish(run.path)
    curves, records = read_curves(run), {record.trial_id: record for record in Ledger(run.ledger).read()}
    assert (report.mode, report.num_published) == ("offline", len(records))
    assert "WANDB_API_KEY" in report.reason
    files = sorted(run.wandb.glob("offline-run-*/*.wandb"))
    seen = set()
    for path in files:
        ours = read_run(path)
        record = records[ours.config["trial_id"]]
        steps, losses = curves[record.trial_id]
        assert len(steps) == 201
        lines = [json.loads(line) for line in inspected(path, "--json").splitlines()]
        theirs = [line["history"]["item"] for line in lines if line["type"] == "history"]
        for history in (ours.history, theirs):
            assert [row["step"] for row in history] == [row["_step"] for row in history] == steps.tolist()
            assert [row["relative_loss"] for row in history] == losses.tolist()
        assert ours.run_id == f"{directory_id(run.wandb)}-{record.trial_id}"
        assert ours.group == ours.config["cell"]
        summary = json.loads(inspected(path, "--summary", "--json"))
        assert (summary["state"], summary["exit_code"]) == ("finished", 0)
        expected = run_config(
            record.trial_config,
            cell=ours.config["cell"],
            cell_id=cell_of(record.trial_config),
            directory_id=directory_id(run.wandb),
        )
        assert summary["config"] == ours.config == expected
        for name in ("status", "relative_loss", "relative_loss_stderr", "steps", "seconds"):
            assert summary["summary"][name] == ours.summary[name] == getattr(record, name), name
        seen.add(record.trial_id)
    assert seen == records.keys()
    assert len(files) == len(records)
    assert publish(run.path).num_up_to_date == len(records)
    assert wandb_command("leet", "inspect", str(files[0]), "--summary", "--json") == inspected(files[0], "--summary", "--json")
