"""The results as the command prints them: rows and laws of different cells never look alike."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import scale
import yaml
from rich.console import Console

from cluster.commands import results
from cluster.commands.results import notes, show_findings, show_run, show_verdicts
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.claim_results import ClaimSetting, Verdict
from sweeps.findings.run_findings import read_findings
from sweeps.laws.comparison import compare_laws
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import LedgerRecord, record_of_result
from sweeps.thresholds.thresholds import width_thresholds

MakeTrial = Callable[..., TrialConfig]


def shown(records: list[LedgerRecord]) -> list[str]:
    """The lines that `show_run` prints of some records."""
    text = io.StringIO()
    thresholds = width_thresholds(records, Criterion(target_loss=0.5))
    show_run(Console(file=text, width=150), records, thresholds, compare_laws(thresholds), run="runs/x")
    return [line.strip() for line in text.getvalue().splitlines()]


def records_of(*configs: TrialConfig) -> list[LedgerRecord]:
    """A ledger in which the loss falls as one over the width."""
    results = [TrialResult(config, "finished", 10 / config.width, 0.01, config.training.steps, 0.1) for config in configs]
    return [record_of_result(result, pack_id="p", device="cpu") for result in results]


@pytest.fixture
def cells(transformer: MakeTrial) -> Callable[..., list[LedgerRecord]]:
    """Records of cells at two T, with fields as `transformer` takes them."""

    def make(**fields: object) -> list[LedgerRecord]:
        grid = [(T, d_e, seed) for T in (12, 24) for d_e in (8, 30) for seed in (0, 1)]
        return records_of(*(transformer(T=T, d_e=d_e, seed=seed, **fields) for T, d_e, seed in grid))

    return make


def test_cells_that_differ_in_query_and_steps_have_a_column_for_each(cells: Callable[..., list[LedgerRecord]]) -> None:
    lines = shown([*cells(), *cells(model__positions__query="sum"), *cells(model__positions__query="sum", training__steps=30)])
    assert lines[0].split()[:7] == ["architecture", "T", "q", "d", "query", "steps", "m*"]
    rows = [tuple(line.split()[:6]) for line in lines if line.startswith("transformer ") and ":" not in line]
    assert len(set(rows)) == len(rows) == 6
    assert ("transformer", "12", "3", "2", "sum", "30") in rows
    laws = [line.partition(": ")[0] for line in lines if ": Undecided: 2 cells are too few" in line]
    assert sorted(laws) == [
        "transformer query=dual steps=20",
        "transformer query=sum steps=20",
        "transformer query=sum steps=30",
    ]


def test_what_no_cell_differs_in_has_no_column(cells: Callable[..., list[LedgerRecord]]) -> None:
    lines = shown(cells())
    assert lines[0].split()[:6] == ["architecture", "T", "q", "d", "m*", "M"]
    assert "exact bound" not in lines[0]
    assert any(line.startswith("transformer: Undecided") for line in lines)
    assert any(line.startswith("m = d + b q ln T  ") and "b = " in line for line in lines)


def test_laws_of_two_architectures_name_them(cells: Callable[..., list[LedgerRecord]], fcn: MakeTrial) -> None:
    nets = records_of(*(fcn(T=T, width=width, seed=seed) for T in (4, 8) for width in (8, 30) for seed in (0, 1)))
    lines = shown([*cells(), *nets])
    assert lines[0].split()[:6] == ["architecture", "T", "q", "d", "m*", "M"]
    assert "exact bound" in lines[0]
    heads = [place for place, line in enumerate(lines) if ": Undecided" in line]
    assert [lines[place].partition(":")[0] for place in heads] == ["transformer", "fcn"]
    for own in (lines[heads[0] : heads[1]], lines[heads[1] :]):  # every law is tried on both
        assert {"m = d + b q ln T", "m = c (T d)^gamma"} <= {line.partition("  ")[0] for line in own}


def test_a_verdict_says_whose_value_it_compares_with_and_why_seeds_are_too_few() -> None:
    settings = (
        ClaimSetting((("task.T", 12),), 1.227, 1.161, 1.545, 3, "not enough data", "3 seeds give an interval of at most 75%"),
        ClaimSetting((("task.T", 16),), 1.1, 1.05, 1.2, 5, "holds"),
    )
    verdict = Verdict("near", "It is near.", "m* over 9 (our run, docs/attention.md)", "within a factor of 1.25", settings)
    text = io.StringIO()
    show_verdicts(Console(file=text, width=150), [verdict], level=0.9)
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert lines == [
        "NOT ENOUGH DATA: It is near.",
        "m* over 9 (our run, docs/attention.md), within a factor of 1.25",
        "setting value 90% interval seeds answer",
        "T = 12 1.227 1.161 to 1.545 3 not enough data: 3 seeds give an interval of at most 75%",
        "T = 16 1.1 1.05 to 1.2 5 holds",
    ]


def test_of_many_cells_the_first_are_shown_in_lines_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "SHOWN_CELLS", 30)
    sweep, run, text = tmp_path / "cells.yaml", tmp_path / "run", io.StringIO()
    sweep.write_text(yaml.safe_dump(scale.many_cells(40)))
    assert scale.write_run(sweep, run) == 240
    show_findings(Console(file=text, width=200), read_findings(run))
    lines = text.getvalue().splitlines()
    assert lines[31] == f"and 10 more cells; `stsq report {run}` writes all to {run}/report/thresholds.csv"
    assert sum(line.startswith("transformer ") and ":" not in line for line in lines) == 30
    assert max(map(len, lines)) <= 500


def test_a_note_names_as_many_cells_as_fit_on_a_line_and_counts_the_others() -> None:
    cells = [SimpleNamespace(label=f"{place:099d}", note="wide" if place else "") for place in range(1101)]
    [line] = notes(cells)  # type: ignore[arg-type]
    assert line == f"{1:099d}, {2:099d}, {3:099d} and 1,097 more cells: wide"
    assert notes(cells[:4]) == [f"{1:099d}, {2:099d}, {3:099d}: wide"]  # type: ignore[arg-type]
