"""Both transformer objectives against the definition of the model, written plainly and differentiated by autograd."""

from types import ModuleType

import pytest
import torch

from stsq_core.configs.stacking import padded_tokens
from stsq_core.kernels import cpu
from stsq_core.numerics.streams import Purpose
from stsq_core.programs.program import CHUNK
from stsq_core.programs.sample_codes import MinibatchSampleCodes, PopulationSampleCodes, sample_book
from stsq_core.programs.theorem_transformer import MinibatchProgram, PopulationProgram
from stsq_core.training.stack import build_program

CPU = torch.device("cpu")
CODES = [
    {"kind": "one_hot"},
    {"kind": "random_sign", "d_e": 7, "redraw": "never", "query": "sum"},
    {"kind": "random_sign", "d_e": 7, "redraw": "per_step", "query": "dual"},
    {"kind": "random_sign", "d_e": 7, "redraw": "per_sample", "query": "dual"},
    {"kind": "gaussian", "d_e": 7, "redraw": "never", "query": "dual"},
    {"kind": "gaussian", "d_e": 7, "redraw": "per_step", "query": "sum"},
    {"kind": "gaussian", "d_e": 7, "redraw": "per_sample", "query": "dual"},
    {"kind": "sinusoidal", "d_e": 7, "query": "dual"},
]


def books_of(program, count: int, step: int) -> torch.Tensor:
    """The code book of every sample, (batch, T, d_e)."""
    T = program.task.T
    if isinstance(program, MinibatchSampleCodes | PopulationSampleCodes):
        return sample_book(program, program.subsets(step), Purpose.CODES, step).codes[0]
    every_token = torch.eye(padded_tokens(T), dtype=program.dtype)[None, :T]
    return program.books.training(step).push(every_token).expand(count, T, -1)


def tokens_of(program, count: int, step: int) -> torch.Tensor:
    """The tokens of every sample, (batch, d, T)."""
    T, d = program.task.T, program.task.d
    draws = program.streams.draws(Purpose.TOKENS, step)
    return program.kernels.normals(draws, rows=1, numbers=count * d * T, dtype=program.dtype)[0].view(count, d, T)


def defined_output(W: torch.Tensor, V: torch.Tensor, X: torch.Tensor, E: torch.Tensor, e_y: torch.Tensor) -> torch.Tensor:
    """`V Z softmax(Z^T W z_query)` for one sample: X is (d, T), E is (d_e, T)."""
    Z = torch.cat([X, E])
    z_query = torch.cat([torch.zeros(len(X), dtype=X.dtype), e_y])
    return V @ Z @ (Z.T @ W @ z_query).softmax(0)


def defined_query(E: torch.Tensor, y: torch.Tensor, query: str) -> torch.Tensor:
    """The query code by its definition, by pseudo-inverse: E is (T, d_e)."""
    if query == "sum":
        return E[y].sum(0)
    return torch.linalg.pinv(E[y], rtol=1e-5) @ torch.ones(len(y), dtype=E.dtype)


@pytest.mark.parametrize("codes", CODES, ids=lambda c: f"{c['kind']}-{c.get('redraw', '')}-{c.get('query', '')}")
def test_minibatch_gradient_is_that_of_the_definition(transformer, codes) -> None:
    trial = transformer(T=9, q=3, d=2, model__positions=codes, training={"steps": 5, "batch_size": 4, "dtype": "float64"})
    program = build_program((trial,), CPU)
    assert isinstance(program, MinibatchProgram)
    d, D, true = 2, program.length, trial.model.positions.d_e
    generator = torch.Generator().manual_seed(5)
    parameters = {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64) for name, value in program.initial().items()
    }
    losses, gradients = program.gradients(parameters, 3)

    W = torch.zeros(d + D, d + D, dtype=torch.float64)
    W[:d, d:], W[d:, d:] = parameters["W_x"][0], parameters["W_e"][0]
    W.requires_grad_()
    V = torch.cat([parameters["V_x"][0], parameters["V_e"][0]], 1).requires_grad_()
    X = tokens_of(program, 4, 3)
    y, E = program.subsets(3)[0], books_of(program, 4, 3)
    assert not E[..., true:].any()
    total = torch.zeros((), dtype=torch.float64)
    for b in range(4):
        f = defined_output(W, V, X[b], E[b].T, defined_query(E[b], y[b], trial.model.positions.query))
        total = total + ((f - X[b][:, y[b]].mean(1)) ** 2).sum() / 4
    torch.testing.assert_close(losses[0], total.detach() * 3 / d)
    grad_W, grad_V = torch.autograd.grad(total / 2, [W, V])
    torch.testing.assert_close(gradients["W_x"][0], grad_W[:d, d:])
    torch.testing.assert_close(gradients["W_e"][0], grad_W[d:, d:])
    torch.testing.assert_close(gradients["V_x"][0], grad_V[:, :d])
    torch.testing.assert_close(gradients["V_e"][0], grad_V[:, d:])
    assert not grad_W[:, :d].any()


@pytest.mark.parametrize("codes", CODES, ids=lambda c: f"{c['kind']}-{c.get('redraw', '')}-{c.get('query', '')}")
def test_population_gradient_is_that_of_the_integrated_loss(transformer, codes) -> None:
    trial = transformer(
        T=9,
        q=3,
        d=4,
        model__positions=codes,
        training={"objective": "population", "steps": 5, "batch_size": 4, "dtype": "float64"},
    )
    program = build_program((trial,), CPU)
    assert isinstance(program, PopulationProgram)
    generator = torch.Generator().manual_seed(5)
    W_e = torch.randn((1, program.length, program.length), generator=generator, dtype=torch.float64)
    losses, gradients = program.gradients({"W_e": W_e, "v": torch.tensor([0.7], dtype=torch.float64)}, 3)

    W = W_e[0].clone().requires_grad_()
    v = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y, E = program.subsets(3)[0], books_of(program, 4, 3)
    total = torch.zeros((), dtype=torch.float64)
    for b in range(4):
        p = (E[b] @ W @ defined_query(E[b], y[b], trial.model.positions.query)).softmax(0)
        hot = torch.zeros(9, dtype=torch.float64).index_fill(0, y[b], 1 / 3)
        total = total + 4 * ((v * p - hot) ** 2).sum() / 4
    grad_W, grad_v = torch.autograd.grad(total / 2, [W, v])
    torch.testing.assert_close(losses[0], total.detach() * 3 / 4)
    torch.testing.assert_close(gradients["W_e"][0], grad_W)
    # v stands for the d equal diagonal entries of V, each of which gets its own share.
    torch.testing.assert_close(gradients["v"][0], grad_v / 4)


@pytest.mark.slow
@pytest.mark.parametrize("codes", CODES[:-1], ids=lambda c: f"{c['kind']}-{c.get('redraw', '')}-{c.get('query', '')}")
def test_population_and_minibatch_agree_in_expectation(transformer, codes) -> None:
    """Loss and gradients of the sampled objective, averaged over fresh X, are those of the integrated one.

    Not for sinusoidal codes, whose coordinates are so alike that the gradients' errors are no sample of many.
    """
    d, batch, repeats = 3, 16, 3000
    shared = {"T": 8, "q": 2, "d": d, "model__positions": codes}
    population = build_program(
        (transformer(**shared, training={"objective": "population", "batch_size": batch, "steps": 5, "dtype": "float64"}),), CPU
    )
    trials = tuple(
        transformer(**shared, seed=0, training={"batch_size": batch, "steps": repeats, "dtype": "float64"}) for _ in range(1)
    )
    sampled = build_program(trials, CPU)
    generator = torch.Generator().manual_seed(2)
    W_e = 2 * torch.randn((1, population.length, population.length), generator=generator, dtype=torch.float64)
    v = torch.tensor([0.8], dtype=torch.float64)
    exact_loss, exact = population.gradients({"W_e": W_e, "v": v}, 0)
    parameters = sampled.initial() | {"W_e": W_e, "V_x": v * torch.eye(d, dtype=torch.float64)[None]}

    # The same codes and subsets in every repeat: only X is drawn anew.
    draws = sampled.streams.draws
    sampled.streams.draws = lambda purpose, step: draws(purpose, step if purpose == Purpose.TOKENS else 0)
    rows = []
    for step in range(repeats):
        loss, g = sampled.gradients(parameters, step)
        rows.append(torch.cat([loss, g["W_e"].flatten(), g["V_x"].flatten(), g["W_x"].flatten(), g["V_e"].flatten()]))
    values = torch.stack(rows)
    expected = torch.cat([
        exact_loss, exact["W_e"].flatten(), (exact["v"] * torch.eye(d, dtype=torch.float64)).flatten(),
        torch.zeros(d * population.length * 2, dtype=torch.float64),
    ])  # fmt: skip
    error = values.std(0) / repeats**0.5
    z = (values.mean(0) - expected) / error.clamp_min(1e-12)
    assert z.abs().max() < 5
    assert abs(z.square().mean().item() - 1) < 0.5


def test_fresh_losses_are_fresh_and_of_the_same_distribution(transformer) -> None:
    trial = transformer(T=10, q=3, d=2, d_e=12, training={"objective": "minibatch", "batch_size": CHUNK, "steps": 5})
    program = build_program((trial,), CPU)
    parameters = program.initial()
    parameters["V_x"] += torch.eye(2)
    parameters["W_e"] += 4 * torch.eye(program.length)
    trained = torch.stack([program.gradients(parameters, step)[0][0] for step in range(300)])
    fresh = torch.stack([program.fresh_losses(parameters, chunk)[0].mean() for chunk in range(300)])
    assert not torch.isin(fresh, trained).any()
    error = ((trained.var() + fresh.var()) / 300) ** 0.5
    assert abs(trained.mean() - fresh.mean()) < 4 * error


def test_weights_are_the_papers_W_and_V_without_padding(transformer) -> None:
    trial = transformer(T=12, d=2, d_e=11, training={"objective": "minibatch", "batch_size": 8, "steps": 5})
    program = build_program((trial,), CPU)
    parameters = {name: torch.randn(value.shape) for name, value in program.initial().items()}
    weights = program.weights(parameters, 0)
    assert weights["W"].shape == (13, 13)
    assert weights["V"].shape == (2, 13)
    assert not weights["W"][:, :2].any()
    torch.testing.assert_close(torch.from_numpy(weights["W"][2:, 2:]), parameters["W_e"][0, :11, :11])
    torch.testing.assert_close(torch.from_numpy(weights["V"][:, 2:]), parameters["V_e"][0, :, :11])


SHARED = [{"T": 9, "d": 1, "batch": 3}, {"T": 40, "d": 5, "batch": 70}, {"T": 70, "d": 17, "batch": 33}]


def a_pack(transformer, shape: dict[str, int], objective: str, dtype: str):
    """Trials of two seeds and three lengths of codes on one rung, and parameters somewhere."""
    training = {"steps": 9, "batch_size": shape["batch"], "objective": objective, "dtype": dtype}
    trials = [
        transformer(
            T=shape["T"],
            d=shape["d"],
            model__positions={"kind": "random_sign", "d_e": d_e, "query": "dual"},
            seed=seed,
            training=training,
        )
        for d_e, seed in ((21, 1), (24, 1), (22, 0))
    ]
    program = build_program(tuple(trials), CPU)
    generator = torch.Generator().manual_seed(0)
    parameters = {
        name: 0.3 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in program.initial().items()
    }
    return program, parameters


def found(program, parameters) -> list[torch.Tensor]:
    losses, gradients = program.gradients(parameters, 4)
    return [tensor.clone() for tensor in (losses, *(gradients[name] for name in parameters))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("objective", ["minibatch", "population"])
@pytest.mark.parametrize("shape", SHARED)
def test_the_fused_loop_is_attention_between_products(transformer, shape: dict[str, int], objective: str, dtype: str) -> None:
    program, parameters = a_pack(transformer, shape, objective, dtype)
    assert program.fused
    fused = found(program, parameters)
    program.fused = False
    tolerance = {"float32": {"rtol": 1e-4, "atol": 1e-6}, "float64": {"rtol": 1e-11, "atol": 1e-13}}[dtype]
    for mine, expected in zip(fused, found(program, parameters), strict=True):
        torch.testing.assert_close(mine, expected, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["minibatch", "population"])
def test_machines_with_narrower_vectors_find_the_same(
    transformer, objective: str, narrow: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, parameters = a_pack(transformer, SHARED[1], objective, "float32")
    expected = found(program, parameters)
    monkeypatch.setattr(cpu, "compiled", narrow)
    for mine, wide in zip(found(program, parameters), expected, strict=True):
        torch.testing.assert_close(mine, wide, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("objective", ["minibatch", "population"])
def test_a_transformer_that_is_not_finite_is_seen_and_alone(transformer, objective: str) -> None:
    program, parameters = a_pack(transformer, SHARED[1], objective, "float32")
    whole = found(program, parameters)
    for name in parameters:
        broken = {key: value.clone() for key, value in parameters.items()}
        broken[name][1] = float("nan")
        losses, *gradients = found(program, broken)
        assert not losses[1].isfinite()
        for mine, expected in zip((losses, *gradients), whole, strict=True):
            assert torch.equal(mine[[0, 2]], expected[[0, 2]])
