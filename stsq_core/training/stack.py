"""Training one stack: trials of one static shape, from the first step to the measurement on fresh data.

A trial whose loss is no longer finite leaves the stack at the next report; the others do not notice. Losses are read at reports
only, so that between two of them a device never waits. An evaluation takes place before a step, from its parameters. A trial
that is to stop at its target leaves the stack like a diverged one, with what that evaluation measured.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import torch

from stsq_core.configs import SAMPLES_TO_TARGET, Fcn, Measurement, Transformer, TrialConfig, TrialResult
from stsq_core.kernels import training_clock
from stsq_core.networks import NetworkProgram
from stsq_core.programs import (
    FcnProgram,
    FullTransformer,
    MinibatchSampleCodes,
    MinibatchTransformer,
    PopulationSampleCodes,
    PopulationTransformer,
    Program,
    Tensors,
)
from stsq_core.training.descent import Descent, stretch_from
from stsq_core.training.evaluation import Metrics, evaluate
from stsq_core.training.stepper import Stepper, stepper_for

Report = Callable[[Measurement], None]

TOGETHER_S, MOST_TOGETHER = 0.03, 64
"""Steps that are taken in one go, because their calls take as long as a small model: for so long, and at most so many."""


@dataclass
class StackState:
    """All that a stack needs to go on: `step` updates are behind the trials `alive`, in the order of the tensors' leading axis.

    `diverged` maps a trial that left to the step at which it was seen to. `seconds` is the wall time spent so far, without the
    compiling of loops. `reached` maps a trial to the step of the first evaluation that found it at its target, `stopped` one
    that left there to its metrics.
    """

    step: int
    alive: tuple[str, ...]
    parameters: Tensors
    moments: Tensors
    diverged: dict[str, int]
    seconds: float
    reached: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, dict[str, float]] = field(default_factory=dict)


class Stack:
    """A stack in training; `state` can be saved between any two steps."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device, state: StackState | None = None) -> None:
        self._configs = {config.trial_id: config for config in configs}
        self._device = device
        self._training = configs[0].training
        self._evaluation = configs[0].evaluation
        self._measured: dict[str, dict[str, float]] = {}
        self._stepper: Stepper | None = None
        self._together = 1
        self._set_up(*((tuple(self._configs), 0) if state is None else (state.alive, state.step)))
        self.state = self._start() if state is None else _moved(state, device)

    def train(self, report: Report, between_steps: Callable[[], None]) -> None:
        """Run the steps that are left."""
        state, steps, every = self.state, self._training.steps, self._training.report_steps
        begun = training_clock.trained() - state.seconds
        while state.alive and state.step < steps:
            metrics = self._evaluate() if self._evaluation.due(state.step) else {}
            if metrics or state.step % every == 0:
                self._report(self._advance(), report, metrics)
                state.step += 1
            else:
                state.step += self._advance_quietly()
            state.seconds = training_clock.trained() - begun
            between_steps()
        self._stepper = None
        if state.alive:
            metrics = self._evaluate()
            self._measured = self._by_trial(metrics)
            losses, _ = self._program.gradients(state.parameters, state.step)
            self._report(losses, report, metrics if self._evaluation.has_metrics else {})
        state.seconds = training_clock.trained() - begun

    def results(self, *, keep_weights: bool) -> list[TrialResult]:
        """How every trial ended, once all are trained: what was measured on fresh data after the last step."""
        seconds = self.state.seconds / len(self._configs)
        results = [self._diverged(trial_id, step, seconds) for trial_id, step in self.state.diverged.items()]
        for trial_id, metrics in self.state.stopped.items():
            step = self.state.reached[trial_id]
            results.append(self._finished(trial_id, metrics, step, seconds, None))
        for place, trial_id in enumerate(self.state.alive):
            metrics = self._measured[trial_id]
            if not math.isfinite(metrics["loss"]):
                results.append(self._diverged(trial_id, self._training.steps, seconds))
                continue
            weights = self._program.weights(self.state.parameters, place) if keep_weights else None
            results.append(self._finished(trial_id, metrics, self._training.steps, seconds, weights))
        return results

    def _diverged(self, trial_id: str, step: int, seconds: float) -> TrialResult:
        return TrialResult(
            self._configs[trial_id], "diverged", None, None, step, seconds, metrics=self._samples_to_target(trial_id)
        )

    def _finished(
        self, trial_id: str, metrics: dict[str, float], step: int, seconds: float, weights: dict[str, np.ndarray] | None
    ) -> TrialResult:
        measured = metrics | self._samples_to_target(trial_id) if self._evaluation.has_metrics else {}
        mean, error = metrics["loss"], metrics["loss_stderr"]
        return TrialResult(self._configs[trial_id], "finished", mean, error, step, seconds, weights, measured)

    def _samples_to_target(self, trial_id: str) -> dict[str, float]:
        """How many samples a trial had drawn when it was first measured at its target; nothing without a target."""
        if self._evaluation.target is None:
            return {}
        return {SAMPLES_TO_TARGET: float(self.state.reached.get(trial_id, math.inf)) * self._configs[trial_id].batch}

    def _start(self) -> StackState:
        parameters = self._program.initial()
        return StackState(0, tuple(self._configs), parameters, self._descent.moments(parameters), {}, 0.0)

    def _set_up(self, alive: tuple[str, ...], step: int) -> None:
        """Set up program and optimizer for the trials that are left, from a step on."""
        self._stepper = None  # a captured step holds the tensors of the trials that it was captured with
        configs = tuple(self._configs[trial_id] for trial_id in alive)
        if configs:
            self._program = build_program(configs, self._device)
            self._descent = self._descent_from(step)

    def _descent_from(self, step: int) -> Descent:
        program, steps = self._program, self._training.steps
        optimizers = tuple(config.optimizer for config in program.configs)
        stretch = stretch_from(step, steps, len(optimizers))
        return Descent(optimizers, steps, stretch=stretch, dtype=program.dtype, kernels=program.kernels)

    def _advance(self) -> torch.Tensor:
        """Take a step, and hand back the losses before it."""
        return self._own_stepper().advance(self.state.step)

    def _advance_quietly(self) -> int:
        """Take steps up to the next that is reported or evaluated, as many as take about `TOGETHER_S`; how many."""
        step, training, stepper, begun = self.state.step, self._training, self._own_stepper(), time.perf_counter()
        periods = filter(None, (training.report_steps, self._evaluation.every))
        count = min(self._together, self._descent.stretch.stop - step, *(period - step % period for period in periods))
        stepper.advance_by(step, count)
        longer = TOGETHER_S / max(time.perf_counter() - begun, 1e-9)
        self._together = max(1, min(int(count * longer), 2 * self._together, MOST_TOGETHER))
        return count

    def _own_stepper(self) -> Stepper:
        state = self.state
        if state.step not in self._descent.stretch:
            self._descent, self._stepper = self._descent_from(state.step), None
        if self._stepper is None:
            self._stepper = stepper_for(self._program, self._descent, state.parameters, state.moments, step=state.step)
        return self._stepper

    def _evaluate(self) -> Metrics:
        """What the evaluation asks for, of each trial alive; notes who is at the target, and changes no parameter."""
        state, target = self.state, self._evaluation.target
        metrics = evaluate(self._program, state.parameters, self._evaluation)
        if target is not None:
            for trial_id, loss in zip(state.alive, metrics["loss"], strict=True):
                if loss <= target:
                    state.reached.setdefault(trial_id, state.step)
        return metrics

    def _by_trial(self, metrics: Metrics) -> dict[str, dict[str, float]]:
        rows = zip(*metrics.values(), strict=True)
        return {i: dict(zip(metrics, row, strict=True)) for i, row in zip(self.state.alive, rows, strict=True)}

    def _report(self, losses: torch.Tensor, report: Report, metrics: Metrics) -> None:
        """Report a step's losses and metrics, and let trials leave: those to stop, and those whose loss is not finite."""
        state, values = self.state, losses.tolist()
        report(Measurement(state.step, state.alive, tuple(values), metrics))
        if self._training.stop_at_target and state.step < self._training.steps:
            at_target = {i: own for i, own in self._by_trial(metrics).items() if i in state.reached} if metrics else {}
            state.stopped |= at_target
        kept = [i for i, loss in enumerate(values) if math.isfinite(loss) and state.alive[i] not in state.stopped]
        if len(kept) == len(values):
            return
        lost = [i for i in range(len(values)) if i not in set(kept) and state.alive[i] not in state.stopped]
        state.diverged |= {state.alive[i]: state.step for i in lost}
        state.alive = tuple(state.alive[i] for i in kept)
        index = torch.tensor(kept, dtype=torch.int64, device=self._device)
        state.parameters = {name: value.index_select(0, index) for name, value in state.parameters.items()}
        self._set_up(state.alive, state.step)
        # States that no update rule of the trials left has are dropped: none is kept for gradient descent alone.
        names = self._descent.moments(state.parameters)
        state.moments = {name: state.moments[name].index_select(0, index) for name in names}


def build_program(configs: tuple[TrialConfig, ...], device: torch.device) -> Program:
    """The program of trials of one static shape."""
    match model := configs[0].derived_model:
        case None:
            return NetworkProgram(configs, device)
        case Transformer(extensions=(_, *_)):
            return FullTransformer(configs, device)
        case Transformer(positions=codes):
            of_samples = codes.redraw == "per_sample"
            match objective := configs[0].training.objective:
                case "population":
                    return (PopulationSampleCodes if of_samples else PopulationTransformer)(configs, device)
                case "minibatch":
                    return (MinibatchSampleCodes if of_samples else MinibatchTransformer)(configs, device)
                case _:
                    assert_never(objective)
        case Fcn():
            return FcnProgram(configs, device)
        case _:
            assert_never(model)


def initial_weights(config: TrialConfig) -> dict[str, np.ndarray]:
    """The arrays of a trial before its first step, as `Program.weights` gives them."""
    program = build_program((config,), torch.device("cpu"))
    return program.weights(program.initial(), 0)


def _moved(state: StackState, device: torch.device) -> StackState:
    state.parameters = {name: value.to(device) for name, value in state.parameters.items()}
    state.moments = {name: value.to(device) for name, value in state.moments.items()}
    return state
