"""The packs in training are those whose claim is held, or whose journal grows."""

import os
import time
from pathlib import Path

from stsq_core import Measurement, TrialConfig
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.packs import Pack, pack_of
from sweeps.schema.spec import SweepSpec
from sweeps.store.journal import JournalWriter
from sweeps.store.live_training import FRESH_S, begun_packs, last_step, read_training
from sweeps.store.run_directory import Lock, RunDirectory


def write_journal(run: RunDirectory, pack: Pack, *, step: int) -> None:
    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
        journal.append(Measurement(step, pack.trial_ids, tuple(0.5 for _ in pack.trial_ids)))


def packs(spec: SweepSpec) -> tuple[Pack, Pack]:
    first, second = expand(spec)[:2]
    return pack_of(first.trials), pack_of(second.trials)


def test_a_held_claim_is_a_pack_in_training_with_its_worker_and_step(spec: SweepSpec, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    pack, other = packs(spec)
    write_journal(run, pack, step=40)
    write_journal(run, other, step=100)
    run.checkpoints.mkdir()
    with Lock(run.checkpoints / f"{pack.pack_id}.claim"):
        [printed] = read_training(run, now=time.time())
    assert (printed.pack_id, printed.step, printed.trial_ids) == (pack.pack_id, 40, pack.trial_ids)
    assert f"process {os.getpid()} on " in printed.worker
    assert printed.began_at <= time.time()


def test_packs_with_a_state_are_begun_in_their_own_order(spec: SweepSpec, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    pack, other = packs(spec)
    assert begun_packs(run) == ()
    write_journal(run, pack, step=40)
    write_journal(run, other, step=100)
    run.checkpoints.mkdir()
    (run.checkpoints / f"{pack.pack_id}.state").touch()
    (run.checkpoints / "without-a-journal.state").touch()
    assert begun_packs(run) == (pack.trial_ids,)


def test_a_claim_that_nobody_holds_counts_only_while_its_journal_is_fresh(spec: SweepSpec, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    pack, _ = packs(spec)
    write_journal(run, pack, step=40)
    run.checkpoints.mkdir()
    (run.checkpoints / f"{pack.pack_id}.claim").write_text("process 1 on elsewhere\n")
    written = (run.curves / f"{pack.pack_id}.jsonl").stat().st_mtime
    assert [one.worker for one in read_training(run, now=written + 1)] == ["process 1 on elsewhere"]
    assert read_training(run, now=time.time() + FRESH_S + 5) == ()


def test_a_claim_without_a_journal_is_nothing_yet(spec: SweepSpec, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.checkpoints.mkdir()
    with Lock(run.checkpoints / f"{packs(spec)[0].pack_id}.claim"):
        assert read_training(run, now=time.time()) == ()
    assert read_training(RunDirectory(tmp_path / "empty"), now=0.0) == ()


def test_the_last_step_of_a_journal_survives_a_torn_line(fcn, tmp_path: Path) -> None:
    path, config = tmp_path / "journal.jsonl", fcn()
    assert isinstance(config, TrialConfig)
    assert last_step(path) == 0
    with JournalWriter(path, pack_of([config])) as journal:
        assert last_step(path) == 0
        journal.append(Measurement(7, (config.trial_id,), (0.5,)))
    with path.open("a") as file:
        file.write('{"step":9,"rel')
    assert last_step(path) == 7
