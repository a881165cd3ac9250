"""What this machine has is listed, with a remedy for what it lacks; test_environment.py has the packages."""

from pathlib import Path

import pytest

from cluster.commands import doctor
from cluster.commands.doctor import examine


def test_a_machine_that_runs_these_tests_lacks_nothing(tmp_path: Path) -> None:
    checks = examine(tmp_path)
    assert not [check for check in checks if check.status == "missing"]
    assert {"python", "torch", "ray", "cores", "disk", "GPU", "W&B key"} <= {check.subject for check in checks}


def test_what_is_missing_comes_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_importable", lambda module: module not in ("torch", "ray"))
    by_name = {check.subject: check for check in examine(tmp_path)}
    assert by_name["torch"].status == "missing"
    assert by_name["torch"].remark == "pip install torch"
    assert by_name["ray"].status == "note"
    assert "--inline" in by_name["ray"].remark


def test_an_address_in_the_environment_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    (listed,) = [check for check in examine(tmp_path) if check.subject == "RAY_ADDRESS"]
    assert "not for `stsq run`" in listed.remark
