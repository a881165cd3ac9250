"""The damaged files of a publication, as `stsq check` names and mends them."""

from collections.abc import Iterator

from dashboards.publishing.cell_log import cell_rows
from dashboards.publishing.destination import read_asked
from dashboards.publishing.form import kept_form
from dashboards.publishing.published import alerts_sent, kept_id, publications, renew_id
from sweeps.store import Damage, RunDirectory, damaged_lines, moved_away


def publishing_damage(run: RunDirectory) -> Iterator[Damage]:
    """The damaged files below `RUN/wandb`; W&B's own files are not read."""
    for path in sorted(run.wandb.glob("published*.jsonl")):
        yield from damaged_lines(publications(path), "these runs are published again")
    for path in sorted(run.wandb.glob("cells/*.jsonl")):
        yield from damaged_lines(cell_rows(path), "the publisher writes these rows again", moved_away(path))
    yield from damaged_lines(alerts_sent(run.wandb / "alerts.jsonl"), "these alerts may be sent once more")
    identity = run.wandb / "identity.json"
    if identity.exists() and kept_id(identity) is None:
        what = f"{identity} is damaged: the name of this directory in W&B is taken from its published runs, or made anew"
        yield Damage(what, lambda: renew_id(run.wandb))
    form = run.wandb / "form.json"
    if form.exists() and kept_form(form) is None:
        what = f"{form} is damaged: one W&B run a trial or one a cell follows from the published runs, or from the plan"
        yield Damage(what, moved_away(form))
    asked = run.wandb / "asked.json"
    if asked.exists() and read_asked(asked) is None:
        yield Damage(f"{asked} is damaged: project, entity and tags are those of the sweep", moved_away(asked))
