"""Processes of our own beside a command."""

import sys
from pathlib import Path


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module in a process of its own, which imports nothing from the working directory: what lies
    there is the user's, and `-m` alone would look for every module there first.
    """
    root = str(Path(__file__).parents[2])
    start = f"import runpy, sys; sys.path.append({root!r}); runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-P", "-c", start, *words]
