"""What does not go together is refused with both values and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stsq_core import TrialConfig
from stsq_core.plugins import load, read_plugin
from stsq_core.plugins.loading import unload_all

PLUGIN = Path(__file__).parents[3] / "docs" / "plugins" / "selected_max.py"


@pytest.fixture(autouse=True)
def _plugin() -> Iterator[None]:
    load(read_plugin(PLUGIN))
    yield
    unload_all()


OWN_TASK = {"task__kind": "selected_max"}


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("transformer", OWN_TASK, ["objective: population", "task stsq only", "task.kind=selected_max"]),
        ("fcn", {"training__objective": "population"}, ["transformer only", "model.kind=fcn", "minibatch"]),
        ("transformer", {"training__num_samples": 50}, ["population", "num_samples=50", "minibatch"]),
        ("fcn", {"training__num_samples": 50, "training__batch_size": "all"}, ["num_samples=50", "batch_size"]),
        ("fcn", {**OWN_TASK, "training__batch_size": "all"}, ["batch_size: all", "task.kind=selected_max", "give a number"]),
        ("fcn", {"model": {"kind": "pooled", "width": 3}, "training__batch_size": "all"}, ["model.kind=pooled"]),
        ("fcn", {**OWN_TASK, "evaluation__q_test": [3]}, ["selected_max draws", "q=2", "q_test=[3]", "leave q_test out"]),
        ("fcn", {**OWN_TASK, "evaluation__T_test": [9]}, ["selected_max draws", "T=4", "T_test=[9]"]),
        ("fcn", {"evaluation__T_test": [9]}, ["reads the T=4 tokens", "T_test=[9]"]),
        ("fcn", {"model": {"kind": "pooled", "width": 3}, "evaluation__q_test": [1]}, ["pooled reads the q=2", "q_test=[1]"]),
    ],
)
def test_a_pair_that_does_not_fit_is_refused(trial_data, kind: str, fields: dict, words: list[str]) -> None:
    with pytest.raises(ValueError, match="got") as refused:
        TrialConfig.model_validate(trial_data(kind, **fields))
    printed = str(refused.value)
    for word in words:
        assert word in printed, printed


def test_a_foreign_task_does_without_what_only_the_papers_pair_has(trial_data) -> None:
    data = trial_data("transformer", **OWN_TASK, training__objective="minibatch", training__num_samples=64)
    config = TrialConfig.model_validate(data)
    assert config.batch == 16
    assert config.task.kind == "selected_max"


def test_a_task_without_a_kind_is_sparse_token_selection(trial_data) -> None:
    data = trial_data("fcn")
    printed = TrialConfig.model_validate(data).trial_id
    del data["task"]["kind"]
    assert TrialConfig.model_validate(data).trial_id == printed
