"""Colours, marks, names and ticks of every figure, on paper and on the page, light and dark.

The hues are from Okabe and Ito's palette, which colour-blind readers can tell apart; architectures also differ by the shape of
their marks and the dashes of their lines, so that a figure survives being printed in grey.
"""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple


class Shade(NamedTuple):
    """One role's colour on a light and on a dark page."""

    light: str
    dark: str


INK = Shade("#1b1f24", "#e8e6e1")
MUTED = Shade("#6a7078", "#9aa0a8")
FAINT = Shade("#c9ccd1", "#454a52")
CARD = Shade("#ffffff", "#1a1d22")
TARGET = Shade("#b3456f", "#e58fb2")

TRANSFORMER = (
    Shade("#0072b2", "#56b4e9"),
    Shade("#009e73", "#3fcf9f"),
    Shade("#56729a", "#a7b8dc"),
    Shade("#3b4cc0", "#8f9cff"),
)
FCN = (Shade("#d55e00", "#f28e3c"), Shade("#b8860b", "#e6c04a"), Shade("#8c3b1f", "#d98a6c"), Shade("#a0416b", "#dd88b3"))
RECURRENT = (Shade("#7b4ba0", "#c4a6e8"), Shade("#b3456f", "#e58fb2"), Shade("#5b5b9e", "#a9a9e6"), Shade("#8e6c8a", "#d3b0cf"))
FURTHER = (Shade("#4d4d4d", "#bdbdbd"), Shade("#17808f", "#7fdbe8"), Shade("#7a6a2f", "#d8c777"), Shade("#3f7f4c", "#8ed19b"))
"""Of architectures that have no hue of their own."""

WIDTHS = (
    Shade("#c6b24a", "#f1e38b"),
    Shade("#8fae57", "#c5d67a"),
    Shade("#58a36c", "#8fcf86"),
    Shade("#2d9384", "#5cc3a0"),
    Shade("#217d96", "#43aebb"),
    Shade("#2a6499", "#4d94cf"),
    Shade("#3a488e", "#7683d6"),
    Shade("#3f2c74", "#a07fe0"),
)
"""Narrow to wide; each step differs in lightness as well as in hue."""

TICK_LETTER, TICK_GAP = 0.032, 0.015
"""What a letter of a tick's number takes of the x axis of a small chart, and the room between two numbers."""

Dash = Literal["solid", "dashed", "dashdot", "dotted"]
DASHES: tuple[Dash, ...] = ("solid", "dashed", "dashdot")

LINES = (
    TRANSFORMER[0],
    FCN[0],
    TRANSFORMER[1],
    TARGET,
    Shade("#8c6bb1", "#c4a6e8"),
    Shade("#b8860b", "#e6c04a"),
    Shade("#4d4d4d", "#bdbdbd"),
    Shade("#17a2b8", "#7fdbe8"),
)
"""Lines of one drawing, in this order; beyond these they differ by their dashes."""

_PAPER_MARKS = {
    "circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-left": "<", "triangle-right": ">", "cross": "P",
}  # fmt: skip
SHAPES = ("circle", "square", "diamond", "cross", "triangle-left", "triangle-right")
"""Marks of series side by side; triangles that point up or down are kept for what lies beyond the sizes tried."""

LOOKS = {
    "transformer": (TRANSFORMER, "circle"),
    "transformer_mlp": (TRANSFORMER, "circle"),
    "bit_attention": (TRANSFORMER, "circle"),
    "attention": (TRANSFORMER, "circle"),
    "stream_transformer": (FURTHER, "diamond"),
    "fcn": (FCN, "square"),
    "ffn": (FCN, "square"),
    "rnn": (RECURRENT, "triangle-up"),
    "gru": (RECURRENT, "triangle-up"),
}
"""By architecture: the colours of its series, and its mark; a kind that is not here has `FURTHER` and a diamond."""

_NAMES = {
    "transformer": "Transformer", "fcn": "Fully connected net", "transformer_mlp": "Transformer", "ffn": "Feed-forward net",
    "rnn": "Recurrent net", "gru": "Recurrent net (GRU)", "attention": "Attention", "bit_attention": "Attention head",
    "stream_transformer": "One-stream transformer",
}  # fmt: skip
_SHORT_NAMES = _NAMES | {"fcn": "FCN", "ffn": "FFN", "rnn": "RNN", "gru": "GRU"}


def architecture_name(kind: str, *, short: bool = False) -> str:
    """The name of an architecture in text; a plugin's is its kind."""
    return (_SHORT_NAMES if short else _NAMES).get(kind, kind)


def noun_phrase(kind: str) -> str:
    """An architecture in a sentence: `a transformer`, `an attention head`, `attention`."""
    name = architecture_name(kind)
    name = f"{name[0].lower()}{name[1:]}"
    vowel = name[0] in "aeiou" and not name.startswith("one-")
    return name if name == "attention" else f"{'an' if vowel else 'a'} {name}"


def series_shade(kind: str, index: int) -> Shade:
    """The colour of the index-th series of an architecture."""
    shades, _ = LOOKS.get(kind, (FURTHER, "diamond"))
    return shades[index % len(shades)]


def mark_shape(kind: str) -> str:
    """The mark of an architecture, by the name that plotly and Vega have for it."""
    _, shape = LOOKS.get(kind, (FURTHER, "diamond"))
    return shape


def paper_mark(shape: str) -> str:
    """matplotlib's name of a mark."""
    return _PAPER_MARKS[shape]


def width_shade(index: int, count: int) -> Shade:
    """The colour of the index-th of `count` widths, narrow to wide."""
    place = 0.5 if count < 2 else index / (count - 1)
    return WIDTHS[round(place * (len(WIDTHS) - 1))]


def theme_pairs() -> list[list[str]]:
    """Every light colour with its dark counterpart, for the page's script to swap."""
    shades = [CARD, INK, MUTED, FAINT, TARGET, *TRANSFORMER, *FCN, *RECURRENT, *FURTHER, *WIDTHS, *LINES]
    return [list(pair) for pair in {shade.light: shade.dark for shade in shades}.items()]


def translucent(colour: str, alpha: float) -> str:
    """A hex colour with an alpha, still spelled with the hex digits so that a theme swap finds it."""
    return f"{colour}{round(alpha * 255):02x}"


def ticks_at(values: Iterable[float], ends: tuple[float, float]) -> tuple[float, ...]:
    """The values themselves where they are few, else round numbers between the ends of a logarithmic axis.

    Of values whose numbers would be printed over each other the lower has a tick.
    """
    measured = sorted(set(values))
    if len(measured) > 8:
        return round_numbers(*ends)
    span, shown = math.log(ends[1] / ends[0]), list[float]()
    for value in measured:
        letters = len(tick_words(value)) + len(tick_words(shown[-1])) if shown else 0
        if not shown or math.log(value / shown[-1]) / span >= TICK_GAP + letters / 2 * TICK_LETTER:
            shown.append(value)
    return tuple(shown)


def round_numbers(low: float, high: float) -> tuple[float, ...]:
    """Up to eight round numbers within a range, for a logarithmic axis."""
    for mantissas in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 4, 6, 8), (1, 2, 5), (1, 3), (1,)):
        decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**k for k in decades for m in mantissas if low <= m * 10.0**k <= high and (m != 1.5 or k > 0)]
        if len(found) <= 8:
            return tuple(found)
    return tuple(found[:: len(found) // 6])


def decades(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten within a range, at most about four."""
    exponents = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return tuple(10.0**exponent for exponent in exponents[:: max(1, len(exponents) // 4)])


def loss_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, or other round numbers where there are fewer than two of them."""
    powers = decades(low, high)
    return powers if len(powers) > 1 else round_numbers(low, high)


def tick_words(value: float) -> str:
    """A tick's number: `24`, `0.1`, `30k`, `3M`."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"
