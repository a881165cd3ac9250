"""The folder between renderer and server: for each view a page, its parts, its state and the files to download.

A file is replaced whole. The parts come before the state, which names them by their content, and the state before the page: who
has a page finds its state, and who has a state finds its parts, or newer ones.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dashboards.page import Document, live_html
from sweeps.store import write_atomically


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
        self._tell(hashes, pulse)
        if hashes != self._hashes:
            write_atomically(self.folder / "index.html", live_html(document, hashes, root=self._root).encode())
        self._hashes = hashes

    def _tell(self, hashes: Mapping[str, str], pulse: Pulse) -> None:
        told = {
            "parts": list(hashes.items()),
            "pulse": pulse.words,
            "running": pulse.running,
            "drawn_at": time.time(),
        }
        write_atomically(self.folder / "state.json", json.dumps(told).encode())


def _hash(html: str) -> str:
    return hashlib.sha256(html.encode()).hexdigest()[:16]
