"""What a user would write today: Ray Tune, one eager PyTorch model per trial, W&B's own callback.

The peer that the end-to-end benchmark is measured against, on the same machine in the same run:
    PYTHONPATH=tests/benchmarks python tests/benchmarks/peers/plain_tune.py --trials 64 --storage /tmp/plain [--wandb]
prints one line of JSON: seconds from start to finish and from Ray being up, trials, and the median relative loss.
Trains the minibatch STSq transformer (T=32, q=3, d=4, batch 64, Adam 0.01, per-step random-sign codes, `sum` query code) at
widths d_e in 8..48 and seeds 0..; the same work must be done by whatever is compared with it.
"""

import argparse
import json
import os
import time

SIZE = {"T": 32, "q": 3, "d": 4, "batch": 64}
WIDTHS = (8, 12, 16, 20, 24, 32, 40, 48)


def train(config: dict) -> None:
    """The function that Ray Tune runs."""
    import torch
    from peers.eager import Size, eager_loop
    from ray import tune

    torch.set_num_threads(1)
    trial = config["trial"]
    size = Size(**SIZE, d_e=trial["d_e"])
    eager_loop(
        size,
        seed=trial["seed"],
        steps=trial["steps"],
        report=lambda step, loss: tune.report({"step": step, "relative_loss": loss}),
    )


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
