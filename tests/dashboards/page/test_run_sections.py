"""The page's progress shows each trial once, who trains, and when it would end."""

import re
from pathlib import Path

import pytest
from synthetic_runs import finish, in_training, make_run, packs_of, sweep

from dashboards.page.run_sections import progress_section
from sweeps.findings.progress import read_progress
from sweeps.findings.run_findings import read_findings
from sweeps.store.run_directory import RunDirectory, create_or_open


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.fixture
def half(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", sweep(), share=0.5)


def test_a_run_in_training_tells_its_worker_and_the_time_left(half: RunDirectory) -> None:
    packs = packs_of(sweep())
    pack = packs[len(packs) // 2]
    with in_training(half, pack):
        made = read_progress(half)
        html = progress_section(made).html
    assert made.holder is not None
    assert made.workers[0].num_trials == len(pack.configs)
    printed = words(html)
    assert f"{len(pack.configs)} in training" in printed
    assert "Workers" in printed
    assert re.search(r"about [\d.,]+ (s|min|h) left", printed)
    assert f"{made.num_ended} of {made.num_trials} trials have ended" in printed


def test_a_run_that_nobody_runs_says_so_and_tells_no_time(half: RunDirectory) -> None:
    printed = words(progress_section(read_progress(half)).html)
    assert "The sweep is not running" in printed
    assert "about" not in printed
    assert "Workers" not in printed


def test_only_cells_with_a_panel_are_linked(half: RunDirectory) -> None:
    first, *others = read_findings(half.path).thresholds
    html = progress_section(read_progress(half), thresholds=[first]).html
    assert others
    assert re.findall(r'href="#cell=(\w+)"', html) == [first.cell_id]


def test_the_parts_of_each_bar_are_as_long_as_their_shares(tmp_path: Path) -> None:
    spec = sweep()
    run = create_or_open(tmp_path / "run", spec)
    finish(run, packs_of(spec)[:3], lambda config: "worker lost" if config.seed % 2 else "out of memory")
    html = progress_section(read_progress(run)).html
    bars = re.findall(r'<div class="bar[^"]*"[^>]*>(.*?)</div>', html)
    assert bars
    for bar in bars:
        assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100, abs=0.01)
    assert 'class="failed"' in bars[0]
