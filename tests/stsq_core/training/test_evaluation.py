"""Evaluation: against loops written from the definitions; nothing of it changes training; exact and sampled forms agree."""

import itertools
import math

import numpy as np
import pytest
import torch

from stsq_core import Measurement, TrialConfig, TrialResult, train_pack
from stsq_core.configs.stacking import padded_tokens
from stsq_core.numerics.checkpoint import Checkpoint
from stsq_core.numerics.streams import Purpose
from stsq_core.programs.program import CHUNK, Program
from stsq_core.programs.sample_codes import MinibatchSampleCodes, PopulationSampleCodes, sample_book
from stsq_core.programs.theorem_transformer import PopulationProgram
from stsq_core.training.evaluation import describe, evaluate, ground_truth
from stsq_core.training.stack import build_program

CPU = torch.device("cpu")
SIGNS = {"kind": "random_sign", "d_e": 7}
CODES = {
    "one_hot": {"kind": "one_hot"},
    "fixed": SIGNS | {"redraw": "never", "query": "sum"},
    "per_step": SIGNS | {"redraw": "per_step", "query": "dual"},
    "per_sample": SIGNS | {"redraw": "per_sample", "query": "dual"},
}
OBJECTIVES = ("population", "minibatch")
T, Q, D = 9, 3, 2


def a_trial(transformer, codes: str, objective: str, **fields) -> TrialConfig:
    training = {"objective": objective, "steps": 20, "batch_size": 4, "dtype": "float64", "log_every": 7}
    return transformer(T=T, q=Q, d=D, model__positions=CODES[codes], **{"training": training} | fields)


def some_parameters(program: Program) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    initial = program.initial()
    return {name: torch.randn(p.shape, generator=generator, dtype=torch.float64) for name, p in initial.items()}


def drawn_books(program: Program, y: torch.Tensor, chunk: int, tokens: int) -> torch.Tensor:
    """The code book of every sample of a chunk, (CHUNK, tokens, d_e)."""
    if isinstance(program, MinibatchSampleCodes | PopulationSampleCodes):
        return sample_book(program, y, Purpose.FRESH_CODES, chunk, tokens).codes[0]
    every_token = torch.eye(padded_tokens(tokens), dtype=program.dtype)[None, :tokens]
    return program.books.fresh(chunk, tokens).push(every_token).expand(CHUNK, tokens, -1)


def defined(program: Program, parameters: dict[str, torch.Tensor], chunk: int, tokens: int, q: int) -> tuple[list, list]:
    """The relative loss and the attention mass of every sample, each from the definition of the model."""
    config = program.configs[0]
    y = program.fresh_subsets(chunk, T=tokens, q=q)
    E, weights = drawn_books(program, y, chunk, tokens), program.weights(parameters, 0)
    W, V = (torch.from_numpy(weights[name]) for name in "WV")
    E = E[..., : len(W) - D]
    draws = program.streams.draws(Purpose.FRESH_TOKENS, chunk)
    X = program.kernels.normals(draws, rows=1, numbers=CHUNK * D * tokens, dtype=torch.float64)[0].view(CHUNK, D, tokens)
    losses, masses = [], []
    for b in range(CHUNK):
        members = y[0, b]
        e_y = E[b][members].sum(0)
        if config.model.positions.query == "dual":
            e_y = torch.linalg.pinv(E[b][members], rtol=1e-5) @ torch.ones(q, dtype=torch.float64)
        Z, z_query = torch.cat([X[b], E[b].T]), torch.cat([torch.zeros(D, dtype=torch.float64), e_y])
        p = (Z.T @ W @ z_query).softmax(0)
        masses.append(sum(p[t].item() for t in members))
        if isinstance(program, PopulationProgram):
            hot = torch.zeros(tokens, dtype=torch.float64).index_fill(0, members, 1 / q)
            square = D * ((V[0, 0] * p - hot) ** 2).sum()
        else:
            square = ((V @ Z @ p - X[b][:, members].mean(1)) ** 2).sum()
        losses.append(square.item() / (D / q))
    return losses, masses


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("codes", CODES)
def test_fresh_losses_and_attention_are_those_of_the_definition(transformer, codes: str, objective: str) -> None:
    """In distribution, on other numbers of tokens and on other subset sizes; up to T where there are no codes beyond."""
    program = build_program((a_trial(transformer, codes, objective),), CPU)
    parameters = some_parameters(program)
    cases = [(T, Q), (T, 1), (T, 5), (5, Q)] + [(40, Q)] * (codes != "one_hot")
    for tokens, q in cases:
        losses, masses = defined(program, parameters, 3, tokens, q)
        mine = program.fresh_losses(parameters, 3, T=tokens, q=q)[0]
        torch.testing.assert_close(mine, torch.tensor(losses, dtype=torch.float64))
        if (tokens, q) == (T, Q):
            torch.testing.assert_close(program.fresh_losses(parameters, 3)[0], mine, rtol=0, atol=0)
            mass = program.fresh_attention_mass(parameters, 3)
            torch.testing.assert_close(mass[0], torch.tensor(masses, dtype=torch.float64))


def test_a_net_is_evaluated_on_other_subset_sizes(fcn) -> None:
    trial = fcn(T=5, q=2, d=2, width=6, training={"steps": 5, "batch_size": 8, "dtype": "float64"})
    program = build_program((trial,), CPU)
    parameters = program.initial()
    weights = [torch.from_numpy(array) for array in program.weights(parameters, 0).values()]
    draws = program.streams.draws(Purpose.FRESH_TOKENS, 2)
    X = program.kernels.normals(draws, rows=1, numbers=CHUNK * 10, dtype=torch.float64)[0].view(CHUNK, 10)
    y = program.fresh_subsets(2, q=4)[0]
    losses = []
    for x, members in zip(X, y, strict=True):
        hot, one = torch.zeros(5, dtype=torch.float64).index_fill(0, members, 1), torch.ones(1, dtype=torch.float64)
        h = torch.relu(weights[0] @ torch.cat([x, hot, one]))
        h = torch.relu(weights[1] @ torch.cat([h, hot, one]))
        f = weights[2] @ torch.cat([h, one])
        losses.append(((f - x.view(5, 2)[members].mean(0)) ** 2).sum() / (2 / 4))
    torch.testing.assert_close(program.fresh_losses(parameters, 2, q=4)[0], torch.stack(losses))
    assert program.fresh_attention_mass(parameters, 2) is None
    with pytest.raises(ValueError, match=r"T=5 tokens.*T=6"):
        program.fresh_losses(parameters, 2, T=6)


def test_a_fixed_book_of_more_tokens_begins_with_the_codes_of_training(transformer) -> None:
    program = build_program((a_trial(transformer, "fixed", "population"),), CPU)
    eye = torch.eye(program.length, dtype=torch.float64)[None]
    trained, short, long = (program.books.fresh(0, tokens).pull(eye)[0] for tokens in (T, 4, 70))
    assert program.books.training(5) is program.books.fresh(3)
    torch.testing.assert_close(long[:, :T], trained[:, :T], rtol=0, atol=0)
    torch.testing.assert_close(short[:, :4], trained[:, :4], rtol=0, atol=0)
    assert long[:7, :70].all()
    assert not long[:, 70:].any()
    assert not trained[:, T:].any()


def test_redrawn_books_have_as_many_codes_as_tokens(transformer) -> None:
    program = build_program((a_trial(transformer, "per_step", "population"),), CPU)
    eye = torch.eye(program.length, dtype=torch.float64)[None]
    one, other = (program.books.fresh(chunk, 70).pull(eye)[0] for chunk in (0, 1))
    assert one[:7, :70].all()
    assert not torch.equal(one, other)


@pytest.mark.parametrize("codes", CODES)
def test_norms_and_cosines_are_those_of_the_definition(transformer, codes: str) -> None:
    trial = a_trial(transformer, codes, "minibatch")
    width = trial.model.positions.d_e
    rng = np.random.default_rng(3)
    W, V = rng.normal(size=(D + width, D + width)), rng.normal(size=(D, D + width))
    printed = describe({"W": W, "V": V}, trial)
    names = {"W": {"XX": 0.0, "XE": 0.0, "EX": 0.0, "EE": 0.0}, "V": {"X": 0.0, "E": 0.0}}
    inner, square, length = {"W": 0.0, "V": 0.0}, {"W": 0.0, "V": 0.0}, {"W": 0.0, "V": 0.0}
    for i, j in itertools.product(range(D + width), range(D + width)):
        true = float(i == j) * (i >= D) - (i >= D and j >= D) * (1 / T if codes == "one_hot" else 0)
        names["W"][("X" if i < D else "E") + ("X" if j < D else "E")] += W[i, j] ** 2
        inner["W"], square["W"], length["W"] = inner["W"] + W[i, j] * true, square["W"] + W[i, j] ** 2, length["W"] + true**2
    for i, j in itertools.product(range(D), range(D + width)):
        names["V"]["X" if j < D else "E"] += V[i, j] ** 2
        true = float(i == j)
        inner["V"], square["V"], length["V"] = inner["V"] + V[i, j] * true, square["V"] + V[i, j] ** 2, length["V"] + true
    expected = {f"norm_{array}_{block}": math.sqrt(s) for array, blocks in names.items() for block, s in blocks.items()}
    expected |= {f"cosine_{name}": inner[name] / math.sqrt(square[name] * length[name]) for name in "WV"}
    if codes == "one_hot":
        shifted = W.copy()
        for j in range(D + width):
            mean = sum(W[i, j] for i in range(D, D + width)) / T
            for i in range(D, D + width):
                shifted[i, j] -= mean
        expected["cosine_W_centred"] = describe({"W": shifted, "V": V}, trial)["cosine_W"]
    assert printed == pytest.approx(expected)
    truth = ground_truth(trial)
    scaled = describe({"W": 3 * truth["W"].astype(np.float32), "V": 0.2 * truth["V"]}, trial)
    assert (scaled["cosine_W"], scaled["cosine_V"]) == pytest.approx((1, 1))
    zeros = describe({"W": 0 * W, "V": 0 * V}, trial)
    assert set(zeros.values()) == {0.0}
    assert describe({"W1": W}, trial) == {}


def test_every_metric_has_its_name_and_its_mean(transformer) -> None:
    asked = {"samples": 4100, "T_test": [12], "q_test": [2, 1], "describe": True}
    program = build_program((a_trial(transformer, "per_step", "minibatch", evaluation=asked),), CPU)
    parameters = some_parameters(program)
    printed = evaluate(program, parameters, program.configs[0].evaluation)
    ways = {"": {}, "@T=12": {"T": 12}, "@q=2": {"q": 2}, "@q=1": {"q": 1}}
    blocks = ("W_XX", "W_XE", "W_EX", "W_EE", "V_X", "V_E")
    described = ["attention_mass", "cosine_W", "cosine_V", *(f"norm_{block}" for block in blocks)]
    assert set(printed) == {*(f"{kind}{way}" for way in ways for kind in ("loss", "loss_stderr")), *described}
    for way, numbers in ways.items():
        chunks = torch.stack([program.fresh_losses(parameters, chunk, **numbers)[0].mean() for chunk in range(65)])
        assert printed[f"loss{way}"] == pytest.approx((chunks.mean().item(),))
        assert printed[f"loss_stderr{way}"] == pytest.approx((chunks.std().item() / 65**0.5,))
    masses = torch.stack([program.fresh_attention_mass(parameters, chunk)[0] for chunk in range(65)])
    assert printed["attention_mass"] == pytest.approx((masses.mean().item(),))


@pytest.mark.parametrize("codes", CODES)
def test_the_exact_form_and_the_sampled_form_agree(transformer, codes: str) -> None:
    """The same weights, evaluated with X integrated out and with X sampled: within four standard errors, at every T and q."""
    asked = {"q_test": [1, 5], "describe": True, "T_test": [5] if codes == "one_hot" else [5, 30]}
    exact, sampled = (
        build_program((a_trial(transformer, codes, objective, evaluation=asked, seed=seed),), CPU)
        for seed, objective in enumerate(OBJECTIVES)
    )
    if codes == "fixed":  # one book a trial: the same for both
        sampled.books = exact.books
    W_e = 3 * torch.eye(exact.length, dtype=torch.float64)[None]
    one = evaluate(exact, {"W_e": W_e, "v": torch.tensor([0.9], dtype=torch.float64)}, exact.configs[0].evaluation)
    V_x = 0.9 * torch.eye(D, dtype=torch.float64)[None]
    other = evaluate(sampled, sampled.initial() | {"W_e": W_e, "V_x": V_x}, sampled.configs[0].evaluation)
    for way in ["", *(f"@q={q}" for q in asked["q_test"]), *(f"@T={tokens}" for tokens in asked["T_test"])]:
        error = math.hypot(one[f"loss_stderr{way}"][0], other[f"loss_stderr{way}"][0])
        assert abs(one[f"loss{way}"][0] - other[f"loss{way}"][0]) < 4 * error, way
    assert one["attention_mass"][0] == pytest.approx(other["attention_mass"][0], abs=0.02)
    for name in ("cosine_W", "cosine_V", "norm_W_EE", "norm_V_X"):
        assert one[name] == pytest.approx(other[name])


# Evaluation through training


EVERY = {"every": 10, "T_test": [12], "q_test": [2], "describe": True}


class BrokenOffError(Exception):
    """Raised by the checkpoint in the place of a SIGKILL."""


class Breaking(Checkpoint):
    """Saves at one opportunity and breaks off."""

    def __init__(self, at: int) -> None:
        self.state: bytes | None = None
        self.left = at

    def load(self) -> bytes | None:
        return self.state

    def due(self) -> bool:
        self.left -= 1
        return self.left == 0

    def save(self, state: bytes) -> None:
        self.state = state
        raise BrokenOffError


def trials_of(transformer, fcn, codes: str, **evaluation) -> list[TrialConfig]:
    if codes == "fcn":
        evaluation = {name: value for name, value in evaluation.items() if name != "T_test"}
        training = {"steps": 20, "batch_size": 9, "log_every": 7}
        return [fcn(width=9 + i, seed=i, training=training, evaluation=evaluation) for i in range(3)]
    if codes == "one_hot":
        evaluation = {name: [5] if name == "T_test" else value for name, value in evaluation.items()}
    objective = "minibatch" if codes == "per_step" else "population"
    training = {"objective": objective, "steps": 20, "batch_size": 9, "log_every": 7}
    return [a_trial(transformer, codes, objective, seed=i, training=training, evaluation=evaluation) for i in range(3)]


def trained(trials: list[TrialConfig], **options) -> tuple[tuple[TrialResult, ...], list[Measurement]]:
    reports: list[Measurement] = []
    return train_pack(trials, report=reports.append, **options), reports


@pytest.mark.parametrize("codes", [*CODES, "fcn"])
def test_evaluation_changes_no_bit_of_training(transformer, fcn, codes: str) -> None:
    plain, plain_reports = trained(trials_of(transformer, fcn, codes), keep_weights=True)
    printed, reports = trained(trials_of(transformer, fcn, codes, **EVERY), keep_weights=True)
    assert [m.step for m in reports] == [0, 7, 10, 14, 20]
    assert [m.step for m in reports if m.metrics] == [0, 10, 20]
    losses = {m.step: m.relative_loss for m in reports}
    assert {m.step: m.relative_loss for m in plain_reports}.items() <= losses.items()
    assert not any(m.metrics for m in plain_reports)
    for one, other in zip(plain, printed, strict=True):
        assert (one.relative_loss, one.relative_loss_stderr) == (other.relative_loss, other.relative_loss_stderr)
        assert not one.metrics
        for name, array in one.weights.items():
            np.testing.assert_array_equal(array, other.weights[name])
        assert (other.metrics["loss"], other.metrics["loss_stderr"]) == (other.relative_loss, other.relative_loss_stderr)
    assert {name: tuple(r.metrics[name] for r in printed) for name in printed[0].metrics} == reports[-1].metrics
    assert ("attention_mass" in printed[0].metrics) == (codes != "fcn")


@pytest.mark.parametrize("codes", [*CODES, "fcn"])
def test_a_trial_has_the_same_metrics_alone_and_in_any_pack(transformer, fcn, codes: str) -> None:
    trials = trials_of(transformer, fcn, codes, **EVERY)
    together, reports = trained(trials)
    for place, trial in enumerate(trials):
        (alone,), own = trained([trial])
        assert alone.metrics == together[place].metrics
        for mine, all_of_them in zip(own, reports, strict=True):
            assert mine.metrics == {name: values[place : place + 1] for name, values in all_of_them.metrics.items()}
    turned, _ = trained(trials[1:] + trials[:1])
    assert [r.metrics for r in turned] == [r.metrics for r in together[1:] + together[:1]]


@pytest.mark.parametrize("at", [10, 11, 25])
def test_a_resumed_run_reports_the_same_metrics(transformer, fcn, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [*trials_of(transformer, fcn, "per_step", **EVERY), *trials_of(transformer, fcn, "fcn", **EVERY)]
    undisturbed, expected = trained(trials)
    monkeypatch.setattr("stsq_core.training.stack.MOST_TOGETHER", 1)  # a chance to break off after every step
    checkpoint, reports = Breaking(at), list[Measurement]()
    with pytest.raises(BrokenOffError):
        train_pack(trials, report=reports.append, checkpoint=checkpoint)
    results = train_pack(trials, report=reports.append, checkpoint=checkpoint)
    assert reports == expected
    assert [r.metrics for r in results] == [r.metrics for r in undisturbed]


def test_the_metrics_of_those_that_are_left_go_on_when_one_diverges(transformer) -> None:
    training = {"steps": 40, "batch_size": 8}
    calm = [transformer(T=9, d_e=9, seed=s, training=training, evaluation=EVERY) for s in range(2)]
    wild = transformer(T=9, d_e=9, optimizer={"kind": "gd", "lr": 1e6}, training=training, evaluation=EVERY)
    results, reports = trained([calm[0], wild, calm[1]])
    alone, own = trained(calm)
    assert [r.metrics for r in results if r.status == "finished"] == [r.metrics for r in alone]
    assert (results[1].status, results[1].metrics) == ("diverged", {})
    for mine, all_of_them in zip(own, reports, strict=True):
        kept = [place for place, trial_id in enumerate(all_of_them.trial_ids) if trial_id != wild.trial_id]
        assert mine.metrics == {name: tuple(values[i] for i in kept) for name, values in all_of_them.metrics.items()}


def test_without_every_the_end_alone_is_evaluated(transformer) -> None:
    (result,), reports = trained([transformer(evaluation={"q_test": [2]})])
    assert [m.step for m in reports if m.metrics] == [20]
    assert set(result.metrics) == {"loss", "loss_stderr", "loss@q=2", "loss_stderr@q=2"}
