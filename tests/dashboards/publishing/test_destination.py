"""Project, entity and tags come from the first that names them: the caller, the environment, an earlier caller, the sweep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wandb_files import read_run

from dashboards.publishing.destination import NOTHING_ASKED, Asked, Destination, choose_destination, tags_of
from dashboards.publishing.publisher import publish
from sweeps.schema.spec import WandbSettings
from sweeps.store.run_directory import RunDirectory

SWEEP = WandbSettings(project="of-sweep", entity="lab", tags=("a",))


def test_the_order_is_caller_environment_earlier_caller_sweep(tmp_path: Path) -> None:
    environment = {"WANDB_PROJECT": "of-environment", "WANDB_TAGS": "x, y"}
    asked = Asked(project="of-caller", tags=("b",))
    assert choose_destination(NOTHING_ASKED, WandbSettings(), tmp_path, environment={}) == Destination("stsq", None, ())
    assert choose_destination(NOTHING_ASKED, SWEEP, tmp_path, environment={}) == Destination("of-sweep", "lab", ("a",))
    chosen = choose_destination(NOTHING_ASKED, SWEEP, tmp_path, environment=environment)
    assert chosen == Destination("of-environment", "lab", ("x", "y"))
    assert not (tmp_path / "asked.json").exists()
    assert choose_destination(asked, SWEEP, tmp_path, environment=environment) == Destination("of-caller", "lab", ("b",))
    later = choose_destination(NOTHING_ASKED, SWEEP, tmp_path, environment={})
    assert later == Destination("of-caller", "lab", ("b",))
    assert choose_destination(NOTHING_ASKED, SWEEP, tmp_path, environment=environment).project == "of-environment"


def test_tags_may_be_taken_away(tmp_path: Path) -> None:
    assert choose_destination(Asked(tags=()), SWEEP, tmp_path, environment={}).tags == ()
    assert tags_of(" a,b ,, c") == ("a", "b", "c")


def test_another_project_is_another_publication(make_run: Callable[..., RunDirectory], small: dict[str, Any]) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    again = publish(run.path, asked=Asked(project="other"))
    assert (again.num_published, again.num_up_to_date) == (4, 0)
    assert {read_run(path).project for path in run.wandb.glob("offline-run-*/*.wandb")} == {"other"}
    assert publish(run.path).num_up_to_date == 4
