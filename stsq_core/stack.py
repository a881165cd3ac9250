"""Training one stack: trials of one static shape, from the first step to the measurement on fresh data.

A trial whose loss is no longer finite leaves the stack at the next report; the others do not notice. Losses are read at reports
only, so that between two of them a device never waits.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from stsq_core.architecture import Transformer
from stsq_core.descent import Descent
from stsq_core.fcn import FcnProgram
from stsq_core.practical import PracticalTransformer
from stsq_core.program import CHUNK, Program, Tensors
from stsq_core.sample_codes import MinibatchSampleCodes, PopulationSampleCodes
from stsq_core.stepper import Stepper, stepper_for
from stsq_core.transformer import MinibatchTransformer, PopulationTransformer
from stsq_core.trial import Measurement, TrialConfig, TrialResult

Report = Callable[[Measurement], None]


@dataclass
class StackState:
    """All that a stack needs to go on: `step` updates are behind the trials `alive`, in the order of the tensors' leading axis.

    `diverged` maps a trial that left to the step at which it was seen to. `seconds` is the wall time spent so far.
    """

    step: int
    alive: tuple[str, ...]
    parameters: Tensors
    moments: Tensors
    diverged: dict[str, int]
    seconds: float


class Stack:
    """A stack in training; `state` can be saved between any two steps."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device, state: StackState | None = None) -> None:
        self._configs = {config.trial_id: config for config in configs}
        self._device = device
        self._training = configs[0].training
        self._stepper: Stepper | None = None
        self._man(tuple(self._configs) if state is None else state.alive)
        self.state = self._start() if state is None else _moved(state, device)

    def train(self, report: Report, between_steps: Callable[[], None]) -> None:
        """Run the steps that are left."""
        state, steps, every = self.state, self._training.steps, self._training.report_steps
        begun = time.perf_counter() - state.seconds
        while state.alive and state.step < steps:
            losses = self._advance()
            if state.step % every == 0:
                self._report(losses, report)
            state.step += 1
            state.seconds = time.perf_counter() - begun
            between_steps()
        self._stepper = None
        if state.alive:
            losses, _ = self._program.gradients(state.parameters, state.step)
            self._report(losses, report)
        state.seconds = time.perf_counter() - begun

    def results(self, *, keep_weights: bool) -> list[TrialResult]:
        """Measure the trained trials on fresh data and say how every trial ended."""
        begun = time.perf_counter()
        means, errors = self._measure()
        seconds = (self.state.seconds + time.perf_counter() - begun) / len(self._configs)
        results = [
            TrialResult(self._configs[i], "diverged", None, None, step, seconds) for i, step in self.state.diverged.items()
        ]
        for place, (trial_id, mean, error) in enumerate(zip(self.state.alive, means, errors, strict=True)):
            config = self._configs[trial_id]
            if not math.isfinite(mean):
                results.append(TrialResult(config, "diverged", None, None, self._training.steps, seconds))
                continue
            weights = self._program.weights(self.state.parameters, place) if keep_weights else None
            results.append(TrialResult(config, "finished", mean, error, self._training.steps, seconds, weights))
        return results

    def _start(self) -> StackState:
        parameters = self._program.initial()
        return StackState(0, tuple(self._configs), parameters, self._descent.moments(parameters), {}, 0.0)

    def _man(self, alive: tuple[str, ...]) -> None:
        """Set up program and optimizer for the trials that are left."""
        self._stepper = None
        configs = tuple(self._configs[trial_id] for trial_id in alive)
        if configs:
            self._program = build_program(configs, self._device)
            optimizers = tuple(config.optimizer for config in configs)
            self._descent = Descent(optimizers, self._training.steps, dtype=self._program.dtype, kernels=self._program.kernels)

    def _advance(self) -> torch.Tensor:
        """Take a step, and hand back the losses before it."""
        if self._stepper is None:
            state = self.state
            self._stepper = stepper_for(self._program, self._descent, state.parameters, state.moments, step=state.step)
        return self._stepper.advance(self.state.step)

    def _report(self, losses: torch.Tensor, report: Report) -> None:
        """Report a step's losses, and let trials with a loss that is not finite leave."""
        state, values = self.state, losses.tolist()
        report(Measurement(state.step, state.alive, tuple(values)))
        kept = [place for place, loss in enumerate(values) if math.isfinite(loss)]
        if len(kept) == len(values):
            return
        state.diverged |= {state.alive[i]: state.step for i in range(len(values)) if i not in set(kept)}
        state.alive = tuple(state.alive[i] for i in kept)
        index = torch.tensor(kept, dtype=torch.int64, device=self._device)
        state.parameters = {name: value.index_select(0, index) for name, value in state.parameters.items()}
        state.moments = {name: value.index_select(0, index) for name, value in state.moments.items()}
        self._man(state.alive)
        if not any(name in state.moments for name in self._descent.moments(state.parameters)):
            state.moments = {}

    def _measure(self) -> tuple[list[float], list[float]]:
        """Mean relative loss on fresh data and its standard error, for each trial alive.

        The error is taken over chunk means, because samples of a chunk may share a code book.
        """
        if not self.state.alive:
            return [], []
        chunks = -(-self._training_samples() // CHUNK)
        rows = [self._program.fresh_losses(self.state.parameters, chunk).mean(-1).double().cpu() for chunk in range(chunks)]
        means, errors = [], []
        for values in torch.stack(rows, 1).tolist():
            mean = math.fsum(values) / chunks
            means.append(mean)
            errors.append(
                math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (chunks - 1) / chunks) if math.isfinite(mean) else mean
            )
        return means, errors

    def _training_samples(self) -> int:
        return next(iter(self._configs.values())).evaluation.samples


def build_program(configs: tuple[TrialConfig, ...], device: torch.device) -> Program:
    """The program of trials of one static shape."""
    match configs[0].model, configs[0].training.objective:
        case Transformer(extensions=(_, *_)), _:
            return PracticalTransformer(configs, device)
        case Transformer(positions=codes), "population" if codes.redraw == "per_sample":
            return PopulationSampleCodes(configs, device)
        case Transformer(positions=codes), _ if codes.redraw == "per_sample":
            return MinibatchSampleCodes(configs, device)
        case Transformer(), "population":
            return PopulationTransformer(configs, device)
        case Transformer(), _:
            return MinibatchTransformer(configs, device)
        case _:
            return FcnProgram(configs, device)


def _moved(state: StackState, device: torch.device) -> StackState:
    state.parameters = {name: value.to(device) for name, value in state.parameters.items()}
    state.moments = {name: value.to(device) for name, value in state.moments.items()}
    return state
