"""Several targets from one ledger: each has its thresholds, laws and claims, and no trial is trained twice for it."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from stsq_core.configs import UserError
from sweeps.cells.expanded_sweep import ExpandedSweep, expand
from sweeps.cells.loading import check_sweep
from sweeps.findings.run_findings import read_findings
from sweeps.laws.cells import by_regime
from sweeps.laws.decision import unfinished_cells
from sweeps.schema.overrides import apply_settings
from sweeps.schema.spec import Criterion, SweepSpec
from sweeps.schema.yaml_source import parse
from sweeps.store.ledger import Ledger
from sweeps.thresholds.thresholds import width_thresholds
from sweeps.thresholds.width_threshold import WidthThreshold

TARGETS = (0.3, 0.1, 0.03)

GRID = """\
name: targets
hypothesis: Less loss takes more width.
criterion: {target_loss: [0.3, 0.1]}
trials:
  - name: fcn
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn}
      optimizer: {kind: adam, lr: 0.01}
      training: {objective: minibatch, steps: 100}
    grid: {model.width: [4, 8, 16], task.T: [8, 16]}
"""


def falling(width: int, seed: int) -> float:
    """A loss of 0.3, 0.1 and 0.03 at widths of about 10, 20 and 40."""
    return 0.1 * (20 / width) ** 1.6 * math.exp(0.05 * math.sin(seed * 12.9898))


def shown(threshold: WidthThreshold) -> tuple[object, ...]:
    return threshold.cell_id, threshold.status, threshold.m_star, threshold.low, threshold.high, threshold.target_loss


def test_a_grid_is_judged_by_each_target_as_by_that_alone(cell_records: Callable[..., Any]) -> None:
    records = cell_records((4, 8, 16, 32, 64), range(6), falling)
    together = width_thresholds(records, Criterion(target_loss=TARGETS))
    alone = [width_thresholds(records, Criterion(target_loss=target))[0] for target in TARGETS]
    assert [shown(threshold) for threshold in together] == [shown(threshold) for threshold in alone]
    assert [round(threshold.m_star or 0) for threshold in together] == [10, 21, 44]
    assert len({threshold.key for threshold in together}) == len({threshold.label for threshold in together}) == 3
    assert together[0].label == f"{alone[0].label} target_loss=0.3"
    assert alone[0].key == alone[0].cell_id
    assert [len(members) for members in by_regime(together)] == [1, 1, 1]


@pytest.mark.slow
def test_a_search_finds_each_target_with_the_points_of_all(hunt: Callable[..., Any]) -> None:
    def loss(config: Any) -> float:
        return falling(config.width, config.seed)

    together = hunt("criterion.target_loss=[0.3, 0.1, 0.03]", name="together")
    search = together.go(loss)
    assert search.finished
    found = together.thresholds()
    assert [threshold.search.reason for threshold in found] == ["precise"] * 3
    for threshold, width in zip(found, (10, 20, 42), strict=True):
        assert threshold.m_star == pytest.approx(width, rel=0.12)
        assert threshold.num_seeds == len(together.asked)
    nums = []
    for target in TARGETS:
        one = hunt(f"criterion.target_loss={target}", name=f"alone-{target}")
        one.go(loss)
        nums.append(len(one.asked))
    assert max(nums) <= len(together.asked) < sum(nums)
    assert len({config.trial_id for config in together.asked}) == len(together.asked)
    assert {trial.user_attrs["status"] for trial in together.studies()[0].trials} == {"solved", "unsolved"}


def test_a_search_that_ended_goes_on_for_a_further_target(hunt: Callable[..., Any]) -> None:
    def loss(config: Any) -> float:
        return falling(config.width, config.seed)

    first = hunt("criterion.target_loss=0.3")
    first.go(loss)
    more = hunt("criterion.target_loss=0.3,0.03", name="hunt")
    assert more.spec.criterion.targets == (0.3, 0.03)
    done = more.thresholds()
    cells = ExpandedSweep.of(more.spec).searched
    assert [threshold.search.finished for threshold in done] == [True, False]
    assert unfinished_cells(more.spec, cells, done) == {cells[0].cell_id}
    more.go(loss)
    assert unfinished_cells(more.spec, cells, more.thresholds()) == frozenset()
    assert not {config.trial_id for config in first.asked} & {config.trial_id for config in more.asked}


def test_claims_name_targets(hunt: Callable[..., Any]) -> None:
    claims = """\
claims:
  - {kind: threshold_order, name: more, says: "Less loss takes more width.", by: target_loss, order: [0.3, 0.1]}
  - {kind: threshold_near, name: ten, says: "Ten.", where: {target_loss: 0.3}, value: 10, source: us, factor: 1.3}
"""
    one = hunt(text=GRID.replace("T: [8, 16]", "T: [8]").replace("[4, 8, 16]", "[4, 8, 16, 32]") + "    seeds: 5\n" + claims)
    configs = [config for cell in expand(one.spec) for config in cell.configs]
    Ledger(one.run.ledger).append([one._record(config, falling(config.width, config.seed)) for config in configs])
    order, near = read_findings(one.run.path).verdicts
    assert (order.answer, near.answer) == ("holds", "holds")
    (ratio,) = order.settings
    assert ("target_loss", "0.3 < 0.1") in ratio.fields
    assert len(near.settings) == 1


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ("[]", "criterion.target_loss: it lists no target: give a number between 0 and 1, or several"),
        (
            "[0.1, 0.3, 0.1]",
            "criterion.target_loss: every target stands once; 0.1, as it is written in tables, stands there twice",
        ),
        ("[0.12345671, 0.12345672]", "every target stands once; 0.123457, as it is written in tables, stands there twice"),
        ("[0.1, 1.5]", "criterion.target_loss: a target is a share of the zero predictor's loss, between 0 and 1; got 1.5"),
        ("[0.1, half]", "between 0 and 1; got 'half'"),
        ("0", "between 0 and 1; got 0"),
        ("[0.3, 0.1], of: samples", "samples are counted up to one target; got [0.3, 0.1]"),
    ],
)
def test_bad_targets_are_refused_by_name(targets: str, message: str) -> None:
    text = GRID.replace("target_loss: [0.3, 0.1]", f"target_loss: {targets}")
    with pytest.raises(UserError) as error:
        check_sweep(parse(text, "targets.yaml"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("search: {sampler: tpe}", "search.sampler: it looks for one target; got target_loss=[0.3, 0.1] beside it"),
        ("search: {decide: {between: [attention, td_power]}}", "search.decide: it looks for one target"),
        (
            "claims: [{kind: threshold_near, name: n, says: s, where: {target_loss: 0.2}, value: 1, source: us}]",
            "has target_loss = 0.2; target_loss is 0.3, 0.1: name one of those",
        ),
        ("claims: [{kind: bound, name: n, says: s, where: {target_loss: 0.3}, metric: loss, at_most: 1}]", "target_loss"),
    ],
)
def test_what_looks_for_one_target_is_refused_with_several(extra: str, message: str) -> None:
    text = (
        GRID.replace("grid: {model.width: [4, 8, 16], task.T: [8, 16]}", "grid: {task.T: [8, 16]}\n    search: {}")
        + extra
        + "\n"
    )
    with pytest.raises(UserError) as error:
        check_sweep(parse(text, "targets.yaml"))
    assert message in str(error.value)


def test_one_target_in_a_list_is_that_target_and_several_are_kept() -> None:
    spec = check_sweep(apply_settings(parse(GRID, "targets.yaml"), ["criterion.target_loss=[0.2]"])).spec
    assert spec.criterion == Criterion(target_loss=0.2)
    spec = check_sweep(parse(GRID, "targets.yaml")).spec
    assert SweepSpec.model_validate(parse(spec.as_yaml(), "kept").data) == spec
    assert [one.target_loss for one in spec.criterion.each] == [0.3, 0.1]
    assert (spec.criterion.target, spec.criterion.target_words) == (0.1, "0.3 or 0.1")
