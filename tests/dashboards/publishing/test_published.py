"""What was published is remembered across kills, and only one publisher works at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dashboards.publishing.published import Publication, PublishedTrials, directory_id, sole_publisher
from stsq_core import UserError


def publication(trial_id: str, *, mode: str = "offline", digest: str = "d1", file: str | None = "f") -> Publication:
    return Publication(trial_id=trial_id, run_id=f"r-{trial_id}", mode=mode, digest=digest, file=file)


def test_an_offline_publication_holds_while_its_file_is_there(tmp_path: Path) -> None:
    published = PublishedTrials(tmp_path)
    published.add([publication("a")])
    assert not published.holds("a", "d1", "offline")
    (tmp_path / "f").touch()
    assert published.holds("a", "d1", "offline")
    assert not published.holds("a", "d2", "offline")
    assert not published.holds("a", "d1", "online")


def test_an_online_publication_serves_both_modes(tmp_path: Path) -> None:
    published = PublishedTrials(tmp_path)
    published.add([publication("a", mode="online", file=None)])
    assert published.holds("a", "d1", "online")
    assert published.holds("a", "d1", "offline")


def test_a_torn_line_costs_one_trial_and_not_the_file(tmp_path: Path) -> None:
    published = PublishedTrials(tmp_path)
    published.add([publication("a", mode="online")])
    published.add([publication("b", mode="online")])
    path = tmp_path / "published.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = PublishedTrials(tmp_path)
    assert again.holds("a", "d1", "online")
    assert not again.holds("b", "d1", "online")
    again.add([publication("c", mode="online")])
    assert PublishedTrials(tmp_path).holds("c", "d1", "online")


def test_a_directory_keeps_its_id_and_two_have_different_ones(tmp_path: Path) -> None:
    first = directory_id(tmp_path / "a")
    assert directory_id(tmp_path / "a") == first
    assert directory_id(tmp_path / "b") != first


def test_a_second_publisher_is_refused_with_the_firsts_process(tmp_path: Path) -> None:
    with (
        sole_publisher(tmp_path, may_wait=lambda: False),
        pytest.raises(UserError, match=f"process {os.getpid()}"),
        sole_publisher(tmp_path, may_wait=lambda: False),
    ):
        pass


def test_the_lock_of_a_dead_publisher_is_no_obstacle(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from dashboards.publishing.published import sole_publisher\n"
        "with sole_publisher(Path(sys.argv[1]), may_wait=lambda: False): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == -9
    with sole_publisher(tmp_path, may_wait=lambda: False):
        pass
