"""The watch over a cluster's head: one that does not answer, one that was restarted, a main thread that cannot hear of it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.tune import watch as module
from cluster.tune.watch import HeadWatch
from stsq_core import UserError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.05)
    monkeypatch.setattr(module, "HEAD_LOST_AFTER_S", 0.3)
    monkeypatch.setattr(module, "HEARD_WITHIN_S", 600.0)


@pytest.fixture
def head() -> Iterator[socket.socket]:
    """Somebody who listens, as a head does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def address_of(head: socket.socket) -> str:
    return f"127.0.0.1:{head.getsockname()[1]}"


def test_a_head_that_answers_is_not_lost_and_is_asked_for_its_id_once(head: socket.socket, until: Any) -> None:
    asked: list[str] = []

    def cluster_id(address: str) -> str:
        asked.append(address)
        return f"id {len(asked)}"

    head.settimeout(60)
    with HeadWatch(address_of(head), cluster_id) as watch:
        for _ in range(8):
            head.accept()[0].close()
        watch.check()
    assert asked == [address_of(head)]


def test_a_head_that_does_not_answer_is_one_error_that_says_how_to_go_on(head: socket.socket, until: Any) -> None:
    with HeadWatch(address_of(head), lambda _: "one") as watch:
        head.close()
        until(lambda: watch.lost, what="the loss")
        with pytest.raises(
            UserError, match=r"head of the Ray cluster at 127.0.0.1:\d+ has not answered.*the same command goes on"
        ):
            watch.check()


@pytest.mark.parametrize("same", [True, False])
def test_a_head_that_was_away_is_asked_whether_it_is_the_same(
    head: socket.socket, until: Any, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    monkeypatch.setattr(module, "HEAD_LOST_AFTER_S", 600.0)
    looks, asked = iter([True, False, False]), iter(["one", None, "one" if same else "two"])
    monkeypatch.setattr(module, "_accepts_connections", lambda _: next(looks, True))
    with HeadWatch(address_of(head), lambda _: next(asked)) as watch:
        if same:
            until(lambda: asked.__length_hint__() == 0, what="the questions")
            watch.check()
            return
        until(lambda: watch.lost, what="the loss")
        with pytest.raises(UserError, match="was restarted"):
            watch.check()


DEAF = """
import threading
from cluster.tune import watch
watch.POLL_S = watch.HEAD_LOST_AFTER_S = watch.HEARD_WITHIN_S = 0.1
with watch.HeadWatch("127.0.0.1:1", lambda _: "one"):
    threading.Event().wait()
"""


def test_a_main_thread_that_waits_in_rays_code_is_not_waited_for() -> None:
    ended = subprocess.run([sys.executable, "-c", DEAF], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2, ended
    (line,) = ended.stderr.splitlines()
    assert line.startswith("stsq: the head of the Ray cluster at 127.0.0.1:1 has not answered")
