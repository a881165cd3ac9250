"""JSON lines: torn last lines are left out and cut off, whole ones are kept."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stsq_core.configs import UserError
from sweeps.store.jsonl import (
    Addition,
    JsonLines,
    append_lines,
    cut_torn_line,
    read_lines,
    sealed,
    set_aside,
    unsealed,
    warn_once,
)


def lines_of(path: Path) -> JsonLines[dict[str, Any]]:
    return JsonLines(path, lambda fields, _: fields)


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
    lines = lines_of(path)
    assert list(lines) == [json.loads(line) for line in left.splitlines()]
    assert lines.torn == torn
    assert cut_torn_line(path) == (len(left), torn)
    assert path.read_bytes() == left


def test_no_file_has_no_lines_and_is_made_by_the_first_append(path: Path) -> None:
    assert list(lines_of(path)) == list(lines_of(path).after(0)) == []
    append_lines(path, [{"a": 1}, {"b": [2]}])
    assert list(lines_of(path)) == [{"a": 1}, {"b": [2]}]
    assert all(unsealed(line)[1] for line in path.read_bytes().splitlines())


def test_lines_after_an_offset_end_with_the_last_whole_one_and_start_anew_in_a_shorter_file(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c')
    assert list(lines_of(path).after(8)) == [({"b": 2}, 16)]
    assert list(lines_of(path).after(16)) == []
    assert [end for _, end in lines_of(path).after(12)] == [8, 16]
    assert [end for _, end in lines_of(path).after(99)] == [8, 16]


def test_an_object_behind_a_damaged_line_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(b'{"a":1}\n{"b\n{"c":3}\n7\n{"d":4}\n')
    warn_once.cache_clear()
    for _ in range(2):
        assert list(read_lines(lines_of(path))) == [{"a": 1}, {"c": 3}, {"d": 4}]
    assert [record.message for record in caplog.records] == [
        f"{path}:2 is damaged and left out (it is not JSON: b'{{\"b'), and so are 1 more of its lines"
    ]
    lines = lines_of(path)
    assert [end for _, end in lines.after(8)] == [20, 30]
    assert list(lines.bad) == [2, 4]


def test_every_flipped_bit_of_a_line_leaves_it_whole_or_out(path: Path) -> None:
    line = sealed(b'{"a":1,"b":"two"}')
    for place in range(8 * (len(line) - 1)):
        data = bytearray(line)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(data) + sealed(b'{"c":3}'))
        for read in lines_of(path):
            assert read.items() >= {"a": 1, "b": "two"}.items() or read == {"c": 3}, (place, read)


def test_damaged_lines_are_set_aside_one_after_the_other(path: Path) -> None:
    for bad in (b"non\rsense\n", b"\xff\n"):
        path.write_bytes(b'{"a":1}\n' + bad + b'{"b":2}\n')
        set_aside(lines_of(path).scan())
        assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    assert path.with_name("lines.jsonl.rejected").read_bytes() == b"non\rsense\n\xff\n"


def test_a_directory_in_its_place_is_one_error(path: Path) -> None:
    path.mkdir()
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        list(lines_of(path))


APPENDER = """
import sys
from pathlib import Path
from sweeps.store.jsonl import append_lines
for number in range(200):
    append_lines(Path(sys.argv[1]), [{"writer": sys.argv[2], "number": number}])
"""


@pytest.mark.slow
def test_two_appenders_at_once_lose_no_line(path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", APPENDER, path, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    for name in "ab":
        assert [read["number"] for read in lines_of(path) if read["writer"] == name] == list(range(200))


def test_an_addition_that_is_tried_again_is_there_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_lines(path, [{"a": 1}])
    before, failures, sync = path.read_bytes(), iter([OSError(5, "Input/output error")]), os.fsync

    def fail_once(descriptor: int) -> None:
        if (error := next(failures, None)) is not None:
            raise error
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    addition = Addition(path, b'{"b":2}\n')
    with pytest.raises(OSError, match="Input/output"):
        addition()
    append_lines(path, [{"c": 3}])
    addition()
    assert path.read_bytes() == before + b'{"b":2}\n' + sealed(b'{"c": 3}')
