import pytest

from sweeps.cells.expanded_sweep import expand
from sweeps.cells.loading import load_sweep
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
