"""`stsq doctor`: what this machine has for running sweeps, what is missing, and how to get it."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from cluster.run import num_cores

Verdict = Literal["ok", "note", "missing"]

NEEDED = ("numpy", "pydantic", "PyYAML", "rich", "typer", "torch")
BETTER = {
    "ray": "runs packs in parallel and on clusters; without it use --inline",
    "wandb": "streams runs to Weights & Biases",
    "plotly": "draws the page",
    "matplotlib": "draws the figures",
    "optuna": "searches for thresholds",
    "optuna-dashboard": "`stsq open optuna`",
    "pandas": "tables of a run in a notebook",
    "wandb-workspaces": "`stsq wandb setup`",
}
MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 2 * 2**30
MAX_SOCKET_ROOT = 40


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `missing` keeps sweeps from running, `note` does not."""

    verdict: Verdict
    what: str
    found: str
    remedy: str = ""


def examine(folder: Path = Path()) -> tuple[Check, ...]:
    """Look at everything a sweep needs or uses, without starting anything; `folder` is where runs would be written."""
    return (*_python(), *_packages(), *_machine(), *_disk(folder), *_devices(), *_ray(), *_wandb())


def _python() -> Iterator[Check]:
    verdict: Verdict = "ok" if sys.version_info >= MIN_PYTHON else "missing"
    yield Check(verdict, "python", platform.python_version(), "" if verdict == "ok" else "install Python 3.11 or later")


def _packages() -> Iterator[Check]:
    for name in (*NEEDED, *BETTER):
        use = BETTER.get(name, "")
        try:
            yield Check("ok", name, metadata.version(name), use)
        except metadata.PackageNotFoundError:
            yield Check(
                "note" if use else "missing", name, "not installed", f"pip install {name}" + (f": {use}" if use else "")
            )


def _machine() -> Iterator[Check]:
    yield Check("ok", "system", f"{platform.system()} {platform.machine()}, {socket.gethostname()}")
    yield Check("ok", "cores", str(num_cores()), "packs that train at once, unless --workers says otherwise")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        few = memory < 1.0 + num_cores()
        yield Check(
            "note" if few else "ok",
            "memory",
            f"{memory:.1f} GiB",
            "a worker takes about 0.5 GiB: use fewer --workers" if few else "",
        )


def _disk(folder: Path) -> Iterator[Check]:
    free = shutil.disk_usage(folder).free
    short = free < MIN_FREE_BYTES
    yield Check(
        "note" if short else "ok",
        "disk",
        f"{free / 2**30:.1f} GiB free in {folder.resolve()}",
        "make room, or use --out" if short else "",
    )
    root = tempfile.gettempdir()
    if len(root) > MAX_SOCKET_ROOT:
        yield Check("note", "TMPDIR", root, "too long for Ray's sockets; a Ray of ours uses /tmp instead")


def _devices() -> Iterator[Check]:
    names = _gpu_names()
    yield Check(
        "ok" if names else "note",
        "GPU",
        ", ".join(names) or "none",
        "" if names else "sweeps run on the CPU, one thread a pack",
    )
    if names and "+cpu" in _version("torch"):
        yield Check("note", "torch", f"{_version('torch')} cannot use the GPU", "install a CUDA build of torch")


def _ray() -> Iterator[Check]:
    address = os.environ.get("RAY_ADDRESS")
    if address:
        told = (
            "runs join this cluster"
            if not address.startswith("http")
            else "a job server: fine for `stsq job`, not for `stsq run`"
        )
        yield Check("note", "RAY_ADDRESS", address, told)
    if os.environ.get("RAY_AUTH_MODE") == "token":
        has = bool(
            os.environ.get("RAY_AUTH_TOKEN")
            or os.environ.get("RAY_AUTH_TOKEN_PATH")
            or (Path.home() / ".ray/auth_token").exists()
        )
        yield Check(
            "ok" if has else "note", "Ray token", "set" if has else "none", "" if has else "ray get-auth-token --generate"
        )


def _wandb() -> Iterator[Check]:
    if not _version("wandb"):
        return
    from dashboards.publishing import has_key, restart_service, server_url

    restart_service()  # what an earlier command left in the environment may name a service that is gone
    key = has_key(server_url())
    restart_service()  # asking for the server's address may have started it
    remedy = "" if key else "runs are written offline; `wandb login`, then `stsq wandb sync RUN` publishes them"
    yield Check("ok" if key else "note", "W&B key", "set" if key else "none", remedy)


def _gpu_names() -> list[str]:
    """GPUs that nvidia-smi lists; none where it is absent."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.split("\n")[:-1]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
