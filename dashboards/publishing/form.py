"""The form of a run directory in W&B: one run a trial, or one run a cell where its plan has too many trials.

It is decided once, by what the whole sweep declares and its searches are expected to ask for, before any trial has ended, and
kept in `RUN/wandb/form.json` (of a shard's directory in that of the run which it is a shard of). So a search that grows, a
resumed run, a shard and a later `stsq wandb sync` keep the form of the first publication.
"""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Literal, cast, get_args

from dashboards.publishing.published import publications
from sweeps.cells import ExpandedSweep
from sweeps.findings import planned_trials
from sweeps.store import RunDirectory, free_name, sealed, unsealed, write_first

LOG = logging.getLogger(__name__)

Form = Literal["trial", "cell"]
"""What each W&B run shows."""


def form_of(run: RunDirectory) -> Form:
    """The form of a run directory: the kept one; else that of its published runs, else by the plan, which is then kept.

    Raises:
        UserError: the sweep cannot be read, or the file cannot be written.
    """
    path = form_path(run)
    form = kept_form(path)
    if form is None:
        made = _published_form(run) or _planned_form(run)
        if path.exists():
            path.replace(free_name(path))  # it is damaged
        write_first(path, sealed(json.dumps({"one_run_a": made}).encode()))
        form = kept_form(path) or made
    return form


def form_path(run: RunDirectory) -> Path:
    """Where the form is kept: one file for a run and its shards."""
    whole = run if run.shard.count == 1 else RunDirectory(run.path.parents[1])
    return whole.wandb / "form.json"


def kept_form(path: Path) -> Form | None:
    """The form in a file; None where there is none, or a damaged one."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = unsealed(path.read_bytes())[0]["one_run_a"]
        return cast(Form, found) if found in get_args(Form) else None
    return None


def _planned_form(run: RunDirectory) -> Form:
    sweep = run.read_whole_sweep()
    num, limit = planned_trials(sweep), sweep.spec.wandb.max_trial_runs
    if num <= limit:
        return "trial"
    LOG.info("about %d trials are more than wandb.max_trial_runs=%d: one run a cell", num, limit)
    return "cell"


def _published_form(run: RunDirectory) -> Form | None:
    """The form of the runs that were published last, by a version that kept none; None where none was.

    A searched cell has a run of its own in both forms, which says something only where there are no others.
    """
    sweep: ExpandedSweep = run.read_whole_sweep()
    searched = {cell.cell_id for cell in sweep.searched}
    published = [one for path in sorted(run.wandb.glob("published*.jsonl")) for one in publications(path)]
    if not published:
        return None
    others = [one for one in published if one.key not in searched]
    if not others:
        return "cell"
    newest = max(others, key=lambda one: one.at)
    return "cell" if newest.key in sweep.labels else "trial"
