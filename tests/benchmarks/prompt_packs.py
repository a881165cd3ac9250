"""What a step costs of the nets of qSTR: in packs of 1, 5 and 16, and as plain torch modules with torch's AdamW.

CPU seconds of this process on one thread, so that other work on the machine counts less, the median of turns that alternate:

    python tests/benchmarks/prompt_packs.py [--turns 9] [--toy]

Exits with 1 where a pack is slower than the plain modules.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from gates import Gates, parser_of

from stsq_core import TrialConfig
from stsq_core.networks import NetworkProgram
from stsq_core.training.descent import Descent

N, D_X, BATCH = 12, 10, 64
MODELS: dict[str, dict[str, Any]] = {
    "transformer_mlp": {"kind": "transformer_mlp", "width": 100},
    "rnn": {"kind": "rnn", "width": 100},
    "rnn, tanh": {"kind": "rnn", "width": 100, "cell": "tanh"},
    "rnn, relu": {"kind": "rnn", "width": 100, "cell": "relu"},
    "ffn": {"kind": "ffn"},
}


def trial(model: dict[str, Any], steps: int, seed: int) -> TrialConfig:
    data = {
        "task": {"kind": "qstr", "T": N, "q": 1, "d": D_X},
        "model": model,
        "optimizer": {"kind": "adamw", "lr": 0.001},
        "training": {"steps": steps, "batch_size": BATCH},
        "seed": seed,
    }
    return TrialConfig.model_validate(data)


class Transformer(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(size, 1, batch_first=True)
        self.net = torch.nn.Sequential(torch.nn.Linear(size, 100), torch.nn.ReLU(), torch.nn.Linear(100, 1))

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        return self.net(self.attention(Z, Z, Z, need_weights=False)[0])


class Recurrent(torch.nn.Module):
    def __init__(self, size: int, cell: str = "gru") -> None:
        super().__init__()
        fields = {"batch_first": True, "bidirectional": True}
        self.cells = (
            torch.nn.GRU(size, 100, **fields) if cell == "gru" else torch.nn.RNN(size, 100, nonlinearity=cell, **fields)
        )
        self.readout = torch.nn.Linear(200, 1)

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        return self.readout(self.cells(Z)[0])


class Feedforward(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        units = (size * N, N * D_X, 1000, N)
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(units)]
        self.net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        return self.net(Z.flatten(1)).unsqueeze(-1)


PLAIN: dict[str, Callable[[int], torch.nn.Module]] = {
    "transformer_mlp": Transformer,
    "rnn": Recurrent,
    "rnn, tanh": partial(Recurrent, cell="tanh"),
    "rnn, relu": partial(Recurrent, cell="relu"),
    "ffn": Feedforward,
}
PACKS = (1, 5, 16)
Steps = Callable[[int], float]
"""Takes so many steps, and hands back the CPU seconds of a model-step."""


def plain_steps(kind: str) -> Steps:
    """torch's modules on prompts of the same size, drawn by torch."""
    size = trial(MODELS[kind], 1, 0).task.prompt_size
    module = PLAIN[kind](size)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.001, weight_decay=0.01)

    def take(count: int) -> float:
        begun = time.process_time()
        for _ in range(count):
            Z, target = torch.randn(BATCH, N, size), torch.randn(BATCH, N, 1)
            optimizer.zero_grad()
            (module(Z) - target).square().mean().backward()
            optimizer.step()
        return (time.process_time() - begun) / count

    return take


def pack_steps(kind: str, seeds: int, *, most: int) -> Steps:
    """A pack, for at most so many steps."""
    configs = tuple(trial(MODELS[kind], most, seed) for seed in range(seeds))
    program = NetworkProgram(configs, torch.device("cpu"))
    descent = Descent(tuple(c.optimizer for c in configs), most, dtype=program.dtype, kernels=program.kernels)
    parameters, steps = program.initial(), iter(range(most))
    update = descent.bound(parameters, descent.moments(parameters))

    def take(count: int) -> float:
        begun = time.process_time()
        for _ in range(count):
            step = next(steps)
            _, gradients = program.gradients(parameters, step)
            update(gradients, step)
        return (time.process_time() - begun) / (count * seeds)

    return take


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    args = parser.parse_args()
    turns, steps, packs = (1, 1, (1, 2)) if args.toy else (args.turns, args.steps, PACKS)
    gates = Gates("prompt_packs", toy=args.toy)
    torch.set_num_threads(1)
    print(f"{'ms a model-step':18}{'plain torch':>12}" + "".join(f"{f'pack of {k}':>12}" for k in packs) + "   ratios")
    for kind in MODELS:
        runs = [plain_steps(kind), *(pack_steps(kind, k, most=2 + turns * steps) for k in packs)]
        for run in runs:
            run(2)
        times = [[run(steps) for run in runs] for _ in range(turns)]
        medians = [1000 * statistics.median(own) for own in zip(*times, strict=True)]
        ratios = [statistics.median(turn[1 + n] / turn[0] for turn in times) for n in range(len(packs))]
        print(f"{kind:18}" + "".join(f"{ms:12.2f}" for ms in medians), " ", ", ".join(f"{r:.2f}" for r in ratios), flush=True)
        for k, ratio in zip(packs, ratios, strict=True):
            gates.at_most(f"{kind}, pack of {k}, times plain torch", ratio, 1.0)
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
