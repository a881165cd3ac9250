"""Pages of the documentation site that are no files of this folder: README, CHANGELOG, CONTRIBUTING, and the reference.

mkdocs calls `on_files` and `on_page_markdown` (mkdocs.yml: hooks).
"""

import importlib
import re
from pathlib import Path
from types import ModuleType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
BORROWED = {"README.md": "start.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the project and the pages that they become."""

OWN = ("stsq_core", "sweeps", "dashboards")
REFERENCE = {
    "training": ("stsq_core", "Training and theory"),
    "sweeps": ("sweeps", "Sweeps, thresholds, run directories, the sampler"),
    "dashboards": ("dashboards", "Reading a run"),
    "plugins": ("stsq_core.plugins.interface", "What a plugin imports"),
}
"""Pages of the reference: a package, whose public names they describe, and a title."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the borrowed pages and the reference."""
    for name, page in BORROWED.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, page, content=text))
    for page, (package, title) in REFERENCE.items():
        files.append(File.generated(config, f"reference/{page}.md", content=reference(package, title)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to borrowed files lead to their pages; those to other files outside of docs become their names."""
    depth = page.file.src_uri.count("/")
    for name, target in BORROWED.items():
        for link in (name, "../" * (depth + 1) + name):
            markdown = markdown.replace(f"]({link})", f"]({'../' * depth}{target})").replace(
                f"]({link}#", f"]({'../' * depth}{target}#"
            )
    pages = {file.src_uri for file in files}
    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", lambda found: _within(found, page, pages), markdown)


def _within(found: re.Match[str], page: Page, pages: set[str]) -> str:
    """A link as it is, or its words alone if it names a file or folder of the project that is no page."""
    words, link = found.groups()
    if "://" in link or link.startswith("#"):
        return found[0]
    path = link.partition("#")[0]
    here = Path(page.file.src_uri).parent
    target = (ROOT / "docs" / here / path).resolve()
    in_docs = target.is_relative_to(ROOT / "docs") and str(target.relative_to(ROOT / "docs")) in pages
    is_page = str(here / path) in pages or in_docs
    return found[0] if is_page or not (target.exists() or (ROOT / path).exists()) else words


def reference(package: str, title: str) -> str:
    """Directives for every public name of a package, each under its home module, where its docstring stands."""
    module = importlib.import_module(package)
    lines = [f"# {title}", f"`{package}`; `stsq` has what most users import."]
    lines += [f"::: {home}" for name in public_names(module) if (home := home_of(module, name))]
    return "\n\n".join(lines)


def public_names(module: ModuleType) -> list[str]:
    return sorted(name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_"))


def home_of(module: ModuleType, name: str) -> str | None:
    """Where a public name is defined; None for what has no docstring of its own, such as a union of types."""
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        return value.__name__
    home = getattr(value, "__module__", None)
    is_own = home is not None and home.partition(".")[0] in OWN and hasattr(value, "__qualname__")
    return f"{home}.{value.__qualname__}" if is_own else None
