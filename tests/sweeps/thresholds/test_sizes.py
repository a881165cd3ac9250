"""Thresholds of other whole numbers than the width, and those of the width as they have always been."""

from collections.abc import Callable
from typing import Any

import pytest

from stsq_core import TrialConfig
from stsq_core.configs import family, trial
from stsq_core.configs.errors import UserError
from stsq_core.configs.size import size_named
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.expansion import derived_seed
from sweeps.cells.loading import check_sweep
from sweeps.cells.trials import cell_of
from sweeps.schema.spec import Criterion
from sweeps.schema.yaml_source import parse
from sweeps.store.ledger import Ledger
from sweeps.store.results import read_results
from sweeps.store.run_directory import create_or_open
from sweeps.thresholds.thresholds import thresholds_of, width_thresholds

LOSSES = {4: (0.5, 0.4, 0.6), 8: (0.2, 0.09, 0.3), 16: (0.04, 0.03, 0.12), 32: (0.01, 0.02, 0.03)}
CODES = {"kind": "random_sign", "d_e": 9}

SWEEP = """\
name: tails
hypothesis: Later layers need some width too.
criterion: {of: model.tail_width, target_loss: 0.1}
trials:
  - name: net
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn}
      optimizer: {kind: adam, lr: 0.01}
      training: {steps: 100}
    grid: {model.width: [16, 32], model.tail_width: [4, 8, 16, 32]}
    seeds: 3
"""


def a_trial(model: dict[str, Any], **fields: Any) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": 8, "q": 2, "d": 2},
            "model": model,
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"steps": 100},
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("model", "fields", "trial_id", "cell_id", "seed"),
    [
        ({"kind": "fcn", "width": 12}, {"seed": 3}, "a46edc73153ee64d", "3120a61aa9ae", 91764701727463),
        ({"kind": "transformer", "positions": CODES}, {"evaluation": {"every": 10}}, "0212cc66d490080f", "8a4d674dd276",
         39873375646777),
        ({"kind": "transformer", "positions": {"kind": "one_hot"}}, {}, "98cd6c9031e82f32", "6709f6a559e3", 142825917239563),
    ],
)  # fmt: skip
def test_trials_cells_and_seeds_keep_their_names(
    model: dict[str, Any], fields: dict[str, Any], trial_id: str, cell_id: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a version that knew widths only and counted its arithmetic as 2: but for that number names are the same."""
    for module in (trial, family):
        monkeypatch.setattr(module, "NUMERICS", 2)
    config = a_trial(model, **fields)
    assert (config.trial_id, cell_of(config), derived_seed(cell_of(config), 1)) == (trial_id, cell_id, seed)


def test_a_ledger_of_widths_reads_with_the_same_threshold(record: Callable[..., Any]) -> None:
    """The numbers are those that the same version found."""
    records = [
        record(a_trial({"kind": "fcn", "width": width}, seed=seed), loss)
        for width, losses in LOSSES.items()
        for seed, loss in enumerate(losses)
    ]
    (threshold,) = width_thresholds(records, Criterion())
    assert (threshold.m_star, threshold.low, threshold.high) == (10.782924128, 7.617759249, 17.52712184)
    assert threshold.size.name == "width"


def test_another_number_has_the_threshold_that_the_width_would_have(tmp_path: Any, record: Callable[..., Any]) -> None:
    """The same losses at the same numbers, in a run directory: the width is part of the cell now."""
    spec = check_sweep(parse(SWEEP, "tails.yaml"))
    run = create_or_open(tmp_path / "run", spec)
    cells = expand(spec)
    assert [(cell.widths, cell.num_seeds, cell.trials[0].width) for cell in cells] == [
        ((4, 8, 16, 32), 3, 16),
        ((4, 8, 16, 32), 3, 32),
    ]
    for cell in cells:
        seeds = {seed: place for place, seed in enumerate(dict.fromkeys(cell.trials.seeds.tolist()))}
        own = [record(config, LOSSES[config.model.tail_width][seeds[config.seed]]) for config in cell.trials]  # type: ignore[attr-defined]
        Ledger(run.ledger).append(own)
    found = thresholds_of(spec.spec, read_results(run, spec))
    assert [threshold.m_star for threshold in found] == [10.782924128] * 2
    assert [threshold.size for threshold in found] == [size_named("model.tail_width")] * 2
    assert len({threshold.label for threshold in found}) == 2


def test_a_search_goes_for_the_named_number(hunt: Callable[..., Any]) -> None:
    text = SWEEP.replace(", model.tail_width: [4, 8, 16, 32]", "").replace("[16, 32]", "[16]")
    searched = hunt(text=text.replace("seeds: 3", "search: {low: 4, high: 256}"), name="tails")
    searched.go(lambda config: (40 / config.model.tail_width) ** 3 * 0.1)
    (threshold,) = searched.thresholds()
    assert threshold.status == "found"
    assert threshold.low <= 40 <= threshold.high
    assert {config.width for config in searched.asked} == {16}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("of: model.tail_width", "of: model.tail", "did you mean model.tail_width"),
        ("of: model.tail_width", "of: model.activation", "a whole number of the trials; got 'model.activation'"),
        ("seeds: 3", "search: {low: 4, high: 9}", "model.tail_width is the tail width, and search says which are tried"),
    ],
)
def test_a_size_that_cannot_be_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        check_sweep(parse(SWEEP.replace(old, new), "tails.yaml"))
    assert message in str(caught.value)
