"""Packs on a real local Ray: results, kills of worker and driver, stops, and a disk that fills up."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.tune.tune_packs import new_session
from dashboards import load
from sweeps.store.journal import read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.ray

Write = Callable[..., Path]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--wandb", "disabled", "--workers", 2)
ALONE = ("--wandb", "disabled", "--workers", 1)
"""Where a second worker would only cost its start."""


def slow(small: dict[str, Any], steps: int) -> dict[str, Any]:
    small["trials"][0]["base"]["training"] |= {"steps": steps, "log_every": 100}
    return small


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Ray keeps its files: a folder of the test's own, because other tests start Rays meanwhile."""
    with tempfile.TemporaryDirectory(prefix="stsq-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def ray_folders(root: Path) -> list[Path]:
    return list(root.glob("stsq-ray-*"))


def test_ray_gives_the_numbers_of_an_inline_run_and_leaves_nothing_behind(
    stsq: Any, here: Callable[..., Any], write_sweep: Write, until: Any, numbers: Numbers, root: Path
) -> None:
    process = stsq.start("run", write_sweep(), "--workers", 2, fresh=True)
    until(lambda: ray_folders(root) or process.poll() is not None, what="Ray's folder")
    ended = stsq.wait(process)
    assert ended.code == 0, ended
    assert not ray_folders(root)
    run = stsq.folder / "runs/small"
    assert len(list(run.glob("wandb/offline-run-*/*.wandb"))) == 8
    check_records(run)
    assert here("run", write_sweep(), "--inline", "--wandb", "disabled", "--out", "inline").code == 0
    assert numbers(run) == numbers(stsq.folder / "inline")


def check_records(run: Path) -> None:
    """Tune's own classes read what the packs of a run were, with the numbers of `dashboards.load`."""
    from ray.tune import ExperimentAnalysis, ResultGrid

    (session,) = run.glob("ray/*")
    results = list(ResultGrid(ExperimentAnalysis(str(session))))
    packs, rows = load(run).packs, {result.metrics["pack"]: result.metrics for result in results}
    assert len(results) == len(packs), "a Tune trial a pack"
    settings = ("pack", "cell", "T", "q", "d", "m", "code", "optimizer", "trials")
    assert all(result.config[name] == result.metrics[name] for result in results for name in settings)
    assert packs["trials"].sum() == 8
    assert set(packs["code"]) == {"random_sign", "none"}
    columns = [*packs.columns]
    assert {pack: [rows[pack][name] for name in columns] for pack in rows} == {
        one["pack"]: [*one.values()] for one in packs.to_dict("records")
    }
    settings, losses = [settings[1:], ["pack/least_loss", "pack/median_loss", "pack/largest_loss"]]
    for result in results:
        (events,) = Path(result.path).glob("events.out.tfevents.*")
        given, scalars = read_events(events)
        assert given == {name: result.config[name] for name in settings}
        assert [scalars[name] for name in losses] == pytest.approx([result.metrics[name[5:]] for name in losses], rel=1e-6)
    table = (session / "progress.txt").read_text()
    assert f"Number of trials: {len(packs)} ({len(packs)} TERMINATED)" in table
    (head,) = (line for line in table.splitlines() if "Trial name" in line)
    assert head.replace("|", " ").split()[4:] == [*settings, "finished", "diverged", "failed", *(name[5:] for name in losses)]
    assert sum("random_sign" in line for line in table.splitlines()) == sum(packs["code"] == "random_sign")
    assert sum(path.stat().st_size for path in session.rglob("*") if path.is_file()) < 200_000


def read_events(path: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """The hyperparameters and the scalars of an event file: records of length, checksum, message, checksum."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    data, given, scalars = path.read_bytes(), {}, {}
    while data:
        size = int.from_bytes(data[:8], "little")
        event, data = Event.FromString(data[12 : 12 + size]), data[16 + size :]
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "hparams":
                start = HParamsPluginData.FromString(value.metadata.plugin_data.content).session_start_info
                for name, setting in start.hparams.items():
                    given[name] = getattr(setting, str(setting.WhichOneof("kind")))
            else:
                scalars[value.tag] = value.simple_value
    return given, scalars


def test_files_of_the_oldest_sessions_are_removed_those_of_killed_ones_too(tmp_path: Path) -> None:
    for place in range(5):
        (tmp_path / f"{place}/worker").mkdir(parents=True)
        os.utime(tmp_path / str(place), (place, place))
    assert new_session(tmp_path) not in "01234"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def test_killed_worker_then_killed_driver_change_no_bit(
    stsq: Any, here: Callable[..., Any], write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    sweep = write_sweep(slow(small, steps=4_000))
    assert here("run", sweep, "--inline", "--wandb", "disabled", "--out", "undisturbed").code == 0
    run = stsq.folder / "runs/small"

    process = stsq.start("run", sweep, *QUIET, "--checkpoint-every", 0.2)
    state = until(lambda: next(run.glob("checkpoints/*.state"), None), what="a checkpoint")
    worker = training(run, state.stem)
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    until(lambda: training(run, state.stem) not in (None, worker), what="another worker on the pack")
    process.send_signal(signal.SIGKILL)
    _, printed = process.communicate()
    assert "a worker was lost" in printed

    again = stsq.run("run", sweep, *QUIET)
    assert again.code == 0, again
    assert numbers(run) == numbers(stsq.folder / "undisturbed")
    assert curves(run) == curves(stsq.folder / "undisturbed")
    assert "nothing to train" in here("run", sweep, *QUIET).err


def test_a_worker_that_dies_every_time_fails_its_pack_and_no_other(
    stsq: Any, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    sweep = write_sweep(slow(small, steps=60_000))
    run = stsq.folder / "runs/small"
    process = stsq.start("run", sweep, *ALONE, "--set", "budget.retries=1")
    killed: set[int] = set()

    def all_killed() -> bool:
        for claim in run.glob("checkpoints/*.claim"):
            worker = training(run, claim.stem)
            if worker and worker not in killed and is_slow(run, claim.stem):
                killed.add(worker)
                os.kill(worker, signal.SIGKILL)
        return process.poll() is not None

    until(all_killed, timeout_s=150, what="the end of the run")
    ended = stsq.wait(process)
    assert ended.code == 1, ended
    assert "lost worker, 2 times" in ended.out
    by_status = [status for status, *_ in numbers(run).values()]
    assert sorted(by_status) == ["failed"] * 4 + ["finished"] * 4
    assert all(record.seconds > 0 for record in Ledger(run / "ledger.jsonl").read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_ends_the_run_in_order_and_ray_too(
    stsq: Any, write_sweep: Write, small: dict[str, Any], until: Any, root: Path, number: signal.Signals
) -> None:
    """As a terminal tells Ctrl-C and its end, and Slurm what is to come."""
    run = stsq.folder / "runs/small"
    process = stsq.start("run", write_sweep(slow(small, steps=60_000)), *ALONE)
    until(lambda: list(run.glob("curves/*.jsonl")), what="training")
    group = children(process.pid)
    assert group
    assert ray_folders(root)
    os.killpg(process.pid, number)
    ended = stsq.wait(process)
    assert ended.code == 130, ended
    assert f"stopped by {number.name} with " in ended.err
    assert "Traceback" not in ended.err
    assert not ray_folders(root)
    until(lambda: not any(alive(pid) for pid in group), timeout_s=20, what="the end of Ray's processes")


def test_a_driver_killed_while_ray_starts_leaves_a_run_that_starts_anew(
    stsq: Any, write_sweep: Write, until: Any, numbers: Numbers
) -> None:
    run = stsq.folder / "runs/small"
    process = stsq.start("run", write_sweep(), *ALONE)
    until(lambda: (run / "sessions.jsonl").exists(), what="the session")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = stsq.run("run", write_sweep(), *ALONE)
    assert again.code == 0, again
    assert "Traceback" not in again.err
    assert len(numbers(run)) == 8


def training(run: Path, pack_id: str) -> int | None:
    """The process that has claimed a pack."""
    claim = run / "checkpoints" / f"{pack_id}.claim"
    printed = re.match(r"process (\d+)", claim.read_text() if claim.exists() else "")
    return int(printed.group(1)) if printed else None


def is_slow(run: Path, pack_id: str) -> bool:
    """Whether a pack holds transformers, which train long here."""
    journal = run / "curves" / f"{pack_id}.jsonl"
    return journal.exists() and journal.read_text().count("\n") > 3 and '"step":100,' in journal.read_text()


def curves(run: Path) -> dict[str, list[list[float]]]:
    return {trial_id: [part.tolist() for part in curve] for trial_id, curve in read_curves(RunDirectory(run)).items()}


def children(pid: int) -> list[int]:
    printed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout.split("\n")[1:-1]
    pairs = [tuple(map(int, line.split())) for line in printed]
    found, generation = [], {pid}
    while generation := {child for child, parent in pairs if parent in generation}:
        found += generation
    return [child for child in found if alive(child)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


GARBAGE = """
import gc, sys
from cluster.tune.ray_cluster import ray_cluster
import ray
from ray._private import worker

class Node:
    pass

class Witness:  # lets other threads have their turn, and the collector with them, before the worker is forgotten
    def __init__(self, core): self.core = core
    def __getattr__(self, name): return getattr(self.core, name)
    def shutdown_driver(self):
        self.core.shutdown_driver()
        gc.set_threshold(1, 1, 1)
        [[] for _ in range(10_000)]
        gc.set_threshold(700, 10, 10)

with ray_cluster(None, num_cpus=1):
    gc.freeze()  # so few objects are left that the collector looks at all of them
    node = Node()
    node.itself, node.reference = node, ray.put(1)
    gc.collect()
    del node
    worker.global_worker.core_worker = Witness(worker.global_worker.core_worker)
assert gc.isenabled()
print("alive")
"""


def test_garbage_that_holds_references_of_rays_does_not_end_the_driver(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", GARBAGE], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), ended.stderr


@pytest.mark.parametrize("way", [ALONE, ("--wandb", "disabled", "--inline")], ids=["ray", "inline"])
@pytest.mark.parametrize("removed", ["ledger.jsonl", "checkpoints", "curves"])
def test_what_is_removed_under_a_run_is_said_at_once_and_nothing_is_trained_in_vain(
    stsq: Any,
    here: Callable[..., Any],
    write_sweep: Write,
    small: dict[str, Any],
    until: Any,
    numbers: Numbers,
    removed: str,
    way: tuple[Any, ...],
) -> None:
    run = stsq.folder / "runs/small"
    ended_alone = write_sweep(small | {"trials": small["trials"][1:]}, "ended.yaml")
    assert here("run", ended_alone, "--inline", "--wandb", "disabled", "--out", run).code == 0
    process = stsq.start("run", write_sweep(slow(small, steps=10**7)), *way, "--checkpoint-every", 0.5)
    until(lambda: list(run.glob("checkpoints/*.state")), what="a state")
    before = numbers(run)
    (run / removed).rename(stsq.folder / removed)
    ended = stsq.wait(process, timeout_s=60)
    assert ended.code == 2, ended
    assert re.search(rf"{removed}' was removed under the run", ended.err), ended
    (run / removed).exists() or (stsq.folder / removed).rename(run / removed)
    assert numbers(run) == before
