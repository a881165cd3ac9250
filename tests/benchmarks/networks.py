"""What autograd costs: networks of any task against programs with gradients derived by hand, and packs against single trials.

    python tests/benchmarks/networks.py [--steps 200] [--toy]

Times are medians of CPU time a model-step on one thread, so that they can be read on a machine that others use too. Gates: in
packs of 32 autograd takes at most 1.6 times what derived gradients take, and two layers of attention at most 4 times one.
"""

import statistics
import sys
import time

import torch
from gates import Gates, parser_of

from stsq_core import TrialConfig
from stsq_core.networks.network_program import NetworkProgram
from stsq_core.programs.program import Program
from stsq_core.training.descent import Descent
from stsq_core.training.stack import build_program

TASK = {"kind": "stsq", "T": 32, "q": 3, "d": 4}
CODES = {"kind": "random_sign", "d_e": 24}
STARTED = {"kind": "attention", "positions": CODES, "init": "gaussian"}
MODELS = {
    "transformer": {"kind": "transformer", "positions": CODES},
    "fcn": {"kind": "fcn", "width": 64},
    "attention, sigmoid": {"kind": "attention", "positions": CODES, "scores": "sigmoid"},
    "attention, top_q": {"kind": "attention", "positions": CODES, "scores": "top_q"},
    "attention, 2 heads": STARTED | {"heads": 2},
    "attention, 2 layers": STARTED | {"layers": 2},
}


def seconds_a_model_step(program: Program, steps: int) -> float:
    """CPU time of a step's gradients and updates over its models, the median of the steps."""
    configs = program.configs
    descent = Descent(tuple(c.optimizer for c in configs), steps + 5, dtype=program.dtype, kernels=program.kernels)
    parameters = program.initial()
    take, times = descent.bound(parameters, moments := descent.moments(parameters)), []
    for step in range(steps + 5):
        begun = time.process_time()
        _, gradients = program.gradients(parameters, step)
        take(gradients, step)
        times.append(time.process_time() - begun)
    assert moments
    return statistics.median(times[5:]) / len(configs)  # loops are compiled in the first steps


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    steps = 2 if args.toy else args.steps
    gates, found = Gates("networks", toy=args.toy), dict[str, float]()
    torch.set_num_threads(1)
    print(f"{'model':22}{'k':>4}{'derived':>12}{'autograd':>12}{'ratio':>8}   us a model-step, T=32, q=3, d=4, batch 64")
    for name, model in MODELS.items():
        for k in (1, 8, 32):
            data = {"task": TASK, "model": model, "optimizer": {"kind": "adam", "lr": 0.01}, "training": {"steps": steps + 5}}
            configs = tuple(TrialConfig.model_validate(data | {"seed": seed}) for seed in range(k))
            cpu, number = torch.device("cpu"), 2 if args.toy else max(50, steps // k)
            network = seconds_a_model_step(NetworkProgram(configs, cpu), number) * 1e6
            found[name] = network
            program = build_program(configs, cpu)
            printed = f"{name:22}{k:4}"
            if isinstance(program, NetworkProgram):
                print(f"{printed}{'':12}{network:12.0f}")
            else:
                derived = seconds_a_model_step(program, number) * 1e6
                print(f"{printed}{derived:12.0f}{network:12.0f}{network / derived:8.1f}")
                if k == 32:
                    gates.at_most(f"{name}, pack of {k}, autograd over derived", network / derived, 1.6)
    gates.at_most("attention of two layers over one, pack of 32", found["attention, 2 layers"] / found["transformer"], 4.0)
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
