"""A page that was sent alone holds all that it links to and tells no path of its sender; its figures zoom and are saved."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import PHONE, Browser, Tab, in_a_browser
from synthetic_runs import measured

from dashboards import write_report
from dashboards.words.paths import shown_path, without_places
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.run_findings import Findings
from sweeps.store.run_directory import RunDirectory

MOST_DOWNLOADS = 6
"""Files that a tab saves in this test: Chromium holds back those of a page that offers many one after the other."""

HEAD = {"pdf": b"%PDF", "svg": b"<?xml", "json": b"{", "csv": b"", "tex": b"", "yaml": b"name:"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("stsq run /home/a/runs/quick --out '/data/my runs/x'", "stsq run quick --out 'my runs/x'"),
        ('File "/usr/lib/python3/torch/nn.py", line 3', 'File "nn.py", line 3'),
        ("no space: ~/runs/x", "no space: x"),
        ("see https://a.org/b/c, sqlite:////data/x.db, m/law and 1/2", None),
        ("<b>a</b>/<i>b</i>", None),
    ],
)
def test_of_an_absolute_path_the_last_part_is_left(text: str, shown: str | None) -> None:
    assert without_places(text) == (text if shown is None else shown)


def test_a_run_is_named_from_the_working_directory_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path("runs/quick") == shown_path(tmp_path / "runs" / "quick") == "runs/quick"
    assert shown_path("/elsewhere/quick") == "quick"


@pytest.mark.slow
def test_no_path_of_the_machine_is_in_the_page_or_its_files(make_run: Callable[..., RunDirectory]) -> None:
    def outcome(config: TrialConfig) -> TrialResult | str:
        return f"OSError: [Errno 28] No space left: '/home/ann/data/{config.width}'" if config.width % 2 else measured(config)

    run = make_run(outcome=outcome)
    page = write_report(run.path)
    for path in [page, *page.parent.glob("*.csv"), *page.parent.glob("*.json"), *page.parent.glob("*.svg")]:
        text = path.read_text(encoding="utf-8")
        for place in (str(run.path), str(run.path.parent), "/home/ann", f"{Path.cwd()}/"):
            assert place not in text, path
    assert "stsq trial run " in page.read_text(encoding="utf-8")
    assert "No space left: " in page.read_text(encoding="utf-8")


@pytest.fixture
def alone(whole_page: Path, tmp_path: Path) -> Path:
    """The page in a folder with nothing else."""
    return Path(shutil.copy(whole_page, tmp_path / "page.html"))


class TestInABrowser:
    pytestmark = in_a_browser

    def test_every_link_of_a_page_that_was_sent_alone_leads_somewhere(self, alone: Path, browser: Browser) -> None:
        saved: dict[str, bytes] = {}
        with browser.tab(alone.as_uri()) as tab:
            others = tab.page.evaluate("[...document.querySelectorAll('a:not([download])')].map((a) => a.getAttribute('href'))")
            names = tab.page.evaluate("[...document.querySelectorAll('a[download]')].map((a) => a.download)")
            for target in dict.fromkeys(others):
                assert target.startswith("#")
                wanted = target[1:].replace("cell=", "cell-")
                assert tab.page.evaluate(f"document.getElementById({json.dumps(wanted)}) !== null"), target
            assert tab.errors == tab.strangers == []
        for first in range(0, len(names), MOST_DOWNLOADS):
            with browser.tab(alone.as_uri(), accept_downloads=True) as tab:
                tab.wait("[...document.querySelectorAll('a[download]')].every((link) => link.href.startsWith('blob:'))")
                for place in range(first, min(first + MOST_DOWNLOADS, len(names))):
                    with tab.page.expect_download(timeout=60_000) as download:
                        tab.page.locator("a[download]").nth(place).click()
                    saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
                assert tab.errors == tab.strangers == []
        assert set(saved) == set(names)
        assert {f"{name}.{kind}" for name in ("thresholds", "phases", "laws", "losses") for kind in ("pdf", "svg")} <= set(
            saved
        )
        assert {
            "thresholds.csv",
            "thresholds.tex",
            "thresholds.json",
            "laws.csv",
            "laws.tex",
            "trials.csv",
            "sweep.yaml",
        } <= set(saved)
        for name, content in saved.items():
            assert content.startswith(HEAD[name.rpartition(".")[2]])
            assert len(content) > 100

    def test_a_figure_is_zoomed_rescaled_and_saved(self, alone: Path, findings: Findings, browser: Browser) -> None:
        with browser.tab(alone.as_uri(), accept_downloads=True) as tab:
            tab.wait_for_figures()
            tools = tab.page.locator("#thresholds .tools").first
            before = _ends(tab)
            tools.get_by_role("button", name="Zoom in").click()
            tab.wait(f"{ENDS}[1] - {ENDS}[0] < {0.7 * (before[1] - before[0])}")
            tools.get_by_role("button", name="Show the whole figure").click()
            tab.wait(f"Math.abs({ENDS}[0] - {before[0]}) < 1e-9")
            tools.get_by_role("button", name="Make the x axis linear").click()
            assert tab.page.evaluate(f"{AXIS}.type") == "linear"
            assert _ends(tab)[1] > 100
            tools.get_by_role("button", name="Make the x axis logarithmic").click()
            tab.wait(f"Math.abs({ENDS}[0] - {before[0]}) < 1e-9")
            saved = {}
            for kind in ("SVG", "PNG", "CSV", "JSON"):
                with tab.page.expect_download() as download:
                    tools.get_by_role("button", name=f"Save as {kind}").click()
                saved[kind] = Path(download.value.path()).read_bytes()
            assert tab.errors == []
        assert saved["SVG"].startswith(b"<svg")
        assert saved["PNG"].startswith(b"\x89PNG")
        assert "layout" in json.loads(saved["JSON"])
        rows = [row for row in csv.DictReader(saved["CSV"].decode().splitlines()) if row["y_low"]]
        own = [one for one in findings.thresholds if one.kind == "transformer"]
        assert [float(row["y"]) for row in rows] == [pytest.approx(one.m_star, rel=1e-4) for one in own]
        assert [float(row["y_low"]) for row in rows] == [pytest.approx(one.low, rel=1e-4) for one in own]

    def test_every_figure_has_its_tools_also_on_a_phone(self, alone: Path, browser: Browser) -> None:
        with browser.tab(alone.as_uri(), size=PHONE, scheme="dark") as tab:
            tab.wait_for_figures()
            drawn = "[...document.querySelectorAll('.plot[data-drawn]')]"
            tab.wait(f"{drawn}.every((place) => place.nextElementSibling.nextElementSibling?.matches('.tools'))")
            tools = tab.page.locator("#losses details.tools")
            for place in range(2):  # one in each column
                tools.nth(place).locator("summary").click()
                tools.nth(place).get_by_role("button", name="Save as SVG").scroll_into_view_if_needed()
                box = tools.nth(place).locator(".buttons").bounding_box()
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= PHONE["width"]
                tools.nth(place).locator("summary").click()
            assert tab.fits
            assert tab.errors == []

    @pytest.mark.parametrize("figure", ["#thresholds .plot", "#losses .plot", "#cell .plot"])
    def test_what_a_mark_says_stands_beside_the_axes(self, figure: str, alone: Path, browser: Browser) -> None:
        with browser.tab(alone.as_uri()) as tab:
            tab.wait_for_figures()
            plot = tab.page.locator(figure).first
            plot.scroll_into_view_if_needed()
            mark = plot.locator(".points path").first.bounding_box()
            axes = plot.locator(".nsewdrag").first.bounding_box()
            assert mark is not None
            assert axes is not None
            tab.page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
            tip = plot.locator(".tip")
            tip.wait_for()
            box = tip.bounding_box()
            assert box is not None
            assert box["y"] >= axes["y"] + axes["height"] or box["y"] + box["height"] <= axes["y"]
            assert re.search(r"\d", tip.inner_text())
            assert plot.locator(".hoverlayer").evaluate("(layer) => getComputedStyle(layer).visibility") == "hidden"
            assert tab.errors == []


AXIS = "document.querySelector('#thresholds .plot')._fullLayout.xaxis"
ENDS = f"{AXIS}.range"


def _ends(tab: Tab) -> list[float]:
    return list(tab.page.evaluate(ENDS))
