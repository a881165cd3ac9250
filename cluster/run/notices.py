"""Notices of a run: when it ends, fails, is stopped or stalls, a command of the user's gets a summary of it, and W&B an alert.

What becomes of either is said in one line at most, and never ends or changes the run. The command's output is dropped, and of
the command itself only the program is named, because the rest may hold secrets.
"""

import json
import math
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dashboards.publishing import Asked, alert_beside
from stsq_core.configs import UserError

State = Literal["ended", "failed", "stopped", "stalled"]

TIMEOUT_S = 30.0
"""How long the command may take, and W&B as well."""

TIMEOUT_AFTER_STOP_S = 10.0
"""The same after a stop: `ray job stop` and Slurm kill a run that ends too late."""

MOST_THRESHOLDS = 20
"""Thresholds up to which a summary lists them."""

LEVELS = {"ended": "INFO", "failed": "ERROR", "stopped": "WARN", "stalled": "WARN"}
"""The level of W&B's alert, by state."""


@dataclass(frozen=True)
class Summary:
    """A run at its end, or while it stalls; as JSON it is what the command gets.

    Args:
        run: the run directory.
        verdict: why it is in this state, in a sentence.
        exit_code: of `stsq run`; None while it goes on.
        headline: the result in a sentence or two.
        trials_done: trials with a result, of all sessions; diverged and failed ones too.
        seconds: since this command started.
        thresholds: one object each; None where there are more than `MOST_THRESHOLDS`.
    """

    name: str
    run: str
    state: State
    verdict: str
    exit_code: int | None
    headline: str
    trials_done: int
    trials_failed: int
    seconds: float
    thresholds: tuple[dict[str, Any], ...] | None = ()

    def as_json(self) -> str:
        """One line of JSON; a summary with too many thresholds has no such key."""
        fields = {name: value for name, value in asdict(self).items() if not (name == "thresholds" and value is None)}
        return json.dumps(_finite(fields), ensure_ascii=False, allow_nan=False) + "\n"

    def alert(self) -> dict[str, str]:
        """The fields of W&B's alert; the same end of the same results is the same one, however long it took."""
        counts = f"{self.trials_done:,} trials done, {self.trials_failed:,} of them failed, after {_clock(self.seconds)}"
        text = "\n".join(dict.fromkeys(filter(None, [self.verdict, self.headline, f"{counts}; run {Path(self.run).name}"])))
        key = replace(self, seconds=0.0, run="").as_json()
        return {"title": f"{self.name} {_past(self)}", "text": text, "level": LEVELS[self.state], "key": key}


class Notifier:
    """Sends summaries of a run.

    Args:
        command: the user's, as one text; None sends no command a summary.
        alerts: whether W&B may get alerts; it gets them where the run is published online.
        mode, asked: those of the publication.
        log: gets what became of a notice that was not taken.
    """

    def __init__(
        self, command: str | None, *, alerts: bool, mode: str | None, asked: Asked, log: Callable[[str], None]
    ) -> None:
        self._words = command_words(command)
        self._alerts = alerts
        self._mode = mode
        self._asked = asked
        self._log = log
        if self._words and shutil.which(self._words[0]) is None:
            log(f"--notify: there is no program {self._words[0]!r} here; the run goes on without it")

    def send(self, summary: Summary, *, alert: bool) -> None:
        """Let the command know, and W&B where `alert`; nothing that becomes of it is an error here, Ctrl-C included."""
        timeout_s = TIMEOUT_AFTER_STOP_S if summary.state == "stopped" else TIMEOUT_S
        try:
            if self._words and (problem := run_command(self._words, summary.as_json(), timeout_s=timeout_s)):
                self._log(f"--notify: {problem}; the run is as it was")
            if self._alerts and alert:
                self._alert(summary, timeout_s)
        except Exception as error:
            self._log(f"the notice that the run has {summary.state} was not sent: {type(error).__name__}")
        except KeyboardInterrupt:
            self._log(f"the notice that the run has {summary.state} was interrupted")

    def _alert(self, summary: Summary, timeout_s: float) -> None:
        became = alert_beside(Path(summary.run), summary.alert(), mode=self._mode, asked=self._asked, timeout_s=timeout_s)
        if became != "sent" and not became.startswith("not due"):
            self._log(f"W&B: no alert that the run has {summary.state} was sent: {became}")


def command_words(command: str | None) -> tuple[str, ...]:
    """The words of a command, split as a shell does; none of None.

    Raises:
        UserError: a quotation without an end, or no word.
    """
    if command is None:
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UserError(f"--notify cannot be split into words: {error}") from None
    if not words:
        raise UserError("--notify names no command: give one, such as --notify 'python tell_me.py'")
    return words


def run_command(words: Sequence[str], text: str, *, timeout_s: float) -> str | None:
    """Run a command with a text on its standard input, in a process group of its own; returns what went wrong, if anything."""
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        return f"{words[0]} could not be started: {error.strerror or type(error).__name__}"
    try:
        process.communicate(text.encode(), timeout=timeout_s)  # a command that reads nothing is no error
    except subprocess.TimeoutExpired:
        _end(process)
        return f"{words[0]} took longer than {timeout_s:g} s and was ended"
    except BaseException:
        _end(process)
        raise
    if process.returncode < 0:
        return f"{words[0]} was ended by {signal.Signals(-process.returncode).name}"
    return f"{words[0]} ended with exit code {process.returncode}" if process.returncode else None


def without_command(arguments: Sequence[str], command: str | None) -> list[str]:
    """The words of the run's own command without what `--notify` names, for files that others may read."""
    if command is None:
        return list(arguments)
    return ["..." if word == command else word.replace(f"--notify={command}", "--notify=...") for word in arguments]


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _past(summary: Summary) -> str:
    return summary.state if summary.state != "ended" or not summary.exit_code else "ended without a threshold"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _finite(value: Any) -> Any:
    """A value for JSON, where what is no finite number is null."""
    if isinstance(value, dict):
        return {name: _finite(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
