"""What every room's tests share: short ways to write a trial down."""

from collections.abc import Callable
from typing import Any

import pytest

from stsq_core import TrialConfig

MakeTrial = Callable[..., TrialConfig]


def _transformer_data(*, T: int = 12, q: int = 3, d: int = 2, d_e: int = 16, **fields: Any) -> dict[str, Any]:
    """A transformer trial as a sweep file nests it; `fields` override by dotted name with `__` for the dots."""
    data: dict[str, Any] = {
        "task": {"kind": "stsq", "T": T, "q": q, "d": d},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": d_e}},
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "batch_size": 16, "steps": 20},
    }
    return _overridden(data, fields)


def _fcn_data(*, T: int = 4, q: int = 2, d: int = 2, width: int = 6, **fields: Any) -> dict[str, Any]:
    """A fully connected trial as a sweep file nests it."""
    data: dict[str, Any] = {
        "task": {"kind": "stsq", "T": T, "q": q, "d": d},
        "model": {"kind": "fcn", "width": width, "tail_width": 16},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"batch_size": 16, "steps": 20},
    }
    return _overridden(data, fields)


def _overridden(data: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        *path, last = name.split("__")
        place = data
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return data


@pytest.fixture
def transformer() -> MakeTrial:
    """Makes transformer trials: `transformer(T=32, training__objective="minibatch")`."""
    return lambda **fields: TrialConfig.model_validate(_transformer_data(**fields))


@pytest.fixture
def fcn() -> MakeTrial:
    """Makes fully connected trials: `fcn(width=8)`."""
    return lambda **fields: TrialConfig.model_validate(_fcn_data(**fields))


@pytest.fixture
def trial_data() -> Callable[..., dict[str, Any]]:
    """Makes trials as nested data, unchecked: `trial_data("fcn", width=0)`."""
    makers = {"transformer": _transformer_data, "fcn": _fcn_data}
    return lambda kind, **fields: makers[kind](**fields)
