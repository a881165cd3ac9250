"""The static page in a real browser: with no network, on a desk and a phone, in the dark, by keyboard, small and huge."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import PHONE, Browser, Tab, in_a_browser
from synthetic_runs import measured

from dashboards import write_report
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.run_findings import Findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]
pytestmark = [*in_a_browser, pytest.mark.usefixtures("page_alone")]

MOST_INTERACTION_MS = 400
"""Four times what the benchmark asks for, because tests share their cores; `tests/benchmarks/page_speed.py` measures."""


def test_every_figure_is_drawn_with_no_error_and_no_request(whole_page: Path, browser: Browser) -> None:
    with browser.tab(whole_page.as_uri()) as tab:
        tab.wait_for_figures()
        assert tab.page.locator(".plot .main-svg").count() > 20
        assert "rgb(0, 114, 178)" in tab.page.content()
        assert tab.fits
        assert tab.errors == []
        assert tab.strangers == []


def test_on_a_phone_in_the_dark_nothing_overflows_and_nothing_a_user_wrote_runs(make_run: MakeRun, browser: Browser) -> None:
    nasty = '<img src=x onerror="document.title=1"><script>document.title="hit"</script>'
    run = make_run(title=nasty, hypothesis=nasty, outcome=lambda config: nasty if config.width % 2 else measured(config))
    page = write_report(run.path)
    with browser.tab(page.as_uri(), size=PHONE, scheme="dark") as tab:
        tab.wait_for_figures()
        assert tab.page.title() == nasty
        assert tab.page.locator("h1").inner_text() == nasty
        assert tab.page.locator("img, header script").count() == 0
        assert nasty in tab.page.locator("#failures").inner_text()
        assert tab.fits
        assert tab.errors == []


def test_a_phone_shows_thresholds_beside_their_settings_and_every_name_below_a_figure(
    make_run: MakeRun, attention: dict[str, object], browser: Browser
) -> None:
    codes = {
        "zip": {"model.positions.d_e": [[10, 14, 20, 28, 40]]},
        "grid": {"model.positions.kind": ["random_sign", "gaussian"], "model.positions.redraw": ["never", "per_step"]},
    }
    claim = {"kind": "threshold_near", "name": "near", "says": "It is near.", "value": 20, "source": "our run"}
    run = make_run(trials=[{**attention, **codes}], claims=[claim])
    with browser.tab(write_report(run.path).as_uri(), size=PHONE) as tab:
        tab.wait_for_figures()
        names = tab.page.locator("#thresholds .xtick text")
        boxes = [box for box in (names.nth(place).bounding_box() for place in range(names.count())) if box]
        assert len(boxes) == 4
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in boxes)
        for head in ("#table th:has-text('Interval')", "#claims th:has-text('Answer')"):
            box = tab.page.locator(head).bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= PHONE["width"]
        assert tab.fits


def test_dark_figures_have_dark_colours_until_the_reader_asks_for_light(whole_page: Path, browser: Browser) -> None:
    with browser.tab(whole_page.as_uri(), scheme="dark") as tab:
        tab.wait_for_figures()
        assert "rgb(86, 180, 233)" in tab.page.content()
        assert "rgb(0, 114, 178)" not in tab.page.content()
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = tab.page.evaluate(ground)
        tab.page.get_by_role("button", name="Theme: auto").click()
        tab.page.get_by_role("button", name="Theme: light").wait_for()
        assert tab.page.evaluate(ground) != dark
        assert "rgb(0, 114, 178)" in tab.page.content()


def test_a_link_to_a_cell_shows_that_cell_alone(whole_page: Path, findings: Findings, browser: Browser) -> None:
    cell = findings.thresholds[-2].cell_id
    with browser.tab(f"{whole_page.as_uri()}#cell={cell}") as tab:
        panel = tab.page.locator(f"#cell-{cell}")
        panel.locator(".main-svg").first.wait_for()
        assert tab.page.locator(".cell-panel:visible").count() == 1
        assert f"{findings.thresholds[-2].m_star:.2f}" in panel.inner_text()
        assert tab.page.locator("#cell-choice").input_value() == cell
        tab.page.locator(f'#narrowing a[href="#cell={findings.thresholds[0].cell_id}"]').click()
        tab.page.locator(f"#cell-{findings.thresholds[0].cell_id} .main-svg").first.wait_for()
        assert not panel.is_visible()


def test_the_keyboard_alone_reaches_and_works_everything(whole_page: Path, findings: Findings, browser: Browser) -> None:
    first, second = (threshold.cell_id for threshold in findings.thresholds[:2])
    with browser.tab(whole_page.as_uri()) as tab:
        keys = tab.page.keyboard
        keys.press("Tab")
        assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        keys.press("Enter")
        assert tab.page.evaluate("document.activeElement.id") == "main"
        _tab_to(tab, "cell-choice")
        assert tab.page.evaluate('getComputedStyle(document.activeElement).outlineStyle != "none"')
        keys.press("ArrowDown")
        tab.wait(f'!document.getElementById("cell-{second}").hidden')
        assert tab.page.evaluate("location.hash") == f"#cell={second}"
        _tab_to(tab, "cell-previous")
        keys.press("Space")
        tab.wait(f'!document.getElementById("cell-{first}").hidden')
        tab.wait('document.activeElement.tagName == "SUMMARY" || !document.activeElement.matches("#cell-previous:enabled")')
        summary = tab.page.locator(f"#trials-{first} summary")
        summary.focus()
        keys.press("Enter")
        assert "stsq trial" in tab.page.locator(f"#trials-{first} table").inner_text()


def test_a_cell_is_saved_as_csv_and_png(whole_page: Path, findings: Findings, browser: Browser, tmp_path: Path) -> None:
    threshold = findings.thresholds[0]
    with browser.tab(f"{whole_page.as_uri()}#cell={threshold.cell_id}", accept_downloads=True) as tab:
        panel = tab.page.locator(f"#cell-{threshold.cell_id}")
        panel.locator(".main-svg").first.wait_for()
        for kind in ("csv", "png"):
            with tab.page.expect_download() as saved:
                name = "Save the trials as CSV" if kind == "csv" else "Save as PNG"
                panel.get_by_role("button", name=name).click()
            saved.value.save_as(tmp_path / f"cell.{kind}")
        assert tab.errors == []
    with (tmp_path / "cell.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["m"]) for row in rows] == [point.width for point in threshold.points if point.chosen]
    assert (tmp_path / "cell.png").read_bytes().startswith(b"\x89PNG")


def test_no_thresholds_yet_is_a_page_without_errors(make_run: MakeRun, browser: Browser) -> None:
    page = write_report(make_run(keep=lambda _place: False).path)
    with browser.tab(page.as_uri()) as tab:
        assert "No trial has ended yet" in tab.page.locator("header").inner_text()
        assert "0 of 144" in tab.page.locator("#progress").inner_text()
        assert tab.errors == []


@pytest.mark.parametrize("way", ["failed", "diverged"])
def test_all_failed_or_diverged_is_a_page_with_the_reasons(
    way: str, make_run: MakeRun, diverged: Callable[[TrialConfig], TrialResult], browser: Browser
) -> None:
    page = write_report(make_run(outcome=diverged if way == "diverged" else lambda _config: "worker lost").path)
    with browser.tab(page.as_uri()) as tab:
        assert f"all 144 trials {way}" in tab.page.locator("header").inner_text()
        assert ("worker lost" if way == "failed" else "loss not finite") in tab.page.locator("#failures").inner_text()
        assert "No trial of this cell gave a number" in tab.page.locator("#cell").inner_text()
        assert tab.errors == []


def test_ten_thousand_trials_answer_quickly(large_page: Path, browser: Browser) -> None:
    with browser.tab(large_page.as_uri()) as tab:
        tab.wait("performance.getEntriesByType('paint').length > 0")
        tab.page.locator("#cell-choice").wait_for()
        tab.wait_for_figures()
        took = tab.page.evaluate(CHOOSE_EACH)
        assert len(took) == 8
        assert sorted(took)[len(took) // 2] < MOST_INTERACTION_MS
        assert tab.errors == []


CHOOSE_EACH = """async () => {
  const took = [];
  for (let press = 0; press < 8; press++) {
    const began = performance.now();
    document.getElementById("cell-next").click();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    took.push(performance.now() - began);
  }
  return took;
}"""


def _tab_to(tab: Tab, wanted: str) -> None:
    """Press Tab until the element of an id has the focus."""
    for _ in range(200):
        if tab.page.evaluate("document.activeElement.id") == wanted:
            return
        tab.page.keyboard.press("Tab")
    raise AssertionError(f"#{wanted} cannot be reached by Tab")
