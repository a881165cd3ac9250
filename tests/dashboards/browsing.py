"""A real headless Chromium for the tests of the page: what it draws, what its console says, and what it asks for."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""An installed Chromium; the tests download none."""

PATIENCE_MS = 400_000
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

in_a_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


@dataclass
class Tab:
    """A page in the browser, with all errors, and all requests beyond the page's own address and its data, as they come."""

    page: Any
    origin: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def wait(self, condition: str) -> None:
        """Until a JavaScript condition holds; asked from outside, because the page's policy lets no script be added to it."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self._holds(condition):
            assert time.monotonic() < deadline, f"never became true: {condition}"
            self.page.wait_for_timeout(100)

    def _holds(self, condition: str) -> bool:
        from playwright.sync_api import Error

        try:
            return bool(self.page.evaluate(condition))
        except Error as error:
            if "context was destroyed" in str(error):  # the page loads itself again
                return False
            raise

    def wait_for_figures(self) -> None:
        """Until every figure that is shown is drawn."""
        self.wait(
            '[...document.querySelectorAll(".plot")].filter((p) => p.offsetParent).every((p) => p.querySelector(".main-svg"))'
        )

    @property
    def fits(self) -> bool:
        """Whether nothing is wider than the window, once the page has its styles: a script sees rows before they have any."""
        self.page.wait_for_load_state("load")
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.strangers.append(url)


class Browser:
    """A running Chromium."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextmanager
    def tab(self, url: str, *, size: dict[str, int] = DESK, scheme: str = "light", **options: Any) -> Iterator[Tab]:
        """A page in a window of its own, without the animations, which without a graphics card cost more than all else."""
        context = self._chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", **options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        parts = urlsplit(url)
        tab = Tab(page, f"{parts.scheme}://{parts.netloc}")
        page.on("console", lambda message: tab.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: tab.errors.append(str(error)))
        page.on("request", lambda request: tab._asked(request.url))
        try:
            page.goto(url, wait_until="load")
            yield tab
        finally:
            context.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a network: a name that it looks up is not found."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE_MS)
        try:
            yield Browser(browser)
        finally:
            browser.close()
