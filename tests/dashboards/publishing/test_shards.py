"""Every run has one owner, however runs are divided, and two publishers never share one."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wandb_files import read_run

from dashboards.publishing.publisher import publish, sole_publisher
from stsq_core import UserError
from sweeps.cells import WHOLE, Shard, read_shard
from sweeps.cells.shard import PLACES
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

HOLD = (
    "import sys; from pathlib import Path\n"
    "from dashboards.publishing.publisher import sole_publisher; from sweeps.cells import read_shard\n"
    "with sole_publisher(Path(sys.argv[1]), read_shard(sys.argv[2]), may_wait=lambda: False):\n"
    "    print('held', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_every_run_has_exactly_one_owner(count: int) -> None:
    shards = [Shard(index, count) for index in range(count)]
    assert sum(len(shard.places) for shard in shards) == PLACES
    for number in range(500):
        assert sum(shard.owns(f"{number:016x}") for shard in shards) == 1


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "0/0", "1/2/3", "0/4096"])
def test_a_shard_that_does_not_exist_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"--shard {text}: a shard is I/N")):
        read_shard(text)


@pytest.mark.parametrize(("held", "free", "taken"), [
    ("0/1", [], ["0/1"]), ("0/2", ["1/2", "2/3"], ["0/2", "1/3"]), ("1/2", [], ["0/1"]),
])  # fmt: skip
def test_publishers_exclude_each_other_where_their_shards_overlap(
    tmp_path: Path, held: str, free: list[str], taken: list[str]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), held], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for asked in taken:
            with (
                pytest.raises(UserError, match=f"process {holder.pid} on "),
                sole_publisher(tmp_path, read_shard(asked), may_wait=lambda: False),
            ):
                pass
        for asked in free:
            with sole_publisher(tmp_path, read_shard(asked), may_wait=lambda: False):
                pass
        holder.communicate("")


def test_the_lock_of_a_dead_publisher_is_no_obstacle(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), "0/1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
        holder.communicate()
    with sole_publisher(tmp_path, WHOLE, may_wait=lambda: False):
        pass


def test_shards_publish_every_run_once_between_them(make_run: Callable[..., RunDirectory], small: dict[str, Any]) -> None:
    run = make_run(trials=[small | {"seeds": 5}])
    reports = [publish(run.path, shard=Shard(index, 3)) for index in range(3)]
    num_trials = len(Ledger(run.ledger).read())
    assert sum(report.num_published for report in reports) == num_trials == 20
    assert all(report.num_published for report in reports)
    names = [read_run(path).config["trial_id"] for path in run.wandb.glob("offline-run-*/*.wandb")]
    assert len(names) == len(set(names)) == 20
    whole = publish(run.path)
    assert (whole.num_published, whole.num_up_to_date) == (0, 20)
