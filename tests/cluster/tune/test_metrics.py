"""The names of what is exported: those of the dashboard and of the docs. test_growing_cluster.py reads values back."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.util.metrics import Gauge

import cluster
from cluster.tune import metrics
from cluster.tune.metrics import METRICS, TAGS, NoMetrics, RayMetrics

ROOT = Path(__file__).parents[3]
DASHBOARD = json.loads((Path(cluster.__file__).parent / "manifests/grafana.json").read_text())


def expressions() -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"ray_stsq_\w+", expression)}
    assert asked == {metric.exported_name for metric in METRICS}


def test_the_dashboard_asks_by_tags_that_are_exported() -> None:
    own = {tag for metric in METRICS for tag in metric.tags}
    for expression in expressions():
        tags = set(re.findall(r"(\w+)=", expression)) | set(re.findall(r"by \(([^)]*)\)", expression)[0].split(", "))
        assert tags <= own | set(TAGS), expression


def test_panels_have_places_and_ids_of_their_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(ids) == len(set(ids))
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in DASHBOARD["panels"])


def test_the_docs_name_every_metric() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    assert set(re.findall(r"ray_stsq_\w+", text)) == {metric.exported_name for metric in METRICS}


def test_numbers_are_set_with_the_runs_tags_and_no_more_often_than_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[tuple[str, float, dict[str, str]]] = []
    monkeypatch.setattr(Gauge, "set", lambda self, value, tags=None: published.append((self._name, value, tags)))
    numbers = {(metrics.TRIALS, ("failed",)): 3.0, (metrics.RATE, ()): 7.0}
    monkeypatch.setattr(metrics, "numbers_of", lambda pool: numbers)
    pool: Any = object()
    one = RayMetrics(sweep="small", run="/shared/run")
    one.publish()
    assert published == []  # nobody to tell of yet
    one.watch(pool)
    one.publish()
    one.publish()
    assert published == [("stsq_trials", 3.0, {"status": "failed"}), ("stsq_model_steps_per_second", 7.0, {})]
    assert one._gauges[metrics.RATE]._default_tags == {"sweep": "small", "run": "/shared/run"}
    quiet = NoMetrics()
    quiet.watch(pool)
    quiet.publish()
    assert len(published) == 2


def test_metrics_that_ray_does_not_take_are_said_once_and_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, value: float, tags: Any = None) -> None:
        raise UnicodeEncodeError("ascii", "ü", 0, 1, "no")

    monkeypatch.setattr(Gauge, "set", refuse)
    monkeypatch.setattr(metrics, "numbers_of", lambda pool: {(metrics.RATE, ()): 7.0})
    monkeypatch.setattr(metrics, "EVERY_S", 0.0)
    said: list[str] = []
    one = RayMetrics(sweep="small", run="/shared/größer")
    assert one._gauges[metrics.RATE]._default_tags["run"] == r"/shared/gr\xf6\xdfer"
    pool: Any = SimpleNamespace(work=SimpleNamespace(progress=SimpleNamespace(note=said.append)))
    one.watch(pool)
    one.publish()
    one.publish()
    assert len(said) == 1
    assert said[0].startswith("no metrics for Ray from here on: UnicodeEncodeError: ")
