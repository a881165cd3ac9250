"""The rounds of searches as others read them."""

from pathlib import Path

from sweeps.store.damage import mend_for_run
from sweeps.store.rounds import Round, append_rounds, follow_rounds, read_rounds
from sweeps.store.run_directory import RunDirectory


def test_the_newest_round_of_each_cell_counts_and_damaged_lines_are_set_aside(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert read_rounds(run.rounds) == {}
    append_rounds(run.rounds, [Round("a", ((4, 1), (8, 2)), 16), Round("b", ((4, 1),), 8)])
    append_rounds(run.rounds, [Round("a", ((6, 3),), 8)])
    wanted = {"a": Round("a", ((6, 3),), 8), "b": Round("b", ((4, 1),), 8)}
    assert read_rounds(run.rounds) == wanted
    with run.rounds.open("ab") as file:
        file.write(b'{"cell_id": "a", "points": [[1, "x"]], "more": 1}\n')
    assert read_rounds(run.rounds) == wanted
    (note,) = mend_for_run(run)
    assert "rounds.jsonl:4 is damaged and left out (a point is no width and seed)" in note
    assert (tmp_path / "rounds.jsonl.rejected").exists()
    assert mend_for_run(run) == ()


def test_rounds_are_followed_from_where_the_last_look_ended(tmp_path: Path) -> None:
    path, first, second = tmp_path / "rounds.jsonl", Round("a", ((4, 1),), 8), Round("b", ((6, 3),), 0)
    assert follow_rounds(path) == ([], 0)
    append_rounds(path, [first])
    rounds, offset = follow_rounds(path)
    assert (rounds, offset) == ([first], path.stat().st_size)
    append_rounds(path, [second])
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])  # as it is while it is written
    assert follow_rounds(path, offset) == ([], offset)
    path.write_bytes(whole)
    assert follow_rounds(path, offset) == ([second], len(whole))
