"""`stsq figure`: a figure of a run for a paper, at a paper's width and in its formats."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from dashboards.paper import chosen_figure, first_figure, installed_tex, save_figure
from stsq_core.configs import UserError
from sweeps.findings import read_findings
from sweeps.store import disk_errors

FORMATS = ("pdf", "svg", "png", "pgf")
INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Of each unit of length; a point is TeX's."""


def draw(
    run: Path, name: str, *, width: str | None, panels: str | None, formats: str, has_rival: bool, out: Path | None
) -> tuple[Path, ...]:
    """Draw a figure into `out`, by default in the run's report, once for each format; the paths.

    Raises:
        UserError: there is no such figure, panel, width or format, or it cannot be written.
    """
    endings = tuple(dict.fromkeys(one.strip() for one in formats.split(",")))
    if unknown := [one for one in endings if one not in FORMATS]:
        raise UserError(f"--format knows {', '.join(FORMATS)}; got {unknown[0]!r}")
    with installed_tex() if "pgf" in endings else nullcontext():
        findings = read_findings(run)
        name = name or first_figure(findings)
        asked: Sequence[str] = panels.split(",") if panels else ()
        size = None if width is None else inches(width)
        figure = chosen_figure(findings, name, width_in=size, panels=asked, has_rival=has_rival)
        stem = out or findings.run.report / f"figure_{name}"
        with disk_errors(stem.parent):
            stem.parent.mkdir(parents=True, exist_ok=True)
            return save_figure(figure, stem.parent, stem.name, endings)


def inches(text: str) -> float:
    """A width such as `3.3in`, `84mm` or `240pt` in inches.

    Raises:
        UserError: it is none, or none from 1 to 40 inches.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    factor = INCHES.get(found[2] or "in") if found else None
    width = float(found[1]) * factor if found and factor else 0.0
    if not 1 <= width <= 40:
        raise UserError(f"--width is a length from 1in to 40in, in {', '.join(INCHES)}, such as 3.3in; got {text!r}")
    return width
