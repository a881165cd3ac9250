import json

import pytest

from stsq_core import Measurement
from sweeps.cells.packs import pack_of
from sweeps.store.damage import state_damage
from sweeps.store.journal import FileCheckpoint, JournalWriter, Preempted, follow, read_state


@pytest.fixture
def pack(fcn):
    return pack_of([fcn()])


def report(journal, pack, step):
    journal(Measurement(step, pack.trial_ids, (0.5,)))


def test_journal_and_state_agree_after_a_crash(run, pack):
    path = run.checkpoints / f"{pack.pack_id}.state"
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        checkpoint = FileCheckpoint(path, journal, every_s=0)
        assert checkpoint.load() is None
        report(journal, pack, 1)
        checkpoint.save(b"state\nat 1")
        report(journal, pack, 2)
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        assert FileCheckpoint(path, journal).load() == b"state\nat 1"
        report(journal, pack, 2)
        assert [m.step for m in follow(journal.path)[0]] == [1, 2]


def test_without_a_state_the_journal_begins_anew(run, pack):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        report(journal, pack, 1)
        assert FileCheckpoint(run.checkpoints / "x.state", journal).load() is None
        assert follow(journal.path)[0] == []


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"nonsense", lambda data: b"{}\n" + data]
)
def test_a_damaged_state_counts_as_absent(run, pack, damage):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        checkpoint = FileCheckpoint(run.checkpoints / "x.state", journal)
        report(journal, pack, 1)
        checkpoint.save(b"state")
        checkpoint.path.write_bytes(damage(checkpoint.path.read_bytes()))
        assert checkpoint.load() is None
        assert follow(journal.path)[0] == []


def test_no_flipped_bit_of_a_state_is_trained_on(run, pack):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        checkpoint = FileCheckpoint(run.checkpoints / "x.state", journal)
        report(journal, pack, 1)
        checkpoint.save(b"the state")
        whole = checkpoint.path.read_bytes()
        for place in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[place // 8] ^= 1 << place % 8
            checkpoint.path.write_bytes(damaged)
            assert read_or_none(checkpoint.path) in (None, b"the state")
        [damage] = state_damage(run)
        assert "x.state is damaged and left out" in damage.what
        damage.mend()
        assert [path.name for path in run.checkpoints.iterdir()] == ["x.state.rejected"]


def read_or_none(path):
    try:
        return read_state(path)[0]
    except ValueError:
        return None


def test_states_and_journals_without_checksums_go_on(run, pack):
    head = {"schema": 1, "pack_id": pack.pack_id, "trial_ids": list(pack.trial_ids)}
    lines = f"{json.dumps(head)}\n" + '{"step":1,"relative_loss":[0.5]}\n'
    run.make_rooms()
    (run.curves / "a.jsonl").write_text(lines)
    (run.checkpoints / "x.state").write_bytes(b'{"schema": 1, "journal_size": %d, "state_size": 5}\nstate' % len(lines))
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        assert FileCheckpoint(run.checkpoints / "x.state", journal).load() == b"state"
        report(journal, pack, 2)
    assert [m.step for m in follow(run.curves / "a.jsonl")[0]] == [1, 2]


def test_a_state_whose_journal_is_lost_counts_as_absent(run, pack):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        report(journal, pack, 1)
        FileCheckpoint(run.checkpoints / "x.state", journal).save(b"state")
    (run.curves / "a.jsonl").unlink()
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        assert FileCheckpoint(run.checkpoints / "x.state", journal).load() is None


def test_it_is_due_by_time(run, pack, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        checkpoint = FileCheckpoint(run.checkpoints / "x.state", journal, every_s=20.0)
        assert not checkpoint.due()
        now[0] += 20
        assert checkpoint.due()
        checkpoint.save(b"")
        assert not checkpoint.due()
        checkpoint.discard()
        checkpoint.discard()
        assert not checkpoint.path.exists()


def test_a_worker_that_is_to_leave_saves_at_once_and_ends(run, pack):
    path = run.checkpoints / "a.state"
    printed = iter([False, True, True])
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        checkpoint = FileCheckpoint(path, journal, leaving=lambda: next(printed))
        assert not checkpoint.due()
        assert checkpoint.due()
        report(journal, pack, 1)
        with pytest.raises(Preempted):
            checkpoint.save(b"state")
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        assert FileCheckpoint(path, journal).load() == b"state"
        assert [m.step for m in follow(journal.path)[0]] == [1]
