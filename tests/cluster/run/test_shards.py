"""Several drivers that share a sweep: each trains the cells of its shard, and one run merges what they hold."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboards.paper import thresholds_json
from sweeps import expand, load_sweep
from sweeps.cells import Shard
from sweeps.findings.run_findings import read_findings
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import Lock

Write = Callable[..., Path]
Here = Callable[..., Any]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--inline", "--wandb", "disabled")


@pytest.fixture
def six_cells(small: dict[str, Any]) -> dict[str, Any]:
    """A sweep of 6 cells of 18 trials, of which two shards have some each."""
    small["trials"] = small["trials"][1:]
    small["trials"][0] |= {"grid": {"model.width": [2, 4, 8], "task.T": [4, 5, 6, 7, 8, 9]}, "seeds": 6}
    small["trials"][0]["base"]["training"]["steps"] = 300
    return small


@pytest.mark.parametrize(
    "runner", [pytest.param("--inline", id="inline"), pytest.param("--workers=1", id="two Rays", marks=pytest.mark.clusters)]
)
def test_two_drivers_one_of_them_killed_give_the_run_of_one(
    stsq: Any, here: Here, write_sweep: Write, six_cells: dict[str, Any], until: Any, numbers: Numbers, runner: str
) -> None:
    """Every cell done, every trial once, thresholds and laws equal bit for bit."""
    sweep, run = write_sweep(six_cells), stsq.folder / "runs/small"
    begin = [("run", sweep, "--shard", f"{index}/2", runner, "--wandb", "disabled") for index in range(2)]
    first, second = (stsq.start(*words) for words in begin)
    until(lambda: list(run.glob("shards/0-of-2/curves/*.jsonl")), what="a pack of the first shard in training")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert stsq.wait(second).code == 0
    assert stsq.run(*begin[0]).code == 0
    held = [set(Ledger(path).trial_ids()) for path in sorted(run.glob("shards/*/ledger.jsonl"))]
    assert min(map(len, held)) >= 18
    assert sum(map(len, held)) == len(set.union(*held)) == 108
    merged = here("run", run, *QUIET)
    assert merged.code == 0, merged
    assert "108 trials of 2 shards are new in" in merged.err
    assert "nothing to train: all 108 trials" in merged.err
    assert len((run / "ledger.jsonl").read_bytes().splitlines()) == 108
    alone = stsq.folder / "alone"
    assert here("run", sweep, "--out", alone, *QUIET).code == 0
    assert numbers(run) == numbers(alone)
    shown = [read_findings(path) for path in (run, alone)]
    assert len({thresholds_json(own.thresholds, own.comparisons) for own in shown}) == 1
    assert len(list(run.glob("curves/*.jsonl"))) == len(list(run.glob("shards/*/curves/*.jsonl")))


def test_a_shard_is_a_run_of_its_cells(here: Here, tmp_path: Path, write_sweep: Write, six_cells: dict[str, Any]) -> None:
    six_cells["trials"][0]["seeds"] = 1
    sweep, shard = write_sweep(six_cells), tmp_path / "runs/small/shards/0-of-2"
    assert here("run", sweep, "--shard", "0/2", *QUIET).code == 0
    findings = read_findings(shard)
    num = 3 * len(findings.cells)
    assert 0 < num < 18
    assert findings.complete
    again = here("run", shard, *QUIET)
    assert f"nothing to train: all {num} trials" in again.err, again
    assert f"{num} of {num} trials have ended" in here("status", shard).out
    asked = here("show", tmp_path / "runs/small")
    assert asked.code == 2
    assert "is divided into shards: `stsq run " in asked.err
    assert str(shard) in asked.err
    rest = here("run", tmp_path / "runs/small", *QUIET)
    assert rest.code == 0, rest
    assert f"{num} trials of 1 shard are new in" in rest.err
    assert f"18 trials, {num} of them in the ledger already" in rest.err


def test_what_shards_refuse(here: Here, tmp_path: Path, write_sweep: Write, six_cells: dict[str, Any]) -> None:
    six_cells["trials"][0]["seeds"] = 1
    sweep, run = write_sweep(six_cells), tmp_path / "runs/small"
    assert here("run", sweep, "--shard", "0/2", *QUIET).code == 0
    for words, says in (
        ((sweep, "--shard", "2/2"), "--shard 2/2: a shard is I/N with 0 <= I < N"),
        ((sweep, "--shard", "0/3"), "is divided into 2 shards, not 3: give --shard I/2"),
        ((run / "shards/0-of-2", "--shard", "1/2"), "is a shard itself: leave --shard out"),
    ):
        refused = here("run", *words, *QUIET)
        assert refused.code == 2, refused
        assert says in refused.err
    with Lock(run / "shards/0-of-2/lock"):
        for words in ((sweep, "--shard", "0/2"), (run,)):
            refused = here("run", *words, *QUIET)
            assert refused.code == 2, refused
            assert "0-of-2' is in use by process" in refused.err
    other = write_sweep(six_cells | {"name": "other"}, "other.yaml")
    assert "holds the sweep 'small', not 'other'" in here("run", other, "--out", run, *QUIET).err
    whole = tmp_path / "whole"
    assert here("run", sweep, "--out", whole, *QUIET).code == 0
    assert "has results of a run without shards" in here("run", sweep, "--out", whole, "--shard", "0/2", *QUIET).err


def test_a_shard_without_cells_has_nothing_to_train(here: Here, write_sweep: Write, small: dict[str, Any]) -> None:
    cells = expand(load_sweep(str(write_sweep(small))))
    empty = next(shard for shard in (Shard(index, 16) for index in range(16)) if not any(shard.owns(c.cell_id) for c in cells))
    ended = here("run", write_sweep(small), "--shard", empty, *QUIET)
    assert ended.code == 0, ended
    assert f"shard {empty} has none of the {len(cells)} cells of small: nothing to train" in ended.err


@pytest.mark.slow
def test_studies_in_a_storage_that_shards_share_are_those_of_the_run_that_merges_them(
    here: Here, tmp_path: Path, write_sweep: Write, six_cells: dict[str, Any]
) -> None:
    (group,) = six_cells["trials"]
    group["base"]["training"]["steps"] = 5
    group["grid"] = {"task.T": [4, 5, 6, 7]}
    del group["seeds"], group["base"]["model"]["width"]
    group["search"] = {"low": 2, "high": 8}
    six_cells["search"] = {"cap": 4, "batch": 2}
    sweep, storage = write_sweep(six_cells), ("--set", f"search.storage=sqlite:///{tmp_path / 'studies.db'}")
    assert here("run", sweep, "--shard", "0/2", *storage, *QUIET).code in (0, 3)
    for words in (("run", sweep), ("run", sweep, "--shard", "0/2"), ("run", sweep, "--shard", "1/2"), ("run", sweep)):
        again = here(*words, *storage, *QUIET)
        assert again.code in (0, 3), again
