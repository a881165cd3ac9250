import errno
import os
import time

import pytest

from stsq_core import UserError
from sweeps.store.files import disk_errors, retry_io, write_atomically, write_with_retries


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


def failing(*numbers):
    """An action that fails with these errors, one after the other, and then is done."""
    errors = iter(numbers)

    def action():
        for number in errors:
            raise OSError(number, os.strerror(number))
        return "done"

    return action


@pytest.fixture
def quick(monkeypatch):
    """No pause between tries, and a clock that runs a second a look."""
    seconds = iter(range(10_000))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOENT, errno.ENOTCONN])
def test_storage_that_is_away_is_waited_for_and_that_is_told_once(tmp_path, quick, number):
    printed = []
    assert retry_io(tmp_path / "file", failing(*[number] * 20), notify=printed.append) == "done"
    (line,) = printed
    assert os.strerror(number) in line
    assert "waiting up to 180 s for its storage" in line


def test_storage_that_stays_away_is_one_error_that_says_how_to_go_on(tmp_path, quick):
    with pytest.raises(
        UserError, match=r"file' could not be reached for 180 s \(Stale file handle\).*the same command goes on"
    ):
        retry_io(tmp_path / "file", failing(*[errno.ESTALE] * 1000))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_is_full_or_closed_is_an_error_at_once(tmp_path, quick, number):
    action = failing(number)
    with pytest.raises(UserError, match="cannot be written"):
        retry_io(tmp_path / "file", action)
    assert action() == "done", "it was tried once"


def test_what_is_kept_is_whole_after_an_outage(tmp_path, quick, monkeypatch):
    real, errors = os.fsync, iter([errno.EIO, errno.EIO])

    def fsync(descriptor):
        for number in errors:
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_with_retries(tmp_path / "file", b"state")
    assert (tmp_path / "file").read_bytes() == b"state"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_folder_that_was_removed_from_its_run_is_an_error_at_once_and_one_whose_storage_is_away_is_waited_for(
    tmp_path, quick
):
    run = tmp_path / "run"
    run.mkdir()
    (run / "spec.yaml").touch()
    path = run / "checkpoints" / "a.state"
    notes = []
    with pytest.raises(UserError, match=r"^'.*/run/checkpoints' was removed under the run that writes there$"):
        retry_io(path, path.read_bytes, notify=notes.append)
    assert notes == []
    path.parent.symlink_to(tmp_path / "other-storage")
    with pytest.raises(UserError, match="could not be reached"):
        retry_io(path, path.read_bytes, notify=notes.append)
    path.parent.unlink()
    (run / "spec.yaml").unlink()
    with pytest.raises(UserError, match="could not be reached"):
        retry_io(path, path.read_bytes, notify=notes.append)
    assert len(notes) == 2
