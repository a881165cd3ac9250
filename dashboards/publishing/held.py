"""The runs that a W&B server holds. wandb's `finish` raises nothing when a server refuses the rows, so a run counts as
published only when the server itself reports its last row and its summary.

The fields are those of the query with which wandb's client resumes a run (`RunResumeStatus`, wandb 0.31).
"""

import base64
import json
import math
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.publishing.projection import RunProjection

ASK_TIMEOUT_S = 10.0
BATCH = 50
"""Runs asked for in one request."""

MAX_COMPARED = 200
"""Characters up to which strings are compared: servers may shorten a long reason."""

_FIELDS = "{ name historyLineCount historyTail summaryMetrics }"


@dataclass(frozen=True)
class Held:
    """A run on a server: the number of rows, W&B's step of the last one (-1 without rows), and the summary."""

    num_rows: int
    last_step: int
    summary: Mapping[str, Any]

    def covers(self, projection: RunProjection) -> bool:
        """Whether every row and every number of the summary is there."""
        rows, outcome = projection.rows, projection.outcome
        if outcome is None or self.num_rows < len(rows) or (rows and self.last_step < rows[-1].step):
            return False
        return all(_equal(self.summary.get(name), value) for name, value in outcome.summary.items())


@dataclass(frozen=True)
class Account:
    """A server and the key for it."""

    url: str
    key: str

    def held(self, run_ids: Sequence[str], project: str, entity: str | None) -> dict[str, Held]:
        """Those of these runs that the server holds.

        Raises:
            ConnectionError: it does not answer in time, or refuses.
        """
        found: dict[str, Held] = {}
        for start in range(0, len(run_ids), BATCH):
            some = run_ids[start : start + BATCH]
            names = {f"n{place}": run_id for place, run_id in enumerate(some)}
            declared = "".join(f", ${name}: String!" for name in names)
            runs = " ".join(f"{name}: bucket(name: ${name}, missingOk: true) {_FIELDS}" for name in names)
            query = (
                f"query StsqRunsHeld($project: String, $entity: String{declared}) "
                f"{{ model(name: $project, entityName: $entity) {{ {runs} }} }}"
            )
            answer = self.ask(query, {"project": project, "entity": entity, **names})
            buckets = (answer.get("model") or {}).values()
            found |= {bucket["name"]: _held(bucket) for bucket in buckets if isinstance(bucket, dict)}
        return found

    def ask(
        self, query: str, variables: Mapping[str, Any], *, problem: str = "does not say what it holds"
    ) -> Mapping[str, Any]:
        """One GraphQL request, given up after `ASK_TIMEOUT_S`, be it a name server, a connection or an answer that is slow.

        Raises:
            ConnectionError: the server does not answer in time, or refuses; its message says the `problem`.
        """
        token = base64.b64encode(f"api:{self.key}".encode()).decode()
        request = urllib.request.Request(
            f"{self.url.rstrip('/')}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {token}", "User-Agent": "stsq"},
        )
        answers: list[Mapping[str, Any] | Exception] = [TimeoutError(f"no answer within {ASK_TIMEOUT_S:.0f} s")]

        def ask() -> None:
            try:
                with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as response:
                    body = json.load(response)
                if not isinstance(body.get("data"), dict):
                    raise ValueError(f"it answered {json.dumps(body)[:200]}")
                answers.append(body["data"])
            except Exception as error:
                answers.append(error)

        # in a thread, because a dead name server delays the look-up beyond the timeout of the socket
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(ASK_TIMEOUT_S)
        if isinstance(answers[-1], Exception):
            raise ConnectionError(f"the W&B server {self.url} {problem}: {answers[-1]}")
        return answers[-1]


def _held(bucket: Mapping[str, Any]) -> Held:
    tail = json.loads(bucket.get("historyTail") or "[]")
    last = json.loads(tail[-1]) if tail else {}
    return Held(
        num_rows=int(bucket.get("historyLineCount") or 0),
        last_step=int(last.get("_step", -1)),
        summary=json.loads(bucket.get("summaryMetrics") or "{}"),
    )


def _equal(held: Any, sent: Any) -> bool:
    if isinstance(sent, float) and not math.isfinite(sent):
        return held is not None  # servers spell NaN and infinities differently
    if isinstance(sent, str) and len(sent) > MAX_COMPARED:
        return held is not None
    return bool(held == sent)
