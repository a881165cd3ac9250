"""The law of the pack for every network on every task: the same bits alone, in company, elsewhere in it, and after a break."""

from itertools import cycle

import pytest

import stsq_core.training.stack
from stsq_core import TrialConfig, train_pack
from stsq_core.numerics.checkpoint import Checkpoint

SIGNS = {"kind": "random_sign", "d_e": 9}
STARTED = {"kind": "attention", "positions": SIGNS, "init": "gaussian", "init_scale": 0.2}

MODELS = {
    "transformer": {"kind": "transformer", "positions": SIGNS},
    "full": {
        "kind": "transformer",
        "positions": {"kind": "gaussian", "d_e": 7, "redraw": "per_sample"},
        "init": "gaussian",
        "x_query": "gaussian",
        "attend_query": True,
    },
    "learned": {"kind": "transformer", "positions": {"kind": "learned", "d_e": 7}},
    "one_hot": {"kind": "attention", "positions": {"kind": "one_hot"}},
    "linear": STARTED | {"scores": "linear"},
    "sigmoid": {"kind": "attention", "positions": SIGNS, "scores": "sigmoid"},
    "top_q": STARTED | {"scores": "top_q"},
    "rank": STARTED | {"rank": 3},
    "heads": STARTED | {"heads": 3},
    "layers": STARTED | {"layers": 2},
    "all_of_it": STARTED | {"layers": 2, "heads": 2, "rank": 2, "scores": "sigmoid"},
    "per_sample": STARTED | {"layers": 2, "positions": {"kind": "random_sign", "d_e": 6, "redraw": "per_sample"}},
    "fcn": {"kind": "fcn", "width": 11, "tail_width": 13},
    "deep": {"kind": "fcn", "width": 7, "depth": 4, "tail_width": 9, "activation": "gelu"},
}
TASKS = {
    "stsq": {"kind": "stsq", "T": 11, "q": 3, "d": 3},
    "plain": {"kind": "selected_mean", "T": 11, "q": 3, "d": 3},
    "student_t": {"kind": "selected_mean", "T": 11, "q": 3, "d": 3, "tokens": {"kind": "student_t", "freedom": 5.0}},
    "laplace": {"kind": "selected_mean", "T": 13, "q": 2, "d": 1, "tokens": {"kind": "laplace"}, "noise": 0.5},
    "correlated": {"kind": "selected_mean", "T": 7, "q": 3, "d": 5, "tokens": {"kind": "correlated", "rho": 0.4}, "decay": 2.0},
    "second": {"kind": "moment", "T": 11, "q": 2, "d": 3, "order": 2},
    "variance": {"kind": "moment", "T": 9, "q": 3, "d": 1, "order": 2, "about": "mean"},
    "third": {"kind": "moment", "T": 10, "q": 3, "d": 2, "order": 3, "about": "mean"},
}
DERIVED = {"transformer", "full", "learned", "fcn", "deep"}
"""On `stsq` these have programs of their own, which stsq_core/test_pack.py holds to the law."""

PAIRS = [(model, "stsq") for model in MODELS if model not in DERIVED]
PAIRS += list(zip(MODELS, cycle([task for task in TASKS if task != "stsq"]), strict=False))
PAIRS += [("transformer", task) for task in TASKS if task not in ("stsq", "plain")]


def a_pack(model: str, task: str, *, batch: int = 7) -> list[TrialConfig]:
    """Seven trials of mixed seeds, rates and optimizers that train as one stack."""
    optimizers = [
        {"kind": "adam", "lr": 0.004 * (i + 1)} if i % 3 else {"kind": "gd", "lr": 0.001 + i / 2000} for i in range(7)
    ]
    data = {"task": TASKS[task], "model": MODELS[model], "training": {"steps": 9, "batch_size": batch, "log_every": 4}}
    return [TrialConfig.model_validate(data | {"optimizer": o, "seed": i % 5}) for i, o in enumerate(optimizers)]


def numbers(results):
    return [(r.config.trial_id, r.status, r.relative_loss, r.relative_loss_stderr) for r in results]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "task"), PAIRS)
def test_a_trial_has_the_same_bits_alone_in_a_pack_and_elsewhere_in_it(model: str, task: str) -> None:
    trials = a_pack(model, task)
    together = dict(zip(trials, train_pack(trials), strict=True))
    assert all(result.status == "finished" for result in together.values())
    assert len({result.relative_loss for result in together.values()}) == len(trials)
    shifted = trials[3:] + trials[:3]
    assert numbers(train_pack(shifted)) == numbers([together[t] for t in shifted])
    for trial in trials[::2]:
        assert numbers(train_pack([trial])) == numbers([together[trial]])


@pytest.mark.parametrize("batch", [1, 2, 29])
@pytest.mark.parametrize("model", ["all_of_it", "heads", "rank"])
def test_the_law_holds_at_batches_that_suit_no_cache_line(model: str, batch: int) -> None:
    trials = a_pack(model, "laplace", batch=batch)
    together = train_pack(trials)
    for i in (0, 3, 6):
        assert numbers(train_pack([trials[i]])) == numbers(together[i : i + 1])


class _BrokenOffError(Exception):
    """Raised by the test's checkpoint in the place of a SIGKILL."""


class _Breaking(Checkpoint):
    """Saves at every fourth opportunity and breaks off each time."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.chances = 0

    def load(self) -> bytes | None:
        return self.state

    def due(self) -> bool:
        self.chances += 1
        return self.chances % 4 == 0

    def save(self, state: bytes) -> None:
        self.state = state
        raise _BrokenOffError


@pytest.mark.parametrize(
    ("model", "task"), [("all_of_it", "student_t"), ("heads", "variance"), ("fcn", "correlated"), ("full", "plain")]
)
def test_interrupted_and_resumed_has_the_same_bits(model: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stsq_core.training.stack, "MOST_TOGETHER", 1)  # a chance to break off after every step
    trials, checkpoint, breaks = a_pack(model, task), _Breaking(), 0
    while True:
        try:
            results = train_pack(trials, checkpoint=checkpoint)
        except _BrokenOffError:
            breaks += 1
            continue
        break
    assert breaks == 2
    assert numbers(results) == numbers(train_pack(trials))
