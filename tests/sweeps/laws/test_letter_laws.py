"""Laws of growth with a letter, at the letter's least value too."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from stsq_core.configs.trial import TrialConfig
from sweeps.laws.cells import law_cells
from sweeps.laws.formulas import CONSTANT, Tasks, applicable_letter_laws, letter_law
from sweeps.laws.scaling_law import fitted_law
from sweeps.thresholds.width_threshold import WidthThreshold

FFN = {"kind": "ffn", "width": 16}


def tasks(q: list[float]) -> Tasks:
    return Tasks(np.full(len(q), 6.0), np.array(q), np.full(len(q), 3.0), 0.1)


def test_a_letter_of_one_has_a_logarithm_and_no_power_of_it() -> None:
    assert {law.name for law in applicable_letter_laws(tasks([1, 2, 3]))} == {"constant", "log_q", "power_q"}
    assert {law.name for law in applicable_letter_laws(tasks([2, 3, 5]))} == {"constant", "log_q", "power_q", "log_power_q"}
    assert {law.name for law in applicable_letter_laws(tasks([2, 2]))} == {"constant"}


@pytest.mark.parametrize("kind", ["log", "power", "log_power"])
def test_a_censored_cell_at_one_does_not_end_a_fit(threshold: Callable[..., WidthThreshold], fcn: Callable, kind: str) -> None:
    found = [threshold(fcn(T=8, q=q), np.array([1.0, 1.05, 0.95]) * 2 * q) for q in (2, 3, 4)]
    cells = law_cells([threshold(fcn(T=8, q=1), status="below_range"), *found])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = fitted_law(letter_law(kind, "q"), cells)
    assert (law is None) == (kind == "log_power")
    if kind == "power":
        assert law.parameters["gamma"].value == pytest.approx(1, abs=0.05)


def test_residuals_are_told_in_the_letters_of_the_paper(threshold: Callable[..., WidthThreshold], fcn: Callable) -> None:
    """qSTR calls the number of tokens N."""
    configs = [fcn(T=T, d=10, q=1) for T in (4, 8, 16, 32)]
    configs = [
        TrialConfig.model_validate(one.model_dump() | {"task": one.task.model_dump() | {"kind": "qstr"}, "model": FFN})
        for one in configs
    ]
    cells = law_cells([threshold(config, np.array([0.99, 1.0, 1.01]) * config.task.T**2) for config in configs])
    law = fitted_law(CONSTANT, cells)
    assert law is not None
    assert law.test is not None
    assert law.test.words == "residuals rise with N"
