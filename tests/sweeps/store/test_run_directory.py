import multiprocessing
import os
import shutil
import signal
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from stsq_core import UserError
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.loading import load_expanded, load_sweep
from sweeps.store.damage import mend_for_run
from sweeps.store.jsonl import append_lines
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import Lock, create_or_open, former_search_seeds, open_run

GROUP = 60_000
"""A group of people, by number."""


def test_a_run_is_made_with_its_spec_and_opened_again(tmp_path, spec):
    run = create_or_open(tmp_path / "deep" / "run", spec)
    assert run.read_spec() == spec
    assert create_or_open(run.path, spec) == run == open_run(run.path)
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "spec.yaml"]


def test_the_same_sweep_with_more_extends_its_run(run, sweep_file):
    more = load_sweep(sweep_file, ["seeds=9"])
    create_or_open(run.path, more)
    assert run.read_spec() == more
    assert (run.path / "spec.1.yaml").exists()
    create_or_open(run.path, load_sweep(sweep_file))
    assert (run.path / "spec.2.yaml").exists()


def test_what_a_killed_run_was_writing_is_removed_by_the_next(run):
    run.make_rooms()
    for path in (run.path / ".spec.yaml.99.new", run.checkpoints / ".PACK.state.99.new"):
        path.touch()
    assert mend_for_run(run) == ()
    assert not [*run.path.rglob("*.new")]


def test_a_spec_of_another_version_is_read_as_it_was_meant_and_stays_as_it_is(run, spec, sweep_file):
    assert "\n  tolerance_of: d_e\n" in run.spec.read_text()
    _, _, text = run.spec.read_text().partition("\n")
    former = text.replace("  tolerance_of: d_e\n", "")
    former = former.replace("claims: []", "claims:\n- {kind: linear, name: old, says: b, where: {}}")
    run.spec.write_text(former)
    sweep = run.read_sweep()
    assert sweep.spec.search.tolerance_of == "m"
    assert sweep.spec.claims == ()
    assert [note.partition(": kind")[0] for note in sweep.notes] == [
        f"{run.spec}:{former.count(chr(10), 0, former.index('- {kind: linear')) + 1}: claims.0: the claim 'old' is of "
        "another version and is not judged"
    ]
    (run.path / "ledger.jsonl").touch()
    resumed = load_expanded(run.spec)
    assert (resumed.spec, resumed.notes) == (sweep.spec, sweep.notes)
    create_or_open(run.path, resumed)
    assert run.spec.read_text() == former
    create_or_open(run.path, load_expanded(run.spec, ["seeds=9"]))
    assert (run.path / "spec.1.yaml").read_text() == former
    assert "\n  tolerance_of: m\n" in run.spec.read_text()
    sweep_file.with_name("mine.yaml").write_text(former)
    with pytest.raises(UserError, match=r"mine.yaml:\d+: claims.0.kind: unknown kind 'linear'"):
        load_sweep(sweep_file.with_name("mine.yaml"))
    assert load_sweep(sweep_file).search.tolerance_of == "d_e"


def test_former_seeds_of_searches_are_read_from_what_is_kept(run, sweep_file):
    assert former_search_seeds(run) == set()
    for seed in (3, 4, 5):
        create_or_open(run.path, load_sweep(sweep_file, [f"search.seed={seed}"]))
    (run.path / "spec.8.yaml").write_text("search: {tolerance: 0.1}")
    (run.path / "spec.9.yaml").write_bytes(b"\xff{")
    assert former_search_seeds(run) == {0, 3, 4}


def test_another_sweeps_directory_is_refused(run, sweep_file):
    with pytest.raises(UserError, match=r"holds the sweep 'little', not 'other': give another directory"):
        create_or_open(run.path, load_sweep(sweep_file, ["name=other"]))
    assert run.read_spec().name == "little"


def test_a_sweep_of_the_same_name_that_shares_no_cell_with_the_results_is_refused(run, spec, sweep_file, record):
    Ledger(run.ledger).append([record(expand(spec)[0].configs[0])])
    other = load_sweep(sweep_file, ["task.q=1"])
    with pytest.raises(UserError) as refused:
        create_or_open(run.path, other)
    for words in ("1 result of another sweep that is named 'little' too", "fcn T=8 q=2 d=2", "fcn T=8 q=1 d=2", "--out"):
        assert words in str(refused.value)
    assert run.read_spec() == spec
    assert not (run.path / "spec.1.yaml").exists()


@pytest.mark.parametrize("settings", [["fcn:model.width=32,64"], ["transformer:task.q=1"], ["seeds=9"]])
def test_a_sweep_that_shares_a_cell_with_the_results_extends_its_run(run, spec, sweep_file, record, settings):
    Ledger(run.ledger).append([record(expand(spec)[0].configs[0])])
    more = load_sweep(sweep_file, settings)
    create_or_open(run.path, more)
    assert run.read_spec() == more


def test_a_directory_without_results_takes_any_form_of_its_sweep(run, sweep_file):
    other = load_sweep(sweep_file, ["task.q=1"])
    create_or_open(run.path, other)
    assert run.read_spec() == other


def test_a_directory_with_other_files_is_refused(tmp_path, spec):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=r"is not empty and is no run \(it holds 'thesis.tex'\)|it holds 'little.yaml'"):
        create_or_open(tmp_path, spec)
    with pytest.raises(UserError, match="is a file"):
        create_or_open(tmp_path / "thesis.tex", spec)
    with pytest.raises(UserError, match=r"holds no spec\.yaml, so it is no run"):
        open_run(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        open_run(tmp_path / "nowhere")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a file system that nobody may write")
def test_a_directory_that_cannot_be_written_is_refused(spec):
    with pytest.raises(UserError, match=r"'/proc/self/run' cannot be written: .*--out"):
        create_or_open("/proc/self/run", spec)


def test_a_second_run_is_refused_and_told_of_the_first(run):
    lock = Lock(run.lock)
    assert lock.holder() is None
    with lock:
        with pytest.raises(UserError, match=rf"is in use by process {os.getpid()} on .* since 20"):
            Lock(run.lock).acquire()
        assert f"process {os.getpid()}" in Lock(run.lock).holder()
    with Lock(run.lock):
        pass
    lock.release()
    assert Lock(run.lock).holder() is None


def test_a_running_sweep_is_not_changed_under_its_feet(run, spec, sweep_file):
    with Lock(run.lock):
        with pytest.raises(UserError, match="is in use by"):
            create_or_open(run.path, load_sweep(sweep_file, ["seeds=9"]))
        create_or_open(run.path, spec)
    assert run.read_spec() == spec


def _hold(path, held):
    Lock(path).acquire()
    held.set()
    signal.pause()


def test_the_lock_of_a_dead_process_is_taken_over(run):
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold, args=(run.lock, held))
    process.start()
    assert held.wait(30)
    with pytest.raises(UserError, match=f"process {process.pid} "):
        Lock(run.lock).acquire()
    process.kill()
    process.join()
    with Lock(run.lock):
        assert f"process {os.getpid()} " in run.lock.read_text()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_lock_that_was_removed_keeps_its_holder_from_writing(run, fcn, record, is_replaced):
    with Lock(run.lock) as lock:
        ledger = Ledger(run.ledger, guard=lock.check)
        ledger.append([record(fcn())])
        run.lock.unlink()
        with Lock(run.lock) if is_replaced else nullcontext(), pytest.raises(UserError, match="was removed while this process"):
            ledger.append([record(fcn(seed=1))])
    assert len(Ledger(run.ledger).read()) == 1


@pytest.fixture
def shared_folder():
    """A folder in which all of the group `GROUP` may write."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="stsq-group-"))
    os.chown(folder, -1, GROUP)
    folder.chmod(0o2775)
    yield folder
    shutil.rmtree(folder)


def as_person(number, action):
    """What an action gives, or the error it ends in, as text, done by a person of `GROUP` whose files the group may write."""

    def act(end):
        os.setgroups([GROUP])
        os.setgid(GROUP)
        os.setuid(number)
        os.umask(0o002)
        try:
            end.send(str(action()))
        except UserError as error:
            end.send(str(error))

    ours, theirs = multiprocessing.Pipe()
    person = multiprocessing.get_context("fork").Process(target=act, args=(theirs,))
    person.start()
    theirs.close()
    said = ours.recv()
    person.join(30)
    return said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several people")
def test_people_of_one_group_share_a_run_and_what_one_may_not_write_changes_nothing(
    shared_folder, spec, sweep_file, fcn, record
):
    path, further = shared_folder / "run", {seeds: load_sweep(sweep_file, [f"seeds={seeds}"]) for seeds in (8, 9)}

    def begin():
        run = create_or_open(path, spec)
        with Lock(run.lock):
            Ledger(run.ledger).append([record(fcn(seed=1))])
        append_lines(run.sessions, [{"began": "now"}])

    def go_on(seeds):
        run = create_or_open(path, further[seeds])
        with Lock(run.lock):
            Ledger(run.ledger).append([record(fcn(seed=seeds))])

    assert as_person(60_001, begin) == "None"
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in path.iterdir()}
    assert modes == dict.fromkeys(("lock", "spec.yaml", "ledger.jsonl", "sessions.jsonl"), "0o664")
    assert as_person(60_002, lambda: go_on(8)) == "None"
    (path / "ledger.jsonl").chmod(0o644)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    refusal = as_person(60_002, lambda: go_on(9))
    assert refusal.startswith(
        f"'{path / 'ledger.jsonl'}' cannot be written: Permission denied; choose a directory that you may"
    )
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
