"""A family of trials: those that differ from one config in size, learning rate and seed only, made and named in bulk.

The size is the width m unless another is asked for (`stsq_core.configs.size`).

A sweep of a million trials has a few hundred families, so what its members share is checked and spelled once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any

from stsq_core.configs.optimizer import Optimizer
from stsq_core.configs.size import WIDTH, Size
from stsq_core.configs.trial import NUMERICS, TrialConfig, deviations

SIZE, RATE, SEED = "a size", "a rate", "a seed"
"""What stands in a family's spelling where a member's own value belongs."""


class TrialFamily:
    """The trials that `sample` becomes with another size, learning rate and seed.

    Where the size is not free (one-hot codes have `d_e = T`), members differ in rate and seed only.
    """

    def __init__(self, sample: TrialConfig, size: Size = WIDTH) -> None:
        self.sample = sample
        self.size = size
        self._sized: dict[int, dict[str, Any]] = {}
        self._optimizers = {sample.optimizer.lr: sample.optimizer}

    @cached_property
    def key(self) -> TrialConfig:
        """Equal for the samples of one family, whichever members they are."""
        return self.member(self._least if self._is_free else self.size.of(self.sample), 1.0, 0)

    @cached_property
    def key_id(self) -> str:
        """The `trial_id` of the key."""
        return self.key.trial_id

    def member(self, size: int, lr: float, seed: int) -> TrialConfig:
        """One of its trials; the values are those of a valid config."""
        return self.sample.model_copy(update=self._of_size(size) | {"optimizer": self._optimizer(lr), "seed": seed})

    def ids(self, sizes: Iterable[int], rates: Iterable[float], seeds: Iterable[int]) -> list[str]:
        """The `trial_id` of each of its trials, given as three columns of plain numbers."""
        ids = []
        for size, lr, seed in zip(sizes, rates, seeds, strict=True):
            before, after, end = self._spelling(size)
            own = f'"seed": {seed}, ' if seed else ""
            text = f"{before}{lr!r}{after}{own}{end}"
            ids.append(hashlib.sha256(text.encode()).hexdigest()[:16])
        return ids

    def _spelling(self, size: int) -> tuple[str, str, str]:
        """The text that `trial_id` hashes, without the member's rate and seed (which is left out where it is 0)."""
        if size not in self._spellings:
            if self._width_spelling is None:
                self._spellings[size] = _around_rate(_spelled(self.sample.model_copy(update=self._of_size(size))))
            else:
                before, between, after, end = self._width_spelling
                self._spellings[size] = f"{before}{size - self._offset}{between}", after, end
        return self._spellings[size]

    @cached_property
    def _spellings(self) -> dict[int, tuple[str, str, str]]:
        return {}

    @cached_property
    def _width_spelling(self) -> tuple[str, str, str, str] | None:
        """The same without the width either, which has no default; None for another size, which may be left out at its own."""
        if self.size != WIDTH or not self._is_free:
            return None
        fields = _deviations(self.sample)
        fields["model"] = _with(fields["model"], self.sample.model.size_field, SIZE)
        before, _, rest = json.dumps([NUMERICS, fields], sort_keys=True).partition(f'"{SIZE}"')
        between, after, end = _around_rate(rest)
        return before, between, after, end

    @cached_property
    def _is_free(self) -> bool:
        return self.size.is_free(self.sample)

    @cached_property
    def _offset(self) -> int:
        """The width m less the number in the config: d for a transformer, whose codes have d_e = m - d coordinates."""
        return self.sample.model.offset(self.sample.task)

    @property
    def _least(self) -> int:
        return 1 + (self._offset if self.size == WIDTH else 0)

    def _of_size(self, size: int) -> dict[str, Any]:
        if size not in self._sized:
            own = not self._is_free or size == self.size.of(self.sample)
            self._sized[size] = {} if own else self.size.changed(self.sample, size)
        return self._sized[size]

    def _optimizer(self, lr: float) -> Optimizer:
        if lr not in self._optimizers:
            self._optimizers[lr] = _of_rate(self.sample.optimizer, lr)
        return self._optimizers[lr]


def _deviations(config: TrialConfig) -> dict[str, Any]:
    """What identifies a config, with `RATE` and `SEED` in place of its own."""
    fields = deviations(config) | {"seed": SEED}
    return fields | {"optimizer": fields["optimizer"] | {"lr": RATE}}


def _spelled(config: TrialConfig) -> str:
    return json.dumps([NUMERICS, _deviations(config)], sort_keys=True)


def _around_rate(text: str) -> tuple[str, str, str]:
    """A spelling in three parts: up to the rate, between rate and seed, and from there on."""
    before, _, rest = text.partition(f'"{RATE}"')
    after, _, end = rest.partition(f'"seed": "{SEED}", ')
    return before, after, end


@lru_cache(maxsize=10_000)
def _of_rate(optimizer: Optimizer, lr: float) -> Optimizer:
    return optimizer.model_copy(update={"lr": lr})


def _with(fields: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """A copy of nested data with the dotted field `name` set."""
    head, _, rest = name.partition(".")
    return {**fields, head: _with(fields[head], rest, value) if rest else value}
