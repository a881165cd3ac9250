"""One optimizer step for a stack of trials: gradient descent, Adam and AdamW side by side, each with its own rate and schedule.

Every number of a step is looked up in tables made once from the configs, so a resumed trial needs nothing but its step.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from stsq_core.configs import Adam, AdamW, Optimizer, Schedule
from stsq_core.kernels import Kernels, Rates
from stsq_core.numerics import Step
from stsq_core.programs import Tensors

ADAMS = (Adam, AdamW)


def schedule_factors(schedule: Schedule, steps: int) -> np.ndarray:
    """The factor on the rate at each of `steps` steps, float64, shape (steps,)."""
    t = np.arange(steps)
    progress = np.clip((t - schedule.warmup) / max(1, steps - schedule.warmup), 0, 1)
    match schedule.kind:
        case "constant":
            decay = np.ones(steps)
        case "linear":
            decay = 1 - progress
        case "cosine":
            decay = 0.5 + 0.5 * np.cos(math.pi * progress)
    warm = np.minimum(1, (t + 1) / schedule.warmup) if schedule.warmup else 1.0
    return np.asarray((schedule.floor + (1 - schedule.floor) * decay) * warm)


class Descent:
    """Updates the parameters of k trials in place.

    Adam keeps first and second moments `m` and `v` of every parameter; gradient descent keeps nothing, and where the two share
    a stack its moments are carried along unused.
    """

    def __init__(self, optimizers: tuple[Optimizer, ...], steps: int, *, dtype: torch.dtype, kernels: Kernels) -> None:
        betas = np.array([(o.beta1, o.beta2) if isinstance(o, ADAMS) else (0.0, 0.0) for o in optimizers])
        rates = np.stack([o.lr * schedule_factors(o.schedule, steps) for o in optimizers], 1)
        power = np.arange(1, steps + 1)[:, None]

        def table(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(values).to(dtype).to(kernels.device)

        self._kernels = kernels
        self._any_adam = any(isinstance(o, ADAMS) for o in optimizers)
        decays = np.array([o.weight_decay if isinstance(o, AdamW) else 0.0 for o in optimizers])
        self._kept = table(1 - rates * decays) if decays.any() else None
        self._by_step = table(np.stack([rates / (1 - betas[:, 0] ** power), np.sqrt(1 - betas[:, 1] ** power)], 1))
        self._constant = (
            table(betas[:, 0]),
            table(betas[:, 1]),
            table(np.array([o.eps if isinstance(o, ADAMS) else 1.0 for o in optimizers])),
            torch.tensor([isinstance(o, ADAMS) for o in optimizers], device=kernels.device),
        )

    def moments(self, parameters: Tensors) -> Tensors:
        """The moments before the first step: empty where no trial uses Adam."""
        if not self._any_adam:
            return {}
        return {f"{name}.{moment}": torch.zeros_like(p) for name, p in parameters.items() for moment in ("m", "v")}

    def bound(self, parameters: Tensors, moments: Tensors) -> Callable[[Tensors, Step], None]:
        """What takes the step that follows so many earlier ones, from the gradients of these parameters, in place."""
        held = list(parameters.values())
        pairs = [(moments[f"{name}.m"], moments[f"{name}.v"]) for name in parameters] if self._any_adam else None
        update = self._kernels.updater(held, pairs)

        def take(gradients: Tensors, step: Step) -> None:
            if self._kept is not None:
                _decay(held, _row(self._kept, step))
            row = _row(self._by_step, step)
            rates = Rates(row[0], row[1], *self._constant)
            update([gradients[name] for name in parameters], rates)

        return take

    def update(self, parameters: Tensors, gradients: Tensors, moments: Tensors, step: Step) -> None:
        """Take the step that follows `step` earlier ones, once."""
        self.bound(parameters, moments)(gradients, step)


def _row(table: torch.Tensor, step: Step) -> torch.Tensor:
    return table[step] if isinstance(step, int) else table.index_select(0, step)[0]


def _decay(parameters: list[torch.Tensor], kept: torch.Tensor) -> None:
    """Multiply each trial's parameters by its factor in `kept`, (k,): 1, which changes no bit, where a trial does not decay."""
    for parameter in parameters:
        parameter.mul_(kept.view(-1, *[1] * (parameter.dim() - 1)))
