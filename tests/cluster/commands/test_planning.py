"""The cost of a sweep, told before it runs."""

from pathlib import Path

import pytest
import yaml

from cluster.commands.planning import ASSUMED_RATE, cost_lines, measured_rate, warning_lines
from stsq_core import TrialResult
from sweeps import load_sweep, make_plan
from sweeps.cells.packs import trial_operations
from sweeps.store.ledger import record_of_result


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
    printed = " ".join(cost_lines(make_plan(load_sweep("smoke")), measured_rate([]), slots=2))
    assert "core-hours" in printed
    assert "GPU-minutes" in printed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"optimizer": {"kind": "gd", "lr": 0.0125}}, []),
        ({"optimizer": {"kind": "gd", "lr": 0.02}}, ["lr=0.02, d=2", "1/(20 d^2) = 0.0125"]),
        ({"optimizer": {"kind": "adam", "lr": 0.02}}, []),
        ({"optimizer": {"kind": "gd", "lr": 1.0}, "model.positions": {"kind": "random_sign", "d_e": 4}}, []),
        ({"optimizer": {"kind": "gd", "lr": 1.0}, "training.objective": "minibatch", "model.attend_query": True}, []),
    ],
)
def test_gradient_descent_beyond_theorem_1_is_one_warning(tmp_path: Path, fields: dict, words: list[str]) -> None:
    base = {
        "task": {"kind": "stsq", "T": 12, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": "one_hot"}},
        "training": {"objective": "population", "batch_size": 16, "steps": 20},
    }
    grid = {"task.T": [12, 16], **{name: [value] for name, value in fields.items()}}
    sweep = {"name": "small", "hypothesis": "None.", "trials": [{"name": "gd", "base": base, "grid": grid, "seeds": 2}]}
    (path := tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    lines = warning_lines(make_plan(load_sweep(str(path))))
    assert len(lines) == bool(words)
    assert all(word in line for line in lines for word in ["warning: ", *words])
