"""W&B's terminal viewer (`wandb leet`) on the offline files of a run: W&B's own curves with no account and no server."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stsq_core.configs import UserError
from sweeps.store import open_run

Start = Callable[[Sequence[str], Mapping[str, str]], int]


def leet_command(run_path: Path | str) -> tuple[str, ...]:
    """The command that shows a run's offline files.

    Raises:
        UserError: it is no run, or it has no W&B file.
    """
    run = open_run(run_path)
    if not any(run.wandb.glob("*run-*/*.wandb")):
        raise UserError(
            f"{str(run.wandb)!r} holds no W&B file: nothing was published from {str(run.path)!r} yet, or W&B was disabled;"
            " run the sweep again with --wandb offline, which trains no trial again and writes the files"
        )
    return (sys.executable, "-m", "wandb", "leet", str(run.wandb))


def open_leet(run_path: Path | str, *, start: Start | None = None) -> int:
    """Show a run's offline files in this terminal until the viewer is left; returns its exit code.

    Raises:
        UserError: as `leet_command`, or standard output is no terminal, which the viewer needs.
    """
    command = leet_command(run_path)
    if start is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(f"`wandb leet` draws in a terminal and this is none: open one and run {' '.join(command[2:])!r} there")
    # the viewer reads files, so it sends nothing to a server
    return (start or _start)(command, {**os.environ, "WANDB_ERROR_REPORTING": "false"})


def _start(command: Sequence[str], environment: Mapping[str, str]) -> int:
    return subprocess.run(command, env=environment, check=False).returncode
