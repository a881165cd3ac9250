"""A replayed step is the called step, bit for bit: with a stand-in for the graph that calls the captured work again."""

import logging

import pytest
import torch

import stsq_core.training.stack
import stsq_core.training.stepper
from stsq_core import train_pack
from stsq_core.configs.training import Evaluation
from stsq_core.numerics.checkpoint import Checkpoint
from stsq_core.training.descent import Descent
from stsq_core.training.stack import Stack, build_program
from stsq_core.training.stepper import EagerStepper, FusedStepper, GraphStepper, stepper_for

CPU = torch.device("cpu")


class BrokenOffError(Exception):
    """Raised by the checkpoint in the place of a SIGKILL."""


class Breaking(Checkpoint):
    """Saves before step `at` and breaks off, once."""

    def __init__(self, at: int) -> None:
        self.saved: bytes | None = None
        self.left = at

    def load(self) -> bytes | None:
        return self.saved

    def due(self) -> bool:
        self.left -= 1
        return self.left == 0

    def save(self, state: bytes) -> None:
        self.saved = state
        raise BrokenOffError


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stacks step by replays; the list holds the step at which each capture was made."""
    captures: list[int] = []

    def replaying(program, descent, parameters, moments, *, step):
        def capture(rehearsal, work):
            before = {name: tensor.clone() for name, tensor in (parameters | moments).items()}
            rehearsal()
            for name, tensor in (parameters | moments).items():
                assert torch.equal(tensor, before[name]), f"the rehearsal changed {name}"
            return work

        captures.append(step)
        return GraphStepper(program, descent, parameters, moments, step=step, capture=capture)

    monkeypatch.setattr(stsq_core.training.stack, "stepper_for", replaying)
    return captures


def outcome(trials, **options):
    reports: list = []
    results = train_pack(trials, report=reports.append, **options)
    return [(r.config.trial_id, r.status, r.relative_loss, r.steps) for r in results], reports


def test_replays_give_the_bits_and_reports_of_calls(pack, request: pytest.FixtureRequest) -> None:
    called = outcome(pack)
    captures = request.getfixturevalue("replayed")
    assert outcome(pack) == called
    assert [report.step for report in called[1]][:4] == [0, 5, 10, 12]
    assert set(captures) == {0}


def test_tables_of_a_few_steps_at_a_time_change_no_bit_and_no_report(
    pack, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a training whose steps would fill the memory."""
    called = outcome(pack)
    monkeypatch.setattr("stsq_core.training.descent.TABLE_ROOM", 3)
    assert outcome(pack) == called
    captures = request.getfixturevalue("replayed")
    assert outcome(pack) == called
    assert len(set(captures)) > 1  # a capture reads one table


def test_a_trial_that_leaves_after_its_update_disturbs_nobody(transformer, request: pytest.FixtureRequest) -> None:
    training = {"steps": 40, "batch_size": 8}
    calm = [transformer(T=9, d_e=9, seed=s, training=training) for s in range(3)]
    wild = transformer(T=9, d_e=9, optimizer={"kind": "gd", "lr": 1e6}, training=training)
    trials = [calm[0], wild, *calm[1:]]
    called = outcome(trials)
    captures = request.getfixturevalue("replayed")
    assert outcome(trials) == called
    assert called[0][1][1] == "diverged"
    assert captures == [0, called[0][1][3] + 1]  # the graph is captured anew for those that are left


@pytest.mark.parametrize("pack", ["population", "minibatch", "one_hot", "fcn"], indirect=True)
def test_an_evaluation_between_replays_disturbs_none(pack, request: pytest.FixtureRequest) -> None:
    printed = Evaluation(every=4, q_test=(1,), describe=True)
    pack = [trial.model_copy(update={"evaluation": printed}) for trial in pack]
    called = outcome(pack)
    captures = request.getfixturevalue("replayed")
    assert outcome(pack) == called
    assert [report.step for report in called[1] if report.metrics] == [0, 4, 8, 12]
    assert captures == [0]


@pytest.mark.parametrize("pack", ["population", "fcn"], indirect=True)
def test_a_pack_goes_on_from_its_checkpoint(pack, request: pytest.FixtureRequest) -> None:
    called = outcome(pack)
    captures = request.getfixturevalue("replayed")
    checkpoint = Breaking(at=3)
    with pytest.raises(BrokenOffError):
        outcome(pack, checkpoint=checkpoint)
    results, reports = outcome(pack, checkpoint=checkpoint)
    first, again = captures
    assert first == 0
    assert 3 <= again < 12  # a chance comes after every step, or after several that are taken together
    assert results == called[0]
    assert reports == [report for report in called[1] if report.step >= again]


def test_a_step_that_cannot_be_captured_is_called_with_one_warning(
    transformer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trial = transformer()
    program = build_program((trial,), CPU)
    program.fused = False  # as on a GPU
    descent = Descent((trial.optimizer,), 20, dtype=torch.float32, kernels=program.kernels)
    parameters = program.initial()
    assert isinstance(stepper_for(program, descent, parameters, descent.moments(parameters), step=0), EagerStepper)

    def refused(*_: object, **__: object) -> GraphStepper:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(stsq_core.training.stepper, "GraphStepper", refused)
    monkeypatch.setattr(type(program.kernels), "capturable", True)
    monkeypatch.setattr(program, "device", torch.device("cuda"))
    with caplog.at_level(logging.WARNING, logger="stsq_core.training.stepper"):
        for _ in range(2):
            assert isinstance(stepper_for(program, descent, parameters, descent.moments(parameters), step=0), EagerStepper)
    assert [record.message for record in caplog.records] == [
        "no CUDA graph of a step, which is slower: RuntimeError: operation not permitted when stream is capturing"
    ]


def test_running_out_of_memory_is_not_hidden(transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = transformer()
    program = build_program((trial,), CPU)
    descent = Descent((trial.optimizer,), 20, dtype=torch.float32, kernels=program.kernels)

    def full(*_: object, **__: object) -> GraphStepper:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stsq_core.training.stepper, "GraphStepper", full)
    monkeypatch.setattr(type(program.kernels), "capturable", True)
    monkeypatch.setattr(program, "device", torch.device("cuda"))
    with pytest.raises(torch.OutOfMemoryError):
        stepper_for(program, descent, {}, {}, step=0)


GD, ADAM = {"kind": "gd", "lr": 0.05}, {"kind": "adam", "lr": 0.01}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizers", [[ADAM, GD, ADAM | {"beta1": 0.5}], [GD, GD | {"lr": 0.1}, GD]])
@pytest.mark.parametrize("kind", ["fcn", "minibatch", "population"])
def test_an_update_behind_the_gradient_has_the_bits_of_one_after_all(
    fcn, transformer, kind: str, optimizers: list[dict], dtype: str
) -> None:
    """A stack of one rule takes one call, one that an optimizer of another rule shares takes two: a trial must not notice."""
    training = {"steps": 6, "batch_size": 40, "dtype": dtype}
    if kind == "fcn":
        made, shape = fcn, {"T": 7, "width": 20, "model__tail_width": 50, "training": training}
    else:
        made, shape = transformer, {"T": 12, "d": 3, "d_e": 20, "training": training | {"objective": kind}}
    configs = tuple(made(seed=i % 2, optimizer=optimizer, **shape) for i, optimizer in enumerate(optimizers))
    ends = []
    for fused in (True, False):
        program = build_program(configs, CPU)
        descent = Descent(tuple(c.optimizer for c in configs), 6, dtype=program.dtype, kernels=program.kernels)
        parameters = program.initial()
        moments = descent.moments(parameters)
        stepper = stepper_for(program, descent, parameters, moments, step=0)
        assert isinstance(stepper, FusedStepper)
        if not fused:
            stepper = EagerStepper(program, descent, parameters, moments)
        losses = [stepper.advance(step).clone() for step in range(6)]
        ends.append([*losses, *parameters.values(), *moments.values()])
    for behind, after in zip(*ends, strict=True):
        assert torch.equal(behind, after)


def test_weights_that_decay_are_updated_after_the_gradient(fcn) -> None:
    trial = fcn(optimizer={"kind": "adamw", "lr": 0.01, "weight_decay": 0.1})
    program = build_program((trial,), CPU)
    descent = Descent((trial.optimizer,), 20, dtype=program.dtype, kernels=program.kernels)
    parameters = program.initial()
    assert isinstance(stepper_for(program, descent, parameters, descent.moments(parameters), step=0), EagerStepper)


SIGNS = {"kind": "random_sign", "d_e": 11}
SHAPES = {
    "fcn": {},
    "fcn, every subset": {"batch_size": "all"},
    "redrawn": {"objective": "minibatch", "positions": SIGNS},
    "redrawn, sum": {"objective": "population", "positions": SIGNS | {"query": "sum"}},
    "fixed": {"objective": "population", "positions": SIGNS | {"redraw": "never"}},
    "sinusoidal": {"objective": "minibatch", "positions": {"kind": "sinusoidal", "d_e": 11}},
    "gaussian": {"objective": "minibatch", "positions": {"kind": "gaussian", "d_e": 11}},
    "every subset": {"objective": "population", "positions": SIGNS | {"redraw": "never"}, "batch_size": "all"},
}


@pytest.mark.parametrize("seeds", [(4, 4, 5), (6, 7, 8)], ids=["shared", "distinct"])
@pytest.mark.parametrize("kind", SHAPES)
def test_steps_in_one_go_have_the_bits_of_single_ones(fcn, transformer, kind: str, seeds: tuple[int, ...]) -> None:
    given = SHAPES[kind]
    training = {"steps": 12, "batch_size": given.get("batch_size", 37)}
    if kind.startswith("fcn"):
        configs = tuple(fcn(T=7, width=18, seed=seed, training=training, optimizer=ADAM) for seed in seeds)
    else:
        own = {"training": training | {"objective": given["objective"]}, "model__positions": given["positions"]}
        configs = tuple(transformer(T=9, d=3, seed=seed, optimizer=ADAM, **own) for seed in seeds)
    ends = []
    for counts in ((1,) * 12, (1, 5, 4, 2)):
        program = build_program(configs, CPU)
        descent = Descent(tuple(c.optimizer for c in configs), 12, dtype=program.dtype, kernels=program.kernels)
        parameters = program.initial()
        moments = descent.moments(parameters)
        stepper = stepper_for(program, descent, parameters, moments, step=0)
        assert isinstance(stepper, FusedStepper)
        if counts[-1] == 1:
            stepper = EagerStepper(program, descent, parameters, moments)
        step = 0
        for count in counts[:-1]:
            stepper.advance_by(step, count)
            step += count
        if counts[-1] > 1:
            stepper.advance_by(step, counts[-1] - 1)
        ends.append([stepper.advance(11).clone(), *parameters.values(), *moments.values()])
    for one_by_one, together in zip(*ends, strict=True):
        assert torch.equal(one_by_one, together)


def test_a_stack_takes_steps_together_between_reports_and_evaluations_only(fcn, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int]] = []
    advance, advance_by = FusedStepper.advance, FusedStepper.advance_by

    def one(self: FusedStepper, step: int) -> torch.Tensor:
        taken.append((step, 1))
        return advance(self, step)

    def several(self: FusedStepper, step: int, count: int) -> None:
        taken.append((step, count))
        advance_by(self, step, count)

    monkeypatch.setattr(FusedStepper, "advance", one)
    monkeypatch.setattr(FusedStepper, "advance_by", several)
    trial = fcn(training={"steps": 200, "batch_size": 5, "log_every": 30}, evaluation={"every": 50})
    stack, told, chances = Stack((trial,), CPU), [], 0

    def between_steps() -> None:
        nonlocal chances
        chances += 1

    stack.train(told.append, between_steps)
    assert [first for first, _ in taken] == [0, *(sum(count for _, count in taken[:n]) for n in range(1, len(taken)))]
    assert sum(count for _, count in taken) == 200
    due = {*range(0, 200, 30), *range(0, 200, 50)}
    assert {step for step, count in taken if count == 1 and step in due} == due  # each on its own, for its losses
    assert not any(step < one < step + count for step, count in taken for one in due)
    assert [measurement.step for measurement in told] == [*sorted(due), 200]
    assert chances == len(taken) < 100
