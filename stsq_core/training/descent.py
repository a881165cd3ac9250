"""Optimizer steps of a stack of trials, each trial with an optimizer, a rate and a schedule of its own.

An optimizer is a config (`stsq_core.configs.optimizer`) and an update rule here, which takes the trials that have it. Gradient
descent, Adam and AdamW are one rule. Every number of a step is looked up in tables made from the configs, so a resumed trial
needs nothing but its step. Tables of a long training cover a stretch of its steps at a time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Protocol, assert_never, cast, runtime_checkable

import numpy as np
import torch

from stsq_core.configs import Adam, AdamW, GradientDescent, Optimizer, OwnOptimizer, Schedule, missing_case
from stsq_core.kernels import Kernels, Rates, RateTable
from stsq_core.numerics import Step
from stsq_core.programs import Tensors

Update = Callable[[Sequence[torch.Tensor], Step], None]
"""From the gradients of a list of parameters and the number of earlier steps: updates the parameters in place."""


TABLE_ROOM = 2**22
"""Steps times trials of which the numbers are in a table: some 30 MB."""


def stretch_from(step: int, steps: int, num_trials: int) -> range:
    """The steps from one on, of so many in all, whose numbers go into a table together."""
    return range(step, min(steps, step + max(1, TABLE_ROOM // num_trials)))


def schedule_factors(schedule: Schedule, steps: int, stretch: range | None = None) -> np.ndarray:
    """The factor on the rate at each of `steps` steps, or at those of a stretch of them; float64, shape (steps,)."""
    t = np.arange(steps) if stretch is None else np.arange(stretch.start, stretch.stop)
    progress = np.clip((t - schedule.warmup) / max(1, steps - schedule.warmup), 0, 1)
    match schedule.kind:
        case "constant":
            decay = np.ones(len(t))
        case "linear":
            decay = 1 - progress
        case "cosine":
            decay = 0.5 + 0.5 * np.cos(math.pi * progress)
        case _:
            assert_never(schedule.kind)
    warm = np.minimum(1, (t + 1) / schedule.warmup) if schedule.warmup else 1.0
    return np.asarray((schedule.floor + (1 - schedule.floor) * decay) * warm)


class UpdateRule:
    """How k trials of one kind of optimizer move, row i of every tensor being that of trial i.

    `states` names the tensors that the rule keeps for each parameter, of its shape and zero before the first step; `fields`
    names the numbers of a config that it reads beside the rate.
    """

    states: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    def __init__(
        self, optimizers: Sequence[Optimizer], steps: int, *, stretch: range, dtype: torch.dtype, kernels: Kernels
    ) -> None:
        self.dtype, self.kernels, self.stretch = dtype, kernels, stretch
        self.rates = np.stack([o.lr * schedule_factors(o.schedule, steps, stretch) for o in optimizers], 1)
        self._lr = self.table(self.rates)
        self._fields = {name: self.table(np.array([getattr(o, name) for o in optimizers])) for name in self.fields}

    def table(self, values: np.ndarray) -> torch.Tensor:
        """Numbers of the rule on the device, a row a step of the stretch where steps differ (`at`)."""
        return torch.from_numpy(values).to(self.dtype).to(self.kernels.device)

    def at(self, table: torch.Tensor, step: Step) -> torch.Tensor:
        """A table's numbers at a step of the stretch; it may be a tensor, which a captured CUDA graph reads anew each time."""
        own = step - self.stretch.start
        return table[own] if isinstance(own, int) else table.index_select(0, own)[0]

    def bound(self, parameters: list[torch.Tensor], states: list[tuple[torch.Tensor, ...]]) -> Update:
        """The update of these parameters with these states, in place, again and again."""

        def take(gradients: Sequence[torch.Tensor], step: Step) -> None:
            numbers = self._fields | {"lr": self.at(self._lr, step)}
            for parameter, gradient, kept in zip(parameters, gradients, states, strict=True):
                shaped = {name: per_trial(value, parameter) for name, value in numbers.items()}
                self.move(parameter, gradient, dict(zip(self.states, kept, strict=True)), shaped)

        return take

    def move(self, parameter: torch.Tensor, gradient: torch.Tensor, states: Tensors, numbers: Tensors) -> None:
        """Update one parameter and its states in place; `numbers` are the fields and the step's rate `lr`, one a trial.

        It keeps the law of the pack if it multiplies and adds elementwise, one operation after another: a fused operation
        (`addcmul_`, or `add_` with `alpha`) may round otherwise in the tail of a vector loop, whose place depends on the pack.
        """
        raise NotImplementedError(f"{type(self).__name__}.move is not written")


class Descent:
    """Updates the parameters of k trials in place, each by the rule of its optimizer.

    Where several rules share a stack the states of all are kept for every trial, and a rule reads its own rows.

    Args:
        steps: of the whole training.
        stretch: the steps that are taken with this object; all of them where none is given.
    """

    def __init__(
        self,
        optimizers: tuple[Optimizer, ...],
        steps: int,
        *,
        stretch: range | None = None,
        dtype: torch.dtype,
        kernels: Kernels,
    ) -> None:
        self.stretch = range(steps) if stretch is None else stretch
        places: dict[type[UpdateRule], list[int]] = {}
        for place, optimizer in enumerate(optimizers):
            places.setdefault(rule_of(optimizer), []).append(place)
        self._rules = [
            (
                rule([optimizers[place] for place in own], steps, stretch=self.stretch, dtype=dtype, kernels=kernels),
                None if len(places) == 1 else torch.tensor(own, device=kernels.device),
            )
            for rule, own in places.items()
        ]

    def moments(self, parameters: Tensors) -> Tensors:
        """The states of the rules before the first step, by names such as `W.m`."""
        names = dict.fromkeys(name for rule, _ in self._rules for name in rule.states)
        return {f"{name}.{state}": torch.zeros_like(value) for name, value in parameters.items() for state in names}

    def bound(self, parameters: Tensors, moments: Tensors) -> Callable[[Tensors, Step], None]:
        """What takes the step that follows so many earlier ones, from the gradients of these parameters, in place."""
        held = list(parameters.values())
        updates = []
        for rule, rows in self._rules:
            states = [tuple(moments[f"{name}.{state}"] for state in rule.states) for name in parameters]
            updates.append(rule.bound(held, states) if rows is None else _of_rows(rule, rows, held, states))

        def take(gradients: Tensors, step: Step) -> None:
            ordered = [gradients[name] for name in parameters]
            for update in updates:
                update(ordered, step)

        return take

    @property
    def rate_table(self) -> RateTable | None:
        """The numbers of the stretch's steps where `Kernels.descend` is all of the update of every trial; None elsewhere."""
        (rule, rows), *others = self._rules
        return rule.rate_table if isinstance(rule, AdaptiveRule) and rows is None and not others else None

    def update(self, parameters: Tensors, gradients: Tensors, moments: Tensors, step: Step) -> None:
        """Take the step that follows `step` earlier ones, once."""
        self.bound(parameters, moments)(gradients, step)


@runtime_checkable
class PluginOptimizer(Protocol):
    """A plugin's optimizer names its update rule in a method."""

    def rule(self) -> type[UpdateRule]: ...


def rule_of(optimizer: Optimizer) -> type[UpdateRule]:
    """The update rule of an optimizer."""
    if isinstance(optimizer, PluginOptimizer):
        return optimizer.rule()
    own = cast(OwnOptimizer, optimizer)
    match own:
        case GradientDescent() | Adam() | AdamW():
            return AdaptiveRule
        case _:
            raise missing_case(own, "stsq_core/training/descent.py: rule_of")


class AdaptiveRule(UpdateRule):
    """Gradient descent, Adam and AdamW side by side, in one pass over the numbers of each parameter (`Kernels.descend`).

    Adam keeps first and second moments `m` and `v` of every parameter; gradient descent keeps nothing, and where the two share
    a stack its moments are carried along unused.
    """

    def __init__(
        self, optimizers: Sequence[Optimizer], steps: int, *, stretch: range, dtype: torch.dtype, kernels: Kernels
    ) -> None:
        super().__init__(optimizers, steps, stretch=stretch, dtype=dtype, kernels=kernels)
        adams = [isinstance(o, Adam | AdamW) for o in optimizers]
        betas = np.array([(o.beta1, o.beta2) if isinstance(o, Adam | AdamW) else (0.0, 0.0) for o in optimizers])
        eps = np.array([o.eps if isinstance(o, Adam | AdamW) else 1.0 for o in optimizers])
        decays = np.array([o.weight_decay if isinstance(o, AdamW) else 0.0 for o in optimizers])
        power = np.arange(stretch.start + 1, stretch.stop + 1)[:, None]
        if any(adams):
            self.states = ("m", "v")
        self._kept = self.table(1 - self.rates * decays) if decays.any() else None
        # Adam's bias corrections depend on the step alone: they are folded into the rate and the root here, in float64.
        self._by_step = self.table(np.stack([self.rates / (1 - betas[:, 0] ** power), np.sqrt(1 - betas[:, 1] ** power)], 1))
        self._constant = (
            self.table(betas[:, 0]),
            self.table(betas[:, 1]),
            self.table(eps),
            torch.tensor(adams, device=kernels.device),
        )

    def bound(self, parameters: list[torch.Tensor], states: list[tuple[torch.Tensor, ...]]) -> Update:
        update = self.kernels.updater(parameters, [(m, v) for m, v in states] if self.states else None)

        def take(gradients: Sequence[torch.Tensor], step: Step) -> None:
            if self._kept is not None:
                kept = self.at(self._kept, step)
                for parameter in parameters:  # by 1, which changes no bit, where a trial does not decay
                    parameter.mul_(per_trial(kept, parameter))
            update(gradients, self._numbers(step))

        return take

    @property
    def rate_table(self) -> RateTable | None:
        """The numbers of the stretch's steps; None where weights decay, too."""
        return RateTable(self.stretch.start, self._by_step, *self._constant) if self._kept is None else None

    def _numbers(self, step: Step) -> Rates:
        numbers = self.at(self._by_step, step)
        return Rates(numbers[0], numbers[1], *self._constant)


def per_trial(numbers: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """One number a trial, (k,), in the shape that multiplies a parameter, (k, ...)."""
    return numbers.view(-1, *[1] * (parameter.dim() - 1))


def _of_rows(
    rule: UpdateRule, rows: torch.Tensor, parameters: list[torch.Tensor], states: list[tuple[torch.Tensor, ...]]
) -> Update:
    """A rule's update of some trials of a stack: on copies of their rows, which are written back."""
    whole = [*parameters, *(tensor for kept in states for tensor in kept)]

    def take(gradients: Sequence[torch.Tensor], step: Step) -> None:
        own = [tensor.index_select(0, rows) for tensor in parameters]
        kept = [tuple(tensor.index_select(0, rows) for tensor in tensors) for tensors in states]
        rule.bound(own, kept)([gradient.index_select(0, rows) for gradient in gradients], step)
        for tensor, part in zip(whole, [*own, *(part for parts in kept for part in parts)], strict=True):
            tensor.index_copy_(0, rows, part)

    return take
