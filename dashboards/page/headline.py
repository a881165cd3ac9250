"""The headline: the result of a run in a few sentences, from what its claims compare to how its thresholds grow."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from dashboards.plots import (
    Letter,
    Panel,
    Series,
    cells_of,
    names_of,
    numbers_of,
    panels_of,
    place_of,
    series_of,
    traits_of,
)
from dashboards.words import STATUS_WORDS, joined_words, noun_phrase, setting_interval, setting_words
from stsq_core.configs import SAMPLES, WIDTH, Size
from sweeps.findings import Answer, ClaimSetting, Findings, Regime, Verdict
from sweeps.laws import spread_words
from sweeps.schema import LOSS, ThresholdOrder, ThresholdRatio
from sweeps.store import Status
from sweeps.thresholds import WidthThreshold

MAX_RATIOS = 2
"""Claims whose ratios are in the headline; the others have their section."""

KIND = "model.kind"
NEVER_REDRAWN = ("model.positions.redraw", "never")


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence, formula letters in backquotes; `kind` names the architecture whose number it is."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class _Compared:
    """A claim on the threshold of one setting over that of another: the field, its two values, and what both share."""

    by: str
    of: Any
    over: Any
    where: Mapping[str, Any]


def result_words(findings: Findings) -> str:
    """The result of a run in a sentence or two, as text."""
    return "".join(phrase.text for phrase in result_phrases(findings)).replace("`", "")


def result_phrases(findings: Findings) -> tuple[Phrase, ...]:
    """What the claims compare, how many hold, and the thresholds, where no drawings show something else."""
    parts = [ratios_headline(findings), claims_headline(findings.verdicts)] if findings.verdicts else []
    if not (findings.verdicts and findings.spec.drawings):
        parts.append(headline(findings))
    first, *rest = filter(None, parts)
    return (*first, *(phrase for part in rest for phrase in (Phrase(" "), *part)))


def headline(findings: Findings) -> tuple[Phrase, ...]:
    """The result in one sentence with its numbers, or in plain words that there is none.

    Of each architecture the series of most thresholds, along the axis of its figure, from the first to the last, with what lies
    beyond the sizes tried.
    """
    if not any(threshold.status == "found" for threshold in findings.thresholds):
        return (Phrase(_no_threshold(findings)),)
    panels, clauses, num_told = panels_of(findings.regimes), [], 0
    for panel in panels:
        if names := names_of(panel.series):
            clauses.append(_across(panel, names))
            num_told += len(panel.series)
    for panel, series in leading_series(findings.regimes):
        if not names_of(panel.series):
            clauses.append(_growth(panel.letter, series, findings.regimes))
            num_told += 1
    phrases = [] if findings.complete else [Phrase("So far, ")]
    for place, clause in enumerate(clauses):
        phrases += [Phrase("; "), *clause] if place else clause
    more = sum(len(panel.series) for panel in panels) - num_told
    rest = [Phrase(f" {more} more series {'is' if more == 1 else 'are'} in the figure.")] if more else []
    return (*_as_sentence(phrases), *rest)


def summary_words(thresholds: Sequence[WidthThreshold]) -> str:
    """How many thresholds ended in which way."""
    counts = [(sum(t.status == status for t in thresholds), words) for status, words in STATUS_WORDS.items()]
    return ", ".join(f"{count} {words}" for count, words in counts if count) or "none yet"


def ratios_headline(findings: Findings) -> tuple[Phrase, ...]:
    """The ratios of the first claims between two settings that have a number: learned codes need 0.74 times (90% interval ...)
    the width of random signs. Nothing where no claim has one."""
    verdicts = {verdict.name: verdict for verdict in findings.verdicts}
    sentences: dict[str, tuple[Phrase, ...]] = {}
    for claim in findings.spec.claims:
        match claim:
            case ThresholdRatio(by=by, of=of, over=over) | ThresholdOrder(by=by, order=(over, of)):
                compared = _Compared(by, of, over, claim.where)
            case _:
                continue
        if clause := _clause(compared, verdicts[claim.name].settings, findings):
            sentences.setdefault("".join(phrase.text for phrase in clause), clause)  # two bounds may lie on one ratio
    if not sentences:
        return ()
    phrases: list[Phrase] = [] if findings.complete else [Phrase("so far, ")]
    for place, clause in enumerate([*sentences.values()][:MAX_RATIOS]):
        phrases += [Phrase("; "), *clause] if place else clause
    return _as_sentence(phrases)


def claims_headline(verdicts: Sequence[Verdict]) -> tuple[Phrase, ...]:
    """How many claims hold, how many do not, and for how many there is not enough data."""
    answers, total = [verdict.answer for verdict in verdicts], len(verdicts)
    if total == 1:
        answer = "has not enough data" if answers[0] == "not enough data" else answers[0]
        return (Phrase("The claim "), Phrase(answer, "transformer" if answer == "holds" else "fcn"), Phrase("."))
    held, refuted, open_ones = (answers.count(answer) for answer in get_args(Answer))
    clauses = []
    if held:
        clauses.append(Phrase("all hold" if held == total else f"{held} {'holds' if held == 1 else 'hold'}", "transformer"))
    if refuted == total:
        clauses.append(Phrase("none holds", "fcn"))
    elif refuted:
        clauses.append(Phrase(f"{refuted} {'does' if refuted == 1 else 'do'} not{'' if held else ' hold'}", "fcn"))
    if open_ones:
        clauses.append(Phrase(f"for {'all' if open_ones == total else open_ones} there is not enough data"))
    phrases = [Phrase(f"Of {total} claims, ")]
    for place, clause in enumerate(clauses):
        separator = " and " if place == len(clauses) - 1 else ", "
        phrases += [Phrase(separator), clause] if place else [clause]
    return (*phrases, Phrase("."))


def leading_series(regimes: Sequence[Regime]) -> list[tuple[Panel, Series]]:
    """The series of each architecture in which most thresholds were found, with its panel."""
    best: dict[str, tuple[Panel, Series]] = {}
    for panel in panels_of(regimes):
        for one in panel.series:
            kind = one.regime.kind
            if kind not in best or _num_found(one) > _num_found(best[kind][1]):
                best[kind] = panel, one
    return list(best.values())


def _num_found(series: Series) -> int:
    return sum(threshold.status == "found" for threshold in series.thresholds)


def _growth(letter: Letter, series: Series, regimes: Sequence[Regime]) -> list[Phrase]:
    """From T = 16 to 128 a transformer needs 1.6 times the width (m* = 24.5 to 40.2 at q = 3, d = 4), above the widths ..."""
    regime, size = series.regime, series.regime.size
    of_kind = [one for one in series_of(regimes, letter) if one.regime.kind == regime.kind]
    place = next(i for i, one in enumerate(of_kind) if (one.regime, one.letters) == (regime, series.letters))
    settings = [trait.words[place] for trait in traits_of(of_kind) if not trait.is_letter and trait.words[place]]
    name = noun_phrase(regime.kind) + (f" with {', '.join(settings)}" if settings else "")
    at = ", ".join(f"`{regime.letter(other)}` = {value}" for other, value in series.letters.items())
    L, cells = f"`{regime.letter(letter)}`", cells_of(series, letter)
    found = [(f"{place_of(one, letter):g}", one.m_star) for one in cells if one.m_star is not None]
    judged = "" if cells[0].metric == LOSS else f", judged by the {cells[0].measure}"
    beyond = [
        f", {words} at {L} = {', '.join(f'{place_of(one, letter):g}' for one in own)}"
        for status, words in _beyond(size).items()
        if (own := [one for one in cells if one.status == status])
    ]
    if not found:
        return [Phrase(f"at {at} no {size.threshold_words} of {name} was found{''.join(beyond)}")]
    (start, low), (end, high) = found[0], found[-1]
    if len(found) == 1:
        return [
            Phrase(f"{name} needs a {size.noun} of "),
            Phrase(_short(low), regime.kind),
            Phrase(f" at {L} = {start}, {at}{''.join(beyond)}{judged}"),
        ]
    return [
        Phrase(f"from {L} = {start} to {end} {name} needs "),
        Phrase(f"{_ratio(low, high)} times the {size.quantity}", regime.kind),
        Phrase(f" (`{size.letter}`* = {_short(low)} to {_short(high)} at {at}){''.join(beyond)}{judged}"),
    ]


def _across(panel: Panel, names: Sequence[str]) -> list[Phrase]:
    """Of 5 settings of a transformer, noise = 0.5 needs the largest width ..., where no letter of the task varies."""
    size, numbers = panel.series[0].regime.size, numbers_of(names)
    cells = [one.thresholds[0] for one in panel.series]
    found = [(cell.m_star, place) for place, cell in enumerate(cells) if cell.m_star is not None]
    kinds = spread_words([*dict.fromkeys(noun_phrase(cell.kind) for cell in cells)])
    told = [
        f"; {num} {'is' if num == 1 else 'are'} {words}"
        for status, words in _beyond(size).items()
        if (num := sum(cell.status == status for cell in cells))
    ]
    if not found:
        return [Phrase(f"none of {len(cells)} settings of {kinds} has a {size.threshold_words}{''.join(told)}")]
    if numbers:
        found.sort(key=lambda own: numbers[1][own[1]])
    (low, first), (high, last) = (found[0], found[-1]) if numbers else (min(found), max(found))
    size_of = f"`{size.letter}`* = "
    start, end = (f"`{names[place]}` ({size_of}{_short(value)})" for value, place in ((low, first), (high, last)))
    if numbers:
        return [
            Phrase(f"from {start} to {end} {kinds} needs "),
            Phrase(f"{_ratio(low, high)} times the {size.quantity}", cells[0].kind),
            Phrase("".join(told)),
        ]
    return [
        Phrase(
            f"of {len(cells)} settings of {kinds}, {start} needs the least {size.quantity} and {end} the most{''.join(told)}"
        )
    ]


def _ratio(low: float, high: float) -> str:
    ratio = f"{high / low:.2g}"
    return "1.0" if ratio == "1" else ratio


def _short(value: float) -> str:
    """A threshold with one decimal; with none from a thousand on."""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _beyond(size: Size) -> dict[str, str]:
    """The statuses without a number, in words."""
    tried = "the budget" if size == SAMPLES else f"the {size.nouns} tried"
    return {
        "above_range": f"above {tried}",
        "below_range": f"below {tried}",
        "not_reached": f"not reached at any {size.noun} tried",
        **{status: STATUS_WORDS[status] for status in ("solved", "not_solved")},
    }


def _as_sentence(phrases: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """The phrases with a capital at the start and a stop at the end."""
    first, *rest = phrases
    return (Phrase(first.text[0].upper() + first.text[1:], first.kind), *rest, Phrase("."))


def _no_threshold(findings: Findings) -> str:
    records, thresholds = findings.records, findings.thresholds
    words = "width threshold" if findings.spec.criterion.size == WIDTH else "threshold"
    if not records:
        return f"No trial has ended yet, so there is no {words} to show."
    ends: tuple[Status, ...] = ("failed", "diverged")
    for status in ends:
        if findings.num_ended(status) == len(records):
            return f"No {words} was found: all {len(records):,} trials {status}."
    if all(t.status == "failed" for t in thresholds):
        return f"No {words} was found: none of {len(records):,} trials gave a loss."
    so_far = "" if findings.complete else " so far"
    return f"No {words} was found{so_far}: of {len(thresholds)} cells, {summary_words(thresholds)}."


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
    if len(settings) <= 2 and len(known) == len(settings):
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
