"""The page in a real browser: it draws every figure without network or errors, on a desk, on a phone and in the dark."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboards import write_report
from sweeps.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
    " --disable-component-update --hide-scrollbars --virtual-time-budget=30000 --enable-logging=stderr"
)

PROBE = """<script>
const probe = () => {
  const places = [...document.querySelectorAll(".plot")];
  if (places.some((place) => !place.querySelector(".main-svg"))) return setTimeout(probe, 100);
  const fits = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
  document.body.dataset.probe = [places.length, fits, performance.getEntriesByType("resource").length].join(",");
};
addEventListener("load", probe);
</script>"""


def opened(page: Path, tmp_path: Path, *options: str, size: str) -> tuple[str, str]:
    """The page's document after its script has run, and what the browser's console said."""
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    command = [str(CHROMIUM), *QUIET.split(), f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}", *options]
    told = subprocess.run([*command, "--dump-dom", probed.as_uri()], capture_output=True, text=True, timeout=180)
    assert told.returncode == 0, told.stderr
    return told.stdout, "\n".join(line for line in told.stderr.splitlines() if "CONSOLE" in line)


def test_every_figure_is_drawn_with_no_error_and_no_request(whole_page: Path, tmp_path: Path) -> None:
    document, console = opened(whole_page, tmp_path, size="1280,2000")
    assert 'data-probe="21,true,0"' in document
    assert console == ""
    assert "rgb(0, 114, 178)" in document


def test_on_a_phone_in_the_dark_nothing_overflows_and_nothing_a_user_wrote_runs(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(title='<img src=x onerror="document.title=1"><script>document.title="hit"</script>')
    page = write_report(run.path)
    document, _ = opened(page, tmp_path, "--blink-settings=preferredColorScheme=0", size="500,1500")
    assert 'data-probe="21,true,0"' in document
    assert "<title>hit" not in document
    assert "<title>1</title>" not in document
    assert "rgb(86, 180, 233)" in document
    assert "rgb(0, 114, 178)" not in document
