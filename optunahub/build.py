"""Make the folder that is published on OptunaHub, from the sampler's own source.

    python optunahub/build.py build/optunahub

writes `build/optunahub/package/samplers/threshold_sampler`: the modules of `sweeps/sampler`, which need optuna, numpy and scipy
alone, with imports from within the package, and README, example, test and licence. The tables of the README are those of
docs/search.md.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("package/samplers/threshold_sampler")


def tables() -> dict[str, str]:
    """What the README takes from docs/search.md, by its placeholder."""
    text = (ROOT / "docs/search.md").read_text()
    rows = re.findall(r"^\| (?:ours|TPE|GP|random|even|bisection) 24 \|.*\|$", text, re.MULTILINE)
    head = (
        "| search, trials | cells | own error median, p90 | error by this posterior median, p90 | interval, log m | coverage |"
    )
    objectives = re.search(r"^\| objective \|.*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    machine = re.search(r"`make bench-search` on (.*?): ", text)
    assert len(rows) == 6
    assert objectives
    assert machine
    return {
        "COMPARISON": "\n".join([head, "|---|---|---|---|---|---|", *rows]).replace("| ours 24 |", "| this sampler 24 |"),
        "COMPARISON_COMMAND": "make bench-search",
        "COMPARISON_MACHINE": machine[1],
        "OBJECTIVES_COMMAND": "python tests/benchmarks/objectives.py",
        "OBJECTIVES": objectives[0],
    }


def build(folder: Path) -> Path:
    """Write the package below a folder; returns where it is."""
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    for module in sorted((ROOT / "sweeps/sampler").glob("[!_]*.py")):
        (package / module.name).write_text(module.read_text().replace("from sweeps.sampler.", "from ."))
    for file in sorted((ROOT / "optunahub/threshold_sampler").glob("*.*")):
        shutil.copy(file, package)
    shutil.copy(ROOT / "LICENSE", package)
    readme = package / "README.md"
    text = readme.read_text()
    for name, table in tables().items():
        text = text.replace(f"@{name}@", table)
    readme.write_text(text)
    return package


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python optunahub/build.py FOLDER")
    print(build(Path(sys.argv[1])))
