"""A run counts as stalled when nothing has happened for the time that is documented, or no worker is there; once a stall."""

import threading
from collections.abc import Callable

import pytest

from cluster.commands.cli import run
from cluster.run.options import RunOptions
from cluster.run.stall import NO_WORKER_SHARE, STALLED_AFTER_S, Signs, StallWatch


class Run:
    """Signs as they are at each look, and the reports that came; `looks` counts the looks."""

    def __init__(self, change: Callable[[int], Signs] | None = None) -> None:
        self.signs = Signs(0, {"pack": 1})
        self.change = change
        self.num_looks = 0
        self.reports: list[str] = []
        self.reported = threading.Event()
        self.looks = threading.Semaphore(0)

    def see(self) -> Signs:
        self.looks.release()
        self.num_looks += 1
        return self.change(self.num_looks) if self.change else self.signs

    def report(self, why: str) -> None:
        self.reports.append(why)
        self.reported.set()

    def wait(self, num_looks: int = 3) -> None:
        while self.looks.acquire(blocking=False):
            pass
        for _ in range(num_looks):
            assert self.looks.acquire(timeout=30)


@pytest.mark.slow
def test_silence_is_reported_once_and_again_after_the_run_went_on() -> None:
    seen = Run()
    with StallWatch(seen.see, seen.report, after_s=0.4):
        assert seen.reported.wait(30)
        seen.wait(10)
        assert len(seen.reports) == 1
        assert seen.reports[0].startswith("no trial has ended and no step was trained for ")
        seen.reported.clear()
        seen.signs = Signs(0, {"pack": 2})
        assert seen.reported.wait(30)
    assert len(seen.reports) == 2


@pytest.mark.parametrize("change", [
    lambda n: Signs(n, {"pack": 1}), lambda n: Signs(0, {"pack": n}), lambda n: Signs(0, {f"pack{n}": 0}),
])  # fmt: skip
def test_a_run_that_goes_on_is_not_stalled(change: Callable[[int], Signs]) -> None:
    seen = Run(change)
    with StallWatch(seen.see, seen.report, after_s=0.4):
        seen.wait(8)
    assert seen.reports == []


@pytest.mark.slow
def test_without_a_worker_it_is_reported_sooner() -> None:
    seen = Run()
    seen.signs = Signs(3, {})
    with StallWatch(seen.see, seen.report, after_s=3.0):
        assert seen.reported.wait(30)
    assert seen.reports[0].startswith("no worker has had anything to train for ")


def test_zero_never_looks() -> None:
    seen = Run()
    with StallWatch(seen.see, seen.report, after_s=0):
        assert not seen.looks.acquire(timeout=0.3)


def test_the_times_are_those_of_the_options_and_the_page() -> None:
    assert run.__defaults__ is not None
    assert STALLED_AFTER_S in run.__defaults__
    assert RunOptions().stalled_after_s == STALLED_AFTER_S == 1800
    assert STALLED_AFTER_S * NO_WORKER_SHARE == 600
