"""A sweep file that somebody else wrote cannot run code, write outside the run directory, or read secrets."""

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps import load_sweep
from sweeps.store.run_directory import RunDirectory, create_or_open

Here = Callable[..., Any]
WriteSweep = Callable[..., Path]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.mkdir [made]",
        "!!python/object/new:os.mkdir [made]",
        "!!python/name:os.mkdir",
        "!!python/module:antigravity",
        "!!python/object:cluster.commands.cli.app {}",
        "!include /etc/passwd",
        "!!binary aGVsbG8=",
        "!!set {a, b}",
    ],
)
@pytest.mark.parametrize("place", ["title: {}", "trials: [{{name: a, base: {{task: {}}}}}]"])
def test_no_tag_makes_an_object(here: Here, tmp_path: Path, write_sweep: WriteSweep, place: str, value: str) -> None:
    path = write_sweep(f"name: evil\nhypothesis: none\n{place.format(value)}\n")
    before = files_below(tmp_path)
    done = here("run", path, "--inline", "--wandb", "disabled")
    assert done.code == 2, done
    assert f"{path}:3" in done.err
    assert files_below(tmp_path) == before


def test_repeated_anchors_are_bounded(here: Here, write_sweep: WriteSweep) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    done = here("plan", write_sweep("\n".join(lines)))
    assert done.code == 2
    assert "more than 200000 values" in done.err


NAMES = ("../evil", "/tmp/evil", "..", ".", "a/b", "a\\b", "~", "~root", "", "a\0b", "$HOME", "-rf")


def _named(small: dict[str, Any], what: str, name: str) -> dict[str, Any]:
    drawing = {"kind": "curves", "name": "loss", "title": "Loss", "metrics": ["loss"]}
    claim = {"kind": "bound", "name": "low", "says": "It is low.", "metric": "loss", "at_most": 1.0}
    small |= {"drawings": [drawing], "claims": [claim]}
    place = {"sweep": small, "group": small["trials"][0], "drawing": drawing, "claim": claim}[what]
    place["name"] = name
    return small


@pytest.mark.parametrize(
    ("what", "name"), [*(("sweep", name) for name in NAMES), *((what, "../evil") for what in ("group", "drawing", "claim"))]
)
def test_no_name_leads_out_of_the_run_directory(
    here: Here, tmp_path: Path, write_sweep: WriteSweep, small: dict[str, Any], what: str, name: str
) -> None:
    path = write_sweep(_named(copy.deepcopy(small), what, name))
    before = files_below(tmp_path)
    done = here("run", path, "--inline", "--wandb", "disabled")
    assert done.code == 2, done
    assert ("a name begins with a letter or digit" in done.err) or name == "\0", done
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("what", ["sweep", "group", "drawing", "claim"])
def test_the_names_are_taken_where_they_are_plain(write_sweep: WriteSweep, small: dict[str, Any], what: str) -> None:
    assert "plain-1.2_x" in load_sweep(write_sweep(_named(small, what, "plain-1.2_x"))).model_dump_json()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///studies.db",
        "sqlite:////etc/cron.d/evil",
        "sqlite:///file:../evil?mode=rwc&uri=true",
        "sqlite+pysqlite:///evil.db",
        "/tmp/evil.journal",
        "mysql://HOST/db?read_default_file=/etc/shadow",
        "postgresql+psycopg2://HOST/db?sslkey=/home/me/.ssh/id_ed25519",
        "redis://HOST",
        "evil://HOST",
    ],
)
def test_a_file_names_servers_only_as_storage(
    here: Here, tmp_path: Path, write_sweep: WriteSweep, small: dict[str, Any], url: str
) -> None:
    path = write_sweep({**small, "search": {"storage": url}})
    before = files_below(tmp_path)
    for command in ("run", "plan"):
        done = here(command, path)
        assert done.code == 2, done
        assert f"{path}:" in done.err
        assert f"got '{url[:40]}" in done.err  # longer values are cut
        assert "--set 'search.storage=URL'" in done.err
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("url", ["grpc://HOST:13000", "postgresql+psycopg2://user@HOST/db", "mysql://HOST:3306/db"])
def test_a_file_may_name_a_server_as_storage(write_sweep: WriteSweep, small: dict[str, Any], url: str) -> None:
    assert load_sweep(write_sweep({**small, "search": {"storage": url}})).search.storage == url


def test_what_the_user_names_as_storage_stays_readable(tmp_path: Path, write_sweep: WriteSweep, small: dict[str, Any]) -> None:
    spec = load_sweep(write_sweep(small), ["search.storage=sqlite:///mine.db"])
    create_or_open(tmp_path / "run", spec)
    assert RunDirectory(tmp_path / "run").read_spec().search.storage == "sqlite:///mine.db"


@pytest.mark.parametrize(
    "field",
    ["plugin", "plugins", "include", "env", "imports", "out", "working_dir", "command"],
)
def test_a_file_has_no_field_that_names_code_or_places(
    here: Here, write_sweep: WriteSweep, small: dict[str, Any], field: str
) -> None:
    done = here("plan", write_sweep({**small, field: "evil.py"}))
    assert done.code == 2
    assert field in done.err


@pytest.mark.parametrize("field", ["base_url", "api_key", "dir", "settings"])
def test_a_file_cannot_send_a_key_elsewhere(here: Here, write_sweep: WriteSweep, small: dict[str, Any], field: str) -> None:
    done = here("plan", write_sweep({**small, "wandb": {field: "http://evil.example"}}))
    assert done.code == 2
    assert f"wandb.{field}" in done.err


def test_nothing_is_put_into_its_words(monkeypatch: pytest.MonkeyPatch, write_sweep: WriteSweep, small: dict[str, Any]) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    words = "$WANDB_API_KEY ${WANDB_API_KEY} {{ env.WANDB_API_KEY }} ${oc.env:WANDB_API_KEY} `id` $(id) ~ file:///etc/passwd"
    name = "$WANDB_API_KEY ${WANDB_API_KEY} {{ env.WANDB_API_KEY }} `id` $(id) ~"  # W&B takes fewer letters
    wandb = {"project": name, "tags": [name[:60]]}
    spec = load_sweep(write_sweep({**small, "title": words, "hypothesis": words, "wandb": wandb}))
    assert (spec.title, spec.hypothesis, spec.wandb.project, spec.wandb.tags) == (words, words, name, (name[:60],))
    assert yaml.safe_load(spec.as_yaml())["title"] == words
    assert "0123456789abcdef" not in spec.as_yaml()


def test_a_run_writes_into_its_own_directory_only(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_sweep: WriteSweep, small: dict[str, Any]
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    path = write_sweep(small)
    before = files_below(tmp_path)
    done = here("run", path, "--inline", "--wandb", "disabled", "--out", tmp_path / "out")
    assert done.code == 0, done
    made = files_below(tmp_path) - before
    assert made
    caches = ("home/.cache", "home/.config")  # of matplotlib and Numba
    assert {name.split(os.sep)[0] for name in made if not name.startswith(caches)} <= {"out", "home"}
    assert not [name for name in made if name.startswith("home/") and not name.startswith(caches)]
    held = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert not any(b"0123456789abcdef" in file.read_bytes() for file in held)
