"""Who expands a sweep: whoever loads it, once; everything else is given the value."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.cells import expanded_sweep, expansion


@pytest.mark.parametrize(
    ("sweep", "settings"),
    [
        ("smoke", ()),
        ("smoke", ("seeds=2",)),
        ("quickstart", ("transformer:task.T=16", "training.steps=20", "search.cap=4", "search.batch=4")),
    ],
)
def test_a_run_expands_its_sweep_once(
    here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sweep: str, settings: tuple[str, ...]
) -> None:
    calls = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(function.__name__)
            return function(*args)

        return call

    monkeypatch.setattr(expansion, "blocks_of", counted(expansion.blocks_of))
    monkeypatch.setattr(expanded_sweep, "searched_cells_of", counted(expanded_sweep.searched_cells_of))
    options = [word for setting in settings for word in ("--set", setting)]
    ended = here("run", sweep, *options, "--inline", "--wandb", "disabled")
    assert "page:" in ended.out, ended
    assert calls == ["blocks_of", "searched_cells_of"]
