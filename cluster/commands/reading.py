"""Commands on run directories: `stsq show`, `runs`, `status`, `check`, `report`, `figure`, and `rm`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from cluster.commands import completion
from cluster.commands.cli_options import AsJson, PluginFiles, Run
from stsq_core.configs import UserError


def show(
    run: Run,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OTHER]", help="Another run, to compare with.", autocompletion=completion.runs, show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    at: Annotated[
        list[str] | None, typer.Option(help="Predict the threshold of a task by the fitted laws, such as T=512,q=3,d=4.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Show the results of a run: width thresholds with intervals, laws, verdicts, failures; or those of two side by side."""
    from cluster.commands.law_results import read_task, show_predictions
    from cluster.commands.results import show_findings
    from cluster.run import log, out, print_line
    from dashboards.paper import thresholds_json, thresholds_latex, verdicts_json
    from sweeps.findings import read_findings

    if as_json and as_latex:
        raise UserError("--json and --latex exclude each other: give one of them")
    if at and (as_json or as_latex):
        raise UserError("--at predicts in words: give it without --json and --latex")
    tasks = [read_task(text) for text in at or ()]
    if other is not None:
        if as_json or as_latex or tasks:
            raise UserError("two runs are shown as a table: give --json, --latex and --at with one run")
        from cluster.commands.runs import show_side_by_side

        show_side_by_side(out(), [(str(one), read_findings(one)) for one in (run, other)])
        return
    findings = read_findings(run)
    if as_latex and findings.spec.drawings:
        raise UserError(f"{findings.spec.name} is shown by drawings and has no table of thresholds: --json gives its verdicts")
    for note in findings.notes:
        print_line(log(), note)
    if as_json and findings.spec.drawings:
        sys.stdout.write(verdicts_json(findings.verdicts))
    elif as_json:
        sys.stdout.write(thresholds_json(findings.thresholds, findings.comparisons, findings.decisions))
    elif as_latex:
        sys.stdout.write(thresholds_latex(findings.thresholds, findings.comparisons))
    elif tasks:
        show_predictions(out(), findings.comparisons, findings.thresholds, tasks, findings.spec.laws)
    else:
        show_findings(out(), findings)


def runs(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder of run directories.")] = Path("runs"),
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """List the runs of a folder: sweep, state, progress, result."""
    from cluster.commands.runs import runs_json, show_runs
    from cluster.run import out

    if as_json:
        sys.stdout.write(runs_json(folder))
    else:
        show_runs(out(), folder)


def remove(run: Run, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove a run directory, after asking; never one that is in use, nor what a link in it leads to."""
    from cluster.commands.runs import remove as remove_run

    remove_run(run, is_sure=yes)


def status(run: Run, as_json: AsJson = False, plugin: PluginFiles = None) -> None:
    """Show the progress of a run by worker and by cell, and the time left; `stsq open page` shows it live."""
    from sweeps.store import gc_paused

    with gc_paused():  # what is loaded and read stays until the answer is given
        from cluster.commands.status import show_status, status_json
        from cluster.run import out
        from sweeps.findings import read_progress
        from sweeps.store import open_run

        directory = open_run(run)
        progress = read_progress(directory)
    if as_json:
        sys.stdout.write(status_json(progress))
    else:
        show_status(out(), progress, run=directory.path)


def check(
    run: Run,
    repair: Annotated[bool, typer.Option("--repair", help="Set aside what is damaged, and mend what can be mended.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Read every file of a run and say what is wrong; exit code 1 if anything is."""
    from cluster.commands.check import check_run
    from cluster.run import out

    raise typer.Exit(check_run(run, repair=repair, out=out()))


def report(run: Run, plugin: PluginFiles = None) -> None:
    """Redraw the figures and the page of a run, and print the verdicts on its claims."""
    from cluster.commands.results import show_verdicts
    from cluster.run import out
    from dashboards.page import write_report
    from sweeps.findings import read_findings

    findings = read_findings(run)
    show_verdicts(out(), findings.verdicts, level=findings.spec.criterion.level)
    print(f"page: {write_report(run, findings)}")


def figure(
    run: Run,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="thresholds, phases, laws, losses, or a drawing of the sweep.",
            show_default="the first",
        ),
    ] = "",
    width: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Such as 3.3in, 84mm or 240pt.", show_default="two columns")
    ] = None,
    panels: Annotated[
        str | None, typer.Option(metavar="PANEL,PANEL", help="Numbers or beginnings of titles.", show_default="all")
    ] = None,
    formats: Annotated[str, typer.Option("--format", metavar="KIND,KIND", help="Of pdf, svg, png, pgf.")] = "pdf",
    no_rival: Annotated[bool, typer.Option("--no-rival", help="Leave out the law expected of the other architecture.")] = False,
    stem: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="Without its ending.", show_default="RUN/report/figure_NAME")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Draw one figure of a run for a paper."""
    from cluster.commands.figure import draw

    for path in draw(run, name, width=width, panels=panels, formats=formats, has_rival=not no_rival, out=stem):
        print(path)
