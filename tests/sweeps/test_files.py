import os

import pytest

from stsq_core import UserError
from sweeps.files import disk_errors, write_atomically


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"file' cannot be written: No space left on device; free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_read_only_directory_is_named(tmp_path):
    with (
        pytest.raises(UserError, match=r"Read-only file system; choose a directory that can be written with --out"),
        disk_errors(tmp_path),
    ):
        raise OSError(30, "Read-only file system")
