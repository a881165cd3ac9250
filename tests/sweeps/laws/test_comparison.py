"""Which law: the right one where the data tell, undecided where they do not; every law on both; held-out cells predicted."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from stsq_core.configs.trial import TrialConfig
from sweeps.laws.comparison import LawComparison, compare_laws, standing_beside
from sweeps.laws.formulas import LAWS
from sweeps.schema.law_settings import LawSettings
from sweeps.thresholds.thresholds import WidthThreshold

Make = Callable[..., WidthThreshold]
Formula = Callable[[float], float]


def log_law(T: float) -> float:
    return 4 + 2.5 * 3 * math.log(T)


def line(T: float) -> float:
    return 1.05 * T * 4 * (1 - 0.1 * (T - 1) / (T - 3))


def recurrent(*, T: int, q: int, d: int) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": T, "q": q, "d": d},
            "model": {"kind": "rnn", "width": 8},
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"steps": 100},
            "seed": 0,
        }
    )


@pytest.fixture
def compared(threshold: Make, transformer: Callable[..., object], fcn: Callable[..., object]) -> Callable[..., LawComparison]:
    """The comparison for cells of one q and d at `formula(T)`, off by `scatter` a cell and 3% a seed."""

    def make(
        formula: Formula, lengths: tuple[int, ...], *, kind: str = "transformer", scatter: float = 0.01, stream: int = 0,
        held_out: tuple[int, ...] = (), **fields: object,
    ) -> LawComparison:  # fmt: skip
        draw = np.random.default_rng(stream)
        config = {"transformer": transformer, "fcn": fcn, "rnn": recurrent}[kind]
        printed = [
            threshold(
                config(T=T, q=3, d=4, **fields), (formula(T) * np.exp(scatter * draw.normal() + 0.03 * draw.normal(size=5)))
            )
            for T in (*lengths, *held_out)
        ]
        settings = LawSettings(held_out=({"task.T": list(held_out)},)) if held_out else None
        (comparison,) = compare_laws(printed, settings)
        return comparison

    return make


@pytest.mark.slow
def test_the_right_law_wins_where_the_cells_tell(compared: Callable[..., LawComparison]) -> None:
    lengths, wins = (16, 32, 64, 128, 256, 512, 1024, 2048), 0
    for stream in range(12):
        attention = compared(log_law, lengths, stream=stream)
        wins += attention.best is not None and attention.best.name == "attention"
        assert attention.standing(attention.law("fcn_line")) == "ruled out"  # type: ignore[arg-type]
        assert "td_power" not in {law.name for law in attention.rivals()}
        net = compared(line, (8, 12, 16, 24, 32, 48, 64, 96), kind="fcn", stream=stream)
        wins += net.best is not None and net.best.name == "fcn_line"
        assert net.standing(net.law("attention")) == "ruled out"  # type: ignore[arg-type]
    assert wins >= 22


def test_every_law_is_tried_on_both_architectures(compared: Callable[..., LawComparison]) -> None:
    both = compared(log_law, (16, 32, 64, 128, 256)), compared(line, (8, 16, 32, 64, 96), kind="fcn")
    first, second = ({law.name for law in comparison.laws} for comparison in both)
    assert first == second >= {"attention", "attention_ratio", "td_power", "fcn_line", "excess_power", "attention_offset"}
    assert [comparison.named.name for comparison in both if comparison.named] == ["attention", "td_power"]


def test_an_architecture_without_a_theory_may_not_grow_at_all(compared: Callable[..., LawComparison]) -> None:
    lengths = (8, 16, 32, 64, 128, 256)
    narrow, wide = (compared(lambda _, m=m: m, lengths, kind="rnn") for m in (3.0, 9.0))
    assert narrow.best is not None
    assert narrow.best.name == wide.best.name == "constant"  # type: ignore[union-attr]
    # A law that begins at d = 4 cannot pass through thresholds of 3.
    assert not {"attention", "attention_ratio", "excess_power"} & {law.name for law in narrow.laws}
    assert {"attention", "excess_power", "fcn_line"} < {law.name for law in wide.laws}


def test_the_power_separates_the_architectures(compared: Callable[..., LawComparison]) -> None:
    attention = compared(log_law, (16, 32, 64, 128, 256)).law("td_power")
    net = compared(line, (8, 16, 32, 64, 96), kind="fcn").law("td_power")
    assert attention is not None
    assert net is not None
    assert attention.parameters["gamma"].high < 0.5
    assert 0.85 < net.parameters["gamma"].low <= net.parameters["gamma"].high < 1.2
    assert "gamma is the power of T alone" in attention.note


def test_few_or_noisy_cells_leave_it_undecided(compared: Callable[..., LawComparison]) -> None:
    few = compared(log_law, (16, 32, 64))
    assert few.best is None
    assert few.conclusion.startswith("Undecided: 3 cells are too few")
    assert "errs least" in few.conclusion
    assert {few.standing(law) for law in few.laws} == {"too few cells"}
    noisy = compared(log_law, (16, 20, 24, 28, 32, 40), scatter=0.25, stream=3)
    assert noisy.rivals()
    assert noisy.conclusion.startswith("Undecided: 6 cells do not tell")


def test_a_richer_law_that_fits_as_well_is_not_called_wrong(compared: Callable[..., LawComparison]) -> None:
    comparison = compared(line, (8, 12, 16, 24, 32, 48), kind="fcn")
    power = comparison.law("td_power")
    assert power is not None
    assert comparison.delta(power) > 4
    assert comparison.standing(power) == "richer than needed"
    assert "as well, with more numbers" in comparison.conclusion


def test_the_best_law_with_a_further_number_does_not_leave_it_undecided(at_tasks: Callable[..., LawComparison]) -> None:
    comparison = at_tasks(MANY, lambda T, q, d: d + 2.5 * q * math.log(T))
    factor = comparison.law("attention_factor")
    assert factor is not None
    assert 0 < comparison.delta(factor) < 4
    assert comparison.standing(factor) == "richer than needed"
    assert comparison.conclusion.startswith(
        "m = d + b q ln T is enough; m = a d + b q ln T and m = a d + b q ln T + c fit as well, with"
    )


def test_a_law_that_fits_far_better_is_not_beaten_by_the_charge_for_its_numbers(compared: Callable[..., LawComparison]) -> None:
    """Five cells: AICc charges so much for a second number that the constant is often first where thresholds grow."""
    firsts = set()
    for stream in range(8):
        grown = compared(lambda T: 1.1 * T**0.2, (16, 32, 64, 128, 256), kind="rnn", scatter=0.08, stream=stream)
        firsts.add(grown.laws[0].name)
        assert "m = c is enough" not in grown.conclusion
        assert grown.named is not None
        assert grown.named.name != "constant"
    assert "constant" in firsts


def test_the_least_aicc_comes_first_and_is_penalised_for_every_number(compared: Callable[..., LawComparison]) -> None:
    comparison = compared(log_law, (16, 32, 64, 128, 256, 512))
    deltas = [comparison.delta(law) for law in comparison.laws]
    assert deltas[0] == 0
    assert deltas == sorted(deltas)
    for law in comparison.laws:
        k, n = len(law.numbers) + 1, 6
        assert law.aicc == pytest.approx(2 * k - 2 * law.fit.log_likelihood + 2 * k * (k + 1) / (n - k - 1))


def test_a_held_out_cell_enters_no_fit_and_is_predicted(compared: Callable[..., LawComparison]) -> None:
    lengths = (16, 32, 64, 128)
    comparison = compared(log_law, lengths, held_out=(256,))
    law = comparison.named
    assert law is not None
    assert [point.task.T for point in law.points] == list(lengths)
    assert law.parameters == compared(log_law, lengths).named.parameters  # type: ignore[union-attr]
    (prediction,) = comparison.predictions(law)
    assert prediction.task.T == 256
    assert prediction.predicted.low < log_law(256) < prediction.predicted.high
    assert prediction.error == pytest.approx(prediction.m_star / prediction.predicted.value - 1)  # type: ignore[operator]
    assert abs(prediction.error) < 0.1
    assert prediction.agrees


def test_a_prediction_that_fails_says_so(compared: Callable[..., LawComparison]) -> None:
    comparison = compared(lambda T: log_law(T) if T < 200 else 3 * log_law(T), (16, 32, 64, 128), held_out=(256,))
    (prediction,) = comparison.predictions(comparison.named)  # type: ignore[arg-type]
    assert prediction.agrees is False
    assert prediction.error == pytest.approx(2, abs=0.4)


def test_a_censored_held_out_cell_has_no_error_but_may_agree(
    threshold: Make, transformer: Callable[..., object], compared: Callable[..., LawComparison]
) -> None:
    fitted = [threshold(transformer(T=T, q=3, d=4), [log_law(T) * f for f in (0.97, 1, 1.03)]) for T in (16, 32, 64, 128)]
    for widest, agrees in ((20, True), (200, False)):
        beyond = threshold(transformer(T=256, q=3, d=4), status="above_range", widths=(4, widest))
        (comparison,) = compare_laws([*fitted, beyond], LawSettings(held_out=({"task.T": 256},)))
        (prediction,) = comparison.predictions(comparison.named)  # type: ignore[arg-type]
        assert (prediction.m_star, prediction.error, prediction.agrees) == (None, None, agrees)


def test_laws_that_were_not_compared_are_not_ruled_out(compared: Callable[..., LawComparison]) -> None:
    comparison = compared(log_law, (16, 32, 64, 128))
    first, second, _ = comparison.conclusion.split(". ")
    assert first == "Of the laws that can be compared with 4 cells, m = d + b q ln T is best"
    assert second.startswith("All others of these are ruled out, the nearest, m = d + b q ln(T/q), by ")
    left = [law.formula for law in comparison.of_standing("too few cells")]
    assert comparison.conclusion.endswith(f"{left[0]}, {left[1]} and {left[2]} need 5 cells to be compared.")
    whole = compared(log_law, (16, 32, 64, 128, 256, 512), stream=1)
    assert not whole.of_standing("too few cells")
    assert "can be compared" not in whole.conclusion


def few_cells(compared: Callable[..., LawComparison], *, kind: str, formula: Formula) -> tuple[str, str]:
    comparison = compared(formula, (16, 32, 64, 128), kind=kind)
    assert comparison.named is not None
    return comparison.named.name, comparison.reason


def test_one_law_is_named_with_the_reason(compared: Callable[..., LawComparison]) -> None:
    assert few_cells(compared, kind="transformer", formula=log_law) == (
        "attention",
        "the theory's law; the best of those compared",
    )
    assert few_cells(compared, kind="fcn", formula=line) == (
        "fcn_line",
        "the best of those compared; the theory's law, m = c (T d)^gamma, needs 5 cells to be compared",
    )
    assert few_cells(compared, kind="fcn", formula=lambda T: 20 * T**0.7) == (
        "td_power",
        "the theory's law; it needs 5 cells to be compared, and the best of those compared,"
        " m = s T d (1 - r (T-1)/(T-q)), misfits",
    )
    few = compared(log_law, (16, 32, 64), scatter=0.0)
    assert (few.named, few.reason) == (few.law("attention"), "the theory's law; 3 cells are too few to compare it")
    richer = compared(line, (8, 12, 16, 24, 32, 48), kind="fcn")
    assert (richer.named, richer.reason) == (
        richer.law("td_power"),
        "the theory's law; not ruled out: it fits as well as the best, with more numbers",
    )
    beaten = compared(line, (8, 12, 16, 24, 32, 48))
    assert beaten.named is not None
    assert (beaten.named.name, beaten.reason) == (
        "fcn_line",
        "the best of those compared; the theory's law, m = d + b q ln T, is ruled out",
    )
    constant = compared(lambda _: 9.0, (8, 16, 32, 64, 128, 256), kind="rnn")
    assert (constant.named, constant.reason) == (constant.law("constant"), "the best of those compared")
    assert compared(lambda _: 9.0, (8, 16), kind="rnn").named is None


def test_a_misfit_is_part_of_the_conclusion_and_of_the_naming(compared: Callable[..., LawComparison]) -> None:
    off = {8: 0.95, 16: 1.07, 32: 0.95, 64: 1.07}
    bent = compared(lambda T: line(T) * off[int(T)], tuple(off), kind="fcn", scatter=0.0)
    best = "Of the laws that can be compared with 4 cells, m = s T d (1 - r (T-1)/(T-q)) is best, but it misfits: residuals "
    assert bent.conclusion.startswith(best)
    off = {12: 0.92, 48: 1.08, 192: 0.92, 768: 1.08}
    bent = compared(lambda T: log_law(T) * off[int(T)], tuple(off), scatter=0.0)
    assert "m = d + b q ln T misfits: residuals " in bent.conclusion
    assert ", it misfits: residuals " in bent.naming
    fits = compared(log_law, (16, 32, 64, 128), scatter=0.0)
    assert fits.naming.startswith(
        "Named law: m = d + b q ln T (the theory's law; the best of those compared). Test of its fit: p = "
    )
    assert ", no misfit shown at the level of 5%. Slope of the residuals, 90% interval: in ln T " in fits.naming


def test_what_is_not_reached_enters_no_law(threshold: Make, transformer: Callable[..., object]) -> None:
    """A threshold that is not reached is no bound; one above the widths tried is."""
    cells = [threshold(transformer(T=T, q=3, d=4), [log_law(T) * f for f in (0.97, 1, 1.03)]) for T in (16, 32, 64, 128)]
    (without,) = compare_laws(cells)
    beyond = {
        status: threshold(transformer(T=256, q=3, d=4), status=status, widths=(4, 80))
        for status in ("not_reached", "above_range")
    }
    failed = threshold(transformer(T=512, q=3, d=4), status="failed")
    (unmoved,) = compare_laws([*cells, beyond["not_reached"], failed])
    (moved,) = compare_laws([*cells, beyond["above_range"]])
    assert (unmoved.num_cells, moved.num_cells) == (4, 5)
    left_out = "1 cell in which the target was not reached is left out. 1 cell in which no trial gave a number is left out."
    assert unmoved.conclusion == f"{without.conclusion} {left_out}"
    assert "left out" not in moved.conclusion
    missed = [threshold(transformer(T=T, q=3, d=4), status="not_reached") for T in (256, 512, 1024)]
    (few,) = compare_laws([*cells[:2], *missed])
    assert few.conclusion.endswith(" 3 cells in which the target was not reached are left out.")
    assert [law.parameters for law in unmoved.laws] == [law.parameters for law in without.laws]
    assert moved.law("attention").parameters["b"].value > without.law("attention").parameters["b"].value * 1.02  # type: ignore[union-attr]
    (held,) = compare_laws([*cells, beyond["not_reached"]], LawSettings(held_out=({"task.T": 256},)))
    assert held.predictions(held.laws[0]) == ()
    assert "left out" not in held.conclusion


def test_censored_cells_alone_compare_no_law(threshold: Make, transformer: Callable[..., object]) -> None:
    """Two found cells and four above: six cells, of which no law of a number could be told from another."""
    found = [threshold(transformer(T=T, q=3, d=4), [log_law(T) * f for f in (0.97, 1, 1.03)]) for T in (16, 32, 64)]
    above = [threshold(transformer(T=T, q=3, d=4), status="above_range", widths=(4, 20)) for T in (128, 256, 512, 1024)]
    (two,) = compare_laws([*found[:2], *above])
    assert two.best is None
    assert two.conclusion.startswith("Undecided: 6 cells (4 censored) are too few to tell laws apart by AICc.")
    (three,) = compare_laws([*found, *above])
    assert three.conclusion.startswith("Of the laws that can be compared with 7 cells (4 censored), ")
    assert three.conclusion.endswith(" need 4 found thresholds to be compared.")


def test_a_law_is_not_named_that_passes_through_its_cells(compared: Callable[..., LawComparison]) -> None:
    two = compared(line, (8, 16), kind="fcn", scatter=0.0)
    assert (two.named, two.reason) == (
        two.law("fcn_line"),
        "2 cells are too few to compare laws; it predicts each cell best from the others; the theory's law, m = c (T d)^gamma,"
        " has no fewer numbers than thresholds",
    )
    single = compared(log_law, (16,))
    assert (single.named, single.reason, single.naming) == (None, "1 cell is too few to name a law", "")


def test_theory_expects_no_law_of_another_task_and_bounds_no_net_there(
    threshold: Make, fcn: Callable[..., TrialConfig]
) -> None:
    variance = {"kind": "moment", "order": 2, "about": "mean"}
    lengths = (6, 8, 12, 16, 24)
    plain = [fcn(T=T, d=1) for T in lengths]
    told = [TrialConfig.model_validate(one.model_dump() | {"task": one.task.model_dump() | variance}) for one in plain]
    for configs, expected in ((plain, "td_power"), (told, None)):
        widths = [config.task.T * np.array([0.97, 0.99, 1.0, 1.01, 1.03]) for config in configs]
        (comparison,) = compare_laws([threshold(*pair) for pair in zip(configs, widths, strict=True)])
        assert comparison.expected == expected
        assert (comparison.law("fcn_line") is None) == (expected is None)
        assert ("theory" in comparison.reason) == (expected is not None)


def test_a_misfit_of_few_cells_is_told_with_what_is_undecided(compared: Callable[..., LawComparison]) -> None:
    bent = compared(lambda T: log_law(T) * {16: 1.0, 32: 1.3}[int(T)], (16, 32), scatter=0.0)
    assert bent.conclusion.startswith("Undecided: 2 cells are too few to tell laws apart by AICc. Predicting each cell ")
    assert bent.conclusion.endswith(" m = d + b q ln T misfits: residuals rise with T (p = 0.0012).")
    assert bent.reason == "the theory's law; 2 cells are too few to compare it, and it misfits"


def test_notes_name_the_laws_that_they_are_about(
    compared: Callable[..., LawComparison], threshold: Make, transformer: Callable[..., object]
) -> None:
    passing = ": no more thresholds than numbers: the fit passes through them and tests nothing"
    (note,) = [note for note in compared(log_law, (16, 32)).notes if passing in note]
    assert note.startswith("m = b q ln T + const, ")
    assert "m = d + b q ln T" not in note
    assert "m = s T d (1 - r (T-1)/(T-q)): r is the target loss, 0.1" in compared(log_law, (16, 32)).notes
    single = compared(log_law, (16,))
    assert "one cell gives no interval over cells" in single.notes
    cells = [threshold(transformer(T=16, q=3, d=4), [24.0, 25.0, 26.0])]
    cells.append(threshold(transformer(T=32, q=3, d=4), status="above_range", widths=(4, 20)))
    (censored,) = compare_laws(cells)
    assert not any("tests nothing" in note for note in censored.notes)
    assert "no more thresholds than numbers: no interval" in censored.notes


@pytest.mark.parametrize(
    ("delta", "worse", "is_nested", "standing"),
    [
        (math.nan, 0.0, False, "too few cells"),
        (3.9, 2.0, False, "as good"),
        (20.0, -4.1, False, "as good"),
        (2.0, -0.5, True, "richer than needed"),
        (20.0, 0.9, False, "richer than needed"),
        (20.0, 1.1, False, "less likely"),
        (9.0, 7.0, False, "less likely"),
        (20.0, 4.1, False, "ruled out"),
    ],
)
def test_the_standing_beside_the_best(delta: float, worse: float, is_nested: bool, standing: str) -> None:
    assert standing_beside(delta, worse, is_nested=is_nested) == standing


def test_no_law_that_misfits_is_said_to_fit_as_well(at_tasks: Callable[..., LawComparison]) -> None:
    """One threshold a fifth off: no smooth law fits, however many numbers it has."""
    tasks = [(12, q, 2) for q in (1, 2, 3, 4, 6)]
    comparison = at_tasks(tasks, lambda T, q, d: (2 + 2.5 * q * math.log(T)) * (0.8 if q == 3 else 1.0))
    law = comparison.law("attention_offset")
    assert law is not None
    assert law.test is not None
    assert law.test.misfits
    assert comparison.delta(law) > 10
    assert comparison.standing(law) == "less likely"
    assert "with more numbers" not in comparison.conclusion
    assert f"m = b q ln T + const (its AICc is {comparison.delta(law):.1f} larger) is less likely." in comparison.conclusion
    assert comparison.reason == "the theory's law; the best of those compared, but it misfits"


def test_all_others_are_ruled_out_only_where_the_rest_is_listed(compared: Callable[..., LawComparison]) -> None:
    """Every law is named in the conclusion, or ruled out."""
    for stream in range(6):
        for formula, lengths in ((log_law, (8, 16, 32, 64, 128)), (line, (8, 12, 16, 24, 32, 48))):
            comparison = compared(formula, lengths, stream=stream, scatter=0.02)
            for law in comparison.laws:
                assert law.formula in comparison.conclusion or comparison.standing(law) == "ruled out"


def test_families_are_compared_apart(threshold: Make, transformer: Callable[..., object]) -> None:
    def cells(b: float, **codes: object) -> list[WidthThreshold]:
        return [
            threshold(transformer(T=T, q=3, d=4, **codes), [(4 + b * 3 * math.log(T)) * f for f in (0.97, 1, 1.03)])
            for T in (16, 32, 64, 128)
        ]

    comparisons = compare_laws([*cells(2.0), *cells(3.0, redraw="never")])
    assert [round(one.named.parameters["b"].value, 6) for one in comparisons if one.named] == [2.0, 3.0]


@pytest.fixture
def at_tasks(threshold: Make, transformer: Callable[..., object]) -> Callable[..., LawComparison]:
    """The comparison for cells at `formula(T, q, d)` with seeds 3% off; d is measured with minibatches."""

    def make(tasks: list[tuple[int, int, int]], formula: Callable[..., float], objective: str = "minibatch") -> LawComparison:
        draw, printed = np.random.default_rng(1), []
        for T, q, d in tasks:
            config = transformer(T=T, q=q, d=d)
            config = config.model_copy(update={"training": config.training.model_copy(update={"objective": objective})})  # type: ignore[attr-defined]
            printed.append(threshold(config, formula(T, q, d) * np.exp(0.03 * draw.normal(size=8))))
        (comparison,) = compare_laws(printed)
        return comparison

    return make


ONE_D = [(T, 3, 4) for T in (8, 16, 32, 64, 128)]
ONE_T = [(12, 2, d) for d in (1, 2, 3, 4, 8, 12)]
MANY = [(T, q, d) for T in (8, 32, 128) for q in (2, 3) for d in (2, 8)]


@pytest.mark.parametrize(
    ("tasks", "kept", "others"),
    [
        (ONE_D, "td_power", "m = c T^gamma is the same function as m = c (T d)^gamma"),
        (ONE_D, "excess_power", "m = d + c q T^gamma is the same function as m = d + c T^gamma"),
        (ONE_T, "attention", "m = d + b q ln(T/q) is the same function as m = d + b q ln T"),
    ],
)
def test_laws_that_are_one_function_on_the_cells_are_told_once(
    at_tasks: Callable[..., LawComparison], tasks: list[tuple[int, int, int]], kept: str, others: str
) -> None:
    comparison = at_tasks(tasks, lambda T, q, d: d + 2.5 * q * math.log(T))
    law = comparison.law(kept)
    assert law is not None
    assert f"on these cells {others}" in law.note.split("; ")
    assert others.partition(" is the same")[0] not in {law.formula for law in comparison.laws}


def test_laws_that_differ_on_the_cells_are_all_told(at_tasks: Callable[..., LawComparison]) -> None:
    comparison = at_tasks(MANY, lambda T, q, d: d + 2.5 * q * math.log(T))
    assert {law.name for law in comparison.laws} == {law.name for law in LAWS} - {"attention_offset"}
    assert not any("same function" in law.note for law in comparison.laws)
    two = at_tasks([(8, 3, 4), (16, 3, 4)], lambda T, q, d: d + 2.5 * q * math.log(T))
    # Each passes through both cells; a power of T is (T d)^gamma there and between, with q or without.
    assert {"td_power", "excess_power", "attention_offset"} < {law.name for law in two.laws}
    assert not {"T_power", "excess_q_power"} & {law.name for law in two.laws}
    assert "on these cells m = d + c q T^gamma is the same function as m = d + c T^gamma" in two.notes
    apart = at_tasks([(8, 3, 4), (16, 4, 5)], lambda T, q, d: d + 2.5 * q * math.log(T))
    assert {"td_power", "T_power", "excess_power", "excess_q_power"} < {law.name for law in apart.laws}
    single = at_tasks([(8, 3, 4)], lambda T, q, d: d + 2.5 * q * math.log(T))
    assert {"attention", "attention_ratio", "fcn_line"} == {law.name for law in single.laws}


@pytest.mark.parametrize(("factor", "said"), [(1.0, "so 1 is not excluded."), (1.6, "so 1 is excluded.")])
def test_where_d_varies_its_factor_has_an_interval(at_tasks: Callable[..., LawComparison], factor: float, said: str) -> None:
    for tasks, formula in ((ONE_T, "m = a d + b q ln T: a = "), (MANY, " ln T")):
        comparison = at_tasks(tasks, lambda T, q, d: factor * d + 2.5 * q * math.log(T))
        law = comparison.law("attention_factor")
        assert law is not None
        assert law.parameters["a"].low < factor < law.parameters["a"].high
        assert law.parameters["a"].high - law.parameters["a"].low < 0.6
        assert "With a free factor of d, m = a d + b q ln T" in comparison.naming
        assert formula in comparison.naming
        assert comparison.naming.endswith(said)
    bent = at_tasks(MANY, lambda T, q, d: d + 2.5 * q * math.log(T) * (1.5 if q == 2 and T == 32 else 1.0))
    assert re.search(r"With a free factor of d, m = [^,]*, which (is [a-z ]* and )?misfits: a = ", bent.naming)
    assert "interval" in bent.naming
    few = at_tasks([(12, 2, 2), (12, 2, 4), (12, 2, 8), (12, 2, 16)], lambda T, q, d: d + 2.5 * q * math.log(T))
    assert "m = a d + b q ln T, which has too few cells to be compared: a = " in few.naming
    of_population = at_tasks(MANY, lambda T, q, d: d + 2.5 * q * math.log(T), "population")
    assert "factor of d" not in of_population.naming
