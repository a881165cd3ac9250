"""A model that is a plain `torch.nn.Module`: stacked where its bits allow, refused with its line where it cannot work."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from stsq_core import TrialConfig, UserError, train_pack
from stsq_core.networks import NetworkProgram, network_of
from stsq_core.plugins import Plugin, load
from stsq_core.plugins.loading import unload_all
from stsq_core.plugins.preflight import try_pair

TEXT = (Path(__file__).parents[3] / "docs/plugins/deep_sets.py").read_text()
SCATTERING = TEXT.replace(
    "asked = (y.unsqueeze(-1) == torch.arange(T, device=X.device)).any(1).to(X.dtype)  # (batch, T)",
    "asked = torch.zeros(X.shape[0], T).scatter_(1, y, 1.0)",
)


@pytest.fixture(autouse=True)
def _nothing_stays_loaded() -> Iterator[None]:
    yield
    unload_all()


def trial(width: int = 5, seed: int = 0, task: str = "stsq", **model: object) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": task, "T": 9, "q": 2, "d": 2},
            "model": {"kind": "deep_sets", "width": width, **model},
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"batch_size": 16, "steps": 25},
            "seed": seed,
        }
    )


def loaded(text: str = TEXT) -> None:
    assert text is TEXT or text != TEXT
    load(Plugin("deep_sets.py", text, "deep_sets.py"))


@pytest.mark.parametrize(("text", "width"), [(TEXT, 3), (TEXT, 8), (TEXT, 17), (SCATTERING, 5)])
def test_a_trial_has_the_same_bits_alone_and_in_a_pack(text: str, width: int) -> None:
    """Whether torch's stacks round as one model does or not, which differs by width and machine, or cannot take the module."""
    loaded(text)
    pack = [trial(width, seed) for seed in range(5)]
    together = train_pack(pack, keep_weights=True)
    for place in (0, 3):
        (alone,) = train_pack([pack[place]], keep_weights=True)
        assert alone.relative_loss == together[place].relative_loss
        for name, value in alone.weights.items():
            np.testing.assert_array_equal(value, together[place].weights[name], strict=True)
    assert {result.relative_loss for result in together} != {together[0].relative_loss}


def test_trials_are_stacked_where_their_bits_allow() -> None:
    """Some widths round alike in a stack on each machine: 3, 8 and 64 on an AMD EPYC, 16 to 64 on an Intel Xeon."""
    loaded()
    stacked = []
    for width in (3, 8, 16, 32, 64):
        program = NetworkProgram(tuple(trial(width, seed) for seed in range(4)), torch.device("cpu"))
        parameters = program.initial()
        losses, gradients = program.gradients(parameters, 0)
        stacked += program.network._is_stacked.values()
        again, _ = program.gradients(parameters, 0)
        assert torch.equal(losses, again)
        assert {name: tuple(value.shape) for name, value in gradients.items()} == {
            "W.weight": (4, width, 3), "W.bias": (4, width), "V.weight": (4, 2, width), "V.bias": (4, 2),
        }  # fmt: skip
    assert len(stacked) == 5
    assert any(stacked)
    unload_all()
    loaded(SCATTERING)
    program = NetworkProgram(tuple(trial(3, seed) for seed in range(4)), torch.device("cpu"))
    with torch.no_grad():
        program.gradients(program.initial(), 0)
    assert list(program.network._is_stacked.values()) == [False]


def test_the_gradient_is_that_of_the_module_by_itself() -> None:
    loaded()
    config = trial(4)
    program = NetworkProgram((config,), torch.device("cpu"))
    losses, gradients = program.gradients(program.initial(), 0)
    torch.manual_seed(config.seed)
    module = config.model.module_type(4, config.task)
    batch = program.training_batch(0)
    answers = module(batch.X[0], batch.y[0, :, 0])
    errors = (answers - batch.target[0, :, 0]).square().sum(-1)
    (errors / 2).mean().backward()
    assert losses.item() == pytest.approx(float(errors.detach().mean()) / (2 / 2), rel=1e-5)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name][0], parameter.grad)


def test_defaults_of_the_constructor_are_fields() -> None:
    loaded()
    assert trial().model.bias is True
    without = trial(bias=False)
    assert without.trial_id != trial().trial_id
    assert "W.bias" not in NetworkProgram((without,), torch.device("cpu")).initial()
    assert trial(4).model.num_parameters(trial().task) == 4 * 3 + 4 + 2 * 4 + 2
    with pytest.raises(ValueError, match="depth"):
        trial(depth=3)


def test_it_reads_several_questions_or_none() -> None:
    """qSTR asks T questions at a time; a sparse Boolean function shows none."""
    several = TEXT.replace("(y.unsqueeze(-1) == ", "(y[:, 0].unsqueeze(-1) == ").replace(
        "X, asked.unsqueeze(-1)], -1))).sum(1))",
        "X, asked.unsqueeze(-1)], -1))).sum(1)).mean(-1, keepdim=True).unsqueeze(1).expand(-1, y.shape[1], -1)",
    )
    loaded(several)
    config = TrialConfig.model_validate(trial(task="simple_qstr").model_dump())
    try_pair(config)
    unload_all()
    loaded(
        TEXT.replace("forward(self, X, y):", "forward(self, X, y=None):\n        y = torch.zeros(len(X), 1, dtype=torch.int64)")
    )
    task = {"kind": "sparse_boolean", "T": 9, "q": 2, "function": "parity"}
    try_pair(TrialConfig.model_validate(trial().model_dump() | {"task": task}))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (".sum(1))", ".sum(1))[:, :1]", r"deep_sets.py:15: DeepSets.forward: the outputs must have the shape \(1, 16, 1, 2\)"),
        ("torch.relu(", "torch.rel(", r"deep_sets.py:18: DeepSets.forward: AttributeError: .*rel"),
        ("nn.Linear(width, task.d)", "nn.Sequential(nn.Dropout(0.5), nn.Linear(width, task.d))", "V.0, a Dropout, draws from"),
        ("nn.Linear(width, task.d)", "nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, task.d))", "use LayerNorm"),
        ("self.W = ", "self.requires_grad_(False)\n        self.W = ", None),
        ("bias=bias)", "bias=bias).requires_grad_(False)", None),
    ],
)
def test_what_a_module_gets_wrong_is_seen_before_it_trains(old: str, new: str, words: str | None) -> None:
    assert old in TEXT
    loaded(TEXT.replace(old, new))
    if words is None:
        try_pair(trial())
        return
    with pytest.raises(UserError, match=words):
        try_pair(trial())


def test_modules_that_are_parts_are_no_models() -> None:
    """A class without width and task is a part; a file of parts alone is told what a model is."""
    with pytest.raises(UserError, match=r"a torch\.nn\.Module whose constructor takes width and task"):
        loaded(TEXT.replace("width, task, bias: bool = True", "size, task, bias: bool = True").replace("width", "size"))
    part = "\n\nclass Part(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
    loaded(TEXT + part)
    assert network_of(trial().model).__name__ == "DeepSets"
