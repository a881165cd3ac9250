"""The plugins of a run: kept, loaded again where the user has allowed their text, and nowhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stsq_core import UserError
from stsq_core.plugins import Plugin, load, load_installed, loaded_plugins, read_plugin
from stsq_core.plugins.loading import unload, unload_all
from sweeps.store.run_plugins import ALLOWED, INDEX, keep_plugins, load_kept, name_plugins

TEXT = '''"""A plugin that says when it runs."""

import os
from typing import Literal

from stsq_core.tasks.examples import Examples
from stsq_core.configs.task import TokenTask

os.environ["A_PLUGIN_RAN"] = "yes"


class Own(TokenTask):
    """A task of its own."""

    kind: Literal["own"] = "own"

    def examples(self) -> Examples:
        raise NotImplementedError
'''


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user who has allowed nothing; whatever a test loads is forgotten."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(ALLOWED, "")
    monkeypatch.setenv("A_PLUGIN_RAN", "no")
    yield
    unload_all()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(TEXT)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The plugins of a run that somebody made, seen by one who has allowed nothing."""
    folder = tmp_path / "run" / "plugins"
    plugin = Plugin("own.py", TEXT, "own.py")
    load(plugin)
    keep_plugins(folder, [plugin])
    unload_all()
    return folder


def ran(monkeypatch: pytest.MonkeyPatch) -> bool:
    import os

    printed = os.environ["A_PLUGIN_RAN"] == "yes"
    monkeypatch.setenv("A_PLUGIN_RAN", "no")
    return printed


def test_a_copy_runs_only_where_its_text_was_named(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch)
    with pytest.raises(UserError, match=r"own\.py \(sha256 .*not allowed to run here: read .*give --plugin"):
        load_kept(folder)
    assert not ran(monkeypatch)
    name_plugins([own])
    unload_all()
    monkeypatch.setenv(ALLOWED, "")
    ran(monkeypatch)
    load_kept(folder)
    assert ran(monkeypatch)
    assert loaded_plugins()[0].digest == read_plugin(own).digest


def test_the_processes_that_a_command_starts_are_told(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = own.parent / "no folder"
    blocked.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))
    name_plugins([own])
    unload_all()
    load_kept(folder)
    assert loaded_plugins()


def test_a_copy_that_was_changed_is_refused(folder: Path, own: Path) -> None:
    name_plugins([own])
    unload_all()
    (folder / "own.py").write_text(TEXT + "print('changed')\n")
    with pytest.raises(UserError, match="is not the plugin that the run was made with"):
        load_kept(folder)
    assert not loaded_plugins()


def test_a_copy_whose_index_was_changed_with_it_is_not_allowed(folder: Path, own: Path) -> None:
    name_plugins([own])
    unload_all()
    changed = Plugin("own.py", TEXT + "print('changed')\n", "own.py")
    (folder / "own.py").write_text(changed.text)
    (folder / INDEX).write_text(json.dumps([{"name": "own.py", "digest": changed.digest, "kinds": ["own"]}]))
    with pytest.raises(UserError, match="not allowed to run here"):
        load_kept(folder)


@pytest.mark.parametrize("index", ['[{"name": "../own.py", "digest": "", "kinds": []}]', "[1]", "{", '[{"name": "own.py"}]'])
def test_an_index_that_cannot_be_trusted_is_refused(folder: Path, index: str) -> None:
    (folder / INDEX).write_text(index)
    with pytest.raises(UserError, match="run the sweep again with --plugin"):
        load_kept(folder)


def test_what_the_user_names_goes_before_what_is_kept(folder: Path, own: Path) -> None:
    own.write_text(TEXT + "# newer\n")
    name_plugins([own])
    load_kept(folder)
    assert [plugin.text for plugin in loaded_plugins()] == [own.read_text()]
    keep_plugins(folder, loaded_plugins())
    assert (folder / "own.py").read_text() == own.read_text()
    assert (folder / "own.1.py").read_text() == TEXT


def test_another_file_with_the_same_kind_takes_the_place_of_the_old_one(folder: Path, own: Path) -> None:
    renamed = own.with_name("renamed.py")
    renamed.write_text(TEXT + "# another name\n")
    name_plugins([renamed])
    keep_plugins(folder, loaded_plugins())
    assert sorted(path.name for path in folder.glob("*.py")) == ["own.1.py", "renamed.py"]
    unload_all()
    load_kept(folder)
    assert [plugin.name for plugin in loaded_plugins()] == ["renamed.py"]


def test_a_run_without_plugins_needs_nothing(tmp_path: Path) -> None:
    load_kept(tmp_path / "plugins")
    keep_plugins(tmp_path / "plugins", [])
    assert not (tmp_path / "plugins").exists()


def test_an_installed_entry_point_is_loaded_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_package_with_a_task.py").write_text(TEXT)
    about = tmp_path / "a_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: a-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stsq.plugins]\nown = a_package_with_a_task\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    load_installed()
    load_installed()
    (plugin,) = loaded_plugins()
    assert (plugin.name, plugin.module, plugin.text) == ("a_package_with_a_task", "a_package_with_a_task", TEXT)
    unload(plugin)
    other = Plugin(plugin.name, TEXT + "# another version\n", plugin.place, plugin.module)
    with pytest.raises(UserError, match="installed here in another version"):
        load(other)
    (about / "entry_points.txt").write_text("[stsq.plugins]\nown = no_such_module_here\n")
    with pytest.raises(UserError, match="is not installed here"):
        load_installed()
