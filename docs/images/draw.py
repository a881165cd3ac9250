"""Draws the pictures of the documentation: `make pictures`, from the runs that are kept beside it, without training.

`python docs/images/draw.py --train SWEEP ...` runs sweeps anew first and keeps what their pictures need of the run directories.
`drawn.json` has, of each picture, hashes of the file and of what decides it; `tests/test_pictures.py` compares.
"""

import argparse
import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert

from stsq import load_sweep
from stsq_core.configs.trial import NUMERICS

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
RUNS = FOLDER / "runs"
DRAWN = FOLDER / "drawn.json"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

KEPT = {
    "quickstart": ("rounds.jsonl", "curves", "study.id", "study.journal"),
    "width_vs_T": ("rounds.jsonl",),
    "three_architectures": (),
    "figure2": ("curves",),
    "figure3": ("curves", "weights"),
    "qstr_attention": ("curves", "weights"),
    "qstr_samples": ("curves",),
    "boolean_samples": (),
}
"""Of each sweep what is kept of its run directory beside the sweep file and the ledger."""


@dataclass(frozen=True)
class Picture:
    """A sweep, how its picture is made, and which code decides what it looks like."""

    sweep: str
    source: str
    """The file of the report, the document of the boards, or the name of the screenshot."""

    code: tuple[str, ...]

    @property
    def is_screenshot(self) -> bool:
        return "." not in self.source


FIGURES = ("dashboards/plots/chart.py", "dashboards/plots/charts_of_thresholds.py", "dashboards/plots/series.py")
PAPER = (*FIGURES, "dashboards/paper/figures.py")
BOARDS = (*FIGURES, "dashboards/plots/charts_of_cells.py", "dashboards/boards/charts.py")
PAGE = ("dashboards/plots/charts_of_cells.py", "dashboards/page/cell_section.py", "dashboards/assets/page.css")
DRAWINGS = ("dashboards/plots/drawings.py", "dashboards/paper/figures.py")

PICTURES = {
    "quickstart.png": Picture("quickstart", "thresholds.png", PAPER),
    "width_vs_T.png": Picture("width_vs_T", "thresholds.png", PAPER),
    "width_vs_T_phases.png": Picture("width_vs_T", "phases.png", ("dashboards/plots/phase_diagram.py", *PAPER)),
    "three_architectures.png": Picture("three_architectures", "thresholds.png", PAPER),
    "figure2.png": Picture("figure2", "lengths_dual.png", DRAWINGS),
    "figure3.png": Picture("figure3", "matrices.png", DRAWINGS),
    "qstr_attention.png": Picture("qstr_attention", "blocks.png", DRAWINGS),
    "qstr_samples.png": Picture("qstr_samples", "thresholds.png", PAPER),
    "boolean_samples.png": Picture("boolean_samples", "thresholds.png", PAPER),
    "board_thresholds.png": Picture("quickstart", "thresholds.vl.json", BOARDS),
    "board_loss_against_width.png": Picture("quickstart", "loss-against-width.vl.json", BOARDS),
    "board_optuna.png": Picture("quickstart", "optuna", ("dashboards/boards/viewers.py", *FIGURES)),
    "cell.png": Picture("quickstart", "cell", PAGE),
    "live.png": Picture("quickstart", "live", ("dashboards/page/run_sections.py", "dashboards/assets/page.css")),
}

LONG = {"atlas.png": "atlas"}
"""Pictures of sweeps whose runs are not kept: drawn when they were run, so that their looks may be older."""


def hashes(name: str) -> dict[str, str]:
    """The hashes of a picture, of the trials of its sweep, and, where its run is kept, of the code that draws it."""
    picture = _hash((FOLDER / name).read_bytes())
    if name in LONG:
        return {"picture": picture, "numbers": numbers(LONG[name])}
    own = PICTURES[name]
    code = "\n".join(map(_statements, own.code))
    return {"picture": picture, "numbers": numbers(own.sweep), "drawing": _hash(code.encode())}


def numbers(sweep: str) -> str:
    """The hash of what decides the results of a sweep: its trials, what is judged and drawn of them, the random numbers."""
    parts = load_sweep(sweep).model_dump(mode="json", include={"trials", "criterion", "search", "laws", "drawings"})
    return _hash(json.dumps([NUMERICS, parts], sort_keys=True).encode())


def _statements(path: str) -> str:
    """The code of a file without comments and docstrings, which draw nothing; other files whole."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if not path.endswith(".py"):
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [line for line in node.body if not _is_docstring(line)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_docstring(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def stsq(*words: object, folder: Path) -> None:
    """Run a command of the package."""
    subprocess.run([sys.executable, "-m", "stsq", *map(str, words)], cwd=folder, env=_variables(), check=True)


def _variables() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def train(sweep: str, runs: Path) -> None:
    """Run a sweep in the folder `runs`, or continue it, and keep what its pictures need."""
    stsq("run", sweep, "--wandb", "disabled", "--out", runs / sweep, folder=ROOT)
    keep(sweep, runs / sweep)


def keep(sweep: str, run: Path) -> None:
    """Write the archive of a run: without its own machine's names, and the same bytes whenever it is made."""
    RUNS.mkdir(exist_ok=True)

    def unnamed(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        return member

    with tarfile.open(RUNS / f"{sweep}.tar.xz", "w:xz") as archive:
        for part in ("spec.yaml", "ledger.jsonl", *KEPT[sweep]):
            archive.add(run / part, arcname=f"{sweep}/{part}", filter=unnamed)


def draw(name: str, run: Path) -> None:
    """Draw a picture from a run directory."""
    picture = PICTURES[name]
    if picture.source.endswith(".json"):
        document = json.loads((run.parent / f"{run.name}-boards" / picture.source).read_text(encoding="utf-8"))
        (FOLDER / name).write_bytes(vl_convert.vegalite_to_png(document | {"datasets": {"wandb": []}}))
    elif picture.is_screenshot:
        {"cell": photograph_cell, "optuna": photograph_optuna, "live": photograph_live}[picture.source](run, FOLDER / name)
    else:
        shutil.copyfile(run / "report" / picture.source, FOLDER / name)


@contextmanager
def serving(*words: object, folder: Path) -> Iterator[str]:
    """A command that serves a page until it is ended, and the address that it prints."""
    command = [sys.executable, "-u", "-m", "stsq", *map(str, words)]
    with subprocess.Popen(command, cwd=folder, env=_variables(), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                if "http://" in line:
                    yield "http://" + line.partition("http://")[2].split()[0]
                    return
            raise RuntimeError("it ended without an address")
        finally:
            server.terminate()


@contextmanager
def page_of(width: int, height: int) -> Iterator[Any]:
    """A page of a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce")
        browser.close()


def photograph_cell(run: Path, path: Path) -> None:
    """The first cell in detail, on the page of the run."""
    with page_of(1120, 1400) as page:
        page.goto((run / "report" / "index.html").as_uri())
        panel = page.locator(".cell-panel:visible").first
        panel.scroll_into_view_if_needed()
        panel.locator(".plot-container svg").first.wait_for()
        panel.screenshot(path=path)


def photograph_optuna(run: Path, path: Path) -> None:
    """A cell in optuna-dashboard."""
    with serving("open", "optuna", run, "--port", 0, folder=run.parent) as address, page_of(840, 2050) as page:
        page.goto(
            f"{address.rstrip('/')}/studies/1" if "dashboard" in address else f"{address.rstrip('/')}/dashboard/studies/1"
        )
        page.get_by_text("Loss through training").first.wait_for(timeout=60_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=path)


def photograph_live(run: Path, path: Path) -> None:
    """The page of the sweep while it trains: a new run of it is begun, and ended when some of it is done."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "runs", "quickstart")
        command = [sys.executable, "-m", "stsq", "run", "quickstart", "--wandb", "disabled", "--out", "runs/quickstart"]
        command += ["--set", "search.tolerance=0.03"]  # else it is over before a page can be photographed
        with subprocess.Popen(command, cwd=folder, env=_variables(), stdout=subprocess.DEVNULL) as runner:
            try:
                while not (out / "ledger.jsonl").is_file() and runner.poll() is None:
                    time.sleep(0.2)
                with (
                    serving("open", "page", "runs/quickstart", "--port", 0, folder=Path(folder)) as address,
                    page_of(1000, 1200) as page,
                ):
                    page.goto(address)
                    page.wait_for_function(ENDED_AND_IN_TRAINING, arg=LEAST_ENDED, timeout=180_000)
                    foot = page.locator("#progress").bounding_box()
                    clip = {"x": 0, "y": 0, "width": 1000, "height": foot["y"] + foot["height"]}
                    page.screenshot(path=path, full_page=True, clip=clip)
            finally:
                runner.send_signal(signal.SIGINT)


LEAST_ENDED = 96
"""Trials that have ended in the picture of the live page, of some hundreds."""

ENDED_AND_IN_TRAINING = """least => {
    const section = document.querySelector('#progress');
    const ended = section && section.innerText.match(/([0-9]+) finished/);
    return ended && Number(ended[1]) >= least && / in training/.test(section.innerText);
}"""


def main(trained: Sequence[str]) -> None:
    """Train what is asked for, draw all pictures, and write down what they are drawn from."""
    for sweep in trained:
        train(sweep, ROOT / "runs" / "pictures")
    drawn = json.loads(DRAWN.read_text(encoding="utf-8"))
    shown = [name for name, picture in PICTURES.items() if CHROMIUM or not picture.is_screenshot]
    with tempfile.TemporaryDirectory() as folder:
        for sweep in dict.fromkeys(PICTURES[name].sweep for name in shown):
            with tarfile.open(RUNS / f"{sweep}.tar.xz") as archive:
                archive.extractall(Path(folder, "runs"), filter="data")
            run = Path(folder, "runs", sweep)
            stsq("report", f"runs/{sweep}", folder=Path(folder))  # the page names the run as it is named here
            if any(PICTURES[name].source.endswith(".json") for name in shown if PICTURES[name].sweep == sweep):
                stsq("wandb", "setup", run, "--json", f"{run}-boards", folder=Path(folder))
            for name in (name for name in shown if PICTURES[name].sweep == sweep):
                draw(name, run)
                drawn[name] = hashes(name)
    drawn |= {name: hashes(name) for name in LONG if name not in drawn}
    DRAWN.write_text(json.dumps({name: drawn[name] for name in sorted(drawn)}, indent=2) + "\n", encoding="utf-8")
    if not CHROMIUM:
        sys.stderr.write("No Chromium: the screenshots are as they were.\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", nargs="+", choices=KEPT, default=[], metavar="SWEEP", help=f"one of {', '.join(KEPT)}")
    main(parser.parse_args().train)
