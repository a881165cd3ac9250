"""W&B's client says nothing of its own on the terminal, nor where a command's output is redirected to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
Said = Callable[..., tuple[int, str]]


@pytest.fixture
def sweep(small: dict[str, Any], tmp_path: Path) -> Path:
    """A sweep of two trials."""
    fields = {"name": "small", "hypothesis": "A few trials end.", "criterion": {"target_loss": 0.6}}
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(fields | {"trials": [small | {"grid": {"model.width": [4, 8]}}]}))
    return path


def test_run_report_and_sync_keep_the_clients_lines_to_themselves(
    sweep: Path, server: Any, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "runs/small"
    for code, *words in (
        (0, "run", sweep, "--inline"),
        (0, "report", run),
        (0, "wandb", "sync", run),
        (0, "wandb", "sync", run, "--wandb-project", "other"),
    ):
        assert_ours(said(*words), code)
    assert len(server.runs) == 2
    server.failure = 403
    assert_ours(said("wandb", "sync", run, "--wandb-project", "third"), 2)
    server.heal()
    monkeypatch.setenv("WANDB_API_KEY", "too-short")
    assert_ours(said("wandb", "sync", run, "--wandb-project", "third"), 2)
    assert_ours((0, (run / "wandb/publisher.log").read_text()), 0)


def test_a_run_says_what_is_not_confirmed_and_sync_asks_again(
    sweep: Path, server: Any, said: Said, tmp_path: Path, assert_whole: Callable[..., None]
) -> None:
    run = RunDirectory(tmp_path / "runs/small")
    server.silence = 500
    ended = said("run", sweep, "--inline")
    assert_ours(ended, 0)
    (line,) = [line for line in ended[1].splitlines() if line.startswith("W&B: not confirmed")]
    assert line.startswith(
        "W&B: not confirmed: 2 of 2 runs, which were sent; 0 are confirmed; the W&B server http://127.0.0.1:"
    )
    assert line.endswith(f"`stsq wandb sync {run.path}` asks again, and sends only what the server lacks")
    assert "written offline" not in ended[1]
    server.heal()
    assert_ours(said("wandb", "sync", run.path), 0)
    assert_whole(run, server)


def assert_ours(ended: tuple[int, str], code: int) -> None:
    assert ended[0] == code, ended[1]
    assert ended[1]
    assert not [line for line in ended[1].splitlines() if "wandb:" in line[:20]], ended[1]
