"""A job whose driver Ray puts on a worker node, with a run directory on that node's own disk: refused before it trains."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray_heads import BIN, START_TRIES, Head, copy_rooms, ray_head, started

pytestmark = pytest.mark.clusters


def _may_mount() -> bool:
    """Whether this user may give a process a file system of its own."""
    command = ["unshare", "--mount", "true"]
    return os.name == "posix" and subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def two_nodes() -> Iterator[tuple[Head, Path]]:
    """A head and a node whose folder `disk` is another disk than the head's."""
    with ray_head() as head:
        disk = head.folder / "disk"
        disk.mkdir()
        mount = f'mount -t tmpfs disk "{disk}" && exec "$@"'
        before = ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
        words = [f"--address={head.gcs}", "--num-cpus=1", '--resources={"worker": 1}', "--object-store-memory=100000000"]
        for left in reversed(range(START_TRIES)):
            with started(words, head.access | {"PATH": f"{BIN}:{os.environ['PATH']}"}, before=before) as node:
                while head.num_nodes() < 2 and node.poll() is None:
                    time.sleep(0.5)
                if node.poll() is None or not left:
                    yield head, disk
                    return


@pytest.mark.skipif(not _may_mount(), reason="needs the right to mount")
def test_a_head_local_path_on_a_worker_node_is_refused(
    two_nodes: tuple[Head, Path], tmp_path: Path, small: dict[str, Any]
) -> None:
    head, disk = two_nodes
    package = tmp_path / "package"
    copy_rooms(package)
    (package / "small.yaml").write_text(yaml.safe_dump(small))
    assert head.num_nodes() == 2
    unnamed = head.stsq("job", "submit", "small.yaml", "--working-dir", ".", code=package)
    assert unnamed.returncode == 2, unnamed
    assert "the cluster has 2 nodes, and a job without --out writes to the head's own disk" in unnamed.stderr
    there = ("--entrypoint-resources", '{"worker": 1}', "--working-dir", package)
    run = ("python", "-m", "stsq", "run", "small.yaml", "--wandb", "disabled", "--out", disk / "run")
    done = head.ray("submit", *there, "--", *run)
    assert done.returncode == 1, done
    (printed,) = {line for line in done.stdout.splitlines() if line.startswith("stsq: ")}  # Ray tells the last lines again
    assert f"the run directory {disk / 'run'} is not shared: the nodes " in printed
    assert "with --out" in printed
    assert not (disk / "run").exists()
