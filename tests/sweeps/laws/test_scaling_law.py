import math

import pytest

from stsq_core.oracles import theory
from sweeps.laws.cells import law_cells
from sweeps.laws.comparison import compare_laws
from sweeps.laws.formulas import ATTENTION, TD_POWER
from sweeps.laws.line_ratios import fcn_line
from sweeps.laws.scaling_law import fitted_law
from sweeps.schema.spec import Criterion
from sweeps.thresholds.thresholds import width_thresholds


@pytest.fixture
def attention_thresholds(transformer, record):
    """Thresholds of transformers at `d + b q ln T`, times a factor for each seed."""

    def make(b=2.5, spread=0.05, lengths=(16, 32, 64, 128), d=4, **codes):
        records = []
        for T in lengths:
            m = d + b * 3 * math.log(T)
            for seed in range(5):
                place = m * math.exp(spread * (seed - 2))
                for factor in (0.6, 0.8, 1.0, 1.25, 1.6):
                    d_e = round(m * factor) - d
                    records.append(record(transformer(d_e, T=T, d=d, seed=seed, **codes), 0.1 * (place / (d + d_e)) ** 5))
        return width_thresholds(records, Criterion())

    return make


@pytest.fixture
def fcn_thresholds(fcn, record):
    def make(c=1.1, gamma=0.95, lengths=(4, 8, 12, 16), factors=(0.6, 0.8, 1.0, 1.25, 1.6)):
        records = []
        for T in lengths:
            m = c * (2 * T) ** gamma
            for seed in range(5):
                place = m * math.exp(0.03 * (seed - 2))
                for width in sorted({round(m * factor) for factor in factors}):
                    records.append(record(fcn(width, T=T, seed=seed), 0.1 * (place / width) ** 5))
        return width_thresholds(records, Criterion())

    return make


def fit_attention_law(thresholds):
    return fitted_law(ATTENTION, law_cells(thresholds))


def fit_fcn_law(thresholds):
    return fitted_law(TD_POWER, law_cells(thresholds))


def test_b_is_recovered_with_an_interval_around_it(attention_thresholds):
    law = fit_attention_law(attention_thresholds())
    assert law.parameters["b"].value == pytest.approx(2.5, rel=1e-3)
    assert law.parameters["b"].low < 2.5 < law.parameters["b"].high
    assert law.largest_residual < 1e-3
    assert (law.num_cells, law.num_censored, law.note) == (4, 0, "")
    assert law.predict(T=64, d=4, q=3) == pytest.approx(4 + 2.5 * 3 * math.log(64), rel=1e-3)
    assert law.regime == "transformer random_sign/per_step/dual adam population"


def test_b_has_the_least_squared_log_residuals(attention_thresholds):
    thresholds = [*attention_thresholds(2.0, lengths=(16, 64)), *attention_thresholds(3.0, lengths=(32, 128))]
    law = fit_attention_law(thresholds)

    def squares(b):
        tasks = [one.config_sample.task for one in thresholds]
        return sum(
            (math.log(one.m_star) - math.log(task.d + b * task.q * math.log(task.T))) ** 2
            for one, task in zip(thresholds, tasks, strict=True)
        )

    best = law.parameters["b"].value
    assert squares(best) < min(squares(best * 1.001), squares(best * 0.999))
    residual = {point.task.T: point.relative_residual for point in law.points}
    assert residual[16] < 0 < residual[32]
    assert {point.relative_residual for point in law.points} == {
        point.m_star / law.predict(T=point.task.T, d=4, q=3) - 1 for point in law.points
    }


def test_the_power_law_of_t_d_is_recovered(fcn_thresholds):
    law = fit_fcn_law(fcn_thresholds())
    gamma, c = law.parameters["gamma"], law.parameters["c"]
    assert gamma.value == pytest.approx(0.95, rel=1e-3)
    assert c.value == pytest.approx(1.1, rel=1e-2)
    assert gamma.low < 0.95 < gamma.high
    assert law.predict(T=8, d=2, q=2) == pytest.approx(1.1 * 16**0.95, rel=1e-3)


def test_cells_that_disagree_widen_the_interval(attention_thresholds):
    agree = fit_attention_law(attention_thresholds()).parameters["b"]
    mixed = [*attention_thresholds(2.0, lengths=(16, 64)), *attention_thresholds(3.0, lengths=(32, 128))]
    disagree = fit_attention_law(mixed).parameters["b"]
    assert disagree.high - disagree.low > 2 * (agree.high - agree.low)


def test_censored_thresholds_count_by_their_side(fcn_thresholds):
    mixed = [*fcn_thresholds(lengths=(4, 8, 12)), *fcn_thresholds(lengths=(16, 20), factors=(0.7, 0.85))]
    law = fit_fcn_law(mixed)
    assert (law.num_cells, law.num_censored) == (3, 2)
    assert law.parameters["gamma"].value == pytest.approx(0.95, rel=1e-3)
    assert "2 censored thresholds count by the side on which they lie" in law.note


def test_too_few_cells_have_no_law_or_no_interval(attention_thresholds, fcn_thresholds):
    assert fit_attention_law([]) is None
    assert fit_fcn_law(fcn_thresholds(lengths=(8,))) is None
    law = fit_attention_law(attention_thresholds(lengths=(32,)))
    assert law.parameters["b"].value == pytest.approx(2.5, rel=1e-3)
    assert math.isnan(law.parameters["b"].low)
    assert "one cell gives no interval over cells" in law.note
    assert "tests nothing" in fit_fcn_law(fcn_thresholds(lengths=(8, 16))).note


def test_each_regime_has_its_own_law(attention_thresholds, fcn_thresholds):
    thresholds = [*attention_thresholds(2.0), *attention_thresholds(3.0, redraw="never"), *fcn_thresholds()]
    laws = [comparison.named for comparison in compare_laws(thresholds)]
    assert [law.name for law in laws] == ["attention", "attention", "fcn_line"]
    assert [round(law.parameters["b"].value, 2) for law in laws[:2]] == [2.0, 3.0]
    assert "differ in more than T, q and d" in fit_attention_law(thresholds[:8]).note


def test_either_law_can_be_tried_on_either_architecture(fcn_thresholds, attention_thresholds):
    assert fit_attention_law(fcn_thresholds()).largest_residual > 0.2
    assert fit_fcn_law(attention_thresholds()).parameters["gamma"].value < 0.4


def test_the_same_thresholds_give_the_same_interval(attention_thresholds):
    first, again = (fit_attention_law(attention_thresholds()) for _ in range(2))
    assert first.parameters == again.parameters


def test_measured_fcn_thresholds_over_the_exact_bound(fcn_thresholds, attention_thresholds):
    lines = fcn_line([*fcn_thresholds(), *attention_thresholds()])
    assert len(lines) == 4
    for one in lines:
        assert one.ratio == pytest.approx(one.m_star / one.bound)
        assert one.low <= one.ratio <= one.high
    assert lines[1].bound == pytest.approx(theory.fcn_width_bound(0.1, T=8, d=2, q=2))
