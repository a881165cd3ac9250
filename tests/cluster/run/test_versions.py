"""One torch makes a run's numbers: another is refused with both named, or accepted by word."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.run import versions
from cluster.run.versions import SUBMITTED_WITH, VersionsDifferError, check_submitter, own_versions, release

Here = Callable[..., Any]


@pytest.fixture
def torch_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this interpreter's torch another one, where sessions and checks look."""
    from sweeps.store import sessions

    known = versions.metadata.version

    def set_to(version: str) -> None:
        for module in (versions, sessions):
            monkeypatch.setattr(module.metadata, "version", lambda name: version if name == "torch" else known(name))

    return set_to


def sent_with(torch: str) -> dict[str, str]:
    return {SUBMITTED_WITH: json.dumps({"torch": torch})}


def test_own_versions_name_torch_ray_and_python() -> None:
    assert own_versions().keys() == {"python", "torch", "ray"}


@pytest.mark.parametrize(("version", "is_of"), [("2.9.0+cpu", "2.9.0"), ("2.9.0+cu128", "2.9.0"), ("2.9.1", "2.9.1")])
def test_builds_of_one_release_are_one(version: str, is_of: str) -> None:
    assert release(version) == is_of


def test_a_job_sent_from_another_torch_is_refused_unless_accepted(torch_is: Callable[[str], None]) -> None:
    torch_is("2.9.0+cu128")
    with pytest.raises(VersionsDifferError, match=r"the cluster has torch 2\.9\.0\+cu128 .* sent from torch 2\.8\.0\+cpu"):
        check_submitter(accept=False, environment=sent_with("2.8.0+cpu"))
    check_submitter(accept=True, environment=sent_with("2.8.0+cpu"))
    check_submitter(accept=False, environment=sent_with("2.9.0"))


@pytest.mark.parametrize("printed", ["", "{}", "nonsense", "[]"])
def test_a_sender_that_tells_no_versions_is_not_compared(printed: str) -> None:
    check_submitter(accept=False, environment={SUBMITTED_WITH: printed} if printed else {})


@pytest.mark.slow
def test_a_run_goes_on_with_another_torch_only_where_that_is_accepted(
    here: Here, write_sweep: Callable[..., Path], torch_is: Callable[[str], None], tmp_path: Path, until: Callable[..., object]
) -> None:
    words = ("run", write_sweep(), "--inline", "--wandb", "disabled", "--out", tmp_path / "out")
    torch_is("2.8.0+cpu")
    assert here(*words, "--set", "seeds=1").code == 0
    until(lambda: time.time() > (tmp_path / "out/ledger.jsonl").stat().st_mtime + 2, what="a later second")
    torch_is("2.8.0+cu128")
    assert here(*words, "--set", "seeds=1").code == 0
    torch_is("3.0.0")
    assert here(*words, "--set", "seeds=1").code == 0  # nothing is left to train, so nothing is mixed
    for _ in range(2):  # a session that was refused does not count as one that trained
        refused = here(*words)
        assert refused.code == 2, refused
        assert "were made with torch 2.8.0+cpu and this is torch 3.0.0" in refused.err
    assert here(*words, "--accept-versions").code == 0
    assert here(*words, "--set", "seeds=3").code == 0
