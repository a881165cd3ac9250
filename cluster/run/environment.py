"""What an interpreter needs to run `stsq`, looked at before anything of it is imported.

Only the standard library is used, in a Python that older interpreters read as well: on a cluster `python` is whatever stands
first in a node's PATH, and a traceback of a missing module does not say which interpreter lacks what.
"""

from __future__ import annotations

import importlib.util
import platform
import socket
import sys

MIN_PYTHON = (3, 11)

REQUIRED = {
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
"""What is imported, and the package that brings it: the dependencies of pyproject.toml."""


def missing_packages() -> tuple[str, ...]:
    """The packages that this interpreter lacks, by the names under which they are installed."""
    return tuple(package for module, package in REQUIRED.items() if importlib.util.find_spec(module) is None)


def refusal() -> str | None:
    """Why this interpreter cannot run `stsq`, and what to do; None where it can."""
    where = f"{sys.executable} on {socket.gethostname()}"
    if sys.version_info < MIN_PYTHON:
        needed = ".".join(map(str, MIN_PYTHON))
        return (
            f"{where} is Python {platform.python_version()}, and stsq needs {needed} or later: put another `python` first in "
            "the PATH of the nodes, or submit to a cluster that has one"
        )
    if missing := missing_packages():
        return (
            f"{where} lacks {', '.join(missing)}: install stsq and what it needs on every node (pip install -c constraints.txt "
            "'PATH_OR_WHEEL_OF_STSQ'), or put the `python` that has them first in the PATH of the nodes"
        )
    return None
