"""The sentence on a sweep's claims, for every way in which they may come out."""

import pytest

from dashboards.page.summary import claims_headline
from sweeps.findings.claim_results import ClaimSetting, Verdict


def sentence(holding: int, failing: int, undecided: int) -> str:
    answers = ["holds"] * holding + ["does not hold"] * failing + ["not enough data"] * undecided
    verdicts = [Verdict("c", "says", "m", "at least 1", (ClaimSetting((), None, None, None, 2, one),)) for one in answers]  # type: ignore[arg-type]
    return "".join(phrase.text for phrase in claims_headline(verdicts))


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((1, 0, 0), "The claim holds."),
        ((0, 1, 0), "The claim does not hold."),
        ((2, 0, 0), "Of 2 claims, all hold."),
        ((0, 2, 0), "Of 2 claims, none holds."),
        ((0, 0, 2), "Of 2 claims, for all there is not enough data."),
        ((1, 1, 0), "Of 2 claims, 1 holds and 1 does not."),
        ((1, 2, 0), "Of 3 claims, 1 holds and 2 do not."),
        ((2, 1, 0), "Of 3 claims, 2 hold and 1 does not."),
        ((1, 0, 1), "Of 2 claims, 1 holds and for 1 there is not enough data."),
        ((0, 1, 1), "Of 2 claims, 1 does not hold and for 1 there is not enough data."),
        ((0, 2, 1), "Of 3 claims, 2 do not hold and for 1 there is not enough data."),
        ((2, 2, 2), "Of 6 claims, 2 hold, 2 do not and for 2 there is not enough data."),
        ((1, 1, 1), "Of 3 claims, 1 holds, 1 does not and for 1 there is not enough data."),
    ],
)
def test_the_claims_are_counted_in_a_grammatical_sentence(counts: tuple[int, int, int], text: str) -> None:
    assert sentence(*counts) == text


def test_one_claim_without_enough_data() -> None:
    assert sentence(0, 0, 1) == "The claim has not enough data."
