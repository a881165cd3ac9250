"""When, where and with which versions a sweep was run: the provenance of its numbers, and the clock of its time budget."""

import os
import platform
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from stsq_core.configs import UserError
from sweeps.store.jsonl import JsonLines, append_lines, read_lines
from sweeps.store.run_directory import RunDirectory

PACKAGES = ("stsq", "torch", "ray", "numpy", "optuna", "pydantic", "wandb", "plotly", "matplotlib")

MAX_TIME = 2.0**36
"""Seconds since 1970 that are a date."""

ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster", "stsq")
"""The folders of our code."""


@dataclass(frozen=True)
class Session:
    """One time that a sweep was run.

    `started_at` and `ended_at` are seconds since 1970; `ended_at` is None while the session runs. `outcome` is `killed` for one
    whose end nobody wrote down: then `ended_at` is when it last wrote a result or a measurement. `lasted_s` is what a clock
    that is never set measured of a session that ended by itself.
    """

    started_at: float
    ended_at: float | None
    outcome: str | None
    command: str
    host: str
    cpu: str
    num_cpus: int
    git_revision: str | None
    versions: dict[str, str]
    lasted_s: float | None = None

    @property
    def seconds(self) -> float:
        """Wall time, up to now for a session that runs."""
        if self.lasted_s is not None:
            return self.lasted_s
        return max((time.time() if self.ended_at is None else self.ended_at) - self.started_at, 0.0)


@contextmanager
def session(run: RunDirectory, command: Sequence[str] | None = None) -> Iterator[None]:
    """Write down the start and the end of a session of a run whose lock is held.

    A former session that was killed is closed first, at the time of the last thing it wrote.
    """
    if (former := list(session_lines(run))) and isinstance(former[-1], _Start):
        _append(run, {"event": "end", "at": _last_sign_of_life(run, former[-1].at), "outcome": "killed"})
    _append(run, {"event": "start", "at": time.time(), **_circumstances(sys.argv if command is None else command)})
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        with suppress(UserError):  # the error that ends the session is the one to report
            _append(run, _end(f"stopped by {type(error).__name__}", began))
        raise
    _append(run, _end("ended", began))


def read_sessions(run: RunDirectory) -> tuple[Session, ...]:
    """The sessions of a run, oldest first."""
    sessions: list[Session] = []
    for line in read_lines(session_lines(run)):
        if isinstance(line, _Start):
            sessions.append(line.session)
        elif sessions and sessions[-1].ended_at is None:
            sessions[-1] = replace(sessions[-1], ended_at=line.at, outcome=line.outcome, lasted_s=line.lasted_s)
    return tuple(sessions)


def session_lines(run: RunDirectory) -> "JsonLines[_Start | _End]":
    """The lines of the file: a start or an end each."""
    return JsonLines(run.sessions, lambda fields, _: _EVENT.validate_python(fields))


def elapsed_minutes(run: RunDirectory) -> float:
    """Wall minutes of the sessions of a run that have ended: what counts against `budget.minutes` beside the present one.

    A session that runs is left to a clock that nobody sets.
    """
    return sum(one.seconds for one in read_sessions(run) if one.ended_at is not None) / 60


class _Event(BaseModel):
    """A line of the file; fields of later versions are passed over."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    at: Annotated[float, Field(ge=0, lt=MAX_TIME)]


class _Start(_Event):
    event: Literal["start"]
    command: str
    host: str
    cpu: str
    num_cpus: int
    git_revision: str | None
    versions: dict[str, str]

    @property
    def session(self) -> Session:
        fields = self.model_dump(exclude={"event", "at"})
        return Session(started_at=self.at, ended_at=None, outcome=None, **fields)


class _End(_Event):
    event: Literal["end"]
    outcome: str
    lasted_s: Annotated[float, Field(ge=0, lt=MAX_TIME)] | None = None


_EVENT: TypeAdapter[_Start | _End] = TypeAdapter(_Start | _End)


def _end(outcome: str, began: float) -> dict[str, Any]:
    return {"event": "end", "at": time.time(), "lasted_s": round(time.monotonic() - began, 3), "outcome": outcome}


def _circumstances(command: Sequence[str]) -> dict[str, Any]:
    return {
        "command": shlex.join(command),
        "host": socket.gethostname(),
        "cpu": _cpu_name(),
        "num_cpus": os.cpu_count() or 1,
        "system": platform.platform(),
        "git_revision": _git_revision(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    """The versions of Python and of what matters to the numbers and their pictures, without importing any of it."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _git_revision() -> str | None:
    """The commit of the code that runs, marked where files differ from it; None where the code is not a checkout."""
    file = Path(__file__)
    root = file.parents[2]
    tracked = _git(root, "ls-files", "--error-unmatch", str(file.relative_to(root)))
    revision = _git(root, "rev-parse", "HEAD")
    if not tracked or not revision:
        return None
    return f"{revision} with changes" if _git(root, "status", "--porcelain", "--untracked-files=no", *ROOMS) else revision


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _last_sign_of_life(run: RunDirectory, started_at: float) -> float:
    written = [run.ledger, *run.curves.glob("*.jsonl"), *run.checkpoints.glob("**/*")]
    return max([started_at, *(path.stat().st_mtime for path in written if path.is_file())])


def _append(run: RunDirectory, event: dict[str, Any]) -> None:
    append_lines(run.sessions, [event])
