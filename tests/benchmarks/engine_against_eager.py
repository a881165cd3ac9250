"""How many more model-steps a second a pack makes than a loop over single models, on one core.

    python tests/benchmarks/engine_against_eager.py [--pack 32] [--rounds 5] [--gate 4]

Times the engine's pack and the eager loop of `peers/plain_tune.py` in turn, on the same work (T=32, q=3, d=4, batch 64, d_e=32,
Adam, minibatch objective, `sum` query code, evaluation included), prints each pair and the median ratio, and exits with 1 when
that is below the gate. Speeds of a shared machine drift; ratios of neighbouring pairs do not.
"""

import argparse
import os
import platform
import statistics
import sys
import time

import torch
from peers.plain_tune import BATCH, LR, D, Q, T, eager_loop

from stsq_core import TrialConfig, train_pack

D_E = 32


def pack_microseconds(*, pack: int, steps: int, query: str) -> float:
    """Microseconds a model-step of one pack with distinct seeds."""
    configs = [
        TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": T, "q": Q, "d": D},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": D_E, "query": query}},
                "optimizer": {"kind": "adam", "lr": LR},
                "training": {"objective": "minibatch", "batch_size": BATCH, "steps": steps},
                "seed": seed,
            }
        )
        for seed in range(pack)
    ]
    begun = time.perf_counter()
    results = train_pack(configs)
    seconds = time.perf_counter() - begun
    assert len(results) == pack
    return seconds / pack / steps * 1e6


def eager_microseconds(*, steps: int) -> float:
    """Microseconds a step of one eager model."""
    begun = time.perf_counter()
    eager_loop(d_e=D_E, seed=0, steps=steps, report=lambda step, loss: None)
    return (time.perf_counter() - begun) / steps * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gate", type=float, default=4.0, help="the least median ratio that passes")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    print(f"one core of {platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    pack_microseconds(pack=2, steps=5, query="sum")
    eager_microseconds(steps=5)
    ratios = []
    for i in range(args.rounds):
        eager = eager_microseconds(steps=300)
        packed = pack_microseconds(pack=args.pack, steps=200, query="sum")
        dual = pack_microseconds(pack=args.pack, steps=200, query="dual")
        ratios.append(eager / packed)
        print(f"{i + 1}: us a model-step: eager {eager:.0f}, pack {packed:.0f} (dual {dual:.0f}); ratio {eager / packed:.2f}")
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.2f} (gate {args.gate:g})")
    return 0 if ratio >= args.gate else 1


if __name__ == "__main__":
    sys.exit(main())
