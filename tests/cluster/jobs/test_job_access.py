"""Who may do what on a head with token authentication: with the token everything (`test_jobs.py`), without it nothing."""

import os
import secrets
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from ray_heads import RAY, Head, call

pytestmark = pytest.mark.jobs

WRONG = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
STRANGERS = {"no token": {"RAY_AUTH_MODE": "disabled"}, "a wrong token": WRONG}


@pytest.fixture(params=STRANGERS, ids=lambda name: name.replace(" ", "-"))
def stranger(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of someone who can reach the head but has no token, or another one."""
    return {**STRANGERS[request.param], "HOME": str(tmp_path)}


@pytest.mark.parametrize(
    "words", [("submit", "smoke"), ("status", "x"), ("logs", "x"), ("logs", "x", "--follow"), ("stop", "x"), ("list",)]
)
def test_stsq_job_says_in_one_message_that_a_token_is_needed(
    head: Head, stranger: dict[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "package").mkdir()
    more = ("--working-dir", tmp_path / "package") if words[0] == "submit" else ()
    done = call([sys.executable, "-m", "cluster", "job", *words, *more, "--address", head.address], stranger)
    assert done.returncode == 2, done
    printed = [line for line in done.stderr.splitlines() if line.startswith("stsq: ")]
    assert len(printed) == 1
    assert ("asks for a token" if stranger["RAY_AUTH_MODE"] == "disabled" else "does not accept this token") in printed[0]
    assert "RAY_AUTH_TOKEN_PATH" in printed[0]
    assert "Traceback" not in done.stderr


def test_a_client_that_finds_no_token_is_told_too(head: Head, tmp_path: Path) -> None:
    environment = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    done = call([sys.executable, "-m", "cluster", "job", "list", "--address", head.address], environment)
    assert done.returncode == 2, done
    assert "stsq: " in done.stderr
    assert "RAY_AUTH_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


def test_ray_job_submit_is_refused(head: Head, stranger: dict[str, str], tmp_path: Path) -> None:
    done = call([RAY, "job", "submit", "--address", head.address, "--", "touch", tmp_path / "made"], stranger)
    assert done.returncode != 0
    assert "uthentication" in done.stdout + done.stderr
    assert not (tmp_path / "made").exists()


def ask(url: str, token: str | None, *, body: bytes | None = None) -> int:
    """The status of an answer."""
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


PATHS = ("/api/version", "/api/jobs/", "/nodes?view=summary", "/api/v0/nodes", "/api/v0/logs", "/api/cluster_status", "/logs/")


@pytest.mark.parametrize("path", PATHS)
def test_the_dashboard_tells_strangers_nothing(head: Head, path: str) -> None:
    assert ask(head.address + path, None) == 401
    assert ask(head.address + path, "wrong") == 403
    token = Path(head.access["RAY_AUTH_TOKEN_PATH"]).read_text()
    assert ask(head.address + path, token) not in (401, 403)


def test_neither_the_job_server_nor_an_agent_takes_a_strangers_job(head: Head, tmp_path: Path) -> None:
    body = f'{{"entrypoint": "touch {tmp_path}/made", "submission_id": "stranger"}}'.encode()
    agent = f"http://127.0.0.1:{head.ports['dashboard-agent-listen-port']}/api/job_agent/jobs/"
    for url in (f"{head.address}/api/jobs/", agent):
        assert ask(url, None, body=body) == 401
        assert ask(url, "wrong", body=body) == 403
    assert head.stsq("job", "status", "stranger").returncode == 2
    assert not (tmp_path / "made").exists()


GCS = """
import sys
from ray._raylet import GcsClient
try:
    client = GcsClient(address=sys.argv[1])
    client.internal_kv_put(b"stranger", b"was here", True, b"test", timeout=10)
except Exception as error:
    sys.exit(f"refused: {error}")
print("let in")
"""

JOIN = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except Exception as error:
    sys.exit(f"refused: {error}")
print("let in", ray.nodes())
"""


def test_the_control_store_is_closed_to_strangers(head: Head, stranger: dict[str, str]) -> None:
    done = call([sys.executable, "-c", GCS, head.gcs], stranger)
    assert done.returncode != 0
    assert "let in" not in done.stdout
    assert "uth" in done.stdout + done.stderr
    allowed = call([sys.executable, "-c", GCS, head.gcs], head.access)
    assert "let in" in allowed.stdout, allowed


def test_no_stranger_joins_the_cluster(head: Head, stranger: dict[str, str]) -> None:
    done = call([sys.executable, "-c", JOIN, head.gcs], stranger)
    assert done.returncode != 0
    assert "let in" not in done.stdout
    assert "uth" in done.stdout + done.stderr, done


def test_the_token_is_in_no_jobs_description(head: Head) -> None:
    submitted = head.ray("submit", "--submission-id", "described", "--", "true")
    assert submitted.returncode == 0, submitted
    token = Path(head.access["RAY_AUTH_TOKEN_PATH"]).read_text()
    printed = submitted.stdout + head.ray("list").stdout + head.stsq("job", "logs", "described").stdout
    assert token not in printed
    assert os.environ.get("RAY_AUTH_TOKEN", "") == ""
