"""What a shell may complete: sweeps, run directories, fields of `--set`; a name is read from files, and nothing is opened."""

from collections.abc import Iterable
from pathlib import Path


def runs(incomplete: str) -> list[str]:
    """Run directories: those of `runs/`, or of the folder that was typed."""
    return _beginning(incomplete, (path for path in _beside(incomplete) if (path / "spec.yaml").is_file()))


def sweeps(incomplete: str) -> list[str]:
    """Names of the catalogue, YAML files and run directories."""
    from sweeps.cells import catalog_names

    files = (path for path in _beside(incomplete, Path()) if path.suffix in (".yaml", ".yml"))
    return [*_beginning(incomplete, catalog_names()), *_beginning(incomplete, files), *runs(incomplete)]


def settings(incomplete: str) -> list[str]:
    """The beginnings of `--set`: `task.T=`, for a group that was typed as for all."""
    from sweeps.schema import settable_fields

    group, colon, field = incomplete.rpartition(":")
    return [f"{group}{colon}{name}=" for name in settable_fields() if name.startswith(field)]


def _beside(incomplete: str, default: Path = Path("runs")) -> list[Path]:
    folder, slash, _ = incomplete.rpartition("/")
    parent = Path(folder + slash) if slash else default
    return sorted(parent.iterdir()) if parent.is_dir() else []


def _beginning(incomplete: str, names: Iterable[object]) -> list[str]:
    return [name for name in map(str, names) if name.startswith(incomplete.removeprefix("./"))]
