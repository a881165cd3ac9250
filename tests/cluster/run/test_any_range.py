"""The threshold of a cell whose loss rises again, searched in a tight and in a far too wide range, trained for real."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
CELL = Path(__file__).parents[2] / "sweeps" / "quickstart_cell.yaml"


@pytest.mark.parametrize(("low", "high"), [(8, 64), (8, 1024)])
def test_the_threshold_does_not_depend_on_the_range(here: Callable[..., Any], tmp_path: Path, low: int, high: int) -> None:
    """48 seeds at each width say 24.6."""
    run = tmp_path / "run"
    settings = ("--set", f"search.low={low}", "--set", f"search.high={high}")
    assert here("run", CELL, "--inline", "--wandb", "disabled", "--out", run, *settings).code == 0
    (threshold,) = json.loads(here("show", run, "--json").out)["thresholds"]
    assert threshold["status"] == "found"
    assert threshold["m_star"] == pytest.approx(24.6, rel=0.05)
    assert threshold["low"] < 24.6 < threshold["high"]
    assert threshold["num_trials"] <= 48
    assert ("solved, then unsolved again at m = " in threshold["note"]) == (high == 1024)
