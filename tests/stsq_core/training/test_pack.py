"""The law of the pack, the one-hot oracle, divergence, interruption."""

import math
import random

import numpy as np
import pytest
import torch

from stsq_core import TrialConfig, train_pack
from stsq_core.numerics.checkpoint import Checkpoint
from stsq_core.oracles import theory

GD = {"kind": "gd", "lr": 0.5}


class InterruptedTrainingError(Exception):
    """Raised by the test's checkpoint in the place of a SIGKILL."""


class InterruptingCheckpoint(Checkpoint):
    """Saves at every `every`-th opportunity and breaks off after `limit` saves."""

    def __init__(self, every: int, limit: int) -> None:
        self.state: bytes | None = None
        self.every, self.limit, self.chances, self.saves = every, limit, 0, 0

    def load(self) -> bytes | None:
        return self.state

    def due(self) -> bool:
        self.chances += 1
        return self.chances % self.every == 0

    def save(self, state: bytes) -> None:
        self.state = state
        self.saves += 1
        if self.saves == self.limit:
            raise InterruptedTrainingError


def numbers(results):
    return [(r.config.trial_id, r.status, r.relative_loss, r.relative_loss_stderr, r.steps) for r in results]


def a_pack_of_16(transformer, fcn, kind: str):
    """Mixed widths (of one rung and of others), rates, seeds and optimizers."""

    def fields(i: int) -> dict:
        return {
            "seed": i % 5,
            "optimizer": dict(GD, lr=0.1 + i / 10)
            if i % 3 == 0
            else {"kind": "adam", "lr": 0.01 * (i + 1), "beta1": 0.5 + i / 40},
        }

    match kind:
        case "population":
            return [transformer(T=13, d_e=17 + i % 7, **fields(i)) for i in range(16)]
        case "minibatch":
            return [
                transformer(T=13, d=3, d_e=17 + i % 7, training={"steps": 20, "batch_size": 10}, **fields(i)) for i in range(16)
            ]
        case "per_sample":
            codes = [{"kind": "random_sign", "d_e": 9 + i % 8, "redraw": "per_sample"} for i in range(16)]
            return [
                transformer(T=11, model__positions=codes[i], training={"steps": 20, "batch_size": 7}, **fields(i))
                for i in range(16)
            ]
        case "fixed":
            codes = [{"kind": "random_sign", "d_e": 9 + i % 8, "redraw": "never", "query": "sum"} for i in range(16)]
            return [
                transformer(
                    T=11,
                    model__positions=codes[i],
                    training={"objective": "population", "steps": 20, "batch_size": "all"},
                    **fields(i),
                )
                for i in range(16)
            ]
        case "one_hot":
            return [
                transformer(T=11, model__positions={"kind": "one_hot"}, training={"steps": 20, "batch_size": 9}, **fields(i))
                for i in range(16)
            ]
        case "gaussian" | "gaussian_per_sample":
            redraw = "per_step" if kind == "gaussian" else "per_sample"
            codes = [{"kind": "gaussian", "d_e": 17 + i % 8, "redraw": redraw} for i in range(16)]
            return [
                transformer(T=11, model__positions=codes[i], training={"steps": 20, "batch_size": 7}, **fields(i))
                for i in range(16)
            ]
        case "sinusoidal":
            codes = [{"kind": "sinusoidal", "d_e": 9 + i % 8} for i in range(16)]
            return [transformer(T=11, model__positions=codes[i], **fields(i)) for i in range(16)]
        case "full" | "full_per_sample" | "learned" | "learned_dual":
            full = {"model__init": "gaussian", "model__x_query": "gaussian", "model__attend_query": True}
            codes = {"kind": "gaussian", "redraw": "per_step" if kind == "full" else "per_sample"}
            codes = {"kind": "learned", "query": "dual" if kind == "learned_dual" else "sum"} if "learned" in kind else codes
            training = {"steps": 20, "batch_size": 7}
            return [
                transformer(T=11, d=3, model__positions=codes | {"d_e": 17 + i % 8}, training=training, **full, **fields(i))
                for i in range(16)
            ]
        case "fcn":
            return [
                fcn(T=5, width=10 + i % 7, model__tail_width=13, training={"steps": 20, "batch_size": 11}, **fields(i))
                for i in range(16)
            ]
        case "blocks":  # of samples, two whole ones and a part
            shape = {"T": 5, "d": 3, "model__depth": 3, "model__tail_width": 70, "training": {"steps": 20, "batch_size": 75}}
            return [fcn(width=10 + i % 7, **shape, **fields(i)) for i in range(16)]
        case "tanh" | "gelu":
            return [
                fcn(T=5, width=10 + i % 7, model__activation=kind, training={"steps": 20, "batch_size": 11}, **fields(i))
                for i in range(16)
            ]
        case "float64":
            return [
                fcn(T=5, width=3 + i % 5, training={"steps": 20, "batch_size": 11, "dtype": "float64"}, **fields(i))
                for i in range(16)
            ]
    task, model = NETWORKS[kind]
    return [
        TrialConfig.model_validate(
            {"task": task, "model": model, "training": {"steps": 12, "batch_size": 7}, "optimizer": {"kind": "gd", "lr": 0.1}}
            | fields(i)
            | ({"optimizer": {"kind": "adamw", "lr": 0.01, "weight_decay": 0.1 * i}} if i % 3 == 1 else {})
            | ({"optimizer": {"kind": "gd", "lr": 0.001 * (i + 1)}} if i % 3 == 0 else {})
        )
        for i in range(16)
    ]


NETWORKS = {
    "transformer_mlp": ({"kind": "qstr", "T": 5, "q": 1, "d": 3}, {"kind": "transformer_mlp", "heads": 2, "width": 9}),
    "gru": ({"kind": "qstr", "T": 4, "q": 2, "d": 3, "link": "mean"}, {"kind": "rnn", "width": 13}),
    "relu": ({"kind": "stsq", "T": 5, "q": 2, "d": 3}, {"kind": "rnn", "width": 13, "cell": "relu"}),
    "tanh_rnn": (
        {"kind": "stsq", "T": 5, "q": 2, "d": 3},
        {"kind": "rnn", "width": 13, "cell": "tanh", "bidirectional": False},
    ),
    "ffn": ({"kind": "simple_qstr", "T": 5, "q": 2, "d": 3, "link": "hermite2"}, {"kind": "ffn", "tail_width": 11}),
    "stream": ({"kind": "stsq", "T": 11, "q": 2, "d": 3}, {"kind": "stream_transformer", "width": 9, "init_scale": 0.1}),
    "bit_attention": (
        {"kind": "sparse_boolean", "T": 9, "q": 3, "function": "majority", "inputs": "structured"},
        {"kind": "bit_attention", "width": 7, "mlp_width": 5, "answer_gap": 2.0, "readout_rate": 0.1},
    ),
    "positional_keys": (
        {"kind": "sparse_boolean", "T": 70, "q": 3, "function": "and"},
        {"kind": "bit_attention", "width": 7, "mlp_width": 0, "keys": "positions", "values": "bits", "answer_gap": 20.0},
    ),
}
"""Tasks and models that train by autograd."""

KINDS = [
    "population",
    "minibatch",
    "per_sample",
    "fixed",
    "one_hot",
    "gaussian",
    "gaussian_per_sample",
    "sinusoidal",
    "full",
    "full_per_sample",
    "learned",
    "learned_dual",
    "fcn",
    "blocks",
    "tanh",
    "gelu",
    "float64",
    *NETWORKS,
]


SLOW_KINDS = ("transformer_mlp", "learned_dual")


@pytest.mark.parametrize("kind", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW_KINDS else one for one in KINDS])
def test_a_trial_has_the_same_bits_alone_in_a_pack_and_elsewhere_in_it(transformer, fcn, kind: str) -> None:
    trials = a_pack_of_16(transformer, fcn, kind)
    together = dict(zip(trials, train_pack(trials), strict=True))
    shifted = trials[5:] + trials[:5]
    assert numbers(train_pack(shifted)) == numbers([together[t] for t in shifted])
    assert numbers(train_pack(trials[3:7])) == numbers([together[t] for t in trials[3:7]])
    for trial in trials[::3]:
        assert numbers(train_pack([trial])) == numbers([together[trial]])


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_and_resumed_has_the_same_bits_and_reports(transformer, fcn, kind: str) -> None:
    trials = [*a_pack_of_16(transformer, fcn, kind), transformer(T=6, d_e=8, training__steps=9)]
    undisturbed: list = []
    expected = numbers(train_pack(trials, report=undisturbed.append))
    checkpoint, reports, breaks = InterruptingCheckpoint(every=7, limit=1), [], 0
    while True:
        saved: list = []
        try:
            results = train_pack(trials, report=saved.append, checkpoint=checkpoint)
        except InterruptedTrainingError:
            reports += saved
            breaks += 1
            checkpoint.saves = 0
            continue
        reports += saved
        break
    assert breaks >= 3
    assert numbers(results) == expected
    assert repr(reports) == repr(undisturbed)  # NaN, which a diverging trial may report, equals nothing


def test_the_number_of_threads_changes_no_bit(transformer) -> None:
    trials = [
        transformer(T=32, d_e=24, training={"objective": "minibatch", "steps": 10, "batch_size": 64}, seed=s) for s in range(4)
    ]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = numbers(train_pack(trials))
        torch.set_num_threads(2)
        assert numbers(train_pack(trials)) == one
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_configs_and_repeats_share_one(transformer, fcn) -> None:
    trials = [fcn(width=9), transformer(), fcn(width=2), transformer(), fcn(width=9)]
    results = train_pack(trials)
    assert [r.config for r in results] == trials
    assert results[0] is results[4]
    assert train_pack([]) == ()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-8), ("float32", 1e-4)])
def test_one_hot_gradient_descent_follows_the_exact_recursion(transformer, dtype: str, tolerance: float) -> None:
    T, q, d, lr, steps = 12, 3, 5, 1.0, 2000
    trial = transformer(
        T=T, q=q, d=d, model__positions={"kind": "one_hot"}, optimizer={"kind": "gd", "lr": lr},
        training={"objective": "population", "batch_size": "all", "steps": steps, "log_every": 1, "dtype": dtype},
    )  # fmt: skip
    losses: list[float] = []
    (result,) = train_pack([trial], report=lambda m: losses.append(m.relative_loss[0] * d / (2 * q)))
    exact = theory.one_hot_descent(T=T, q=q, d=d, lr=lr, steps=steps)
    assert len(losses) == steps + 1
    np.testing.assert_allclose(losses, exact, rtol=tolerance)
    # Every subset has the same loss here, so even a sample of them gives the population's.
    assert result.relative_loss == pytest.approx(exact[-1] * 2 * q / d, rel=tolerance)
    assert exact[-1] < 0.01 * exact[0]


@pytest.mark.parametrize(("dtype", "tolerance"), [pytest.param("float64", 1e-8, marks=pytest.mark.slow), ("float32", 1e-4)])
def test_one_subset_stands_for_all_where_they_are_too_many_to_enumerate(transformer, dtype: str, tolerance: float) -> None:
    """C(200, 3) = 1,313,400, in a pack of two rates."""
    T, q, d, steps = 200, 3, 5, 1500
    training = {"objective": "population", "batch_size": "all", "steps": steps, "log_every": 1, "dtype": dtype}
    codes = {"kind": "one_hot"}
    trials = [
        transformer(T=T, q=q, d=d, model__positions=codes, optimizer={"kind": "gd", "lr": lr}, training=training)
        for lr in (5.0, 8.0)
    ]
    reports: list = []
    results = train_pack(trials, report=reports.append)
    for place, (trial, result) in enumerate(zip(trials, results, strict=True)):
        exact = theory.one_hot_descent(T=T, q=q, d=d, lr=trial.optimizer.lr, steps=steps) * 2 * q / d
        np.testing.assert_allclose([m.relative_loss[place] for m in reports], exact, rtol=tolerance)
        assert result.relative_loss == pytest.approx(exact[-1], rel=tolerance)
        assert exact[-1] < 0.5 * exact[0]
        (alone,) = train_pack([trial])
        assert alone.relative_loss == result.relative_loss


@pytest.mark.parametrize("optimizer", [{"kind": "gd", "lr": 1.0}, {"kind": "adam", "lr": 0.05}])
def test_one_subset_gives_what_enumerating_all_gives(transformer, monkeypatch, optimizer: dict) -> None:
    trial = transformer(
        T=7, q=3, d=2, model__positions={"kind": "one_hot"}, optimizer=optimizer,
        training={"objective": "population", "batch_size": "all", "steps": 200, "dtype": "float64"},
    )  # fmt: skip
    (every,) = train_pack([trial], keep_weights=True)
    monkeypatch.setattr("stsq_core.configs.compatibility.MAX_SUBSETS", 34)
    assert trial.batch == 1
    (one,) = train_pack([trial], keep_weights=True)
    assert one.relative_loss == pytest.approx(every.relative_loss, rel=1e-9)
    for name in ("W", "V"):
        np.testing.assert_allclose(one.weights[name], every.weights[name], rtol=1e-8, atol=1e-12)


def test_a_diverged_trial_leaves_and_disturbs_nobody(transformer) -> None:
    calm = [transformer(T=9, d_e=9, seed=s, training={"steps": 40, "batch_size": 8}) for s in range(3)]
    wild = transformer(T=9, d_e=9, optimizer={"kind": "gd", "lr": 1e6}, training={"steps": 40, "batch_size": 8})
    reports: list = []
    results = train_pack([calm[0], wild, *calm[1:]], report=reports.append)
    assert [r.status for r in results] == ["finished", "diverged", "finished", "finished"]
    assert (results[1].relative_loss, results[1].relative_loss_stderr) == (None, None)
    assert 0 < results[1].steps < 40
    assert numbers(results[:1] + results[2:]) == numbers(train_pack(calm))
    assert numbers(train_pack([wild])) == numbers(results[1:2])
    last = [m for m in reports if wild.trial_id in m.trial_ids][-1]
    assert last.step == results[1].steps
    assert not math.isfinite(last.relative_loss[1])
    assert reports[-1].trial_ids == tuple(c.trial_id for c in calm)


def test_reports_come_at_the_first_every_nth_and_last_step(transformer) -> None:
    steps = []
    train_pack([transformer(training__steps=25, training__log_every=10)], report=lambda m: steps.append(m.step))
    assert steps == [0, 10, 20, 25]


def test_a_final_loss_is_a_fresh_measurement_with_an_honest_error(transformer) -> None:
    """Other samples of the same trained weights scatter as the stated error says."""
    base = transformer(T=12, d_e=12, training={"objective": "population", "steps": 60, "batch_size": 32})
    results = train_pack(
        [base.model_copy(update={"evaluation": base.evaluation.model_copy(update={"samples": n})}) for n in (4096, 65536)]
    )
    small, large = results
    assert small.relative_loss_stderr / large.relative_loss_stderr == pytest.approx(4, rel=0.25)
    assert abs(small.relative_loss - large.relative_loss) < 4 * small.relative_loss_stderr
    assert large.relative_loss < 0.9


def test_weights_are_kept_on_request_and_survive_an_interruption(transformer, fcn) -> None:
    trials = [fcn(width=6), transformer(d_e=10)]
    plain = train_pack(trials)
    assert plain[0].weights is None
    kept = train_pack(trials, keep_weights=True)
    assert kept[0].weights["W1"].shape == (6, 13)
    checkpoint = InterruptingCheckpoint(every=25, limit=1)
    with pytest.raises(InterruptedTrainingError):
        train_pack(trials, keep_weights=True, checkpoint=checkpoint)
    resumed = train_pack(trials, keep_weights=True, checkpoint=checkpoint)
    for before, after in zip(kept, resumed, strict=True):
        assert before.weights.keys() == after.weights.keys()
        for name in before.weights:
            np.testing.assert_array_equal(before.weights[name], after.weights[name])


def test_the_state_of_other_trials_is_refused(transformer, fcn) -> None:
    checkpoint = InterruptingCheckpoint(every=5, limit=1)
    with pytest.raises(InterruptedTrainingError):
        train_pack([fcn()], checkpoint=checkpoint)
    with pytest.raises(ValueError, match="cannot resume"):
        train_pack([fcn(width=7)], checkpoint=checkpoint)


@pytest.mark.parametrize("codes", [{"kind": "learned"}, {"kind": "random_sign", "redraw": "per_sample"}], ids=["full", "fast"])
def test_the_law_holds_where_tokens_have_one_coordinate(transformer, codes: dict) -> None:
    """The gradient of V is one row there, cut from a wider product: it is read with the strides of a stack of one."""
    shared = {"T": 21, "q": 2, "d": 1, "training": {"steps": 8, "batch_size": 28}}
    trials = [transformer(model__positions=codes | {"d_e": 8}, seed=i, **shared) for i in range(7)]
    together = train_pack(trials)
    assert [numbers(train_pack([trial])) for trial in trials] == [numbers([result]) for result in together]


def test_the_law_holds_where_a_net_has_one_output(fcn) -> None:
    """The last layer's gradient is a product with a vector there, which a stack of one would hand to another kernel."""
    shared = {"T": 4, "q": 2, "d": 1, "training": {"steps": 10, "batch_size": 16}}
    trials = [fcn(width=24, seed=i, **shared) for i in range(3)]
    together = train_pack(trials)
    assert [numbers(train_pack([trial])) for trial in trials] == [numbers([result]) for result in together]


@pytest.mark.parametrize("case", range(12))
def test_the_law_holds_at_shapes_that_suit_no_cache_line(transformer, fcn, case: int) -> None:
    """Odd sizes once broke it through products whose rounding followed the alignment of their operands."""
    rng = random.Random(case)
    T, d, batch = rng.randint(3, 30), rng.randint(1, 5), rng.randint(1, 60)
    shared = {
        "T": T,
        "q": rng.randint(1, 3),
        "d": d,
        "training": {"steps": 4, "batch_size": batch, "dtype": rng.choice(["float32", "float64"])},
    }
    tail = {"model__depth": rng.randint(2, 4), "model__tail_width": rng.randint(1, 40)}
    tail["model__activation"] = ("relu", "tanh", "gelu")[case % 3]
    trials = [fcn(width=24 + i % 4, seed=i, **shared, **tail) for i in range(7)]
    codes = {
        "kind": "random_sign",
        "redraw": rng.choice(["never", "per_step", "per_sample"]),
        "query": rng.choice(["sum", "dual"]),
    }
    trials += [transformer(model__positions=codes | {"d_e": 5 + i % 4}, seed=i, **shared) for i in range(7)]
    full = {"model__init": "gaussian", "model__x_query": rng.choice(["zero", "gaussian"]), "model__attend_query": case % 2 == 0}
    codes = rng.choice([{"kind": "gaussian", "redraw": rng.choice(["per_step", "per_sample"])}, {"kind": "learned"}])
    trials += [transformer(model__positions=codes | {"d_e": 5 + i % 4}, seed=i, **shared, **full) for i in range(7)]
    together = train_pack(trials)
    for i in (0, 3, 6, 7, 10, 13, 14, 17, 20):
        assert numbers(train_pack([trials[i]])) == numbers(together[i : i + 1])
