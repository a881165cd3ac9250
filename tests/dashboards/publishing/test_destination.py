"""Project, entity and tags come from the first that names them: the caller, the environment, an earlier caller, the sweep."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from wandb_files import read_run

from dashboards.publishing.destination import NOTHING_ASKED, Asked, Destination, check_names, choose_destination, tags_of
from dashboards.publishing.publisher import publish
from stsq_core import UserError
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


@pytest.mark.parametrize(
    ("asked", "environment", "problem"),
    [
        (Asked(project="a/b"), {}, "--wandb-project: a W&B project has a name of 1 to 128 characters, none of them / "),
        (Asked(project="x" * 129), {}, "--wandb-project: a W&B project has a name of 1 to 128 characters"),
        (Asked(entity="a b"), {}, "--wandb-entity: a W&B entity has a name of 1 to 128 characters, none of them a blank or / "),
        (Asked(entity=""), {}, "--wandb-entity: a W&B entity has a name of 1 to 128 characters"),
        (Asked(tags=("x" * 65,)), {}, "--wandb-tags: a W&B tag has 1 to 64 characters; got 'xxx"),
        (Asked(tags=("a", "b", "a")), {}, "--wandb-tags: every tag stands once; 'a' stands there twice"),
        (NOTHING_ASKED, {"WANDB_PROJECT": "100%"}, "WANDB_PROJECT: a W&B project has a name of"),
    ],
)
def test_a_name_that_wandb_would_refuse_is_refused_first(asked: Asked, environment: dict[str, str], problem: str) -> None:
    with pytest.raises(UserError, match=re.escape(problem)):
        check_names(asked, environment=environment)


def test_names_that_wandb_takes_are_taken() -> None:
    check_names(Asked(project="größe 1.0", entity="lab", tags=("a", "b c")), environment={"WANDB_PROJECT": "x"})
    check_names(NOTHING_ASKED, environment={"WANDB_PROJECT": "", "WANDB_ENTITY": ""})  # exported and empty: nothing is asked


@pytest.mark.parametrize(
    "fields", [{"project": "a#b"}, {"project": ""}, {"entity": "a/b"}, {"tags": [""]}, {"tags": ["a", "a"]}]
)
def test_a_sweep_file_is_held_to_the_same_names(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WandbSettings.model_validate(fields)
