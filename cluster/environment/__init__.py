"""The packages and the Python that `stsq` needs, checked before anything else is imported, and whose packages are found.

Standard library only, in a Python that older interpreters read too, and importable without the packages it looks for: on a
cluster `python` is the first in a node's PATH, and a traceback of a missing module does not say which interpreter lacks what.
"""

from __future__ import annotations

import importlib.util
import io
import os
import platform
import socket
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster", "stsq")
"""The Python packages of this project; `stsq` stands in the docstring of each."""

COMMAND_LINE_ROOMS = ("stsq_core", "cluster")
"""Packages that `stsq doctor` needs in order to report on all the others."""

INSTALL = "pip install --force-reinstall --no-deps 'PATH_OR_WHEEL_OF_STSQ'"

MIN_PYTHON = (3, 11)

BAD_INPUT = 2
"""The exit code for bad input, and for an environment that cannot run the command."""

REQUIRED = {
    "aiohttp": "aiohttp",
    "lazy_loader": "lazy_loader",
    "llvmlite": "llvmlite",
    "matplotlib": "matplotlib",
    "numba": "numba",
    "numpy": "numpy",
    "optuna": "optuna",
    "orjson": "orjson",
    "plotly": "plotly",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "ray": "ray[default,tune]",
    "rich": "rich",
    "scipy": "scipy",
    "starlette": "starlette",
    "torch": "torch",
    "typer": "typer",
    "uvicorn": "uvicorn",
    "wandb": "wandb",
}
"""Modules and the packages that bring them: the dependencies of pyproject.toml, all of them.

The list is not read from installed metadata: code that travels with a Ray job has none on the cluster.
"""

RAY_ONLY = frozenset({"aiohttp", "ray"})
"""Modules that only Ray runs and jobs need; `stsq run --inline` does without."""

COMMAND_LINE = frozenset({"lazy_loader", "pydantic", "rich", "typer"})
"""Modules that `stsq doctor` needs in order to report on all the others."""


def is_importable(module: str) -> bool:
    """Whether the interpreter finds a module, without importing it."""
    return importlib.util.find_spec(module) is not None


def intruder(room: str) -> tuple[str, str] | None:
    """Where somebody else's code stands in the place of one of our packages, and the remedy; None if ours is found."""
    spec = importlib.util.find_spec(room)
    if spec is None:
        return "nowhere", INSTALL
    if spec.origin and "stsq" in Path(spec.origin).read_text(encoding="utf-8", errors="replace"):
        return None
    folder = Path(spec.origin).parent if spec.origin else Path(next(iter(spec.submodule_search_locations or ("",))))
    others = sorted(set(metadata.packages_distributions().get(room, ())) - {"stsq"})
    if others:
        return str(folder), f"pip uninstall {' '.join(others)}, then {INSTALL}; they cannot share an environment"
    if (folder / "py.typed").is_file():  # its files were ours, and some are gone
        return str(folder), INSTALL
    return str(folder), "rename that folder, or start `stsq` elsewhere"


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def open_streams() -> None:
    """Give the process its three standard streams, in which letters that an encoding lacks are escaped.

    A stream that is closed (`>&-`) becomes the null device: a file that is opened later would take its place.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def refusal(arguments: Sequence[str] = ()) -> str | None:
    """Why this interpreter cannot run `stsq ARGUMENTS`, and the remedy; None if it can."""
    where = f"{sys.executable} on {socket.gethostname()}"
    if sys.version_info < MIN_PYTHON:
        needed = ".".join(map(str, MIN_PYTHON))
        return (
            f"{where} is Python {platform.python_version()}, and stsq needs {needed} or later: put another `python` first in "
            "the PATH of the nodes, or submit to a cluster that has one"
        )
    of_the_command = arguments[:1] == ["doctor"]  # which says the same of the other packages
    for room in COMMAND_LINE_ROOMS if of_the_command else ROOMS:
        if found := intruder(room):
            return f"the Python package {room!r} in {found[0]} is not the one of stsq, and hides it: {found[1]}"
    if missing := [REQUIRED[module] for module in _needed(arguments) if not is_importable(module)]:
        return (
            f"{where} lacks {', '.join(missing)}: install stsq and its dependencies on every node (pip install -c "
            "constraints.txt 'PATH_OR_WHEEL_OF_STSQ'), or put the `python` that has them first in the PATH of the nodes"
        )
    return None


def prepare(arguments: Sequence[str]) -> None:
    """Open the streams, check the interpreter, and end the process in one line where it cannot run the command."""
    open_streams()
    if reason := refusal(arguments):
        sys.stderr.write(f"stsq: {reason}\n")
        sys.exit(BAD_INPUT)
    # OpenBLAS threads that wait would spin for 30 ms after each product: as much CPU time as the products themselves.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def _needed(arguments: Sequence[str]) -> list[str]:
    command = arguments[0] if arguments else ""
    if command == "doctor" or {"--help", "-h"} & set(arguments):
        return sorted(COMMAND_LINE)
    on_ray = command == "job" or (command == "run" and "--inline" not in arguments)
    return [module for module in REQUIRED if on_ray or module not in RAY_ONLY]
