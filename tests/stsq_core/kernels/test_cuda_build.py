"""The GPU's kernels build for an H100 on a machine without one, and keep what they work on in registers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

HERE = Path(__file__).parent


@pytest.mark.slow
def test_every_kernel_builds_and_spills_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cache = getattr(request.config, "cache", None)  # kept from run to run, but under `-p no:cacheprovider`
    builds = cache.mkdir("triton") if cache else tmp_path
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(builds), "PYTHONPATH": str(HERE.parents[2])}
    run = subprocess.run([sys.executable, HERE / "build_for_hopper.py"], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    kernels = "keys numbers signs subsets gram dual dual_of_many attend_population attend_tokens gather layer descend"
    assert {name for name, *_ in lines} == set(kernels.split())
    for name, kind, registers, stack, local, instructions in lines:
        assert (stack, local) in (("0", "0"), ("?", "?")), f"{name} {kind} spills: {registers} registers, stack {stack}"
        assert instructions == "?" or int(instructions) < 3000, f"{name} {kind} has {instructions} instructions"
