"""The publisher as a child process of the driver of a sweep, which runs beside it and finishes after it.

The driver holds the writing end of the child's standard input. Closing it means "the sweep has ended": the child publishes the
rest and exits. If the driver is killed, the kernel closes the pipe. The child runs in a new session, so that a Ctrl-C in the
driver's terminal does not interrupt it in mid-file; its log is `RUN/wandb/publisher.log`.

    publisher = PublisherProcess.start(run_path, mode=None)    # before training
    ...
    publisher.finish(timeout_s=60)                             # after training; False: still busy, it ends by itself
"""

import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from dashboards.publishing.destination import NOTHING_ASKED, Asked
from sweeps.store import disk_errors, module_command

RESTARTS = 3


class PublisherProcess:
    """A publisher beside a run. One that is killed is started again, `RESTARTS` times at most: it goes on where its files end.

    `process` is the present one, `again` starts another.
    """

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        again: "Callable[[], subprocess.Popen[bytes]] | None" = None,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.process = process
        self._notify = notify
        self._changing = threading.Lock()
        self._is_ending = False
        if again is not None:
            threading.Thread(target=self._keep, args=(again,), daemon=True).start()

    @classmethod
    def start(
        cls,
        run_path: Path,
        *,
        mode: str | None = None,
        asked: Asked = NOTHING_ASKED,
        notify: Callable[[str], None] = lambda _: None,
    ) -> "PublisherProcess":
        """Start publishing in a mode (`auto`, `offline`, ...), to a project, an entity and with tags.

        The environment and the sweep decide what is None.

        Raises:
            UserError: `RUN/wandb` cannot be written.
        """
        log_path = run_path / "wandb" / "publisher.log"
        command = _command(run_path, "--follow", mode=mode, asked=asked)

        def begin() -> "subprocess.Popen[bytes]":
            with log_path.open("ab") as log:
                return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)

        with disk_errors(log_path.parent):
            log_path.parent.mkdir(parents=True, exist_ok=True)
            process = begin()
        return cls(process, begin, notify)

    def finish(self, timeout_s: float = 60.0) -> bool:
        """Signal that the sweep has ended and wait for the publisher; true if it has ended with all runs published.

        A publisher that is still busy after `timeout_s` is left alone: it ends by itself, and `sync` can publish the rest.
        """
        with self._changing:
            self._is_ending = True
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            return self.process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False

    def _keep(self, again: "Callable[[], subprocess.Popen[bytes]]") -> None:
        for _ in range(RESTARTS):
            code = self.process.wait()
            with self._changing:
                if self._is_ending or code >= 0:  # what it ends with by itself is its answer
                    return
                self._notify(f"W&B: the publisher was ended by {signal.Signals(-code).name}; it is started again")
                if self.process.stdin is not None:
                    self.process.stdin.close()
                with suppress(OSError):
                    self.process = again()


def alert_beside(
    run_path: Path, alert: Mapping[str, str], *, mode: str | None, asked: Asked = NOTHING_ASKED, timeout_s: float
) -> str:
    """Send an alert (the fields of `alerts.Alert`) in a process of its own; returns what became of it."""
    command = _command(run_path, "--alert", mode=mode, asked=asked)
    try:
        done = subprocess.run(
            command,
            input=json.dumps(alert),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"W&B has not taken it within {timeout_s:.0f} s"
    except OSError as error:
        return str(error)
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return said[-1] if said else f"its process ended with exit code {done.returncode}"


def _command(run_path: Path, what: str, *, mode: str | None, asked: Asked) -> list[str]:
    tags = None if asked.tags is None else ",".join(asked.tags)
    given = {"mode": mode, "project": asked.project, "entity": asked.entity, "tags": tags}
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return module_command("dashboards.publishing", str(run_path), what, *flags)


def silence_client() -> None:
    """Keep W&B's client, also in child processes, from printing lines of its own; `WANDB_SILENT=false` lets it."""
    os.environ.setdefault("WANDB_SILENT", "true")


def offline_reason(run_path: Path) -> str | None:
    """Why the last publication of a run directory left runs offline; None if it did not, or left no report."""
    report = _last_report(run_path)
    return str(report["reason"]) if report.get("mode") == "offline" and "reason" in report else None


def unconfirmed_words(run_path: Path) -> str | None:
    """How many runs of the last publication are not confirmed, and what asks again; None where all are confirmed."""
    words = _last_report(run_path).get("unconfirmed")
    return f"{words}; {asks_again(run_path)}" if words else None


def asks_again(run_path: Path) -> str:
    """What to do where runs are not confirmed."""
    return f"`stsq wandb sync {shlex.quote(str(run_path))}` asks again, and sends only what the server lacks"


def _last_report(run_path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        report = json.loads((run_path / "wandb" / "report.json").read_text())
        if isinstance(report, dict):
            return report
    return {}


def watch_driver() -> Callable[[], bool]:
    """In the child: a function that is true once the driver has ended (end of input, another parent) or SIGTERM came."""
    ended = threading.Event()
    parent = os.getppid()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    def wait_for_end_of_input() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    for number in (signal.SIGINT, signal.SIGUSR1):  # a Ctrl-C, or Slurm's notice, is for the driver, which then closes the pipe
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    return lambda: ended.is_set() or os.getppid() != parent
