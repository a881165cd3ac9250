"""The live page in a real browser: it follows a run, keeps what its reader does, compares runs, and outlives its server."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from browsing import PHONE, Browser, Tab, in_a_browser
from synthetic_runs import finish, in_training, make_run, measured, packs_of, sweep

from dashboards.serving.server import serving
from sweeps.store.run_directory import RunDirectory

pytestmark = in_a_browser


@pytest.fixture
def half(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", sweep(), share=0.5)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def wait_for_words(tab: Tab, place: str, words: str) -> None:
    tab.wait(f"(document.querySelector({place!r})?.innerText ?? '').includes({words!r})")


def wait_for_page(tab: Tab) -> None:
    tab.wait("document.body?.dataset.looks > 0")


def test_a_run_is_followed_while_the_reader_reads(half: RunDirectory, stack: ExitStack, browser: Browser) -> None:
    packs = packs_of(sweep())
    rest = packs[len(packs) // 2 :]
    training = stack.enter_context(ExitStack())
    training.enter_context(in_training(half, rest[0]))
    url, _ = stack.enter_context(serving([str(half.path)]))
    tab = stack.enter_context(browser.tab(url))
    wait_for_page(tab)
    wait_for_words(tab, "#live", "trials, about")
    wait_for_words(tab, "#progress", f"{len(rest[0].configs)} in training")
    assert "So far" in tab.page.locator("header").inner_text()

    cell = tab.page.locator("#cell-choice option").nth(2).get_attribute("value")
    tab.page.locator("#cell-choice").select_option(cell)
    tab.page.locator(f"#cell-{cell} summary").click()
    tab.page.locator("#cell-next").focus()
    training.close()
    finish(half, rest)

    wait_for_words(tab, "#live", "All 144 trials have ended")
    wait_for_words(tab, "#progress", "All 144")
    tab.wait("!document.querySelector('header').innerText.includes('So far')")
    assert tab.page.locator("#cell-choice").input_value() == cell
    tab.wait(f"document.querySelector('#trials-{cell}').open")
    assert tab.page.evaluate("document.activeElement.id") == "cell-next"
    tab.wait_for_figures()
    assert tab.errors == []
    assert tab.strangers == []


def test_what_a_user_wrote_cannot_run_in_it(tmp_path: Path, stack: ExitStack, browser: Browser) -> None:
    nasty = '<img src=x onerror="document.title=1"><script>document.title="hit"</script>'
    run = make_run(tmp_path / "run", sweep(title=nasty, hypothesis=nasty), lambda c: nasty if c.width % 2 else measured(c))
    url, _ = stack.enter_context(serving([str(run.path)]))
    tab = stack.enter_context(browser.tab(url, size=PHONE))
    wait_for_page(tab)
    wait_for_words(tab, "#failures", nasty)
    assert tab.page.title() == nasty
    assert tab.fits
    assert tab.errors == []


def test_two_runs_stand_side_by_side_and_link_to_their_own_pages(tmp_path: Path, stack: ExitStack, browser: Browser) -> None:
    whole = make_run(tmp_path / "whole", sweep())
    strict = make_run(tmp_path / "strict", sweep(criterion={"target_loss": 0.2}), share=0.7)
    url, _ = stack.enter_context(serving([str(whole.path), str(strict.path)]))
    tab = stack.enter_context(browser.tab(url))
    wait_for_page(tab)
    tab.wait_for_figures()
    assert tab.page.locator("#cells tbody tr").count() == 8
    assert "criterion.target_loss" in tab.page.locator("#settings").inner_text()
    assert tab.fits
    tab.page.locator("#runs a").nth(1).click()
    wait_for_page(tab)
    wait_for_words(tab, "#live", "not running now")
    tab.wait_for_figures()
    assert tab.errors == []
    assert tab.strangers == []


def test_a_run_that_cannot_be_read_says_why_and_is_read_again_once_it_can(
    half: RunDirectory, stack: ExitStack, browser: Browser
) -> None:
    whole = half.ledger.read_text()
    half.ledger.write_text(f'{{"schema": 99}}\n{whole}')
    url, _ = stack.enter_context(serving([str(half.path)]))
    tab = stack.enter_context(browser.tab(url))
    wait_for_page(tab)
    wait_for_words(tab, "#unreadable", "this ledger line has schema 99; this version reads 1")
    half.ledger.write_text(whole)
    wait_for_words(tab, "#progress", "of 144")
    assert tab.page.locator("#unreadable").count() == 0


def test_a_page_whose_server_is_gone_says_so_and_stays(half: RunDirectory, stack: ExitStack, browser: Browser) -> None:
    server = stack.enter_context(ExitStack())
    url, _ = server.enter_context(serving([str(half.path)]))
    tab = stack.enter_context(browser.tab(url))
    wait_for_page(tab)
    server.close()
    wait_for_words(tab, "#alert", "The server does not answer")
    assert "of 144" in tab.page.locator("#progress").inner_text()
