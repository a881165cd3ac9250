"""Sweeps that another version kept in a run directory: what they meant still holds, and what is no longer valid is told."""

import pytest

from sweeps.schema.kept_sweeps import as_kept
from sweeps.schema.yaml_source import parse

NEAR = "{kind: threshold_near, name: n, says: b, value: 9}"
LINEAR = "{kind: linear, name: l, says: b, below: 0.5, at_least: 0.99}"
VALID = "{kind: bound, name: v, says: b, metric: loss, at_most: 1.0}"


@pytest.mark.parametrize(
    ("search", "tolerance_of"),
    [("{tolerance: 0.1}", "m"), ("{tolerance: 0.1, tolerance_of: d_e}", "d_e"), ("{tolerance_of: m}", "m")],
)
def test_a_tolerance_was_of_m_before_a_file_could_say_of_what(search: str, tolerance_of: str) -> None:
    document, notes = as_kept(parse(f"search: {search}", "spec.yaml"))
    assert document.data["search"]["tolerance_of"] == tolerance_of
    assert notes == ()


def test_former_claims_are_left_out_and_named_with_the_reason() -> None:
    document, notes = as_kept(parse(f"name: x\nclaims:\n- {LINEAR}\n- {VALID}\n- {NEAR}\n", "runs/x/spec.yaml"))
    assert [claim["name"] for claim in document.data["claims"]] == ["v"]
    assert notes == (
        "runs/x/spec.yaml:3: claims.0: the claim 'l' is of another version and is not judged: kind: unknown kind 'linear'; "
        "allowed: bound, compare, slope, exponent, floor, sharpness, threshold_order, threshold_ratio, "
        "threshold_near, threshold_growth",
        "runs/x/spec.yaml:5: claims.2: the claim 'n' is of another version and is not judged: source: this field "
        "is required and missing: add it",
    )


def test_a_password_that_a_former_version_kept_is_left_out() -> None:
    document, _ = as_kept(parse("search: {storage: 'mysql://lab:s3cret@host/db'}", "spec.yaml"))
    assert document.data["search"]["storage"] == "mysql://lab@host/db"


@pytest.mark.parametrize("text", ["", "[1]", "claims: 3", "claims: [3]", "search: 3", "claims: null"])
def test_what_is_no_sweep_at_all_is_left_to_the_check(text: str) -> None:
    as_kept(parse(text, "spec.yaml"))
