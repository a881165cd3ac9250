"""Stopping in order: one exception, never inside a deferred block, and the signals are given back."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from cluster.run.stop import Stopped, sheltered, stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_becomes_one_exception(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stop_signals():
        os.kill(os.getpid(), number)
    assert stopped.value.signal_name == number.name
    assert signal.getsignal(number) == before


def test_a_deferred_block_ends_first() -> None:
    done = []
    with pytest.raises(Stopped), stop_signals() as stop:  # noqa: PT012
        with stop.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the line is whole")
        done.append("not reached")
    assert done == ["the line is whole"]


def test_a_polled_stop_waits_for_a_check() -> None:
    done = []
    with pytest.raises(Stopped), stop_signals() as stop, stop.polled():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        done.append("compiled code returned")
        stop.check()
        done.append("not reached")
    assert done == ["compiled code returned"]


def test_a_swallowed_stop_is_raised_again() -> None:
    with pytest.raises(Stopped), stop_signals() as stop:  # noqa: PT012
        with contextlib.suppress(Stopped):  # what a library's bare except would do
            os.kill(os.getpid(), signal.SIGTERM)
        stop.check()


def test_signals_that_a_library_took_are_taken_over_and_given_back_to_their_first_owner() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped), stop_signals() as stop:  # noqa: PT012
        signal.signal(signal.SIGTERM, lambda *_: None)
        stop.install()
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_stop_is_no_ordinary_exception() -> None:
    assert not issubclass(Stopped, Exception)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.requested is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_that_is_started_sheltered_does_not_notice_what_stops_the_run() -> None:
    with pytest.raises(Stopped), stop_signals():  # noqa: PT012
        with sheltered():
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        os.kill(os.getpid(), signal.SIGUSR1)
    child.send_signal(signal.SIGUSR1)
    child.send_signal(signal.SIGHUP)
    child.communicate(b"\n", timeout=60)
    assert child.returncode == 0
