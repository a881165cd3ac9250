"""Sizes: what a threshold is about, and families of trials that differ in it."""

from typing import Any

import pytest

from stsq_core.configs.errors import UserError
from stsq_core.configs.family import TrialFamily
from stsq_core.configs.size import SAMPLES, WIDTH, size_named


@pytest.mark.parametrize(
    ("name", "values"),
    [("width", (3, 8, 100)), ("model.depth", (2, 3, 5)), ("model.tail_width", (7, 128)), ("training.num_samples", (10, 500))],
)
def test_a_family_names_its_members_as_they_name_themselves(fcn: Any, name: str, values: tuple[int, ...]) -> None:
    """Also where a value is the field's default, which no id tells."""
    size = size_named(name)
    family = TrialFamily(fcn(width=8, seed=4, training={"steps": 9, "num_samples": 50}), size)
    members = [family.member(value, lr, seed) for value in values for lr in (0.01, 3e-5) for seed in (0, 12)]
    ids = family.ids(*zip(*[(size.of(one), one.optimizer.lr, one.seed) for one in members], strict=True))
    assert ids == [member.trial_id for member in members]
    assert [size.of(member) for member in members[::4]] == list(values)


def test_families_of_another_size_keep_the_width_apart(fcn: Any) -> None:
    size = size_named("model.depth")
    one, other, deeper = (
        TrialFamily(fcn(width=width, model__depth=depth), size).key for width, depth in ((8, 2), (9, 2), (8, 4))
    )
    assert one == deeper != other
    assert TrialFamily(fcn(width=8)).key == TrialFamily(fcn(width=9)).key


def test_counted_samples_leave_nothing_free_but_rate_and_seed(fcn: Any) -> None:
    config = fcn(width=8, training={"steps": 30, "batch_size": 16})
    family = TrialFamily(config, SAMPLES)
    assert SAMPLES.of(config) == 480
    assert family.member(480, 0.5, 7).model == config.model
    assert family.key != TrialFamily(fcn(width=9, training={"steps": 30, "batch_size": 16}), SAMPLES).key


def test_words_are_those_of_the_papers() -> None:
    assert (WIDTH.letter, WIDTH.noun, WIDTH.nouns, WIDTH.threshold_words) == ("m", "width", "widths", "width threshold")
    rank, heads, samples = (size_named(name) for name in ("model.rank", "model.heads", "training.num_samples"))
    assert [size.letter for size in (rank, heads, samples, SAMPLES)] == ["r", "H", "n", "n"]
    assert (rank.nouns, heads.noun, samples.quantity) == ("ranks", "number of heads", "samples")
    assert size_named("model.tail_width").letter == "tail_width"


def test_a_field_that_holds_no_number_is_refused(fcn: Any) -> None:
    size = size_named("training.num_samples")
    assert not size.applies_to(fcn())
    with pytest.raises(UserError, match=r"training\.num_samples is no whole number of this trial; got None"):
        size.of(fcn())
