"""Every benchmark runs to its end at toy sizes and prints numbers; `make bench` gathers the gates of all."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from all import RUNS, table
from gates import FILE, Gates, exit_code, gates_in

HERE = Path(__file__).parent
ROWS = {
    "engine": ["minibatch, dual, 4 seeds", "population, sum", "fully connected, pack of 5", "T=4 d=2 width=8", "pack = 2"],
    "law_coverage": ["gamma", "2 sweeps a line"],
    "law_misfit": ["posteriors of 16 trials", "medians of 32 seeds"],
    "networks": ["transformer", "fcn", "attention, 2 layers"],
    "objectives": ["| accuracy | 2 |", "| solved | 2 |"],
    "overhead": ["beside the steps"],
    "page_speed": ["static page", "live page"],
    "prompt_packs": ["transformer_mlp", "rnn", "ffn"],
    "scale": ["plan of 2,000 trials", "report of 2,000 trials"],
    "scale --cells 5000": ["show of 20 cells", "report of 20 cells"],
    "scheduler": ['"busy"'],
    "scheduler --one-trial-a-pack": ["last_tenth_ms"],
    "scheduler --through pool": ['"through": "pool"'],
    "search": ["ours, to the end", "TPE", "valley", "laws, power"],
    "search_scale": ["2 searches in one journal", "the report"],
    "status": ["status of 1,000 of 2,000 trials"],
    "time_left": ["quickstart: half way, "],
    "tune_overhead": ["tune_s_a_pack", "actor_s_a_pack"],
    "wandb_cost": ["training:", "publisher:"],
    "end_to_end --wandb": ["W&B offline", "ratio"],
}
"""The benchmarks by command, and parts of the lines that each must print."""

RAY = ("end_to_end", "overhead", "scheduler", "tune_overhead")
IN_PROCESSES = (*RAY, "objectives", "page_speed", "search", "wandb_cost")
"""Those that start processes which import them, or a browser; the others run in this one, which has imported what they need,
and so does the simulation that has no Ray."""
ON_A_GPU = "gpu_engine"


@pytest.fixture
def run_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Gives what a benchmark prints at toy size; its gates are in `gates.jsonl`."""

    def run(words: str) -> str:
        name, *more = words.split()
        script, gates = str(HERE / f"{name}.py"), str(tmp_path / "gates.jsonl")
        if name in IN_PROCESSES and "pool" not in more:
            command, environment = [sys.executable, script, *more, "--toy"], os.environ | {FILE: gates}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout
        monkeypatch.setenv(FILE, gates)
        monkeypatch.setattr(sys, "argv", [script, *more, "--toy"])
        code: object = 0
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
        printed = capfd.readouterr()
        assert not code, printed
        return printed.out

    return run


def marked(run: str) -> object:
    marks = [pytest.mark.ray] if run.split()[0] in RAY and "pool" not in run else []
    return pytest.param(run, marks=[*marks, *([pytest.mark.browser] if run == "page_speed" else [])])


@pytest.mark.slow
@pytest.mark.parametrize("run", [marked(run) for run in ROWS])
def test_a_benchmark_runs_at_toy_size(run: str, run_toy: Callable[[str], str], tmp_path: Path) -> None:
    printed = run_toy(run)
    for part in ROWS[run]:
        assert part in printed, printed
    assert not re.search(r"\b(nan|inf)\b", printed), printed
    name = run.split()[0]
    if name in {other.split()[0] for other in RUNS} and "one-trial" not in run:
        assert {gate.benchmark for gate in gates_in(tmp_path / "gates.jsonl")} == {name}


@pytest.mark.slow
def test_the_benchmark_of_a_gpu_runs_or_says_that_there_is_none(run_toy: Callable[[str], str], tmp_path: Path) -> None:
    import torch

    printed = run_toy(ON_A_GPU)
    if torch.cuda.is_available():
        assert "all widths" in printed
    else:
        [gate] = gates_in(tmp_path / "gates.jsonl")
        assert (gate.verdict, gate.value) == ("not run", "torch sees no GPU")


def test_every_benchmark_has_a_toy_size_and_every_one_with_gates_is_in_make_bench() -> None:
    texts = {path.stem: path.read_text() for path in HERE.glob("*.py") if "\nif __name__" in path.read_text()}
    assert set(texts) == {run.split()[0] for run in ROWS} | {ON_A_GPU, "all"}
    assert {name for name, text in texts.items() if "Gates(" in text} == {run.split()[0] for run in RUNS}


def test_gates_are_met_missed_undecided_or_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "gates.jsonl"))
    gates = Gates("engine")
    gates.at_least("ratio", 8.0, 8.0)
    gates.at_most("report", 60.0, 60.0, "s")
    gates.not_run("against JAX", "JAX is not installed")
    assert gates.end() == 0
    gates.undecided("share", 2.9, "at most 3%: 2.1 to 3.6%", "%")
    assert exit_code(gates.rows) == 3
    gates.at_least("another ratio", 7.99, 8.0)
    gates.at_most("another report", 60.1, 60.0, "s")
    assert gates.end() == 1
    kept = gates_in(tmp_path / "gates.jsonl")
    assert kept == gates.rows[:3] + gates.rows
    assert [gate.verdict for gate in gates.rows] == ["ok", "ok", "not run", "undecided", "missed", "missed"]
    assert table(gates.rows).splitlines()[1:3] == [
        "engine     ratio           8                     at least 8               ok",
        "engine     report          60 s                  at most 60 s             ok",
    ]


def test_gates_refuse_numbers_that_are_none() -> None:
    with pytest.raises(ValueError, match="engine, ratio: measured nan"):
        Gates("engine").at_least("ratio", float("nan"), 8.0)


def test_no_gate_holds_at_toy_size() -> None:
    gates = Gates("engine", toy=True)
    gates.at_least("ratio", 0.1, 8.0)
    assert gates.end() == 0
