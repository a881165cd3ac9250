"""What this machine has is told with a remedy for what it lacks."""

from importlib import metadata
from pathlib import Path

import pytest

from cluster.commands.doctor import examine


def test_a_machine_that_runs_these_tests_lacks_nothing(tmp_path: Path) -> None:
    checks = examine(tmp_path)
    assert not [check for check in checks if check.verdict == "missing"]
    assert {"python", "torch", "ray", "cores", "disk", "GPU", "W&B key"} <= {check.what for check in checks}


def test_what_is_missing_comes_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = metadata.version

    def version(name: str) -> str:
        if name in ("torch", "ray"):
            raise metadata.PackageNotFoundError(name)
        return there(name)

    monkeypatch.setattr("cluster.commands.doctor.metadata.version", version)
    by_name = {check.what: check for check in examine(tmp_path)}
    assert by_name["torch"].verdict == "missing"
    assert by_name["torch"].remedy == "pip install torch"
    assert by_name["ray"].verdict == "note"
    assert "--inline" in by_name["ray"].remedy


def test_an_address_in_the_environment_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    (told,) = [check for check in examine(tmp_path) if check.what == "RAY_ADDRESS"]
    assert "not for `stsq run`" in told.remedy
