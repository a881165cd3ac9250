"""What would be uploaded is checked before it is."""

import os
from pathlib import Path

import pytest

from cluster.jobs import job_client
from cluster.jobs.submission import JobRequest, entrypoint_of, files_to_upload, submit
from stsq_core import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sweep.yaml", "kept/data.bin", ".venv/lib.py", "secret.yaml"):
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 100)
    (tmp_path / "package/.gitignore").write_text("secret.yaml\n")
    return tmp_path / "package"


def test_the_listing_is_what_ray_uploads(folder: Path) -> None:
    assert {str(path) for path in files_to_upload(folder)} == {"sweep.yaml", "kept/data.bin", ".gitignore"}


def test_a_large_package_is_refused_with_its_largest_files(folder: Path) -> None:
    with (folder / "big.bin").open("wb") as file:
        file.truncate(120 * 2**20)  # a hole, not 120 MiB on the disk
    with pytest.raises(UserError, match=r"120 MiB.*at most 100 MiB.*big\.bin \(120\.0 MiB\), .*kept/data\.bin"):
        files_to_upload(folder)
    (folder / ".rayignore").write_text("big.bin\n")
    assert Path("sweep.yaml") in files_to_upload(folder)


def test_a_sweep_file_that_git_ignores_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="excluded from the package"):
        entrypoint_of(JobRequest(str(folder / "secret.yaml"), working_dir=folder), files_to_upload(folder))


def test_a_sweep_file_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not in the working directory"):
        entrypoint_of(JobRequest(str(tmp_path / "other.yaml"), working_dir=folder), files_to_upload(folder))


def test_a_link_that_leads_out_of_the_package_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: other")
    (folder / "linked.yaml").symlink_to(tmp_path / "other.yaml")
    with pytest.raises(UserError, match="is not in the working directory"):
        entrypoint_of(JobRequest(str(folder / "linked.yaml"), working_dir=folder), files_to_upload(folder))


def test_a_plugin_travels_with_the_package_or_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.py").touch()
    (folder / ".rayignore").write_text("hidden.py\n")
    (folder / "hidden.py").touch()

    def entrypoint(plugin: Path, *words: str) -> str:
        request = JobRequest("smoke", arguments=words or ("--plugin", str(plugin)), working_dir=folder, plugins=(plugin,))
        return entrypoint_of(request, files_to_upload(folder))

    mine = folder / "mine.py"
    assert entrypoint(mine).endswith("smoke --plugin mine.py")
    assert entrypoint(mine, f"--plugin={mine}").endswith("smoke --plugin=mine.py")
    monkeypatch.chdir(tmp_path)
    assert entrypoint(mine.relative_to(tmp_path)).endswith("smoke --plugin mine.py")
    with pytest.raises(UserError, match=r"the plugin .*hidden\.py is excluded from the package by \.gitignore or \.rayignore"):
        entrypoint(folder / "hidden.py")
    with pytest.raises(UserError, match=r"the plugin \.\./other\.py is not in the working directory"):
        entrypoint(Path("../other.py"))


def test_a_pipe_in_the_working_directory_is_refused_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match=r"pipe in the working directory .* is neither a file nor a folder"):
        files_to_upload(folder)
    (folder / ".rayignore").write_text("pipe\n")
    assert Path("sweep.yaml") in files_to_upload(folder)


def test_a_missing_working_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no directory"):
        files_to_upload(tmp_path / "none")


def test_the_entry_point_is_quoted(folder: Path) -> None:
    request = JobRequest(str(folder / "sweep.yaml"), ("task.T=16,32",), ("--out", "/shared/my run"), folder)
    assert (
        entrypoint_of(request, files_to_upload(folder))
        == "python -m stsq run sweep.yaml --set task.T=16,32 --out '/shared/my run'"
    )


def test_a_bad_sweep_is_refused_before_anything_is_sent(folder: Path) -> None:
    with pytest.raises(UserError, match="mapping"):
        submit("http://127.0.0.1:9", JobRequest(str(folder / "sweep.yaml"), working_dir=folder), notify=print)


def test_no_job_server_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_client, "CONNECT_PAUSE_S", 0.0)
    with pytest.raises(UserError, match="no job server answers"):
        submit("http://127.0.0.1:9", JobRequest("smoke", working_dir=folder), notify=print)
