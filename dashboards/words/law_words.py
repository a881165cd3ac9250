"""Fitted laws as a reader sees them: formulas as text, for TeX and for HTML, numbers with intervals, standings and verdicts."""

import html
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from dashboards.words.markup import Html, element, joined
from stsq_core.configs import WIDTH
from sweeps.laws import (
    CONSTANT,
    LAWS,
    LETTERS as TASK_LETTERS,
    Estimate,
    LawComparison,
    Prediction,
    ScalingLaw,
    Standing,
    letter_law,
    spelled,
)

GAMMA = "\N{GREEK SMALL LETTER GAMMA}"
LETTERS = {"gamma": GAMMA}


class Formula(NamedTuple):
    """A formula, or a label with formulas, as plain text, for TeX and for HTML."""

    text: str
    tex: str
    html: str

    @classmethod
    def of(cls, label: str) -> "Formula":
        """A label with formulas between dollars: `$T_{test}$ = 40`, `width threshold $m^*$`."""
        pieces = label.split("$")
        text = "".join(re.sub(r"[{}^]", "", piece) if place % 2 else piece for place, piece in enumerate(pieces))
        marked = [_html_formula(piece) if place % 2 else html.escape(piece, quote=False) for place, piece in enumerate(pieces)]
        return cls(text.replace(r"\gamma", GAMMA), label, "".join(marked))


_SHAPES: Mapping[str, Formula] = {
    "attention": Formula("d + {b} q ln T", r"d + {b}\,q\,\ln T", "<i>d</i> + {b} <i>q</i> ln <i>T</i>"),
    "attention_offset": Formula("{b} q ln T + {const}", r"{b}\,q\,\ln T + {const}", "{b} <i>q</i> ln <i>T</i> + {const}"),
    "attention_factor": Formula("{a} d + {b} q ln T", r"{a}\,d + {b}\,q\,\ln T", "{a} <i>d</i> + {b} <i>q</i> ln <i>T</i>"),
    "attention_free": Formula(
        "{a} d + {b} q ln T + {c}", r"{a}\,d + {b}\,q\,\ln T + {c}", "{a} <i>d</i> + {b} <i>q</i> ln <i>T</i> + {c}"
    ),
    "attention_ratio": Formula("d + {b} q ln(T/q)", r"d + {b}\,q\,\ln(T/q)", "<i>d</i> + {b} <i>q</i> ln(<i>T</i>/<i>q</i>)"),
    "excess_power": Formula("d + {c} T^{gamma}", r"d + {c}\,T^{{{gamma}}}", "<i>d</i> + {c} <i>T</i><sup>{gamma}</sup>"),
    "excess_q_power": Formula(
        "d + {c} q T^{gamma}", r"d + {c}\,q\,T^{{{gamma}}}", "<i>d</i> + {c} <i>q T</i><sup>{gamma}</sup>"
    ),
    "T_power": Formula("{c} T^{gamma}", r"{c}\,T^{{{gamma}}}", "{c} <i>T</i><sup>{gamma}</sup>"),
    "td_power": Formula("{c} (T d)^{gamma}", r"{c}\,(T d)^{{{gamma}}}", "{c} (<i>Td</i>)<sup>{gamma}</sup>"),
    "fcn_line": Formula(
        "{s} T d (1 - r (T-1)/(T-q))",
        r"{s}\,T d\,(1 - r\,\frac{{T-1}}{{T-q}})",
        "{s} <i>Td</i> (1 - <i>r</i> (<i>T</i> - 1)/(<i>T</i> - <i>q</i>))",
    ),
}


_GROWTH: Mapping[str, Formula] = {
    "log": Formula("{a} + {b} ln L", r"{a} + {b}\,\ln L", "{a} + {b} ln <i>L</i>"),
    "power": Formula("{c} L^{gamma}", r"{c}\,L^{{{gamma}}}", "{c} <i>L</i><sup>{gamma}</sup>"),
    "log_power": Formula("{c} (ln L)^{gamma}", r"{c}\,(\ln L)^{{{gamma}}}", "{c} (ln <i>L</i>)<sup>{gamma}</sup>"),
}
"""The shapes of growth with one letter of a task, L."""


def _shape(name: str, law: ScalingLaw | None = None) -> Formula:
    """The formula of the law of a name, in which numbers or letters are put; in the letters of another law's task."""
    if name == CONSTANT.name:
        return Formula("{c}", "{c}", "{c}")
    if name in _SHAPES:
        return _SHAPES[name]
    kind, _, letter = name.rpartition("_")
    own = law.task.letters.get(letter, letter) if law else letter
    return Formula(*(re.sub(r"\bL\b", own, form) for form in _GROWTH[kind]))


def left_html(law: ScalingLaw) -> Html:
    """The left side of a law on the page: the letter of its size, and an equals sign."""
    return Html(f"<i>{law.size.letter}</i> = ")


def plain_formula(law: ScalingLaw) -> Formula:
    """The law without its numbers: `d + b q ln T`."""
    shape = _shape(law.name, law)
    letters = list(law.numbers)
    return Formula(
        shape.text.format(**{letter: letter for letter in letters}),
        f"${shape.tex.format(**{letter: _tex_letter(letter) for letter in letters})}$",
        shape.html.format(**{letter: f"<i>{LETTERS.get(letter, letter)}</i>" for letter in letters}),
    )


def fitted_formula(law: ScalingLaw) -> Formula:
    """The law with its numbers: `d + 2.48 q ln T`."""
    shape = _shape(law.name, law)
    numbers = {letter: _number(value) for letter, value in law.numbers.items()}
    # A negative constant is subtracted.
    text, tex, markup = (form.format(**numbers).replace("+ -", "- ") for form in shape)
    return Formula(text, f"${tex}$", markup)


def estimate_words(law: ScalingLaw, name: str) -> str:
    """One fitted number with its interval, its letter in backquotes; says so where there are too few cells for one."""
    estimate = law.parameters[name]
    value = f"`{LETTERS.get(name, name)}` = {_number(estimate.value)}"
    if not estimate.has_interval:
        return f"{value}, no interval"
    return f"{value}, {law.level:.0%} interval {_number(estimate.low)} to {_number(estimate.high)}"


def numbers_words(law: ScalingLaw) -> tuple[str, ...]:
    """Each number that a law reports, without the level of the intervals: `b = 2.48 (2.31 to 2.66)`."""
    return tuple(f"`{LETTERS.get(name, name)}` = {interval_words(own)}" for name, own in law.parameters.items())


def interval_words(estimate: Estimate) -> str:
    """`2.48 (2.31 to 2.66)`, or the number alone where there is no interval."""
    if not estimate.has_interval:
        return f"{_number(estimate.value)} (no interval)"
    return f"{_number(estimate.value)} ({_number(estimate.low)} to {_number(estimate.high)})"


def width_words(estimate: Estimate) -> str:
    """A predicted width with its interval."""
    if not estimate.has_interval:
        return f"{estimate.value:.1f} (no interval)"
    return f"{estimate.value:.1f} ({estimate.low:.1f} to {estimate.high:.1f})"


def measured_words(prediction: Prediction) -> str:
    """The measured threshold of a held-out cell; an end of its interval beyond the widths tried is named as such."""
    if prediction.m_star is None:
        return f"above {prediction.low:g}" if math.isinf(prediction.high) else f"at or below {prediction.high:g}"
    if math.isnan(prediction.low):
        return f"{prediction.m_star:.1f} (no interval)"
    low = f"{prediction.low:.1f}" if prediction.low > 0 else "below the widths"
    high = f"{prediction.high:.1f}" if math.isfinite(prediction.high) else "above the widths"
    return f"{prediction.m_star:.1f} ({low} to {high})"


def agreement_words(prediction: Prediction) -> str:
    """Whether the measured and the predicted interval of a held-out cell meet."""
    return {None: "no interval", True: "intervals overlap", False: "intervals apart"}[prediction.agrees]


def standing_words(comparison: LawComparison, law: ScalingLaw) -> str:
    """A law's place, in words that say no more than is known: the best of undecided ones is not called the best."""
    standing: Standing = comparison.standing(law)
    if standing == "best" and comparison.rivals():
        return "as good"
    return standing


def place_words(comparison: LawComparison, law: ScalingLaw) -> str:
    """A law's place in a table, and whether it is the one that is named."""
    return standing_words(comparison, law) + (", named" if law is comparison.named else "")


def fit_words(law: ScalingLaw) -> str:
    """The test of a law's fit in a table: its probability, with what is wrong where it misfits."""
    if law.test is None:
        return "not tested"
    return ", ".join(filter(None, [law.test.p_words, law.test.words]))


def laws_html(sentences: str, law: ScalingLaw | None = None) -> Html:
    """Sentences on laws with their formulas and single letters set as such, also of laws that are not in the table: of those
    that are one function on the cells only the first is.

    Args:
        law: whose size and task letters the sentences have; without one a width, T, q and d.
    """
    formulas = {}
    for one in (*LAWS, CONSTANT, *(letter_law(kind, letter) for kind in _GROWTH for letter in TASK_LETTERS)):
        size, shape = law.size if law else WIDTH, _shape(one.name, law)
        letters = {letter: f"<i>{LETTERS.get(letter, letter)}</i>" for letter in one.letters}
        spelling = spelled(one.formula, size, law.task) if law else one.formula
        formulas[spelling] = element("span", Html(f"<i>{size.letter}</i> = {shape.html.format(**letters)}"), class_="formula")
    own = {*TASK_LETTERS, *(law.task.letters.values() if law else ()), "b", "c", "r", "gamma"}
    formula = "|".join(map(re.escape, sorted(formulas, key=len, reverse=True)))
    letter = "|".join(sorted(own, key=len, reverse=True))
    pieces = re.split(rf"((?:{formula})(?!\w)|(?<![\w.])(?:{letter}|a(?= = ))(?![\w.]\w|\w))", sentences)
    return joined(
        *(
            piece if not place % 2 else formulas[piece] if piece in formulas else element("i", LETTERS.get(piece, piece))
            for place, piece in enumerate(pieces)
        )
    )


def _html_formula(tex: str) -> str:
    """Letters in italics, indices lowered."""
    spelled = re.sub(r"_\{([^}]*)\}", r"<sub>\1</sub>", tex.replace(r"\gamma", GAMMA).replace("^*", "*"))
    spelled = re.sub(r"(?<![<\w/])([A-Za-z])(?![\w>])", r"<i>\1</i>", spelled)
    return spelled.replace("-", "\N{MINUS SIGN}")


def _tex_letter(letter: str) -> str:
    return {"gamma": r"\gamma", "const": r"\mathrm{const}"}.get(letter, letter)


def _number(value: float) -> str:
    """Two decimals, fewer of large numbers and three figures of small ones."""
    if value and abs(value) < 0.1:
        return f"{value:.3g}"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
