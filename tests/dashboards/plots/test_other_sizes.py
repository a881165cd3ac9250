"""Thresholds that are not of the width: tables, laws and panels name what they are of, whatever the architecture is called."""

import csv
import io
import json
import math

import pytest

from dashboards.boards.documents import laws_words, thresholds_table
from dashboards.paper.tables import thresholds_csv, thresholds_json, thresholds_latex, trials_csv
from dashboards.plots.charts_of_thresholds import threshold_charts
from dashboards.words.law_words import fitted_formula, plain_formula
from dashboards.words.style import mark_shape, series_shade, tick_words
from dashboards.words.threshold_words import star_words
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.regimes import regimes_of
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import LedgerRecord, record_of_result
from sweeps.thresholds.thresholds import WidthThreshold, width_thresholds

MODELS = (
    {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 9}},
    {"kind": "fcn", "width": 16},
    {"kind": "fcn", "width": 16, "depth": 3},
)


def counted(model: dict[str, object], T: int, seed: int) -> LedgerRecord:
    config = TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": T, "q": 2, "d": 2},
            "model": model,
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"steps": 4000, "batch_size": 10},
            "evaluation": {"every": 10, "target": 0.5},
            "seed": seed,
        }
    )
    samples = 100.0 * (20 + 8 * round(math.log(T)) + seed) if model["kind"] == "transformer" else 100.0 * (T + seed)
    result = TrialResult(config, "finished", 0.4, 0.01, 4000, 1.0, metrics={"samples_to_target": samples})
    return record_of_result(result, pack_id="0" * 16, device="cpu")


@pytest.fixture(scope="module")
def records() -> list[LedgerRecord]:
    return [counted(model, T, seed) for model in MODELS for T in (8, 16, 32, 64, 128) for seed in range(5)]


@pytest.fixture(scope="module")
def thresholds(records: list[LedgerRecord]) -> tuple[WidthThreshold, ...]:
    return width_thresholds(records, Criterion(of="samples", target_loss=0.5))


def test_tables_say_what_the_thresholds_are_of(thresholds: tuple[WidthThreshold, ...], records: list[LedgerRecord]) -> None:
    rows = list(csv.DictReader(io.StringIO(thresholds_csv(thresholds))))
    assert {row["of"] for row in rows} == {"samples"}
    assert {row["bound"] for row in rows} == {""}  # the exact floor is one of the width
    latex = thresholds_latex(thresholds, [one.comparison for one in regimes_of(thresholds) if one.comparison])
    assert r"$n^*$ & least $n$" in latex
    assert "$n = " in latex
    assert "$m" not in latex
    assert "n = c T^gamma" in {row["formula"] for row in json.loads(_json(thresholds))["laws"]}
    assert next(csv.DictReader(io.StringIO(trials_csv(records))))["width"] == "11"


def _json(thresholds: tuple[WidthThreshold, ...]) -> str:
    return thresholds_json(thresholds, [one.comparison for one in regimes_of(thresholds) if one.comparison])


def test_one_panel_holds_all_architectures_with_a_line_each(thresholds: tuple[WidthThreshold, ...]) -> None:
    (chart,) = threshold_charts(regimes_of(thresholds))
    assert (chart.x.label.text, chart.y.label.text) == ("T", "samples to the target n*")
    assert chart.title == "Transformer and fully connected net"
    names = [marks.name.text.removesuffix(", 90% interval") for marks in chart.marks]
    assert len(set(names)) == 3
    assert {"Fully connected net, depth = 2", "Fully connected net, depth = 3"} < set(names)
    assert [line.role for line in chart.lines] == ["law"] * 3


def test_the_laws_are_those_of_a_letter(thresholds: tuple[WidthThreshold, ...]) -> None:
    regime = next(one for one in regimes_of(thresholds) if one.kind == "fcn")
    assert regime.comparison is not None
    law = regime.comparison.law("log_power_T")
    assert law is not None
    assert plain_formula(law).text == "c (ln T)^gamma"
    assert fitted_formula(law).tex.count(r"(\ln T)^{") == 1
    assert regime.rival is None
    (line, *_) = laws_words([regime]).splitlines()
    assert line.startswith("- Fully connected net: n\\* = `")
    assert thresholds_table(thresholds).startswith("| architecture | cell | n* | ")


def test_architectures_without_a_look_of_their_own_have_one() -> None:
    assert mark_shape("somebodys_model") == "diamond"
    assert series_shade("somebodys_model", 5) != series_shade("transformer", 5)


def test_large_numbers_are_short() -> None:
    assert [tick_words(value) for value in (0.1, 24, 30_000, 3e6)] == ["0.1", "24", "30k", "3M"]
    assert [star_words(value) for value in (12.345, 1280.0, None)] == ["12.35", "1280", ""]
