"""What a shell may complete: sweeps, run directories, fields of `--set`; names are those of files, and of a sweep's groups."""

from collections.abc import Iterable
from pathlib import Path

import typer


def runs(incomplete: str) -> list[str]:
    """Run directories: those of `runs/`, or of the folder that was typed."""
    return _beginning(incomplete, (path for path in _beside(incomplete) if (path / "spec.yaml").is_file()))


def sweeps(incomplete: str) -> list[str]:
    """Names of the catalogue, YAML files and run directories."""
    from sweeps.cells import catalog_names

    files = (path for path in _beside(incomplete, Path()) if path.suffix in (".yaml", ".yml"))
    return [*_beginning(incomplete, catalog_names()), *_beginning(incomplete, files), *runs(incomplete)]


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """The beginnings of `--set`: `task.T=`, and the groups of the sweep on the line, `transformer:`; behind one all fields."""
    from sweeps.schema import settable_fields

    group, colon, field = incomplete.rpartition(":")
    fields = [f"{group}{colon}{name}=" for name in settable_fields() if name.startswith(field)]
    typed = [*filter(None, (ctx.params.get("sweep"), *ctx.args))]  # while `--set` has no value, SWEEP is not parsed yet
    groups = [] if colon or not typed else _groups(typed[0])
    return [*(f"{name}:" for name in groups if name.startswith(incomplete)), *fields]


def _groups(sweep: str) -> list[str]:
    """The names of a sweep's groups of trials; none of what cannot be read, for a key that is pressed must not fail."""
    from cluster.run import located
    from stsq_core.configs import UserError
    from sweeps.cells import sweep_text
    from sweeps.schema import parse

    try:
        trials = parse(sweep_text(located(sweep, None)[0]), sweep).data["trials"]
        return [group["name"] for group in trials]
    except (UserError, KeyError, TypeError):
        return []


def _beside(incomplete: str, default: Path = Path("runs")) -> list[Path]:
    folder, slash, _ = incomplete.rpartition("/")
    parent = Path(folder + slash) if slash else default
    return sorted(parent.iterdir()) if parent.is_dir() else []


def _beginning(incomplete: str, names: Iterable[object]) -> list[str]:
    return [name for name in map(str, names) if name.startswith(incomplete.removeprefix("./"))]
