"""Many trials as columns: a family, a size, a learning rate and a seed each; a config is made when it is asked for."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from stsq_core.configs import WIDTH, Size, TrialConfig, TrialFamily


class Trials(Sequence[TrialConfig]):
    """Trials in order, each once.

    `families[family[i]].member(widths[i], rates[i], seeds[i])` is the i-th. `widths` are widths m unless its families are of
    another size.
    """

    def __init__(
        self,
        families: Sequence[TrialFamily],
        family: np.ndarray,
        widths: np.ndarray,
        rates: np.ndarray,
        seeds: np.ndarray,
    ) -> None:
        self.families = tuple(families)
        self.family = family
        self.widths = widths
        self.rates = rates
        self.seeds = seeds
        self._parts: tuple[Trials, ...] = ()

    @classmethod
    def of(cls, configs: Iterable[TrialConfig], size: Size = WIDTH) -> "Trials":
        """The columns of any configs; one that comes twice is taken once."""
        if isinstance(configs, Trials):
            return configs
        distinct = list({config.trial_id: config for config in configs}.values())
        places: dict[TrialConfig, int] = {}
        families: list[TrialFamily] = []
        family = []
        for config in distinct:
            one = TrialFamily(config, size)
            family.append(places.setdefault(one.key, len(families)))
            if family[-1] == len(families):
                families.append(one)
        return cls(
            families,
            np.array(family, dtype=np.int64),
            np.array([size.of(config) for config in distinct], dtype=np.int64),
            np.array([config.optimizer.lr for config in distinct], dtype=np.float64),
            np.array([config.seed for config in distinct], dtype=np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence["Trials"]) -> "Trials":
        """Trials of different families, one after another."""
        offsets: dict[int, int] = {}
        families: list[TrialFamily] = []
        for part in parts:
            if id(part.families) not in offsets:
                offsets[id(part.families)] = len(families)
                families += part.families
        joined = cls(
            families,
            np.concatenate([_NOTHING, *(part.family + offsets[id(part.families)] for part in parts)]),
            np.concatenate([_NOTHING, *(part.widths for part in parts)]),
            np.concatenate([_NOTHING.astype(float), *(part.rates for part in parts)]),
            np.concatenate([_NOTHING, *(part.seeds for part in parts)]),
        )
        joined._parts = tuple(parts)
        return joined

    def take(self, places: np.ndarray) -> "Trials":
        """Some of the trials: places, or a mask."""
        some = Trials(self.families, self.family[places], self.widths[places], self.rates[places], self.seeds[places])
        if self._has_ids:
            some._ids = self._ids[places]
        return some

    @cached_property
    def trial_ids(self) -> tuple[str, ...]:
        """The id of each trial."""
        return tuple(self._ids.tolist())

    @property
    def _has_ids(self) -> bool:
        return "_ids" in vars(self)

    @cached_property
    def _ids(self) -> np.ndarray:
        if self._parts:
            return np.concatenate([part._ids for part in self._parts])
        ids = np.empty(len(self), dtype=object)
        for place in np.unique(self.family).tolist():
            own = np.flatnonzero(self.family == place) if len(self.families) > 1 else np.arange(len(self))
            columns = (column[own].tolist() for column in (self.widths, self.rates, self.seeds))
            ids[own] = self.families[place].ids(*columns)
        return ids

    @cached_property
    def kinds(self) -> tuple[tuple[TrialConfig, ...], np.ndarray]:
        """One config of each family and width, and the kind of each trial: what decides its cost, and who may share its
        stack.
        """
        if not len(self):
            return (), _NOTHING
        low, span = int(self.widths.min()), int(self.widths.max()) + 1
        _, first, kind = np.unique(self.family * (span - low) + self.widths - low, return_index=True, return_inverse=True)
        return tuple(self[place] for place in first.tolist()), kind

    def __len__(self) -> int:
        return len(self.family)

    @overload
    def __getitem__(self, place: int) -> TrialConfig: ...
    @overload
    def __getitem__(self, place: slice) -> "Trials": ...
    def __getitem__(self, place: int | slice) -> "TrialConfig | Trials":
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        width, lr, seed = self.widths[place].item(), self.rates[place].item(), self.seeds[place].item()
        member: TrialConfig = self.families[self.family[place]].member(width, lr, seed)
        return member

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.trial_ids)


_NOTHING = np.zeros(0, dtype=np.int64)


def cell_of(config: TrialConfig, size: Size = WIDTH) -> str:
    """Twelve hex digits that name a trial's cell: equal for configs that differ only in size, seed and learning rate.

    Where the size is not free (one-hot codes have `d_e = T`), it stays part of the cell.
    """
    return cell_of_family(TrialFamily(config, size))


def cell_of_family(family: TrialFamily) -> str:
    """The name of the cell that a family's trials belong to."""
    of = "" if family.size == WIDTH else f"of {family.size.name} "
    return hashlib.sha256(f"cell {of}{family.key_id}".encode()).hexdigest()[:12]
