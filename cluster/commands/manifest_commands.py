"""`stsq manifest`: the files from which clusters are started, printed to be changed and kept."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from stsq_core.configs import UserError

FOLDER = Path(__file__).parents[1] / "manifests"


def manifest_files() -> dict[str, Path]:
    """The manifests that come with the project, by the names under which they are asked for."""
    return {path.name: path for path in sorted(FOLDER.iterdir()) if path.is_file() and not path.name.startswith((".", "_"))}


def manifest(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A manifest; without one they are listed.")] = None,
) -> None:
    """Print a file to start a cluster from, such as `stsq manifest slurm.sh > slurm.sh`; without a name, list them."""
    files = manifest_files()
    if name is None:
        for known, path in files.items():
            print(f"{known:16} {_what(path)}")
        return
    named = [path for known, path in files.items() if name in (known, path.stem)]
    if not named:
        raise UserError(f"there is no manifest {name!r}: give one of {', '.join(files)}")
    sys.stdout.write(named[0].read_text(encoding="utf-8"))


def _what(path: Path) -> str:
    """What a manifest is: its first comment, or the description of one that is JSON."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return str(json.loads(text).get("description", ""))
    comments = (line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
    return next(comments, "")
