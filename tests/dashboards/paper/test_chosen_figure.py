"""`stsq figure` and `run.figure()`: the width that was asked for, the panels that were named, and without the rivals."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic_runs import fully_connected, make_run, sweep, transformers
from typer.testing import CliRunner

import dashboards
from cluster.commands.cli import app, main
from cluster.commands.figure import inches
from dashboards.paper.chosen_figure import FIGURES, chosen_figure
from sweeps.findings.run_findings import Findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def names_in(figure: object) -> list[str]:
    return [text for axes in figure.axes for text in axes.get_legend_handles_labels()[1]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("width_in", [3.3, 7.0])
def test_every_figure_has_the_width_that_was_asked_for(findings: Findings, name: str, width_in: float) -> None:
    figure = chosen_figure(findings, name, width_in=width_in)
    assert figure.get_figwidth() == width_in
    figure.draw_without_rendering()
    columns = {round(axes.get_position().x0, 1) for axes in figure.axes}
    assert len(columns) == (2 if name == "losses" else 1) if width_in == 3.3 else len(columns) > 1


def test_panels_are_named_by_number_or_title_in_the_order_asked_for(findings: Findings) -> None:
    titles = [axes.get_title(loc="left") for axes in chosen_figure(findings, panels=["fully", "1"]).axes]
    assert titles == ["Fully connected net", "Transformer"]


def test_without_rivals_only_the_named_laws_are_drawn(findings: Findings) -> None:
    for name in ("thresholds", "laws"):
        both, alone = (names_in(chosen_figure(findings, name, has_rival=rival)) for rival in (True, False))
        assert len(alone) == len(both) - 2  # one an architecture
    assert any("exact floor" in words for words in names_in(chosen_figure(findings, has_rival=False)))


def test_a_loaded_run_gives_the_same_figure(whole_run: RunDirectory) -> None:
    figure = dashboards.load(whole_run.path).figure("phases", width_in=3.3, panels=["1"])
    assert figure.get_size_inches()[0] == 3.3


def test_the_command_writes_the_formats_at_the_width(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sweep(trials=[transformers([16, 32, 64]), fully_connected([4, 8])]))
    arguments = ["figure", str(run.path), "--width", "84mm", "--panels", "1", "--no-rival", "--format", "pdf,svg"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    pdf, svg = (run.report / f"figure_thresholds.{ending}" for ending in ("pdf", "svg"))
    assert done.output.split() == [str(pdf), str(svg)]
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", pdf.read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(84 / 25.4 * 72, abs=0.1)
    assert "</svg>" in svg.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["residuals"], "has no figure 'residuals': give one of thresholds, phases, laws, losses"),
        (["--panels", "x"], "there is no panel 'x': give the numbers or the beginnings of the titles of 1 Transformer"),
        (["--width", "3furlong"], "--width is a length from 1in to 40in, in in, cm, mm, pt, such as 3.3in; got '3furlong'"),
        (["--format", "eps"], "--format knows pdf, svg, png, pgf; got 'eps'"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(
    arguments: list[str], words: str, whole_run: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["figure", str(whole_run.path), *arguments])
    assert words in capsys.readouterr().err


def test_pgf_without_latex_says_what_is_missing(
    whole_run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(SystemExit):
        main(["figure", str(whole_run.path), "--format", "pgf"])
    assert "needs xelatex, pdflatex or lualatex" in capsys.readouterr().err


STAND_IN = """#!{python}
import sys

for line in sys.stdin:
    if "pgf_backend_query_start" in line:
        print("*pgf_backend_query_start\\n\\n*", end="", flush=True)
    elif "the\\wd0" in line:
        print("20.0pt,7.0pt,2.0pt\\n\\n*", end="", flush=True)
    elif "@@end" in line:
        break
    elif "includegraphics" in line:
        print("\\n*", end="", flush=True)
"""
"""A TeX that says of every text that it is 20 points wide, in the words of TeX's prompt."""


@pytest.mark.parametrize("system", ["xelatex", "pdflatex"])
def test_pgf_is_commands_for_tex_with_the_texts_in_it(
    system: str, whole_run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text: no TeX draws it here. Of the TeXs that may be installed the one that is there is used."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / system
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent))
    done = CliRunner().invoke(app, ["figure", str(whole_run.path), "--format", "pgf", "--out", str(tmp_path / "shown")])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "shown.pgf").read_text("utf-8")
    assert text.startswith("%% Creator: Matplotlib, PGF backend")
    assert text.count("\\begin{pgfpicture}") == text.count("\\end{pgfpicture}") == 1
    assert "width threshold" in text
    assert "Transformer" in text


def test_lengths_are_read_in_all_units() -> None:
    assert [inches(text) for text in ("3.3", "3.3in", "144.54pt", "50.8mm", "5.08 cm")] == pytest.approx([3.3, 3.3, 2, 2, 2])
