"""Where runs appear in W&B: project, entity and tags, each from the first source that has it.

1. the caller (`--wandb-project`, `--wandb-entity`, `--wandb-tags`);
2. the environment (`WANDB_PROJECT`, `WANDB_ENTITY`, `WANDB_TAGS`, the last with commas between);
3. the last request of a caller for this run directory, kept in `RUN/wandb/asked.json`, so that a later `sync` goes to the
   same place;
4. the sweep file (`wandb.project`, `wandb.entity`, `wandb.tags`);
5. the project `stsq` of the account's own entity, without tags.

The order of sources for the mode is in `mode`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from stsq_core.configs import UserError
from sweeps.schema import WandbSettings, first_problem
from sweeps.store import disk_errors, sealed, unsealed, warn_once, write_atomically

PROJECT = "stsq"


@dataclass(frozen=True)
class Asked:
    """The part of a destination that one source gives; None where it gives nothing."""

    project: str | None = None
    entity: str | None = None
    tags: tuple[str, ...] | None = None

    def beside(self, other: "Asked") -> "Asked":
        """This source's fields, and the other's where this one has none."""
        return Asked(self.project or other.project, self.entity or other.entity, other.tags if self.tags is None else self.tags)


NOTHING_ASKED = Asked()


@dataclass(frozen=True)
class Destination:
    """A project of an entity (None: the account's own), and the tags of every run."""

    project: str
    entity: str | None
    tags: tuple[str, ...]


def choose_destination(
    caller: Asked, settings: WandbSettings, folder: Path, *, environment: Mapping[str, str] = os.environ
) -> Destination:
    """The destination of a run directory whose W&B files lie in `folder`; keeps the caller's request there.

    Raises:
        UserError: the folder cannot be written.
    """
    path = folder / "asked.json"
    earlier = (read_asked(path) if path.exists() else None) or NOTHING_ASKED
    if caller != NOTHING_ASKED and (kept := caller.beside(earlier)) != earlier:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, sealed(json.dumps(asdict(kept)).encode()))
    asked = caller.beside(_of(environment)).beside(earlier).beside(_of_sweep(settings))
    return Destination(asked.project or PROJECT, asked.entity, asked.tags or ())


def destination_words(
    caller: Asked, settings: WandbSettings, folder: Path, *, environment: Mapping[str, str] = os.environ
) -> str:
    """The project and the entity that `choose_destination` chooses, and who named each."""
    path = folder / "asked.json"
    sources = (
        ("--wandb-{}", caller),
        ("WANDB_{}", _of(environment)),
        ("asked for before", (read_asked(path) if path.exists() else None) or NOTHING_ASKED),
        ("the sweep", _of_sweep(settings)),
        ("by default", Asked(PROJECT, "your own")),
    )

    def words(name: str) -> str:
        source, value = next((source, value) for source, one in sources if (value := getattr(one, name)))
        return f"{name} {value} ({source.format(name.upper() if source.startswith('WANDB') else name)})"

    return f"{words('project')}, {words('entity')}"


def check_names(caller: Asked, *, environment: Mapping[str, str] = os.environ) -> None:
    """Check the names that the caller and the environment give, as those of a sweep file are.

    Raises:
        UserError: a name that W&B would refuse.
    """
    for asked, source in ((caller, "--wandb-{}"), (_of(environment), "WANDB_{}")):
        given = {name: value for name, value in vars(asked).items() if value is not None}
        try:
            WandbSettings.model_validate(given)
        except ValidationError as error:
            (name, *_), problem = first_problem(error, WandbSettings, given)
            option = source.format(name if asked is caller else str(name).upper())
            raise UserError(f"{option}: {problem}") from None


def tags_of(text: str) -> tuple[str, ...]:
    """Tags written with commas between."""
    return tuple(tag.strip() for tag in text.split(",") if tag.strip())


def _of(environment: Mapping[str, str]) -> Asked:
    tags = environment.get("WANDB_TAGS")
    project, entity = (environment.get(name) or None for name in ("WANDB_PROJECT", "WANDB_ENTITY"))
    return Asked(project, entity, tags_of(tags) if tags else None)


def _of_sweep(settings: WandbSettings) -> Asked:
    return Asked(settings.project, settings.entity, settings.tags)


def read_asked(path: Path) -> Asked | None:
    """The request kept in a file; None where it is damaged, which is said."""
    try:
        return _ASKED.validate_python(unsealed(path.read_bytes())[0])
    except (OSError, ValueError) as error:
        warn_once(f"{path} is damaged and left out ({type(error).__name__}): project, entity and tags are those of the sweep")
        return None


_ASKED = TypeAdapter(Asked)
