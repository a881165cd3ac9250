"""Losses of workers by node: one that loses them again and again, while others do not, is left out for a while."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_IN_A_ROW = 3
"""Losses after which a node is left out, if no pack has ended there in between."""

LEFT_OUT_S = 600.0
"""How long a node is left out; the next loss there then leaves it out again."""


@dataclass(frozen=True)
class Node:
    """A node of a cluster, by the id that Ray gives it."""

    node_id: str
    address: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.address} ({self.node_id[:8]})"


class NodeLosses:
    """Counts losses by node, and says which nodes are left out now (by `now`, monotonic seconds)."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._in_a_row: Counter[Node] = Counter()
        self._started: set[Node] = set()
        self._left_out: dict[Node, tuple[float, str]] = {}

    @property
    def left_out(self) -> dict[Node, str]:
        """The nodes that get no worker now, each with the cause of its last loss."""
        for node, (until, _) in list(self._left_out.items()):
            if self._now() >= until:
                del self._left_out[node]
        return {node: cause for node, (_, cause) in self._left_out.items()}

    def start(self, node: Node) -> None:
        """A worker has started there."""
        self._started.add(node)

    def succeed(self, node: Node) -> None:
        """A pack has ended there: whatever was wrong is over."""
        self._in_a_row.pop(node, None)
        self._left_out.pop(node, None)

    def forget(self, node: Node) -> None:
        """The node is taken away: it says nothing about the others."""
        self._started.discard(node)

    def lose(self, node: Node) -> int:
        """A worker was lost there; returns how many were since a pack ended there."""
        self._in_a_row[node] += 1
        return self._in_a_row[node]

    def others_sound(self, node: Node) -> bool:
        """Whether another node has started a worker, and lost one at most since a pack ended there."""
        return any(one != node and one not in self._left_out and self._in_a_row[one] <= 1 for one in self._started)

    def leave_out(self, node: Node, cause: str) -> None:
        """Give the node no worker for `LEFT_OUT_S`."""
        self._left_out[node] = self._now() + LEFT_OUT_S, cause
