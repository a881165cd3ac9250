"""A run directory with a file of every kind, and every kind of damage to one of its files."""

import json
import random
import shutil
from collections.abc import Callable
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from _pytest.capture import CaptureFixture

from cluster.commands import cli
from cluster.run.worker import Order, train_order
from dashboards.publishing.destination import Asked
from dashboards.publishing.publisher import publish
from stsq_core.configs import TrialConfig
from sweeps.cells.packs import pack_of
from sweeps.store.journal import Preempted
from sweeps.store.ledger import Ledger, write_ledger
from sweeps.store.run_directory import RunDirectory

SWEEP: dict[str, Any] = {
    "name": "torn",
    "hypothesis": "Damaged files are named, and their trials are trained again.",
    "criterion": {"target_loss": 0.9},
    "search": {"cap": 4, "batch": 2},
    "trials": [
        {
            "name": "grid",
            "base": {
                "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
                "model": {"kind": "fcn", "tail_width": 16},
                "optimizer": {"kind": "adam", "lr": 0.01},
                "training": {"batch_size": 16, "steps": 60},
                "evaluation": {"samples": 4096},
            },
            "grid": {"model.width": [2, 4, 8]},
            "seeds": 2,
        },
    ],
}
SEARCHED = SWEEP["trials"][0] | {"name": "searched", "search": {"low": 2, "high": 16}}
SEARCHED = {name: value for name, value in SEARCHED.items() if name not in ("grid", "seeds")}
SEARCHED["base"] = SEARCHED["base"] | {"task": {"kind": "stsq", "T": 5, "q": 2, "d": 2}}

FILES = (
    "ledger.jsonl",
    "sessions.jsonl",
    "spec.yaml",
    "rounds.jsonl",
    "study.id",
    "study.journal",
    "curves/ENDED.jsonl",
    "curves/OPEN.jsonl",
    "checkpoints/OPEN.state",
    "checkpoints/LEFT.outcome.json",
    "wandb/published.jsonl",
    "wandb/identity.json",
    "wandb/form.json",
    "wandb/cells/CELL.jsonl",
    "wandb/asked.json",
    "wandb/report.json",
    "weights/TRIAL.npz",
)
"""ENDED is a pack of the ledger, OPEN one that was interrupted, LEFT one that ended and is not in the ledger. CELL is
searched."""


def make_base(folder: Path, capsys: CaptureFixture[str]) -> dict[str, Any]:
    """Make `folder/run` and `folder/sweep.yaml`; returns the numbers of all trials, and what each name in FILES is here."""
    sweep, run = folder / "sweep.yaml", RunDirectory(folder / "run")
    sweep.write_text(yaml.safe_dump(SWEEP | {"trials": [*SWEEP["trials"], SEARCHED]}, sort_keys=False))
    code, _, err = call(capsys, "run", sweep, "--out", run.path, "--inline", "--wandb", "disabled", "--keep-weights")
    assert code in (0, 3), err
    records = Ledger(run.ledger).read()
    numbers = numbers_of(run)
    grid = [one for one in records if one.config["task"]["T"] == 4]
    left, opened = grid[:2], grid[2:4]
    write_ledger(run.ledger, [one for one in records if one not in (*left, *opened)])
    for path in run.curves.glob("*.jsonl"):
        path.unlink() if path.stem in {one.pack_id for one in grid} else None
    packs = {}
    for name, own in (("LEFT", left), ("OPEN", opened), ("ENDED", grid[4:])):
        pack = pack_of([TrialConfig.model_validate(dict(one.config)) for one in own])
        packs[name] = pack.pack_id
        order, steps = Order(pack, run.path, "cpu", True, 0.0), count()
        try:
            train_order(order.as_json(), lambda name=name, steps=steps: name == "OPEN" and next(steps) > 5)
        except Preempted:
            assert name == "OPEN"
    (run.checkpoints / f"{packs['ENDED']}.outcome.json").unlink()
    rest = [one if one not in grid[4:] else _in_pack(one, packs["ENDED"]) for one in Ledger(run.ledger).read()]
    write_ledger(run.ledger, rest)
    publish(run.path, mode="offline", asked=Asked("torn", None, ("a",)))
    [cell] = run.read_sweep().searched
    trials = {"trial": grid[-1].trial_id, "grid": [one.trial_id for one in grid]}
    return {"numbers": numbers, "packs": packs, "cell": cell.cell_id, **trials}


def _in_pack(record: Any, pack_id: str) -> Any:
    from dataclasses import replace

    return replace(record, pack_id=pack_id)


def path_of(run: Path, name: str, base: dict[str, Any]) -> Path:
    for word, pack_id in base["packs"].items():
        name = name.replace(word, pack_id)
    return run / name.replace("TRIAL", base["trial"]).replace("CELL", base["cell"])


def call(capsys: CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """A command in this process: exit code, output, messages."""
    try:
        cli.main([str(word) for word in words])
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def numbers_of(run: RunDirectory) -> dict[str, tuple[object, ...]]:
    return {r.trial_id: (r.status, r.relative_loss, r.relative_loss_stderr, r.steps) for r in Ledger(run.ledger).read()}


def _lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(b"".join(change(list(BytesIO(path.read_bytes()))))) and None


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _put(data: bytes, middle: bytes) -> bytes:
    """Bytes written over the middle."""
    place = len(data) // 2
    return (data[:place] + middle + data[place + len(middle) :])[: max(len(data), place + len(middle))]


def _flip(seed: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        place = random.Random(seed).randrange(8 * len(data))
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(data))

    return flip


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _edited(path: Path) -> None:
    """Another digit in place of the last but some, as a hand or a program might write it."""
    data = bytearray(path.read_bytes())
    places = [place for place, byte in enumerate(data) if chr(byte).isdigit()] or [0]
    place = places[2 * len(places) // 3]
    data[place] = ord("1") + (data[place] - ord("0")) % 9 if places != [0] else data[place] ^ 1
    path.write_bytes(bytes(data))


KINDS: dict[str, Callable[[Path], None]] = {
    "cut in half": _bytes(lambda data: data[: len(data) // 2]),
    "cut by five bytes": _bytes(lambda data: data[:-5]),
    "emptied": _bytes(lambda data: b""),
    "removed": Path.unlink,
    "a page of NULs": _bytes(lambda data: _put(data, bytes(min(4096, max(1, len(data) // 2))))),
    "all NULs": _bytes(lambda data: bytes(len(data))),
    "not UTF-8": _bytes(lambda data: _put(data, b"\xff\xfe")),
    "random bytes": _bytes(lambda data: random.Random(0).randbytes(len(data))),
    "a line 7": _lines(lambda lines: [*lines[:1], b"7\n", *lines[1:]]),
    "a line null": _lines(lambda lines: [*lines[:1], b"null\n", *lines[1:]]),
    "a line []": _lines(lambda lines: [*lines[:1], b"[]\n", *lines[1:]]),
    "a line {}": _lines(lambda lines: [*lines[:1], b"{}\n", *lines[1:]]),
    "only null": _bytes(lambda data: b"null\n"),
    "only {}": _bytes(lambda data: b"{}\n"),
    "the first line gone": _lines(lambda lines: lines[1:]),
    "the last line gone": _lines(lambda lines: lines[:-1]),
    "two lines joined": _lines(lambda lines: [lines[0].rstrip(b"\n"), *lines[1:]]),
    "a line twice": _lines(lambda lines: [*lines, *lines[-1:]]),
    "a directory": _directory,
    "a digit edited": _edited,
    **{f"a flipped bit ({seed})": _flip(seed) for seed in range(6)},
}

FIELDS: tuple[tuple[str, object], ...] = (
    ("relative_loss", "0.123"),
    ("relative_loss", -5),
    ("relative_loss", None),
    ("relative_loss_stderr", []),
    ("status", "ended"),
    ("status", {}),
    ("steps", "60"),
    ("metrics", 7),
    ("plugins", []),
    ("trial_id", None),
    ("config", {}),
    ("config.model.width", 3.5),
    ("config.task", []),
    ("config.optimizer.lr", "0.01"),
    ("pack_id", 0),
    ("finished_at", "then"),
    ("schema", "1"),
    ("numerics", None),
)


def with_field(name: str, value: object, *, has_checksum: bool) -> Callable[[Path], None]:
    """Damages the ledger: a field of its first line, with the old checksum or without any."""

    def change(path: Path) -> None:
        first, *rest = path.read_bytes().splitlines(keepends=True)
        line = json.loads(first)
        *parts, last = name.split(".")
        place = line
        for part in parts:
            place = place[part]
        place[last] = value
        if not has_checksum:
            del line["crc"]
        path.write_bytes(b"".join([json.dumps(line).encode() + b"\n", *rest]))

    return change


def copy_of(base: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(base, to, symlinks=True)
    return to
