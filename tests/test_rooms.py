"""The house: each room has its guest libraries, and imports go downwards only."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster")
GUESTS = {
    "torch": "stsq_core",
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


def imports(path: Path) -> list[tuple[int, str]]:
    """(line, top-level name) of every import in a module, wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.append((node.lineno, node.module.split(".")[0]))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_downwards_and_its_own_guests_only(room: str) -> None:
    modules = sorted((ROOT / room).rglob("*.py"))
    assert modules
    upwards = set(ROOMS[ROOMS.index(room) + 1 :])
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules
        for line, name in imports(path)
        if name in upwards or (name in GUESTS and GUESTS[name] != room)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("room", "guests"),
    [("stsq_core", ["torch"]), ("sweeps", ["torch", "optuna"]), ("dashboards", ["torch", "wandb", "plotly"])],
)
def test_importing_a_room_does_not_load_heavy_guests(room: str, guests: list[str]) -> None:
    code = f"import sys, {room}; print([g for g in {guests!r} if g in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_no_test_folder_is_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
