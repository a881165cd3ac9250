"""The engine on one CPU core: against one eager model, against JAX, and against what the core could do.

    python tests/benchmarks/engine.py [--rounds 3] [--markdown] [--toy]

Contenders are timed in turn in this process, so that ratios hold on a machine whose speed drifts; times are microseconds of a
model-step, training only, the median over the rounds. Exits with 1 when a gate is missed. JAX is left out, with a word, where
it is not installed (`pip install jax`).
"""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):  # before torch and JAX count the cores
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import torch
from gates import Gates, parser_of
from peers.eager import Size, eager_loop
from peers.jax_vmap import stack_microseconds
from peers.nets import NetSize, eager_net_loop, jax_net

from stsq_core import TrialConfig
from stsq_core.programs import FcnProgram, Program
from stsq_core.training.cost import step_cost
from stsq_core.training.descent import Descent
from stsq_core.training.stack import build_program
from stsq_core.training.stepper import stepper_for

PACK = 32
SIZES = (Size(T=32, q=3, d=5, d_e=32, batch=64), Size(T=50, q=3, d=5, d_e=64, batch=256))
NETS = (NetSize(T=12, width=16, batch=128), NetSize(T=16, width=32, batch=128), NetSize(T=32, width=128, batch=512))
TOY_SIZES = (Size(T=8, q=2, d=2, d_e=8, batch=16),)
TOY_NETS = (NetSize(T=4, width=8, batch=16, q=2),)
EAGER_GATE, JAX_GATE, POPULATION_GATE, ROOFLINE_GATE = 12.0, 4.0, 30.0, 0.15
NET_GATES = {"eager": 15.0, "JAX": 3.0, "roofline": 0.2}
CAPPED, CAPPED_GATE = NETS[2:], 0.6
"""Nets whose products alone, at the machine's own rate, take so long that nothing in float32 is so much faster than the eager
model, which spends its time in the same products; and the share of that rate that is asked for instead."""


def configs_of(size: Size, *, objective: str, query: str, seeds: int, steps: int) -> tuple[TrialConfig, ...]:
    """A pack of 32 trials with so many distinct seeds, each at several learning rates."""
    return tuple(
        TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": size.T, "q": size.q, "d": size.d},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": size.d_e, "query": query}},
                "optimizer": {"kind": "adam", "lr": 0.01 * (1 + i // seeds)},
                "training": {"objective": objective, "batch_size": size.batch, "steps": steps, "log_every": steps},
                "seed": i % seeds,
            }
        )
        for i in range(PACK)
    )


def fcn_configs(size: NetSize, steps: int) -> tuple[TrialConfig, ...]:
    """A pack of 32 fully connected nets."""
    return tuple(
        TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": size.T, "q": size.q, "d": size.d},
                "model": {"kind": "fcn", "width": size.width, "tail_width": size.tail},
                "optimizer": {"kind": "adam", "lr": 0.001},
                "training": {"batch_size": size.batch, "steps": steps, "log_every": steps},
                "seed": seed,
            }
        )
        for seed in range(PACK)
    )


def steps_of(program: Program) -> Callable[[], float]:
    """What takes all steps of a pack, and nothing else, and returns microseconds of one of one trial."""
    configs, steps = program.configs, program.configs[0].training.steps
    descent = Descent(tuple(c.optimizer for c in configs), steps, dtype=program.dtype, kernels=program.kernels)
    parameters = program.initial()
    stepper = stepper_for(program, descent, parameters, descent.moments(parameters), step=0)
    stepper.advance(0)

    def run() -> float:
        begun = time.perf_counter()
        stepper.advance_by(0, steps)
        return (time.perf_counter() - begun) / len(configs) / steps * 1e6

    return run


def pack_microseconds(configs: tuple[TrialConfig, ...]) -> float:
    return steps_of(build_program(configs, torch.device("cpu")))()


def net_run(size: NetSize, steps: int, *, fused: bool) -> Callable[[], float]:
    """The steps of a pack of nets, in one compiled loop or a product a layer."""
    program = FcnProgram(fcn_configs(size, steps), torch.device("cpu"))
    program.fused = fused
    return steps_of(program)


def eager_net_microseconds(size: NetSize, steps: int) -> float:
    begun = time.perf_counter()
    eager_net_loop(size, seed=0, steps=steps)
    return (time.perf_counter() - begun) / steps * 1e6


def eager_microseconds(size: Size, steps: int) -> float:
    begun = time.perf_counter()
    eager_loop(size, seed=0, steps=steps, report=lambda step, loss: None)
    return (time.perf_counter() - begun) / steps * 1e6


def matrix_rate() -> float:
    """Float32 operations a second of large products on this core."""
    a = torch.randn(768, 768)
    return 2 * 768**3 / best_seconds(lambda: torch.mm(a, a))


def copy_rate() -> float:
    """Bytes a second, read and written, of large copies."""
    a, b = torch.zeros(2**24), torch.zeros(2**24)
    return 2 * a.nbytes / best_seconds(lambda: b.copy_(a))


def best_seconds(work: Callable[[], object], rounds: int = 5) -> float:
    work()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def has_jax() -> bool:
    try:
        import jax  # noqa: F401
    except ImportError:
        return False
    return True


class Table:
    """Lines of one table, as text or Markdown."""

    def __init__(self, *heads: str, markdown: bool) -> None:
        self._markdown = markdown
        self._rows = [heads]

    def add(self, *cells: str) -> None:
        self._rows.append(cells)

    def show(self) -> None:
        widths = [max(len(row[i]) for row in self._rows) for i in range(len(self._rows[0]))]
        for number, row in enumerate(self._rows):
            cells = [
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            print("| " + " | ".join(cells) + " |" if self._markdown else "  ".join(cells))
            if self._markdown and number == 0:
                print("|" + "|".join("---" if i == 0 else "---:" for i in range(len(row))) + "|")
        print(flush=True)


def compare(size: Size, rounds: int, gates: Gates, *, markdown: bool, jax: bool) -> None:
    """One size: eager, JAX and the pack in turn."""
    steps = 4 if gates.toy else max(20, 3_000_000 // (PACK * size.batch * size.T))
    cases = {
        f"minibatch, {query}, {seeds} seeds": {"objective": "minibatch", "query": query, "seeds": seeds}
        for query in ("sum", "dual")
        for seeds in (PACK, 4)
    } | {f"population, {query}": {"objective": "population", "query": query, "seeds": PACK} for query in ("sum", "dual")}
    eager_microseconds(size, steps=5)
    for case in cases.values():
        pack_microseconds(configs_of(size, steps=2, **case))  # compiles what is not in the cache
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        times.setdefault("eager", []).append(eager_microseconds(size, steps=20 + steps // 4))
        for name, case in cases.items():
            times.setdefault(name, []).append(pack_microseconds(configs_of(size, steps=steps, **case)))
        if jax:
            for query in ("sum", "dual"):
                microseconds = stack_microseconds(size, query=query, pack=PACK, steps=steps // 2, rounds=1)
                times.setdefault(f"jax {query}", []).append(microseconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    eager = medians["eager"]
    rate = matrix_rate()
    table = Table(str(size), "us a model-step", "against eager", "against JAX", "of the roofline", markdown=markdown)
    table.add("one eager model (sum)", f"{eager:.0f}", "1.0", "", "")
    for query in ("sum", "dual") if jax else ():
        table.add(
            f"JAX jit(vmap), pack of {PACK}, {query}",
            f"{medians[f'jax {query}']:.0f}",
            f"{eager / medians[f'jax {query}']:.1f}",
            "1.0",
            "",
        )
    for name, case in cases.items():
        ours = medians[name]
        least = step_cost(configs_of(size, steps=1, **case)[0]).least / rate * 1e6
        minibatch = case["objective"] == "minibatch"
        against_jax = medians[f"jax {case['query']}"] / ours if jax and minibatch else None
        shown = "" if against_jax is None else f"{against_jax:.1f}"
        table.add(name, f"{ours:.1f}", f"{eager / ours:.1f}", shown, f"{least / ours:.0%}" if case["seeds"] == PACK else "")
        gates.at_least(f"{size}, {name}, against eager", eager / ours, EAGER_GATE if minibatch else POPULATION_GATE)
        if against_jax is not None:
            gates.at_least(f"{size}, {name}, against JAX", against_jax, JAX_GATE)
        if case["seeds"] == PACK:
            gates.at_least(f"{size}, {name}, of the roofline", 100 * least / ours, 100 * ROOFLINE_GATE, "%")
    table.show()


def compare_nets(rounds: int, gates: Gates, *, markdown: bool, jax: bool) -> None:
    """The fully connected net at each size: eager, JAX, a product a layer, and the fused loop in turn; the least times."""
    heads = ("us a model-step", "eager", "JAX", "a product a layer", "against eager", "against JAX", "of the roofline")
    table = Table(f"fully connected, pack of {PACK}", *heads, markdown=markdown)
    for size in TOY_NETS if gates.toy else NETS:
        steps = 2 if gates.toy else max(2, 60_000 // (size.batch * size.width))
        runs = {"eager": lambda size=size, steps=steps: eager_net_microseconds(size, 4 * steps)}
        runs |= {name: net_run(size, steps, fused=name == "fused") for name in ("fused", "products")}
        if jax:
            runs["JAX"] = jax_net(size, pack=PACK, steps=steps)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(1 + 5 * rounds):
            for name, run in runs.items():
                times[name].append(run())
        least = {name: min(values[1:]) for name, values in times.items()}
        ours = least["fused"]
        ratios = {name: least[name] / ours for name in ("eager", "JAX") if name in least}
        rate, cost = matrix_rate(), step_cost(fcn_configs(size, steps=1)[0])
        ratios["roofline"] = cost.least / rate * 1e6 / ours
        cap = least["eager"] / (cost.products / max(rate, cost.products / ours * 1e6) * 1e6)
        times_of = [f"{least[name]:.0f}" if name in least else "" for name in ("fused", "eager", "JAX", "products")]
        against = [f"{ratios[name]:.1f}" if name in ratios else "" for name in ("eager", "JAX")]
        table.add(str(size), *times_of, *against, f"{ratios['roofline']:.0%}")
        for peer, ratio in ratios.items():
            unit, scale = ("%", 100) if peer == "roofline" else ("", 1)
            if peer == "eager" and size in CAPPED:
                why = f"{NET_GATES['eager']:.0f} cannot be met: cap {cap:.1f} by the products alone"
                gates.not_run(f"{size}, against eager", why)
                share = 100 * cost.products / rate * 1e6 / ours
                gates.at_least(f"{size}, of the rate of products", share, 100 * CAPPED_GATE, "%")
                continue
            gates.at_least(f"{size}, against {peer}", scale * ratio, scale * NET_GATES[peer], unit)
    table.show()


def scaling(*, markdown: bool, toy: bool) -> None:
    """How a model-step's time grows with the pack, T, d_e and the batch, minibatch objective and `sum` query."""
    base, steps = (TOY_SIZES[0], 2) if toy else (SIZES[0], 20)
    most = 2 if toy else None  # how many values of each
    rows: dict[str, list[tuple[int, float]]] = {}
    for name, values in (("T", (16, 32, 64, 128, 256)), ("d_e", (8, 16, 32, 64, 128)), ("batch", (16, 64, 256, 1024))):
        for value in values[:most]:
            fields = vars(base) | {name: value}
            configs = configs_of(Size(**fields), objective="minibatch", query="sum", seeds=PACK, steps=steps)
            rows.setdefault(name, []).append((value, min(pack_microseconds(configs) for _ in range(2))))
    for k in (1, 2, 4, 8, 16, 32, 64)[:most]:
        configs = tuple(
            config.model_copy(update={"seed": i})
            for i, config in enumerate(2 * configs_of(base, objective="minibatch", query="sum", seeds=PACK, steps=2 * steps))
        )[:k]
        rows.setdefault("pack", []).append((k, min(pack_microseconds(configs) for _ in range(2))))
    table = Table(f"varied from {base}, pack of {PACK}", "us a model-step", markdown=markdown)
    for name, points in rows.items():
        for value, microseconds in points:
            table.add(f"{name} = {value}", f"{microseconds:.1f}")
    table.show()


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    if args.toy:
        global PACK
        PACK = 5
    gates, rounds = Gates("engine", toy=args.toy), 1 if args.toy else args.rounds
    torch.set_num_threads(1)
    jax = has_jax()
    print(
        f"one core of {os.cpu_count()} of {platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    )
    print(f"float32 products {matrix_rate() / 1e9:.0f} GFLOP/s, copies {copy_rate() / 1e9:.1f} GB/s")
    print("" if jax else "JAX is not installed: its lines are left out\n", flush=True)
    for size in TOY_SIZES if args.toy else SIZES:
        compare(size, rounds, gates, markdown=args.markdown, jax=jax)
    compare_nets(rounds, gates, markdown=args.markdown, jax=jax)
    scaling(markdown=args.markdown, toy=args.toy)
    if not jax:
        gates.not_run("against JAX", "JAX is not installed")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
