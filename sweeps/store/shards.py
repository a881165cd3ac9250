"""Several drivers for one sweep: each trains the cells of a shard in a run directory of its own, and one merges them.

The directory of shard I of N is `RUN/shards/I-of-N`, with a lock, a ledger, journals and checkpoints like any other. So no two
drivers append to one file; one that was killed is resumed, and two on one shard exclude each other, as for a whole sweep.
"""

import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path

from stsq_core.configs import UserError
from sweeps.cells import ExpandedSweep, Shard
from sweeps.store.jsonl import read_lines
from sweeps.store.ledger import Ledger, newest_records, write_ledger
from sweeps.store.rounds import append_rounds, round_lines
from sweeps.store.run_directory import Lock, RunDirectory, create_or_open


def create_shard(path: Path, sweep: ExpandedSweep, shard: Shard) -> RunDirectory:
    """The run directory of a shard of the run at a path, made where there is none.

    Raises:
        UserError: the run is divided otherwise, holds results that no shard knows of, is at work, or is a shard; or as
            `create_or_open`.
    """
    run = RunDirectory(path)
    if run.shard.count > 1:
        raise UserError(f"{str(path)!r} is a shard itself: leave --shard out, or give the run that it belongs to with --out")
    if other := next((own.shard for own in run.shards if own.shard.count != shard.count), None):
        raise UserError(
            f"{str(path)!r} is divided into {other.count} shards, not {shard.count}: give --shard I/{other.count}, "
            "or another directory with --out"
        )
    if run.ledger.exists() and not run.shards:
        raise UserError(
            f"{str(path)!r} has results of a run without shards, which a shard would train again: leave --shard out, or give "
            "another directory with --out"
        )
    if holder := Lock(run.lock).holder():
        raise UserError(
            f"{str(path)!r} is in use by {holder}, which merges its shards and trains the rest: wait until it ends, or stop it"
        )
    return create_or_open(path / "shards" / shard.folder, sweep.of_shard(shard))


def merge_shards(run: RunDirectory) -> int:
    """Bring what the shards of a run hold into its own ledger and folders; returns how many trials are new in the ledger.

    Each trial is in the ledger once: a result counts before a failure, and then the newer. To be called under the run's lock.

    Raises:
        UserError: a driver is at work on a shard, or a ledger cannot be read.
    """
    with ExitStack() as held:
        for own in run.shards:
            held.enter_context(Lock(own.lock))
        ledgers = [one.ledger for one in (run, *run.shards) if one.ledger.exists()]
        before = len(Ledger(run.ledger).trial_ids())
        records = newest_records(ledgers)
        write_ledger(run.ledger, records)
        run.make_rooms()
        _bring_rounds(run)
        for own in run.shards:
            for name in ("curves", "checkpoints", "weights"):
                for file in sorted((own.path / name).glob("*")):
                    if file.is_file() and file.suffix != ".claim":
                        bring = _bring_longer if name == "curves" else _bring
                        bring(file, run.path / name / file.name)
        return len(Ledger(run.ledger).trial_ids()) - before


def kin_of(run: RunDirectory) -> frozenset[str]:
    """The identities of a run's shards, or of the run that it is a shard of, whose studies it goes on with."""
    others = run.shards if run.shard.count == 1 else (RunDirectory(run.path.parents[1]),)
    return frozenset(filter(None, (own.kept_owner() for own in others)))


def _bring_rounds(run: RunDirectory) -> None:
    """The rounds that the searches of its shards asked for, by which others know where a round ended."""
    held = frozenset(read_lines(round_lines(run.rounds)))
    asked = dict.fromkeys(one for own in run.shards for one in read_lines(round_lines(own.rounds)) if one not in held)
    if asked:
        append_rounds(run.rounds, asked)


def _bring_longer(journal: Path, to: Path) -> None:
    """A copy, as a journal is written in place, of one that reaches further."""
    if not to.exists() or to.stat().st_size < journal.stat().st_size:
        shutil.copyfile(journal, to)


def _bring(file: Path, to: Path) -> None:
    """The same file in another folder, without a copy where the file system allows; the newer of two is kept."""
    if to.exists() and to.stat().st_mtime_ns >= file.stat().st_mtime_ns:
        return
    to.parent.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        to.unlink()
    try:
        os.link(file, to)
    except OSError:
        shutil.copy2(file, to)
