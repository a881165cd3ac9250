"""The folder between renderer and server: for each view a page, its parts, its state and the files to download.

A file is replaced whole, and the state, which names the parts by their content, comes last: a reader that finds a newer part
than the state told asks again a moment later.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from dashboards.pages.document import Document, live_html
from sweeps.files import write_atomically


@dataclass(frozen=True)
class Pulse:
    """What a view's top line says: the state in words, and whether anything runs."""

    words: str
    running: bool


class View:
    """One page of the shelf: `root` leads from its address to the server's own files."""

    def __init__(self, folder: Path, *, root: str) -> None:
        self.folder = folder
        self._root = root
        self._hashes: dict[str, str] = {}
        (folder / "parts").mkdir(parents=True, exist_ok=True)

    def put(self, document: Document, pulse: Pulse) -> None:
        """Show a document; only parts that changed are written."""
        parts = document.parts
        hashes = {name: _hash(html) for name, html in parts.items()}
        for name, html in parts.items():
            if self._hashes.get(name) != hashes[name]:
                write_atomically(self.folder / "parts" / f"{name}.html", html.encode())
        if hashes != self._hashes:
            write_atomically(self.folder / "index.html", live_html(document, hashes, root=self._root).encode())
        self._hashes = hashes
        self._tell(pulse)

    def _tell(self, pulse: Pulse) -> None:
        told = {
            "parts": list(self._hashes.items()),
            "pulse": pulse.words,
            "running": pulse.running,
            "drawn_at": time.time(),
        }
        write_atomically(self.folder / "state.json", json.dumps(told).encode())


def _hash(html: str) -> str:
    return hashlib.sha256(html.encode()).hexdigest()[:16]
