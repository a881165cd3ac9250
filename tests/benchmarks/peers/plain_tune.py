"""What a user would write today: Ray Tune, one eager PyTorch model per trial, W&B's own callback.

The peer that the end-to-end benchmark is measured against, on the same machine in the same run:
    python plain_tune.py --trials 64 --steps 600 [--wandb]
prints one line of JSON: seconds from start to finish and from Ray being up, trials, and the median relative loss.
Trains the minibatch STSq transformer (T=32, q=3, d=4, batch 64, Adam 0.01, per-step random-sign codes, `sum` query code) at
widths d_e in 8..48 and seeds 0..; the same work must be done by whatever is compared with it. `eager_loop` is also what
`engine_against_eager.py` times on one core.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Callable

T, Q, D, BATCH, LR = 32, 3, 4, 64, 0.01
WIDTHS = (8, 12, 16, 20, 24, 32, 40, 48)


def eager_loop(*, d_e: int, seed: int, steps: int, batch_size: int = BATCH, report: Callable[[int, float], None]) -> None:
    """Train one model for `steps` steps and report its relative loss every 100 steps and at the end."""
    import torch

    gen = torch.Generator().manual_seed(seed)

    def batch():
        X = torch.randn(batch_size, T, D, generator=gen)
        y = torch.rand(batch_size, T, generator=gen).topk(Q, dim=1).indices
        E = (torch.randint(0, 2, (T, d_e), generator=gen).float() * 2 - 1) / math.sqrt(d_e)
        Y = torch.zeros(batch_size, T).scatter_(1, y, 1.0)
        return X, E, Y, torch.einsum("bt,btd->bd", Y, X) / Q

    W = torch.zeros(D + d_e, D + d_e, requires_grad=True)
    V = torch.zeros(D, D + d_e, requires_grad=True)

    def squared_error(X, E, Y, target):
        Z = torch.cat([X, E.expand(batch_size, -1, -1)], -1)
        z_query = torch.cat([torch.zeros(batch_size, D), Y @ E], -1)
        weights = torch.einsum("btD,bD->bt", Z, z_query @ W.T).softmax(-1)
        out = torch.einsum("bt,btD->bD", weights, Z) @ V.T
        return ((out - target) ** 2).sum(-1).mean()

    optimizer = torch.optim.Adam([W, V], lr=LR)
    for step in range(1, steps + 1):
        loss = 0.5 * squared_error(*batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == steps:
            with torch.no_grad():
                report(step, sum(squared_error(*batch()).item() for _ in range(8)) / 8 / (D / Q))


def train(config: dict) -> None:
    """The function that Ray Tune runs."""
    import torch
    from ray import tune

    torch.set_num_threads(1)
    eager_loop(**config["trial"], report=lambda step, loss: tune.report({"step": step, "relative_loss": loss}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--wandb", action="store_true", help="stream with W&B's callback, offline")
    parser.add_argument("--storage", required=True, help="an absolute folder for Ray's results")
    args = parser.parse_args()
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    start = time.perf_counter()
    import ray
    from ray import tune

    callbacks = []
    if args.wandb:
        os.environ["WANDB_MODE"] = "offline"
        from ray.air.integrations.wandb import WandbLoggerCallback

        callbacks = [WandbLoggerCallback(project="plain-tune")]
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    ready = time.perf_counter()
    grid = [{"d_e": WIDTHS[i % len(WIDTHS)], "seed": i // len(WIDTHS), "steps": args.steps} for i in range(args.trials)]
    results = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"trial": tune.grid_search(grid)},
        tune_config=tune.TuneConfig(metric="relative_loss", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(storage_path=args.storage, name=f"run-{int(time.time())}", verbose=0, callbacks=callbacks),
    ).fit()
    losses = sorted(r.metrics["relative_loss"] for r in results if r.metrics and "relative_loss" in r.metrics)
    done = time.perf_counter()
    print(
        json.dumps(
            {
                "seconds": round(done - start, 2),
                "seconds_after_ray_is_up": round(done - ready, 2),
                "trials": len(losses),
                "errors": results.num_errors,
                "median_relative_loss": losses[len(losses) // 2],
            }
        )
    )


if __name__ == "__main__":
    main()
