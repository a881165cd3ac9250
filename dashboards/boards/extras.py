"""Libraries that only some of the views need: they come with an extra of the package."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from stsq_core.configs import UserError


def load_extra(module: str, *, extra: str, what: str) -> Any:
    """Import a library of one of the package's extras.

    Raises:
        UserError: it is not installed; the message says how to get it.
    """
    if find_spec(module.partition(".")[0]) is None:
        raise UserError(f"{what} needs {module.replace('_', '-')}, which is not installed: pip install 'stsq[{extra}]'")
    return import_module(module)
