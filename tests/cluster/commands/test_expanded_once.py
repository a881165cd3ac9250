"""Who expands a sweep: whoever loads it, once; everything else is given the value."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster.commands import session
from sweeps.cells import expanded_sweep, expansion

pytestmark = pytest.mark.slow
WRITE_PAGE = session.write_page


@pytest.mark.parametrize(
    ("sweep", "settings"),
    [
        ("smoke", ()),
        ("quickstart", ("transformer:task.T=16", "fcn:task.T=4", "training.steps=20", "search.cap=4", "search.batch=4")),
    ],
)
def test_a_run_expands_its_sweep_once(
    here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, sweep: str, settings: tuple[str, ...]
) -> None:
    calls = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(function.__name__)
            return function(*args)

        return call

    monkeypatch.setattr(expansion, "blocks_of", counted(expansion.blocks_of))
    monkeypatch.setattr(expanded_sweep, "searched_cells_of", counted(expanded_sweep.searched_cells_of))
    monkeypatch.setattr(session, "write_page", WRITE_PAGE)
    options = [word for setting in settings for word in ("--set", setting)]
    ended = here("run", sweep, *options, "--inline", "--wandb", "disabled")
    assert "page:" in ended.out, ended
    assert calls == ["blocks_of", "searched_cells_of"]
