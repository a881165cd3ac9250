"""Samples of qSTR and simple-qSTR: unit variance, who asks for what, prompts, and what a trial keeps."""

import math

import pytest
import torch
from pydantic import ValidationError

from stsq_core.configs.retrieval import Qstr, SimpleQstr
from stsq_core.kernels import kernels_for
from stsq_core.numerics.streams import Streams
from stsq_core.tasks.choice import examples_of
from stsq_core.tasks.examples import Source
from stsq_core.tasks.retrieval import RetrievalExamples, hidden_directions

KERNELS = kernels_for(torch.device("cpu"))


def source(step: int = 0, *, fresh: bool = False, seeds: tuple[int, ...] = (3, 4)) -> Source:
    return Source(Streams(seeds, KERNELS), KERNELS, step, fresh=fresh, dtype=torch.float64)


@pytest.mark.parametrize("record", [Qstr, SimpleQstr])
@pytest.mark.parametrize("link", ["linear", "mean", "hermite2"])
def test_a_model_that_answers_zero_has_the_relative_loss_one(record, link: str) -> None:
    """Also where positions are asked for twice: with N = 3 and q = 2 a third of the time."""
    examples = examples_of(record(T=3, q=2, d=4, link=link))
    batch = examples.batch(source(), 20000)
    losses = examples.relative_losses(torch.zeros_like(batch.target), batch).mean(1)
    torch.testing.assert_close(losses, torch.ones_like(losses), rtol=0.04, atol=0)


def test_a_target_is_the_link_of_the_tokens_asked_for() -> None:
    task = Qstr(T=5, q=2, d=3, link="hermite2")
    batch, u = examples_of(task).batch(source(), 4), hidden_directions(task, source())
    for trial, sample, i in [(0, 0, 0), (1, 3, 4)]:
        asked = batch.X[trial, sample, batch.y[trial, sample, i]]
        s = float((u[trial] * asked).sum())
        assert float(batch.target[trial, sample, i, 0]) == pytest.approx((s * s - 1) / math.sqrt(2))


def test_directions_are_orthonormal_over_sqrt_q_and_stay_for_the_trial() -> None:
    task = Qstr(T=5, q=3, d=4)
    u = hidden_directions(task, source())
    torch.testing.assert_close(3 * u @ u.mT, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))
    assert torch.equal(u, hidden_directions(task, source(7, fresh=True)))
    assert not torch.equal(u[0], u[1])


def test_simple_qstr_asks_for_the_same_tokens_everywhere_and_qstr_may_be_tested_so() -> None:
    once = examples_of(SimpleQstr(T=5, q=2, d=3)).batch(source(), 50).y
    own = examples_of(Qstr(T=5, q=2, d=3, tested_on="simple"))
    assert (once == once[:, :, :1]).all()
    assert not (own.batch(source(), 50).y == own.batch(source(), 50).y[:, :, :1]).all()
    tested = own.batch(source(fresh=True), 50).y
    assert (tested == tested[:, :, :1]).all()


@pytest.mark.parametrize("codes", ["scaled", "unit"])
def test_a_prompt_holds_the_token_its_code_and_those_it_asks_for(codes: str) -> None:
    task = Qstr(T=5, q=2, d=4, d_e=6, codes=codes)
    examples = examples_of(task)
    batch = examples.batch(source(), 3)
    prompt = examples.prompt(batch, source(9, fresh=True))
    assert prompt.shape == (2, 3, 5, task.prompt_size) == (2, 3, 5, 22)
    assert torch.equal(prompt[..., :4], batch.X)
    own = prompt[..., 4:10]
    torch.testing.assert_close(
        own.square().sum(-1), torch.full((2, 3, 5), 4 / 2 if codes == "scaled" else 1.0, dtype=torch.float64)
    )
    for j in range(2):
        asked = batch.y[1, 2, 3, j]
        assert torch.equal(prompt[1, 2, 3, 10 + 6 * j : 16 + 6 * j], own[1, 2, asked])


def test_code_lengths_follow_the_papers_rule_where_left_out() -> None:
    assert [Qstr(T=T, q=1, d=10).d_e for T in (2, 6, 12)] == [3, 8, 12]
    assert Qstr(T=6, q=1, d=10, d_e=5).d_e == 5


def test_too_many_directions_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"q at most d; got q=4, d=3"):
        Qstr(T=6, q=4, d=3)
    assert isinstance(examples_of(Qstr(T=6, q=4, d=3, link="mean")), RetrievalExamples)
