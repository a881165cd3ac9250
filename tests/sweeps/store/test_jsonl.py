"""JSON lines: torn last lines are left out and cut off, whole ones are kept."""

from pathlib import Path

import pytest

from sweeps.store.jsonl import append_lines, cut_torn_line, lines_after, read_lines, read_objects


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


@pytest.mark.parametrize(
    ("data", "left", "torn"),
    [
        (b"", b"", False),
        (b'{"a":1}\n', b'{"a":1}\n', False),
        (b'{"a":1}\n{"b', b'{"a":1}\n', True),
        (b'{"a":1}\n{"b":2}', b'{"a":1}\n{"b":2}\n', False),
        (b'{"a', b"", True),
        (b'{"a":1}\n7', b'{"a":1}\n', True),
        (b'{"a":1}\n' + b"x" * 200_000, b'{"a":1}\n', True),
    ],
)
def test_a_torn_last_line_is_cut_and_a_whole_one_gets_its_end(path: Path, data: bytes, left: bytes, torn: bool) -> None:
    path.write_bytes(data)
    notes: list[str] = []
    read = b"".join(read_lines(path, on_torn=lambda: notes.append("torn")))
    assert read == left.removesuffix(b"\n") if not data.endswith(b"\n") and not torn else read == left
    assert bool(notes) == torn
    assert cut_torn_line(path) == (len(left), torn)
    assert path.read_bytes() == left


def test_no_file_has_no_lines_and_is_made_by_the_first_append(path: Path) -> None:
    assert list(read_lines(path)) == list(lines_after(path, 0)) == list(read_objects(path)) == []
    append_lines(path, b'{"a":1}\n')
    assert list(read_objects(path)) == [{"a": 1}]


def test_lines_after_an_offset_end_with_the_last_whole_one_and_start_anew_in_a_shorter_file(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c')
    assert list(lines_after(path, 8)) == [(b'{"b":2}\n', 16)]
    assert list(lines_after(path, 16)) == []
    assert [end for _, end in lines_after(path, 12)] == [8, 16]
    assert [end for _, end in lines_after(path, 99)] == [8, 16]


def test_an_object_behind_a_torn_line_is_read(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b\n{"c":3}\n')
    assert list(read_objects(path)) == [{"a": 1}, {"c": 3}]
