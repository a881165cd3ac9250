"""Where a run goes, by default and inside the package copy of a Ray job."""

from pathlib import Path

import pytest

from cluster.environment import num_cores
from cluster.run.options import located, run_path
from stsq_core import UserError


def test_a_run_goes_to_runs_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_path("small", None) == tmp_path / "runs/small"
    assert run_path("small", Path("elsewhere")) == tmp_path / "elsewhere"


def test_a_job_writes_nothing_into_its_package_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "working_dir_files/_ray_pkg_0"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    assert run_path("small", None) == Path.home() / "stsq-runs/small"
    assert run_path("small", Path("/shared/run")) == Path("/shared/run")
    with pytest.raises(UserError, match="give an absolute path"):
        run_path("small", Path("runs/small"))


def test_a_name_of_the_catalogue_and_of_a_run_directory_is_no_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("smoke", "mine", "moments"):
        (tmp_path / name).mkdir()
    for name in ("smoke", "mine"):
        (tmp_path / name / "spec.yaml").write_text("name: smoke\n")
    assert located("mine", None) == ("mine/spec.yaml", Path("mine"))
    assert located("./smoke", None) == located("smoke/", None) == ("smoke/spec.yaml", Path("smoke"))
    assert located("moments", None) == ("moments", None)  # a directory that is no run
    assert located("smoke", Path("runs/smoke")) == ("smoke", Path("runs/smoke"))
    with pytest.raises(UserError) as refused:
        located("smoke", None)
    assert str(refused.value) == (
        "'smoke' is a sweep of the catalogue and a run directory here: write ./smoke to go on with the directory, or add "
        f"--out {tmp_path}/runs/smoke to run the sweep of the catalogue"
    )


def test_there_is_a_core() -> None:
    assert num_cores() >= 1
