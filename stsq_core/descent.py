"""One optimizer step for a stack of trials: gradient descent and Adam side by side, each trial with its own rate and schedule.

Every number of a step is looked up in tables made once from the configs, so a resumed trial needs nothing but its step.
"""

import math

import numpy as np
import torch

from stsq_core.optimizer import Adam, Optimizer, Schedule
from stsq_core.program import Tensors


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

    def __init__(self, optimizers: tuple[Optimizer, ...], steps: int, *, dtype: torch.dtype, device: torch.device) -> None:
        betas = np.array([(o.beta1, o.beta2) if isinstance(o, Adam) else (0.0, 0.0) for o in optimizers])
        rates = np.stack([o.lr * schedule_factors(o.schedule, steps) for o in optimizers], 1)
        power = np.arange(1, steps + 1)[:, None]

        def table(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(values).to(dtype).to(device)

        self._adam = torch.tensor([isinstance(o, Adam) for o in optimizers], device=device)
        self._any_adam, self._all_adam = bool(self._adam.any()), bool(self._adam.all())
        self._beta1, self._beta2 = table(betas[:, 0]), table(betas[:, 1])
        self._rest1, self._rest2 = table(1 - betas[:, 0]), table(1 - betas[:, 1])
        self._eps = table(np.array([o.eps if isinstance(o, Adam) else 1.0 for o in optimizers]))
        self._rates = table(-rates / (1 - betas[:, 0] ** power))
        self._roots = table(np.sqrt(1 - betas[:, 1] ** power))

    def moments(self, parameters: Tensors) -> Tensors:
        """The moments before the first step: empty where no trial uses Adam."""
        if not self._any_adam:
            return {}
        return {f"{name}.{moment}": torch.zeros_like(p) for name, p in parameters.items() for moment in ("m", "v")}

    def update(self, parameters: Tensors, gradients: Tensors, moments: Tensors, step: int) -> None:
        """Take the step that follows `step` earlier ones."""
        for name, parameter in parameters.items():
            gradient = gradients[name]
            direction = gradient
            if self._any_adam:
                direction = self._adam_direction(gradient, moments[f"{name}.m"], moments[f"{name}.v"], step)
            parameter.addcmul_(direction, _like(self._rates[step], parameter))

    def _adam_direction(self, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor, step: int) -> torch.Tensor:
        m.mul_(_like(self._beta1, m)).addcmul_(gradient, _like(self._rest1, m))
        v.mul_(_like(self._beta2, v)).addcmul_(gradient * gradient, _like(self._rest2, v))
        direction = v.sqrt().div_(_like(self._roots[step], v)).add_(_like(self._eps, v))
        direction = torch.div(m, direction, out=direction)
        return direction if self._all_adam else torch.where(_like(self._adam, m), direction, gradient)


def _like(vector: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A (k,) vector shaped to scale a (k, ...) tensor trial by trial."""
    return vector.view(-1, *(1 for _ in tensor.shape[1:]))
