"""How quickly the page of ten thousand trials opens and answers, in headless Chromium: first paint, and choosing a cell.

`python tests/benchmarks/page_speed.py [--gate]` prints medians over several loads of the static page and of the live one; with
`--gate` it exits with 1 where the first paint takes 2 s or more, or an interaction 100 ms or more.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "dashboards"))

from browsing import Browser, chromium
from gates import parser_of
from synthetic_runs import large_sweep, make_run, sweep

from dashboards import write_report
from dashboards.serving.server import serving

MOST_PAINT_MS, MOST_INTERACTION_MS = 2000.0, 100.0

ANSWERS = """async () => {
  const took = [];
  for (let press = 0; press < 16; press++) {
    const began = performance.now();
    document.getElementById("cell-next").click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    took.push(performance.now() - began);
  }
  return took;
}"""
"""Milliseconds from a click on `Next` to the frame that shows the next cell, for 16 cells."""

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def measured(browser: Browser, url: str) -> tuple[float, float]:
    """First contentful paint and median interaction of one load, in milliseconds."""
    with browser.tab(url) as tab:
        tab.wait(f"({PAINT}) > 0")
        paint = tab.page.evaluate(PAINT)
        tab.wait_for_figures()
        return paint, statistics.median(tab.page.evaluate(ANSWERS))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--gate", action="store_true")
    args = parser.parse_args()
    num_loads = 1 if args.toy else args.loads
    missed = False
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        run = make_run(Path(folder) / "run", sweep() if args.toy else large_sweep())
        began = time.perf_counter()
        page = write_report(run.path)
        print(f"report drawn in {time.perf_counter() - began:.1f} s, {page.stat().st_size / 1e6:.1f} MB")
        with serving([str(run.path)]) as (url, _):
            with browser.tab(url) as tab:
                tab.wait("document.body?.dataset.looks > 0")  # the renderer has drawn it
            for name, address in (("static", page.as_uri()), ("live", url)):
                loads = [measured(browser, address) for _ in range(num_loads)]
                paint, answer = (statistics.median(values) for values in zip(*loads, strict=True))
                missed |= paint >= MOST_PAINT_MS or answer >= MOST_INTERACTION_MS
                print(f"{name} page: first paint {paint:.0f} ms, interaction {answer:.0f} ms (medians of {num_loads} loads)")
    return int(missed and args.gate)


if __name__ == "__main__":
    sys.exit(main())
