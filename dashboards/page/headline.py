"""The headline: the result of a run in a few sentences, from what its claims compare to how its thresholds grow."""

from collections.abc import Sequence
from typing import get_args

from dashboards.page.phrases import Phrase, as_sentence
from dashboards.page.ratios_headline import ratios_headline
from dashboards.plots import (
    Letter,
    Panel,
    Series,
    cells_of,
    names_of,
    numbers_of,
    panels_of,
    place_of,
)
from dashboards.words import STATUS_WORDS, axes_of_configs, noun_phrase, setting_words
from stsq_core.configs import SAMPLES, WIDTH, Size
from sweeps.cells import ExpandedSweep
from sweeps.findings import Answer, Findings, Regime, Verdict
from sweeps.laws import spread_words
from sweeps.schema import LOSS, TARGET, fields_of
from sweeps.store import Status
from sweeps.thresholds import WidthThreshold


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
            clauses.append(_growth(panel.letter, series, findings.sweep))
            num_told += 1
    phrases = [] if findings.complete else [Phrase("So far, ")]
    for place, clause in enumerate(clauses):
        phrases += [Phrase("; "), *clause] if place else clause
    more = sum(len(panel.series) for panel in panels) - num_told
    rest = [Phrase(f" {more} more series {'is' if more == 1 else 'are'} in the figure.")] if more else []
    return (*as_sentence(phrases), *rest)


def summary_words(thresholds: Sequence[WidthThreshold]) -> str:
    """How many thresholds ended in which way."""
    counts = [(sum(t.status == status for t in thresholds), words) for status, words in STATUS_WORDS.items()]
    return ", ".join(f"{count} {words}" for count, words in counts if count) or "none yet"


def claims_headline(verdicts: Sequence[Verdict]) -> tuple[Phrase, ...]:
    """How many claims hold, how many do not, and for how many there is not enough data."""
    answers, total = [verdict.answer for verdict in verdicts], len(verdicts)
    if total == 1:
        answer = "has not enough data" if answers[0] == "not enough data" else answers[0]
        return (Phrase("The claim "), Phrase(answer, "transformer" if answer == "holds" else "fcn"), Phrase("."))
    held, refuted, open_ones = (answers.count(answer) for answer in get_args(Answer))
    if open_ones == total:
        return (Phrase(f"There is not enough data for {'either' if total == 2 else 'any'} of the {total} claims."),)
    clauses = []
    if held:
        clauses.append(Phrase("all hold" if held == total else f"{held} {'holds' if held == 1 else 'hold'}", "transformer"))
    if refuted == total:
        clauses.append(Phrase("none holds", "fcn"))
    elif refuted:
        clauses.append(Phrase(f"{refuted} {'does' if refuted == 1 else 'do'} not{'' if held else ' hold'}", "fcn"))
    if open_ones:
        clauses.append(Phrase(f"for {open_ones} there is not enough data"))
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


def _growth(letter: Letter, series: Series, sweep: ExpandedSweep) -> list[Phrase]:
    """From T = 16 to 128 a transformer needs 1.6 times the width (m* = 24.5 to 40.2 at q = 3, d = 4), above the widths ..."""
    regime, size = series.regime, series.regime.size
    settings = _settings(regime, sweep)
    name = noun_phrase(regime.kind) + (f" with {settings}" if settings else "")
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


def _settings(regime: Regime, sweep: ExpandedSweep) -> str:
    """What sets a regime apart from all that its sweep declares of the architecture, those without a threshold among them.

    Of fields that part the cells alike one is named, a kind where there is one.
    """
    samples = [*(cell.sample for cell in sweep.cells), *(cell.family.sample for cell in sweep.searched)]
    fields = [fields_of(sample) for sample in samples if sample.model.kind == regime.kind]
    own = [fields_of(sample) for sample in regime.samples]
    alike: dict[tuple[int, ...], list[str]] = {}
    for name in axes_of_configs([sample for sample in samples if sample.model.kind == regime.kind], regime.size):
        values = [repr(one.get(name)) for one in fields]
        if name in own[0] and len({repr(one.get(name)) for one in own}) == 1:
            alike.setdefault(tuple(map(values.index, values)), []).append(name)
    named = (min(names, key=lambda one: not one.endswith(".kind")) for names in alike.values())
    target = [(TARGET, regime.target_loss)] if regime.thresholds[0].num_targets > 1 else []
    return setting_words([*((name, own[0][name]) for name in named), *target])


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
        **{status: STATUS_WORDS[status] for status in ("solved", "not_solved", "open")},
    }


def _no_threshold(findings: Findings) -> str:
    records, thresholds = findings.records, findings.thresholds
    words = "width threshold" if findings.spec.criterion.size == WIDTH else "threshold"
    if not records:
        return f"No trial has ended yet, so there is no {words} to show."
    ends: tuple[Status, ...] = ("failed", "diverged")
    for status in ends:
        if findings.num_ended(status) == len(records):
            return f"No {words} was found: all {len(records):,} trials {status}."
    if not findings.num_ended("finished"):
        return f"No {words} was found: none of {len(records):,} trials gave a loss."
    so_far = "" if findings.complete else " so far"
    cells = "1 cell" if len(thresholds) == 1 else f"{len(thresholds)} cells"
    return f"No {words} was found{so_far}: of {cells}, {summary_words(thresholds)}."
