"""The watchdog: a pack whose files stand still for too long hangs, whatever any clock of nodes or file servers says."""

import os
from pathlib import Path

import pytest

from cluster.tune.watch import MIN_SILENCE_S, SILENCE_IN_PAUSES, Watchdog
from sweeps.store.run_directory import RunDirectory


class Clock:
    """Seconds that pass when they are set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path)
    made.make_rooms()
    made.spec.write_text("name: x")
    return made


def look(
    watchdog: Watchdog, clock: Clock, *, until: float, every_s: float = 10.0, packs: tuple[str, ...] = ("a",)
) -> dict[str, float]:
    """What the last of many looks tells; the first that tells something is the last."""
    while clock.seconds < until:
        clock.seconds += every_s
        if silent := watchdog.hung(packs):
            return silent
    return {}


def test_a_pack_that_stands_still_hangs_and_one_that_moves_does_not(run: RunDirectory) -> None:
    clock = Clock()
    watchdog = Watchdog(run, now=clock, checkpoint_every_s=1.0)
    still, moving = run.curves / "still.jsonl", run.curves / "moving.jsonl"
    still.write_text("step 0\n")
    silent: dict[str, float] = {}
    while not silent and clock.seconds < 3 * MIN_SILENCE_S:
        clock.seconds += 10.0
        moving.write_text(f"{clock.seconds}\n")
        silent = watchdog.hung(["still", "moving"])
    assert silent.keys() == {"still"}
    assert MIN_SILENCE_S < silent["still"] < MIN_SILENCE_S + 40
    assert MIN_SILENCE_S < clock.seconds < MIN_SILENCE_S + 60


def test_a_pause_that_was_measured_is_allowed_ten_times(run: RunDirectory) -> None:
    clock = Clock()
    watchdog = Watchdog(run, now=clock, checkpoint_every_s=1.0)
    state = run.checkpoints / "a.state"
    state.write_text("1")
    assert not look(watchdog, clock, until=200.0)
    state.write_text("22")
    assert not look(watchdog, clock, until=230.0)
    assert watchdog.silence_s >= SILENCE_IN_PAUSES * 180.0
    assert not look(watchdog, clock, until=1500.0)
    assert look(watchdog, clock, until=3000.0)


@pytest.mark.parametrize("at", [-(10**9), 10**9])
def test_times_of_files_are_compared_with_nothing_but_themselves(run: RunDirectory, at: int) -> None:
    clock = Clock()
    watchdog = Watchdog(run, hung_after_s=100.0, now=clock)
    journal = run.curves / "a.jsonl"
    for number in range(20):
        journal.write_text(f"{number:09}")
        os.utime(journal, (at + number, at + number))  # a file server whose clock is decades off
        assert not look(watchdog, clock, until=clock.seconds + 60.0)
    assert look(watchdog, clock, until=clock.seconds + 200.0)


def test_zero_waits_for_ever_and_an_option_is_taken_at_its_word(run: RunDirectory) -> None:
    clock = Clock()
    assert not look(Watchdog(run, hung_after_s=0.0, now=clock), clock, until=10_000.0)
    silent = look(Watchdog(run, hung_after_s=30.0, now=clock), clock, until=clock.seconds + 100.0, every_s=2.0)
    assert 30.0 < silent["a"] < 40.0


def test_a_look_that_comes_late_and_storage_that_is_away_start_the_watch_anew(run: RunDirectory) -> None:
    clock = Clock()
    watchdog = Watchdog(run, hung_after_s=100.0, now=clock)
    assert not look(watchdog, clock, until=50.0)
    clock.seconds = 500.0  # this process was held up
    assert not watchdog.hung(["a"])
    assert not look(watchdog, clock, until=590.0)
    run.spec.rename(run.path / "away")
    assert not look(watchdog, clock, until=900.0)
    (run.path / "away").rename(run.spec)
    assert not look(watchdog, clock, until=980.0)
    assert look(watchdog, clock, until=1100.0)
