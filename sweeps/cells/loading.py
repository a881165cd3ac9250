"""Reading a sweep: a catalogue name or a YAML file, changed by settings, checked as a whole, refused with file and line."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stsq_core.configs import SAMPLES, TrialConfig, UserError, shown
from sweeps.cells.cell import describe
from sweeps.cells.expanded_sweep import ExpandedSweep
from sweeps.cells.named_in_results import check_metric, check_names
from sweeps.cells.sweep_schema import SCHEMA_ID
from sweeps.schema import (
    PlacedError,
    Slug,
    SweepSpec,
    YamlDocument,
    apply_settings,
    as_kept,
    check_seal,
    first_problem,
    nearest,
    parse,
    storage_beyond_a_file,
    suggestion,
    thinned,
    to_blame,
    unsealed,
)

CATALOG = Path(__file__).parents[1] / "catalog"
"""The sweeps that come with the project, each a YAML file with its hypothesis in words."""

SCHEMA_FILE = "sweep.schema.json"
"""The JSON Schema of sweep files beside them, which their first line names for editors (`make reference` writes it)."""

KEPT = re.compile(r"spec(\.\d+)?\.yaml")
BESIDE_KEPT = ("lock", "ledger.jsonl")
"""The file in which a run directory keeps its sweep has this name, and one of these beside it."""

MAX_BYTES = 4 * 1024 * 1024

_NAME: TypeAdapter[str] = TypeAdapter(Slug)
STORAGE = ("search", "storage")


def load_sweep(name_or_path: str | Path, settings: Sequence[str] = ()) -> SweepSpec:
    """Read a sweep from the catalogue or from a YAML file, with `--set` settings applied, and check every trial it declares.

    Args:
        name_or_path: a name that `catalog_names` lists, or the path of a YAML file.
        settings: strings such as `task.T=16,32` (every group), `NAME:task.T=16` (one group), `seeds=5`,
            `criterion.target_loss=0.2`.

    Raises:
        UserError: an unknown sweep, a file that cannot be read, malformed YAML, a bad field or value, a storage that only a
            setting may name, an invalid trial, or no trials; the message begins with `file:line: dotted.path`, or with the
            setting that is to blame.
    """
    return load_expanded(name_or_path, settings).spec


def load_expanded(name_or_path: str | Path, settings: Sequence[str] = ()) -> ExpandedSweep:
    """`load_sweep` with the cells that its check has expanded; the sweep of a run directory is read as it was meant."""
    path = sweep_path(name_or_path)
    source = path.name if path.parent == CATALOG else str(path)
    text, notes = _text_of(path), tuple[str, ...]()
    document = parse(text, source)
    is_kept = KEPT.fullmatch(path.name) is not None and any(path.with_name(name).exists() for name in BESIDE_KEPT)
    if is_kept:
        check_seal(text, source)
        document, notes = as_kept(document)
    written = document
    document = apply_settings(written, settings)
    if not document.is_set(STORAGE) and (reason := storage_beyond_a_file(_at(document.data, STORAGE))):
        raise document.error(STORAGE, reason)
    try:
        expanded = check_sweep(document, is_kept=is_kept)
    except UserError:
        if blame := to_blame(written, settings, lambda changed: check_sweep(changed, is_kept=is_kept)):
            check_sweep(document.blaming(blame), is_kept=is_kept)  # raises the same in other words
        raise
    return replace(expanded, notes=(*notes, *_notes_on_axes(expanded.spec)))


def _notes_on_axes(spec: SweepSpec) -> Iterator[str]:
    for group in spec.trials:
        zipped = ((name, entry) for name, entries in group.zip.items() for entry in entries)
        for name, axis in (*group.grid.items(), *zipped):
            if reason := thinned(axis):
                yield f"{group.name}: {name} takes {reason}"


def catalog_names() -> tuple[str, ...]:
    """The names of the catalogue's sweeps, in order."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.yaml")))


def catalog_path(name: str) -> Path:
    """The file of a catalogue sweep.

    Raises:
        UserError: no sweep of that name; the message lists the names there are.
    """
    if name not in catalog_names():
        near = suggestion(name, catalog_names()) or suggestion_of_run(Path(name))
        raise UserError(
            f"there is no sweep {shown(name)}{near}; the catalogue holds {nearest(name, catalog_names())} (`stsq list`): "
            "give one of its names, the path of a YAML file, or a run directory"
        )
    return CATALOG / f"{name}.yaml"


def suggestion_of_run(path: Path) -> str:
    """`; did you mean runs/quickstart?` where a run directory has nearly the name of one that is not there, else nothing."""
    folders = [folder for folder in (Path("runs"), path.parent) if folder.is_dir()]  # of two of one name, the one beside it
    runs = {str(place.name): str(place) for folder in folders for place in folder.iterdir() if (place / "spec.yaml").is_file()}
    near = difflib.get_close_matches(path.name, sorted(runs))
    return f"; did you mean {' or '.join(runs[name] for name in near)}?" if near else ""


def read_catalog(name: str) -> str:
    """The YAML text of a catalogue sweep.

    Raises:
        UserError: no sweep of that name.
    """
    return catalog_path(name).read_text(encoding="utf-8")


def sweep_text(name_or_path: str | Path) -> str:
    """The YAML text of a sweep; of one that a run directory keeps, without its checksum.

    Raises:
        UserError: an unknown sweep, or a file that cannot be read.
    """
    return unsealed(_text_of(sweep_path(name_or_path)))


def copy_sweep(name_or_path: str | Path, file: Path) -> None:
    """Write a sweep to a new file, under the name of the file, and beside it the JSON Schema that its first line names.

    Raises:
        UserError: an unknown sweep, a file that is there already or cannot be written, or one whose stem is no name.
    """
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(f"{file} must end in .yaml: a sweep is known by it")
    try:
        name = _NAME.validate_python(file.stem)
    except ValidationError as error:
        raise UserError(f"{file} gives its sweep the name {file.stem}: {first_problem(error, SweepSpec, None)[1]}") from None
    text = re.sub(r"^name:.*$", f"name: {name}", sweep_text(name_or_path), count=1, flags=re.MULTILINE)
    if sweep_path(name_or_path).parent == CATALOG:  # where comments tell of runs and of what was known when claims were written
        first, _, rest = text.partition("\n")
        text = (
            f"{first}\n# Copied from stsq's {name_or_path}: what comments say of runs and claims is about that sweep.\n{rest}"
        )
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
        if f"$schema={SCHEMA_FILE}" in text:
            _put_schema_beside(file)
    except FileExistsError:
        raise UserError(f"{file} is there already, and is kept as it is: give another name") from None
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from None


def _put_schema_beside(file: Path) -> None:
    """Copy the JSON Schema into the folder of a sweep file, so that both travel together; another file of its name is kept."""
    schema, beside = (CATALOG / SCHEMA_FILE).read_text(encoding="utf-8"), file.with_name(SCHEMA_FILE)
    if not beside.exists() or f'"$id": "{SCHEMA_ID}"' in beside.read_text(encoding="utf-8", errors="replace"):
        beside.write_text(schema, encoding="utf-8")


def sweep_path(name_or_path: str | Path) -> Path:
    """The file of a sweep: a path where it looks like one or exists, else a catalogue name."""
    path = Path(name_or_path)
    looks_like_path = isinstance(name_or_path, Path) or "/" in name_or_path or path.suffix in (".yaml", ".yml")
    if looks_like_path or (path.is_file() and name_or_path not in catalog_names()):
        if path.is_file():
            return path
        what = "is a directory" if path.is_dir() else "does not exist"
        of_run, of_catalog = suggestion_of_run(path), suggestion(path.stem, catalog_names())
        near = (of_catalog or of_run) if path.suffix in (".yaml", ".yml") else (of_run or of_catalog)
        raise UserError(
            f"the sweep file {str(path)!r} {what}{near}: give a YAML file, a run directory, or a name of the catalogue, such "
            f"as {nearest(path.stem, catalog_names())} (`stsq list`)"
        )
    return catalog_path(str(name_or_path))


def sweep_name(name_or_path: str | Path) -> str | None:
    """The name that a sweep's file gives it, without a check of the rest; None where it gives none that may be one.

    Raises:
        UserError: an unknown sweep, or a file that cannot be read or is no YAML.
    """
    path = sweep_path(name_or_path)
    data = parse(_text_of(path), str(path)).data
    name = data.get("name") if isinstance(data, dict) else None
    try:
        return _NAME.validate_python(name)
    except ValidationError:
        return None


def check_sweep(document: YamlDocument, *, is_kept: bool = False) -> ExpandedSweep:
    """The sweep that a document declares, with its cells; `is_kept` is one of a run directory, settings applied.

    Raises:
        UserError: as `load_sweep`.
    """
    if not isinstance(document.data, dict):
        raise document.error((), f"a sweep is a mapping with name, hypothesis and trials; got {type(document.data).__name__}")
    try:
        spec = SweepSpec.model_validate(document.data)
        sweep = ExpandedSweep.of(spec)
        cells = [cell.trials.families[0].sample for cell in sweep.cells] + [cell.family.sample for cell in sweep.searched]
        if document.has_settings and not document.is_set(("laws", "held_out")):
            # A sweep narrowed by --set may have lost the cells that its file holds out.
            spec = spec.model_copy(update={"laws": spec.laws.met_by(cells)})
            sweep = replace(sweep, spec=spec)
        spec.laws.check(cells)
        _check_targets(spec, cells)
        check_metric(spec, (*sweep.cells, *sweep.searched))
        if not (document.has_settings or is_kept):  # narrowed, it may have lost the cells that claims are about
            check_names(spec, (*sweep.cells, *sweep.searched))
    except ValidationError as error:
        raise document.error(*first_problem(error, SweepSpec, document.data)) from None
    except PlacedError as error:
        raise document.error(error.path, error.problem) from None
    return sweep


def _check_targets(spec: SweepSpec, cells: Sequence[TrialConfig]) -> None:
    """Refuse a criterion of samples whose trials do not look for its target."""
    criterion = spec.criterion
    for config in cells:
        target = config.evaluation.target
        if criterion.size == SAMPLES and target != criterion.target:
            raise PlacedError(
                ("criterion", "of"),
                f"samples are counted up to evaluation.target, which must be criterion.target_loss={criterion.target}; "
                f"got evaluation.target={target} for {describe(config)}: set evaluation.target, and evaluation.every, to match",
            )


def _at(data: Any, path: Sequence[str]) -> Any:
    """What stands at a path of nested mappings; None where nothing does."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"the sweep file {str(path)!r} holds {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"the sweep file {str(path)!r} is not UTF-8 text: give a YAML file") from None
    except OSError as error:
        raise UserError(f"the sweep file {str(path)!r} cannot be read: {error.strerror}") from None
