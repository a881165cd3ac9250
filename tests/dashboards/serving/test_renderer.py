"""What the renderer writes into its folder as a run goes on."""

import json
from itertools import pairwise
from pathlib import Path

from synthetic_runs import finish, in_training, make_run, packs_of, sweep

from dashboards.serving.renderer import RunView, View
from sweeps.findings.progress import read_progress


def test_the_progress_is_that_of_the_ledger_also_while_the_rest_of_the_page_waits(tmp_path: Path) -> None:
    """Trials that ended since the page was drawn are not counted as waiting."""
    half = make_run(tmp_path / "run", sweep(), share=0.5)
    packs = packs_of(sweep())
    rest, folder = packs[len(packs) // 2 :], tmp_path / "page"
    view = RunView(str(half.path), View(folder, root=""))

    def shown() -> tuple[str, str]:
        return json.loads((folder / "state.json").read_text())["pulse"], (folder / "parts" / "progress.html").read_text()

    assert view.refresh()
    ended = read_progress(half).num_ended
    assert shown()[0].startswith(f"{ended} of 144 trials")
    for done, training in pairwise(rest[:3]):
        finish(half, [done])
        with in_training(half, training):
            assert not view.refresh(draw=False)
            ended += len(done.configs)
            pulse, section = shown()
            assert pulse.startswith(f"{ended} of 144 trials")
            assert f"{ended} finished" in section
            assert f"{144 - ended - len(training.configs)} waiting" in section
            assert read_progress(half).num_ended == ended
    assert view.refresh()
    assert shown()[0].startswith(f"{ended} of 144 trials")
    assert not view.refresh()
