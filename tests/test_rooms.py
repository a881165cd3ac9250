"""The house: rooms and their folders import downwards and through faces, without circles, and stay small."""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FOLDERS = {
    "stsq_core": ("configs", "kernels", "oracles", "numerics", "tasks", "programs", "networks", "training", "plugins"),
    "sweeps": ("schema", "cells", "store", "schedule", "sampler", "thresholds", "laws", "search", "findings"),
    "dashboards": ("words", "plots", "paper", "page", "publishing", "boards", "serving", "notebooks"),
    "cluster": ("environment", "run", "tune", "jobs", "commands"),
    "stsq": (),
}
"""The rooms, and the folders of each, from the ground up: a folder imports those before it only."""

ORDER = [f"{room}.{folder}" for room, folders in FOLDERS.items() for folder in folders]

WITHOUT_FACE = {"cluster.environment"}
"""Folders whose `__init__` holds the code itself: this one looks for lazy_loader, so it cannot have a lazy face."""

GUESTS = {
    "torch": "stsq_core",
    "llvmlite": "stsq_core",
    "numba": "stsq_core",
    "triton": "stsq_core",
    "optuna": "sweeps",
    "wandb": "dashboards",
    "plotly": "dashboards",
    "matplotlib": "dashboards",
    "optuna_dashboard": "dashboards",
    "pandas": "dashboards",
    "starlette": "dashboards",
    "uvicorn": "dashboards",
    "wandb_workspaces": "dashboards",
    "ray": "cluster",
    "typer": "cluster",
    "rich": "cluster",
}

MAX_MODULES = 24
MAX_FLOORS = 8
MAX_WITH_ONE_IMPORTER = 57
MAX_LINES = 48_200


@cache
def modules() -> dict[str, Path]:
    """Every product module by its dotted name; a package by the name of its folder."""
    paths = (path for room in FOLDERS for path in sorted((ROOT / room).rglob("*.py")))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def folder_of(module: str) -> str:
    return module if is_package(module) else module.rpartition(".")[0]


@cache
def face_of(package: str) -> dict[str, str]:
    """The names that a folder offers (its `__init__.pyi`), each with the module or face that it comes from."""
    stub = modules()[package].with_suffix(".pyi")
    offered = {}
    for node in ast.parse(stub.read_text()).body if stub.exists() else ():
        if isinstance(node, ast.AnnAssign):  # a constant
            continue
        assert isinstance(node, ast.ImportFrom), f"{stub}:{node.lineno}: a face holds imports only"
        for alias in node.names:
            assert alias.asname == alias.name, f"{stub}:{node.lineno}: write `{alias.name} as {alias.name}`"
            offered[alias.name] = f"{package}.{node.module or alias.name}" if node.level else str(node.module)
    return offered


def home_of(base: str, name: str) -> str:
    """The module that `from base import name` comes from, seen through faces."""
    if f"{base}.{name}" in modules() and not is_package(f"{base}.{name}"):
        return f"{base}.{name}"
    source = face_of(base).get(name) if is_package(base) else None
    return base if source is None else home_of(source, name) if is_package(source) else source


def imports(path: Path) -> list[tuple[int, str, str]]:
    """(line, module, name) of every import of a module, wherever it stands: lazy and type-checking ones count."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative imports stand in faces only"
            found += [(node.lineno, node.module or "", alias.name) for alias in node.names]
    return found


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Which product modules each product module imports, seen through faces."""
    found = {}
    for module, path in modules().items():
        own = {home_of(base, name) if name else base for _, base, name in imports(path) if base.partition(".")[0] in FOLDERS}
        found[module] = frozenset(own - {module})
    return found


@pytest.mark.parametrize("room", FOLDERS)
def test_a_room_imports_downwards_and_its_own_guests_only(room: str) -> None:
    upwards = set(list(FOLDERS)[list(FOLDERS).index(room) + 1 :])
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {base}"
        for module, path in modules().items()
        if module.partition(".")[0] == room
        for line, base, _ in imports(path)
        if (top := base.partition(".")[0]) in upwards or (top in GUESTS and GUESTS[top] != room)
    ]
    assert wrong == []


def test_every_module_stands_in_a_folder_that_the_order_names() -> None:
    outside = [module for module in modules() if not is_package(module) and folder_of(module) not in ORDER]
    assert outside == ["cluster.__main__", "stsq.__main__"]


def test_folders_import_downwards() -> None:
    wrong = [
        f"{module} imports {target}"
        for module, targets in arrows().items()
        for target in targets
        if folder_of(module) in ORDER
        and folder_of(target) in ORDER
        and ORDER.index(folder_of(target)) > ORDER.index(folder_of(module))
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_other_folders_are_imported_through_their_faces() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports from {base}"
        for module, path in modules().items()
        for line, base, name in imports(path)
        if base.partition(".")[0] in FOLDERS
        if (base in FOLDERS or folder_of(base) != folder_of(module))
        if base not in WITHOUT_FACE and not (base in ORDER and name in face_of(base))
    ]
    assert wrong == []


def test_a_face_says_in_a_sentence_what_its_folder_is_and_offers_what_exists() -> None:
    for folder in [*FOLDERS, *ORDER]:
        if folder in ("cluster", "cluster.commands") and not face_of(folder):
            continue
        tree = ast.parse(modules()[folder].read_text())
        assert (ast.get_docstring(tree) or "").partition("\n")[0].endswith("."), folder
        stems = {path.stem for path in modules()[folder].parent.glob("*.py")}
        for name, source in face_of(folder).items():
            assert source in modules(), f"{folder} offers {name} of {source}, which is no module"
            assert source == f"{folder}.{name}" or name not in stems, f"{folder}: {name} is a module too"


def test_a_face_offers_only_what_others_import() -> None:
    taken = {(base, name) for path in modules().values() for _, base, name in imports(path)}
    public = {
        (home.rpartition(".")[0], name) for room in FOLDERS for name, home in face_of(room).items() for home in [f"{home}.x"]
    }
    idle = [
        f"{folder}.{name}"
        for folder in ORDER
        for name in face_of(folder)
        if (folder, name) not in taken | public and folder != "stsq_core.plugins"
    ]
    assert idle == []


def test_folders_are_small_enough_to_be_read() -> None:
    sizes = Counter(folder_of(module) for module in modules() if not is_package(module))
    assert {folder: num for folder, num in sizes.items() if num > MAX_MODULES} == {}


@pytest.mark.parametrize("room", [room for room, folders in FOLDERS.items() if folders])
def test_a_room_has_few_floors(room: str) -> None:
    below = defaultdict(set)
    for module, targets in arrows().items():
        for target in targets:
            if folder_of(module) != folder_of(target) and folder_of(target).startswith(f"{room}."):
                below[folder_of(module)].add(folder_of(target))

    @cache
    def floor(folder: str) -> int:
        return 1 + max((floor(other) for other in below[folder]), default=0)

    assert max(floor(f"{room}.{folder}") for folder in FOLDERS[room]) <= MAX_FLOORS


def test_few_modules_serve_one_importer_alone() -> None:
    importers = Counter(target for targets in arrows().values() for target in targets)
    alone = [module for module in modules() if not is_package(module) and importers[module] == 1]
    assert len(alone) <= MAX_WITH_ONE_IMPORTER, alone


def test_the_sampler_is_of_use_without_the_rest() -> None:
    """`sweeps/sampler` is published on its own, too."""
    own = {name for module in modules() if module.startswith("sweeps.sampler") for _, name, _ in imports(modules()[module])}
    from_outside = {name.partition(".")[0] for name in own if not name.startswith("sweeps.sampler")} - sys.stdlib_module_names
    assert from_outside == {"numpy", "scipy", "optuna", "lazy_loader"}


def test_every_module_is_reached() -> None:
    reached = {target for targets in arrows().values() for target in targets}
    entries = {
        "cluster.__main__",
        "stsq.__main__",
        "dashboards.publishing.__main__",
        "dashboards.serving.renderer",
        "cluster.commands.cli",
    }
    entries |= {"stsq_core.plugins.interface", "cluster.tune.preloaded"}  # for plugins, for Ray
    public = {home_of(room, name) for room in FOLDERS for name in face_of(room)}
    idle = [module for module in modules() if not is_package(module) and module not in reached | entries | public]
    assert idle == []


def test_the_product_stays_within_its_lines() -> None:
    assert sum(len(path.read_text().splitlines()) for path in modules().values()) <= MAX_LINES


@pytest.mark.parametrize(
    ("room", "guests"),
    [
        ("stsq_core", ["torch"]),
        ("stsq", ["torch", "optuna", "sweeps"]),
        ("sweeps", ["torch", "optuna"]),
        ("dashboards", ["torch", "wandb", "plotly"]),
    ],
)
def test_importing_a_room_does_not_load_heavy_guests(room: str, guests: list[str]) -> None:
    code = f"import sys, {room}; print([g for g in {guests!r} if g in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_kinds_of_model_are_asked_and_not_spelled_outside_the_core() -> None:
    """What differs by kind is a property or method of the architecture's config, so that a new kind is not forgotten."""

    def spelled(node: ast.AST) -> bool:
        asked = (
            [node.left, *node.comparators]
            if isinstance(node, ast.Compare)
            else [node]
            if isinstance(node, ast.MatchValue)
            else []
        )
        constants = (inner.value for part in asked for inner in ast.walk(part) if isinstance(inner, ast.Constant))
        return any(value in ("transformer", "fcn") for value in constants)

    wrong = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        for module, path in modules().items()
        if not module.startswith("stsq_core")
        for node in ast.walk(ast.parse(path.read_text()))
        if spelled(node)
    ]
    assert wrong == []


def test_tests_mirror_the_rooms() -> None:
    for test in (ROOT / "tests").rglob("test_*.py"):
        parts = test.relative_to(ROOT / "tests").parts[:-1]
        if parts and parts[0] in FOLDERS and parts[-1] not in ("chaos", "torture"):
            assert (ROOT / Path(*parts)).is_dir(), f"{test}: there is no folder {'/'.join(parts)}"


def test_no_test_folder_is_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
