"""Where `train_pack` leaves its state so that a killed worker can go on: the interface, and its null object."""

from abc import ABC, abstractmethod


class Checkpoint(ABC):
    """Keeps the newest state of one pack.

    `train_pack` calls `load` once before it trains and `save` between two steps whenever `due`. After a load it reports only
    steps later than the saved one, so whoever journals the reports drops those that came after the save.
    """

    @abstractmethod
    def load(self) -> bytes | None:
        """The newest saved state, or None where there is none."""

    @abstractmethod
    def due(self) -> bool:
        """Whether it is time to save."""

    @abstractmethod
    def save(self, state: bytes) -> None:
        """Replace the saved state as a whole: after a crash either the old or the new one is there."""


class NoCheckpoint(Checkpoint):
    """Keeps nothing."""

    def load(self) -> bytes | None:
        return None

    def due(self) -> bool:
        return False

    def save(self, state: bytes) -> None:
        return None


NO_CHECKPOINT = NoCheckpoint()
