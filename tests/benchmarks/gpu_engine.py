"""The engine on one GPU: against one eager model on it, and against what it could do.

    python tests/benchmarks/gpu_engine.py [--intervals 5] [--markdown] [--toy]

Every line is measured in this process on the same card, together with the card's own rates of copies and of float32 products.
Times are microseconds of a model-step in the middle of training: the median over the intervals between reports. The floor of a
model-step is the longer of two times: its least operations (`stsq_core.training.cost`) at the measured rate of float32
products, and the bytes of parameters and moments that it must read and write at the measured rate of copies; all else can stay
on the chip. Fractions of rates are gated at the packs that a sweep would train there (the larger ones), times at every size.
Exits with 1 when a gate is missed, and with 0 and a word where there is no GPU.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from engine import Table
from gates import Gates, parser_of
from peers.eager import Size, eager_loop

from stsq_core import TrialConfig
from stsq_core.networks import NetworkProgram
from stsq_core.programs import Program
from stsq_core.training.cost import num_parameters, step_cost
from stsq_core.training.descent import Descent
from stsq_core.training.stack import Stack, build_program
from stsq_core.training.stepper import GraphStepper, stepper_for

SIZE = Size(T=200, q=3, d=5, d_e=64, batch=256)
PACKS = (128, 512)
FCN_PACKS = (32, 256)
TOY_PACKS = (8,)
FCN_WIDTHS = (16, 64, 256, 512)
MICROSECONDS_GATE = {"minibatch": 8.0, "population": 4.0}
EAGER_GATE = 200.0
ROOFLINE_GATE, MATRIX_GATE = 1 / 3, 0.5
NETWORK_GATE = 3.0
"""Autograd's time over that of gradients derived by hand."""


@dataclass(frozen=True)
class Card:
    """What the card was measured to do, per second."""

    products: float
    copies: float

    def floor_microseconds(self, config: TrialConfig) -> float:
        size = 4 * num_parameters(config)
        moved = (7 if config.optimizer.kind == "adam" else 3) * size
        return max(step_cost(config).least / self.products, moved / self.copies) * 1e6


def measured_card() -> Card:
    """Rates of large products and copies."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    out = torch.empty_like(a)
    products = 2 * n**3 / best_seconds(lambda: torch.mm(a, b, out=out))
    copies = 2 * a.nbytes / best_seconds(lambda: out.copy_(a))
    return Card(products, copies)


def best_seconds(work: Callable[[], object], rounds: int = 7) -> float:
    work()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return min(times)


def transformers(*, pack: int, objective: str, query: str, seeds: int, every: int, intervals: int) -> tuple[TrialConfig, ...]:
    """A pack of one shape with so many distinct seeds."""
    return tuple(
        TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": SIZE.T, "q": SIZE.q, "d": SIZE.d},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": SIZE.d_e, "query": query}},
                "optimizer": {"kind": "adam", "lr": 0.01 * (1 + i // seeds)},
                "training": {
                    "objective": objective,
                    "batch_size": SIZE.batch,
                    "steps": every * (intervals + 1),
                    "log_every": every,
                },
                "seed": i % seeds,
            }
        )
        for i in range(pack)
    )


def fcns(width: int, *, pack: int, every: int, intervals: int) -> tuple[TrialConfig, ...]:
    """A pack of fully connected nets."""
    return tuple(
        TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": 32, "q": 3, "d": 2},
                "model": {"kind": "fcn", "width": width, "tail_width": 512},
                "optimizer": {"kind": "adam", "lr": 0.001},
                "training": {"batch_size": 512, "steps": every * (intervals + 1), "log_every": every},
                "seed": seed,
            }
        )
        for seed in range(pack)
    )


def pack_microseconds(configs: tuple[TrialConfig, ...]) -> float:
    """Between two reports, each of which waits for the device; what comes before the first is warming up."""
    stack, seen = Stack(configs, torch.device("cuda")), []
    stack.train(lambda measurement: seen.append((measurement.step, time.perf_counter())), lambda: None)
    if lost := len(configs) - len(stack.state.alive):
        raise RuntimeError(f"{lost} of {len(configs)} trials diverged: the times of those that are left say nothing")
    *seen, _ = seen[1:]
    spans = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(seen)]
    return statistics.median(spans) / len(configs) * 1e6


def eager_microseconds(steps: int = 400) -> float:
    eager_loop(SIZE, seed=0, steps=20, device="cuda", report=lambda step, loss: None)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    eager_loop(SIZE, seed=0, steps=steps, device="cuda", report=lambda step, loss: None)
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / steps * 1e6


def compare_transformers(card: Card, intervals: int, gates: Gates, *, markdown: bool) -> None:
    eager = eager_microseconds(20 if gates.toy else 400)
    packs, every = (TOY_PACKS, 5) if gates.toy else (PACKS, 200)
    table = Table(f"{SIZE}", "pack", "us a model-step", "against eager", "floor, us", "of the roofline", markdown=markdown)
    table.add("one eager model (sum)", "1", f"{eager:.0f}", "1", "", "")
    for pack in packs:
        for objective, query, seeds in (
            ("minibatch", "sum", pack),
            ("minibatch", "dual", pack),
            ("minibatch", "dual", 8),
            ("population", "sum", pack),
            ("population", "dual", pack),
        ):
            own = seeds == pack
            configs = transformers(pack=pack, objective=objective, query=query, seeds=seeds, every=every, intervals=intervals)
            ours, floor = pack_microseconds(configs), card.floor_microseconds(configs[0])
            name = f"{objective}, {query}, {'a seed each' if own else f'{seeds} seeds'}"
            fraction = floor / ours
            printed = f"{fraction:.0%}" if own else ""
            table.add(name, f"{pack}", f"{ours:.2f}", f"{eager / ours:.0f}", f"{floor:.2f}" if own else "", printed)
            gates.at_most(f"{name}, pack of {pack}, a model-step", ours, MICROSECONDS_GATE[objective], "us")
            gates.at_least(f"{name}, pack of {pack}, against eager", eager / ours, EAGER_GATE)
            if own and pack == packs[-1]:
                gates.at_least(f"{name}, pack of {pack}, of the roofline", 100 * fraction, 100 * ROOFLINE_GATE, "%")
    table.show()


def compare_fcns(card: Card, intervals: int, gates: Gates, *, markdown: bool) -> None:
    packs, every = (TOY_PACKS, 5) if gates.toy else (FCN_PACKS, 100)
    table = Table(
        "fully connected, T=32 d=2 tail=512 batch=512",
        "pack", "us a model-step", "of the matrix rate", "of the roofline", markdown=markdown,
    )  # fmt: skip
    for pack in packs:
        products = seconds = 0.0
        for width in FCN_WIDTHS:
            configs = fcns(width, pack=pack, every=every, intervals=intervals)
            ours = pack_microseconds(configs)
            cost = step_cost(configs[0]).products
            products, seconds = products + cost, seconds + ours / 1e6
            rate, part = cost / (ours / 1e6) / card.products, card.floor_microseconds(configs[0]) / ours
            table.add(f"width={width}", f"{pack}", f"{ours:.1f}", f"{rate:.0%}", f"{part:.0%}")
        rate = products / seconds / card.products
        table.add("all widths", f"{pack}", f"{seconds * 1e6:.1f}", f"{rate:.0%}", "")
        if pack == packs[-1]:
            gates.at_least("fully connected, all widths, of the matrix rate", 100 * rate, 100 * MATRIX_GATE, "%")
    table.show()


def captured_microseconds(program: Program, steps: int) -> float:
    """A model-step of a captured step, replayed."""
    configs = program.configs
    descent = Descent(tuple(c.optimizer for c in configs), 8 * steps, dtype=program.dtype, kernels=program.kernels)
    parameters = program.initial()
    stepper = stepper_for(program, descent, parameters, descent.moments(parameters), step=0)
    if not isinstance(stepper, GraphStepper):
        raise RuntimeError(f"a step of {type(program).__name__} was not captured")

    def run() -> None:
        for step in range(steps):
            stepper.advance(step)

    return best_seconds(run, rounds=5) / steps / len(configs) * 1e6


def compare_networks(gates: Gates, steps: int, *, markdown: bool) -> None:
    pack = PACKS[0]
    table = Table("networks, captured", "pack", "derived, us", "autograd, us", "ratio", markdown=markdown)
    kinds = {
        "transformer": transformers(pack=pack, objective="minibatch", query="dual", seeds=pack, every=steps, intervals=8),
        "fully connected": fcns(64, pack=pack, every=steps, intervals=8),
    }
    for name, configs in kinds.items():
        device = torch.device("cuda")
        derived = captured_microseconds(build_program(configs, device), steps)
        network = captured_microseconds(NetworkProgram(configs, device), steps)
        table.add(name, f"{pack}", f"{derived:.2f}", f"{network:.2f}", f"{network / derived:.1f}")
        gates.at_most(f"{name}, pack of {pack}, autograd over derived", network / derived, NETWORK_GATE)
    table.show()


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--intervals", type=int, default=5, help="intervals between reports that are timed, at least 2")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    gates = Gates("gpu_engine", toy=args.toy)
    if not torch.cuda.is_available():
        gates.not_run("all", "torch sees no GPU")
        print("torch sees no GPU: nothing is measured")
        return gates.end()
    card = measured_card()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(f"float32 products {card.products / 1e12:.1f} TFLOP/s, copies {card.copies / 1e12:.2f} TB/s\n", flush=True)
    intervals = 2 if args.toy else args.intervals
    compare_transformers(card, intervals, gates, markdown=args.markdown)
    compare_networks(gates, 10 if args.toy else 100, markdown=args.markdown)
    compare_fcns(card, intervals, gates, markdown=args.markdown)
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
