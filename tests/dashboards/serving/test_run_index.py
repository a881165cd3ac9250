"""`stsq open page FOLDER`: a list of the runs, which is kept up to date, and the page of each that somebody opens."""

import shutil
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from browsing import PHONE, Browser, in_a_browser
from synthetic_runs import folder_of_runs, in_training, make_run, packs_of, sweep, transformers

from dashboards.page.run_index import index_of
from dashboards.page.run_summary import summary_of
from dashboards.serving.server import serving
from sweeps.store.run_folders import holds_runs, runs_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One that has a link to a run, too."""
    folder = folder_of_runs(tmp_path / "runs")
    (folder / "link").symlink_to(folder / "whole")
    return folder


def test_a_folder_of_runs_is_told_from_a_run_and_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    assert [run.path.name for run in runs_in(folder)] == ["of_it", "torn", "whole"]
    assert holds_runs(folder)
    assert not holds_runs(folder / "whole")
    assert not holds_runs(folder / "notes")
    assert not holds_runs(tmp_path / "gone")


def test_the_list_tells_name_state_progress_and_headline(folder: Path) -> None:
    runs = [summary_of(run) for run in runs_in(folder)]
    html = index_of(str(folder), runs, pages=["runs/1/", "runs/2/", "runs/3/"]).sections[0].html
    rows = html.split("<tr>")[2:]
    assert ['href="runs/1/">half/of_it</a>' in rows[0], 'href="runs/3/">whole</a>' in rows[2]] == [True, True]
    assert [words in row for row, words in zip(rows, ("not running", "unreadable", "complete"), strict=True)] == [True] * 3
    assert "From T = 16 to 32 a transformer needs" in rows[2]
    assert "36 of 36" in rows[2]
    assert "spec.yaml" in rows[1]


class TestInABrowser:
    pytestmark = in_a_browser

    def test_runs_are_listed_as_they_come_and_go_and_each_has_its_page(self, folder: Path, browser: Browser) -> None:
        spec = sweep(trials=[transformers([16, 32])])
        with serving([str(folder)]) as (url, _), browser.tab(url) as tab:
            tab.wait("document.querySelectorAll('table.runs tbody tr').length == 3")
            assert tab.page.locator("h1").inner_text() == f"Runs in {folder}"
            new = make_run(folder / "new", spec, share=0.5)
            with in_training(new, packs_of(spec)[-1]):
                tab.wait("[...document.querySelectorAll('table.runs tr')].some((row) => /^new.*running/s.test(row.innerText))")
                tab.wait("document.getElementById('live').innerText.startsWith('1 of 4 runs are running')")
            shutil.rmtree(folder / "torn")
            tab.wait("!document.querySelector('table.runs').innerText.includes('torn')")
            tab.page.get_by_role("link", name="whole").click()
            tab.wait("document.querySelector('#thresholds .main-svg') !== null")
            assert tab.errors == []
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}runs/9/", timeout=60)

    def test_the_list_fits_on_a_phone_in_the_dark(self, folder: Path, browser: Browser) -> None:
        folder = folder.rename(folder.with_name("a_name_without_a_place_to_break_a_line_at" * 3))
        with serving([str(folder)]) as (url, _), browser.tab(url, size=PHONE, scheme="dark") as tab:
            tab.wait("document.querySelectorAll('table.runs tbody tr').length == 3")
            assert tab.fits
