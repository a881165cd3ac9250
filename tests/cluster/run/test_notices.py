"""The command of `--notify` gets a summary, whatever it is, and nothing that becomes of it reaches the run."""

import json
import math
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.run import notices
from cluster.run.notices import Notifier, Summary, command_words, run_command, without_command
from dashboards.publishing.destination import NOTHING_ASKED
from stsq_core import UserError

SUMMARY = Summary(
    name="small",
    run="/somewhere/runs/small",
    state="ended",
    verdict="every trial ended as a result",
    exit_code=0,
    headline="Wider nets learn.",
    trials_done=8,
    trials_failed=0,
    seconds=3723.4,
    thresholds=({"cell": "fcn T=4", "m_star": math.nan, "low": 3.5},),
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_summary_is_one_line_of_plain_json() -> None:
    text = SUMMARY.as_json()
    assert text.count("\n") == 1
    fields = json.loads(text, parse_constant=pytest.fail)
    assert fields["thresholds"] == [{"cell": "fcn T=4", "m_star": None, "low": 3.5}]
    names = [
        "name",
        "run",
        "state",
        "verdict",
        "exit_code",
        "headline",
        "trials_done",
        "trials_failed",
        "seconds",
        "thresholds",
    ]
    assert list(fields) == names
    many = Summary(**{**vars(SUMMARY), "thresholds": None})
    assert "thresholds" not in json.loads(many.as_json())


def test_an_alert_has_a_short_title_a_text_and_the_level_of_its_kind() -> None:
    alert = SUMMARY.alert()
    assert (alert["title"], alert["level"]) == ("small ended", "INFO")
    assert alert["text"] == (
        "every trial ended as a result\nWider nets learn.\n8 trials done, 0 of them failed, after 1:02:03; run small"
    )
    other = Summary(**{**vars(SUMMARY), "seconds": 1.0, "run": "/moved/small"}).alert()
    assert other["key"] == alert["key"]
    levels = {state: Summary(**{**vars(SUMMARY), "state": state}).alert()["level"] for state in notices.LEVELS}
    assert levels == {"ended": "INFO", "failed": "ERROR", "stopped": "WARN", "stalled": "WARN"}
    assert Summary(**{**vars(SUMMARY), "exit_code": 3}).alert()["title"] == "small ended without a threshold"


@pytest.mark.parametrize(("command", "words"), [
    (None, ()), ("tell", ("tell",)), ("tell 'a b' $X ; c", ("tell", "a b", "$X", ";", "c")),
])  # fmt: skip
def test_a_command_is_split_as_a_shell_does_and_never_run_by_one(command: str | None, words: tuple[str, ...]) -> None:
    assert command_words(command) == words


@pytest.mark.parametrize("command", ["", "  ", "tell 'a"])
def test_what_is_no_command_is_refused_without_being_repeated(command: str) -> None:
    with pytest.raises(UserError, match=r"^--notify (names no command|cannot be split into words: No closing quotation)"):
        command_words(command)


def test_the_command_gets_the_text_and_its_output_goes_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = f"import sys; text = sys.stdin.read(); open({str(tmp_path / 'got')!r}, 'w').write(text); print(text)"
    assert run_command(python(code), "a summary", timeout_s=60) is None
    assert (tmp_path / "got").read_text() == "a summary"
    assert run_command(python("pass"), "x" * 10**6, timeout_s=60) is None  # it reads nothing
    assert capfd.readouterr() == ("", "")


def test_what_goes_wrong_is_said_by_the_programs_name_alone(tmp_path: Path) -> None:
    assert run_command(["no-such-program", "secret"], "", timeout_s=60) == (
        "no-such-program could not be started: No such file or directory"
    )
    assert run_command(python("import sys; sys.exit(22)"), "", timeout_s=60) == f"{sys.executable} ended with exit code 22"
    killed = run_command(python("import os; os.kill(os.getpid(), 9)"), "", timeout_s=60)
    assert killed == f"{sys.executable} was ended by SIGKILL"


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(started)!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    began = time.monotonic()
    assert run_command(python(code), "", timeout_s=2) == f"{sys.executable} took longer than 2 s and was ended"
    assert time.monotonic() - began < 30
    pid = int(started.read_text())
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < deadline, "its child goes on"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_notifier_says_in_one_line_what_became_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "0123456789")
    monkeypatch.setattr(notices, "TIMEOUT_AFTER_STOP_S", 1.0)
    said: list[str] = []

    def sent(command: str, state: Any = "ended") -> list[str]:
        said.clear()
        own = Notifier(command, alerts=False, mode=None, asked=NOTHING_ASKED, log=said.append)
        own.send(Summary(**{**vars(SUMMARY), "state": state}), alert=True)
        return said

    failing = "import os, sys; sys.exit(os.environ['SECRET_OF_MINE'])"
    assert sent(shlex.join(python(failing))) == [f"--notify: {sys.executable} ended with exit code 1; the run is as it was"]
    assert sent("no-such-program 0123456789") == [
        "--notify: there is no program 'no-such-program' here; the run goes on without it",
        "--notify: no-such-program could not be started: No such file or directory; the run is as it was",
    ]
    assert sent(shlex.join(python("import time; time.sleep(600)")), "stopped") == [
        f"--notify: {sys.executable} took longer than 1 s and was ended; the run is as it was"
    ]
    assert sent(shlex.join(python("pass"))) == []


@pytest.mark.parametrize("became", ["not due: it was sent before", "sent"])
def test_an_alert_that_is_not_due_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch, became: str) -> None:
    said: list[str] = []
    monkeypatch.setattr(notices, "alert_beside", lambda *_, **__: became)
    own = Notifier(None, alerts=True, mode=None, asked=NOTHING_ASKED, log=said.append)
    own.send(SUMMARY, alert=True)
    assert said == []
    monkeypatch.setattr(notices, "alert_beside", lambda *_, **__: "the server is away")
    own.send(SUMMARY, alert=False)
    assert said == []
    own.send(SUMMARY, alert=True)
    assert said == ["W&B: no alert that the run has ended was sent: the server is away"]


def test_no_error_of_a_notice_is_one_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def fail(error: BaseException) -> Callable[..., str]:
        def act(*_: object, **__: object) -> str:
            raise error

        return act

    own = Notifier(None, alerts=True, mode=None, asked=NOTHING_ASKED, log=said.append)
    for error in (RuntimeError("secret"), KeyboardInterrupt()):
        monkeypatch.setattr(notices, "alert_beside", fail(error))
        own.send(SUMMARY, alert=True)
    assert said == [
        "the notice that the run has ended was not sent: RuntimeError", "the notice that the run has ended was interrupted",
    ]  # fmt: skip


def test_the_commands_words_are_kept_nowhere() -> None:
    command = "tell --token 0123"
    assert without_command(["stsq", "run", "x", "--notify", command], command) == ["stsq", "run", "x", "--notify", "..."]
    assert without_command(["stsq", f"--notify={command}"], command) == ["stsq", "--notify=..."]
    assert without_command(["stsq", "run"], None) == ["stsq", "run"]
