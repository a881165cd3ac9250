"""Samples of sparse Boolean functions: their values, their balance, their inputs, and the loss."""

import math

import pytest
import torch
from pydantic import ValidationError

from stsq_core.configs.boolean import SparseBoolean
from stsq_core.kernels import kernels_for
from stsq_core.numerics.streams import Streams
from stsq_core.tasks.choice import examples_of
from stsq_core.tasks.examples import Source

KERNELS = kernels_for(torch.device("cpu"))
VALUES = {
    "and": lambda bits: 1 if all(b > 0 for b in bits) else -1,
    "or": lambda bits: 1 if any(b > 0 for b in bits) else -1,
    "majority": lambda bits: 1 if sum(bits) > 0 else -1,
    "parity": lambda bits: math.prod(bits),
}


def source(*, fresh: bool = False) -> Source:
    return Source(Streams((3, 4), KERNELS), KERNELS, 0, fresh=fresh, dtype=torch.float32)


@pytest.mark.parametrize("inputs", ["iid", "structured"])
@pytest.mark.parametrize("function", VALUES)
def test_a_label_is_the_function_of_the_hidden_bits(function: str, inputs: str) -> None:
    task = SparseBoolean(T=9, q=3, function=function, inputs=inputs)
    batch = examples_of(task).batch(source(fresh=True), 40)
    hidden = source().of_trial().subsets("hidden bits", 1, T=9, q=3)
    assert batch.y is None
    assert set(batch.X.unique().tolist()) == {-1.0, 1.0}
    for trial in range(2):
        for sample in range(40):
            bits = batch.X[trial, sample, hidden[trial, 0], 0].tolist()
            assert float(batch.target[trial, sample, 0, 0]) == VALUES[function](bits)


@pytest.mark.parametrize("function", VALUES)
def test_balanced_functions_of_independent_bits_are_true_half_of_the_time(function: str) -> None:
    batch = examples_of(SparseBoolean(T=9, q=3, function=function)).batch(source(), 40_000)
    means = batch.target.mean((1, 2, 3))
    torch.testing.assert_close(means, torch.zeros_like(means), rtol=0, atol=0.02)


def test_structured_bits_repeat_their_neighbours() -> None:
    X = examples_of(SparseBoolean(T=12, q=3, function="parity", inputs="structured")).batch(source(), 20_000).X[..., 0]
    for distance in (1, 2, 3):
        correlation = (X[:, :, distance:] * X[:, :, :-distance]).mean()
        assert float(correlation) == pytest.approx(0.5**distance, abs=0.01)
    assert float(X.mean()) == pytest.approx(0, abs=0.02)


def test_the_relative_loss_is_twice_the_error_and_the_objective_logistic() -> None:
    examples = examples_of(SparseBoolean(T=5, q=3, function="and"))
    batch = examples.batch(source(), 200)
    right, wrong = 2.0 * batch.target, -0.5 * batch.target
    assert not examples.relative_losses(right, batch).any()
    assert (examples.relative_losses(wrong, batch) == 2).all()
    assert (examples.relative_losses(0 * right, batch) == 1).all()
    assert not examples.relative_losses(right * math.nan, batch).isfinite().any()
    torch.testing.assert_close(examples.objective(right, batch), torch.full((2, 200), math.log1p(math.exp(-2))))


def test_a_training_set_begins_with_a_smaller_one() -> None:
    examples = examples_of(SparseBoolean(T=7, q=3, function="and"))
    small, large = examples.batch(source(), 10), examples.batch(source(), 33)
    assert torch.equal(large.X[:, :10], small.X)
    assert torch.equal(large.target[:, :10], small.target)


@pytest.mark.parametrize(("fields", "words"), [({"q": 9}, "got q=9, T=8"), ({"q": 4}, "use an odd q"), ({"d": 2}, "1")])
def test_functions_that_are_not_defined_are_refused(fields: dict, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SparseBoolean(**({"T": 8, "q": 3, "function": "majority"} | fields))
