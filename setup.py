"""The description of the package for a package index: the README, whose links lead nowhere outside of the repository.

With a `Repository` in pyproject's `[project.urls]` they become links to it. Without one pictures are left out, with their
captions, and of other links the words remain.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
"""A link or a picture whose address is relative."""

PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]+\)\n\n(\*[^*]([^\n]|\n(?!\n))*\*\n\n)?", re.MULTILINE)
"""A picture with the caption in italics below it."""


def package_page(readme: str, *, repository: str | None, version: str) -> str:
    """The README with every relative link made absolute, or taken away."""
    if repository is None:
        return LINK.sub(lambda found: found[2], PICTURE.sub("", readme))
    base = repository.rstrip("/")
    return LINK.sub(
        lambda found: f"{found[1]}[{found[2]}]({base}/{'raw' if found[1] else 'blob'}/v{version}/{found[3]})", readme
    )


def long_description() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [version] = re.findall(r'^__version__ = "(.*)"', (ROOT / "stsq" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    repository = project.get("urls", {}).get("Repository")
    return package_page((ROOT / "README.md").read_text("utf-8"), repository=repository, version=version)


if __name__ == "__main__":
    setup(long_description=long_description(), long_description_content_type="text/markdown")
