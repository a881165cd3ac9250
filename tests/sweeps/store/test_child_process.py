"""Processes of our own start with nothing from the folder in which the user stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.store.child_process import module_command

NAMES = ("queue", "random", "sweeps", "dashboards", "stsq_core", "runpy")


@pytest.mark.slow
@pytest.mark.parametrize("is_installed", [True, False], ids=["installed", "checkout"])
def test_what_lies_in_the_working_directory_is_not_executed(tmp_path: Path, is_installed: bool) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open('executed-{name}', 'w')")
    command = module_command("dashboards.publishing", "--help")
    if not is_installed:  # no site-packages in which the project could be registered: only the standard library is left
        command = [command[0], "-S", *module_command("sweeps.store.gc_pause")[1:]]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert list(tmp_path.glob("executed-*")) == []
    if is_installed:
        assert done.returncode == 0, done
        assert "usage: " in done.stdout
    else:
        assert "No module named 'lazy_loader'" in done.stderr, "ours was found, and what it needs was not"
    assert command[0] == sys.executable
