"""The cost of a sweep, told before it runs."""

from cluster.planning import ASSUMED_RATE, cost_lines, measured_rate
from stsq_core import TrialResult
from sweeps import load_sweep, make_plan
from sweeps.ledger import record_of_result
from sweeps.packs import trial_operations


def test_a_rate_is_measured_where_a_ledger_shows_one() -> None:
    plan = make_plan(load_sweep("smoke"))
    configs = [config for cell in plan.cells for config in cell.configs]
    records = [record_of_result(TrialResult(c, "finished", 0.5, 0.1, 1, 2.0), pack_id="p", device="cpu") for c in configs]
    rate = measured_rate(records)
    assert rate.operations_per_s == trial_operations(configs) / (2.0 * len(configs))
    assert "as measured" in rate.source
    assert measured_rate([]).operations_per_s == ASSUMED_RATE


def test_nothing_left_costs_nothing() -> None:
    spec = load_sweep("smoke")
    done = {config.trial_id for cell in make_plan(spec).cells for config in cell.configs}
    lines = cost_lines(make_plan(spec, done=done), measured_rate([]), slots=2)
    assert lines == ["2 cells, 18 trials, 18 done, 0 to train in 0 packs"]


def test_cost_counts_core_hours_and_gpu_hours() -> None:
    told = " ".join(cost_lines(make_plan(load_sweep("smoke")), measured_rate([]), slots=2))
    assert "core-hours" in told
    assert "GPU-hours" in told
