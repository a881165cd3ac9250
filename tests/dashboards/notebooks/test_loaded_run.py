"""`dashboards.load`: tidy tables that equal the ledger and the journals, figures that display themselves, nothing written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dashboards
from dashboards.notebooks.loaded_run import PLOTLY, LoadedRun
from stsq_core import UserError
from sweeps import Ledger, expand, read_curves, read_metrics
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


@pytest.fixture(scope="module")
def loaded(whole_run: RunDirectory) -> LoadedRun:
    return dashboards.load(whole_run.path)


def test_there_is_a_row_a_declared_trial_with_the_ledgers_numbers(loaded: LoadedRun, whole_run: RunDirectory) -> None:
    records = Ledger(whole_run.ledger).read()
    table = loaded.trials.set_index("trial_id")
    assert len(table) == len(records) == sum(len(cell.trials) for cell in expand(whole_run.read_spec()))
    assert table.index.is_unique
    for record in records:
        row = table.loc[record.trial_id]
        config = record.trial_config
        assert (row.m, row.lr, row.seed, row["T"]) == (config.width, config.optimizer.lr, config.seed, config.task.T)
        assert (row.relative_loss, row.steps, row.status) == (record.relative_loss, record.steps, record.status)
        assert row.solved == (record.relative_loss is not None and record.relative_loss <= 0.1)
    assert str(table.finished_at.dtype).startswith("datetime64")


def test_there_is_a_row_a_threshold(loaded: LoadedRun) -> None:
    table = loaded.thresholds.set_index("cell_id")
    for threshold in loaded.findings.thresholds:
        row = table.loc[threshold.cell_id]
        assert (row.m_star, row.low, row.high, row["M"]) == (threshold.m_star, threshold.low, threshold.high, threshold.M)
    assert {"b", "c", "gamma", "s"} <= set(loaded.laws.parameter)


def test_there_is_a_row_a_measurement(make_run: MakeRun, fully_connected: dict[str, Any]) -> None:
    base = fully_connected["base"] | {"evaluation": {"every": 500, "q_test": [1]}}
    run = make_run(trials=[fully_connected | {"base": base, "seeds": 1}])
    table = dashboards.load(run.path).measurements
    curves, metrics = read_curves(run), read_metrics(run)
    for trial_id, (steps, losses) in curves.items():
        own = table[(table.trial_id == trial_id) & (table.metric == "relative_loss")]
        np.testing.assert_array_equal(own.step, steps)
        np.testing.assert_array_equal(own.value, losses)
    of_metrics = sum(len(steps) for named in metrics.values() for steps, _ in named.values())
    assert len(table) == sum(len(steps) for steps, _ in curves.values()) + of_metrics
    assert "loss@q=1" in set(table.metric)


def test_a_run_in_progress_tells_what_waits_and_what_trains(make_run: MakeRun, fill: Callable[..., None]) -> None:
    run = make_run(keep=lambda place: place % 2 == 0)
    ended = len(Ledger(run.ledger).read())
    lines = run.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:-3]))
    loaded = dashboards.load(run.path)
    counts = loaded.trials.status.value_counts()
    assert (counts["finished"], counts["training"]) == (ended - 3, 3)
    assert counts["waiting"] == len(loaded.trials) - ended
    assert set(loaded.measurements.trial_id) >= set(loaded.trials.trial_id[loaded.trials.status == "training"])
    assert loaded.trials.solved.isna().sum() == counts["training"] + counts["waiting"]
    fill(run, run.read_spec())
    assert set(dashboards.load(run.path).trials.status) == {"finished"}


def test_a_run_with_nothing_yet_has_empty_tables_and_figures_that_say_so(make_run: MakeRun) -> None:
    loaded = dashboards.load(make_run(keep=lambda place: False).path)
    assert set(loaded.trials.status) == {"waiting"}
    assert loaded.thresholds.empty
    assert loaded.laws.empty
    assert loaded.measurements.empty
    for figure in (loaded.plot_thresholds(), loaded.plot_losses(), loaded.plot_curves()):
        assert figure.layout.annotations[0].text == "nothing to draw yet"
    assert "0 of 144 trials ended" in loaded._repr_html_()


def test_axes_in_which_cells_differ_are_columns(make_run: MakeRun, attention: dict[str, Any]) -> None:
    grid = {"model.positions.query": ["dual", "sum"]}
    loaded = dashboards.load(make_run(trials=[attention | {"grid": grid, "seeds": 1}]).path)
    for table in (loaded.trials, loaded.thresholds, loaded.laws):
        assert set(table["model.positions.query"]) == {"dual", "sum"}


def test_figures_are_plotlys_and_show_every_cell(loaded: LoadedRun) -> None:
    titles = [annotation.text for annotation in loaded.plot_losses().layout.annotations]
    assert {"Transformer, T = 16", "FCN, T = 4"} <= set(titles)
    losses = loaded.plot_losses()
    dots = [trace for trace in losses.data if trace.mode == "markers"]
    assert len(dots) == len(loaded.thresholds)
    assert sum(len(trace.x) for trace in dots) == len(loaded.trials)
    assert {shape.yref for shape in losses.layout.shapes} >= {"y", "y2", "y8"}
    marks = [trace for trace in loaded.plot_thresholds().data if trace.mode == "markers" and trace.error_y.array is not None]
    np.testing.assert_allclose(sorted(y for trace in marks for y in trace.y), sorted(loaded.thresholds.m_star), rtol=1e-5)
    for figure in (loaded.plot_thresholds(), losses, loaded.plot_curves()):
        assert {PLOTLY, "image/png", "text/html"} == figure._repr_mimebundle_().keys()


def test_it_shows_itself_with_what_a_user_wrote_as_text(make_run: MakeRun) -> None:
    loaded = dashboards.load(make_run(title="<script>alert(1)</script>").path)
    assert "&lt;script&gt;" in loaded._repr_html_()
    assert "<script>" not in loaded._repr_html_()
    assert "144 trials ended" in repr(loaded)


def test_looking_writes_nothing(make_run: MakeRun) -> None:
    run = make_run()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    loaded = dashboards.load(str(run.path))
    assert not loaded.trials.empty
    assert not loaded.measurements.empty
    loaded.plot_curves()
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_what_is_no_run_and_a_missing_pandas_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="does not exist"):
        dashboards.load(tmp_path / "nowhere")
    monkeypatch.setattr("dashboards.boards.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pandas, which is not installed: pip install 'stsq\[notebooks\]'"):
        dashboards.load(tmp_path)


def test_tables_survive_a_round_trip_through_csv(loaded: LoadedRun, tmp_path: Path) -> None:
    loaded.trials.to_csv(tmp_path / "trials.csv", index=False)
    again = pd.read_csv(tmp_path / "trials.csv", float_precision="round_trip")  # the default of pandas 3.1
    np.testing.assert_array_equal(again.relative_loss, loaded.trials.relative_loss)


@pytest.mark.slow
def test_tables_are_written_as_parquet_and_read_back(whole_run: RunDirectory, tmp_path: Path) -> None:
    loaded = dashboards.load(whole_run.path)
    paths = loaded.to_parquet(tmp_path / "tables")
    assert [path.stem for path in paths] == ["trials", "packs", "thresholds", "laws", "measurements"]
    trials = pd.read_parquet(paths[0])
    assert trials["relative_loss"].tolist() == pytest.approx(loaded.trials["relative_loss"].tolist())
    assert list(trials.columns) == list(loaded.trials.columns)
    assert len(pd.read_parquet(paths[1])) == len(loaded.packs)
