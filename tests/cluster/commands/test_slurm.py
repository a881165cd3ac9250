"""The Slurm script, run: two nodes in namespaces of their own (network, processes, `/tmp/ray`), a real `ray symmetric-run`.

Slurm itself is played by two small programs: `srun`, which runs its command on both nodes as Slurm does, and `scontrol`, which
names the nodes.
"""

import copy
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from ray_heads import BIN, ROOT

from cluster.commands.groups import manifest_files

pytestmark = pytest.mark.clusters

NOT_STARTED = "the run did not start"
START_TRIES = 4
"""`ray start` gives its own raylet 30 seconds, which is not much on a busy machine."""

SRUN = '''#!{python}
"""Runs a command on every node; once one has ended, the others have WAIT seconds."""
import subprocess, sys, time

words = sys.argv[1:]
wait_s = next(int(word.partition("=")[2]) for word in words if word.startswith("--wait="))
while words[0].startswith("--"):
    words.pop(0)
node = 'mount -t tmpfs ray /tmp/ray && "$@"; exit $?'  # a shell stays, so that the command is no init, which signals spare
enter = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", node, "sh"]
steps = [subprocess.Popen(["ip", "netns", "exec", name, *enter, *words]) for name in {nodes!r}]
while all(step.poll() is None for step in steps):
    time.sleep(0.2)
deadline = time.monotonic() + wait_s
while any(step.poll() is None for step in steps) and time.monotonic() < deadline:
    time.sleep(0.2)
ended = [step.poll() for step in steps if step.poll() is not None]
for step in steps:
    step.kill()
    step.wait()
sys.exit(max(ended))
'''


def _may_make_nodes() -> bool:
    if not (shutil.which("ip") and shutil.which("unshare")):
        return False
    name = f"stsq{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=True)
    return made


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a Slurm job on two nodes that reach each other and nothing else."""
    key, subnet = secrets.token_hex(2), f"10.213.{secrets.randbelow(250)}"
    nodes, links = [f"stsq{key}{side}" for side in "ab"], [f"veth{key}{side}" for side in "ab"]
    for node in nodes:
        _ip("netns", "add", node)
    try:
        _ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for number, (node, link) in enumerate(zip(nodes, links, strict=True), start=1):
            _ip("link", "set", link, "netns", node)
            _ip("-n", node, "addr", "add", f"{subnet}.{number}/24", "dev", link)
            for device in (link, "lo"):
                _ip("-n", node, "link", "set", device, "up")
        Path("/tmp/ray").mkdir(exist_ok=True)
        tools = tmp_path / "tools"
        _program(tools / "srun", SRUN.format(python=sys.executable, nodes=nodes))
        _program(tools / "scontrol", f"#!/bin/sh\nprintf '{subnet}.1\\n{subnet}.2\\n'\n")
        _program(tmp_path / "env/bin/activate", f"export PATH={BIN}:$PATH\n")
        yield {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "STSQ_ENV": str(tmp_path / "env"),
            "SLURM_JOB_ID": str(secrets.randbelow(10_000)),
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_CPUS_PER_TASK": "1",
        }
    finally:
        for node in nodes:
            _ip("netns", "del", node)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _signal_all(process: subprocess.Popen[str]) -> None:
    """What `scancel --signal=INT` does: every process of the job's steps is told."""
    steps = [child for child in psutil.Process(process.pid).children(recursive=True) if child.name() != "srun"]
    for step in steps:
        if step.is_running():
            step.send_signal(signal.SIGINT)


def _stopped_after_the_first_result(
    script: list[str], environment: dict[str, str], out: Path, until: Callable[..., object]
) -> tuple[int, str]:
    """The exit code and the words of a job that is told to stop once it has a result, or that ended before."""
    job = subprocess.Popen(script, cwd=out.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: (out / "ledger.jsonl").exists() or job.poll() is not None, timeout_s=900, what="the first result")
        if job.poll() is None:
            _signal_all(job)
        printed, _ = job.communicate(timeout=600)
    finally:
        job.kill()
    return job.returncode, printed


@pytest.mark.skipif(not _may_make_nodes(), reason="needs the right to make network namespaces")
def test_a_slurm_job_is_stopped_in_order_and_goes_on(
    slurm: dict[str, str], small: dict[str, Any], tmp_path: Path, until: Callable[..., object], numbers: Callable[[Path], Any]
) -> None:
    sweep, out = copy.deepcopy(small), tmp_path / "run"
    sweep["trials"][0] |= {"grid": {}, "seeds": 1}
    sweep["trials"][0]["base"]["training"] |= {"steps": 2_000_000, "log_every": 20_000}
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump(sweep))
    script = ["bash", str(manifest_files()["slurm.sh"]), "slow.yaml", "--out", str(out), "--wandb", "disabled"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "WANDB_"))}
    environment = kept | slurm | {"PYTHONPATH": str(ROOT)}
    for _ in range(START_TRIES):
        code, printed = _stopped_after_the_first_result(script, environment, out, until)
        if NOT_STARTED not in printed:
            break
    assert code == 130, printed
    assert re.search(r"Ray is up: 2 workers\b.* on 2 nodes", printed), printed
    assert "stopped by SIGINT" in printed
    assert not list((tmp_path / ".stsq").iterdir())  # the token is gone
    ended = numbers(out)
    assert 0 < len(ended) < 5
    for _ in range(START_TRIES):
        done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800, check=False)
        if NOT_STARTED not in done.stderr:
            break
    assert done.returncode == 0, done
    inline = ["run", "slow.yaml", "--inline", "--wandb", "disabled", "--out", tmp_path / "inline"]
    whole = subprocess.run([sys.executable, "-m", "cluster", *inline], cwd=tmp_path, env=environment, check=False)
    assert whole.returncode == 0
    assert ended.items() <= numbers(out).items()
    assert numbers(out) == numbers(tmp_path / "inline")


def test_a_job_whose_ray_does_not_start_is_no_success(tmp_path: Path) -> None:
    """`srun` starts nothing here, and says that all is well, as `ray symmetric-run` does."""
    tools = tmp_path / "tools"
    _program(tools / "srun", "#!/bin/sh\nexit 0\n")
    _program(tools / "scontrol", "#!/bin/sh\necho HOST\n")
    _program(tmp_path / "env/bin/activate", f"export PATH={BIN}:$PATH\n")
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "STSQ_ENV": str(tmp_path / "env")}
    environment |= {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "HOST", "SLURM_JOB_NUM_NODES": "1"}
    script = ["bash", str(manifest_files()["slurm.sh"]), "smoke"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert NOT_STARTED in done.stderr
    assert not list((tmp_path / ".stsq").iterdir())
