"""What comes of a claim: its answer, with the numbers of every setting in which it was looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Answer = Literal["holds", "does not hold", "not enough data"]

LEAST_SEEDS = 3
"""Fewer seeds decide no claim: two that happen to agree have an interval as narrow as one likes."""


@dataclass(frozen=True)
class ClaimSetting:
    """A claim in one setting: the fields that tell it apart, its number with interval and seeds, the answer.

    An interval's end is None where it is open. `note` says in words what leaves it open: too few seeds, or cells without a
    threshold.
    """

    fields: tuple[tuple[str, Any], ...]
    value: float | None
    low: float | None
    high: float | None
    num_seeds: int
    answer: Answer
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim with its answer. `quantity` says in words what the numbers of its settings are, `rule` when they hold."""

    name: str
    says: str
    quantity: str
    rule: str
    settings: tuple[ClaimSetting, ...]

    @property
    def answer(self) -> Answer:
        answers = {setting.answer for setting in self.settings}
        if "does not hold" in answers:
            return "does not hold"
        return "holds" if answers == {"holds"} else "not enough data"

    @property
    def num_holding(self) -> int:
        """Settings in which it holds."""
        return sum(setting.answer == "holds" for setting in self.settings)


def answer_of(low: float, high: float, rule: tuple[float, float]) -> Answer:
    """Whether the interval from `low` to `high` lies inside the rule's, outside of it, or partly."""
    if rule[0] <= low and high <= rule[1]:
        return "holds"
    return "does not hold" if high < rule[0] or low > rule[1] else "not enough data"


def with_seeds(setting: ClaimSetting, *, level: float, attainable: float = 1.0) -> ClaimSetting:
    """The setting, left open with a note where its seeds are too few for any answer, or for an interval of the level.

    Args:
        attainable: the highest level of an interval of so many seeds; 1 for Student's, which has any level from two seeds on.
    """
    if setting.num_seeds == 0 or (setting.num_seeds >= LEAST_SEEDS and attainable >= level):
        return setting
    num, has_interval = setting.num_seeds, (setting.low, setting.high) != (None, None)
    if attainable < level:
        given = f"an interval of at most {100 * attainable:.3g}%" if attainable > 0 else "no interval"
    else:
        given = f"an interval of {100 * level:.3g}%" if has_interval else "no interval"
    note = f"{num} seeds give {given}" if num > 1 else f"1 seed gives {given}"
    if num < LEAST_SEEDS:
        note = f"{note}, and a verdict needs {LEAST_SEEDS} seeds"
    return replace(setting, answer="not enough data", note="; ".join(filter(None, (note, setting.note))))


def sides(at_least: float | None, at_most: float | None) -> str:
    """The rule of a bound in words."""
    if at_least is not None and at_most is not None:
        return f"{at_least:g} to {at_most:g}"
    return f"at least {at_least:g}" if at_least is not None else f"at most {at_most:g}"


def is_within(name: str, branches: Sequence[str]) -> bool:
    """Whether a dotted field is one of these, or lies in one of these branches."""
    return any(name == branch or name.startswith(f"{branch}.") for branch in branches)


def leaf(name: str) -> str:
    """The last part of a dotted field."""
    return name.rpartition(".")[2]
