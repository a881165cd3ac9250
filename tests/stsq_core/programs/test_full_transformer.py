"""The transformer in full against its definition, written sample by sample for autograd, and against the fast programs."""

from itertools import product

import numpy as np
import pytest
import torch

from stsq_core import UserError, train_pack
from stsq_core.configs.stacking import padded_tokens
from stsq_core.numerics.streams import Purpose
from stsq_core.programs.full_transformer import FullTransformer, SharedCodes
from stsq_core.programs.program import CHUNK
from stsq_core.programs.sample_codes import MinibatchSampleCodes
from stsq_core.programs.theorem_transformer import MinibatchProgram, MinibatchTransformer
from stsq_core.training.descent import Descent
from stsq_core.training.stack import build_program

CPU = torch.device("cpu")
F64 = torch.float64
T, Q, D, D_E, BATCH = 9, 3, 2, 7, 5
TRAINING = {"steps": 5, "batch_size": BATCH, "dtype": "float64"}

CODES = [
    {"kind": "one_hot"},
    {"kind": "one_hot", "query": "sum"},
    *(
        {"kind": kind, "d_e": D_E, "redraw": redraw, "query": query}
        for kind in ("random_sign", "gaussian")
        for redraw in ("never", "per_step", "per_sample")
        for query in ("sum", "dual")
    ),
    {"kind": "sinusoidal", "d_e": D_E, "query": "sum"},
    {"kind": "sinusoidal", "d_e": D_E, "query": "dual"},
    {"kind": "learned", "d_e": D_E},
    {"kind": "learned", "d_e": D_E, "query": "dual"},
]


def name_of(codes: dict) -> str:
    return "-".join(str(value) for key, value in codes.items() if key != "d_e")


def full_program(configs) -> FullTransformer:
    """The program in full, also of trials that the fast programs would train."""
    return FullTransformer(tuple(configs), CPU)


def some_parameters(program: FullTransformer) -> dict[str, torch.Tensor]:
    """Random numbers at the coordinates that a trial has."""
    generator = torch.Generator().manual_seed(5)
    m = program.configs[0].width
    parameters = {name: torch.zeros_like(value) for name, value in program.initial().items()}
    parameters["W"][:, :m, :m] = torch.randn((m, m), generator=generator, dtype=F64)
    parameters["V"][:, :, :m] = torch.randn((D, m), generator=generator, dtype=F64)
    if "E" in parameters:
        parameters["E"][..., :D_E] = torch.randn((T, D_E), generator=generator, dtype=F64)
    return parameters


def code_books(program: FullTransformer, parameters: dict, step: int) -> list[torch.Tensor]:
    """The codes (T, d_e) of every sample."""
    samples = program._samples(parameters, program.subsets(step), step, T=T, fresh=False)
    if not isinstance(samples.codes, SharedCodes):
        return list(samples.codes.codes[0])
    every_token = torch.eye(padded_tokens(T), dtype=F64)[None, :T]
    return [samples.codes._book.push(every_token)[0]] * BATCH


def defined_query(E: torch.Tensor, y: torch.Tensor, query: str) -> torch.Tensor:
    if query == "sum":
        return E[y].sum(0)
    return torch.linalg.pinv(E[y], rtol=1e-5) @ torch.ones(len(y), dtype=E.dtype)


def defined_loss(trial, program, parameters: dict, step: int) -> torch.Tensor:
    """`E ||f - target||^2` of one step's batch by the formulas of the paper, one sample after another."""
    model, y = trial.model, program.subsets(step)[0]
    streams, kernels = program.streams, program.kernels
    X = kernels.normals(streams.draws(Purpose.TOKENS, step), rows=1, numbers=BATCH * D * T, dtype=F64)[0].view(BATCH, D, T)
    queries = kernels.normals(streams.draws(Purpose.QUERIES, step), rows=1, numbers=BATCH * D, dtype=F64)[0].view(BATCH, D)
    books = [parameters["E"][0]] * BATCH if "E" in parameters else code_books(program, parameters, step)
    total = torch.zeros((), dtype=F64)
    for b in range(BATCH):
        x_query = queries[b] if model.x_query == "gaussian" else torch.zeros(D, dtype=F64)
        z_query = torch.cat([x_query, defined_query(books[b], y[b], model.positions.query)])
        Z = torch.cat([X[b], books[b].T])
        if model.attend_query:
            Z = torch.cat([Z, z_query[:, None]], 1)
        f = parameters["V"][0] @ Z @ (Z.T @ parameters["W"][0] @ z_query).softmax(0)
        total = total + ((f - X[b][:, y[b]].mean(1)) ** 2).sum() / BATCH
    return total


@pytest.mark.parametrize("codes", CODES, ids=name_of)
@pytest.mark.parametrize(("x_query", "attend_query"), list(product(["zero", "gaussian"], [False, True])))
def test_gradients_are_those_of_the_definition(transformer, codes: dict, x_query: str, attend_query: bool) -> None:
    fields = {"model__positions": codes, "model__x_query": x_query, "model__attend_query": attend_query}
    trial = transformer(T=T, q=Q, d=D, training=TRAINING, model__init="gaussian", **fields)
    program = full_program([trial])
    parameters = some_parameters(program)
    losses, gradients = program.gradients(parameters, 3)
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    loss = defined_loss(trial, program, leaves, 3)
    torch.testing.assert_close(losses[0], loss.detach() * Q / D)
    expected = torch.autograd.grad(loss / 2, list(leaves.values()))
    assert gradients.keys() == parameters.keys()
    for name, gradient in zip(leaves, expected, strict=True):
        torch.testing.assert_close(gradients[name], gradient, msg=lambda text, name=name: f"{name}: {text}")
    m = trial.width
    assert not gradients["W"][:, m:].any()
    assert not gradients["W"][:, :, m:].any()
    assert not gradients["V"][:, :, m:].any()
    assert gradients["W"][:, :, :D].any() == (x_query == "gaussian")


@pytest.mark.parametrize("attend_query", [False, True])
def test_the_gradient_of_learned_codes_is_that_of_finite_differences(transformer, attend_query: bool) -> None:
    fields = {"model__x_query": "gaussian", "model__attend_query": attend_query}
    program = full_program(
        [transformer(T=T, q=Q, d=D, training=TRAINING, model__positions={"kind": "learned", "d_e": D_E}, **fields)]
    )
    parameters = some_parameters(program)
    gradient = program.gradients(parameters, 2)[1]["E"][0]
    for t, e in ((0, 0), (3, 6), (8, 2), (5, 4)):
        ends = []
        for change in (1e-5, -1e-5):
            moved = {name: value.clone() for name, value in parameters.items()}
            moved["E"][0, t, e] += change
            ends.append(float(program.gradients(moved, 2)[0][0]) * D / Q / 2)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(gradient[t, e]), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("codes", CODES[:-2], ids=name_of)
def test_from_zero_it_is_the_fast_program(transformer, codes: dict) -> None:
    """Twenty steps of Adam give the same losses, weights and fresh losses, to rounding."""
    trials = [
        transformer(T=T, q=Q, d=D, model__positions=codes, training=TRAINING | {"steps": 20}, seed=seed) for seed in (0, 1)
    ]
    fast, full = build_program(tuple(trials), CPU), full_program(trials)
    assert isinstance(fast, MinibatchTransformer | MinibatchSampleCodes)
    ends = []
    for program in (fast, full):
        parameters = program.initial()
        descent = Descent(tuple(t.optimizer for t in trials), 20, dtype=F64, kernels=program.kernels)
        moments, losses = descent.moments(parameters), []
        for step in range(20):
            loss, gradients = program.gradients(parameters, step)
            losses.append(loss)
            descent.update(parameters, gradients, moments, step)
        ends.append((torch.stack(losses), program.fresh_losses(parameters, 4), program.weights(parameters, 1)))
    for a, b in zip(ends[0][:2], ends[1][:2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    for name in ("W", "V"):
        np.testing.assert_allclose(ends[0][2][name], ends[1][2][name], rtol=1e-8, atol=1e-10)
    assert ends[0][2]["W"].any()


def test_the_fast_programs_train_what_they_can(transformer) -> None:
    for fields in ({}, {"init": "gaussian"}, {"x_query": "gaussian"}, {"attend_query": True}):
        trial = transformer(training=TRAINING, **{f"model__{name}": value for name, value in fields.items()})
        program = build_program((trial,), CPU)
        assert isinstance(program, FullTransformer if fields else MinibatchProgram)
    learned = transformer(training=TRAINING, model__positions={"kind": "learned", "d_e": 8})
    assert isinstance(build_program((learned,), CPU), FullTransformer)


def test_a_gaussian_start_has_its_scale_and_a_narrow_one_is_part_of_a_wide_one(transformer) -> None:
    fields = {"training": {"steps": 1, "batch_size": 2}, "model__init": "gaussian", "model__init_scale": 0.5, "d": 4}
    wide, narrow = (build_program((transformer(d_e=d_e, **fields),), CPU) for d_e in (60, 49))
    start = wide.weights(wide.initial(), 0)
    for array in (start["W"], start["V"]):
        n = array.size
        assert abs(array.mean()) < 4 * 0.5 / n**0.5
        assert array.std() == pytest.approx(0.5, abs=4 * 0.5 / (2 * n) ** 0.5)
    within = narrow.weights(narrow.initial(), 0)
    assert within["W"].shape == (53, 53)
    np.testing.assert_array_equal(within["W"], start["W"][:53, :53])
    np.testing.assert_array_equal(within["V"], start["V"][:, :53])
    padded = narrow.initial()
    assert not padded["W"][:, 53:].any()
    assert not padded["W"][:, :, 53:].any()
    assert not padded["V"][:, :, 53:].any()
    other = build_program((transformer(d_e=49, seed=1, **fields),), CPU)
    assert not np.any(other.weights(other.initial(), 0)["W"] == within["W"])


@pytest.mark.parametrize("optimizer", [{"kind": "adam", "lr": 0.05}, {"kind": "gd", "lr": 0.5}], ids=["adam", "gd"])
def test_without_tokens_in_the_query_the_X_columns_of_W_keep_their_start(transformer, optimizer: dict) -> None:
    fields = {"d": 3, "d_e": 11, "model__init": "gaussian", "optimizer": optimizer, "training": {"steps": 30, "batch_size": 8}}
    trial = transformer(**fields)
    program = build_program((trial,), CPU)
    start = program.weights(program.initial(), 0)["W"]
    (end,) = train_pack([trial], keep_weights=True)
    np.testing.assert_array_equal(end.weights["W"][:, :3], start[:, :3])
    assert np.any(end.weights["W"][:, 3:] != start[:, 3:])
    (moved,) = train_pack([transformer(**fields, model__x_query="gaussian")], keep_weights=True)
    assert np.all(moved.weights["W"][:, :3] != start[:, :3])


def test_weights_have_the_papers_names_and_no_padding(transformer) -> None:
    codes = {"kind": "learned", "d_e": 11}
    trials = [transformer(T=12, d=2, model__positions=codes, training={"steps": 3, "batch_size": 4}, seed=s) for s in (0, 1)]
    for result in train_pack(trials, keep_weights=True):
        shapes = {name: array.shape for name, array in result.weights.items()}
        assert shapes == {"W": (13, 13), "V": (2, 13), "E": (12, 11)}
        assert np.all(np.isfinite(result.weights["E"]))


def test_learned_codes_start_as_random_signs_and_move(transformer) -> None:
    trial = transformer(T=12, model__positions={"kind": "learned", "d_e": 16}, training={"steps": 5, "batch_size": 8})
    program = build_program((trial,), CPU)
    start = program.weights(program.initial(), 0)["E"]
    assert set(np.abs(start).flatten()) == {np.float32(0.25)}
    (end,) = train_pack([trial], keep_weights=True)
    assert np.any(end.weights["E"] != start)


FULL = {"model__init": "gaussian", "model__init_scale": 0.4, "model__x_query": "gaussian", "model__attend_query": True}


@pytest.mark.parametrize("codes", CODES[2::3], ids=name_of)
def test_fresh_losses_are_fresh_and_of_the_same_distribution(transformer, codes: dict) -> None:
    trial = transformer(T=T, q=Q, d=D, model__positions=codes, training={"batch_size": CHUNK, "steps": 5}, **FULL)
    program = build_program((trial,), CPU)
    parameters = program.initial()
    parameters["V"][0, :, :D] += torch.eye(D)
    trained = torch.stack([program.gradients(parameters, step)[0][0] for step in range(300)])
    fresh = torch.stack([program.fresh_losses(parameters, chunk)[0].mean() for chunk in range(300)])
    assert not torch.isin(fresh, trained).any()
    error = ((trained.var() + fresh.var()) / 300) ** 0.5
    assert abs(trained.mean() - fresh.mean()) < 4 * error


@pytest.mark.parametrize("codes", CODES, ids=name_of)
def test_other_lengths_and_subset_sizes_can_be_evaluated(transformer, codes: dict) -> None:
    """A model that says zero loses `E ||target||^2 = d/q`, whatever T and q are: a relative loss of 1."""
    program = build_program((transformer(T=T, q=Q, d=D, model__positions=codes, training=TRAINING, **FULL),), CPU)
    assert isinstance(program, FullTransformer)
    parameters = program.initial() | {"V": torch.zeros_like(program.initial()["V"])}
    bound = codes["kind"] in ("one_hot", "learned")
    for sizes in ({}, {"q": 5}, {"T": 6}, *(() if bound else ({"T": 40}, {"T": 40, "q": 2}))):
        losses = torch.cat([program.fresh_losses(parameters, chunk, **sizes) for chunk in range(20)], 1)
        assert abs(losses.mean() - 1) < 4 * losses.std() / losses.numel() ** 0.5
    if bound:
        with pytest.raises(UserError, match="T=10 beyond T=9"):
            program.fresh_losses(parameters, 0, T=10)


def test_attention_mass_is_that_of_the_members(transformer) -> None:
    """From zero attention is even: q of T, or of T + 1 where the query is attended to."""
    for attend_query, columns in ((False, T), (True, T + 1)):
        trial = transformer(T=T, q=Q, training=TRAINING, model__x_query="gaussian", model__attend_query=attend_query)
        program = full_program([trial])
        mass = program.fresh_attention_mass(program.initial(), 0)
        torch.testing.assert_close(mass, torch.full((1, CHUNK), Q / columns, dtype=F64))
