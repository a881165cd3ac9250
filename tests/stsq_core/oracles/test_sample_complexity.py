"""The samples that single out hidden bits, against every subset and every input, and against drawn training sets."""

import itertools
import math

import numpy as np
import pytest
import torch

from stsq_core.configs.boolean import SparseBoolean
from stsq_core.configs.errors import UserError
from stsq_core.kernels import kernels_for
from stsq_core.numerics.streams import Streams
from stsq_core.tasks.choice import examples_of
from stsq_core.tasks.examples import Source
from tests.stsq_core.oracles.sample_complexity import agreement, expected_survivors, sufficient_samples

KERNELS = kernels_for(torch.device("cpu"))
TRUTH = {
    "and": lambda bits: bits.all(-1),
    "or": lambda bits: bits.any(-1),
    "majority": lambda bits: 2 * bits.sum(-1) > bits.shape[-1],
    "parity": lambda bits: (~bits).sum(-1) % 2 == 0,
}


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("function", TRUTH)
@pytest.mark.parametrize(("T", "q"), [(6, 3), (5, 1), (3, 3)])
def test_survivors_are_those_of_every_subset_on_every_input(function: str, T: int, q: int, balanced: bool) -> None:
    task = SparseBoolean(T=T, q=q, function=function, balanced=balanced)
    inputs = np.array(list(itertools.product([False, True], repeat=T)))
    chance = np.where(inputs, task.truth_probability, 1 - task.truth_probability).prod(-1)
    values = {subset: TRUTH[function](inputs[:, subset]) for subset in itertools.combinations(range(T), q)}
    label = values.pop(tuple(range(q)))
    agreements = {subset: float(chance[value == label].sum()) for subset, value in values.items()}
    for subset, expected in agreements.items():
        assert agreement(task, len(set(subset) & set(range(q)))) == pytest.approx(expected)
    for n in (0, 1, 7):
        assert expected_survivors(task, n) == pytest.approx(sum(share**n for share in agreements.values()))


@pytest.mark.parametrize("function", ["and", "parity"])
def test_survivors_of_drawn_training_sets_are_as_many(function: str) -> None:
    task, n, num_trials = SparseBoolean(T=8, q=3, function=function), 4 if function == "parity" else 12, 300
    source = Source(Streams(tuple(range(num_trials)), KERNELS), KERNELS, 0, fresh=False, dtype=torch.float32)
    batch = examples_of(task).batch(source, n)
    bits, labels = batch.X[..., 0].numpy() > 0, batch.target[:, :, 0, 0].numpy() > 0
    survivors = [
        (TRUTH[function](bits[..., subset]) == labels).all(-1) for subset in itertools.combinations(range(task.T), task.q)
    ]
    counts = np.sum(survivors, axis=0) - 1
    spread = counts.std() / math.sqrt(num_trials)
    assert (counts >= 0).all()
    assert counts.mean() == pytest.approx(expected_survivors(task, n), abs=4 * spread)


@pytest.mark.slow
def test_sufficient_samples_are_the_least_and_grow_by_as_much_with_every_doubling() -> None:
    needed = []
    for T in (16, 32, 64, 128, 256):
        task = SparseBoolean(T=T, q=3, function="and")
        n = sufficient_samples(task, 0.8)
        assert expected_survivors(task, n) <= 0.2 < expected_survivors(task, n - 1)
        needed.append(n)
    assert set(np.diff(needed)) <= {3, 4}
    assert sufficient_samples(SparseBoolean(T=3, q=3, function="and"), 0.8) == 0
    assert sufficient_samples(SparseBoolean(T=4000, q=200, function="and"), 0.8) > 200


@pytest.mark.parametrize(("function", "balanced"), [("and", True), ("and", False), ("parity", True), ("majority", True)])
def test_samples_grow_with_the_logarithm_by_the_slowest_kind_of_wrong_subset(function: str, balanced: bool) -> None:
    tasks = [SparseBoolean(T=T, q=3, function=function, balanced=balanced) for T in (2**14, 2**20)]
    short, long = (sufficient_samples(task, 0.8) for task in tasks)
    expected = max((3 - j) * math.log(2) / -math.log(agreement(tasks[0], j)) for j in range(3))
    assert (long - short) / 6 == pytest.approx(expected, abs=0.35)
    if function == "parity" or (balanced and function == "and"):
        assert expected == pytest.approx(3)


def test_what_is_not_derived_is_refused() -> None:
    task = SparseBoolean(T=8, q=3, function="and", inputs="structured")
    with pytest.raises(UserError, match="got inputs=structured"):
        agreement(task, 2)
    with pytest.raises(UserError, match="got 1"):
        sufficient_samples(SparseBoolean(T=8, q=3, function="and"), 1)
    with pytest.raises(UserError, match="got overlap=4"):
        agreement(SparseBoolean(T=8, q=3, function="and"), 4)
