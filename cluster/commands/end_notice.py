"""The summary of a run, as the command of `--notify` and W&B's alert get it, from what `stsq run` knows at its end."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cluster.environment import BAD_INPUT
from cluster.run import MOST_THRESHOLDS, STOPPED, Notifier, ProgressLine, Summary
from stsq_core.configs import UserError
from sweeps.schedule import PackQueue
from sweeps.store import Ledger, RunDirectory
from sweeps.thresholds import WidthThreshold

if TYPE_CHECKING:
    from sweeps.findings import Findings


class EndNotice:
    """The notice of a run that is on its way.

    Set once they are known: the `run`, whether this process `holds` it (W&B is not told of a second driver that was refused),
    the `findings`, and what it was `stopped_by`.
    """

    def __init__(self, notifier: Notifier, name: str, run: RunDirectory) -> None:
        self._notifier = notifier
        self._name = name
        self.run = run
        self._began = time.monotonic()
        self.holds = False
        self.findings: Findings | None = None
        self.stopped_by = "a signal"

    def ended(self, code: int) -> None:
        """The run has ended with this exit code."""
        if code == STOPPED:
            self._send("stopped", f"stopped by {self.stopped_by}", code)
        elif code == 1:
            self._send("failed", self._what_failed(), code)
        else:
            self._send("ended", "no cell has a threshold" if code else "every trial ended as a result", code)

    def failed(self, error: Exception) -> None:
        """The run has ended with an error."""
        words = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        self._send("failed", words, BAD_INPUT if isinstance(error, UserError) else 1)

    def stalled(self, why: str, queue: PackQueue, progress: ProgressLine) -> None:
        """The run goes on, but nothing has happened for long."""
        progress.note(f"stalled: {why}")
        counts = queue.num_ended, queue.failed + queue.failed_before
        self._notifier.send(self._summary("stalled", why, None, progress.state(), counts), alert=True)

    def _send(self, state: Any, verdict: str, code: int) -> None:
        if (findings := self.findings) is None:
            counts = self._counts()
            summary = self._summary(state, verdict, code, f"{counts[0]:,} trials ended", counts)
        else:
            from dashboards.page import result_words

            counts = len(findings.records), findings.num_ended("failed")
            summary = self._summary(state, verdict, code, result_words(findings), counts, findings.thresholds)
        self._notifier.send(summary, alert=self.holds)

    def _summary(
        self,
        state: Any,
        verdict: str,
        code: int | None,
        headline: str,
        counts: tuple[int, int],
        thresholds: tuple[WidthThreshold, ...] = (),
    ) -> Summary:
        return Summary(
            self._name,
            str(self.run.path),
            state,
            verdict,
            code,
            headline,
            *counts,
            seconds=round(time.monotonic() - self._began, 1),
            thresholds=tuple(map(_fields, thresholds)) if len(thresholds) <= MOST_THRESHOLDS else None,
        )

    def _what_failed(self) -> str:
        findings = self.findings
        if findings is None:
            return "the budget is spent, and trials are untrained"
        counts = (
            (findings.num_ended("failed"), "trial failed", "trials failed"),
            (findings.num_waiting, "trial is untrained", "trials are untrained"),
            (findings.num_searching, "search has not finished", "searches have not finished"),
        )
        parts = [f"{count:,} {one if count == 1 else several}" for count, one, several in counts if count]
        return ", ".join(parts) or "a trial of the re-checks failed"

    def _counts(self) -> tuple[int, int]:
        with suppress(UserError, OSError):
            records = Ledger(self.run.ledger).read()
            return len(records), sum(record.status == "failed" for record in records)
        return 0, 0


def _fields(threshold: WidthThreshold) -> dict[str, Any]:
    return {
        "cell": threshold.label,
        "target": threshold.target_loss,
        "status": threshold.status,
        "m_star": threshold.m_star,
        "M": threshold.M,
        "low": threshold.low,
        "high": threshold.high,
    }
