"""Plugins: loaded by name, refused with file and line, and part of what a trial is."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stsq_core import TrialConfig, UserError, train_pack
from stsq_core.configs.family import TrialFamily
from stsq_core.configs.optimizer import OPTIMIZERS
from stsq_core.configs.positions import POSITIONS
from stsq_core.configs.trial import plugins_of
from stsq_core.configs.unions import MODELS, TASKS, UNIONS
from stsq_core.plugins import Plugin, load, loaded_plugins, read_plugin, used_plugins
from stsq_core.plugins.loading import FORMER_MODULES, problem_of, unload, unload_all
from stsq_core.plugins.preflight import try_pair

FOLDER = Path(__file__).parents[3] / "docs" / "plugins"
TEXT = (FOLDER / "selected_max.py").read_text()


@pytest.fixture(autouse=True)
def _nothing_stays_loaded() -> Iterator[None]:
    yield
    unload_all()


def plugin(text: str = TEXT, name: str = "selected_max.py") -> Plugin:
    return Plugin(name, text, name)


def edited(old: str, new: str) -> Plugin:
    assert old in TEXT
    return plugin(TEXT.replace(old, new))


def trial(**training: object) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "selected_max", "T": 5, "q": 2, "d": 2},
            "model": {"kind": "pooled", "width": 4},
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"batch_size": 8, "steps": 4, **training},
        }
    )


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if words in line)


def test_a_trial_of_a_plugin_is_covered_by_its_text() -> None:
    load(plugin())
    first = trial()
    assert plugins_of(first) == {"selected_max.py": plugin().digest}
    assert used_plugins([first]) == (plugin(),)
    assert TrialFamily(first).ids([4, 7], [0.01, 0.02], [0, 3]) == [
        TrialFamily(first).member(*own).trial_id for own in ((4, 0.01, 0), (7, 0.02, 3))
    ]
    printed = first.trial_id
    unload(plugin())
    load(plugin(TEXT + "\n# a remark\n"))
    assert trial().trial_id != printed
    assert trial().model_dump() == first.model_dump()


def test_loading_opens_both_unions_and_unloading_closes_them() -> None:
    before = TASKS.records, MODELS.records
    load(plugin())
    load(plugin())
    assert TASKS.added == ("selected_max",)
    assert MODELS.added == ("pooled",)
    schema = TrialConfig.model_json_schema()
    assert {"SelectedMax", "Pooled", "Stsq", "Fcn"} <= schema["$defs"].keys()
    unload(plugin())
    assert (TASKS.records, MODELS.records) == before
    with pytest.raises(ValueError, match="selected_max"):
        trial()


def test_our_trials_are_what_they_were(transformer, fcn) -> None:
    before = [transformer().trial_id, fcn().trial_id]
    load(plugin())
    assert [transformer().trial_id, fcn().trial_id] == before
    assert plugins_of(fcn()) == {}


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        ("class Pooled(Architecture):", "class Pooled(Architecture:", "class Pooled", ["not valid Python"]),
        ("import torch\n", "import torch\nimport no_such_thing\n", "no_such_thing", ["ModuleNotFoundError", "no_such_thing"]),
        ('kind: Literal["selected_max"] = "selected_max"', "pass", "class SelectedMax(", ["kind: Literal["]),
        ('Literal["pooled"] = "pooled"', 'Literal["fcn"] = "fcn"', "class Pooled(", ["'fcn'", "stsq's own"]),
        ("def examples(self)", "def examples(self, seed)", "class SelectedMax(", ["examples", "without arguments"]),
        ("def examples(self)", "def samples(self)", "class SelectedMax(", ["examples() is missing"]),
        ("def network(self)", "def net(self)", "class Pooled(", ["network() is missing"]),
        ("width: Annotated[int, Field(ge=1)]", "units: int", "class Pooled(", ["no field 'width'"]),
        ("Field(ge=1)]", "Field(ge=1)] = 8", "class Pooled(", ["must have no default"]),
    ],
)
def test_a_plugin_that_cannot_work_is_refused_where_it_stands(old: str, new: str, at: str, words: list[str]) -> None:
    wrong = edited(old, new)
    with pytest.raises(UserError) as refused:
        load(wrong)
    printed = str(refused.value)
    assert printed.startswith(f"selected_max.py:{line_of(wrong.text, at)}: "), printed
    assert "\n" not in printed
    for word in words:
        assert word in printed
    assert not loaded_plugins()
    assert not TASKS.added


def test_our_own_kinds_keep_the_rules_that_plugins_are_held_to() -> None:
    for record in (record for union in UNIONS.values() for record in union.records):
        assert problem_of(record) is None, record
        assert (record.__doc__ or "").strip(), f"{record.__name__} has no docstring for `stsq list --kinds`"


def test_a_plugin_that_defines_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"^empty\.py: this plugin defines no task, model, positional code or optimizer"):
        load(plugin("from stsq_core.configs import Stsq\n", "empty.py"))


def test_a_plugin_that_an_older_run_kept_loads_and_trains() -> None:
    """Its text names modules as they were called then, and its digest is part of its trial ids."""
    begin, face, rest = TEXT.partition("from stsq_core.plugins import (")
    former = """\
from stsq_core.architecture import Architecture
from stsq_core.examples import Batch, Examples, Source
from stsq_core.network import Network
from stsq_core.products import product
from stsq_core.program import Tensors
from stsq_core.task import TokenTask
from stsq_core.tasks.selection import selected
"""
    assert face
    kept = begin + former + rest.partition(")\n")[2]
    load(plugin(kept))
    try_pair(trial())
    with_face = [result.relative_loss for result in train_pack([trial()])]
    unload(plugin(kept))
    load(plugin())
    assert [result.relative_loss for result in train_pack([trial()])] == with_face


def test_a_kept_plugin_may_import_by_a_former_name_where_a_method_needs_it() -> None:
    face = "from stsq_core.plugins import ("
    late = TEXT.replace("    product,\n", "", 1)
    head, method, rest = late.partition("    def outputs(")
    signature, colon, body = rest.partition(":\n")
    assert face in late
    assert method
    load(plugin(head + method + signature + colon + "        from stsq_core.products import product\n\n" + body))
    try_pair(trial())


@pytest.mark.parametrize("former", FORMER_MODULES)
def test_every_former_name_is_that_of_a_module(former: str) -> None:
    load(plugin())
    assert sys.modules[former] is importlib.import_module(FORMER_MODULES[former])


def test_two_plugins_of_one_kind_are_refused() -> None:
    load(plugin())
    with pytest.raises(UserError, match=r"other\.py:\d+: the kind 'selected_max' .* selected_max\.py too"):
        load(plugin(TEXT + "\n", "other.py"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("my_task.txt", b"", "ends in .py"), ("missing.py", None, "cannot be read"), ("latin.py", b"\xe9", "not UTF-8")],
)
def test_files_that_are_no_plugins(tmp_path: Path, name: str, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=re.escape(words)):
        read_plugin(tmp_path / name)


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        ("y.unsqueeze(2), selected", "y, selected", "def batch", ["y (k, batch, R, q)", "(1, 8, 1, 2)", "(1, 8, 2)"]),
        (".amax(2, keepdim=True)", ".amax(2)", "def batch", ["target (k, batch, R, size)", "(1, 8, 1, 2)"]),
        ("x.square() * largest", "-x.square() * largest", "def zero_loss", ["number above 0"]),
        (".relu()", ".log()", "def outputs", ["must be finite"]),
        (".transpose(1, 2).unsqueeze(2)", "", "def outputs", ["the shape (1, 8, 1, 2)"]),
        ('start.normals("start V", d, width)', "torch.randn(len(self.configs), d, width)", "def initial", ["alone"]),
        ('parameters["V"], pooled', 'parameters["V"].double(), pooled', 'parameters["V"].double()', ["RuntimeError"]),
        ("= hidden.reshape", "= (hidden - hidden.mean()).reshape", "def outputs", ["the outputs of a trial are others"]),
        ("return PooledNetwork\n", "return 3\n", "def network", ["subclass of stsq_core.plugins.Network", "got 3"]),
    ],
)
def test_what_a_plugin_gets_wrong_is_seen_before_it_trains(old: str, new: str, at: str, words: list[str]) -> None:
    wrong = edited(old, new)
    load(wrong)
    with pytest.raises(UserError) as refused:
        try_pair(trial())
    printed = str(refused.value)
    assert printed.startswith(f"selected_max.py:{line_of(wrong.text, at)}: "), printed
    for word in words:
        assert word in printed


MOMENTUM, TERNARY = ((FOLDER / name).read_text() for name in ("momentum.py", "ternary_codes.py"))


@pytest.mark.parametrize(
    ("text", "old", "new", "at", "words"),
    [
        (
            MOMENTUM,
            "def rule(self)",
            "def rules(self)",
            "class Momentum(",
            ["rule() is missing", "plugins.UpdateRule"],
        ),
        (MOMENTUM, '"momentum"', '"adam"', "class Momentum(", ["'adam'", "stsq's own"]),
        (TERNARY, "def codes(self)", "def code(self)", "class Ternary(", ["codes() is missing", "stsq_core.plugins.Codes"]),
        (TERNARY, '"ternary"', '"gaussian"', "class Ternary(", ["'gaussian'", "stsq's own"]),
        (
            TERNARY,
            "class Ternary(PositionalCode)",
            "from stsq_core.configs import Gaussian\n\n\nclass Ternary(Gaussian)",
            "class Ternary(",
            ["a subclass of stsq_core.plugins.PositionalCode; got one of Gaussian"],
        ),
    ],
)
def test_an_optimizer_or_code_that_cannot_work_is_refused(text: str, old: str, new: str, at: str, words: list[str]) -> None:
    wrong = plugin(text.replace(old, new), "own.py")
    with pytest.raises(UserError) as refused:
        load(wrong)
    printed = str(refused.value)
    assert printed.startswith(f"own.py:{line_of(wrong.text, at)}: "), printed
    for word in words:
        assert word in printed


@pytest.mark.parametrize(
    ("text", "old", "new", "at", "words"),
    [
        (MOMENTUM, "return MomentumRule", "return 3", "def rule", ["subclass of stsq_core.plugins.UpdateRule", "got 3"]),
        (MOMENTUM, '("beta",)', '("alpha",)', "def move", ["AttributeError", "alpha"]),
        (MOMENTUM, 'parameter.sub_(states["m"]', 'parameter.sub_(states["n"]', 'states["n"]', ["KeyError"]),
        (MOMENTUM, 'parameter.sub_(states["m"]', 'parameter.sub_(states["m"].mean()', "def move", ["moved parameters", "pack"]),
        (MOMENTUM, "parameter.sub_(", "parameter.div_(0 * ", "def move", ["the moved W", "must be finite"]),
        (TERNARY, "return TernaryCodes", "return dict", "def codes", ["subclass of stsq_core.plugins.Codes", "dict"]),
        (TERNARY, "rows=count, numbers=self.length", "rows=1, numbers=self.length", "def rows", ["shape (1, 5, 7)"]),
        (TERNARY, "3**0.5 * self.scale", "3**0.5", "def rows", ["beyond d_e must be zero"]),
        (TERNARY, "return normals.sign()", "return normals.flip(1).sign()", "def rows", ["a longer draw must begin"]),
        (TERNARY, "normals.abs() > THIRD", "normals.abs() > normals.abs().mean()", "def rows", ["pack of two"]),
    ],
)
def test_what_an_optimizer_or_code_gets_wrong_is_seen_before_it_trains(
    text: str, old: str, new: str, at: str, words: list[str]
) -> None:
    assert old in text
    wrong = plugin(text.replace(old, new), "own.py")
    load(wrong)
    codes = {"kind": "ternary" if text is TERNARY else "random_sign", "d_e": 4}
    config = TrialConfig.model_validate(
        {
            "task": {"T": 5, "q": 2, "d": 2},
            "model": {"kind": "transformer", "positions": codes},
            "optimizer": {"kind": "momentum" if text is MOMENTUM else "adam", "lr": 0.1},
            "training": {"batch_size": 8, "steps": 4},
        }
    )
    with pytest.raises(UserError) as refused:
        try_pair(config)
    printed = str(refused.value)
    assert printed.startswith(f"own.py:{line_of(wrong.text, at)}: "), printed
    for word in words:
        assert word in printed


def test_a_code_and_an_optimizer_of_plugins_keep_the_law_of_the_pack(transformer, fcn) -> None:
    """In packs of mixed widths and optimizers, with both objectives and every redraw."""
    load(plugin(MOMENTUM, "momentum.py"))
    load(plugin(TERNARY, "ternary_codes.py"))
    assert (POSITIONS.added, OPTIMIZERS.added) == (("ternary",), ("momentum",))
    optimizers = [{"kind": "momentum", "lr": 0.3}, {"kind": "adam", "lr": 0.01}, {"kind": "momentum", "lr": 0.1, "beta": 0.5}]
    for objective in ("minibatch", "population"):
        for redraw in ("never", "per_step", "per_sample"):
            codes = {"kind": "ternary", "redraw": redraw}
            training = {"objective": objective, "steps": 6, "batch_size": 8}
            trials = [
                transformer(T=9, model__positions=codes | {"d_e": 9 + i}, training=training, optimizer=o, seed=i % 2)
                for i, o in enumerate(optimizers)
            ]
            try_pair(trials[0])
            together = [result.relative_loss for result in train_pack(trials)]
            assert [train_pack([one])[0].relative_loss for one in trials] == together
    config = fcn(optimizer=optimizers[0])
    assert plugins_of(config).keys() == {"momentum.py"}
    assert plugins_of(trials[0]).keys() == {"momentum.py", "ternary_codes.py"}
    assert TrialConfig.model_validate(config.model_dump()) == config
    assert {"Momentum", "Ternary"} <= TrialConfig.model_json_schema()["$defs"].keys()


def test_a_good_plugin_and_our_own_pairs_pass(fcn) -> None:
    load(plugin())
    try_pair(trial())
    try_pair(trial(num_samples=20))
    try_pair(fcn())
