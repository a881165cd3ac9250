"""The ends of what is left, in operations of one worker."""

import pytest

from sweeps.schedule.time_left import Ahead, Load, Outlook, WorkerPace, ends_of, shares


def test_packs_go_to_the_worker_that_is_free_first() -> None:
    ends = ends_of([Load((), 3.0), Load((), 1.0)], [Load((), 4.0), Load((), 1.0)], (), num_workers=2)
    assert ends.packs == (3.0, 1.0, 5.0, 4.0)
    assert ends.last == 5.0
    assert ends_of([], [], (), num_workers=2).last == 0.0


def test_a_round_waits_for_the_last_pack_of_its_cells() -> None:
    ahead = [Ahead(("a",), num_trials=8, num_rounds=2, operations=8.0)]
    alone = ends_of([Load(("b",), 1.0), Load(("a",), 6.0)], [], ahead, num_workers=2)
    assert alone.cells == {"a": 6.0 + 2.0 + 2.0}  # four operations a round, on both workers
    one_trial = [Ahead(("a",), num_trials=2, num_rounds=2, operations=8.0)]
    assert ends_of([Load(("a",), 6.0)], [], one_trial, num_workers=2).cells["a"] == 6.0 + 4.0 + 4.0


def test_laws_choose_among_cells_that_wait_together() -> None:
    ahead = [Ahead(("a", "b"), num_trials=3, num_rounds=1, operations=2.0)]
    ends = ends_of([Load(("a",), 5.0), Load(("b",), 1.0)], [], ahead, num_workers=2)
    assert ends.cells == {"a": 6.0, "b": 6.0}
    assert ahead[0].trials_by_cell == {"a": 1, "b": 2}


def test_pauses_of_workers_are_part_of_their_pace() -> None:
    pace = WorkerPace.of(100.0, trained_s=1000.0, span_s=1000.0, num_workers=2)
    assert pace.busy == pytest.approx(0.5, rel=0.01)
    assert pace.seconds(100.0) == pytest.approx(2.0, rel=0.01)
    soon = WorkerPace.of(100.0, trained_s=1.0, span_s=2.0, num_workers=2)
    assert soon.busy == pytest.approx(11 / 14)  # pauses of a moment say little
    assert WorkerPace.of(100.0, trained_s=30.0, span_s=10.0, num_workers=2).seconds(100.0) == 1.0
    assert WorkerPace.of(100.0, trained_s=0.0, span_s=0.0, num_workers=2).seconds(100.0) == 1.0


@pytest.mark.parametrize(("total", "num"), [(7, 3), (0, 2), (5, 5)])
def test_shares_are_whole_and_nearly_equal(total: int, num: int) -> None:
    parts = shares(total, num)
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


def test_outlooks_add_up() -> None:
    both = Outlook(3, 2, (Ahead(("a",), num_trials=5),)) + Outlook(1, 1, (Ahead(("b",), num_trials=2),))
    assert (both.num_searches, both.num_searching, both.num_trials) == (4, 3, 7)
