"""Sweeps as Ray jobs: a real head with token authentication, real submissions, by `ray` and by `stsq`."""

import copy
import json
import os
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from own_task import held_text
from ray_heads import Head, copy_rooms

pytestmark = pytest.mark.jobs

HELD_STEPS = 3000

Numbers = Callable[[Path], dict[str, tuple[object, ...]]]
Until = Callable[..., object]


@pytest.fixture
def package(tmp_path: Path, small: dict[str, Any]) -> Path:
    """A working directory to upload: the project's rooms, a sweep, one that fails, one with a trial that a file holds up."""
    folder = tmp_path / "package"
    copy_rooms(folder)
    (folder / "small.yaml").write_text(yaml.safe_dump(small))
    failing = copy.deepcopy(small)
    failing["trials"] = failing["trials"][1:]
    failing["trials"][0]["base"]["task"]["T"] = 2**20
    failing["trials"][0]["grid"]["model.width"] = [2**24]
    (folder / "failing.yaml").write_text(yaml.safe_dump(failing))
    slow = copy.deepcopy(small)
    held = slow["trials"][0] = copy.deepcopy(small["trials"][1]) | {"name": "held", "grid": {}, "seeds": 1}
    held["base"]["task"]["kind"] = "held"
    held["base"]["training"] |= {"steps": HELD_STEPS, "log_every": 10}
    (folder / "slow.yaml").write_text(yaml.safe_dump(slow))
    (folder / "held.py").write_text(held_text(hold(tmp_path)))
    return folder


def hold(tmp_path: Path) -> Path:
    """While this file exists, the trial `held` of `slow.yaml` takes minutes, however fast or busy the machine."""
    return tmp_path / "hold"


@pytest.fixture
def inline_numbers(stsq: Any, tmp_path: Path, numbers: Numbers) -> Callable[..., dict[str, tuple[object, ...]]]:
    """Gives the numbers of a sweep that nothing disturbs."""

    def run(*words: object) -> dict[str, tuple[object, ...]]:
        ended = stsq.run("run", *words, "--inline", "--wandb", "disabled", "--out", tmp_path / "inline")
        assert ended.code == 0, ended
        return numbers(tmp_path / "inline")

    return run


def test_ray_job_submit_runs_a_sweep(
    head: Head, package: Path, tmp_path: Path, numbers: Numbers, inline_numbers: Callable[..., Any]
) -> None:
    out = tmp_path / "run"
    done = head.ray("submit", "--working-dir", package, "--", "python", "-m", "stsq", "run", "small.yaml", "--out", out)
    assert done.returncode == 0, done
    assert "succeeded" in done.stdout
    assert (out / "report/index.html").exists()
    assert len(list(out.glob("wandb/offline-run-*/*.wandb"))) == 8
    assert numbers(out) == inline_numbers(package / "small.yaml")


def test_ray_job_stop_ends_a_sweep_in_order_and_a_job_of_ours_goes_on(
    head: Head, package: Path, tmp_path: Path, until: Until, numbers: Numbers, inline_numbers: Callable[..., Any]
) -> None:
    out = tmp_path / "run"
    hold(tmp_path).touch()
    run = ("python", "-m", "stsq", "run", "slow.yaml", "--plugin", "held.py", "--out", out)
    submitted = head.ray("submit", "--no-wait", "--submission-id", "plain", "--working-dir", package, "--", *run)
    assert submitted.returncode == 0, submitted
    until(lambda: (out / "ledger.jsonl").exists(), timeout_s=600, what="the first result")
    assert head.ray("stop", "--no-wait", "plain").returncode == 0
    until(lambda: head.has_ended("plain"), timeout_s=600, what="the end of the job")
    assert head.stsq("job", "status", "plain").stdout.startswith("STOPPED")
    assert "stopped by SIGINT" in head.stsq("job", "logs", "plain").stdout
    ended = numbers(out)
    assert 0 < len(ended) < 5
    hold(tmp_path).unlink()
    words = ("job", "submit", package / "slow.yaml", "--working-dir", package, "--plugin", package / "held.py", "--follow")
    words += ("--", "--out", out)
    again = head.stsq(*words)
    assert again.returncode == 0, again
    whole = inline_numbers(package / "slow.yaml", "--plugin", package / "held.py")
    assert ended.items() <= numbers(out).items()
    assert numbers(out) == whole
    assert len(list(out.glob("wandb/offline-run-*/*.wandb"))) == len(whole)
    repeated = head.stsq(*words)
    assert "nothing is sent: this job is there already (SUCCEEDED)" in repeated.stderr
    assert repeated.stdout.splitlines()[0] == again.stdout.splitlines()[0]


def test_stsq_job_stop_ends_a_sweep_in_order_and_sending_it_again_goes_on(
    head: Head, package: Path, tmp_path: Path, until: Until, numbers: Numbers
) -> None:
    out = tmp_path / "run"
    hold(tmp_path).touch()
    words = ("job", "submit", package / "slow.yaml", "--working-dir", package, "--plugin", package / "held.py")
    words += ("--", "--out", out, "--wandb", "disabled")
    job_id = head.stsq(*words).stdout.strip()
    until(lambda: (out / "ledger.jsonl").exists(), timeout_s=600, what="the first result")
    assert head.stsq(*words).stdout.strip() == job_id
    stopped = head.stsq("job", "stop", job_id)
    assert stopped.stdout.strip() == "STOPPED", stopped
    ended = numbers(out)
    assert 0 < len(ended) < 5
    hold(tmp_path).unlink()
    second = head.stsq(*words).stdout.strip()
    assert second == f"{job_id}-2"
    followed = head.stsq("job", "logs", second, "--follow")
    assert followed.returncode == 0, followed
    assert ended.items() <= numbers(out).items()
    assert len(numbers(out)) == 5
    listed = head.stsq("job", "list", COLUMNS="200").stdout
    assert listed.index(second) < listed.index(f"{job_id} ")


def test_stsq_job_submit_follows_and_takes_the_exit_code(head: Head, package: Path, tmp_path: Path, numbers: Numbers) -> None:
    words = ("job", "submit", package / "failing.yaml", "--working-dir", package, "--follow", "--submission-id", "failing")
    done = head.stsq(*words, "--", "--out", tmp_path / "run", "--wandb", "disabled")
    assert done.returncode == 1, done
    assert "out of memory" in done.stdout
    assert {status for status, *_ in numbers(tmp_path / "run").values()} == {"failed"}
    status = head.stsq("job", "status", "failing")
    assert status.stdout.startswith("FAILED"), status
    assert status.returncode == 1, status


def test_our_code_travels_and_the_key_does_not(head: Head, package: Path, tmp_path: Path, numbers: Numbers) -> None:
    """A folder without our code, a sweep of a catalogue that only the code that is sent knows, a key in the environment."""
    folder, out, netrc = tmp_path / "sweeps only", tmp_path / "run", tmp_path / "netrc"
    folder.mkdir()
    (package / "small.yaml").rename(package / "sweeps/catalog/travelled.yaml")
    netrc.write_text("machine 127.0.0.1 login user password 00stored00\n")
    words = (
        "job",
        "submit",
        "travelled",
        "--working-dir",
        folder,
        "--netrc",
        netrc,
        "--submission-id",
        "travelled",
        "--follow",
    )
    environment = {"WANDB_API_KEY": "00secret00", "WANDB_BASE_URL": "http://127.0.0.1:9"}
    done = head.stsq(*words, "--", "--out", out, code=package, **environment)
    assert done.returncode == 0, done
    assert len(numbers(out)) == 8
    assert "the W&B server http://127.0.0.1:9 does not answer" in done.stdout  # so it has found the key that is stored
    listed = head.ray("list").stdout
    assert "travelled" in listed
    printed = listed + head.stsq("job", "logs", "travelled").stdout + head.stsq("job", "list").stdout + done.stdout
    assert "00secret00" not in printed
    assert "00stored00" not in printed


def test_an_interpreter_without_our_packages_is_told_in_one_line(head: Head, package: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = json.dumps({"env_vars": {"PATH": f"{tmp_path / 'bare/bin'}:{os.environ['PATH']}", "PYTHONPATH": ""}})
    run = ("python", "-m", "stsq", "run", "small.yaml", "--out", tmp_path / "run")
    done = head.ray("submit", "--working-dir", package, "--runtime-env-json", bare, "--", *run)
    assert done.returncode == 1, done
    (printed,) = {line for line in done.stdout.splitlines() if line.startswith("stsq: ")}  # Ray tells the last lines again
    assert f"{tmp_path / 'bare/bin/python'} on " in printed
    assert "lacks aiohttp, lazy_loader, llvmlite, matplotlib, numba, numpy" in printed
    assert "install stsq" in printed
    assert "Traceback" not in done.stdout


def test_another_torch_is_told_in_one_line(head: Head, package: Path, tmp_path: Path) -> None:
    known = tmp_path / "older/torch-1.2.3.dist-info"
    known.mkdir(parents=True)
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.2.3\n")
    words = ("job", "submit", package / "small.yaml", "--working-dir", package, "--follow", "--", "--out", tmp_path / "run")
    done = head.stsq(*words, PYTHONPATH=f"{known.parent}:{package}", code=package)
    assert done.returncode == 2, done
    printed = [line for line in done.stdout.splitlines() if line.startswith("stsq: ")]
    assert len(printed) == 1
    assert "and the job was sent from torch 1.2.3" in printed[0]
    assert "--accept-versions" in printed[0]
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [("status", "nothing"), ("logs", "nothing", "--follow"), ("stop", "nothing")])
def test_an_unknown_job_is_told_in_one_message(head: Head, words: tuple[str, ...]) -> None:
    done = head.stsq("job", *words)
    assert done.returncode == 2, done
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
