"""What was published is remembered across kills, and only one publisher works at a time."""

from pathlib import Path

from dashboards.publishing.damage import publishing_damage
from dashboards.publishing.published import Published, PublishedRun, directory_id
from sweeps.store.run_directory import RunDirectory


def publication(key: str, *, mode: str = "offline", digest: str = "d1", file: str | None = "f") -> PublishedRun:
    return PublishedRun(key=key, run_id=f"r-{key}", mode=mode, digest=digest, file=file)


def test_an_offline_publication_holds_while_its_file_is_there(tmp_path: Path) -> None:
    published = Published(tmp_path)
    published.add([publication("a")])
    assert not published.holds("a", "d1", "offline")
    (tmp_path / "f").touch()
    assert published.holds("a", "d1", "offline")
    assert not published.holds("a", "d2", "offline")
    assert not published.holds("a", "d1", "online")


def test_an_online_publication_serves_both_modes(tmp_path: Path) -> None:
    published = Published(tmp_path)
    published.add([publication("a", mode="online", file=None)])
    assert published.holds("a", "d1", "online")
    assert published.holds("a", "d1", "offline")


def test_a_torn_line_costs_one_trial_and_not_the_file(tmp_path: Path) -> None:
    published = Published(tmp_path)
    published.add([publication("a", mode="online")])
    published.add([publication("b", mode="online")])
    path = tmp_path / "published.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = Published(tmp_path)
    assert again.holds("a", "d1", "online")
    assert not again.holds("b", "d1", "online")
    again.add([publication("c", mode="online")])
    assert Published(tmp_path).holds("c", "d1", "online")


def test_a_directory_keeps_its_id_and_two_have_different_ones(tmp_path: Path) -> None:
    first = directory_id(tmp_path / "a")
    assert directory_id(tmp_path / "a") == first
    assert directory_id(tmp_path / "b") != first


def test_a_damaged_id_is_that_of_the_published_runs(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    first = directory_id(run.wandb)
    Published(run.wandb).add([PublishedRun("a", f"{first}-a", "online", "d1")])
    assert list(publishing_damage(run)) == []
    (run.wandb / "identity.json").write_text('{"id": "0123456789"}')
    (run.wandb / "asked.json").write_text('{"project": 7}')
    named, asked = publishing_damage(run)
    assert "identity.json is damaged" in named.what
    assert "asked.json is damaged" in asked.what
    assert directory_id(run.wandb) == first
    assert (run.wandb / "identity.json.rejected").exists()
