"""Runs sweeps and draws their pictures in the documentation: `make pictures`. The others come from longer runs, by hand.

`drawn.json` beside it has, of each picture, the hashes of the file and of what decides it; `tests/test_pictures.py` compares.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from stsq import load_sweep
from stsq_core.configs.trial import NUMERICS

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
PICTURES = {
    "quickstart.png": ("quickstart", "thresholds.png"),
    "width_vs_T.png": ("width_vs_T", "thresholds.png"),
    "width_vs_T_phases.png": ("width_vs_T", "phases.png"),
}
"""Of each picture the sweep and the figure of its report."""


def hashes(name: str) -> dict[str, str]:
    """The hash of a picture and that of its sweep, the random numbers and the code that draws."""
    sources = [*sorted((ROOT / "dashboards/plots").glob("*.py")), ROOT / "dashboards/paper/figures.py"]
    code = [path.read_text(encoding="utf-8") for path in sources]
    decides = "\n".join([load_sweep(PICTURES[name][0]).as_yaml(), str(NUMERICS), *code])
    return {"picture": _hash((FOLDER / name).read_bytes()), "from": _hash(decides.encode())}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def main(runs: Path) -> None:
    """Run the sweeps in the folder `runs`, or continue them, draw the reports and take the pictures from them."""
    for sweep in sorted({sweep for sweep, _ in PICTURES.values()}):
        for command in (("run", sweep, "--wandb", "disabled", "--out", str(runs / sweep)), ("report", str(runs / sweep))):
            subprocess.run([sys.executable, "-m", "stsq", *command], cwd=ROOT, check=True)
    for name, (sweep, figure) in PICTURES.items():
        shutil.copyfile(runs / sweep / "report" / figure, FOLDER / name)
    (FOLDER / "drawn.json").write_text(json.dumps({name: hashes(name) for name in PICTURES}, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
