"""Claims and drawings name metrics that an evaluation gives, and values that some cell has."""

from pathlib import Path
from typing import Any

import pytest

from stsq_core.configs import UserError
from sweeps.cells import catalog_names, load_sweep
from sweeps.schema.yaml_source import dump

SWEEP: dict[str, Any] = {
    "name": "small",
    "hypothesis": "None.",
    "trials": [
        {
            "name": "net",
            "base": {
                "task": {"T": 8, "q": 2, "d": 2},
                "model": {"kind": "fcn", "width": 4},
                "training": {"steps": 10},
                "evaluation": {"q_test": [3]},
            },
            "grid": {"optimizer": [{"kind": "adam", "lr": 0.01}, {"kind": "gd", "lr": 0.1}], "model.width": [4, 8]},
        }
    ],
}
BOUND = {"kind": "bound", "name": "learns", "says": "It learns.", "metric": "loss", "at_most": 0.5}
COMPARE = {"kind": "compare", "name": "less", "says": "Less.", "metrics": ["loss"], "field": "optimizer.kind"}
ORDER = {"kind": "threshold_order", "name": "order", "says": "In order.", "by": "optimizer.kind"}


def written(folder: Path, **parts: Any) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(dump(SWEEP | parts), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "claim",
    [
        BOUND,
        BOUND | {"metric": "loss_stderr@q=3"},
        BOUND | {"where": {"model.width": 8, "optimizer.lr": [0.1, 0.01], "optimizer.kind": "gd"}},
        BOUND | {"where": {"model.width": [4, 8]}},
        COMPARE | {"smaller": "adam", "than": "gd"},
        ORDER | {"order": ["adam", "gd"]},
    ],
)
def test_what_exists_may_be_named(tmp_path: Path, claim: dict[str, Any]) -> None:
    assert load_sweep(written(tmp_path, claims=[claim])).claims[0].name == claim["name"]


@pytest.mark.parametrize(
    ("parts", "place", "problem"),
    [
        ({"claims": [BOUND | {"metric": "relative_losss"}]}, "claims.0.metric", "gives the metric 'relative_losss'"),
        ({"claims": [BOUND | {"metric": "los"}]}, "claims.0.metric", "'los'; did you mean loss? (they"),
        (
            {"claims": [BOUND | {"metric": "loss@q=4"}]},
            "claims.0.metric",
            "they give loss, loss_stderr, loss@q=3, loss_stderr@q=3",
        ),
        (
            {"claims": [BOUND | {"where": {"optimizer.kind": "adm"}}]},
            "claims.0.where.optimizer.kind",
            "'adm'; did you mean adam?",
        ),
        ({"claims": [BOUND | {"where": {"task.T": [8, 9]}}]}, "claims.0.where.task.T", "has task.T = 9; task.T is 8: name one"),
        ({"claims": [BOUND | {"where": {"model.width": 5}}]}, "claims.0.where.model.width", "= 5; model.width is 4, 8"),
        ({"claims": [BOUND | {"where": {"optimizer.kind": "gd", "optimizer.lr": 0.01}}]}, "claims.0.where", "as a whole"),
        ({"claims": [COMPARE | {"smaller": "adam", "than": "nevr"}]}, "claims.0.than", "optimizer.kind = 'nevr'"),
        ({"claims": [ORDER | {"order": ["adam", "sgd"]}]}, "claims.0.order.1", "'sgd'; did you mean gd?"),
        (
            {"drawings": [{"kind": "curves", "name": "a", "title": "A", "metrics": ["loss", "cosine_W"]}]},
            "drawings.0.metrics.1",
            "gives the metric 'cosine_W'",
        ),
    ],
)
def test_what_does_not_exist_is_refused(tmp_path: Path, parts: dict[str, Any], place: str, problem: str) -> None:
    with pytest.raises(UserError) as raised:
        load_sweep(written(tmp_path, **parts))
    assert f": {place}: " in str(raised.value)
    assert problem in str(raised.value)


def test_a_sweep_narrowed_by_a_setting_may_lose_what_a_claim_is_about(tmp_path: Path) -> None:
    path = written(tmp_path, claims=[COMPARE | {"smaller": "adam", "than": "gd"}])
    assert load_sweep(path, ["optimizer.kind=adam"]).claims


@pytest.mark.parametrize("name", catalog_names())
def test_every_sweep_of_the_catalogue_names_what_exists(name: str) -> None:
    load_sweep(name)


CODES = {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 4}}


def judged(folder: Path, metric: str, **base: Any) -> Path:
    (group,) = SWEEP["trials"]
    grid = {name: axis for name, axis in group["grid"].items() if name != "model.width" or "model" not in base}
    trials = [group | {"base": group["base"] | base, "grid": grid}]
    return written(folder, trials=trials, criterion={"metric": metric})


@pytest.mark.parametrize(
    ("metric", "base"),
    [
        ("loss@q=3", {}),
        ("loss@2T", {"model": CODES, "evaluation": {"T_test": [8, 16]}}),
        ("cosine_W", {"model": CODES, "evaluation": {"describe": True}}),
        (
            "cosine_W_centred",
            {"model": {"kind": "transformer", "positions": {"kind": "one_hot"}}, "evaluation": {"describe": True}},
        ),
        (
            "attention_mass",
            {"model": CODES | {"kind": "attention", "heads": 2, "init": "gaussian"}, "evaluation": {"describe": True}},
        ),
    ],
)
def test_a_criterion_judges_by_what_every_cell_gives(tmp_path: Path, metric: str, base: dict[str, Any]) -> None:
    assert load_sweep(judged(tmp_path, metric, **base)).criterion.metric == metric


@pytest.mark.parametrize(
    ("metric", "base", "problem"),
    [
        (
            "loss@q=4",
            {},
            "no loss@q=4 (it gives loss, loss_stderr, loss@q=3, loss_stderr@q=3): ask for it, evaluation: {q_test: [4]}",
        ),
        ("loss@2T", {"model": CODES}, "gives no loss@T=16 (it gives loss, loss_stderr, "),
        ("loss@2T", {"model": CODES}, "ask for it, evaluation: {T_test: [16]}"),
        ("attention_mass", {}, "ask for it, evaluation: {describe: true}"),
        ("attention_mass", {"evaluation": {"describe": True}}, "model.kind=fcn has no attention in fcn"),
        ("cosine_V", {"evaluation": {"describe": True}}, "whose trials give no cosine_V: use metric: loss, or another model"),
        (
            "cosine_W",
            {"model": CODES | {"kind": "attention", "heads": 2, "init": "gaussian"}, "evaluation": {"describe": True}},
            "model.kind=attention has no single W and V",
        ),
        (
            "cosine_V",
            {"model": {"kind": "stream_transformer", "width": 4}, "evaluation": {"describe": True}},
            "model.kind=stream_transformer has no single W and V",
        ),
        ("cosine_W_centred", {"model": CODES, "evaluation": {"describe": True}}, "positions.kind=random_sign is not one_hot"),
    ],
)
def test_a_criterion_by_what_some_cell_lacks_is_refused(
    tmp_path: Path, metric: str, base: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError) as raised:
        load_sweep(judged(tmp_path, metric, **base))
    assert ": criterion.metric: " in str(raised.value)
    assert problem in str(raised.value)


def test_a_metric_that_a_setting_asks_for_is_looked_for_too(tmp_path: Path) -> None:
    assert load_sweep(written(tmp_path), ["criterion.metric=loss@q=3"]).criterion.metric == "loss@q=3"
    with pytest.raises(UserError, match=r"gives no loss@q=5"):
        load_sweep(written(tmp_path), ["criterion.metric=loss@q=5"])
