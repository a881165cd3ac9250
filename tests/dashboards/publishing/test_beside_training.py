"""Publishing beside a real `stsq run`: the process that trains makes no network call and waits for nothing of W&B's, whatever
the server does, and everything arrives once the server is well."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked import Forge, Process, interpreter
from wandb_files import OfflineRun, read_run

from cluster.commands.cli import main
from sweeps.store.journal import read_curves
from sweeps.store.ledger import Ledger, LedgerRecord
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
AUDITED = """
import json, os, sys
calls = []
NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr",
           "socket.getnameinfo", "socket.sendto", "socket.sendmsg", "urllib.Request", "http.client.connect", "ssl.")
sys.addaudithook(lambda event, args: calls.append(f"{event} {args}") if event.startswith(NETWORK) else None)
from cluster.commands.cli import main
try:
    main(sys.argv[2:])
finally:
    with open(sys.argv[1], "w") as file:
        json.dump({"calls": calls, "wandb": "wandb" in sys.modules}, file)
"""
FAILING = """
import sys
from stsq_core import training
train_pack = training.train_pack
def train(configs, **how):
    if configs[0].model.kind == "fcn":
        raise RuntimeError("a cosmic ray")
    return train_pack(configs, **how)
training.train_pack = train
from cluster.commands.cli import main
main(sys.argv[1:])
"""
FCN = {
    "name": "fcn",
    "base": {
        "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "width": 8, "tail_width": 16},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"batch_size": 16, "steps": 200, "log_every": 1},
        "evaluation": {"samples": 4096},
    },
    "seeds": 3,
}
TRANSFORMER = {
    "name": "transformer",
    "base": {
        "task": {"kind": "stsq", "T": 6, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 8}},
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "batch_size": 16, "steps": 200, "log_every": 1},
        "evaluation": {"samples": 4096},
    },
    "grid": {"model.positions.d_e": [2, 8]},
    "seeds": 2,
}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Seven trials in two cells, as a sweep file."""
    return _written(tmp_path, {"trials": [TRANSFORMER, FCN]})


@pytest.fixture
def call(tmp_path: Path, forge: Forge) -> Iterator[Callable[..., Process]]:
    """Starts `stsq` (or `code`, with the same words) in a process of its own, which is killed if the test leaves it running."""
    started: list[Process] = []

    def start(*words: object, code: str | None = None, fresh: bool = False) -> Process:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        begin = interpreter if fresh else forge.start
        process = begin([str(word) for word in words], code=code, folder=tmp_path, environment=environment)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def sync(capsys: pytest.CaptureFixture[str]) -> Callable[[Path], str]:
    """Runs `stsq wandb sync` in this process, and gives what it prints."""

    def run(path: Path) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["wandb", "sync", str(path)])
        printed = capsys.readouterr()
        assert not ended.value.code, printed.err
        return printed.out

    return run


@pytest.mark.parametrize("failure", [None, 401, 403, 404, 429, 500, "hang"])
def test_training_calls_no_network_and_waits_for_no_server(
    tmp_path: Path, sweep: Path, call: Callable[..., Any], sync: Callable[[Path], str], server: Any, failure: int | str | None
) -> None:
    """Scenario 17 at the end: `sync` twice, and the second does nothing.

    A failing server stays so until every trial is in the ledger: no training can have waited for an answer.
    """
    run = RunDirectory(tmp_path / "run")
    server.failure = failure
    words = (tmp_path / "audit.json", "run", sweep, "--inline", "--out", run.path)
    process = call(*words, code=AUDITED, fresh=failure is None)  # what it loads makes no call either
    _until(lambda: len(Ledger(run.ledger).read()) == 7 or process.poll() is not None)
    if failure is not None:
        assert server.runs == {}
    server.heal()
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "page:" in out
    audit = json.loads((tmp_path / "audit.json").read_text())
    assert audit == {"calls": [], "wandb": False}
    synced = [sync(run.path) for _ in range(2)]
    assert synced[1].endswith("0 runs published, 7 were up to date\n")
    received = {name: one.num_received for name, one in server.runs.items()}
    curves = read_curves(run)
    assert len(received) == 7
    for one in server.runs.values():
        steps, losses = curves[one.config["trial_id"]]
        assert [row["_step"] for row in one.rows] == steps.tolist() == list(range(201))
        assert [row["relative_loss"] for row in one.rows] == losses.tolist()


def test_without_a_server_it_is_said_once_and_sync_publishes_later(
    tmp_path: Path,
    sweep: Path,
    call: Callable[..., Any],
    sync: Callable[[Path], str],
    start_server: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    run = RunDirectory(tmp_path / "run")
    process = call(tmp_path / "audit.json", "run", sweep, "--inline", "--out", run.path, code=AUDITED)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert json.loads((tmp_path / "audit.json").read_text()) == {"calls": [], "wandb": False}
    (line,) = [line for line in errors.replace("\n  ", " ").splitlines() if "W&B" in line]
    assert "written offline" in line
    assert len(list(run.wandb.glob("offline-run-*/*.wandb"))) == 7
    server = start_server(port)
    assert "7 runs published" in sync(run.path)
    assert len(server.runs) == 7


def test_flags_name_project_entity_and_tags_and_a_later_sync_keeps_them(
    tmp_path: Path, sweep: Path, call: Callable[..., Any], sync: Callable[[Path], str], server: Any
) -> None:
    flags = ("--wandb-project", "attention", "--wandb-entity", "lab", "--wandb-tags", "a, b")
    _ended(call("run", sweep, "--inline", "--wandb", "offline", "--out", tmp_path / "run", *flags))
    assert {read.project for read in _runs(tmp_path / "run").values()} == {"attention"}
    sync(tmp_path / "run")
    for one in server.runs.values():
        assert (one.fields["project"], one.fields["entity"], one.fields["tags"]) == ("attention", "lab", ["a", "b"])


def test_three_failed_trials_are_retried_alone_and_their_runs_say_so(
    tmp_path: Path, sweep: Path, call: Callable[..., Any]
) -> None:
    """Scenario 18: three trials fail; `--retry-failed` runs exactly those three."""
    run = RunDirectory(tmp_path / "run")
    words = ("run", sweep, "--inline", "--set", "budget.retries=0", "--out", run.path)
    _ended(call(*words, code=FAILING), code=1)
    before, shown = _lines(run), _runs(run.path)
    failed = {record.trial_id for record in before if record.status == "failed"}
    assert len(failed) == 3
    assert {trial_id for trial_id, one in shown.items() if one.exit_code == 1} == failed
    files = {path: path.stat().st_mtime_ns for path in run.wandb.glob("offline-run-*/*.wandb") if path.stem[-16:] not in failed}
    _ended(call(*words, "--retry-failed"))
    after = _lines(run)
    assert after[: len(before)] == before
    assert {record.trial_id for record in after[len(before) :]} == failed
    assert len(after) == len(before) + 3
    shown = _runs(run.path)
    assert len(shown) == 7
    assert {one.summary["status"] for one in shown.values()} == {"finished"}
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_the_rows_of_a_search_stream_while_its_first_points_train(
    tmp_path: Path, call: Callable[..., Any], server: Any
) -> None:
    base = FCN["base"] | {
        "model": {"kind": "fcn", "tail_width": 16},
        "training": {"batch_size": 16, "steps": 10**6, "log_every": 1000},
    }
    searched = {"name": "fcn", "base": base, "search": {"low": 2, "high": 24}}
    sweep = _written(tmp_path, {"trials": [searched], "search": {"batch": 4, "cap": 8}})
    run = RunDirectory(tmp_path / "run")
    process = call("run", sweep, "--inline", "--out", run.path)
    _until(lambda: process.poll() is not None or any(len(one.rows) > 1 for one in [*server.runs.values()]))
    assert process.poll() is None, process.communicate()
    assert not run.ledger.exists()
    process.kill()
    _until(lambda: all(one.exit_code == 130 for one in server.runs.values()))


@pytest.mark.ray
def test_twenty_trials_through_reused_workers_are_twenty_runs_with_their_own_configs(
    tmp_path: Path, call: Callable[..., Any]
) -> None:
    """Scenario 15."""
    sweep = _written(tmp_path, {"trials": [FCN | {"grid": {"task.T": [4, 5, 6, 7, 8]}, "seeds": 4}]})
    run = RunDirectory(tmp_path / "run")
    _ended(call("run", sweep, "--workers", 2, "--out", run.path))
    records = {record.trial_id: record for record in Ledger(run.ledger).read()}
    shown = _runs(run.path)
    assert shown.keys() == records.keys()
    assert len({one.run_id for one in shown.values()}) == len(records) == 20
    for trial_id, one in shown.items():
        config = records[trial_id].config
        assert (one.config["task"], one.config["seed"]) == (config["task"], config["seed"])


def _written(folder: Path, parts: dict[str, Any]) -> Path:
    path = folder / "sweep.yaml"
    fields = {"name": "small", "hypothesis": "A few trials end as results.", "criterion": {"target_loss": 0.6}}
    path.write_text(yaml.safe_dump(fields | parts))
    return path


def _ended(process: Process, *, code: int = 0) -> str:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    return out


def _lines(run: RunDirectory) -> list[LedgerRecord]:
    return Ledger(run.ledger).follow()[0]


def _runs(path: Path) -> dict[str, OfflineRun]:
    read = [read_run(file) for file in sorted(path.glob("wandb/offline-run-*/*.wandb"))]
    by_trial = {one.config["trial_id"]: one for one in read}
    assert len(by_trial) == len(read)
    return by_trial


def _until(happened: Callable[[], bool], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
