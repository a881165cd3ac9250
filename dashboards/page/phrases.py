"""Pieces of the headline's sentences."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence, formula letters in backquotes; `kind` names the architecture whose number it is."""

    text: str
    kind: str = ""


def as_sentence(phrases: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """The phrases with a capital at the start and a stop at the end."""
    first, *rest = phrases
    return (Phrase(first.text[0].upper() + first.text[1:], first.kind), *rest, Phrase("."))
