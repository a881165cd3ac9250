"""Regimes of any architecture: the law that theory expects of it, and the one that it expects of the others."""

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import pytest

from stsq_core import TrialConfig
from stsq_core.configs.architecture import Architecture
from sweeps.findings.regimes import regimes_of
from sweeps.thresholds.thresholds import WidthThreshold


class Mixer(Architecture):
    """An architecture of a user's own, as a plugin declares it."""

    kind: Literal["mixer"] = "mixer"
    width: int = 8
    width_law: ClassVar[Literal["attention", "td_power"] | None] = "attention"


@pytest.mark.parametrize("own", [True, False])
def test_an_architecture_of_a_plugin_has_the_law_that_it_names_and_a_rival(
    threshold: Callable[..., WidthThreshold], transformer: Callable[..., TrialConfig], own: bool
) -> None:
    cells = []
    for T in (16, 32, 64, 128):
        config = transformer(T=T, q=3, d=4)
        config = config.model_copy(update={"model": Mixer()}) if own else config
        cells.append(threshold(config, [(4 + 2.5 * 3 * math.log(T)) * f for f in (0.97, 1, 1.03)]))
    (regime,) = regimes_of(cells)
    assert (regime.kind, regime.law.name) == ("mixer" if own else "transformer", "attention")  # type: ignore[union-attr]
    assert regime.rival is not None
    assert regime.rival.name == "td_power"
