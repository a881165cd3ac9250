"""Merging the shards of a run: which record of a trial counts, which files are brought, and when it is done again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stsq_core.configs import UserError
from sweeps.cells import Shard, load_expanded
from sweeps.store.ledger import Ledger, LedgerRecord
from sweeps.store.rounds import Round, append_rounds, round_lines
from sweeps.store.run_directory import Lock, RunDirectory
from sweeps.store.shards import create_shard, merge_shards


def test_a_result_counts_before_a_failure_and_files_are_brought_once_newer(
    tmp_path: Path, fcn: Callable[..., Any], record: Callable[..., LedgerRecord]
) -> None:
    run = RunDirectory(tmp_path / "run")
    shards = [RunDirectory(run.path / "shards" / name) for name in ("0-of-2", "1-of-2")]
    for place, own in enumerate(shards):
        own.make_rooms()
        own.spec.write_text("name: x")
        (own.curves / f"{place}.jsonl").write_text(f"{place}")
        (own.checkpoints / f"{place}.claim").write_text("worker")
    good, bad = record(fcn(seed=1), 0.1), replace(record(fcn(seed=1), 0.1), status="failed", relative_loss=None)
    Ledger(shards[0].ledger).append([good, record(fcn(seed=2), 0.2)])
    Ledger(shards[1].ledger).append([bad, record(fcn(seed=3), 0.3)])
    assert merge_shards(run) == 3
    assert [(one.config["seed"], one.relative_loss) for one in Ledger(run.ledger).read()] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert sorted(path.name for path in run.curves.iterdir()) == ["0.jsonl", "1.jsonl"]
    assert not list(run.checkpoints.iterdir()), "a claim is its driver's own"
    beside = shards[0].curves / "new"
    beside.write_text("longer")
    beside.replace(shards[0].curves / "0.jsonl")
    Ledger(run.ledger).append([record(fcn(seed=4), 0.4)])
    assert merge_shards(run) == 0
    assert (run.curves / "0.jsonl").read_text() == "longer"
    (shards[0].curves / "0.jsonl").write_text("cut")  # in place, as a shard does that trains again what the run has trained
    assert (run.curves / "0.jsonl").read_text() == "longer"
    assert merge_shards(run) == 0
    assert (run.curves / "0.jsonl").read_text() == "longer"
    assert len(Ledger(run.ledger).read()) == 4


def test_the_rounds_of_searches_are_brought_once(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    shards = [RunDirectory(run.path / "shards" / name) for name in ("0-of-2", "1-of-2")]
    asked = [Round("a", ((4, 1),), 8), Round("a", ((5, 2),), 4)], [Round("b", ((6, 3),), 8)]
    for own, rounds in zip(shards, asked, strict=True):
        own.make_rooms()
        own.spec.write_text("name: x")
        append_rounds(own.rounds, rounds)
    merge_shards(run)
    assert [*round_lines(run.rounds)] == [*asked[0], *asked[1]]
    append_rounds(run.rounds, later := [Round("a", ((7, 4),), 0)])
    append_rounds(shards[1].rounds, more := [Round("b", ((8, 5),), 0)])
    merge_shards(run)
    assert [*round_lines(run.rounds)] == [*asked[0], *asked[1], *later, *more]


def test_a_shard_is_refused_while_the_run_merges_and_trains(tmp_path: Path) -> None:
    sweep, run = load_expanded("smoke"), RunDirectory(tmp_path / "run")
    run.path.mkdir()
    with Lock(run.lock), pytest.raises(UserError, match=r"in use by process \d+ .* merges its shards and trains the rest"):
        create_shard(run.path, sweep, Shard(0, 2))
    assert create_shard(run.path, sweep, Shard(0, 2)).path == run.path / "shards" / "0-of-2"
