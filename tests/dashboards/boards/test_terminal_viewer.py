"""W&B's terminal viewer on the files that the publisher writes, in a terminal of its own."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from dashboards.boards.viewers import leet_command, open_leet
from dashboards.publishing.publisher import publish
from stsq_core import UserError
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]
PATIENCE_S = 90.0


@pytest.fixture
def offline_run(make_run: MakeRun, fully_connected: dict[str, Any]) -> RunDirectory:
    """A run whose trials lie in offline files."""
    run = make_run(trials=[{**fully_connected, "zip": {}, "grid": {"model.width": [4, 8]}, "seeds": 1}])
    publish(run.path, mode="offline")
    return run


class Terminal:
    """A command in a terminal of 140 by 40 letters; `shown` is everything that it has drawn."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._screen, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, env={**environment, "TERM": "xterm"}, start_new_session=True
        )
        os.close(inside)
        self.shown = b""

    def wait_for(self, *words: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in self.shown for word in words):
            assert time.monotonic() < deadline, f"{words} did not appear: {self.shown[-2000:]!r}"
            self._read()

    def leave(self) -> int:
        """Press q and wait for the end."""
        os.write(self._screen, b"q")
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read()
        return self.process.wait(timeout=1)

    def _read(self) -> None:
        if select.select([self._screen], [], [], 0.2)[0]:
            try:
                self.shown += os.read(self._screen, 65_536)
            except OSError:  # what Linux says of a terminal whose program has ended
                time.sleep(0.05)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._screen)


@pytest.mark.slow
def test_the_viewer_shows_the_runs_and_leaves_no_trace(offline_run: RunDirectory) -> None:
    files = sorted(path for path in offline_run.wandb.rglob("*.wandb"))
    terminals: list[Terminal] = []

    def start(command: Sequence[str], environment: Mapping[str, str]) -> int:
        terminals.append(Terminal(command, environment))
        terminals[0].wait_for(b"Config", b"relative_loss")
        return terminals[0].leave()

    try:
        assert open_leet(offline_run.path, start=start) == 0
    finally:
        terminals[0].close()
    assert sorted(path for path in offline_run.wandb.rglob("*.wandb")) == files


def test_a_run_without_files_says_how_to_get_them(make_run: MakeRun, fully_connected: dict[str, Any]) -> None:
    run = make_run(trials=[fully_connected])
    with pytest.raises(UserError, match=r"holds no W&B file.*--wandb offline"):
        leet_command(run.path)


def test_without_a_terminal_the_command_to_run_in_one_is_named(offline_run: RunDirectory) -> None:
    with pytest.raises(UserError, match=r"draws in a terminal and this is none.*wandb leet"):
        open_leet(offline_run.path)
