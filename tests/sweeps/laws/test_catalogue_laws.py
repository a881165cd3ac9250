"""Laws of thresholds shaped as the catalogue's sweeps search them, at a known truth: what a reader is told of each."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.cells import load_sweep
from sweeps.cells.expanded_sweep import searched_cells
from sweeps.laws.comparison import LawComparison, compare_laws
from sweeps.laws.families import compare_families
from sweeps.thresholds.thresholds import WidthThreshold

B = 2.4


def truth(config: TrialConfig) -> float:
    """d + b q ln T, with a larger b of gradient descent; the exact floor of nets times 1.03."""
    task = config.task
    if config.model.kind == "fcn":
        return 1.03 * theory.fcn_width_bound(0.1, T=task.T, d=task.d, q=task.q)
    return task.d + B * (1.15 if config.optimizer.kind == "gd" else 1.0) * task.q * math.log(task.T)


@pytest.fixture
def compared(threshold: Callable[..., WidthThreshold]) -> Callable[[str], tuple[LawComparison, ...]]:
    """The comparisons of a sweep's families, of thresholds with eight seeds 4% off."""

    def make(name: str) -> tuple[LawComparison, ...]:
        spec, draw = load_sweep(name), np.random.default_rng(1)
        samples = [cell.family.sample for cell in searched_cells(spec)]
        cells = [threshold(config, truth(config) * np.exp(0.04 * draw.normal(size=8))) for config in samples]
        return compare_laws(cells, spec.laws)

    return make


def test_width_vs_d_answers_whether_a_is_near_1(compared: Callable[[str], tuple[LawComparison, ...]]) -> None:
    (transformer,) = (one for one in compared("width_vs_d") if one.kind == "transformer")
    assert "attention" in {law.name for law in transformer.of_standing("best", "as good")}
    assert transformer.naming.startswith("Named law: m = d + b q ln T (the theory's law; ")
    assert "With a free factor of d, m = a d + b q ln T: a = " in transformer.naming
    assert transformer.naming.endswith(", so 1 is not excluded.")


def test_width_vs_t_and_q_name_the_law_of_theory(compared: Callable[[str], tuple[LawComparison, ...]]) -> None:
    for name, letter in (("width_vs_T", "T"), ("width_vs_q", "q")):
        comparisons = compared(name)
        for comparison in comparisons:
            assert comparison.named is not None
            if comparison.kind == "transformer":
                assert comparison.naming.startswith("Named law: m = d + b q ln T (the theory's law; ")
                of_slope = f", no misfit shown at the level of 5%. Slope of the residuals, 90% interval: in ln {letter} "
                assert of_slope in comparison.naming
        (families,) = (one for one in compare_families(comparisons) if one.kind == "transformer")
        assert families.conclusion.startswith("The 2 families have fewer than two (T, q, d) in common at which thresholds")


@pytest.mark.slow
def test_the_atlas_tells_by_what_b_differs(compared: Callable[[str], tuple[LawComparison, ...]]) -> None:
    comparisons = compared("atlas")
    named = {comparison.named.name for comparison in comparisons if comparison.named}
    assert named <= {"attention", "attention_factor", "td_power", "fcn_line"}
    (families,) = (one for one in compare_families(comparisons) if one.kind == "transformer")
    assert families.num_families == 10
    assert all("optimizer.kind" in model.fields for model in families.models if families.standing(model) in ("best", "as good"))
    assert " One b for all is ruled out: its AICc is " in families.conclusion
    assert families.conclusion.endswith(" optimizer.kind differs together with training.steps.")
    ratios = {own.field: own.ratio for own in families.ratios}
    assert ratios["optimizer.kind"].low < 1.15 < ratios["optimizer.kind"].high
    assert all(ratios[name].low < 1 < ratios[name].high for name in ("model.positions.kind", "model.positions.redraw"))
