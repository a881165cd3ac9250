"""The headline's sentence on claims between two settings, for every way in which a ratio may come out."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from synthetic_runs import sweep

from dashboards.page.ratios_headline import ratios_headline
from sweeps.findings import ClaimSetting, Findings, Verdict

LEARNED = {"by": "model.positions.kind", "of": "learned", "over": "random_sign"}
FIXED = {"where": {"model.positions.redraw": "never"}}
OPTIMIZERS = {"by": "optimizer.kind", "of": "gd", "over": "adam"}
HERE = (("task.T", 64), ("task.q", 2), ("task.d", 2))


def setting(value: float | None, low: float | None, high: float | None, fields: Any = HERE, note: str = "") -> ClaimSetting:
    return ClaimSetting(fields, value, low, high, 16, "not enough data" if note else "holds", note)


def text(*claims: tuple[dict[str, Any], tuple[ClaimSetting, ...]], complete: bool = True) -> str:
    written, verdicts = [], []
    for place, (fields, settings) in enumerate(claims):
        rule = {"kind": "threshold_order"} if "order" in fields else {"kind": "threshold_ratio", "at_most": 1.0}
        written.append({"name": f"c{place}", "says": "It is so.", **rule, **fields})
        verdicts.append(Verdict(f"c{place}", "It is so.", "m*", "at most 1", settings))
    spec = sweep(claims=written)
    findings = SimpleNamespace(
        spec=spec, verdicts=tuple(verdicts), thresholds=(SimpleNamespace(kind="transformer"),), complete=complete
    )
    return "".join(phrase.text for phrase in ratios_headline(cast(Findings, findings))).replace("`", "")


@pytest.mark.parametrize(
    ("claim", "settings", "words"),
    [
        (
            LEARNED | FIXED,
            (setting(0.7392, 0.6979, 0.7898),),
            "Learned codes need 0.74 times (90% interval 0.70 to 0.79) the width of fixed random signs at T = 64, q = 2,"
            " d = 2.",
        ),
        (
            LEARNED,
            (
                setting(0.7392, 0.6979, 0.7898, (("model.positions.redraw", "never"),)),
                setting(0.6845, 0.6484, 0.7321, (("model.positions.redraw", "per_step"),)),
            ),
            "Learned codes need 0.74 (fixed codes, 90% interval 0.70 to 0.79) and 0.68 (stochastic codes, 90% interval 0.65 to"
            " 0.73) times the width of random signs.",
        ),
        (
            OPTIMIZERS | {"where": {"model.kind": "transformer"}},
            tuple(setting(1 + T / 100, 0.9, 1.1 + T / 100, (("task.T", T),)) for T in (4, 6, 8)),
            "For a transformer, gradient descent needs 1.04 to 1.08 times the width of Adam in 3 settings"
            " (90% intervals within 0.90 to 1.18).",
        ),
        (
            OPTIMIZERS | {"where": {"model.kind": "fcn", "task.q": [2, 3]}},
            (setting(1.0, 0.9, None, (("task.T", 4),)), setting(None, None, None, (("task.T", 6),), "not reached: T=6")),
            "For a fully connected net with q = 2 and 3, gradient descent needs 1.00 times the width of Adam in 1 of 2"
            " settings.",
        ),
        (
            LEARNED,
            (setting(None, 2.1, None, ()),),
            "Learned codes need more than 2.10 times (90% interval) the width of random signs.",
        ),
        (
            LEARNED,
            (setting(None, 0.0, 0.4, ()),),
            "Learned codes need less than 0.40 times (90% interval) the width of random signs.",
        ),
        (
            LEARNED,
            (setting(0.7, 0.6, 0.8, (), "4 seeds give an interval of at most 87.5%"),),
            "Learned codes need 0.70 times (4 seeds give an interval of at most 87.5%) the width of random signs.",
        ),
        (
            LEARNED,
            (setting(0.7, 0.6, None, ()),),
            "Learned codes need 0.70 times (90% interval above 0.60) the width of random signs.",
        ),
        (
            {"by": "model.kind", "order": ["transformer", "fcn"]},
            (setting(4.0, 3.0, 5.0, (("model.kind", "transformer < fcn"),)),),
            "A fully connected net needs 4.00 times (90% interval 3.00 to 5.00) the width of a transformer.",
        ),
        (
            LEARNED,
            (setting(0.7, 0.0, 0.8, ()),),
            "Learned codes need 0.70 times (90% interval below 0.80) the width of random signs.",
        ),
        (LEARNED, (setting(None, None, None, (), "not reached: learned"),), ""),
        (LEARNED, (setting(None, 0.0, None, ()),), ""),
        ({"by": "optimizer.kind", "order": ["adam", "gd", "sgd"]}, (setting(4.0, 3.0, 5.0),), ""),
    ],
)
def test_the_ratio_between_two_settings_is_said_in_their_names(
    claim: dict[str, Any], settings: tuple[ClaimSetting, ...], words: str
) -> None:
    assert text((claim, settings)) == words


def test_two_claims_are_said_and_two_bounds_on_one_ratio_once() -> None:
    one, other = (setting(1.1, 1.0, 1.2, ()),), (setting(0.7, 0.6, 0.8, ()),)
    without = LEARNED, (setting(None, None, None, ()),)
    assert text(without, (OPTIMIZERS, one), (OPTIMIZERS, one), (LEARNED, other), (LEARNED | FIXED, other)) == (
        "Gradient descent needs 1.10 times (90% interval 1.00 to 1.20) the width of Adam;"
        " learned codes need 0.70 times (90% interval 0.60 to 0.80) the width of random signs."
    )


def test_a_ratio_is_said_once_whichever_claims_compare_its_cells() -> None:
    fixed = setting(0.7042, 0.58, 0.86, (("model.positions.redraw", "never"),))
    both = fixed, setting(0.6845, 0.57, 0.83, (("model.positions.redraw", "per_step"),))
    said = (
        "Learned codes need 0.70 (fixed codes, 90% interval 0.58 to 0.86) and 0.68 (stochastic codes, 90% interval 0.57 to"
        " 0.83) times the width of random signs"
    )
    alone = replace(fixed, fields=HERE)
    assert text((LEARNED, both), (LEARNED | FIXED, (alone,))) == f"{said}."
    assert text((LEARNED | FIXED, (alone,)), (LEARNED, both)) == f"{said}."
    optimizers = "; gradient descent needs 1.10 times (90% interval 1.00 to 1.20) the width of Adam."
    others = OPTIMIZERS, (setting(1.1, 1.0, 1.2, ()),)
    assert text((LEARNED, both), (LEARNED | FIXED, (alone,)), others) == said + optimizers


def test_a_ratio_within_a_range_of_others_is_said_beside_it_where_it_comes_first() -> None:
    many = tuple(setting(1 + T / 100, 0.9, 1.1 + T / 100, (("task.T", T),)) for T in (4, 6, 8))
    here = replace(many[1], fields=HERE)
    assert re.search("needs 1.06 times .*; .* needs 1.04 to 1.08 times", text((OPTIMIZERS, (here,)), (OPTIMIZERS, many)))
    assert "in 3 settings" in text((OPTIMIZERS, many), (OPTIMIZERS, (here,)))
    assert ";" not in text((OPTIMIZERS, many), (OPTIMIZERS, (here,)))


def test_of_a_run_that_goes_on_it_is_said_so_far() -> None:
    assert text((OPTIMIZERS, (setting(1.1, 1.0, 1.2, ()),)), complete=False).startswith("So far, gradient descent needs 1.10")
