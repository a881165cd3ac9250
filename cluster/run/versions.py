"""Checks that one release of torch makes all numbers of a run: where a job was sent from, on every node, in every session.

Two releases of torch may round differently, so a ledger that mixes them holds trials that `stsq trial` cannot reproduce to the
bit. A difference is refused with both versions named, unless `--accept-versions` says that the bits do not matter. Builds of
one release (`2.9.0+cpu`, `2.9.0+cu128`) go together: the ledger records the device of each trial.
"""

import contextlib
import json
import os
import platform
import socket
from collections.abc import Mapping
from datetime import datetime
from importlib import metadata
from pathlib import Path

from stsq_core.configs import UserError
from sweeps.store import RunDirectory, read_sessions

SUBMITTED_WITH = "STSQ_SUBMITTED_WITH"
"""The environment variable of a job that holds the versions where it was sent from, as JSON."""

TAIL_BYTES = 65_536
"""More than a line of a ledger holds."""

ACCEPT = "or accept that bits differ with --accept-versions"


class VersionsDifferError(UserError):
    """Two versions meet in one run."""


def own_versions() -> dict[str, str]:
    """The versions of Python, torch and Ray here; a package that is not installed is left out."""
    versions = {"python": platform.python_version()}
    for package in ("torch", "ray"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def release(version: str) -> str:
    """A version without its build: `2.9.0` of `2.9.0+cpu`."""
    return version.partition("+")[0]


def check_submitter(*, accept: bool, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to run a job with another torch than its sender has.

    Raises:
        VersionsDifferError: they differ.
    """
    try:
        there = str(json.loads(environment.get(SUBMITTED_WITH, "{}")).get("torch", ""))
    except (ValueError, AttributeError):
        return
    here = own_versions().get("torch", "")
    if there and here and release(here) != release(there) and not accept:
        raise VersionsDifferError(
            f"the cluster has torch {here} (on {socket.gethostname()}) and the job was sent from torch {there}: install "
            f"torch=={release(there)} on the cluster or torch=={release(here)} where you submit, {ACCEPT}"
        )


def check_earlier(run: RunDirectory, *, accept: bool) -> None:
    """Refuse to continue a run whose earlier results another torch made; for a run in session.

    Raises:
        VersionsDifferError: they differ.
    """
    if accept or (ended_at := _newest_result(run.ledger)) is None:
        return
    refused = f"stopped by {VersionsDifferError.__name__}"
    # times in a ledger are whole seconds, hence the + 1; the last session is this one
    trained = [one for one in read_sessions(run)[:-1] if one.started_at < ended_at + 1 and one.outcome != refused]
    here, there = own_versions().get("torch", ""), trained[-1].versions.get("torch", "") if trained else ""
    if here and there and release(here) != release(there):
        raise VersionsDifferError(
            f"the results in {run.path} were made with torch {there} and this is torch {here}: install "
            f"torch=={release(there)}, give another directory with --out, {ACCEPT}"
        )


def _newest_result(ledger: Path) -> float | None:
    """The end of the trial in a ledger's last whole line, in whole seconds since 1970; None where there is none."""
    if not ledger.is_file():
        return None
    with ledger.open("rb") as file:
        file.seek(max(0, ledger.stat().st_size - TAIL_BYTES))
        lines = file.read().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return datetime.fromisoformat(json.loads(line)["finished_at"]).timestamp()
    return None
