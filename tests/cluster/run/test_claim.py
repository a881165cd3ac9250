"""Claims: one worker at a time writes a pack's files, and one from whom they were taken knows it."""

import time
from pathlib import Path

import pytest

from cluster.run.claim import Claim, SupersededError
from stsq_core.kernels import training_clock


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims are taken over at once."""
    monkeypatch.setattr("cluster.run.claim.PATIENCE_S", 0.0)


def test_a_claim_is_given_back_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    for _ in range(2):
        with Claim(tmp_path / "pack.claim") as claim:
            claim.check()
            assert (tmp_path / "pack.claim").read_text().endswith(", claim 1\n")
        assert not list(tmp_path.iterdir())
        assert claim.taken_from is None
    with pytest.raises(SupersededError, match="held by nobody"):
        claim.check()


@pytest.mark.usefixtures("impatient")
def test_whoever_held_a_claim_that_was_taken_may_write_no_more(tmp_path: Path) -> None:
    path = tmp_path / "pack.claim"
    first = Claim(path).__enter__()
    with Claim(path) as second:
        assert second.taken_from == path.read_text().strip().replace("claim 2", "claim 1")
        second.check()
        with Claim(path) as third:
            third.check()
            for late in (first, second):
                with pytest.raises(SupersededError, match=r"held by .*claim 3 and no longer by"):
                    late.check()
            first.__exit__(None, None, None)
            third.check()
    assert not list(tmp_path.iterdir())


def test_the_number_grows_where_a_killed_worker_left_its_claim(tmp_path: Path) -> None:
    (tmp_path / "pack.claim").write_text("process 1 on elsewhere, claim 7\n")
    with Claim(tmp_path / "pack.claim") as claim:
        assert claim.taken_from is None
        assert (tmp_path / "pack.claim").read_text().endswith(", claim 8\n")


def test_its_time_is_when_training_began_without_the_compiling_of_loops(tmp_path: Path) -> None:
    path = tmp_path / "p.claim"
    with Claim(path) as claim:
        began_at = path.stat().st_mtime
        claim.note_compiling()
        assert path.stat().st_mtime == began_at
        with training_clock.running():
            time.sleep(0.7)
            claim.note_compiling()
            assert path.stat().st_mtime == pytest.approx(began_at + 0.7, abs=0.15)
        claim.note_compiling()
        assert path.stat().st_mtime == pytest.approx(began_at + 0.7, abs=0.15)
        claim.check()
