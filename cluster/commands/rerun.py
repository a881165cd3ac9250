"""`stsq trial`: retrains one trial of a ledger alone and compares the result with its line."""

import time
from dataclasses import dataclass
from pathlib import Path

from stsq_core.configs import TrialResult, UserError
from stsq_core.numerics import Device
from sweeps.store import Ledger, LedgerRecord, open_run, save_weights, warn_once

NUMBERS = ("relative_loss", "relative_loss_stderr")


@dataclass(frozen=True)
class Rerun:
    """A ledger line and the result of training it again; `weights` is the file of its arrays where they are kept."""

    record: LedgerRecord
    result: TrialResult
    seconds: float
    weights: Path | None = None

    @property
    def reproduced(self) -> bool:
        """Whether every number is equal to the bit."""
        same = all(getattr(self.record, name) == getattr(self.result, name) for name in (*NUMBERS, "status", "steps"))
        return same and not self._other_metrics

    @property
    def _other_metrics(self) -> list[str]:
        """The metrics that differ."""
        before, now = self.record.metrics or {}, self.result.metrics
        return sorted(name for name in before.keys() | now.keys() if repr(before.get(name)) != repr(now.get(name)))

    def comparison(self) -> str:
        """In words: reproduced bit for bit, or the size of the difference."""
        if self.reproduced:
            return "reproduced bit for bit"
        if self.record.status == "failed":
            return f"the ledger says failed ({self.record.reason}); trained again it {self.result.status}"
        if self.record.status != self.result.status or self.record.steps != self.result.steps:
            before, now = (f"{one.status} after {one.steps} steps" for one in (self.record, self.result))
            return f"differs: the ledger says {before}, now {now}"
        if self.record.relative_loss == self.result.relative_loss and self._other_metrics:
            return f"differs in {', '.join(self._other_metrics)}; the relative loss is the same"
        old_loss, new_loss = self.record.relative_loss or 0.0, self.result.relative_loss or 0.0
        share = abs(new_loss - old_loss) / abs(old_loss) if old_loss else abs(new_loss)
        errors = abs(new_loss - old_loss) / (self.record.relative_loss_stderr or float("inf"))
        return f"differs by {share:.3g} of the loss, {errors:.3g} standard errors"


def rerun_trial(run_path: Path, trial_id: str, *, device: Device = "auto", keep_weights: bool = False) -> Rerun:
    """Train one trial of a run alone; `auto` takes the device that the ledger names.

    `keep_weights` puts the trained arrays where `sweeps.load_weights` finds them, unless the trial diverged.

    Raises:
        UserError: no run there, no such trial in its ledger, or weights that cannot be written.
    """
    run = open_run(run_path)
    ledger = Ledger(run.ledger)
    records = ledger.read()
    for note in ledger.notes:
        warn_once(note)
    record = find_record(records, trial_id)
    from stsq_core.training import train_pack

    began = time.perf_counter()
    chosen = record.device if device == "auto" else device
    (result,) = train_pack([record.trial_config], device=chosen, keep_weights=keep_weights)
    seconds = time.perf_counter() - began
    return Rerun(record, result, seconds, save_weights(run, result) if result.weights is not None else None)


def find_record(records: tuple[LedgerRecord, ...], trial_id: str) -> LedgerRecord:
    """The record of a trial by its id, or by its beginning.

    Raises:
        UserError: none or several begin so.
    """
    found = [record for record in records if trial_id and record.trial_id.startswith(trial_id)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(record.trial_id for record in found[:4])
        raise UserError(f"{len(found)} trials begin with {trial_id!r} ({several}, ...): give more of the id")
    example = f"such as {records[0].trial_id}" if records else "but the ledger is empty"
    raise UserError(
        f"the ledger holds no trial {trial_id!r}; it holds {len(records)} trials, {example}: copy an id from ledger.jsonl"
    )
