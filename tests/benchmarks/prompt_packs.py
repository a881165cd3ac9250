"""What a step costs of the nets of qSTR: in a pack of five, alone, and as plain torch modules with torch's AdamW.

CPU seconds of this process on one thread, so that other work on the machine counts less:

    python tests/benchmarks/prompt_packs.py [--steps 40] [--toy]
"""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from gates import parser_of

from stsq_core import TrialConfig, train_pack

N, D_X, BATCH = 12, 10, 64
MODELS: dict[str, dict[str, Any]] = {
    "transformer_mlp": {"kind": "transformer_mlp", "width": 100},
    "rnn": {"kind": "rnn", "width": 100},
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
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(size, 100, batch_first=True, bidirectional=True)
        self.readout = torch.nn.Linear(200, 1)

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        return self.readout(self.gru(Z)[0])


class Feedforward(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        units = (size * N, N * D_X, 1000, N)
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(units)]
        self.net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])

    def forward(self, Z: torch.Tensor) -> torch.Tensor:
        return self.net(Z.flatten(1)).unsqueeze(-1)


PLAIN: dict[str, Callable[[int], torch.nn.Module]] = {"transformer_mlp": Transformer, "rnn": Recurrent, "ffn": Feedforward}


def plain_step_s(kind: str, steps: int) -> float:
    """CPU seconds of a step of torch's modules on prompts of the same size, drawn by torch."""
    size = trial(MODELS[kind], 1, 0).task.prompt_size
    module = PLAIN[kind](size)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.001, weight_decay=0.01)

    def run(count: int) -> None:
        for _ in range(count):
            Z, target = torch.randn(BATCH, N, size), torch.randn(BATCH, N, 1)
            optimizer.zero_grad()
            (module(Z) - target).square().mean().backward()
            optimizer.step()

    run(3)
    begun = time.process_time()
    run(steps)
    return (time.process_time() - begun) / steps


def pack_step_s(kind: str, steps: int, seeds: int) -> float:
    """CPU seconds of a model-step in a pack, by the difference of two lengths, so that what happens once cancels."""

    def seconds(count: int) -> float:
        begun = time.process_time()
        train_pack([trial(MODELS[kind], count, seed) for seed in range(seeds)])
        return time.process_time() - begun

    seconds(1)
    return (seconds(1 + steps) - seconds(1)) / (steps * seeds)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    steps, seeds = (1, 2) if args.toy else (args.steps, 5)
    torch.set_num_threads(1)
    for kind in MODELS:
        printed = [pack_step_s(kind, steps, seeds), pack_step_s(kind, steps, 1), plain_step_s(kind, steps)]
        print(
            f"{kind}: {', '.join(f'{1000 * s:.2f}' for s in printed)} ms a model-step: pack of {seeds}, alone, plain torch",
            flush=True,
        )


if __name__ == "__main__":
    main()
