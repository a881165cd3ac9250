"""Small sweeps and ways to run them, shared by the tests of this room."""

import copy
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
import yaml
from forked import Forge, Process, interpreter

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "name": "small",
    "hypothesis": "A few trials of both architectures end as results.",
    "criterion": {"target_loss": 0.6},
    "trials": [
        {
            "name": "transformer",
            "base": {
                "task": {"kind": "stsq", "T": 6, "q": 2, "d": 2},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 8}},
                "optimizer": {"kind": "adam", "lr": 0.03},
                "training": {"objective": "population", "batch_size": 16, "steps": 20},
                "evaluation": {"samples": 4096},
            },
            "grid": {"model.positions.d_e": [2, 8]},
            "seeds": 2,
        },
        {
            "name": "fcn",
            "base": {
                "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
                "model": {"kind": "fcn", "width": 8, "tail_width": 16},
                "optimizer": {"kind": "adam", "lr": 0.01},
                "training": {"batch_size": 16, "steps": 30},
                "evaluation": {"samples": 4096},
            },
            "grid": {"model.width": [2, 8]},
            "seeds": 2,
        },
    ],
}


@pytest.fixture(autouse=True, scope="session")
def _one_tree() -> Iterator[None]:
    """The tree of commands is made once: Typer makes it for every call, which in a process of its own is one."""
    with pytest.MonkeyPatch.context() as patch:
        made = cache(typer.main.get_command)
        patch.setattr("typer.main.get_command", made)
        patch.setattr("typer.testing._get_command", made)
        yield


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster, key or mode of whoever runs the tests."""
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "WANDB_API_KEY", "WANDB_MODE", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def small() -> dict[str, Any]:
    """The small sweep, to be changed at will."""
    return copy.deepcopy(SMALL)


@pytest.fixture
def write_sweep(tmp_path: Path) -> Callable[..., Path]:
    """Writes a sweep as a YAML file and returns its path; without one, the small sweep."""

    def write(sweep: object = SMALL, name: str = "sweep.yaml") -> Path:
        path = tmp_path / name
        path.write_text(sweep if isinstance(sweep, str) else yaml.safe_dump(sweep, sort_keys=False))
        return path

    return write


@pytest.fixture
def silent_server() -> Iterator[int]:
    """The port of a server that accepts connections and answers nothing."""
    with socket.create_server(("", 0)) as listening:
        yield listening.getsockname()[1]


class Stsq:
    """Runs the `stsq` command as its users do, in a process of its own; ends what it started.

    `code` is a program to run in place of `python -m cluster`, with the same words. Most are forked from a process that has
    loaded the libraries; `fresh` starts an interpreter.
    """

    def __init__(self, folder: Path, forge: Forge) -> None:
        self.folder = folder
        self.started: list[Process] = []
        self._forge = forge

    def start(self, *words: object, code: str | None = None, fresh: bool = False, **environment: str) -> Process:
        given = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        start = interpreter if fresh else self._forge.start
        process = start([str(word) for word in words], code=code, folder=self.folder, environment=given)
        self.started.append(process)
        return process

    def run(self, *words: object, timeout_s: float = 180, fresh: bool = False, **environment: str) -> "Ended":
        return self.wait(self.start(*words, fresh=fresh, **environment), timeout_s=timeout_s)

    @staticmethod
    def wait(process: Process, timeout_s: float = 180) -> "Ended":
        out, err = process.communicate(timeout=timeout_s)
        return Ended(process.returncode, out, err)


class Ended:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs the command in this process, in a folder of its own and without drawing the page, which takes seconds."""
    from cluster.commands import cli, session

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "write_page", lambda run, findings, **consoles: None)

    def call(*words: object) -> Ended:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in words])
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return call


@pytest.fixture
def stsq(tmp_path: Path, forge: Forge) -> Iterator[Stsq]:
    command = Stsq(tmp_path, forge)
    yield command
    for process in command.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=30)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory, forge: Forge) -> Path:
    """The small sweep, run by the command, with its page and offline W&B files; to be copied."""
    stsq = Stsq(tmp_path_factory.mktemp("ran"), forge)
    (stsq.folder / "sweep.yaml").write_text(yaml.safe_dump(SMALL, sort_keys=False))
    ended = stsq.run("run", "sweep.yaml", "--inline", "--wandb", "offline", "--out", "run")
    assert ended.code == 0, ended
    return stsq.folder / "run"


def wait_until(condition: Callable[[], object], timeout_s: float = 90.0, what: str = "the condition") -> object:
    """Wait for a condition; returns its first true value."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come within {timeout_s} s"
        time.sleep(0.02)
    return value


@pytest.fixture
def until() -> Callable[..., object]:
    return wait_until


def numbers_of(run: Path) -> dict[str, tuple[object, ...]]:
    """The numbers of a ledger by trial; a trial that stands there twice is an error."""
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    numbers = {x["trial_id"]: (x["status"], x["relative_loss"], x["relative_loss_stderr"], x["steps"]) for x in lines}
    assert len(lines) == len(numbers), "a trial stands in the ledger twice"
    return numbers


@pytest.fixture
def numbers() -> Callable[[Path], dict[str, tuple[object, ...]]]:
    return numbers_of
