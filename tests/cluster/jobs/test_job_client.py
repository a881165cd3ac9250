"""What `stsq job` makes of answers, refusals and lost connections; a stand-in plays the job server."""

import shlex
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cluster.commands.cli import main
from cluster.jobs import control, job_client, submission
from stsq_core import UserError


@dataclass(frozen=True)
class Status:
    """A status as Ray's client tells it."""

    value: str

    def is_terminal(self) -> bool:
        return self.value in ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Server:
    """A job server: `states` are told one after the other, the last for ever; each of `tails` is one connection to the log.

    `held` are jobs that were sent before, by id; `answers` is what it tells beyond jobs, by path.
    """

    states: list[tuple[str, int | None]]
    tails: list[list[str | Exception]] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    environments: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def get_job_info(self, job_id: str) -> Any:
        if job_id in self.held:
            return type("Info", (), {"status": Status(self.held[job_id]), "message": "", "driver_exit_code": None})
        if job_id != "job":
            raise RuntimeError(f"Request failed with status code 404: Job {job_id} does not exist.")
        value, code = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return type("Info", (), {"status": Status(value), "message": "", "driver_exit_code": code})

    def stop_job(self, job_id: str) -> bool:
        return True

    def submit_job(self, *, entrypoint: str, submission_id: str, runtime_env: dict[str, Any], **_: Any) -> str:
        if self.refusals:
            raise RuntimeError(self.refusals.pop(0))
        if submission_id in self.held:
            raise RuntimeError(f"ValueError: Job with submission_id {submission_id} already exists.")
        self.submitted.append(entrypoint)
        self.environments.append(runtime_env)
        self.held[submission_id] = "PENDING"
        return submission_id

    def list_jobs(self) -> list[Any]:
        printed = {"entrypoint": "python -m stsq run smoke", "message": "", "driver_exit_code": None}
        return [
            type("Info", (), {**printed, "submission_id": job_id, "status": Status(status), "start_time": 1000 * number})
            for number, (job_id, status) in enumerate(self.held.items())
        ]

    def _do_request(self, method: str, path: str, **_: Any) -> Any:
        return type("Response", (), {"json": lambda response: self.answers[path]})() if path in self.answers else _refuse()

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        for piece in self.tails.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece


def _refuse() -> None:
    raise RuntimeError("Request failed with status code 404")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Server]:
    """Makes the job server that every command meets; nobody waits."""
    for name in ("PAUSE_S", "PATIENCE_S", "STOP_PATIENCE_S"):
        monkeypatch.setattr(control, name, 0.0)
    for name in ("PAUSE_S", "PATIENCE_S"):
        monkeypatch.setattr(submission, name, 0.0)

    def make(*states: tuple[str, int | None], tails: list[list[str | Exception]] | None = None) -> Server:
        server = Server(list(states), tails or [])
        for module in (control, submission):
            monkeypatch.setattr(module, "connect", lambda address, **_: server)
        return server

    return make


Serve = Callable[..., Server]


def ended(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, in a thread: a browser of other tests that this process ran
    keeps an event loop in the main one.
    """
    with ThreadPoolExecutor(1) as thread, pytest.raises(SystemExit) as exit_:
        thread.submit(main, [str(word) for word in words]).result()
    printed = capsys.readouterr()
    return int(exit_.value.code or 0), printed.out, printed.err


def lost() -> Exception:
    """What Ray's client raises where a connection ends before the job."""
    return RuntimeError("WebSocket connection closed unexpectedly with close code 1006")


def test_a_lost_connection_is_made_again_and_prints_nothing_twice(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    tails: list[list[str | Exception]] = [["one\ntwo\n", lost()], [lost()], ["one\n", "two\nth", "ree\n"]]
    serve(("RUNNING", None), ("SUCCEEDED", 0), tails=tails)
    code, out, err = ended(capsys, "job", "logs", "job", "--follow")
    assert (code, out) == (0, "one\ntwo\nthree\n")
    assert err.count("the connection to the log of job job was lost; trying again") == 2


def test_a_connection_that_is_lost_every_time_is_told_in_one_message(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve(("RUNNING", None), tails=[["one\n", lost()], *([lost()] for _ in range(9))])
    code, out, err = ended(capsys, "job", "logs", "job", "--follow")
    assert (code, out) == (2, "one\n")
    assert "lost 5 times in a row (WebSocket connection closed unexpectedly" in err
    assert "stsq job logs job --follow" in err
    assert len(server.tails) == 5


def test_connections_are_counted_anew_after_each_that_told_something(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    parts: list[list[str | Exception]] = [["x" * count, lost()] for count in range(1, 9)]
    serve(("RUNNING", None), ("FAILED", 3), tails=[*parts, ["x" * 9]])
    assert ended(capsys, "job", "logs", "job", "--follow")[:2] == (3, "x" * 9)


def test_a_log_that_ends_before_its_job_is_a_lost_connection(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(("RUNNING", None), tails=[["one\n"] for _ in range(5)])
    code, out, err = ended(capsys, "job", "logs", "job", "--follow")
    assert (code, out) == (2, "one\n")
    assert "its log ended before it did" in err


@pytest.mark.parametrize(
    "words", [("status", "typo"), ("stop", "typo"), ("logs", "typo", "--follow")], ids=lambda words: words[0]
)
def test_an_unknown_job_is_told_in_one_message(
    serve: Serve, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    serve(("RUNNING", None))
    code, _, err = ended(capsys, "job", *words)
    assert code == 2
    assert err == (
        "stsq: the cluster could not answer about job 'typo': Request failed with status code 404: Job typo does not exist.\n"
    )


@pytest.mark.parametrize(
    ("status", "driver_code", "code"),
    [
        ("PENDING", None, 0),
        ("RUNNING", None, 0),
        ("SUCCEEDED", 0, 0),
        ("FAILED", 3, 3),
        ("FAILED", None, 1),
        ("FAILED", -9, 1),
        ("STOPPED", None, 130),
    ],
)
def test_the_exit_code_of_a_status(
    serve: Serve, capsys: pytest.CaptureFixture[str], status: str, driver_code: int | None, code: int
) -> None:
    serve((status, driver_code))
    assert ended(capsys, "job", "status", "job")[:2] == (code, f"{status}\n")


def test_a_job_that_does_not_stop_is_no_success(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(("RUNNING", None))
    code, out, err = ended(capsys, "job", "stop", "job")
    assert (code, out) == (1, "RUNNING\n")
    assert "has not stopped yet" in err
    serve(("STOPPED", None))
    assert ended(capsys, "job", "stop", "job")[:2] == (0, "STOPPED\n")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--", "--workrs", "2"), "No such option: --workrs"),
        (("--folow",), "No such option: --folow"),
        (("--", "--workers", "none"), "Invalid value for '--workers'"),
        (("--", "more"), "unexpected extra argument"),
        (("--", "--out", "runs/x"), "give an absolute path"),
        (("--", "--set", "task.TT=3"), "task.TT"),
    ],
)
def test_what_the_run_would_refuse_is_refused_before_it_is_sent(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], printed: str
) -> None:
    server = serve(("RUNNING", None))
    code, _, err = ended(capsys, "job", "submit", "smoke", "--working-dir", tmp_path, *words)
    assert code == 2
    assert printed in " ".join(err.split())
    assert server.submitted == []


def test_what_the_run_takes_is_handed_on_as_it_is(serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    server = serve(("RUNNING", None))
    words = ("--set", "seeds=2", "--", "--out", "/shared/run", "--retry-failed", "--set", "budget.minutes=5")
    code, out, _ = ended(capsys, "job", "submit", "smoke", "--working-dir", tmp_path, *words)
    assert (code, out.rpartition("-")[0]) == (0, "smoke")
    assert server.submitted == [
        "python -m stsq run smoke --set seeds=2 --out /shared/run --retry-failed --set budget.minutes=5"
    ]


class Submit:
    """Submits the smoke sweep with words of the test's; gives the job's id, and what was said beside it."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys, self._folder = capsys, folder

    def __call__(self, *words: object, code: int = 0) -> tuple[str, str]:
        ended_with, out, err = ended(self._capsys, "job", "submit", "smoke", "--working-dir", self._folder, *words)
        assert ended_with == code, err
        return out.strip(), err


@pytest.fixture
def submit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Submit:
    return Submit(capsys, tmp_path)


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "SUCCEEDED"])
def test_the_same_sweep_sent_twice_is_one_job(serve: Serve, submit: Submit, status: str) -> None:
    server = serve(("RUNNING", None))
    job_id, _ = submit("--", "--out", "/shared/run")
    server.held[job_id] = status
    again, printed = submit("--", "--out", "/shared/run")
    assert (again, len(server.submitted)) == (job_id, 1)
    assert f"nothing is sent: this job is there already ({status})" in printed


@pytest.mark.parametrize("status", ["FAILED", "STOPPED"])
def test_a_sweep_whose_job_failed_or_was_stopped_is_sent_again(serve: Serve, submit: Submit, status: str) -> None:
    server = serve(("RUNNING", None))
    job_id, _ = submit()
    server.held[job_id] = status
    second, _ = submit()
    server.held[second] = status
    assert (second, submit()[0]) == (f"{job_id}-2", f"{job_id}-3")
    assert len(set(server.submitted)) == 1


@pytest.mark.parametrize("words", [("--set", "seeds=2"), ("--", "--set", "seeds=2"), ("--", "--out", "/shared/other")])
def test_other_settings_or_another_run_directory_are_another_job(serve: Serve, submit: Submit, words: tuple[str, ...]) -> None:
    serve(("RUNNING", None))
    assert submit()[0] != submit(*words)[0]


def test_an_id_of_the_users_own_is_taken_once(serve: Serve, submit: Submit) -> None:
    serve(("RUNNING", None))
    assert submit("--submission-id", "mine")[0] == "mine"
    assert "already exists" in submit("--submission-id", "mine", code=2)[1]


AGENTLESS = "Request failed with status code 500: No available agent to submit job, please try again later."


def test_a_cluster_that_has_just_started_is_given_time(serve: Serve, submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(("RUNNING", None))
    monkeypatch.setattr(submission, "PATIENCE_S", 600.0)
    server.refusals += [AGENTLESS] * 3
    _, printed = submit()
    assert printed.count("the cluster is not ready for jobs yet; trying again") == 3
    assert len(server.submitted) == 1


def test_a_cluster_that_does_not_become_ready_is_told_in_one_message(
    serve: Serve, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(("RUNNING", None))
    monkeypatch.setattr(submission, "PATIENCE_S", -1.0)
    server.refusals += [AGENTLESS] * 3
    _, printed = submit(code=2)
    assert "stsq: the cluster did not take the job: Request failed with status code 500: No available agent" in printed
    assert server.submitted == []


def test_several_nodes_need_a_run_directory_that_they_share(serve: Serve, submit: Submit) -> None:
    server = serve(("RUNNING", None))
    nodes = [{"raylet": {"state": state}} for state in ("ALIVE", "ALIVE", "DEAD")]
    server.answers["/nodes?view=summary"] = {"data": {"summary": nodes}}
    assert "the cluster has 2 nodes, and a job without --out writes to the head's own disk" in submit(code=2)[1]
    assert server.submitted == []
    submit("--", "--out", "/shared/run")
    del nodes[1]
    submit()
    assert len(server.submitted) == 2


@pytest.mark.parametrize(
    ("version", "code", "printed"),
    [("2.40.1", 2, "runs Ray 2.40.1 and stsq needs 2.54 or later"), ("2.999.0", 0, "runs Ray 2.999.0, here is")],
)
def test_another_ray_is_told_and_one_too_old_refused(
    serve: Serve, submit: Submit, version: str, code: int, printed: str
) -> None:
    server = serve(("RUNNING", None))
    server.answers["/api/version"] = {"ray_version": version}
    assert printed in submit(code=code)[1]
    assert len(server.submitted) == (code == 0)


def test_no_key_is_sent_and_a_file_on_the_cluster_can_hold_it(
    serve: Serve, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("WANDB_PROJECT", "widths")
    server = serve(("RUNNING", None))
    submit("--netrc", "/shared/me/netrc")
    variables = server.environments[0]["env_vars"]
    assert (variables["WANDB_PROJECT"], variables["NETRC"]) == ("widths", "/shared/me/netrc")
    assert "0123456789abcdef" not in str(server.environments)


def test_code_travels_where_the_package_holds_none(serve: Serve, submit: Submit, tmp_path: Path) -> None:
    server = serve(("RUNNING", None))
    submit()
    sent = [Path(folder).name for folder in server.environments[0]["py_modules"]]
    assert sent == ["stsq_core", "sweeps", "dashboards", "cluster", "stsq"]
    (tmp_path / "sweeps").mkdir()  # of files, not of Python: it hides nothing
    submit("--set", "seeds=2")
    (tmp_path / "sweeps/__init__.py").touch()
    assert "would hide the one of stsq" in submit("--set", "seeds=3", code=2)[1]
    for room in sent:
        (tmp_path / room).mkdir(exist_ok=True)
        (tmp_path / room / "__init__.py").touch()
    submit("--set", "seeds=4")
    assert "py_modules" not in server.environments[-1]


def test_jobs_are_listed_newest_first(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    serve(("RUNNING", None)).held |= {"older": "FAILED", "newer": "RUNNING"}
    code, out, _ = ended(capsys, "job", "list")
    assert code == 0
    assert out.index("newer") < out.index("older")


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, but not listening
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_a_refused_connection_is_tried_again_and_then_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], nobody: str
) -> None:
    assert (job_client.CONNECT_TRIES - 1) * job_client.CONNECT_PAUSE_S == 60, "the minute that docs/jobs.md promises"
    monkeypatch.setattr(job_client, "CONNECT_PAUSE_S", 0.0)
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    code, _, err = ended(capsys, "job", "status", "job", "--address", nobody)
    assert code == 2
    assert err.count(f"no job server answers at {nobody} yet; trying again") == job_client.CONNECT_TRIES - 1
    assert f"stsq: no job server answers at {nobody}: Failed to connect" in err
    assert "; http_proxy is set: if that proxy does not reach the cluster, name its host in no_proxy" in err
    assert "Traceback" not in err


def test_a_server_that_comes_up_late_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ConnectionError("Failed to connect to Ray"), ConnectionError("Failed to connect to Ray"), "client"])

    def meet(_address: str) -> str:
        printed = next(answers)
        if isinstance(printed, Exception):
            raise printed
        return printed

    import ray.job_submission

    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", meet)
    monkeypatch.setattr(job_client, "CONNECT_PAUSE_S", 0.0)
    said: list[str] = []
    assert job_client.connect("http://there:8265", notify=said.append) == "client"
    assert [line.rpartition("(")[2] for line in said] == ["12 times more)", "11 times more)"]


def test_an_address_that_can_never_answer_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_address: str) -> None:
        raise RuntimeError("Version check returned 404.")

    import ray.job_submission

    monkeypatch.setattr(ray.job_submission, "JobSubmissionClient", refuse)
    with pytest.raises(UserError, match="Version check returned 404"):
        job_client.connect("http://there:8265", notify=lambda text: sys.exit(text))


@pytest.mark.parametrize("words", [("--notify", "python tell.py 'a b'"), ("--", "--notify", "python tell.py 'a b'")])
def test_a_command_to_notify_goes_with_the_job(
    serve: Serve, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    server = serve(("RUNNING", None))
    assert ended(capsys, "job", "submit", "smoke", "--working-dir", tmp_path, *words)[0] == 0
    (entrypoint,) = server.submitted
    assert shlex.split(entrypoint) == ["python", "-m", "stsq", "run", "smoke", "--notify", "python tell.py 'a b'"]
    code, _, err = ended(capsys, "job", "submit", "smoke", "--working-dir", tmp_path, "--notify", "'")
    assert (code, err) == (2, "stsq: --notify cannot be split into words: No closing quotation\n")


@pytest.mark.parametrize("words", [("submit", "smoke"), ("status", "job"), ("stop", "job"), ("list",), ("logs", "job")])
def test_a_server_that_accepts_connections_and_answers_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    silent_server: int,
    words: tuple[str, ...],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(job_client, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    address = f"http://127.0.0.1:{silent_server}"
    code, out, err = ended(capsys, "job", *words, "--address", address)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"stsq: what accepts connections at {address} has not answered within 0.5 s, so it is no job server")


@pytest.mark.parametrize("name", ["a/b", "x" * 129, "", "-rf", "a b"])
def test_an_id_that_cannot_name_a_log_is_refused_before_anything_is_sent(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, _, err = ended(capsys, "job", "submit", "smoke", f"--submission-id={name}")
    assert code == 2
    assert "--submission-id " in err
    assert "give 1 to 128 letters, digits and . _ -" in err
