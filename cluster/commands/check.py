"""`stsq check`: reads every file of a run directory, says what is wrong, and makes it right from what is left."""

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from rich.console import Console

from cluster.run import adopt_outcomes, print_line, read_outcome
from dashboards.publishing import publishing_damage
from stsq_core.configs import UserError
from sweeps.search import study_damage
from sweeps.store import Damage, Ledger, Lock, RunDirectory, examine, moved_away, read_results

DAMAGED = 1


def check_run(path: Path, *, repair: bool, out: Console) -> int:
    """Print what is wrong with a run directory, and mend it where `repair` is true; returns 1 where anything is wrong still.

    Raises:
        UserError: there is no directory, or with `repair` another process runs the sweep.
    """
    run = RunDirectory(path)
    if not run.path.is_dir():
        raise UserError(f"{str(path)!r} is no directory: give the directory of a run, such as runs/quickstart")
    with ExitStack() as held:
        if repair:
            held.enter_context(Lock(run.lock))
        found = list(chain(examine(run), _outcome_damage(run), study_damage(run), publishing_damage(run)))
        left = [damage for damage in found if not (repair and _mended(damage))]
        if repair and (num := adopt_outcomes(run, Ledger(run.ledger))):
            print_line(out, f"{num} trials that had ended are in {run.ledger} now")
    lacks = _lacking(run)
    for damage in found:
        how = "" if damage not in left else ": `stsq check --repair` cannot mend it" if repair else ""
        print_line(out, f"{'' if damage in left else 'mended: '}{damage.what}{how}")
    for note in lacks:
        print_line(out, note)
    if not left and not lacks:
        print_line(out, f"{run.path}: every file is whole" if not found else f"{run.path} is whole now")
        return 0
    if not repair and any(damage.mend for damage in found):
        print_line(out, f"`stsq check {shlex.quote(str(path))} --repair` sets what is damaged aside")
    return DAMAGED


def _outcome_damage(run: RunDirectory) -> Iterator[Damage]:
    for path in sorted(run.checkpoints.glob("*.outcome.json")):
        if path.is_file() and read_outcome(path) is None:
            yield Damage(f"{path} is damaged, or of another version: its pack is trained again", moved_away(path))


def _mended(damage: Damage) -> bool:
    if damage.mend is not None:
        damage.mend()
    return damage.mend is not None


def _lacking(run: RunDirectory) -> tuple[str, ...]:
    """What other files know of and the ledger lacks; nothing can be said without its sweep, which `examine` names."""
    try:
        return read_results(run).lacks
    except UserError:
        return ()
