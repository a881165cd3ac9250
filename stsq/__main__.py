"""`python -m stsq`, and the `stsq` command."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    """Check the interpreter and whose packages it finds, then run the command."""
    try:
        from cluster.environment import prepare
    except ImportError:  # the `cluster` that is found is somebody else's
        _own_environment().prepare(sys.argv[1:])
    else:
        prepare(sys.argv[1:])
    from cluster.commands import main as command

    command()


def _own_environment() -> ModuleType:
    """`cluster.environment` of this installation, by its path."""
    path = Path(__file__).parents[1] / "cluster/environment/__init__.py"
    spec = importlib.util.spec_from_file_location("stsq_environment", path)
    assert spec is not None
    assert spec.loader is not None
    environment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(environment)
    return environment


if __name__ == "__main__":
    main()
