"""The run directory: everything that a sweep leaves behind, from which every threshold, figure and page can be made again."""

import errno
import fcntl
import os
import re
import secrets
import shlex
import socket
from binascii import crc32
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from stsq_core.configs import UserError
from sweeps.cells import WHOLE, ExpandedSweep, Shard, cell_of, check_sweep, describe, suggestion_of_run
from sweeps.schema import SweepSpec, as_kept, check_seal, parse, sealed_text
from sweeps.store.files import UNREACHABLE, disk_errors, write_atomically
from sweeps.store.jsonl import free_name, warn_once
from sweeps.store.ledger import Ledger
from sweeps.store.run_plugins import load_kept


@dataclass(frozen=True)
class RunDirectory:
    """The paths of a run; nothing is read or written by naming them."""

    path: Path

    @property
    def spec(self) -> Path:
        """The sweep as it was last started; earlier ones are `spec.1.yaml`, `spec.2.yaml`, ..."""
        return self.path / "spec.yaml"

    @property
    def ledger(self) -> Path:
        """One line for each trial that ended."""
        return self.path / "ledger.jsonl"

    @property
    def curves(self) -> Path:
        """The journals, one for each pack: PACK_ID.jsonl."""
        return self.path / "curves"

    @property
    def checkpoints(self) -> Path:
        """The states of packs in training."""
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        """Trained arrays kept on request: TRIAL_ID.npz."""
        return self.path / "weights"

    @property
    def studies(self) -> Path:
        """The Optuna studies of searches, one a cell, where the sweep names no other storage."""
        return self.path / "study.journal"

    @property
    def rounds(self) -> Path:
        """The points that searches asked for, a line a round of a cell."""
        return self.path / "rounds.jsonl"

    @property
    def plugins(self) -> Path:
        """Copies of the plugins whose kinds its trials are of (`sweeps.store.run_plugins`)."""
        return self.path / "plugins"

    @property
    def identity(self) -> Path:
        """A random name of this directory, by which studies in a shared storage know whose they are."""
        return self.path / "study.id"

    def owner(self, *, is_shared: bool) -> str:
        """The name in `identity`, made where there is none, so that it stays when the directory is moved.

        Where the file is damaged or gone, the studies are made anew from the ledger under another name.

        Raises:
            UserError: the file is damaged and the studies are in a storage that is shared.
        """
        if (kept := self.kept_owner()) is not None:
            return kept
        if is_shared and self.identity.exists():
            raise UserError(
                f"{self.identity} is damaged: it names this directory in the storage of its studies; write there what the "
                "studies of the sweep have as stsq:run, or give another search.storage"
            )
        for path in () if is_shared else (self.identity, self.studies):
            if path.exists():
                warn_once(f"{self.identity} is damaged or gone: the studies are made anew from the ledger")
                path.replace(free_name(path))
        name = secrets.token_hex(8)
        write_atomically(self.identity, f"{name} {crc32(name.encode()):08x}\n".encode())
        return name

    def kept_owner(self) -> str | None:
        """The name in `identity`; None where there is none, or a damaged one."""
        with suppress(OSError, UnicodeDecodeError):
            name, _, checksum = self.identity.read_text(encoding="utf-8").strip().partition(" ")
            if re.fullmatch(r"[0-9a-f]{16}", name) and checksum in ("", f"{crc32(name.encode()):08x}"):
                return name
        return None

    @property
    def ray(self) -> Path:
        """What Ray Tune stores."""
        return self.path / "ray"

    @property
    def wandb(self) -> Path:
        """Weights & Biases files."""
        return self.path / "wandb"

    @property
    def report(self) -> Path:
        """Page, figures and tables."""
        return self.path / "report"

    @property
    def lock(self) -> Path:
        """Held by the process that runs the sweep."""
        return self.path / "lock"

    @property
    def sessions(self) -> Path:
        """When, where and with which versions the sweep was run."""
        return self.path / "sessions.jsonl"

    @property
    def shards(self) -> tuple["RunDirectory", ...]:
        """The directories of its shards, where several drivers share the sweep (module `shards`)."""
        return tuple(RunDirectory(spec.parent) for spec in sorted(self.path.glob("shards/*/spec.yaml")))

    @property
    def shard(self) -> Shard:
        """The shard whose cells this directory is about, as the name of its folder says; all cells elsewhere."""
        named = re.fullmatch(r"(\d+)-of-(\d+)", self.path.name) if self.path.parent.name == "shards" else None
        return Shard(*map(int, named.groups())) if named else WHOLE

    def make_rooms(self) -> None:
        """Make the folders that workers write to; they make none themselves, since a run directory whose storage went away is
        not to be begun anew below its place.

        Raises:
            UserError: the directory may not be written.
        """
        for folder in (self.curves, self.checkpoints):
            with disk_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)

    def read_spec(self) -> SweepSpec:
        """The sweep of this run, for those who need no cells.

        Raises:
            UserError: as `read_sweep`.
        """
        return self.read_sweep().spec

    def read_sweep(self) -> ExpandedSweep:
        """The sweep of this run with its cells, of a shard with its own; one that another version has written, as it was meant.

        Raises:
            UserError: a spec that cannot be read or is no longer valid, or a plugin of it that may not be loaded.
        """
        return self.read_whole_sweep().of_shard(self.shard)

    def read_whole_sweep(self) -> ExpandedSweep:
        """The sweep with all its cells, also those of other shards.

        Raises:
            UserError: as `read_sweep`.
        """
        load_kept(self.plugins)
        try:
            text = self.spec.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{str(self.spec)!r} cannot be read: {error}") from None
        check_seal(text, str(self.spec))
        document, notes = as_kept(parse(text, str(self.spec)))
        return replace(check_sweep(document), notes=notes)


def former_search_seeds(run: RunDirectory) -> frozenset[int]:
    """The values that `search.seed` had in earlier forms of the sweep, as far as these can be read."""
    seeds = set()
    for path in run.path.glob("spec.*.yaml"):
        with suppress(UserError, OSError, UnicodeDecodeError):
            data = parse(path.read_text(encoding="utf-8"), str(path)).data
            search = data.get("search") if isinstance(data, dict) else None
            seed = search.get("seed", 0) if isinstance(search, dict) else 0
            seeds |= {seed} if type(seed) is int else set()
    return frozenset(seeds)


def create_or_open(path: Path | str, sweep: SweepSpec | ExpandedSweep) -> RunDirectory:
    """The run directory of a sweep, made where there is none.

    The same sweep with other axes, seeds or criterion extends the directory: its old `spec.yaml` is kept under a number.

    Raises:
        UserError: the path holds another sweep (of another name, or with results of which none belongs to a cell of this one)
            or other files, may not be written, or its sweep is running now and differs.
    """
    run, spec = RunDirectory(Path(path)), sweep.spec if isinstance(sweep, ExpandedSweep) else sweep
    if run.path.exists() and not run.path.is_dir():
        raise UserError(f"{str(run.path)!r} is a file; a run needs a directory: give another --out")
    with disk_errors(run.path):
        run.path.mkdir(parents=True, exist_ok=True)
        foreign = [] if run.spec.exists() else sorted(entry.name for entry in run.path.iterdir() if not _is_own(run, entry))
    if foreign:
        raise UserError(
            f"{str(run.path)!r} is not empty and is no run (it holds {foreign[0]!r}): "
            f"give an empty or new directory for the sweep {spec.name!r} with --out"
        )
    _check_writable(run)
    text = spec.as_yaml()
    with suppress(OSError, UnicodeDecodeError):
        if run.spec.read_text(encoding="utf-8") in (sealed_text(text), text):
            return run
    with Lock(run.lock):
        if run.shards and (held := run.shards[0].read_spec().name) != spec.name:
            raise _other_sweep(run, held, spec.name)
        _write_spec(run, sweep, text)
    return run


def _check_writable(run: RunDirectory) -> None:
    """Make sure, before anything is changed, that what a run adds to may be written: it may be another person's.

    Raises:
        UserError: a file or folder that may not be.
    """
    begun = (run.curves / f"{state.stem}.jsonl" for state in run.checkpoints.glob("*.state"))
    for path in filter(Path.is_file, (run.lock, run.ledger, run.sessions, run.studies, *begun)):
        with disk_errors(path):
            os.close(os.open(path, os.O_WRONLY))
    for folder in filter(Path.is_dir, (run.path, run.curves, run.checkpoints, run.weights, run.ray, run.wandb, run.report)):
        with disk_errors(folder):
            if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _is_own(run: RunDirectory, entry: Path) -> bool:
    """Whether a file is what a run killed at its very start has left (its lock, a sweep that it was writing), or is of its
    shards and their publishers.
    """
    return (
        entry == run.lock
        or (bool(run.shards) and entry.name in ("shards", run.wandb.name))
        or (entry.name.startswith(f".{run.spec.name}.") and entry.suffix == ".new")
    )


def open_run(path: Path | str) -> RunDirectory:
    """The run directory at a path, for reading; its plugins are loaded where the user has allowed them.

    Raises:
        UserError: there is none, or a plugin of it may not be loaded.
    """
    run = RunDirectory(Path(path))
    if not run.spec.is_file():
        if run.shards:
            raise UserError(
                f"{str(run.path)!r} is divided into shards: `stsq run {shlex.quote(str(path))}` merges them once they have "
                f"ended, or give one of them, such as {str(run.shards[0].path)!r}"
            )
        what = "holds no spec.yaml, so it is no run" if run.path.is_dir() else "does not exist"
        near = suggestion_of_run(run.path)
        raise UserError(f"{str(run.path)!r} {what}{near}: give the directory of a run, such as runs/quickstart")
    load_kept(run.plugins)
    return run


def _other_sweep(run: RunDirectory, held: str, asked: str) -> UserError:
    return UserError(f"{str(run.path)!r} holds the sweep {held!r}, not {asked!r}: give another directory with --out")


def _write_spec(run: RunDirectory, sweep: SweepSpec | ExpandedSweep, text: str) -> None:
    if run.spec.exists():
        sweep = ExpandedSweep.of(sweep)
        spec = sweep.spec
        load_kept(run.plugins)
        try:
            held = run.read_spec()
        except UserError:  # damaged: the results of the directory say whether the sweep is theirs
            _check_related(run, sweep)
            run.spec.replace(free_name(run.spec))
        else:
            if held == spec:  # written by another version, whose text may say more than this one reads
                return
            if held.name != spec.name:
                raise _other_sweep(run, held.name, spec.name)
            _check_related(run, sweep)
            write_atomically(_next_old_spec(run), run.spec.read_bytes())
    write_atomically(run.spec, sealed_text(text).encode())


def _check_related(run: RunDirectory, sweep: ExpandedSweep) -> None:
    """Refuse a sweep that shares no cell with the results that the directory holds: only its name is that of the old one."""
    records = Ledger(run.ledger).read()
    spec, labels = sweep.spec, sweep.labels
    declared = {trial_id for cell in sweep.cells for trial_id in cell.trials.trial_ids}
    if not records or any(record.trial_id in declared for record in records):
        return
    if any(cell_of(record.trial_config, spec.criterion.size) in labels for record in records):
        return
    label = next(iter(labels.values()), "none of this shard")
    held = f"{len(records)} result{'s' if len(records) > 1 else ''}"
    raise UserError(
        f"{str(run.path)!r} holds {held} of another sweep that is named {spec.name!r} too: its cells, such as "
        f"{describe(records[0].trial_config)!r}, are none of those asked for now, such as {label!r}: give another "
        "directory with --out, or another name to the sweep"
    )


def _next_old_spec(run: RunDirectory) -> Path:
    number = 1
    while (old := run.path / f"spec.{number}.yaml").exists():
        number += 1
    return old


class Lock:
    """Lets only one process run a sweep in a directory; the operating system frees it when its holder dies, however it dies.

    The lock file names its holder, so its content must survive the attempts of others.
    """

    # flock itself and not the filelock package: that neither names the holder nor can ask for it without taking the lock.

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UserError: another process holds it (the message names that process), or the directory may not be written.
        """
        with disk_errors(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 500, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise UserError(
                    f"{str(self.path.parent)!r} is in use by {holder}: wait until it ends or stop it, or give another --out"
                ) from None
            except OSError:
                os.close(descriptor)
                raise
            since = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Free the lock; freeing it twice is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # where its storage is away, a lock falls with its process
                os.ftruncate(descriptor, 0)
                os.close(descriptor)

    def check(self) -> None:
        """Make sure, before anything is written, that the lock is still at its path: removed, another may take its place.

        Raises:
            UserError: it was removed or replaced.
        """
        mine = os.fstat(self._descriptor)
        with disk_errors(self.path, but=UNREACHABLE):
            is_mine = self.path.exists() and os.path.samestat(mine, self.path.stat())
            if not is_mine and self.path.parent.is_dir():
                raise UserError(
                    f"{str(self.path)!r} was removed while this process held it, and another may run the sweep now: this one "
                    "stops; what is in the ledger is kept"
                )

    def holder(self) -> str | None:
        """Who holds the lock now, in words; None where nobody does."""
        try:
            with self.path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return file.read(500).decode(errors="replace").strip() or "another process"
        except OSError:
            pass
        return None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
