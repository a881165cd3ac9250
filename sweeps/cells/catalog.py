"""The catalogue: sweeps that come with the project, each a YAML file with its hypothesis in words."""

from pathlib import Path

from stsq_core.configs import UserError
from sweeps.schema import listed, suggestion

FOLDER = Path(__file__).parents[1] / "catalog"


def catalog_names() -> tuple[str, ...]:
    """The names of the catalogue's sweeps, in order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def catalog_path(name: str) -> Path:
    """The file of a catalogue sweep.

    Raises:
        UserError: no sweep of that name; the message lists the names there are.
    """
    if name not in catalog_names():
        raise UserError(
            f"there is no sweep {name!r}{suggestion(name, catalog_names())}; the catalogue holds {listed(catalog_names())}: "
            "give one of these names, or the path of a YAML file"
        )
    return FOLDER / f"{name}.yaml"


def read_catalog(name: str) -> str:
    """The YAML text of a catalogue sweep.

    Raises:
        UserError: no sweep of that name.
    """
    return catalog_path(name).read_text(encoding="utf-8")
