"""What the package says of itself: its page on an index, its classifiers, its citation, and how to report something."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import stsq

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAPER = ("Wang", "Wei", "Hsu", "Lee")
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
package_page = runpy.run_path(str(ROOT / "setup.py"), run_name="read")["package_page"]


def links_of(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """The metadata of the wheel, as a build makes them, of a copy of the project."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "stsq", source / "stsq")
    (source / "out").mkdir()
    build = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel('out'))"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    folder = source / "out" / done.stdout.splitlines()[-1]
    return Parser().parsestr((folder / "METADATA").read_text("utf-8"))


@pytest.mark.slow
def test_the_package_page_has_no_link_that_leads_nowhere(metadata: Message) -> None:
    page = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert page.startswith("# stsq")
    assert all(link.startswith(("https://", "#")) for link in links_of(page))
    assert "stsq run width_vs_T" in page


@pytest.mark.slow
def test_no_address_of_the_project_is_made_up(metadata: Message) -> None:
    assert (metadata.get_all("Project-URL") or []) == [f"{name}, {url}" for name, url in PROJECT.get("urls", {}).items()]


def test_pictures_and_their_captions_are_left_out_where_no_address_is_known() -> None:
    page = package_page((ROOT / "README.md").read_text("utf-8"), repository=None, version="1.0")
    assert "![" not in page
    assert "The figure drawn by" not in page
    assert "[arXiv:2406.06893](https://arxiv.org/abs/2406.06893)" in page
    assert "read exit codes, find files | docs/usage.md |" in page


def test_links_and_pictures_are_absolute_where_the_address_is_known() -> None:
    text = "![a](docs/a.png)\n\n*Shown.*\n\n[b](docs/b.md#c), [d](https://d.org), [e](#e)"
    base = "https://host/owner/stsq"
    assert package_page(text, repository=base + "/", version="1.0") == (
        f"![a]({base}/raw/v1.0/docs/a.png)\n\n*Shown.*\n\n[b]({base}/blob/v1.0/docs/b.md#c), [d](https://d.org), [e](#e)"
    )


def test_this_python_is_among_those_that_the_package_names() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


def test_the_citation_keeps_the_papers_authors_apart_from_ours() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    [paper] = citation["references"]
    assert citation["version"] == stsq.__version__
    assert [author["family-names"] for author in paper["authors"]] == [*PAPER]
    assert not set(PAPER) & {author.get("family-names", author.get("name")) for author in citation["authors"]}
    assert "2406.06893" in paper["url"]


def test_whoever_reports_something_is_asked_for_what_is_needed_to_repeat_it() -> None:
    texts = {path.stem: path.read_text("utf-8") for path in TEMPLATES}
    assert set(texts) == {"idea", "problem", "wrong_number"}
    for name in ("problem", "wrong_number"):
        assert "stsq doctor" in texts[name]
        assert "sweep file" in texts[name]
    for text in texts.values():
        assert re.match(r"---\nname: .+\nabout: .+\n---\n\n", text)
