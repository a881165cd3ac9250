"""Laws at the terminal: every law with its place, held-out cells beside their predictions, predictions for any task."""

import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from cluster.commands import law_results
from cluster.commands.law_results import read_task, show_laws, show_predictions
from stsq_core import TrialConfig, TrialResult, UserError
from stsq_core.configs.task import Stsq
from sweeps.laws.comparison import LawComparison, compare_laws
from sweeps.schema.law_settings import LawSettings
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import record_of_result
from sweeps.thresholds.thresholds import WidthThreshold, width_thresholds

MakeTrial = Callable[..., TrialConfig]


@pytest.fixture
def thresholds(transformer: MakeTrial) -> tuple[WidthThreshold, ...]:
    """Thresholds at d + 2.5 q ln T, a little off for each seed; `transformer` has q = 3."""
    records = []
    for T in (12, 24, 48, 96, 192):
        for seed in range(5):
            place = (2 + 2.5 * 3 * math.log(T)) * math.exp(0.03 * (seed - 2))
            for d_e in (8, 16, 24, 32, 48, 64):
                config = transformer(T=T, d_e=d_e, seed=seed)
                records.append(record_of_result(TrialResult(config, "finished", 0.1 * (place / config.width) ** 4, 0.001, 20, 0.1), pack_id="p", device="cpu"))  # fmt: skip  # noqa: E501
    return width_thresholds(records, Criterion())


def printed(show: Callable[..., None], *arguments: object) -> list[str]:
    text = io.StringIO()
    show(Console(file=text, width=170), *arguments)
    return text.getvalue().splitlines()


def compared(thresholds: tuple[WidthThreshold, ...], *held_out: int) -> tuple[LawComparison, ...]:
    return compare_laws(thresholds, LawSettings(held_out=({"task.T": list(held_out)},)) if held_out else None)


def test_every_law_has_a_line_with_its_place(thresholds: tuple[WidthThreshold, ...]) -> None:
    comparisons = compared(thresholds)
    lines = printed(show_laws, comparisons, thresholds)
    assert lines[0] == f"transformer: {comparisons[0].conclusion}"
    assert lines[1] == f"  {comparisons[0].naming}"
    for law, line in zip(comparisons[0].laws, lines[3:], strict=False):
        assert line.strip().startswith(law.formula)
        assert f"{law.loo_error:.1%}" in line


def test_families_are_compared_at_once(thresholds: tuple[WidthThreshold, ...]) -> None:
    """The same thresholds with another optimizer, a tenth larger."""
    others = []
    for own in thresholds:
        config = own.config_sample.model_dump(mode="json") | {"optimizer": {"kind": "gd", "lr": 1.0}}
        sample, m_star = TrialConfig.model_validate(config), 1.1 * (own.m_star or math.nan)
        cell_id, shift = f"{int(own.cell_id, 16) ^ 1:016x}", own.replicates + math.log(1.1)
        others.append(replace(own, config_sample=sample, cell_id=cell_id, m_star=m_star, replicates=shift))
    lines = printed(show_laws, compare_laws([*thresholds, *others]), [*thresholds, *others])
    head, ratio = (line for line in lines if "families: " in line or "over b at" in line)
    assert head.startswith(
        "transformer, 2 families: The 2 families do not share b of m = d + b q ln T: it differs by optimizer.kind."
    )
    assert ratio.startswith("  b at optimizer.kind = gd over b at adam: 1.11 (")


def test_of_many_families_and_held_out_cells_the_first_are_told(
    thresholds: tuple[WidthThreshold, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(law_results, "SHOWN_FAMILIES", 2)
    monkeypatch.setattr(law_results, "SHOWN_HELD_OUT", 1)
    comparisons = compared(thresholds, 96, 192)
    lines = printed(show_laws, comparisons * 4, thresholds)
    assert sum(line.startswith("  held out, T=96") for line in lines) == 2
    assert not [line for line in lines if "held out, T=192" in line]
    assert lines.count("  and 1 more held-out cells; `stsq show RUN --json` prints all") == 2
    assert "and 2 more families; `stsq show RUN --json` prints all" in lines


def test_held_out_cells_are_told_with_their_prediction(thresholds: tuple[WidthThreshold, ...]) -> None:
    (line,) = [line for line in printed(show_laws, compared(thresholds, 192), thresholds) if "held out" in line]
    assert line.startswith("  held out, T=192 q=3 d=2: predicted ")
    assert line.endswith(": intervals overlap")


def test_of_too_few_cells_a_law_with_an_interval_predicts(thresholds: tuple[WidthThreshold, ...]) -> None:
    comparisons = compare_laws([*thresholds[:2], thresholds[4]], LawSettings(held_out=({"task.T": 192},)))
    (line,) = [line for line in printed(show_laws, comparisons, thresholds) if "held out" in line]
    assert "no interval" not in line


def test_every_law_predicts_a_task(thresholds: tuple[WidthThreshold, ...]) -> None:
    comparisons = compared(thresholds)
    lines = printed(show_predictions, comparisons, thresholds, [Stsq(T=384, q=3, d=2)])
    attention = comparisons[0].law("attention")
    assert attention is not None
    (line,) = [line for line in lines if line.startswith("  m = d + b q ln T ")]
    assert f"{attention.predict(T=384, q=3, d=2):.1f} (" in line
    assert line.rstrip().endswith(" best, named")
    assert lines[1] == f"  Named law: m = d + b q ln T ({comparisons[0].reason})."
    assert "m* of a new cell, 90% interval" in lines[2]
    assert not any("assumed" in line for line in lines)
    elsewhere = printed(show_predictions, comparisons, thresholds, [Stsq(T=384, q=3, d=8)])
    assert elsewhere[-1] == "  all cells have d = 2: how m* grows with d is assumed here, not measured"


def test_nothing_found_predicts_nothing() -> None:
    with pytest.raises(UserError, match=r"no law was fitted to this run, .*: it has no threshold that was found$"):
        printed(show_predictions, (), (), [Stsq(T=8, q=2, d=2)])


def otherwise(threshold: WidthThreshold) -> WidthThreshold:
    """The same threshold by another optimizer."""
    config = threshold.config_sample.model_dump(mode="json") | {"optimizer": {"kind": "gd", "lr": 1.0}}
    cell_id = f"{int(threshold.cell_id, 16) ^ 1:016x}"
    return replace(threshold, config_sample=TrialConfig.model_validate(config), cell_id=cell_id)


def test_why_no_law_was_fitted_is_told(thresholds: tuple[WidthThreshold, ...]) -> None:
    first, second = thresholds[0], otherwise(thresholds[0])
    only = LawSettings(held_out=({"task.T": 12},))
    for own, settings, reason in (
        ([first, second], None, "2 thresholds were found, all at T = 12, q = 3, d = 2; a law of growth needs cells of several"),
        ([first, otherwise(thresholds[1])], None, "2 thresholds were found, and no two cells differ in T, q and d alone, as a"),
        ([first], only, "1 threshold was found, and laws.held_out holds it out of the fits"),
    ):
        assert not compare_laws(own, settings)
        with pytest.raises(UserError, match=f"so nothing can be predicted: {reason}"):
            printed(show_predictions, (), own, [Stsq(T=8, q=2, d=2)], settings)


def test_a_task_is_read_or_refused() -> None:
    assert read_task("d=4, T=512,q=3") == Stsq(T=512, q=3, d=4)
    for text in ("T=512,q=3", "T=512,q=3,d=4,d=5", "T=512,q=3,d=x", "T=512,q=3,m=4", "", "T=8,q=9,d=2", "T=8,q=2,d=0"):
        with pytest.raises(UserError, match=r"--at"):
            read_task(text)
