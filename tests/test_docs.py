"""Links, paths, dotted names, tests, commands and options in README, CONTRIBUTING, SECURITY, issue templates and docs exist."""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cluster.commands.cli import app
from stsq_core import UserError
from sweeps.cells.expanded_sweep import ExpandedSweep
from sweeps.cells.loading import load_sweep

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
ROOMS = "stsq_core|sweeps|dashboards|cluster|stsq"
STSQ = typer.main.get_command(app)

FOREIGN_OPTIONS = {
    *("--address", "--working-dir", "--runtime-env-json", "--metrics-export-port", "--generate"),  # ray
    *("--wait", "--signal", "--dependency", "--me"),  # Slurm
    *("--rm", "--device", "--time", "--from-literal"),  # podman, kubectl
    *("--durations", "--pairs"),
}
"""Options of other programs that the docs name on their own."""


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def code_of(page: Path) -> list[str]:
    """Fenced lines and inline code spans, each with its line breaks removed."""
    text = re.sub(r"^```diff\n.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```\w*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    return [line for block in fenced for line in block.splitlines()] + [" ".join(span.split()) for span in spans]


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture(params=PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def page(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def examples(page: Path) -> list[str]:
    """The sweeps that a page shows from their name on."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return [block for block in blocks if re.match(r"name: ", block)]


def test_every_complete_sweep_of_the_docs_loads(page: Path, tmp_path: Path) -> None:
    if page.name in ("plugins.md", "modules.md"):
        pytest.skip("its sweeps are of kinds that plugins add")
    for place, block in enumerate(examples(page)):
        (file := tmp_path / f"{place}.yaml").write_text(block)
        load_sweep(file)


def test_the_example_with_learned_codes_is_refused_and_mended_as_the_page_says(tmp_path: Path) -> None:
    (block,) = examples(ROOT / "docs/sweep_file.md")
    assert "complete:\n\n```yaml\n" + block in text_of(ROOT / "docs/sweep_file.md")
    learned = block.replace("model.positions.query: [sum, dual]", "model.positions.kind: [random_sign, learned]")
    for old, new, reason in (
        ("kind: random_sign, redraw: per_step, query: dual", "", "objective: population is defined for the model of Theorem 1"),
        ("objective: population", "objective: minibatch", "there is nothing to redraw"),
    ):
        (file := tmp_path / "half.yaml").write_text(learned.replace(old, new))
        with pytest.raises(UserError, match=reason):
            load_sweep(file)
    (file := tmp_path / "mended.yaml").write_text(learned.replace("redraw: per_step, ", "").replace("population", "minibatch"))
    assert len(ExpandedSweep.of(load_sweep(file)).searched) == 2


def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in slugs(target)):
            broken.append(link)
    assert broken == []


def test_the_sweep_of_many_packs_is_one_of_so_many() -> None:
    """What docs/scale.md says of it."""
    sweep = ExpandedSweep.of(load_sweep(str(ROOT / "docs/sweeps/many_packs.yaml")))
    trials = [trial for cell in sweep.cells for trial in cell.trials]
    assert (len(sweep.cells), len(trials), {trial.training.steps for trial in trials}) == (120, 120, {20_000})


def test_every_page_of_docs_is_in_the_index() -> None:
    index = ROOT / "docs/index.md"
    listed = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", text_of(index))}
    listed |= {
        link.parent / name
        for link in listed
        if link.name == "index.md"
        for name in re.findall(r"\]\((\w+\.md)\)", text_of(link))
    }
    assert {page for page in PAGES if page.is_relative_to(index.parent)} - {index} - listed == set()


def test_every_path_exists(page: Path) -> None:
    named = re.findall(rf"(?<![\w/.~-])((?:{ROOMS}|tests|docs)/[\w./-]*\w/?)", "\n".join(code_of(page)))
    assert [path for path in named if not re.search(r"\b[A-Z]{3,}", path) and not (ROOT / path).exists()] == []


@cache
def names_of_tests() -> tuple[set[str], set[str]]:
    """The names of all test files and of all tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    text = "\n".join(map(text_of, files))
    return {path.name for path in files}, set(re.findall(r"^(?:async )?def (test_\w+)", text, flags=re.MULTILINE))


def test_every_test_exists(page: Path) -> None:
    files, defined = names_of_tests()
    text = "\n".join(code_of(page))
    assert [name for name in re.findall(r"\btest_\w+\.py\b", text) if name not in files] == []
    for name, more in re.findall(r"\b(test_\w+)\b(?!\.py)(\*|\.\.\.)?", text):
        assert name in defined or (more and any(one.startswith(name) for one in defined)), name


def exists(dotted: str) -> bool:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        if found is None:
            continue
        value = importlib.import_module(name) if length < len(parts) else None
        for attribute in parts[length:]:
            if not hasattr(value, attribute):
                return attribute in getattr(value, "model_fields", {})
            value = getattr(value, attribute)
        return True
    return False


def test_every_dotted_name_exists(page: Path) -> None:
    named = re.findall(rf"(?<![\w./-])((?:{ROOMS})(?:\.\w+)+)", "\n".join(code_of(page)))
    unknown = [name for name in dict.fromkeys(named) if name != "stsq.plugins" and not exists(name)]  # a group of entry points
    assert unknown == []


def commands(page: Path) -> Iterator[str]:
    """What follows `stsq` in the code of a page, without comments and what other commands follow."""
    for code in code_of(page):
        for found in re.findall(r"(?:^|\$ |-- |'|&& |; )(?:stsq|python -m stsq) ([a-z-][^;#'&]*)", code):
            yield found.split("  ")[0]


def children(command: Any) -> dict[str, Any]:
    """The commands of a group; a command that is no group has none."""
    return getattr(command, "commands", {})


def problem(words: list[str]) -> str:
    """What is wrong with a command line, or nothing."""
    command: Any = STSQ
    path: list[str] = []
    while children(command) and words and not words[0].startswith("-"):
        first, *words = words
        alternatives = first.split("|")
        if missing := [name for name in alternatives if name not in children(command)]:
            return f"no command {' '.join([*path, *missing])}"
        path.append(first)
        command = children(command)[alternatives[0]]
    own, _, passed = " ".join(words).partition(" -- ")
    for part, owner in ((own, command), (passed, children(STSQ)["run"])):
        options = {option for parameter in owner.params for option in parameter.opts} | {"--help", "-h"}
        if unknown := [option for option in re.findall(r"(?<!\S)\[?(--[a-z][\w-]*)", part) if option not in options]:
            return f"{' '.join(path)} has no option {unknown}"
    return ""


def test_every_command_exists(page: Path) -> None:
    assert [(command, wrong) for command in commands(page) if (wrong := problem(command.split()))] == []


def all_options(command: Any) -> set[str]:
    own = {option for parameter in command.params for option in parameter.opts}
    return own.union(*map(all_options, children(command).values()))


def test_every_option_exists(page: Path) -> None:
    """Options named on their own, such as `--cpu-workers N`, belong to stsq, to a benchmark or to a named other program."""
    benchmarks = "\n".join(map(text_of, (ROOT / "tests/benchmarks").rglob("*.py")))
    known = all_options(STSQ) | set(re.findall(r'"(--[\w-]+)"', benchmarks)) | FOREIGN_OPTIONS
    named = [found[1] for code in code_of(page) if (found := re.match(r"(?:-- )?(--[a-z][\w-]*)", code))]
    assert [option for option in named if option not in known] == []
