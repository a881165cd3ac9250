"""The gates of the benchmarks: what each has measured, beside its bound, for one table at the end of `make bench`."""

import argparse
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

FILE = "STSQ_GATES"
"""The environment variable that names the file of JSON lines to which the gates of a benchmark are added."""

Verdict = Literal["ok", "missed", "undecided", "not run"]


@dataclass(frozen=True)
class Gate:
    """One measured value and its bound, in words, and whether it is met."""

    benchmark: str
    gate: str
    value: str
    bound: str
    verdict: Verdict


class Gates:
    """The gates of one benchmark, in the order in which they were measured."""

    def __init__(self, benchmark: str, *, toy: bool = False) -> None:
        self.benchmark = benchmark
        self.toy = toy
        self.rows: list[Gate] = []

    def at_least(self, gate: str, value: float, bound: float, unit: str = "") -> None:
        """A value that should be as large as its bound."""
        self._add(gate, value, f"at least {_number(bound, unit)}", unit, met=value >= bound)

    def at_most(self, gate: str, value: float, bound: float, unit: str = "") -> None:
        """A value that should be as small as its bound."""
        self._add(gate, value, f"at most {_number(bound, unit)}", unit, met=value <= bound)

    def undecided(self, gate: str, value: float, bound: str, unit: str = "") -> None:
        """A value whose interval holds the bound."""
        self._add(gate, value, bound, unit, met=None)

    def not_run(self, gate: str, why: str) -> None:
        """What cannot be measured here."""
        self.rows.append(Gate(self.benchmark, gate, why, "", "not run"))

    def end(self) -> int:
        """Print the gates that are missed, add all to the file that `make bench` reads, and return the exit code."""
        if path := os.environ.get(FILE):
            with Path(path).open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in self.rows)
        if self.toy:
            print("toy sizes: no gate holds")
            return 0
        failed = [row for row in self.rows if row.verdict in ("missed", "undecided")]
        print("\n".join(f"{row.verdict}: {row.gate}: {row.value}, {row.bound}" for row in failed) or "every gate is met")
        return exit_code(self.rows)

    def _add(self, gate: str, value: float, bound: str, unit: str, *, met: bool | None) -> None:
        if not math.isfinite(value):
            raise ValueError(f"{self.benchmark}, {gate}: measured {value}")
        verdict: Verdict = "undecided" if met is None else "ok" if met else "missed"
        self.rows.append(Gate(self.benchmark, gate, _number(value, unit), bound, verdict))


def exit_code(rows: list[Gate]) -> int:
    """1 where a gate is missed, else 3 where one is undecided, else 0."""
    verdicts = {row.verdict for row in rows}
    return 1 if "missed" in verdicts else 3 if "undecided" in verdicts else 0


def gates_in(path: Path) -> list[Gate]:
    """The gates in a file of JSON lines."""
    return [Gate(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def parser_of(doc: str) -> argparse.ArgumentParser:
    """A benchmark's parser: `--toy` runs all of it at sizes that take seconds, to see that it works."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="sizes that take seconds and measure nothing: no gate holds")
    return parser


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.3g}%"
    return f"{value:,.3g} {unit}".strip() if abs(value) < 1000 else f"{value:,.0f} {unit}".strip()
