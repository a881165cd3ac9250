"""A finished run is extended in its directory: more seeds of a grid, a narrower tolerance of a search; nothing is lost."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.commands import session

QUIET = ("--inline", "--wandb", "disabled")
Write = Callable[..., Path]
Here = Callable[..., Any]


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def shown(here: Here, run: Path) -> list[dict[str, Any]]:
    return json.loads(here("show", run, "--json").out)["thresholds"]


def test_more_seeds_extend_every_cell_of_a_grid(here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]) -> None:
    small["trials"][1]["seeds"] = [5, 7]
    run = tmp_path / "runs/small"
    assert here("run", write_sweep(small), "--set", "transformer:task.T=7", *QUIET).code == 0
    held = (run / "ledger.jsonl").read_bytes()
    ended = here("run", run, "--more-seeds", "3", *QUIET)
    assert ended.code == 0, ended
    assert "2 cells, 20 trials, 8 of them in the ledger already" in ended.err
    assert (run / "ledger.jsonl").read_bytes().startswith(held)
    new = lines(run)[8:]
    assert len({line["trial_id"] for line in lines(run)}) == len(lines(run)) == 20
    assert {line["config"]["task"]["T"] for line in new} == {7, 4}  # the former setting still holds
    assert {line["config"]["seed"] for line in new if line["config"]["model"]["kind"] == "fcn"} == {8, 9, 10}
    assert [row["num_seeds"] for row in shown(here, run)] == [5, 5]
    assert (run / "spec.1.yaml").is_file()
    assert [group["seeds"] for group in yaml.safe_load((run / "spec.yaml").read_text())["trials"]] == [5, [5, 7, 8, 9, 10]]
    assert "nothing to train" in here("run", run, *QUIET).err
    assert "20 trials, 20 done" in here("plan", run).out
    refused = here("run", write_sweep(small), "--more-seeds", "3", *QUIET)
    assert refused.code == 2
    assert "--more-seeds extends a run: give its directory, such as runs/NAME, in place of" in refused.err


def test_a_directory_with_the_name_of_a_catalogue_sweep_is_extended_by_its_path_only(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    small |= {"name": "smoke", "trials": small["trials"][1:]}
    run = tmp_path / "smoke"
    assert here("run", write_sweep(small), "--out", run, *QUIET).code == 0
    for words in (("run", "smoke", "--more-seeds", "1", *QUIET), ("run", "smoke", *QUIET), ("plan", "smoke")):
        refused = here(*words)
        assert refused.code == 2
        assert "'smoke' is a sweep of the catalogue and a run directory here: write ./smoke" in refused.err
    refused = here("run", "smoke", "--out", run, "--more-seeds", "1", *QUIET)
    assert (refused.code, "give its directory, such as runs/NAME, in place of 'smoke'" in refused.err) == (2, True)
    assert not (tmp_path / "runs").exists()
    assert len(lines(run)) == 4
    assert here("run", "./smoke", "--more-seeds", "1", *QUIET).code == 0
    assert len(lines(run)) == 6


def test_a_stopped_extension_goes_on_without_adding_seeds_once_more(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs/small"
    with monkeypatch.context() as patched:
        patched.setattr(session, "_train_rest", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
        assert "; the same command goes on from there" in here("run", write_sweep(small), *QUIET).err
        assert f"; `stsq run {run}` goes on from there" in here("run", run, "--more-seeds", "1", *QUIET).err
    here("run", run, *QUIET)
    assert [row["num_seeds"] for row in shown(here, run)] == [3, 3]


@pytest.mark.slow
def test_a_search_is_made_tighter_in_place(here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]) -> None:
    group = small["trials"][0]
    del group["grid"], group["seeds"], group["base"]["model"]["positions"]["d_e"]
    group["base"] |= {"task": {"T": 16, "q": 3, "d": 4}, "training": {"objective": "population", "steps": 300}}
    small |= {"trials": [group | {"search": {}}], "criterion": {"target_loss": 0.2}}
    small["search"] = {"batch": 8, "cap": 24, "tolerance": 0.3}
    run = tmp_path / "runs/small"
    assert here("run", write_sweep(small), *QUIET).code == 0
    [first] = shown(here, run)
    assert (first["search"], first["status"]) == ("precise", "found")
    held = (run / "ledger.jsonl").read_bytes()
    ended = here("run", run, "--set", "search.tolerance=0.05", "--set", "search.cap=64", *QUIET)
    assert ended.code == 0, ended
    assert (run / "ledger.jsonl").read_bytes().startswith(held)
    [second] = shown(here, run)
    assert second["num_seeds"] == len(lines(run)) > len(held.splitlines())
    assert second["high"] / second["low"] < first["high"] / first["low"]
    assert second["search"] in ("precise", "cap")
    assert max(Counter(line["config"]["seed"] for line in lines(run)).values()) == 1
    refused = here("run", run, "--more-seeds", "3", *QUIET)
    assert refused.code == 2
    assert "the thresholds of group 'transformer' are searched, with a fresh seed for every point" in refused.err


def test_a_run_with_claims_of_another_version_is_shown_and_goes_on(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    run, file = tmp_path / "runs/small", write_sweep(small)
    assert here("run", file, *QUIET).code == 0
    held = here("show", run).out
    claims = [
        {"kind": "linear", "name": "former", "says": "1/L is linear.", "where": {}},
        {"kind": "threshold_near", "name": "no-source", "says": "It is near.", "where": {}, "value": 9},
    ]
    write_sweep(yaml.safe_load((run / "spec.yaml").read_text()) | {"claims": claims}, name="runs/small/spec.yaml")
    shown = here("show", run)
    assert (shown.code, shown.out) == (0, held)
    assert "the claim 'former' is of another version and is not judged: kind: unknown kind 'linear'" in shown.err
    assert "the claim 'no-source' is of another version and is not judged: source: this field is" in shown.err
    ended = here("run", run, *QUIET)
    assert (ended.code, ended.out) == (0, held)
    assert "the claim 'former' is of another version and is not judged" in ended.err
    assert here("show", run).err == shown.err
    refused = here("run", write_sweep(small | {"claims": claims}), *QUIET)
    assert refused.code == 2
    assert "claims.0.kind: unknown kind 'linear'" in refused.err
