"""The laws that thresholds of other sizes than the width are held against: growth with one letter of the task, or none.

No theory fixes their form, so the question is how fast a threshold n grows: not at all, with the logarithm of a letter L, with
a power of it, or with a power of its logarithm. The power `gamma` of `n = c (ln L)^gamma` compares growth with that of the
logarithm: up to 1 it is no faster. Thresholds that grow as L^p have a local gamma of p ln L.
"""

from collections.abc import Callable

import numpy as np

from sweeps.laws.families import Law, LinearLaw, PowerLaw, Tasks, is_constant, nothing, one

LETTERS = ("T", "q", "d")
CONSTANT = LinearLaw("constant", "m = c", ("c",), ("c",), nothing, (one,))
KINDS = ("log", "power", "log_power")
"""The growth with a letter that a claim can name."""


def letter_law(kind: str, letter: str) -> Law:
    """The law of one kind of growth with a letter: `log` (m = a + b ln L), `power` (m = c L^gamma) or `log_power`."""
    name = f"{kind}_{letter}"
    match kind:
        case "log":
            return LinearLaw(name, f"m = a + b ln {letter}", ("a", "b"), ("a", "b"), nothing, (one, _log(letter)))
        case "power":
            return PowerLaw(name, f"m = c {letter}^gamma", ("c", "gamma"), ("c", "gamma"), nothing, _value(letter), one)
        case "log_power":
            formula = f"m = c (ln {letter})^gamma"
            return PowerLaw(name, formula, ("c", "gamma"), ("c", "gamma"), nothing, _log(letter), one)
    raise ValueError(f"no kind of growth is named {kind!r}: use one of {', '.join(KINDS)}")


def applicable_letter_laws(tasks: Tasks) -> tuple[Law, ...]:
    """No growth, and every kind of growth with each letter that these tasks differ in and that determines the law.

    A law that says nothing of one of them, as a power of ln 1 does not, is left out.
    """
    varying = [letter for letter in LETTERS if not is_constant(getattr(tasks, letter))]
    laws = [CONSTANT, *(letter_law(kind, letter) for letter in varying for kind in KINDS)]
    return tuple(law for law in laws if law.is_defined(tasks) and law.is_identifiable(tasks))


def _value(letter: str) -> Callable[[Tasks], np.ndarray]:
    return lambda tasks: np.asarray(getattr(tasks, letter), dtype=float)


def _log(letter: str) -> Callable[[Tasks], np.ndarray]:
    return lambda tasks: np.asarray(np.log(getattr(tasks, letter)))
