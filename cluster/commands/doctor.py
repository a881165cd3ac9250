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

from cluster.environment import MIN_PYTHON, RAY_ONLY, REQUIRED, ROOMS, intruder, is_importable, num_cores

OPTIONAL = {
    "optuna_dashboard": ("optuna-dashboard", "`stsq open optuna`"),
    "pandas": ("pandas", "tables of a run in a notebook"),
    "wandb_workspaces": ("wandb-workspaces", "`stsq wandb setup`"),
}
"""Modules, the packages that bring them, and what they are for."""

MIN_FREE_BYTES = 2 * 2**30
MAX_SOCKET_ROOT = 40


@dataclass(frozen=True)
class Check:
    """One thing that was checked; `missing` keeps sweeps from running, `note` does not."""

    status: Literal["ok", "note", "missing"]
    subject: str
    found: str
    remark: str = ""


def examine(folder: Path = Path()) -> tuple[Check, ...]:
    """Check everything a sweep needs or uses, without starting anything; `folder` is where runs would be written."""
    return (*_own(), *_packages(), *_machine(), *_disk(folder), *_devices(), *_ray(), *_wandb())


def _own() -> Iterator[Check]:
    """Our own packages, in whose place others of the same names may stand."""
    found = [(room, *place) for room in ROOMS if (place := intruder(room))]
    for room, folder, remedy in found:
        yield Check("missing", f"stsq: {room}", f"hidden by {folder}", remedy)
    if not found:
        yield Check("ok", "stsq", _version("stsq") or "found")


def _packages() -> Iterator[Check]:
    """Python and every package of `REQUIRED`; without those that only Ray needs, sweeps still run inline."""
    is_recent = sys.version_info >= MIN_PYTHON
    needed = "" if is_recent else f"install Python {'.'.join(map(str, MIN_PYTHON))} or later"
    yield Check("ok" if is_recent else "missing", "python", platform.python_version(), needed)
    for module, requirement in REQUIRED.items():
        package = requirement.partition("[")[0]
        if is_importable(module):
            yield Check("ok", package, _version(package) or "found")
        elif module in RAY_ONLY:
            yield Check("note", package, "not installed", f"pip install '{requirement}': without it use --inline")
        else:
            yield Check("missing", package, "not installed", f"pip install {requirement}")
    for module, (package, use) in OPTIONAL.items():
        if is_importable(module):
            yield Check("ok", package, _version(package) or "found", use)
        else:
            yield Check("note", package, "not installed", f"pip install {package}: {use}")


def _machine() -> Iterator[Check]:
    yield Check("ok", "system", f"{platform.system()} {platform.machine()}, {socket.gethostname()}")
    yield Check("ok", "cores", str(num_cores()), "packs that train at once, unless --workers says otherwise")
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        is_small = memory < 1.0 + num_cores()
        remark = "a worker takes about 0.5 GiB: use fewer --workers" if is_small else ""
        yield Check("note" if is_small else "ok", "memory", f"{memory:.1f} GiB", remark)


def _disk(folder: Path) -> Iterator[Check]:
    free = shutil.disk_usage(folder).free
    is_full = free < MIN_FREE_BYTES
    found = f"{free / 2**30:.1f} GiB free in {folder.resolve()}"
    yield Check("note" if is_full else "ok", "disk", found, "make room, or use --out" if is_full else "")
    root = tempfile.gettempdir()
    if len(root) > MAX_SOCKET_ROOT:
        yield Check("note", "TMPDIR", root, "too long for Ray's sockets; a Ray started by stsq uses /tmp instead")


def _devices() -> Iterator[Check]:
    names = _gpu_names()
    remark = "" if names else "sweeps run on the CPU, one thread a pack"
    yield Check("ok" if names else "note", "GPU", ", ".join(names) or "none", remark)
    if names and "+cpu" in _version("torch"):
        yield Check("note", "torch", f"{_version('torch')} cannot use the GPU", "install a CUDA build of torch")


def _ray() -> Iterator[Check]:
    if address := os.environ.get("RAY_ADDRESS"):
        is_job_server = address.startswith("http")
        remark = "a job server: fine for `stsq job`, not for `stsq run`" if is_job_server else "runs join this cluster"
        yield Check("note", "RAY_ADDRESS", address, remark)
    if os.environ.get("RAY_AUTH_MODE") == "token":
        named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
        if named or (Path.home() / ".ray/auth_token").exists():
            yield Check("ok", "Ray token", "set")
        else:
            yield Check("note", "Ray token", "none", "ray get-auth-token --generate")


def _wandb() -> Iterator[Check]:
    if not all(map(is_importable, REQUIRED.keys() - RAY_ONLY)) or any(map(intruder, ROOMS)):
        return  # `dashboards.publishing` imports more than wandb
    from dashboards.publishing import has_key, restart_service, server_url

    restart_service()  # what an earlier command left in the environment may name a service that is gone
    key = has_key(server_url())
    restart_service()  # asking for the server's address may have started it
    remark = "" if key else "runs are written offline; `wandb login`, then `stsq wandb sync RUN` publishes them"
    yield Check("ok" if key else "note", "W&B key", "set" if key else "none", remark)


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
