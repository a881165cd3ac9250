"""The cost of a sweep, told before it runs."""

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from cluster.commands.planning import ASSUMED_RATE, cost_lines, measured_rate, pair_lines, show_plan
from stsq_core import TrialResult
from sweeps import load_sweep, make_plan
from sweeps.cells.expanded_sweep import ExpandedSweep
from sweeps.cells.packs import trial_operations
from sweeps.findings import read_findings
from sweeps.schema.spec import SweepSpec
from sweeps.store.ledger import record_of_result
from sweeps.store.run_directory import create_or_open


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
    assert " with 2 workers on CPU" in printed
    alone = " ".join(cost_lines(make_plan(load_sweep("smoke")), measured_rate([]), slots=1))
    assert " with 1 worker on CPU" in alone


def test_a_plan_names_the_pairs_that_a_ratio_will_compare(tmp_path: Path) -> None:
    """The second claim also takes the cells of random signs that are drawn once."""
    code = {"kind": "random_sign", "query": "dual"}
    codes = [code | {"redraw": "never"}, code | {"redraw": "per_step"}, {"kind": "learned", "query": "dual"}]
    base = {
        "task": {"kind": "stsq", "q": 2, "d": 2},
        "model": {"kind": "transformer"},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": 16, "steps": 9},
    }
    ratio = {"kind": "threshold_ratio", "by": "model.positions.kind", "of": "learned", "over": "random_sign", "at_most": 1}
    claims = [
        ratio | {"name": "fixed", "says": "No more than fixed signs.", "where": {"model.positions.redraw": "never"}},
        ratio | {"name": "redrawn", "says": "No more than redrawn ones.", "ignoring": ["model.positions.redraw"]},
        ratio | {"name": "lengths", "says": "T tells nothing.", "by": "task.T", "of": 12, "over": 16},
        ratio | {"name": "many", "says": "All.", "ignoring": ["model.positions.redraw", "task.T"]},
    ]
    group = {"name": "codes", "base": base, "search": {"low": 4, "high": 64}}
    sweep = {
        "name": "small",
        "hypothesis": "None.",
        "trials": [group | {"grid": {"task.T": [12, 16], "model.positions": codes}}],
        "claims": claims,
    }
    (path := tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))

    def claims_told(*settings: str) -> list[str]:
        text = io.StringIO()
        show_plan(Console(file=text, width=400), str(path), [*settings], out=tmp_path / "run", workers=1)
        return [line for line in text.getvalue().splitlines() if line.startswith("claim ")]

    lines = claims_told()
    of_over = "model.positions.kind learned over random_sign"
    assert lines[:3] == [
        f"claim fixed compares 2 pairs of cells, {of_over}: T = 12; T = 16",
        f"claim redrawn compares 4 pairs of cells, {of_over}: T = 12, fixed codes; T = 12, stochastic codes; "
        "T = 16, fixed codes; T = 16, stochastic codes",
        "claim lengths compares 3 pairs of cells, task.T 12 over 16: random signs, fixed codes; "
        "random signs, stochastic codes; learned codes",
    ]
    assert lines[3].startswith(f"claim many compares 8 pairs of cells, {of_over}: T = 12, fixed codes; ")
    assert lines[3].endswith("; and 4 more")
    assert claims_told("task.T=12")[2] == "claim lengths compares no pair of cells: none that it selects has task.T = 16"


RATIO = {"kind": "threshold_ratio", "name": "more", "says": "Learned codes need more.", "at_least": 1}
CODES = {"model.positions.kind": ["random_sign", "learned"]}
NAMES = "name them under `ignoring`"


@pytest.mark.parametrize(
    ("grid", "claim", "words"),
    [
        (
            CODES,
            {"by": "model.positions.kind", "of": "learned", "over": "random_sign"},
            "those with random_sign and those with learned also differ in model.positions.redraw and model.positions.query;"
            f" {NAMES}",
        ),
        (
            CODES,
            {"by": "model.positions.kind", "of": "learned", "over": "random_sign", "ignoring": ["model.positions.query"]},
            "those with random_sign and those with learned also differ in model.positions.redraw; name it under `ignoring`",
        ),
        (
            {"model": [{"kind": "transformer", "positions": {"kind": "random_sign"}}, {"kind": "fcn", "tail_width": 2}]},
            {"by": "model.kind", "of": "fcn", "over": "transformer"},
            "those with transformer and those with fcn also differ in 11 fields of model; name it under `ignoring`",
        ),
    ],
)
def test_a_claim_that_compares_nothing_says_why(tmp_path: Path, grid: dict, claim: dict, words: str) -> None:
    """Defaults follow the field compared; the plan and the verdict give the same reason."""
    spec = SweepSpec.model_validate(searched(grid, RATIO | claim))
    assert pair_lines(ExpandedSweep.of(spec)) == [f"claim more compares no pair of cells: {words}"]
    (verdict,) = read_findings(create_or_open(tmp_path / "run", spec).path).verdicts
    assert verdict.answer == "not enough data"
    assert [setting.note for setting in verdict.settings] == [f"compares no pair of cells: {words}"]


def test_a_verdict_whose_cells_have_not_begun_gives_no_such_reason(tmp_path: Path) -> None:
    claim = RATIO | {"by": "task.T", "of": 12, "over": 16}
    spec = SweepSpec.model_validate(searched({"task.T": [12, 16]}, claim))
    (verdict,) = read_findings(create_or_open(tmp_path / "run", spec).path).verdicts
    assert [setting.note for setting in verdict.settings] == [""]


def searched(grid: dict, claim: dict) -> dict:
    """A sweep that searches transformers of drawn codes, with one claim."""
    base = {
        "task": {"kind": "stsq", "q": 2, "d": 2, "T": 12},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign"}},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": 16, "steps": 9},
    }
    group = {"name": "codes", "base": base, "search": {"low": 4, "high": 64}, "grid": grid}
    return {"name": "small", "hypothesis": "None.", "trials": [group], "claims": [claim]}


THEOREM_1 = "outside the range of Theorem 1 of arXiv:2406.06893, "


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"optimizer": {"kind": "gd", "lr": 0.0125}}, []),
        (
            {"optimizer": {"kind": "gd", "lr": 0.02}},
            [f"{THEOREM_1}lr <= 1/(20 d^2); larger rates may converge or diverge: 2 cells (lr = 0.02; d = 2)"],
        ),
        ({"optimizer": {"kind": "adam", "lr": 0.02}}, [f"{THEOREM_1}gradient descent: 2 cells (optimizer = adam)"]),
        (
            {
                "optimizer": {"kind": "gd", "lr": 1.0},
                "model.positions": {"kind": "random_sign", "d_e": 4},
                "training.batch_size": 16,
            },
            [],
        ),
        (
            {
                "optimizer": {"kind": "gd", "lr": 0.01},
                "training": {"objective": "minibatch", "batch_size": 16, "steps": 9},
                "model.attend_query": True,
            },
            [
                f"{THEOREM_1}the population loss: 2 cells (objective = minibatch with 16 subsets a step)",
                f"{THEOREM_1}zero initial values and x_query = 0: 2 cells (model = attend_query=true)",
            ],
        ),
        (
            {"optimizer": {"kind": "gd", "lr": 0.01}, "task.q": 3},
            ["outside the range of the theorems of arXiv:2406.06893, 2 <= q < T/4: 1 cell (q = 3; T = 12)"],
        ),
    ],
)
def test_a_plan_says_what_lies_outside_the_theorems_in_a_line_each(tmp_path: Path, fields: dict, lines: list[str]) -> None:
    base = {
        "task": {"kind": "stsq", "T": 12, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": "one_hot"}},
        "training": {"objective": "population", "batch_size": "all", "steps": 20},
    }
    grid = {"task.T": [12, 16], **{name: [value] for name, value in fields.items()}}
    sweep = {
        "name": "small",
        "hypothesis": "None.",
        "criterion": {"target_loss": 0.005},
        "trials": [{"name": "gd", "base": base, "grid": grid, "seeds": 2}],
    }
    (path := tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    text = io.StringIO()
    show_plan(Console(file=text, width=400), str(path), [], out=tmp_path / "run", workers=1)
    assert [line.strip() for line in text.getvalue().splitlines() if line.startswith("outside")] == lines


def test_a_plan_asks_no_loss_of_a_sweep_that_drawings_show() -> None:
    text = io.StringIO()
    show_plan(Console(file=text, width=400), "figure1", [], out=None, workers=1)
    lines = [line.strip() for line in text.getvalue().splitlines() if line.startswith("outside")]
    assert lines == [
        f"{THEOREM_1}lr <= 1/(20 d^2); larger rates may converge or diverge: 1 cell (lr = 5; d = 5)",
        f"{THEOREM_1}the population loss: 1 cell (objective = population with 256 subsets a step)",
    ]
