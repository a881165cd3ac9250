import pytest

from stsq_core import Measurement
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.loading import load_sweep
from sweeps.cells.packs import pack_of
from sweeps.store.journal import JournalWriter
from sweeps.store.jsonl import append_lines
from sweeps.store.ledger import Ledger
from sweeps.store.results import read_results
from sweeps.store.run_directory import create_or_open


@pytest.fixture
def full(run, spec, record):
    """A run with a record of every trial."""
    Ledger(run.ledger).append(record(config) for cell in expand(spec) for config in cell.configs)
    return run


def test_all_records_of_the_sweep_are_its_results(full, spec):
    results = read_results(full)
    assert results.records == Ledger(full.ledger).read()
    assert results.declared == {record.trial_id for record in results.records}
    assert (results.num_others, results.notes) == (0, ())


def test_records_of_trials_that_are_no_longer_declared_are_left_out_and_told(full, spec, sweep_file):
    create_or_open(full.path, load_sweep(sweep_file, ["fcn:seeds=1"]))
    results = read_results(full)
    assert {record.trial_id for record in results.records} == results.declared
    assert (len(results.records), results.num_others, len(Ledger(full.ledger).read())) == (18, 3, 21)
    assert results.notes == ("3 trials in the ledger that this sweep does not declare are kept there and left out here",)
    assert read_results(full, spec).num_others == 0


def test_what_the_ledger_left_out_is_told_too(full):
    with full.ledger.open("a") as file:
        file.write('{"torn')
    assert read_results(full).notes == ("ledger.jsonl: the last line was torn by a crash and is ignored",)


def test_one_left_out_is_told_in_the_singular(run, fcn, record):
    Ledger(run.ledger).append([record(fcn(T=5))])
    (note,) = read_results(run).notes
    assert note == "1 trial in the ledger that this sweep does not declare is kept there and left out here"


def test_foreign_cells_are_those_of_records_that_no_cell_takes(run, spec, fcn, record):
    ledger = Ledger(run.ledger)
    own, wider, other = expand(spec)[0].configs[0], fcn(width=64), fcn(T=5)
    ledger.append([record(own), record(wider)])
    assert read_results(run).foreign_cells == set()
    ledger.append([record(other), record(fcn(T=5, width=9))])
    assert len(read_results(run).foreign_cells) == 1


def test_trials_that_other_files_know_of_and_the_ledger_lacks_are_told(run, spec, record):
    first, second, third, fourth = expand(spec)[0].configs[:4]
    Ledger(run.ledger).append([record(first)])
    for config, step in ((first, 100), (second, 100), (third, 60)):  # the third was killed on its way
        pack = pack_of([config])
        with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
            journal(Measurement(step, pack.trial_ids, (0.5,)))
    lost = pack_of([second]).pack_id
    assert read_results(run).notes == (
        f"ledger.jsonl has no line of 1 trials whose journals have ended, such as curves/{lost}.jsonl: "
        "the next run trains what the sweep declares of them again",
    )
    run.wandb.mkdir()
    append_lines(run.wandb / "published.jsonl", [{"key": config.trial_id} for config in (first, fourth)])
    assert f"and of 1 trials that were published to W&B, such as {fourth.trial_id}:" in read_results(run).notes[0]
    run.checkpoints.mkdir()
    (run.checkpoints / f"{lost}.outcome.json").write_text('{"results": [{}]}')
    assert read_results(run).lacks[0] == "ledger.jsonl: 1 packs have ended whose trials the next run takes into it"
    Ledger(run.ledger).append([record(second), record(fourth)])
    assert [note for note in read_results(run).lacks if "has no line" in note] == []


def test_a_result_counts_before_a_failure_and_two_results_are_told(run, spec, record):
    first, second, third = expand(spec)[0].configs[:3]
    Ledger(run.ledger).append([record(first, 0.5), record(second, None), record(third, 0.5)])
    Ledger(run.ledger).append([record(first, None), record(second, 0.25), record(third, 0.75)])
    results = read_results(run)
    assert [one.relative_loss for one in results.records] == [0.5, 0.25, 0.75]
    assert [one.relative_loss for one in Ledger(run.ledger).read()] == [0.5, 0.25, 0.75]
    assert results.notes == ("ledger.jsonl: 1 trials have two results each, of which the newer counts",)
