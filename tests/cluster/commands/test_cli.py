"""The front door: what it refuses, in which words, with which exit code, and what it tells without running anything."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.commands.cli import main

Write = Callable[..., Path]


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The message of a refused command: exit code 2, one message on stderr, no traceback."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    assert ended.value.code == 2, printed.err
    assert "Traceback" not in printed.err
    return printed.err


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    assert (ended.value.code or 0) == code, captured.err
    return captured.out


def change(sweep: dict[str, Any], **values: Any) -> dict[str, Any]:
    """The sweep's first group with fields of its base changed, as `task__q=9`."""
    changed = copy.deepcopy(sweep)
    for name, value in values.items():
        *path, last = name.split("__")
        place = changed["trials"][0]["base"]
        for part in path:
            place = place[part]
        place[last] = value
    return changed


def test_an_unknown_field_is_named_with_its_line(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, small: dict[str, Any]
) -> None:
    message = refused(capsys, "run", write_sweep(change(small, task__qq=2)), "--inline")
    assert "qq" in message
    assert "sweep.yaml:" in message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task__q": 9}, ("q=9", "T=6")),
        ({"optimizer__lr": -0.1}, ("-0.1", "greater than 0")),
        ({"model": {"kind": "transformer", "positions": {"kind": "one_hot", "d_e": 5}}}, ("d_e=5", "T=6")),
    ],
)
def test_a_value_that_is_not_allowed_is_named(
    capsys: pytest.CaptureFixture[str],
    write_sweep: Write,
    small: dict[str, Any],
    values: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    small["trials"][0]["grid"] = {}
    message = refused(capsys, "run", write_sweep(change(small, **values)), "--inline")
    assert "sweep.yaml:" in message
    for word in words:
        assert word in message


def test_a_width_of_zero_is_refused(capsys: pytest.CaptureFixture[str], write_sweep: Write, small: dict[str, Any]) -> None:
    small["trials"][1]["grid"]["model.width"] = [0, 8]
    message = refused(capsys, "run", write_sweep(small), "--inline")
    assert "sweep.yaml:" in message
    assert "width" in message
    assert "0" in message


def test_an_unknown_sweep_names_the_nearest_and_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", "quikstart")
    assert "did you mean quickstart?" in message
    assert "stsq list" in message


def test_a_missing_file_and_a_folder_are_no_sweeps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "does not exist" in refused(capsys, "run", tmp_path / "none.yaml")
    assert "directory" in refused(capsys, "run", f"{tmp_path}/")


def test_malformed_yaml_is_placed(capsys: pytest.CaptureFixture[str], write_sweep: Write) -> None:
    assert "sweep.yaml:2" in refused(capsys, "run", write_sweep("name: x\nhypothesis: a: b\n"))


@pytest.mark.parametrize("trials", [[], [{"name": "a", "base": {}, "seeds": 0}]])
def test_a_sweep_of_no_trials_is_refused(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, small: dict[str, Any], trials: list[Any]
) -> None:
    small["trials"] = trials
    assert "no trials" in refused(capsys, "run", write_sweep(small))


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_setting_of_an_unknown_field_is_refused(capsys: pytest.CaptureFixture[str], write_sweep: Write, command: str) -> None:
    message = refused(capsys, command, write_sweep(), "--set", "task.TT=3")
    assert "task.TT" in message
    assert "task.T" in message


def test_a_directory_of_another_sweep_is_left_alone(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, small: dict[str, Any], tmp_path: Path
) -> None:
    printed(capsys, "run", write_sweep(), "--inline", "--wandb", "disabled", "--out", tmp_path / "run")
    before = (tmp_path / "run/spec.yaml").read_text()
    small["name"] = "other"
    message = refused(capsys, "run", write_sweep(small, "other.yaml"), "--inline", "--out", tmp_path / "run")
    assert "small" in message
    assert "other" in message
    assert (tmp_path / "run/spec.yaml").read_text() == before


def test_a_directory_of_other_files_is_left_alone(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("words")
    assert "chapter.tex" in refused(capsys, "run", write_sweep(), "--inline", "--out", tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let a tmpfs be mounted")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_told_at_the_start(capsys: pytest.CaptureFixture[str], write_sweep: Write, tiny_disk: Path) -> None:
    fill(tiny_disk, leave=0)
    assert "No space left" in refused(capsys, "run", write_sweep(), "--inline", "--out", tiny_disk / "run")


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_run_and_keeps_the_ledger_whole(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, tiny_disk: Path
) -> None:
    fill(tiny_disk, leave=16)
    words = ("run", write_sweep(), "--inline", "--wandb", "disabled", "--out", tiny_disk / "run")
    assert "No space left" in refused(capsys, *words)
    (tiny_disk / "filler").unlink()
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    lines = (tiny_disk / "run/ledger.jsonl").read_text().splitlines()
    assert len({json.loads(line)["trial_id"] for line in lines}) == len(lines) == 8


def test_a_read_only_disk_is_told(capsys: pytest.CaptureFixture[str], write_sweep: Write, tiny_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert "Read-only" in refused(capsys, "run", write_sweep(), "--inline", "--out", tiny_disk / "run")


def fill(disk: Path, *, leave: int) -> None:
    """Fill a small disk up to `leave` KiB."""
    space = os.statvfs(disk)
    (disk / "filler").write_bytes(b"x" * (space.f_bavail * space.f_frsize - leave * 1024))


@pytest.mark.parametrize("words", [("show",), ("report",), ("trial", "0123456789abcdef"), ("wandb", "sync")])
def test_readers_refuse_what_is_no_run(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]) -> None:
    order = (*words[:1], tmp_path, *words[1:]) if words[0] != "wandb" else (*words, tmp_path)
    assert "no run" in refused(capsys, *order)


def test_json_and_latex_exclude_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--latex" in refused(capsys, "show", tmp_path, "--json", "--latex")
    assert "--at predicts in words" in refused(capsys, "show", tmp_path, "--json", "--at", "T=8,q=2,d=2")
    assert "for example T=512,q=3,d=4" in refused(capsys, "show", tmp_path, "--at", "T=8")


@pytest.mark.parametrize("words", [("run", "smoke", "--wandb", "maybe"), ("run", "smoke", "--workers", "0"), ("frobnicate",)])
def test_unknown_words_are_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    refused(capsys, *words)


@pytest.mark.parametrize("address", ["http://127.0.0.1:8265", "ray://127.0.0.1:10001"])
def test_addresses_that_cannot_drive_a_sweep_are_refused(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, tmp_path: Path, address: str
) -> None:
    words = ("run", write_sweep(), "--wandb", "disabled", "--out", tmp_path / "run", "--address", address)
    assert "stsq job submit" in refused(capsys, *words)


def test_list_and_plan_run_nothing(
    capsys: pytest.CaptureFixture[str], write_sweep: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "quickstart" in printed(capsys, "list")
    plan = printed(capsys, "plan", write_sweep(), "--set", "seeds=3")
    assert "2 cells, 12 trials, 0 done" in plan
    assert "GPU-minutes" in plan
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "schema"))["properties"]["hypothesis"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version").startswith("stsq ")


def test_help_waits_for_no_heavy_library() -> None:
    heavy = "{'torch', 'ray', 'wandb', 'optuna', 'plotly', 'matplotlib'}"
    code = f"import sys, cluster.commands.cli; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False).returncode == 0
