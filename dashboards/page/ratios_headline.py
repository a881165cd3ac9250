"""The headline of claims that compare two settings: learned codes need 0.74 times the width of random signs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dashboards.page.phrases import Phrase, as_sentence
from dashboards.words import joined_words, noun_phrase, setting_interval, setting_words
from sweeps.findings import ClaimSetting, Findings
from sweeps.laws import spread_words
from sweeps.schema import ThresholdOrder, ThresholdRatio

MAX_RATIOS = 2
"""Claims whose ratios are in the headline; the others have their section."""

MAX_IN_FULL = 2
"""Ratios of a claim that are said each; of more their range is."""

KIND = "model.kind"
NEVER_REDRAWN = ("model.positions.redraw", "never")


@dataclass(frozen=True)
class _Compared:
    """A claim on the threshold of one setting over that of another: the field, its two values, and what both share."""

    by: str
    of: Any
    over: Any
    where: Mapping[str, Any]


def ratios_headline(findings: Findings) -> tuple[Phrase, ...]:
    """The ratios of the first claims between two settings that have a number: learned codes need 0.74 times (90% interval ...)
    the width of random signs. Nothing where no claim has one; a claim whose ratios another one says as well is left out."""
    verdicts = {verdict.name: verdict for verdict in findings.verdicts}
    ratios: list[tuple[frozenset[tuple[object, ...]], tuple[Phrase, ...]]] = []
    for claim in findings.spec.claims:
        match claim:
            case ThresholdRatio(by=by, of=of, over=over) | ThresholdOrder(by=by, order=(over, of)):
                compared = _Compared(by, of, over, claim.where)
            case _:
                continue
        settings = verdicts[claim.name].settings
        if clause := _clause(compared, settings, findings):
            own = _keys(compared, settings)
            if own <= frozenset().union(*(keys for keys, _ in ratios)):
                continue  # two bounds may lie on one ratio
            if len(settings) <= MAX_IN_FULL:
                ratios = [one for one in ratios if not one[0] <= own]
            ratios.append((own, clause))
    if not ratios:
        return ()
    phrases: list[Phrase] = [] if findings.complete else [Phrase("so far, ")]
    for place, clause in enumerate([clause for _, clause in ratios][:MAX_RATIOS]):
        phrases += [Phrase("; "), *clause] if place else clause
    return as_sentence(phrases)


def _keys(compared: _Compared, settings: Sequence[ClaimSetting]) -> frozenset[tuple[object, ...]]:
    """Equal for the ratios of the same two cells, whichever claims compare them; none of a setting without a number."""
    own = [(one.value, None, None) if one.value is not None else (None, one.low, one.high) for one in settings]
    return frozenset((compared.by, repr(compared.of), repr(compared.over), *number) for number in own if any(number))


def _clause(compared: _Compared, settings: Sequence[ClaimSetting], findings: Findings) -> tuple[Phrase, ...]:
    """For a transformer, gradient descent needs 0.96 to 1.1 times the width of Adam in 5 settings (90% intervals ...)."""
    criterion, by = findings.spec.criterion, compared.by
    number = _compared_words(settings, by, f"{criterion.level:.0%}")
    if number is None:
        return ()
    ratio, after, end = number
    of, over = (_value_words(by, value) for value in (compared.of, compared.over))
    letters = [item for item in settings[0].fields if item[0] != by] if len(settings) == 1 else []
    shared = {name: value for name, value in compared.where.items() if name not in {by, *dict(letters)}}
    fixed = setting_words([NEVER_REDRAWN])
    if NEVER_REDRAWN in shared.items() and joined_words([of, fixed]) == of:  # learned codes are not said to be fixed
        shared.pop(NEVER_REDRAWN[0])
        over = f"fixed {over}"
    kinds = {threshold.kind for threshold in findings.thresholds} if KIND not in shared else {str(shared[KIND])}
    at = f" at {_with_letters(setting_words(letters))}" if letters else ""
    need = "need" if re.search(r"\b(codes|signs)\b", of) else "needs"
    return (
        Phrase(f"{_scope(shared)}{of} {need} "),
        Phrase(ratio, kinds.pop() if len(kinds) == 1 and "(" not in ratio else ""),  # a coloured piece stays on one line
        Phrase(f"{after} the {criterion.size.quantity} of {over}{at}{end}"),
    )


def _compared_words(settings: Sequence[ClaimSetting], by: str, level: str) -> tuple[str, str, str] | None:
    """The ratio, what stands between it and the width, and what ends the sentence; None where no setting has a number."""
    known = [setting for setting in settings if setting.value is not None]
    if len(settings) == 1 and not known:
        return _one_sided(settings[0], level)
    if len(settings) <= MAX_IN_FULL and len(known) == len(settings):
        if len(known) == 1:
            words = _interval(known[0], level)
            return f"{_number(known[0].value)} times", words and f" ({words})", ""
        parts = []
        for setting in known:
            where = setting_words(item for item in setting.fields if item[0] != by)
            words = ", ".join(filter(None, (_with_letters(where), _interval(setting, level))))
            parts.append(f"{_number(setting.value)} ({words})")
        return " and ".join(parts), " times", ""
    if not known:
        return None
    values = [setting.value for setting in known if setting.value is not None]
    low, high = _number(min(values)), _number(max(values))
    num = f"{len(known)} of {len(settings)}" if len(known) < len(settings) else f"{len(known)}"
    ends = [end for setting in known for end in (setting.low, setting.high) if end and not setting.note]  # 0 is an open end
    closed = len(ends) == 2 * len(known)
    within = f" ({level} intervals within {_number(min(ends))} to {_number(max(ends))})" if closed else ""
    ratio = f"{low} to {high} times" if low != high else f"{low} times"
    return ratio, "", f" in {num} settings{within}"


def _one_sided(setting: ClaimSetting, level: str) -> tuple[str, str, str] | None:
    """A ratio of which one end is known: a threshold lies beyond the sizes tried."""
    if setting.note or (not setting.low and setting.high is None):
        return None
    low = f"more than {_number(setting.low)}" if setting.low else ""
    high = f"less than {_number(setting.high)}" if setting.high is not None else ""
    ends = " and ".join(filter(None, (low, high)))
    return f"{ends} times", f" ({level} interval)", ""


def _interval(setting: ClaimSetting, level: str) -> str:
    """The interval of a ratio in words, or why it has none."""
    words = setting_interval(replace(setting, low=setting.low or None), number=_number)  # 0 is an open end
    return setting.note or (f"{level} interval {words}" if words else "")


def _number(value: float | None) -> str:
    """A ratio with two decimals, of those near 1."""
    value = value or 0.0
    return f"{value:.2f}" if value == 0 or 0.1 <= value < 100 else f"{value:.3g}"


def _scope(shared: Mapping[str, Any]) -> str:
    """What both settings share, before the sentence: `for a transformer with random signs, `."""
    kinds = spread_words([_value_words(KIND, one) for one in _listed(shared.get(KIND, ()))])
    rest = spread_words([_values_words(name, _listed(value)) for name, value in shared.items() if name != KIND])
    words = " with ".join(filter(None, (kinds, rest)))
    return f"for {words}, " if words else ""


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _value_words(field: str, value: Any) -> str:
    """A value of a field as the rows of its claim have it."""
    if field == KIND:
        return noun_phrase(str(value))
    words = setting_words([(field, "null" if value is None else value)])
    return f"`{words}`" if " = " in words else words


def _values_words(field: str, values: Sequence[Any]) -> str:
    """Values of a field: `T = 12, 16 and 24`, or those with words of their own one after the other."""
    words = [_value_words(field, value) for value in values]
    first = words[0].partition(" = ")[0]
    if all(one.startswith(f"{first} = ") for one in words):
        return f"{first} = {spread_words([one.strip('`').partition(' = ')[2] for one in words])}`"
    return spread_words(words)


def _with_letters(words: str) -> str:
    """Settings in words, their letters as those of a formula."""
    return re.sub(r"\b([A-Za-z]) = ", r"`\1` = ", words)
