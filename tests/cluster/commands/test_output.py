"""What becomes of standard output changes no exit code of a run, and loses no page."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.run import unfailing_output

ROOT = Path(__file__).parents[3]
QUIET = ("--inline", "--wandb", "disabled")
Here, Write = Callable[..., Any], Callable[..., Path]


def shell(line: str, *words: object, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a line of bash, in which `"$@"` is `stsq` with these words; its exit code is that of `stsq`."""
    command = ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}", "bash", sys.executable, "-m", "cluster", *map(str, words)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, timeout=300)


@pytest.fixture
def run(here: Here, write_sweep: Write, small: dict[str, Any], tmp_path: Path) -> Path:
    """A run that has ended, in a folder and with a title whose letters not every encoding has."""
    small["title"] = "Wie breit muß es sein?"
    assert here("run", write_sweep(small), "--out", tmp_path / "größer", *QUIET).code == 0
    return tmp_path / "größer"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "environment"),
    [
        ('"$@"', {"PYTHONIOENCODING": "ascii"}),
        ('"$@"', {"LC_ALL": "C", "PYTHONUTF8": "0"}),
        ('"$@" | head -1', {}),
        ('"$@" > /dev/full', {}),
        ('"$@" >&- 2>&-', {}),
    ],
)
def test_a_run_ends_with_its_own_exit_code_and_its_page(run: Path, line: str, environment: dict[str, str]) -> None:
    assert not (run / "report/index.html").exists()
    done = shell(line, "run", run, *QUIET, **environment)
    assert done.returncode == 0, done
    assert b"Traceback" not in done.stderr
    assert b"could not be drawn" not in done.stderr
    page = (run / "report/index.html").read_bytes()
    assert "größer".encode() in page
    if environment:
        assert rb"gr\xf6\xdfer" in done.stdout or rb"gr\udcc3\udcb6\udcc3\udc9fer" in done.stdout
        assert b"page: " in done.stdout


@pytest.mark.slow
def test_what_only_shows_says_that_it_could_not(run: Path) -> None:
    full = shell('"$@" > /dev/full', "show", run)
    assert full.returncode == 2, full
    assert full.stderr == b"stsq: the output cannot be written: No space left on device\n"
    cut = shell('"$@" | head -1', "show", run)
    assert (cut.returncode, cut.stderr) == (0, b""), cut
    assert cut.stdout.count(b"\n") == 1


def test_output_that_cannot_be_written_is_given_up_and_what_follows_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", buffering=1) as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        with unfailing_output():
            print("lost")
            print("lost as well")
        assert sys.stdout is full
        assert os.readlink(f"/proc/self/fd/{full.fileno()}") == os.devnull


def test_control_characters_of_a_file_do_not_reach_the_terminal(here: Here, write_sweep: Write, small: dict[str, Any]) -> None:
    small["title"] = "red \x1b[31m and a bell \x07 and \x9b2J"
    planned = here("plan", write_sweep(small))
    assert planned.code == 0, planned
    assert r"red \x1b[31m and a bell \x07 and \x9b2J" in planned.out
    refused = here("plan", "no\x1b]0;such")
    assert refused.code == 2
    assert "\x1b" not in planned.out + planned.err + refused.out + refused.err
