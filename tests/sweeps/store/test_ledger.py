import json
import math
import os
import subprocess
import sys
from dataclasses import fields, replace

import orjson
import pytest

from stsq_core import TrialConfig, TrialResult, UserError
from stsq_core.configs.trial import NUMERICS
from sweeps.store.jsonl import aside, sealed, set_aside
from sweeps.store.ledger import COLUMNS, Ledger, LedgerRecord, merge, record_of_result
from sweeps.store.outcomes import Outcomes


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")


def test_what_is_appended_is_read_back(ledger, fcn, record):
    records = [record(fcn(seed=0), 0.25), record(fcn(seed=1), float("inf")), record(fcn(seed=2), None)]
    ledger.append(records[:1])
    ledger.append(records[1:])
    ledger.append([])
    assert ledger.read() == tuple(records)
    assert [one.status for one in ledger.read()] == ["finished", "diverged", "failed"]
    assert ledger.read()[0].trial_config == fcn(seed=0)
    assert ledger.notes == []


def test_a_line_holds_the_fields_that_others_rely_on(ledger, fcn, record):
    ledger.append([record(fcn(), None)])
    line = json.loads(ledger.path.read_text())
    assert {
        "schema",
        "trial_id",
        "config",
        "status",
        "relative_loss",
        "relative_loss_stderr",
        "steps",
        "seconds",
    } <= line.keys()
    assert line["relative_loss"] is None
    assert line["config"]["task"] == {"kind": "stsq", "T": 8, "q": 2, "d": 2}
    assert line["config"]["optimizer"]["schedule"]["kind"] == "constant"
    assert line["reason"] == "worker lost"


def test_metrics_stand_in_a_line_where_there_are_any(ledger, fcn, record, finished):
    metrics = {"loss": 1 / 3, "loss@T=9": math.inf, "cosine_W": -0.5}
    printed = record_of_result(replace(finished(fcn(seed=1)), metrics=metrics), pack_id="0" * 16, device="cpu")
    ledger.append([record(fcn(seed=0), 0.25), printed, record(fcn(seed=2), None)])
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    assert ["metrics" in line for line in lines] == [False, True, False]
    assert lines[1]["metrics"] == {"loss": 1 / 3, "loss@T=9": "inf", "cosine_W": -0.5}
    assert [one.metrics for one in ledger.read()] == [None, metrics, None]
    assert [one.metrics for one in ledger.follow()[0]] == [None, metrics, None]
    outcomes = Outcomes.of(ledger.read())
    assert [one.metrics for one in outcomes] == [None, metrics, None]
    assert outcomes.metrics[1] == metrics


def test_following_gives_each_whole_line_once(ledger, fcn, record):
    assert ledger.follow() == ([], 0)
    records = [record(fcn(seed=seed), 0.25) for seed in range(3)]
    ledger.append(records[:2])
    assert ledger.follow() == (records[:2], ledger.path.stat().st_size)
    _, offset = ledger.follow()
    whole = ledger.path.read_bytes()
    ledger.append(records[2:])
    line = ledger.path.read_bytes()[len(whole) :]
    ledger.path.write_bytes(whole + line[:40])
    assert ledger.follow(offset) == ([], offset)
    ledger.path.write_bytes(whole + line)
    assert ledger.follow(offset) == (records[2:], offset + len(line))


def test_following_a_ledger_that_became_shorter_begins_again(ledger, fcn, record):
    records = [record(fcn(seed=seed), 0.25) for seed in range(3)]
    ledger.append(records)
    _, offset = ledger.follow()
    ledger.path.unlink()
    ledger.append(records[:1])
    assert ledger.follow(offset) == (records[:1], ledger.path.stat().st_size)


def test_following_goes_on_behind_a_line_that_is_none(ledger, fcn, record):
    ledger.append([record(fcn(), 0.25)])
    with ledger.path.open("a") as file:
        file.write("not a line\n")
    _, offset = ledger.follow()
    ledger.append([record(fcn(seed=1), 0.5)])
    assert ledger.follow() == ([record(fcn(), 0.25), record(fcn(seed=1), 0.5)], ledger.path.stat().st_size)
    assert ledger.follow(offset)[0] == [record(fcn(seed=1), 0.5)]


def test_no_file_is_an_empty_ledger(ledger):
    assert ledger.read() == ()


def test_the_newest_line_of_a_trial_counts(ledger, fcn, record):
    ledger.append([record(fcn(seed=0), None), record(fcn(seed=1), 0.5)])
    ledger.append([record(fcn(seed=0), 0.25)])
    assert [(one.trial_id, one.relative_loss) for one in ledger.read()] == [
        (fcn(seed=0).trial_id, 0.25),
        (fcn(seed=1).trial_id, 0.5),
    ]


@pytest.mark.parametrize("kept", [1, 40, -2])
def test_a_torn_last_line_is_tolerated_and_cut_off_by_the_next_append(ledger, fcn, record, kept):
    first, second, third = (record(fcn(seed=seed), 0.5) for seed in range(3))
    ledger.append([first])
    with ledger.path.open("a") as file:
        file.write((second.as_json() + "\n")[:kept])
    assert ledger.read() == (first,)
    assert "torn" in ledger.notes[0]
    ledger.append([third])
    assert "torn" in ledger.notes[-1]
    assert ledger.read() == (first, third)
    assert ledger.notes == []


def test_a_whole_last_line_without_its_end_is_kept(ledger, fcn, record):
    first, second = (record(fcn(seed=seed), 0.5) for seed in range(2))
    ledger.path.write_text(first.as_json())
    assert ledger.read() == (first,)
    ledger.append([second])
    assert ledger.read() == (first, second)


def test_a_long_torn_line_is_found(ledger, fcn, record):
    ledger.append([record(fcn(), 0.5)])
    with ledger.path.open("a") as file:
        file.write("{" + "x" * 200_000)
    ledger.append([record(fcn(seed=1), 0.5)])
    assert len(ledger.read()) == 2


def test_a_broken_line_in_the_middle_is_left_out_and_named(ledger, fcn, record):
    records = [record(fcn(seed=seed), 0.5) for seed in range(2)]
    ledger.path.write_text(records[0].as_json() + "\nnonsense\n" + records[1].as_json() + "\n[]\n")
    assert ledger.read() == tuple(records)
    [note] = ledger.notes
    assert "ledger.jsonl:2 is damaged and left out (it is not JSON: b'nonsense'), and so are 1 more of its lines" in note
    assert f"`stsq run {ledger.path.parent}` trains anew what is lost" in note


def test_a_number_that_was_edited_is_found_and_its_line_set_aside(ledger, fcn, record):
    ledger.append([record(fcn(), 0.5), record(fcn(seed=1), 0.25)])
    ledger.path.write_text(ledger.path.read_text().replace('"relative_loss":0.5', '"relative_loss":0.1'))
    assert ledger.read() == (record(fcn(seed=1), 0.25),)
    assert "ledger.jsonl:1 is damaged and left out (its checksum does not match)" in ledger.notes[0]
    lines = ledger.checked_lines().scan()
    assert list(lines.bad) == [1]
    set_aside(lines)
    assert b'"relative_loss":0.1' in aside(ledger.path).read_bytes()
    assert ledger.read() == (record(fcn(seed=1), 0.25),)
    assert ledger.notes == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"relative_loss": "0.123"}, "relative_loss is '0.123'"),
        ({"relative_loss": -5}, "relative_loss is -5"),
        ({"relative_loss": None}, "finished with relative_loss None"),
        ({"relative_loss": True}, "relative_loss is True"),
        ({"relative_loss_stderr": "x"}, "relative_loss_stderr is 'x'"),
        ({"status": "ended"}, "status is 'ended'"),
        ({"status": 7}, "status is 7"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"steps": -1}, "steps is -1"),
        ({"metrics": {"loss": "much"}}, "'much' is no number"),
        ({"metrics": []}, "metrics is []"),
        ({"plugins": {"a": 1}}, "plugins is {'a': 1}"),
        ({"trial_id": 5}, "trial_id is 5"),
        ({"trial_id": "0" * 16}, "its config is not that of trial '0000000000000000'"),
        ({"finished_at": "yesterday"}, "Invalid isoformat string"),
        ({"config": []}, "config is []"),
        ({"config": {}}, "config has lr None and seed None"),
        ({"config.model.width": 3.5}, "model.fcn.width: Input should be a valid integer"),
        ({"config.model.width": 9}, "its config is not that of trial"),
        ({"config.task": None}, "task"),
        ({"config.task.T": "8"}, "task.stsq.T: Input should be a valid integer"),
        ({"config.optimizer.lr": "0.01"}, "config has lr '0.01' and seed 0"),
        ({"config.seed": -1}, "config has lr 0.01 and seed -1"),
        ({"schema": None}, "schema is None"),
        ({"numerics": "3"}, "numerics is '3'"),
    ],
)
def test_a_line_without_a_checksum_is_left_out_if_a_field_is_wrong(ledger, fcn, record, fields, why):
    line = json.loads(record(fcn(), 0.5).as_json())
    for name, value in fields.items():
        *path, last = name.split(".")
        place = line
        for part in path:
            place = place[part]
        place[last] = value
    kept = record(fcn(seed=1), 0.25)
    ledger.path.write_text(f"{json.dumps(line)}\n{kept.as_json()}\n")
    assert ledger.read() == (kept,)
    assert why in ledger.notes[0]


def test_lines_without_checksums_are_read_as_before(ledger, fcn, record):
    records = (record(fcn(), 0.5), record(fcn(seed=1), float("inf")), record(fcn(width=9), None))
    ledger.path.write_text("".join(one.as_json() + "\n" for one in records))
    ledger.append([record(fcn(seed=2), 0.25)])
    assert ledger.read() == (*records, record(fcn(seed=2), 0.25))
    assert ledger.notes == []
    assert ["crc" in json.loads(line) for line in ledger.path.read_text().splitlines()] == [False, False, False, True]


def test_another_schema_is_refused(ledger, fcn, record):
    ledger.path.write_text(record(fcn(), 0.5).as_json().replace('"schema":1', '"schema":99') + "\n")
    with pytest.raises(UserError, match=r":1: this ledger line has schema 99; this version reads 1"):
        ledger.read()


def test_lines_of_another_arithmetic_are_ignored_and_counted(ledger, fcn, record):
    old = record(fcn(), 0.5).as_json().replace(f'"numerics":{NUMERICS}', '"numerics":0')
    ledger.path.write_text(old + "\n")
    ledger.append([record(fcn(seed=1), 0.5)])
    assert len(ledger.read()) == 1
    assert "1 lines of another version of the arithmetic" in ledger.notes[0]


def test_a_full_disk_leaves_the_ledger_whole(ledger, fcn, record, monkeypatch):
    ledger.append([record(fcn(), 0.5)])
    before = ledger.path.read_bytes()
    real = os.write

    def little_space(descriptor, data):
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    calls = iter([little_space, full])
    monkeypatch.setattr(os, "write", lambda descriptor, data: next(calls)(descriptor, data))
    with pytest.raises(UserError, match="No space left on device; free some space"):
        ledger.append([record(fcn(seed=1), 0.5)])
    assert ledger.path.read_bytes() == before


def test_a_try_that_tore_a_line_is_written_over_when_the_storage_is_back(ledger, fcn, record, monkeypatch):
    ledger.append([record(fcn(), 0.5)])
    write, sync = os.write, os.fsync
    failures = iter(["write", "sync", "sync"])

    def tear(descriptor, data):
        if next(failures, None) == "write":
            write(descriptor, data[:10])
            raise OSError(5, "Input/output error")
        monkeypatch.setattr(os, "write", write)
        return write(descriptor, data)

    def fail(descriptor):
        if next(failures, None) == "sync":
            raise OSError(116, "Stale file handle")
        sync(descriptor)

    monkeypatch.setattr(os, "write", tear)
    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    printed = []
    Ledger(ledger.path, notify=printed.append).append([record(fcn(seed=1), 0.25), record(fcn(seed=2), 0.125)])
    assert next(failures, None) is None
    assert [one.relative_loss for one in ledger.read()] == [0.5, 0.25, 0.125]
    assert ledger.path.read_bytes().count(b"\n") == 3
    assert len(printed) == 1


def test_ledgers_merge_and_a_result_counts_before_a_failure(tmp_path, fcn, record):
    first, second = Ledger(tmp_path / "a.jsonl"), Ledger(tmp_path / "b.jsonl")
    first.append([record(fcn(seed=0), 0.25), record(fcn(seed=1), None)])
    second.append([record(fcn(seed=0), None), record(fcn(seed=1), 0.5), record(fcn(seed=2), 0.75)])
    out = tmp_path / "out.jsonl"
    assert merge([first.path, second.path], out) == 3
    assert [one.relative_loss for one in Ledger(out).read()] == [0.25, 0.5, 0.75]
    with pytest.raises(UserError, match="exists already"):
        merge([first.path], out)
    with pytest.raises(UserError, match="there is no ledger"):
        merge([tmp_path / "nowhere.jsonl"], tmp_path / "other.jsonl")


@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_long_ledger_is_read_without_a_check_of_every_config(ledger, fcn, record, monkeypatch, has_checksums):
    lines = [record(fcn(seed=seed, lr=0.01 * (1 + seed % 3)), 0.5).as_json().encode() for seed in range(1000)]
    ledger.path.write_bytes(b"".join(sealed(line) if has_checksums else line + b"\n" for line in lines))
    checked, loaded = [], []
    validate, loads = TrialConfig.model_validate, orjson.loads
    monkeypatch.setattr(TrialConfig, "model_validate", lambda fields: checked.append(fields) or validate(fields))
    monkeypatch.setattr(orjson, "loads", lambda line: loaded.append(line) or loads(line))
    assert len(ledger.read()) == 1000
    assert (len(checked), len(loaded)) == (0 if has_checksums else 1, 1000)


ADDED = """
import importlib.machinery, json, pathlib, sys
from dataclasses import replace

class Loader(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        text = super().get_data(path)
        if path.endswith("sweeps/store/ledger.py"):
            last = b"    plugins: Mapping[str, str] | None = None\\n"
            assert text.count(last) == 1
            text = text.replace(last, last + b"    peak_gib: float | None = None\\n")
        return text

def hook(folder):
    if folder.endswith("sweeps/store"):
        return importlib.machinery.FileFinder(folder, (Loader, [".py"]))
    raise ImportError

sys.path_hooks.insert(0, hook)
sys.path_importer_cache.clear()

from sweeps.store import MEASURED, Ledger, Outcomes

old, out = map(pathlib.Path, sys.argv[1:])
(record,) = Ledger(old).read()
assert record.peak_gib is None
Ledger(out).append([record, replace(record, trial_id="0" * 16, peak_gib=1.5)])
lines = [json.loads(line) for line in out.read_text().splitlines()]
assert ["peak_gib" in line for line in lines] == [False, True]
assert [one.peak_gib for one in Ledger(out).read()] == [None, 1.5]
assert [one.peak_gib for one in Ledger(out).follow()[0]] == [None, 1.5]
outcomes = Outcomes.of(Ledger(out).read()[1:])
assert outcomes.peak_gib.tolist() == [1.5] and outcomes[0].peak_gib == 1.5
assert "peak_gib" in MEASURED
import dashboards.notebooks.loaded_run as rows, dashboards.paper.tables as tables
assert "peak_gib" in rows.ENDED and "peak_gib" in tables._TRIAL_COLUMNS
"""


@pytest.mark.slow
def test_a_field_that_is_added_to_the_record_alone_reaches_the_ledger_and_its_readers(ledger, fcn, record, tmp_path):
    ledger.append([record(fcn(), 0.5)])
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path / 'cache'}", "-c", ADDED]
    done = subprocess.run([*command, ledger.path, tmp_path / "new.jsonl"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_field_of_a_record_is_a_column_or_follows_from_the_trial():
    assert {field.name for field in fields(LedgerRecord)} == {*COLUMNS, "schema", "trial_id", "config", "numerics", "plugins"}
    assert {field.name for field in fields(TrialResult)} <= {*COLUMNS, "config", "weights"}
