"""What `ray job submit` would upload of a folder, checked before it is sent: its size, and whether the sweep file is in it.

Ray leaves out what `.gitignore` and `.rayignore` name, silently, and refuses a package that is too large only after packing it.
"""

from collections.abc import Callable
from importlib import util
from pathlib import Path

from stsq_core.configs import UserError

ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster")
LIMIT_BYTES = 100 * 2**20
SHOWN = 5

Listing = dict[Path, int]
"""Files of a package, relative to its folder, with their sizes in bytes."""


def packaged_files(folder: Path) -> Listing | None:
    """The files that Ray would upload; None where this version of Ray does not tell."""
    try:
        from ray._private.ray_constants import get_runtime_env_default_excludes
        from ray._private.runtime_env.packaging import _dir_travel, _get_excludes
    except ImportError:
        return None
    root, files = folder.resolve(), Listing()

    def note(path: Path) -> None:
        if path.is_file():
            files[path.relative_to(root)] = path.stat().st_size

    excludes: list[Callable[[Path], bool]] = [_get_excludes(root, list(get_runtime_env_default_excludes()))]
    _dir_travel(root, excludes, note, include_gitignore=True)
    return files


def check_size(folder: Path, files: Listing, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """Refuse a package that Ray would refuse after packing it.

    Raises:
        UserError: the largest files, their sizes and the limit.
    """
    total = sum(files.values())
    if total <= limit_bytes:
        return
    largest = sorted(files.items(), key=lambda item: -item[1])[:SHOWN]
    listed = ", ".join(f"{path} ({size / 2**20:.1f} MiB)" for path, size in largest)
    raise UserError(
        f"the package of {folder} holds {total / 2**20:.0f} MiB and Ray takes at most {limit_bytes / 2**20:.0f} MiB; the "
        f"largest files are {listed}: name what the sweep does not need in .rayignore, or give another --working-dir"
    )


def packaged_path(folder: Path, files: Listing | None, sweep: Path, *, what: str = "sweep file") -> Path:
    """The path inside the package of a file that the job needs.

    Raises:
        UserError: the file lies outside the folder, or the package leaves it out.
    """
    try:
        inside = sweep.resolve().relative_to(folder.resolve())
    except ValueError:
        raise UserError(
            f"the {what} {sweep} does not lie in the working directory {folder}, which is all that is uploaded"
        ) from None
    if files is not None and inside not in files:
        raise UserError(
            f"the {what} {sweep} is excluded from the package by .gitignore or .rayignore, so the cluster would not see "
            "it: move it, or mend the ignore file"
        )
    return inside


def code_to_send(folder: Path, files: Listing | None) -> tuple[Path, ...]:
    """The folders of our own code that must travel beside the package: none where it holds them, as a checkout does.

    So a job runs the code that it was sent with, whatever the cluster has installed.

    Raises:
        UserError: the package holds a folder that would hide our code.
    """
    held = {room for room in ROOMS if _holds(folder, files, Path(room) / "__init__.py")}
    if held == set(ROOMS):
        return ()
    if held:
        raise UserError(
            f"the working directory {folder} holds the Python package {sorted(held)[0]!r}, which would hide the one of stsq on "
            "the cluster: rename it, name it in .rayignore, or give another --working-dir"
        )
    origins = [spec.origin for room in ROOMS if (spec := util.find_spec(room)) and spec.origin]
    return tuple(Path(origin).parent for origin in origins)


def _holds(folder: Path, files: Listing | None, path: Path) -> bool:
    return (folder / path).is_file() if files is None else path in files
