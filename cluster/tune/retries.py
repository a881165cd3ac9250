"""How often a pack may lose its worker: a loss costs no more than the time since its last checkpoint, but not for ever."""

from collections import Counter


class Retries:
    """Counts the losses of each pack; a pack is given back while they are no more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._losses: Counter[str] = Counter()
        self.total = 0

    def allowed(self, pack_id: str) -> bool:
        """Count a loss, and say whether the pack may be tried again."""
        self._losses[pack_id] += 1
        again = self._losses[pack_id] <= self._most
        self.total += again
        return again

    def num_losses(self, pack_id: str) -> int:
        """How often the pack has lost its worker."""
        return self._losses[pack_id]

    def forget(self, pack_id: str) -> None:
        """The pack has ended."""
        self._losses.pop(pack_id, None)
