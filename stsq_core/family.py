"""A family of trials: those that differ from one config in width, learning rate and seed only, made and named in bulk.

A sweep of a million trials has a few hundred families, so what its members share is checked and spelled once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from stsq_core.architecture import Architecture
from stsq_core.optimizer import Optimizer
from stsq_core.trial import NUMERICS, TrialConfig, deviations

WIDTH, RATE, SEED = "a width", "a rate", "a seed"
"""What stands in a family's spelling where a member's own value belongs."""


class TrialFamily:
    """The trials that `sample` becomes with another width m, learning rate and seed.

    Where the task fixes the width (one-hot codes have `d_e = T`), members differ in rate and seed only.
    """

    def __init__(self, sample: TrialConfig) -> None:
        self.sample = sample
        self._models = {sample.width: sample.model}
        self._optimizers = {sample.optimizer.lr: sample.optimizer}

    @cached_property
    def key(self) -> TrialConfig:
        """Equal for the samples of one family, whichever members they are."""
        return self.member(self.sample.width if self._has_one_width else 1 + self._offset, 1.0, 0)

    def member(self, width: int, lr: float, seed: int) -> TrialConfig:
        """One of its trials; the values are those of a valid config."""
        return self.sample.model_copy(
            update={"model": self._model(width), "optimizer": self._optimizer(lr), "seed": seed},
        )

    def ids(self, widths: Iterable[int], rates: Iterable[float], seeds: Iterable[int]) -> list[str]:
        """The `trial_id` of each of its trials, given as three columns of plain numbers."""
        before, between, after, end = self._spelling
        offset, fixed = self._offset, self._has_one_width
        ids = []
        for width, lr, seed in zip(widths, rates, seeds, strict=True):
            own = f'"seed": {seed}, ' if seed else ""
            text = f"{before}{'' if fixed else width - offset}{between}{lr!r}{after}{own}{end}"
            ids.append(hashlib.sha256(text.encode()).hexdigest()[:16])
        return ids

    @cached_property
    def _spelling(self) -> tuple[str, str, str, str]:
        """The text that `trial_id` hashes, without the member's width, rate and seed (which is not told where it is 0)."""
        told = deviations(self.sample) | {"seed": SEED}
        told["optimizer"] = told["optimizer"] | {"lr": RATE}
        if not self._has_one_width:
            told["model"] = _with(told["model"], self.sample.model.size_field, WIDTH)
        text = json.dumps([NUMERICS, told], sort_keys=True)
        before, _, rest = ("", "", text) if self._has_one_width else text.partition(f'"{WIDTH}"')
        between, _, rest = rest.partition(f'"{RATE}"')
        after, _, end = rest.partition(f'"seed": "{SEED}", ')
        return before, between, after, end

    @property
    def _has_one_width(self) -> bool:
        return self.sample.model.is_sized_by_task

    @property
    def _offset(self) -> int:
        """The width m less the number in the config: d for a transformer, whose codes have d_e = m - d coordinates."""
        return self.sample.model.offset(self.sample.task)

    def _model(self, width: int) -> Architecture:
        if width not in self._models:
            self._models[width] = _of_size(self.sample.model, width - self._offset)
        return self._models[width]

    def _optimizer(self, lr: float) -> Optimizer:
        if lr not in self._optimizers:
            self._optimizers[lr] = _of_rate(self.sample.optimizer, lr)
        return self._optimizers[lr]


@lru_cache(maxsize=10_000)
def _of_size(model: Architecture, size: int) -> Architecture:
    return model.of_size(size)


@lru_cache(maxsize=10_000)
def _of_rate(optimizer: Optimizer, lr: float) -> Optimizer:
    return optimizer.model_copy(update={"lr": lr})


def _with(told: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """A copy of nested data with the dotted field `name` set."""
    head, _, rest = name.partition(".")
    return {**told, head: _with(told[head], rest, value) if rest else value}
