import math
import os

import pytest

from stsq_core import Measurement
from sweeps.cells.packs import pack_of
from sweeps.store.journal import JournalWriter, follow, read_curves, read_metrics
from sweeps.store.jsonl import unsealed
from sweeps.store.ledger import Ledger


@pytest.fixture
def pack(fcn):
    return pack_of([fcn(seed=seed) for seed in range(3)])


def all_of(pack, step, losses=(1.0, 0.5, 0.25)):
    return Measurement(step, pack.trial_ids, losses)


def test_a_line_a_step_with_the_trials_named_once(run, pack):
    path = run.curves / f"{pack.pack_id}.jsonl"
    with JournalWriter(path, pack) as journal:
        journal(all_of(pack, 5))
        journal(Measurement(10, pack.trial_ids[::2], (float("nan"), 0.1)))
        journal(Measurement(15, pack.trial_ids[2:], (float("inf"),)))
        assert journal.size() == path.stat().st_size
    head, *lines = [unsealed(line)[0] for line in path.read_bytes().splitlines()]
    assert head == {"schema": 1, "pack_id": pack.pack_id, "trial_ids": list(pack.trial_ids)}
    assert lines == [
        {"step": 5, "relative_loss": [1.0, 0.5, 0.25]},
        {"step": 10, "relative_loss": ["nan", 0.1], "trials": [0, 2]},
        {"step": 15, "relative_loss": ["inf"], "trials": [2]},
    ]


def test_metrics_stand_in_the_lines_of_evaluations_and_are_read_back(run, pack):
    path = run.curves / f"{pack.pack_id}.jsonl"
    evaluated = Measurement(0, pack.trial_ids, (1.0, 0.5, 0.25), {"loss": (1.0, 0.6, 0.3), "loss@T=9": (1 / 3, math.inf, 2.0)})
    left = Measurement(10, pack.trial_ids[1:], (0.5, 0.1), {"loss": (math.nan, 0.2)})
    with JournalWriter(path, pack) as journal:
        journal(evaluated)
        journal(all_of(pack, 5))
        journal(left)
    lines = [unsealed(line)[0] for line in path.read_bytes().splitlines()]
    assert lines[1]["metrics"] == {"loss": [1.0, 0.6, 0.3], "loss@T=9": [1 / 3, "inf", 2.0]}
    assert lines[2] == {"step": 5, "relative_loss": [1.0, 0.5, 0.25]}
    first, second, third = follow(path)[0]
    assert (first, second) == (evaluated, all_of(pack, 5))
    assert (third.step, third.trial_ids, third.relative_loss) == (10, left.trial_ids, left.relative_loss)
    metrics = read_metrics(run)
    assert {name: [part.tolist() for part in curve] for name, curve in metrics[pack.trial_ids[0]].items()} == {
        "loss": [[0], [1.0]],
        "loss@T=9": [[0], [1 / 3]],
    }
    assert metrics[pack.trial_ids[1]]["loss@T=9"][1].tolist() == [math.inf]
    assert math.isnan(metrics[pack.trial_ids[1]]["loss"][1][1])
    steps, values = read_metrics(run, [pack.trial_ids[2]])[pack.trial_ids[2]]["loss"]
    assert (steps.tolist(), steps.dtype.kind, values.tolist(), values.dtype) == ([0, 10], "i", [0.3, 0.2], float)
    assert set(read_metrics(run, [pack.trial_ids[2]])) == {pack.trial_ids[2]}


def test_a_journal_without_metrics_has_none(run, pack):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        journal(all_of(pack, 5))
    assert follow(journal.path)[0] == [all_of(pack, 5)]
    assert read_metrics(run) == {}


def test_curves_are_read_back(run, pack):
    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
        journal(all_of(pack, 5))
        journal(Measurement(10, pack.trial_ids[:1], (float("nan"),)))
    curves = read_curves(run)
    steps, losses = curves[pack.trial_ids[0]]
    assert steps.tolist() == [5, 10]
    assert losses[0] == 1.0
    assert math.isnan(losses[1])
    assert curves[pack.trial_ids[1]][0].tolist() == [5]
    assert set(read_curves(run, [pack.trial_ids[2]])) == {pack.trial_ids[2]}


def test_floats_survive_to_the_bit(run, pack):
    losses = (0.1 + 0.2, 1 / 3, 5e-324)
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        journal(all_of(pack, 1, losses))
    assert [read_curves(run)[trial_id][1][0] for trial_id in pack.trial_ids] == list(losses)


def test_truncating_keeps_the_line_that_names_the_pack(run, pack):
    with JournalWriter(run.curves / "a.jsonl", pack) as journal:
        empty = journal.size()
        journal(all_of(pack, 1))
        kept = journal.size()
        journal(all_of(pack, 2))
        journal.truncate(kept)
        journal(all_of(pack, 3))
        assert [m.step for m in follow(journal.path)[0]] == [1, 3]
        journal.truncate()
        assert journal.size() == empty == journal.path.stat().st_size
        journal.close()


@pytest.mark.parametrize("tail", [b'{"step": 3, "rel', b"\n"[:0]])
def test_a_journal_is_continued_without_its_torn_line(run, pack, tail):
    path = run.curves / "a.jsonl"
    with JournalWriter(path, pack) as journal:
        journal(all_of(pack, 1))
    with path.open("ab") as file:
        file.write(tail)
    with JournalWriter(path, pack) as journal:
        journal(all_of(pack, 2))
    assert [m.step for m in follow(path)[0]] == [1, 2]


def test_the_journal_of_another_pack_begins_anew(run, pack, fcn):
    path = run.curves / "a.jsonl"
    with JournalWriter(path, pack_of([fcn(seed=9)])) as journal:
        journal(Measurement(1, (fcn(seed=9).trial_id,), (0.5,)))
    with JournalWriter(path, pack):
        assert follow(path)[0] == []


def test_following_gives_each_line_once_and_no_torn_line(run, pack):
    path = run.curves / "a.jsonl"
    assert follow(path) == ([], 0)
    with JournalWriter(path, pack) as journal:
        seen, offset = follow(path)
        assert seen == []
        journal(all_of(pack, 1))
        seen, offset = follow(path, offset)
        assert [m.step for m in seen] == [1]
        with path.open("ab") as file:
            file.write(b'{"step": 2,')
        assert follow(path, offset) == ([], offset)


def test_a_journal_that_was_cut_is_followed_from_its_start(run, pack):
    path = run.curves / "a.jsonl"
    with JournalWriter(path, pack) as journal:
        journal(all_of(pack, 1))
        journal(all_of(pack, 2))
        offset = follow(path)[1]
        journal.truncate()
        journal(all_of(pack, 7))
        assert [m.step for m in follow(path, offset)[0]] == [7]


def test_a_journal_whose_first_line_is_torn_holds_nothing_yet(run):
    (run.path / "curves").mkdir()
    (run.curves / "a.jsonl").write_text('{"schema": 1, "pa')
    assert follow(run.curves / "a.jsonl") == ([], 0)
    assert read_curves(run) == {}


def test_of_several_journals_the_ledgers_counts(run, pack, fcn, record):
    half = pack_of(pack.configs[:1])
    with JournalWriter(run.curves / f"{half.pack_id}.jsonl", half) as journal:
        journal(Measurement(1, half.trial_ids, (0.5,), {"loss": (0.4,)}))
    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
        journal(Measurement(2, pack.trial_ids, (1.0, 0.5, 0.25), {"loss": (0.9, 0.8, 0.7)}))
    assert read_curves(run)[half.trial_ids[0]][0].tolist() in ([1], [2])
    from dataclasses import replace

    Ledger(run.ledger).append([replace(record(half.configs[0], 0.5), pack_id=half.pack_id)])
    curves = read_curves(run)
    assert curves[half.trial_ids[0]][0].tolist() == [1]
    assert curves[pack.trial_ids[1]][0].tolist() == [2]
    assert [read_metrics(run)[i]["loss"][1].tolist() for i in pack.trial_ids[:2]] == [[0.4], [0.8]]


def test_a_journal_whose_file_went_stale_in_mid_line_is_opened_again_and_goes_on(run, pack, monkeypatch):
    path = run.curves / f"{pack.pack_id}.jsonl"
    real, failures = os.pwrite, iter([116, 5])

    def pwrite(descriptor, data, offset):
        for number in failures:
            real(descriptor, data[:7], offset)
            raise OSError(number, os.strerror(number))
        return real(descriptor, data, offset)

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with JournalWriter(path, pack) as journal:
        journal(all_of(pack, 5))
        monkeypatch.setattr(os, "pwrite", pwrite)
        journal(all_of(pack, 10))
        journal(all_of(pack, 15))
        journal.sync()
        assert journal.size() == path.stat().st_size
    assert [one.step for one in follow(path)[0]] == [5, 10, 15]


def test_a_journal_that_vanished_is_not_begun_anew_below_its_place(run, pack, monkeypatch):
    path, away = run.curves / f"{pack.pack_id}.jsonl", run.path.with_name("away")
    real, failures = os.pwrite, iter([116])

    def pwrite(descriptor, data, offset):
        for number in failures:
            run.path.rename(away)
            raise OSError(number, os.strerror(number))
        return real(descriptor, data, offset)

    def come_back(seconds):
        if away.exists() and next(looks) > 2:
            away.rename(run.path)

    looks = iter(range(10))
    monkeypatch.setattr("time.sleep", come_back)
    with JournalWriter(path, pack) as journal:
        monkeypatch.setattr(os, "pwrite", pwrite)
        journal(all_of(pack, 5))
        assert next(looks) == 4
    assert [one.step for one in follow(path)[0]] == [5]
