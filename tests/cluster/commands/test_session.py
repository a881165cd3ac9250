"""`stsq run` as a whole, inline: results, resume, lock, budget, stops, and exit codes that tell the truth."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.commands import publication, session
from cluster.run.budgets import Budgets
from cluster.run.stop import Stopped
from stsq_core import UserError
from sweeps.findings.run_findings import read_findings

Write = Callable[..., Path]
Here = Callable[..., Any]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--inline", "--wandb", "disabled")


def slow(small: dict[str, Any], steps: int = 60_000) -> dict[str, Any]:
    """The small sweep, its transformers trained long enough to be interrupted."""
    small["trials"][0]["base"]["training"] |= {"steps": steps, "log_every": 100}
    return small


def test_a_run_leaves_ledger_page_figures_and_wandb_files(stsq: Any, write_sweep: Write, numbers: Numbers) -> None:
    ended = stsq.run("run", write_sweep(), "--inline", fresh=True)
    run = stsq.folder / "runs/small"
    assert ended.code == 0, ended
    assert len(numbers(run)) == 8
    assert "page:" in ended.out
    assert (run / "report/index.html").stat().st_size > 10_000
    assert len(list(run.glob("wandb/offline-run-*/*.wandb"))) == 8
    assert not list(run.glob("checkpoints/*"))
    assert not list(run.glob("weights/*"))


def test_the_same_sweep_again_trains_nothing_and_says_so(here: Here, tmp_path: Path, write_sweep: Write) -> None:
    here("run", write_sweep(), *QUIET)
    ledger = (tmp_path / "runs/small/ledger.jsonl").read_bytes()
    again = here("run", write_sweep(), *QUIET)
    assert again.code == 0, again
    assert "nothing to train: all 8 trials" in again.err
    assert (tmp_path / "runs/small/ledger.jsonl").read_bytes() == ledger


def test_more_seeds_extend_the_directory_by_exactly_the_new_trials(
    here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers
) -> None:
    here("run", write_sweep(), *QUIET)
    before = numbers(tmp_path / "runs/small")
    more = here("run", write_sweep(), "--set", "seeds=3", *QUIET)
    after = numbers(tmp_path / "runs/small")
    assert "12 trials, 8 of them in the ledger" in more.err, more
    assert len(after) == 12
    assert before.items() <= after.items()
    assert (tmp_path / "runs/small/spec.1.yaml").exists()


def test_weights_are_kept_on_request_and_loaded_back(here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers) -> None:
    from sweeps.store.weights import load_weights

    here("run", write_sweep(), *QUIET, "--keep-weights")
    run = tmp_path / "runs/small"
    shapes = [{name: array.shape for name, array in load_weights(run, trial_id).items()} for trial_id in numbers(run)]
    assert len(shapes) == 8
    assert all(shapes)


def test_show_and_trial_read_a_run(here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers) -> None:
    here("run", write_sweep(), *QUIET)
    run = tmp_path / "runs/small"
    assert len(json.loads(here("show", run, "--json").out)["thresholds"]) == 2
    assert r"\toprule" in here("show", run, "--latex").out
    assert "transformer" in here("show", run).out
    for trial_id in list(numbers(run))[::5]:
        again = here("trial", run, trial_id)
        assert again.code == 0, again
        assert "reproduced bit for bit" in again.out


def test_a_trial_that_does_not_reproduce_is_told(
    here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    here("run", write_sweep(), *QUIET)
    run = tmp_path / "runs/small"
    trial_id, (_, loss, *_rest) = next(iter(numbers(run).items()))
    ledger = run / "ledger.jsonl"
    edited = ledger.read_text().replace(repr(loss), repr(float(str(loss)) * 1.01))
    ledger.write_text(edited)
    refused = here("trial", run, trial_id[:8])
    assert refused.code == 2
    assert "the ledger holds no trial" in refused.err
    assert "ledger.jsonl:1 is damaged and left out (its checksum does not match)" in caplog.text
    ledger.write_text(re.sub(r',"crc":"\w+"', "", edited))  # as a former version would have written it
    again = here("trial", run, trial_id[:8])
    assert again.code == 1, again
    assert "differs by 0.0099" in again.out


def test_all_trials_failing_is_exit_code_1_with_a_table_and_can_be_retried(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    small["trials"] = small["trials"][1:]
    small["trials"][0]["base"]["task"]["T"] = 2**20
    small["trials"][0]["grid"]["model.width"] = [2**23, 2**24]  # 100 TB: no machine has the memory
    ended = here("run", write_sweep(small), *QUIET)
    assert ended.code == 1, ended
    assert "4 trials failed" in ended.out
    assert "out of memory" in ended.out
    again = here("run", write_sweep(small), *QUIET)
    assert again.code == 1
    assert "nothing to train" in again.err
    retried = here("run", write_sweep(small), *QUIET, "--retry-failed")
    assert retried.code == 1
    assert "4 trials ended" in retried.err


def test_a_trial_that_raises_fails_alone(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any], numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stsq_core import training

    here("run", write_sweep(), *QUIET, "--out", "undisturbed")
    undisturbed, train_pack = numbers(tmp_path / "undisturbed"), training.train_pack
    culprit = sorted(undisturbed)[3]

    def train(configs: Any, **options: Any) -> Any:
        if culprit in {config.trial_id for config in configs}:
            raise ValueError("boom")
        return train_pack(configs, **options)

    monkeypatch.setattr(training, "train_pack", train)
    ended = here("run", write_sweep(), *QUIET)
    assert ended.code == 1, ended
    assert "1 trials failed and 0 diverged, of 8" in ended.out
    assert "ValueError: boom" in ended.out
    printed = numbers(tmp_path / "runs/small")
    assert printed.pop(culprit)[0] == "failed"
    assert printed == {trial_id: ended for trial_id, ended in undisturbed.items() if trial_id != culprit}


def test_all_trials_diverging_is_exit_code_3_and_gives_no_number(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    small["trials"] = small["trials"][1:]
    small["trials"][0]["base"]["optimizer"] = {"kind": "gd", "lr": 1e6}
    ended = here("run", write_sweep(small), *QUIET)
    assert ended.code == 3, ended
    assert "all diverged" in ended.out


def test_one_diverging_rate_disturbs_nobody(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any], numbers: Numbers
) -> None:
    small["trials"] = small["trials"][1:]
    here("run", write_sweep(small), *QUIET)
    undisturbed = numbers(tmp_path / "runs/small")
    small["trials"][0]["grid"]["optimizer"] = [{"kind": "adam", "lr": 0.01}, {"kind": "gd", "lr": 1e6}]
    ended = here("run", write_sweep(small), *QUIET, "--out", "disturbed")
    disturbed = numbers(tmp_path / "disturbed")
    assert ended.code == 0, ended
    assert undisturbed.items() <= disturbed.items()
    assert sum(status == "diverged" for status, *_ in disturbed.values()) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_order_and_the_same_command_goes_on(
    stsq: Any, here: Here, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers, number: signal.Signals
) -> None:
    sweep, run = write_sweep(slow(small)), stsq.folder / "runs/small"
    process = stsq.start("run", sweep, *QUIET)
    until(lambda: any(path.stat().st_size > 2000 for path in run.glob("curves/*.jsonl")), what="training")
    process.send_signal(number)
    ended = stsq.wait(process)
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert f"stopped by {number.name}" in ended.err
    assert json.loads((run / "sessions.jsonl").read_text().splitlines()[-1])["outcome"] == "stopped by Stopped"
    small["trials"][0]["base"]["training"]["steps"] = 200
    assert here("run", write_sweep(small), *QUIET).code == 0
    assert numbers(run)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "http://127.0.0.1:8265"])
def test_a_cluster_that_cannot_be_joined_is_refused_before_anything_is_made(
    address: str, here: Here, tmp_path: Path, write_sweep: Write
) -> None:
    sweep, out = write_sweep(), tmp_path / "run"
    refused = here("run", sweep, "--out", out, "--address", address)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert refused.err.startswith(("stsq: no Ray cluster answers at", "stsq: --address is the address of a job server"))
    assert not out.exists()
    assert here("run", sweep, "--out", out, "--inline", "--wandb", "disabled").code == 0
    assert here("run", sweep, "--out", out, "--address", address, "--wandb", "disabled").code == 0  # it is complete


def test_what_accepts_connections_and_is_no_ray_is_refused_in_bounded_time(
    stsq: Any, write_sweep: Write, silent_server: int
) -> None:
    ended = stsq.run("run", write_sweep(), "--address", f"127.0.0.1:{silent_server}", timeout_s=60)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended
    assert ended.err.startswith(f"stsq: no Ray cluster answers at '127.0.0.1:{silent_server}': nothing came within 10 s")
    assert not (stsq.folder / "runs").exists()


def test_two_at_once_are_refused_and_a_dead_holder_is_taken_over(
    stsq: Any, write_sweep: Write, small: dict[str, Any], until: Any
) -> None:
    sweep, run = write_sweep(slow(small)), stsq.folder / "runs/small"
    first = stsq.start("run", sweep, *QUIET)
    until(lambda: list(run.glob("curves/*.jsonl")), what="training")
    second = stsq.run("run", sweep, *QUIET)
    assert second.code == 2, second
    assert f"process {first.pid}" in second.err
    first.send_signal(signal.SIGKILL)
    first.communicate()
    third = stsq.start("run", sweep, *QUIET)
    until(lambda: len((run / "sessions.jsonl").read_text().splitlines()) == 3, what="the third run")
    third.send_signal(signal.SIGINT)
    assert stsq.wait(third).code == 130


def test_a_spent_time_budget_starts_nothing_and_says_how_to_go_on(here: Here, tmp_path: Path, write_sweep: Write) -> None:
    spent = here("run", write_sweep(), "--set", "budget.minutes=1e-6", *QUIET)
    assert spent.code == 1, spent
    assert "8 trials are untrained" in spent.err
    assert "--set budget.minutes=" in spent.err
    assert here("run", write_sweep(), "--set", "budget.minutes=5", *QUIET).code == 0


@pytest.mark.slow
def test_a_time_budget_that_ends_in_mid_run_starts_no_other_pack(
    here: Here, tmp_path: Path, write_sweep: Write, monkeypatch: pytest.MonkeyPatch, numbers: Numbers
) -> None:
    monkeypatch.setattr(Budgets, "time_spent", property(lambda self: self._queue.done > 0))
    first = here("run", write_sweep(), "--set", "budget.minutes=5", *QUIET)
    assert first.code == 1, first
    assert "trials are untrained" in first.err
    assert 0 < len(numbers(tmp_path / "runs/small")) < 8
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert here("run", write_sweep(), "--set", "budget.minutes=5", *QUIET).code == 0
    assert len(numbers(tmp_path / "runs/small")) == 8


def test_a_resumed_run_whose_time_budget_is_spent_still_concludes(
    here: Here, write_sweep: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(session, "write_page", lambda run, findings, **consoles: drawn.append(run.path))
    assert here("run", write_sweep(), *QUIET).code == 0
    monkeypatch.setattr(session, "elapsed_minutes", lambda run: 7.0)
    spent = here("run", write_sweep(), "--set", "seeds=3", "--set", "budget.minutes=5", *QUIET)
    assert spent.code == 1, spent
    assert "4 trials are untrained: raise it (--set budget.minutes=14)" in spent.err
    assert spent.out.splitlines()[0].split()[:4] == ["architecture", "T", "q", "d"]
    assert len(drawn) == 2


def test_what_the_sweep_no_longer_declares_is_left_out_by_run_show_and_page_alike(
    here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers
) -> None:
    run = tmp_path / "runs/small"
    here("run", write_sweep(), "--set", "seeds=3", *QUIET)
    less = here("run", write_sweep(), *QUIET)
    shown = here("show", run)
    assert len(numbers(run)) == 12
    assert less.out == shown.out
    for printed in (less, shown, here("show", run, "--json")):
        assert "4 trials in the ledger that this sweep does not declare are kept there and left out here" in printed.err
    findings = read_findings(run)
    assert [threshold.num_seeds for threshold in findings.thresholds] == [2, 2]
    assert [threshold["num_seeds"] for threshold in json.loads(here("show", run, "--json").out)["thresholds"]] == [2, 2]
    assert any("4 trials" in note for note in findings.notes)


def test_cells_of_an_earlier_form_of_the_sweep_are_announced(here: Here, write_sweep: Write, small: dict[str, Any]) -> None:
    here("run", write_sweep(), *QUIET)
    small["trials"] = small["trials"][1:]
    fewer = here("run", write_sweep(small), *QUIET)
    assert fewer.code == 0, fewer
    assert "1 cell with results in" in fewer.err
    assert "not in this sweep" in fewer.err
    assert "not in this sweep" not in here("run", write_sweep(), *QUIET).err


def test_weights_that_are_not_there_are_told_and_made_by_stsq_trial(
    here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers
) -> None:
    from sweeps.store.weights import load_weights

    here("run", write_sweep(), *QUIET)
    run = tmp_path / "runs/small"
    again = here("run", write_sweep(), *QUIET, "--keep-weights")
    assert again.code == 0, again
    assert "the weights of 8 finished trials are not kept" in again.err
    assert f"stsq trial {run} TRIAL_ID --keep-weights" in again.err
    trial_id = next(iter(numbers(run)))
    kept = here("trial", run, trial_id, "--keep-weights")
    assert kept.code == 0, kept
    assert f"weights: {run / 'weights' / trial_id}.npz" in kept.out
    assert load_weights(run, trial_id)
    assert "the weights of 7 finished trials" in here("run", write_sweep(), *QUIET, "--keep-weights").err


def test_a_place_for_wandb_that_cannot_be_written_ends_no_run(here: Here, tmp_path: Path, write_sweep: Write) -> None:
    here("run", write_sweep(), *QUIET)
    (tmp_path / "runs/small/wandb").write_text("a file where a directory should be")
    more = here("run", write_sweep(), "--set", "seeds=3", "--inline")
    assert more.code == 0, more
    (warning,) = [line for line in more.err.splitlines() if "W&B" in line]
    assert f"'{tmp_path / 'runs/small/wandb'}' cannot be written: File exists" in warning
    assert "training goes on without it" in warning


BUSY_PUBLISHER = """
import subprocess, sys, time
from cluster.commands import cli
from cluster.commands import publication, session
from dashboards.publishing.process import PublisherProcess

def start(run_path, *, mode=None, asked=None, notify=None):
    code = "import sys, time; sys.stdin.read(); time.sleep(300)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    print(child.pid, flush=True)
    return PublisherProcess(child)

def wait(own, waited=publication.Publication.wait):
    print("waiting", flush=True)
    waited(own)

publication.PublisherProcess.start = start
publication.Publication.wait = wait
session.write_page = lambda run, findings, **consoles: None
cli.main(sys.argv[1:])
"""

SLOW_PAGE = """
import sys, time
import dashboards.page.report as report
from cluster.commands import cli

def drawing(*_):
    print("drawing", flush=True)
    time.sleep(300)

report.write_figures = drawing
cli.main(sys.argv[1:])
"""


def line_of(process: subprocess.Popen[str], beginning: str) -> str:
    """The next line that a process prints with this beginning."""
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith(beginning))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_publisher_is_waited_for_says_what_is_kept(
    stsq: Any, write_sweep: Write, numbers: Numbers, number: signal.Signals
) -> None:
    process = stsq.start("run", write_sweep(), "--inline", code=BUSY_PUBLISHER)
    publisher = int(line_of(process, ""))
    try:
        line_of(process, "waiting")
        process.send_signal(number)
        ended = stsq.wait(process)
    finally:
        os.kill(publisher, signal.SIGKILL)
    run = stsq.folder / "runs/small"
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert f"stopped by {number.name}: every result is kept in {run / 'ledger.jsonl'}" in ended.err
    assert f"`stsq run {run} --wandb offline`" in ended.err, "there is no key to sync with"
    assert len(numbers(run)) == 8


def test_an_error_is_told_also_when_the_wait_after_it_is_cut_short(
    here: Here, write_sweep: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise UserError("the disk is full")

    def cut_short(_publication: publication.Publication) -> None:
        raise Stopped("SIGINT")

    monkeypatch.setattr(session, "_train_rest", fail)
    monkeypatch.setattr(publication.Publication, "wait", cut_short)
    ended = here("run", write_sweep(), *QUIET)
    assert ended.code == 2, ended
    assert "stsq: the disk is full" in ended.err


def test_ctrl_c_while_the_page_is_drawn_is_exit_code_130(stsq: Any, write_sweep: Write, numbers: Numbers) -> None:
    process = stsq.start("run", write_sweep(), *QUIET, code=SLOW_PAGE)
    line_of(process, "drawing")
    process.send_signal(signal.SIGINT)
    ended = stsq.wait(process)
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert "stopped by SIGINT with 8 trials" in ended.err
    assert len(numbers(stsq.folder / "runs/small")) == 8


def test_a_driver_killed_in_mid_pack_resumes_to_the_same_bits(
    stsq: Any, here: Here, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    small = slow(small, steps=25_000)
    sweep = write_sweep(small)
    assert here("run", sweep, *QUIET, "--out", "undisturbed").code == 0
    run = stsq.folder / "runs/small"
    process = stsq.start("run", sweep, *QUIET, "--checkpoint-every", 0.1)
    until(lambda: list(run.glob("checkpoints/*.state")), what="a checkpoint")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = len((run / "ledger.jsonl").read_text().splitlines()) if (run / "ledger.jsonl").exists() else 0
    assert done < 8
    again = here("run", sweep, *QUIET)
    assert again.code == 0, again
    assert numbers(run) == numbers(stsq.folder / "undisturbed")
    assert journals(run) == journals(stsq.folder / "undisturbed")


def journals(run: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in run.glob("curves/*.jsonl")}
