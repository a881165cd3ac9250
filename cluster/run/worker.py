"""Trains one pack wherever it is sent: measurements to its journal, state to its checkpoint, weights and outcome to files.

The only place where a trial's exceptions are caught; they become the pack's failure. The outcome is written to a file before
it is returned, so that a driver that dies in between finds it when it runs again (`adopt_outcomes`). Orders and outcomes are
JSON text, which Ray, a file and an inline call carry alike.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.run.claim import Claim, SupersededError, claim_path
from stsq_core.configs import NUMERICS, Measurement, TrialConfig, TrialResult, UserError, plugins_of
from stsq_core.numerics import Device
from stsq_core.plugins import Plugin, load, used_plugins
from sweeps.cells import Pack, pack_of
from sweeps.schedule import Failure, PackOutcome
from sweeps.store import (
    FileCheckpoint,
    JournalWriter,
    Ledger,
    Preempted,
    RunDirectory,
    record_of_result,
    retry_io,
    save_weights,
    sealed,
    unsealed,
    warn_once,
    write_with_retries,
)

MEMORY_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")


@dataclass(frozen=True)
class Order:
    """A pack for a worker to train, where its files go, and how many seconds it may take, if not as many as it needs."""

    pack: Pack
    run: Path
    device: Device
    keep_weights: bool
    checkpoint_every_s: float
    seconds_left: float | None = None

    def as_json(self) -> str:
        order = {
            "configs": [config.model_dump(mode="json") for config in self.pack.configs],
            "plugins": [plugin.plain() for plugin in used_plugins(self.pack.configs)],
            "run": str(self.run),
            "device": self.device,
            "keep_weights": self.keep_weights,
            "checkpoint_every_s": self.checkpoint_every_s,
            "seconds_left": self.seconds_left,
        }
        return json.dumps(order)

    @classmethod
    def from_json(cls, text: str) -> "Order":
        order = json.loads(text)
        for plugin in order.pop("plugins"):
            load(Plugin(**plugin))
        configs = [TrialConfig.model_validate(config) for config in order.pop("configs")]
        return cls(pack=pack_of(configs), run=Path(order.pop("run")), **order)


def train_order(text: str, leaving: Callable[[], bool] = lambda: False) -> str:
    """Train the pack of an order (JSON) and return its outcome (JSON); an outcome that is there already is returned again.

    Of a pack that does not end within the order's seconds the state is saved, and the outcome is the failure `budget`.

    Raises:
        Preempted: `leaving` said that the worker must leave; the pack's state is saved.
        SupersededError: another worker was given the pack meanwhile.
    """
    try:
        order = Order.from_json(text)
        run = RunDirectory(order.run)
        with Claim(claim_path(run, order.pack.pack_id)) as claim:
            path = outcome_path(run, order.pack.pack_id)
            kept = retry_io(path, lambda: read_outcome(path) if path.is_file() else None)
            if kept is None or kept["failure"] is not None:
                kept = _train(order, run, claim, leaving)
                claim.check()
                if kept["failure"] is None or kept["failure"]["kind"] != "budget":
                    write_with_retries(path, sealed(json.dumps(kept).encode()))
            return json.dumps(kept | {"taken_from": claim.taken_from})
    except UserError as error:
        return json.dumps({"refused": str(error)})


def outcome_from_json(text: str, pack: Pack | None = None, *, notify: Callable[[str], None] = warn_once) -> PackOutcome:
    """The outcome of a pack from a worker's report; the pack is made from its configs where it is not at hand.

    `notify` is called if the worker had to take the pack from another.

    Raises:
        UserError: the worker could not write to the run directory, so that nothing it trained could be kept.
    """
    report = json.loads(text)
    if "refused" in report:
        raise UserError(f"{report['refused']}; what is in the ledger is kept, and the same command goes on from there")
    if holder := report.get("taken_from"):
        notify(f"a pack was taken from a worker that was given up and did not end ({holder}); it went on from its last state")
    return _outcome_of(report, pack)


def _outcome_of(report: Mapping[str, Any], pack: Pack | None = None) -> PackOutcome:
    if pack is None:
        pack = pack_of(TrialConfig.model_validate(config) for config in report["configs"])
    results = tuple(TrialResult(config, **result) for config, result in zip(pack.configs, report["results"], strict=False))
    failure = Failure(**report["failure"]) if report["failure"] else None
    return PackOutcome(pack, results, failure, device=report["device"])


def outcome_path(run: RunDirectory, pack_id: str) -> Path:
    """The file of a pack's outcome from its end until it is in the ledger."""
    return run.checkpoints / f"{pack_id}.outcome.json"


def read_outcome(path: Path) -> dict[str, Any] | None:
    """The report in an outcome's file; None where it is damaged, which is said, or of another version of the arithmetic."""
    try:
        report, _ = unsealed(path.read_bytes())
        if report["numerics"] != NUMERICS:
            return None
        plugins = {name: digest for config in _outcome_of(report).pack.configs for name, digest in plugins_of(config).items()}
        if report.get("plugins", {}) != plugins:
            return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        warn_once(f"{path} is damaged and left out ({type(error).__name__}): its pack is trained again")
        return None
    return report


def adopt_outcomes(run: RunDirectory, ledger: Ledger) -> int:
    """Record in the ledger what ended while no driver was running; returns the number of trials.

    A failure is not adopted (its pack is tried again), nor a damaged file, nor one of another version of the arithmetic. A
    result takes the place of a failure: its worker ended after it was given up.
    """
    paths = [path for path in sorted(run.checkpoints.glob("*.outcome.json")) if path.is_file()]
    held = {line["trial_id"] for line in (ledger.lines() if paths else ()) if line["status"] != "failed"}
    num_adopted = 0
    for path in paths:
        if (report := read_outcome(path)) is not None:
            outcome = _outcome_of(report)
            fresh = [result for result in outcome.results if result.config.trial_id not in held]
            where = {"pack_id": outcome.pack.pack_id, "device": outcome.device}
            ledger.append(record_of_result(result, **where) for result in fresh)
            num_adopted += len(fresh)
        path.unlink(missing_ok=True)
    return num_adopted


def _train(order: Order, run: RunDirectory, claim: Claim, leaving: Callable[[], bool]) -> dict[str, Any]:
    from stsq_core.numerics import resolve_device
    from stsq_core.training import train_pack

    pack, device = order.pack, resolve_device(order.device)
    outcome: dict[str, Any] = {
        "configs": [config.model_dump(mode="json") for config in pack.configs],
        "numerics": NUMERICS,
        "plugins": {name: digest for config in pack.configs for name, digest in plugins_of(config).items()},
        "device": device,
        "results": [],
        "failure": None,
    }
    ends_at = math.inf if order.seconds_left is None else time.monotonic() + order.seconds_left

    def stopping() -> bool:
        return time.monotonic() > ends_at or leaving()

    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack, check=claim.check) as journal:
        began = time.perf_counter()
        state = run.checkpoints / f"{pack.pack_id}.state"
        checkpoint = FileCheckpoint(state, journal, every_s=order.checkpoint_every_s, leaving=stopping)

        def report(measurement: Measurement) -> None:
            journal(measurement)
            claim.note_compiling()

        try:
            results = train_pack(
                pack.configs, report=report, device=device, checkpoint=checkpoint, keep_weights=order.keep_weights
            )
            for result in results:
                if result.weights is not None:
                    save_weights(run, result)
        except (UserError, SupersededError):
            raise  # the run directory cannot be written, or must not be
        except Preempted:
            if leaving():
                raise  # the pack goes on elsewhere
            return outcome | {"failure": {"kind": "budget", "reason": "the time budget is spent"}}
        except Exception as error:
            outcome["failure"] = _failure(error) | {"seconds": time.perf_counter() - began}
        else:
            outcome["results"] = [_result_fields(result) for result in results]
        claim.check()
        checkpoint.discard()
    return outcome


def _result_fields(result: TrialResult) -> dict[str, Any]:
    numbers = {name: value for name, value in vars(result).items() if name not in ("config", "weights")}
    return {**numbers, "metrics": dict(result.metrics)}


def _failure(error: Exception) -> dict[str, Any]:
    """The failure as fields of the ledger; a shortage of memory is of a kind that a smaller pack may not have."""
    text = str(error)
    if isinstance(error, MemoryError) or any(words in text.lower() for words in MEMORY_WORDS):
        return {"kind": "out_of_memory", "reason": "out of memory"}
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    return {"kind": "error", "reason": f"{type(error).__name__}: {line}"}
