"""Families that share a factor, and such that do not: told by AICc, with the ratio in an interval that covers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from stsq_core import TrialConfig
from sweeps.laws.cells import law_cells
from sweeps.laws.comparison import LawComparison, compare_laws
from sweeps.laws.families import FamilyComparison, SharedModel, compare_families
from sweeps.laws.formulas import ATTENTION
from sweeps.laws.scaling_law import fitted_law
from sweeps.thresholds.thresholds import WidthThreshold

LENGTHS = (8, 16, 32, 64, 128)
ADAM, GD = {"kind": "adam", "lr": 0.01}, {"kind": "gd", "lr": 1.0}
Cells = Callable[..., list[WidthThreshold]]


@pytest.fixture
def cells(threshold: Callable[..., WidthThreshold]) -> Cells:
    """A family's thresholds at d + b q ln T: a code, an optimizer, a number of steps."""

    def make(
        b: float, draw: np.random.Generator, *, code: str = "random_sign", redraw: str = "per_step",
        optimizer: Mapping[str, object] = ADAM, steps: int = 100, lengths: tuple[int, ...] = LENGTHS, scatter: float = 0.0,
    ) -> list[WidthThreshold]:  # fmt: skip
        made = []
        for T in lengths:
            config = TrialConfig.model_validate(
                {
                    "task": {"kind": "stsq", "T": T, "q": 3, "d": 4},
                    "model": {"kind": "transformer", "positions": {"kind": code, "d_e": 16, "redraw": redraw}},
                    "optimizer": optimizer,
                    "training": {"objective": "minibatch", "steps": steps},
                    "seed": 0,
                }
            )
            noise = scatter * draw.normal() + 0.03 * draw.normal(size=8)
            made.append(threshold(config, (4 + b * 3 * math.log(T)) * np.exp(noise)))
        return made

    return make


def compared(thresholds: list[WidthThreshold]) -> FamilyComparison:
    (families,) = compare_families(compare_laws(thresholds))
    return families


def grid(cells: Cells, by_code: float, by_optimizer: float, *, steps: int = 100, stream: int = 0) -> FamilyComparison:
    """Two codes, each with two optimizers."""
    draw = np.random.default_rng(stream)
    return compared(
        [
            one
            for code, more in (("random_sign", 1.0), ("gaussian", by_code))
            for optimizer, most in ((ADAM, 1.0), (GD, by_optimizer))
            for one in cells(2.4 * more * most, draw, code=code, optimizer=optimizer, steps=steps if optimizer is GD else 100)
        ]
    )


def test_families_of_one_factor_share_it(cells: Cells) -> None:
    families = grid(cells, 1.0, 1.0)
    assert families.conclusion == (
        "The 4 families share b of m = d + b q ln T: one b is enough; a b for each optimizer.kind, a b for each"
        " model.positions.kind and a b for each model.positions.kind and optimizer.kind fit as well, with more numbers."
    )
    both = next(model for model in families.models if len(model.fields) == 2)
    assert (both.num_numbers, families.standing(both)) == (4, "richer than needed")
    assert (families.kind, families.num_families, families.num_cells) == ("transformer", 4, 20)
    for own in families.ratios:
        assert own.num_pairs == 2
        assert own.ratio.low < 1 < own.ratio.high
        assert own.ratio.high / own.ratio.low < 1.15


@pytest.mark.parametrize(
    ("by_code", "by_optimizer", "fields"),
    [
        (1.2, 1.0, ("model.positions.kind",)),
        (1.0, 1.2, ("optimizer.kind",)),
        (1.25, 1.2, ("model.positions.kind", "optimizer.kind")),
    ],
)
def test_the_field_by_which_a_factor_differs_is_told(
    cells: Cells, by_code: float, by_optimizer: float, fields: tuple[str, ...]
) -> None:
    families = grid(cells, by_code, by_optimizer)
    assert families.models[0].fields == fields
    assert families.conclusion.startswith(
        f"The 4 families do not share b of m = d + b q ln T: it differs by {' and '.join(fields)}. One b for all is ruled out"
    )
    one = next(one for one in families.models if not one.fields)
    assert families.standing(one) == "ruled out"
    truth = {"model.positions.kind": by_code, "optimizer.kind": by_optimizer}
    for own in families.ratios:
        assert own.ratio.low < truth[own.field] < own.ratio.high


def test_a_factor_that_differs_is_told_in_words_with_what_differs_beside(cells: Cells) -> None:
    families = grid(cells, 1.0, 1.3, steps=200)
    assert families.conclusion.endswith("optimizer.kind differs together with training.steps.")
    own = next(own for own in families.ratios if own.field == "optimizer.kind")
    words = families.ratio_words(own)
    assert words.startswith("b at optimizer.kind = gd over b at adam: 1.3")
    assert words.endswith(", over 2 pairs of families")


def test_families_that_differ_in_two_fields_have_no_ratio_of_one(cells: Cells) -> None:
    draw = np.random.default_rng(0)
    codes = [{"code": "gaussian"}, {"optimizer": GD}, {}]
    families = compared([one for fields in codes for one in cells(2.4, draw, **fields)])
    assert {(own.field, own.num_pairs) for own in families.ratios} == {("model.positions.kind", 1), ("optimizer.kind", 1)}
    apart = compared([*cells(2.4, draw), *cells(2.4, draw, code="gaussian", redraw="never", optimizer=GD)])
    (field,) = apart.fields
    assert (field.name, field.together_with) == ("model.positions.kind", ("optimizer.kind", "model.positions.redraw"))


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "scatter"), [(1.0, 0.0), (1.15, 0.03)])
def test_the_ratios_interval_covers_at_about_its_level(cells: Cells, ratio: float, scatter: float) -> None:
    """90% intervals of two families of five cells; without scatter they are a little wide."""
    hits, num, shares = 0, 100, 0
    for stream in range(num):
        draw = np.random.default_rng(stream)
        parts = cells(2.4, draw, scatter=scatter), cells(2.4 * ratio, draw, optimizer=GD, scatter=scatter)
        laws = [fitted_law(ATTENTION, law_cells(part)) for part in parts]
        (families,) = compare_families(LawComparison("transformer", "", (law,), ()) for law in laws if law)
        (own,) = families.ratios
        hits += own.ratio.low <= ratio <= own.ratio.high
        shares += not families.models[0].fields
    assert 0.8 <= hits / num <= 1.0
    assert (shares / num > 0.75) if ratio == 1 else (shares / num < 0.1)


def test_families_without_shared_cells_are_not_compared(cells: Cells) -> None:
    """b falls with T in both alike: families at other lengths would differ in b."""
    draw, spare = np.random.default_rng(0), np.random.default_rng(1)
    short, long = cells(2.5, draw, lengths=(4, 6, 8, 10, 12)), cells(2.3, draw, optimizer=GD, lengths=(16, 32, 64, 128))
    apart = compared([*short, *long])
    assert (apart.models, apart.ratios) == ((), ())
    assert apart.conclusion == (
        "The 2 families have fewer than two (T, q, d) in common at which thresholds were found, so b of m = d + b q ln T is not"
        " compared between them."
    )
    overlapping = compared([*cells(2.5, draw, lengths=(4, 8, 16)), *cells(2.5, spare, optimizer=GD, lengths=(8, 16, 32, 64))])
    same = compared([*cells(2.5, draw, lengths=(8, 16)), *cells(2.5, draw, optimizer=GD, lengths=(8, 16))])
    assert (overlapping.num_cells, overlapping.num_left_out, same.num_left_out) == (4, 3, 0)
    assert " 3 cells at T, q and d that not all families have are left out." in overlapping.conclusion
    assert "left out" not in same.conclusion


def test_the_ratio_rests_on_shared_cells_alone(cells: Cells) -> None:
    """Of two families with one b up to T = 32, the one measured further has another b there."""
    draw = np.random.default_rng(0)
    gd = [*cells(2.4, draw, optimizer=GD, lengths=(8, 16, 32)), *cells(1.9, draw, optimizer=GD, lengths=(256, 512, 1024))]
    families = compared([*cells(2.4, draw, lengths=(8, 16, 32)), *gd])
    (own,) = families.ratios
    assert abs(own.ratio.value - 1) < 0.03
    assert " m = d + b q ln T misfits at optimizer.kind = gd (residuals fall with T, p < 0.001)." in families.conclusion


def test_none_of_undecided_models_is_best_and_few_cells_compare_none(cells: Cells) -> None:
    draw = np.random.default_rng(0)
    families = compared([*cells(2.4, draw), *cells(2.4, draw, optimizer=GD)])
    close = (SharedModel((), 1, 8.0, 17.0), SharedModel(("optimizer.kind",), 2, 5.0, 20.0))
    undecided = replace(families, models=close)
    assert [undecided.standing(model) for model in close] == ["as good", "as good"]
    few = replace(families, models=(close[0], replace(close[1], aicc=math.inf)))
    assert {few.standing(model) for model in few.models} == {"too few cells"}
    assert few.conclusion.startswith("Undecided: ")


def test_every_misfit_is_named_up_to_four(cells: Cells) -> None:
    draw = np.random.default_rng(0)
    families = compared([*cells(2.4, draw), *cells(2.4, draw, optimizer=GD)])
    many = replace(families, misfits=tuple(f"at a = {place} (w, p = 0.01)" for place in range(6)))
    assert many.conclusion.endswith(" at a = 2 (w, p = 0.01), at a = 3 (w, p = 0.01) and in 2 more.")
    assert replace(families, letter="s").words(SharedModel(("model.depth",), 2, 0.0, 0.0)) == "an s for each model.depth"


def test_one_family_or_families_of_one_cell_are_not_compared(cells: Cells) -> None:
    draw = np.random.default_rng(0)
    assert compare_families(compare_laws(cells(2.4, draw))) == ()
    single = [*cells(2.4, draw), *cells(2.4, draw, optimizer=GD, lengths=(8,))]
    assert compare_families(compare_laws(single)) == ()
    few = compared([*cells(2.4, draw, lengths=(8, 16)), *cells(2.4, draw, optimizer=GD, lengths=(8, 16))])
    assert few.conclusion.startswith("Undecided: 4 cells in 2 families are too few to tell whether the families share b of")


def test_the_words_of_every_case(cells: Cells) -> None:
    """Of likelihoods by hand: ten cells in two families."""
    draw = np.random.default_rng(0)
    families = compared([*cells(2.4, draw), *cells(2.4, draw, optimizer=GD)])

    def told(one: tuple[float, float], each: tuple[float, float]) -> str:
        models = [SharedModel((), 1, *one), SharedModel(("optimizer.kind",), 2, *each)]
        return replace(families, models=tuple(sorted(models, key=lambda model: model.aicc))).conclusion

    assert told((5.0, 20.0), (6.0, 25.0)) == (
        "The 2 families share b of m = d + b q ln T: one b is enough; a b for each optimizer.kind fits as well, with"
        " more numbers."
    )
    assert told((5.0, 20.0), (8.0, 17.0)) == (  # a b for each has the least AICc
        "Undecided: in m = d + b q ln T, 10 cells in 2 families do not tell a b for each optimizer.kind and one b for all"
        " apart."
    )
    assert told((5.0, 20.0), (12.0, 11.0)) == (
        "The 2 families do not share b of m = d + b q ln T: it differs by optimizer.kind. One b for all is less likely: its"
        " AICc is 9.0 larger."
    )
