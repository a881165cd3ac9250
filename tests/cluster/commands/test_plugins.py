"""A user's own task and model run as ours do: the files of docs/plugins.md, every way, with nothing of ours edited."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stsq_core.plugins import load, loaded_plugins, read_plugin
from stsq_core.plugins.loading import unload_all
from sweeps.store.run_plugins import ALLOWED

DOCS = Path(__file__).parents[3] / "docs" / "plugins"
FEW = ("--set", "training.steps=30", "--set", "task.T=6", "--set", "model.width=2,8", "--set", "seeds=2")


@pytest.fixture(autouse=True)
def _user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user who has allowed nothing yet, in a process that has loaded nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.delenv(ALLOWED, raising=False)
    unload_all()
    yield
    unload_all()


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """The files of the docs, in the folder in which the command runs."""
    for name in ("selected_max.py", "selected_max.yaml"):
        shutil.copy(DOCS / name, tmp_path / name)
    return tmp_path / "selected_max.yaml"


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the next command of the same user finds: nothing loaded, and what was allowed remembered."""
    unload_all()
    monkeypatch.delenv(ALLOWED, raising=False)


def test_the_page_of_the_docs_shows_these_files() -> None:
    page = (DOCS.parent / "plugins.md").read_text()
    assert f"```python\n{(DOCS / 'selected_max.py').read_text()}```" in page
    assert f"```yaml\n{(DOCS / 'selected_max.yaml').read_text()}```" in page
    for name in ("momentum.py", "ternary_codes.py"):
        assert f"```python\n{(DOCS / name).read_text()}```" in page
    assert f"```yaml\n{(DOCS / 'momentum.yaml').read_text()}```" in page
    page = (DOCS.parent / "modules.md").read_text()
    assert f"```python\n{(DOCS / 'deep_sets.py').read_text()}```" in page
    assert f"```yaml\n{(DOCS / 'deep_sets.yaml').read_text()}```" in page


@pytest.mark.slow
def test_a_plain_module_runs_resumes_and_repeats(here: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, plugin = DOCS / "deep_sets.yaml", DOCS / "deep_sets.py"
    few = ("--set", "training.steps=40", "--set", "task.T=6", "--set", "search.batch=4", "--set", "search.cap=4")
    ended = here("run", sweep, "--plugin", plugin, "--inline", "--out", "run", *few)
    assert ended.code in (0, 3), ended
    lines = [json.loads(line) for line in Path("run/ledger.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    assert {line["config"]["model"]["bias"] for line in lines} == {True}
    for line in lines:
        another_process(monkeypatch)
        assert "reproduced bit for bit" in here("trial", "run", line["trial_id"]).out
    another_process(monkeypatch)
    assert "nothing to train" in here("run", sweep, "--inline", "--out", "run", *few).err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "few"),
    [
        ("momentum", {"optimizer", "momentum"}, ("training.steps=40", "model.width=4,8", "seeds=2")),
        ("ternary_codes", {"positions", "ternary"}, ("training.steps=40", "search.batch=4", "search.cap=4")),
    ],
)
def test_an_optimizer_and_a_code_of_the_docs_run_resume_and_repeat(
    here: Callable, name: str, kind: set[str], few: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, plugin = (DOCS / f"{name}.{ending}" for ending in ("yaml", "py"))
    settings = [word for one in few for word in ("--set", one)]
    listed = here("list", "--kinds", "--plugin", plugin).out.splitlines()
    assert any(kind <= set(line.split()) and f"plugin {name}.py" in line for line in listed)
    ended = here("run", sweep, "--plugin", plugin, "--inline", "--out", "run", *settings)
    assert ended.code in (0, 3), ended
    lines = [json.loads(line) for line in Path("run/ledger.jsonl").read_text().splitlines()]
    own = [line for line in lines if line.get("plugins")]
    assert 0 < len(own) < len(lines)
    assert {name for line in own for name in line["plugins"]} == {f"{name}.py"}
    another_process(monkeypatch)
    assert "reproduced bit for bit" in here("trial", "run", own[0]["trial_id"]).out
    another_process(monkeypatch)
    assert "nothing to train" in here("run", sweep, "--inline", "--out", "run", *settings).err


@pytest.mark.slow
def test_the_docs_sweep_runs_inline_and_every_reader_reads_it_without_being_told(
    here: Callable, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = here("run", "selected_max.yaml", "--plugin", "selected_max.py", "--inline", "--out", "run", *FEW)
    assert ended.code in (0, 3), ended
    lines = [json.loads(line) for line in Path("run/ledger.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    (digest,) = {line["plugins"]["selected_max.py"] for line in lines}
    assert {line["config"]["task"]["kind"] for line in lines} == {"selected_max"}
    another_process(monkeypatch)
    shown = here("show", "run", "--json")
    assert shown.code == 0, shown
    assert {one["architecture"] for one in json.loads(shown.out)["thresholds"]} == {"pooled"}
    another_process(monkeypatch)
    again = here("trial", "run", lines[0]["trial_id"])
    assert "reproduced bit for bit" in again.out, again
    another_process(monkeypatch)
    resumed = here("run", "selected_max.yaml", "--inline", "--out", "run", *FEW)
    assert "nothing to train" in resumed.err, resumed
    assert (Path("run/plugins/selected_max.py")).read_bytes() == sweep.with_suffix(".py").read_bytes()
    assert digest == loaded_plugins()[0].digest


def test_a_run_of_somebody_else_runs_no_code_until_it_is_named(
    here: Callable, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here("run", "selected_max.yaml", "--plugin", "selected_max.py", "--inline", "--out", "run", *FEW).code in (0, 3)
    another_process(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    for words in (("show", "run"), ("report", "run"), ("status", "run"), ("run", "selected_max.yaml", "--out", "run")):
        refused = here(*words)
        assert refused.code == 2, refused
        assert "you have not allowed to run here: read" in refused.err
        assert "give --plugin" in refused.err
        assert len(refused.err.splitlines()) == 1
        assert not loaded_plugins()
    assert here("show", "run", "--plugin", "run/plugins/selected_max.py").code == 0


def test_an_edited_plugin_trains_its_trials_again_and_says_so(
    here: Callable, sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", "selected_max.yaml", "--plugin", "selected_max.py", "--inline", "--out", "run", *FEW)
    assert here(*run).code in (0, 3)
    another_process(monkeypatch)
    plugin = sweep.with_suffix(".py")
    old = plugin.read_text()
    plugin.write_text(old.replace("math.sqrt(width * self.task.T)", "math.sqrt(width)"))
    edited = here(*run)
    assert edited.code in (0, 3), edited
    assert "4 lines of another version of the plugin selected_max.py are ignored" in edited.err
    lines = [json.loads(line) for line in Path("run/ledger.jsonl").read_text().splitlines()]
    assert len({line["trial_id"] for line in lines}) == len(lines) == 8
    assert Path("run/plugins/selected_max.1.py").read_text() == old
    another_process(monkeypatch)
    shown = here("show", "run", "--plugin", "run/plugins/selected_max.1.py", "--json")
    assert shown.code == 0, shown


def test_a_sweep_whose_plugin_is_not_named_is_refused_with_what_to_do(here: Callable, sweep: Path) -> None:
    refused = here("run", "selected_max.yaml", "--inline")
    assert refused.code == 2
    assert "selected_max.yaml:" in refused.err
    assert "'selected_max'" in refused.err
    assert "--plugin FILE" in refused.err


def test_a_sweep_file_cannot_name_a_plugin(here: Callable, sweep: Path) -> None:
    sweep.write_text(sweep.read_text() + "plugin: selected_max.py\n")
    refused = here("plan", "selected_max.yaml")
    assert refused.code == 2
    assert "unknown field 'plugin'" in refused.err
    assert not loaded_plugins()


def test_a_plugin_that_fails_is_refused_before_anything_is_trained(here: Callable, sweep: Path) -> None:
    plugin = sweep.with_suffix(".py")
    text = (
        plugin.read_text().replace("source.normals", "torch.randn_like(source.normals").replace("T * d).view", "T * d)).view")
    )
    plugin.write_text(text)
    refused = here("run", "selected_max.yaml", "--plugin", "selected_max.py", "--inline", "--out", "run", *FEW)
    assert refused.code == 2
    line = next(i for i, line in enumerate(text.splitlines(), start=1) if "def batch" in line)
    assert f"selected_max.py:{line}: SelectedMaxExamples.batch: the samples of a trial are others" in refused.err
    assert not Path("run/ledger.jsonl").exists()


def test_list_and_schema_tell_of_a_plugin(here: Callable, sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    listed = here("list", "--kinds", "--plugin", "selected_max.py").out
    own = [line for line in map(str.rstrip, listed.splitlines()) if line.endswith("plugin selected_max.py")]
    assert ["selected_max" in own[0], "pooled" in own[1]] == [True, True]
    assert "The coordinatewise maximum of the tokens" in own[0]
    assert any("random_sign" in line and line.rstrip().endswith("stsq") for line in listed.splitlines())
    schema = json.loads(here("schema", "--plugin", "selected_max.py").out)
    assert schema["$defs"]["SelectedMax"]["properties"]["kind"]["const"] == "selected_max"
    assert schema["$defs"]["Pooled"]["properties"]["width"]["minimum"] == 1
    assert (
        schema["$defs"]["TrialConfig"]["properties"]["task"]["discriminator"]["mapping"]["selected_max"]
        == "#/$defs/SelectedMax"
    )


@pytest.mark.ray
def test_the_docs_sweep_runs_on_ray_and_draws_its_page(stsq, sweep: Path, tmp_path: Path, numbers: Callable) -> None:
    words = ("selected_max.yaml", "--plugin", "selected_max.py")
    ended = stsq.run("run", *words, "--out", "on_ray", "--workers", 1, timeout_s=600)
    assert ended.code == 0, ended
    page = (tmp_path / "on_ray" / "report" / "index.html").read_text()
    assert "pooled" in page
    assert "selected_max" in page
    inline = stsq.run("run", *words, "--out", "inline", "--inline", timeout_s=600)
    assert inline.code == 0, inline
    load(read_plugin(sweep.with_suffix(".py")))  # a ledger's lines count where the plugin that made them is loaded
    assert numbers(tmp_path / "on_ray") == numbers(tmp_path / "inline")
    drawn = stsq.run("report", "on_ray", timeout_s=600)
    assert drawn.code == 0, drawn
