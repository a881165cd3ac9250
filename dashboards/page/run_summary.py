"""What is known of a run in a few words, for lists of runs."""

from dataclasses import dataclass
from pathlib import Path

from dashboards.page.headline import result_words
from dashboards.words import ended_words, left_words
from stsq_core.configs import UserError
from sweeps.findings import read_findings, read_progress
from sweeps.store import RunDirectory


@dataclass(frozen=True)
class RunSummary:
    """A run in a few words; `headline` says why one that is `unreadable` cannot be read."""

    path: str
    sweep: str
    state: str
    num_ended: int
    num_trials: int
    progress: str
    seconds_left: float | None
    headline: str

    def name(self, folder: Path) -> str:
        """The run as it is called below a folder."""
        own = Path(self.path)
        return str(own.relative_to(folder)) if own != folder and own.is_relative_to(folder) else own.name


def summary_of(run: RunDirectory) -> RunSummary:
    """A run as its directory tells now; no error of one run keeps others from being listed."""
    try:
        findings = read_findings(run.path)
        progress = read_progress(run, findings.progress_basis)
    except (UserError, OSError) as error:
        return RunSummary(str(run.path), "", "unreadable", 0, 0, "", None, str(error))
    state = "running" if progress.holder else "complete" if progress.complete else "not running"
    left = left_words(progress.seconds_left) if progress.holder else ""
    words = f"{ended_words(progress)}{f', {left} left' if left else ''}"
    counts = (progress.num_ended, progress.num_trials, words, progress.seconds_left)
    return RunSummary(str(run.path), findings.spec.name, state, *counts, result_words(findings))
