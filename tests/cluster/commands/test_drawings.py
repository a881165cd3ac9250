"""A sweep with claims and drawings, trained for real: verdicts in the terminal, figures in files, the page, all of it again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sweeps.findings.observations import read_observations
from sweeps.store.results import read_results
from sweeps.store.run_directory import open_run

SWEEP: dict[str, Any] = {
    "name": "drawn",
    "title": "Drawn",
    "hypothesis": "Stochastic codes learn, and only the E-E block of W grows.",
    "trials": [
        {
            "name": "population",
            "base": {
                "task": {"T": 8, "q": 2, "d": 2},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 16}},
                "optimizer": {"kind": "adam", "lr": 0.05},
                "training": {"objective": "population", "batch_size": 32, "steps": 60},
                "evaluation": {"every": 20, "T_test": [12], "q_test": [1], "describe": True},
            },
            "grid": {"model.positions.redraw": ["per_step", "never"]},
            "seeds": 3,
        },
        {
            "name": "full",
            "base": {
                "task": {"T": 8, "q": 2, "d": 2},
                "model": {
                    "kind": "transformer",
                    "positions": {"kind": "random_sign", "d_e": 16},
                    "init": "gaussian",
                    "x_query": "gaussian",
                },
                "optimizer": {"kind": "adam", "lr": 0.05},
                "training": {"objective": "minibatch", "batch_size": 16, "steps": 20},
                "evaluation": {"every": 10, "describe": True},
            },
            "seeds": 3,
        },
    ],
    "claims": [
        {"kind": "bound", "name": "grows", "says": "The E-E block of W grows.", "metric": "norm_W_EE", "over_step0": True,
         "at_least": 1.01, "where": {"model.init": "gaussian"}},
        {"kind": "bound", "name": "impossible", "says": "The loss is negative.", "metric": "loss", "at_most": -1.0},
    ],
    "drawings": [
        {"kind": "curves", "name": "course", "title": "Through training", "metrics": ["loss", "loss@T=12"],
         "by": ["model.positions.redraw"], "where": {"model.init": "zero"}, "log": True},
        {"kind": "profile", "name": "lengths", "title": "Lengths", "against": "T_test", "by": ["model.positions.redraw"],
         "where": {"model.init": "zero"}},
        {"kind": "matrices", "name": "matrices", "title": "W and V", "where": {"model.init": "gaussian"}},
    ],
}  # fmt: skip


def test_a_sweep_with_drawings_is_shown_by_them(stsq: Any, write_sweep: Callable[..., Path]) -> None:
    ended = stsq.run("run", write_sweep(SWEEP), "--inline", "--wandb", "disabled")
    assert ended.code == 0, ended
    assert "HOLDS: The E-E block of W grows." in ended.out
    assert "DOES NOT HOLD: The loss is negative." in ended.out
    run = open_run(stsq.folder / "runs/drawn")
    made = {path.name for path in run.report.iterdir()}
    drawn = {f"{name}.{ending}" for name in ("course", "lengths", "matrices") for ending in ("png", "pdf", "svg")}
    assert made == drawn | {"index.html", "sweep.yaml", "trials.csv", "verdicts.json"}
    printed = json.loads((run.report / "verdicts.json").read_text())
    assert [one["answer"] for one in printed] == ["holds", "does not hold"]
    page = (run.report / "index.html").read_text()
    assert "Of 2 claims" in page
    assert page.count('class="plot"') == 1 + 1 + 4

    observations = read_observations(run, read_results(run).declared)
    assert len(observations) == 9
    for one in observations:
        steps, losses = one.courses["loss"]
        assert steps.tolist() == list(range(0, one.config.training.steps + 1, one.config.evaluation.every))
        assert losses[-1] == one.metrics["loss"]
    assert stsq.run("show", run.path, "--json").out == (run.report / "verdicts.json").read_text()
    before = {path.name: path.read_bytes() for path in run.report.glob("*.p*")}
    again = stsq.run("report", run.path)
    assert again.code == 0
    assert again.out.startswith(ended.out.partition("page: ")[0])
    assert {path.name: path.read_bytes() for path in run.report.glob("*.p*")} == before
    refused = stsq.run("show", run.path, "--latex")
    assert refused.code == 2
    assert "--json gives its verdicts" in refused.err
