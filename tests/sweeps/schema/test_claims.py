"""Claims and drawings in a sweep file: what is refused, with the field and what is allowed."""

import pytest

from stsq_core import UserError
from sweeps.cells.loading import load_sweep


def refused(sweep_file, more: str) -> str:
    sweep_file.write_text(sweep_file.read_text() + more)
    with pytest.raises(UserError) as error:
        load_sweep(sweep_file)
    return str(error.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("claims: [{kind: bound, name: a, says: b, metric: loss}]", "at_least or at_most"),
        ("claims: [{kind: bound, name: a, says: '', metric: loss, at_most: 1.0}]", "must say something"),
        ("claims: [{kind: bounds, name: a, says: b}]", "unknown kind 'bounds'"),
        ("claims: [{kind: slope, name: a, says: b, where: {model.positions.kin: x}}]", "did you mean"),
        ("claims: [{kind: compare, name: a, says: b, metrics: [loss], field: tas.T, smaller: 1, than: 2}]", "no field 'tas.T'"),
        (
            "claims: [{kind: threshold_ratio, name: a, says: b, by: model.kind, of: fcn, over: transformer, at_most: 1.0, "
            "ignoring: [optimizer, positions.redraw]}]",
            "ignoring.1: there is no field 'positions.redraw'",
        ),
        (
            "claims: [{kind: compare, name: a, says: b, metrics: [loss], field: task.T, smaller: 1, than: 2, ignoring: [opt]}]",
            "no field 'opt'",
        ),
        (
            "claims: [{kind: sharpness, name: a, says: b, begins: 0.1, reaches: 0.5, at_most: 2.0}]",
            "reaches must be below begins",
        ),
        ("drawings: [{kind: profile, name: a, title: b, against: T_tst}]", "or T_test, q_test, m"),
        ("drawings: [{kind: curves, name: a, title: b, metrics: [loss], by: [redraw]}]", "no field 'redraw'"),
        ("drawings: [{kind: curves, name: ../a, title: b, metrics: [loss]}]", "a name begins with"),
    ],
)
def test_a_claim_that_cannot_be_meant_is_refused(sweep_file, more: str, words: str) -> None:
    assert words in refused(sweep_file, more)


def test_two_drawings_or_claims_of_one_name_are_refused(sweep_file) -> None:
    one = "{kind: curves, name: a, title: b, metrics: [loss]}"
    assert "two drawings are named 'a'" in refused(sweep_file, f"drawings: [{one}, {one}]")
