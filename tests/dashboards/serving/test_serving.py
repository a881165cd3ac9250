"""`stsq open page` as a process of its own: it says where it listens, and Ctrl-C ends it and its renderer."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from synthetic_runs import make_run, sweep, transformers

from dashboards.serving.server import serving
from stsq_core import UserError
from sweeps.store.run_directory import RunDirectory

PATIENCE_S = 400.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for child processes in /proc")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", sweep(trials=[transformers([16, 32])]))


def children(pid: int) -> list[int]:
    """The processes that the threads of a process have started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in files for child in path.read_text().split()]


def wait_until(condition: object, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, words
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_its_renderer_ends_too(run: RunDirectory, one: signal.Signals) -> None:
    command = [sys.executable, "-m", "cluster", "open", "page", str(run.path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert url, line
        assert urllib.request.urlopen(url[0], timeout=60).status == 200
        wait_until(lambda: any(_renders(child) for child in children(process.pid)), "no renderer was started")
        renderers = [child for child in children(process.pid) if _renders(child)]
        process.send_signal(one)
        assert process.wait(PATIENCE_S) == (0 if one != signal.SIGKILL else -signal.SIGKILL)
        wait_until(lambda: not any(_renders(child) for child in renderers), "the renderer outlived its server")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_a_renderer_that_dies_is_started_again_and_said(run: RunDirectory) -> None:
    said: list[str] = []
    was_said = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        was_said.set()

    with serving([str(run.path)], say=say) as (url, _):
        wait_until(lambda: any(_renders(child) for child in children(os.getpid())), "no renderer was started")
        [renderer] = [child for child in children(os.getpid()) if _renders(child)]
        os.kill(renderer, signal.SIGKILL)
        assert was_said.wait(PATIENCE_S)
        wait_until(lambda: any(_renders(child) and child != renderer for child in children(os.getpid())), "not started again")
        assert urllib.request.urlopen(url, timeout=60).status == 200
    assert "is started again" in said[0]
    assert not any(_renders(child) for child in children(os.getpid()))


@pytest.mark.slow
def test_looking_changes_nothing_in_the_run(run: RunDirectory) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    with serving([str(run.path)]) as (url, _):
        wait_until(lambda: b"thresholds" in urllib.request.urlopen(url, timeout=60).read(), "the page was never drawn")
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_what_is_no_run_and_a_port_that_is_taken_are_refused(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run"), serving([str(tmp_path / "empty")]):
        pass
    with serving([str(run.path)]) as (url, _):
        port = int(url.rstrip("/").rpartition(":")[2])
        with pytest.raises(UserError, match="cannot listen on port"), serving([str(run.path)], port=port):
            pass


def _renders(pid: int) -> bool:
    try:
        return b"dashboards.serving.renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
