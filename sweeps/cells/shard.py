"""Shards: the cells or trials of a sweep divided among several processes, each with exactly one owner.

A key (a `trial_id` or a `cell_id`) is hashed to one of 65,536 places, and shard I of N owns the places from I/N to (I+1)/N of
them: who owns a cell does not depend on what else the sweep declares.
"""

import hashlib
import re
from dataclasses import dataclass

from stsq_core.configs import UserError

PLACES = 1 << 16
MAX_SHARDS = 1024


@dataclass(frozen=True)
class Shard:
    """The share `index` (from 0) of `count` equal ones."""

    index: int = 0
    count: int = 1

    @property
    def places(self) -> range:
        """Its places."""
        return range(self.index * PLACES // self.count, (self.index + 1) * PLACES // self.count)

    def owns(self, key: str) -> bool:
        """Whether it has this trial or cell."""
        return self.count == 1 or int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") in self.places

    @property
    def folder(self) -> str:
        """Its name as a folder has it."""
        return f"{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


WHOLE = Shard()


def read_shard(text: str) -> Shard:
    """Parse `I/N`, with I from 0 to N - 1.

    Raises:
        UserError: another shape, or numbers out of range.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    shard = Shard(*map(int, match.groups())) if match else None
    if shard is None or not 0 <= shard.index < shard.count <= MAX_SHARDS:
        raise UserError(
            f"--shard {text}: a shard is I/N with 0 <= I < N <= {MAX_SHARDS}; for example 0/4, 1/4, 2/4 and 3/4 on four nodes"
        )
    return shard
