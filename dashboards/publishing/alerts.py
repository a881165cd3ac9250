"""Alerts of W&B: a message about a run, which W&B shows and sends on by mail or Slack as its user has set there.

An alert belongs to a W&B run, here to the newest one of the sweep that the server holds. It is sent with the request that
`wandb.Run.alert` makes (`NotifyScriptableRunAlert`, wandb 0.31), which needs no open run, so that none is opened and closed
again for it. What was sent is noted in `RUN/wandb/alerts.jsonl`: the same message is not sent twice, as when a run is resumed.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dashboards.publishing.client import server_url
from dashboards.publishing.destination import Asked, choose_destination
from dashboards.publishing.held import BATCH, Account
from dashboards.publishing.mode import Request, decide_mode, key_for
from dashboards.publishing.published import alerts_sent, directory_id, publications
from stsq_core.configs import UserError
from sweeps.cells import ExpandedSweep
from sweeps.store import RunDirectory, append_lines, open_run, read_lines, trials_of_journal

Level = Literal["INFO", "WARN", "ERROR"]

MAX_TITLE = 63
"""Letters of a title: W&B takes fewer than 64."""

WAIT_MS = 60_000
"""W&B's own least time between two alerts of one title, as its client asks for."""

_ALERT = """mutation NotifyScriptableRunAlert($entityName: String!, $projectName: String!, $runName: String!, $title: String!,
 $text: String!, $severity: AlertSeverity = INFO, $waitDuration: Duration) {
 notifyScriptableRunAlert(input: {entityName: $entityName, projectName: $projectName, runName: $runName, title: $title,
 text: $text, severity: $severity, waitDuration: $waitDuration}) { success } }"""

_VIEWER = "query Viewer { viewer { entity } }"
_PROBLEM = "took no alert"


@dataclass(frozen=True)
class Alert:
    """A message; two of the same `key` are the same, though their text may differ in what the time was."""

    title: str
    text: str
    level: Level
    key: str


def send_alert(run_path: Path, alert: Alert, *, mode: Request | None, asked: Asked) -> str:
    """Send an alert where the run is published online; returns what became of it: `sent`, `not due` and why, or what was wrong.

    Raises:
        UserError: no run directory, or an environment that names no mode.
        ConnectionError: the server does not answer, or refuses.
    """
    run = open_run(run_path)
    sweep = run.read_sweep()
    decision = decide_mode(mode, sweep.spec.wandb.mode, server=server_url)
    if decision.mode != "online":
        return f"not due: {decision.reason}"
    sent = alerts_sent(run.wandb / "alerts.jsonl")
    key = hashlib.sha256(alert.key.encode()).hexdigest()[:16]
    if key in read_lines(sent):
        return "not due: it was sent before"
    place = choose_destination(asked, sweep.spec.wandb, run.wandb)
    url = server_url()
    account = Account(url, key_for(url) or "")
    entity = place.entity or _entity_of(account)
    run_id = _newest_run(run, sweep, account, place.project, entity)
    if run_id is None:
        return "the server has no run of this sweep yet, to which it could belong"
    variables = {"entityName": entity, "projectName": place.project, "runName": run_id}
    message = {"title": alert.title[:MAX_TITLE], "text": alert.text, "severity": alert.level, "waitDuration": WAIT_MS}
    answer = account.ask(_ALERT, variables | message, problem=_PROBLEM)
    if not (answer.get("notifyScriptableRunAlert") or {}).get("success"):
        raise ConnectionError(f"the W&B server {url} {_PROBLEM}: it answered without success")
    append_lines(sent.path, [{"key": key, "title": alert.title, "at": time.time()}])
    return "sent"


def _entity_of(account: Account) -> str:
    """The account's own entity."""
    viewer: Any = account.ask(_VIEWER, {}, problem=_PROBLEM).get("viewer") or {}
    if not viewer.get("entity"):
        raise UserError("the W&B account has no default entity: name one with --wandb-entity NAME")
    return str(viewer["entity"])


def _newest_run(run: RunDirectory, sweep: ExpandedSweep, account: Account, project: str, entity: str) -> str | None:
    """The newest W&B run of the sweep that the server holds."""
    candidates = list(dict.fromkeys(_candidates(run, sweep)))[:BATCH]
    held = account.held(candidates, project, entity) if candidates else {}
    return next((run_id for run_id in candidates if run_id in held), None)


def _candidates(run: RunDirectory, sweep: ExpandedSweep) -> Iterator[str]:
    """Ids that W&B runs of the sweep have or may have: those of published ones, of trials in training, of cells."""
    lines = [line for path in run.wandb.glob("published*.jsonl") for line in read_lines(publications(path))]
    online = [line for line in lines if line.mode != "offline"]
    yield from (line.run_id for line in sorted(online, key=lambda line: -line.at)[: BATCH // 2])
    identity = directory_id(run.wandb)
    with suppress(OSError):
        newest = sorted(run.curves.glob("*.jsonl"), key=lambda path: -path.stat().st_mtime)[: BATCH // 4]
        yield from (f"{identity}-{trial_id}" for path in newest for trial_id in trials_of_journal(path)[:1])
    cell_ids = [*(cell.cell_id for cell in sweep.cells), *(cell.cell_id for cell in sweep.searched)]
    yield from (f"{identity}-{cell_id}" for cell_id in cell_ids)
