"""Paths in what is sent to others: none of them tells where a folder lies on this machine."""

import re
from pathlib import Path

_ABSOLUTE = re.compile(r"(?<![\w.:/~<>-])(?:~|[A-Za-z]:)?[/\\](?:[\w.@%+~-]+[/\\])+([\w.@%+~-]*)")


def shown_path(path: Path | str) -> str:
    """A path as others may see it: a relative one, or what is below the working directory; elsewhere the last part alone."""
    own = Path(path)
    if not own.is_absolute():
        return str(path)
    here = Path.cwd()
    return str(own.relative_to(here)) if own != here and own.is_relative_to(here) else own.name


def without_places(text: str) -> str:
    """A text in which of every absolute path only the last part is left."""
    return _ABSOLUTE.sub(lambda found: found[1] or found[0].rstrip("/\\").rpartition("/")[2], text)
