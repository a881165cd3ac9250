import time
from types import SimpleNamespace

import numba
import pytest

from stsq_core.kernels import jit
from stsq_core.kernels.compile_clock import TrainingClock, training_clock


@pytest.fixture
def now(monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: seconds[0])
    return seconds


def test_the_clock_stands_while_loops_are_compiled_one_within_another(now):
    one = TrainingClock()
    now[0] += 3
    assert one.trained() == 103
    with one.running():
        now[0] += 5
        one.begin()
        now[0] += 7
        assert one.trained() == 103
        one.end()
        now[0] += 1
        assert one.trained() == 103
    now[0] += 2
    assert one.trained() == 105


def test_it_goes_on_after_a_loop_that_cannot_be_compiled(now):
    one = TrainingClock()

    def compile_it():
        with one.running():
            now[0] += 5
            raise TypeError

    with pytest.raises(TypeError):
        compile_it()
    now[0] += 2
    assert one.trained() == 102


def test_what_numba_compiles_is_no_training():
    def cubed(x):
        return x * x * x

    compiled, before = numba.njit(cubed), (training_clock.trained(), time.perf_counter())
    assert compiled(3) == 27
    trained, passed = training_clock.trained() - before[0], time.perf_counter() - before[1]
    assert passed > 0.01  # Numba has never been quicker
    assert trained < passed / 2


def test_nor_is_waiting_for_another_process_that_compiles(monkeypatch, tmp_path):
    """The lock is never had: the process compiles itself when it has waited long enough."""

    locator = SimpleNamespace(ensure_cache_path=lambda: None)
    kept = SimpleNamespace(cache_path=str(tmp_path), _impl=SimpleNamespace(locator=locator))

    def never(*_):
        raise BlockingIOError

    monkeypatch.setattr(jit.fcntl, "lockf", never)
    monkeypatch.setattr(jit, "PATIENCE_S", 0.3)
    before = training_clock.trained(), time.perf_counter()
    assert not jit._wait_for(kept, 7)
    trained, passed = training_clock.trained() - before[0], time.perf_counter() - before[1]
    assert passed >= 0.3
    assert trained < 0.1
