"""axe-core, the checker that browsers' own audits run, finds no serious fault in any form of the page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import DESK, PHONE, Browser, Tab, in_a_browser
from synthetic_runs import in_training, make_run, packs_of, sweep

from dashboards import write_report
from dashboards.serving.server import serving
from sweeps.store.run_directory import RunDirectory

pytestmark = [*in_a_browser, pytest.mark.usefixtures("page_alone")]

FORMS = [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")]


def faults(tab: Tab) -> list[str]:
    """The serious and critical faults, each with the first element that has it."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab.page).response["violations"]
    return [
        f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]} ({len(fault['nodes'])} times)"
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize(("size", "scheme"), FORMS)
def test_the_whole_page(size: dict[str, int], scheme: str, whole_page: Path, browser: Browser) -> None:
    with browser.tab(whole_page.as_uri(), size=size, scheme=scheme) as tab:
        tab.wait_for_figures()
        for fold in tab.page.locator("details:visible").all():
            fold.evaluate("(fold) => { fold.open = true; }")
        assert faults(tab) == []


def test_a_page_of_failures_alone(make_run: Callable[..., RunDirectory], browser: Browser) -> None:
    page = write_report(make_run(outcome=lambda _config: "worker lost").path)
    with browser.tab(page.as_uri()) as tab:
        assert faults(tab) == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a run in training beside one that has ended."""
    folder, packs = tmp_path_factory.mktemp("served"), packs_of(sweep())
    run, other = make_run(folder / "run", sweep(), share=0.5), make_run(folder / "other", sweep())
    with in_training(run, packs[len(packs) // 2]), serving([str(run.path), str(other.path)]) as (url, _):
        yield url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["", "runs/1/"])
def test_the_live_page_and_a_comparison(place: str, scheme: str, served: str, browser: Browser) -> None:
    with browser.tab(served + place, scheme=scheme) as tab:
        tab.wait("document.body?.dataset.looks > 0")
        tab.wait_for_figures()
        assert faults(tab) == []
