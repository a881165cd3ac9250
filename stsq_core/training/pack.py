"""The one entry to training: many small trials train together as stacks of parameters.

The law of the pack: a trial's numbers depend on its `TrialConfig` alone, not on which trials share its stack, its place in it,
interruptions or restarts. On one CPU and one torch build that holds bit for bit, because (1) every draw is a function of
(seed, purpose, step), (2) padded shapes are a function of the trial alone, (3) no operation mixes trials, and (4) products of a
stack are computed slice by slice, on one thread.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from stsq_core.configs import Measurement, TrialConfig, TrialResult, stack_key
from stsq_core.kernels import kernels_for
from stsq_core.numerics import NO_CHECKPOINT, Checkpoint
from stsq_core.programs import Tensors
from stsq_core.training.stack import Report, Stack, StackState


def load_engine() -> None:
    """Load the engine's inner loops now rather than in the first step: Numba takes seconds."""
    kernels_for(torch.device("cpu"))


def discard(measurement: Measurement) -> None:
    """The report that nobody reads."""


def train_pack(
    configs: Sequence[TrialConfig],
    *,
    report: Report = discard,
    device: str = "cpu",
    checkpoint: Checkpoint = NO_CHECKPOINT,
    keep_weights: bool = False,
) -> tuple[TrialResult, ...]:
    """Train trials together and measure each on fresh data.

    Trials of one static shape (`stack_key`) train as one stack; stacks train one after another.

    Args:
        configs: any trials, of any shapes; a config given twice is trained once.
        report: called at step 0, every `training.report_steps` and the last step, with that step's batch losses, and at the
            steps of an evaluation with its metrics too.
        device: a torch device; on `cpu` training uses one thread.
        checkpoint: where to keep the state, and to go on from.
        keep_weights: put the trained arrays into the results.

    Returns:
        One result a config, in the order of `configs`.
    """
    by_id = {config.trial_id: config for config in configs}
    done, running = _load(checkpoint.load(), by_id)
    stacks: dict[tuple[object, ...], list[TrialConfig]] = {}
    for config in by_id.values():
        stacks.setdefault(stack_key(config), []).append(config)
    with one_thread(device), _current(torch.device(device)):
        for members in stacks.values():
            if members[0].trial_id in done:
                continue
            stack = Stack(tuple(members), torch.device(device), running)
            running = None
            stack.train(report, partial(_save_if_due, checkpoint, tuple(by_id), done, stack))
            done |= {result.config.trial_id: result for result in stack.results(keep_weights=keep_weights)}
    return tuple(done[config.trial_id] for config in configs)


def _save_if_due(checkpoint: Checkpoint, trial_ids: tuple[str, ...], done: dict[str, TrialResult], stack: Stack) -> None:
    """Save a pack between two steps: the results of the stacks that are trained, and the stack that is training."""
    if not checkpoint.due():
        return
    results = [
        (trial_id, r.status, r.relative_loss, r.relative_loss_stderr, r.steps, r.seconds, _tensors(r))
        for trial_id, r in done.items()
    ]
    metrics = {trial_id: dict(r.metrics) for trial_id, r in done.items() if r.metrics}
    state = stack.state
    running = vars(state) | {"parameters": _on_cpu(state.parameters), "moments": _on_cpu(state.moments)}
    buffer = io.BytesIO()
    torch.save({"trial_ids": list(trial_ids), "done": results, "metrics": metrics, "running": running}, buffer)
    checkpoint.save(buffer.getvalue())


def _load(saved: bytes | None, by_id: dict[str, TrialConfig]) -> tuple[dict[str, TrialResult], StackState | None]:
    """The results and the running stack of a saved pack; nothing from no bytes.

    Raises:
        ValueError: if the bytes hold the state of other trials.
    """
    if saved is None:
        return {}, None
    state: dict[str, Any] = torch.load(io.BytesIO(saved), weights_only=True, map_location="cpu")
    if state["trial_ids"] != list(by_id):
        raise ValueError(f"a checkpoint of trials {state['trial_ids']} cannot resume trials {list(by_id)}: remove it")
    done = {}
    for trial_id, *values, tensors in state["done"]:
        weights = None if tensors is None else {name: tensor.numpy() for name, tensor in tensors.items()}
        status, loss, error, steps, seconds = values
        metrics = state.get("metrics", {}).get(trial_id, {})
        done[trial_id] = TrialResult(by_id[trial_id], status, loss, error, steps, seconds, weights, metrics)
    return done, StackState(**state["running"])


def _tensors(result: TrialResult) -> dict[str, torch.Tensor] | None:
    if result.weights is None:
        return None
    return {name: torch.from_numpy(array) for name, array in result.weights.items()}


def _on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def _current(device: torch.device) -> AbstractContextManager[None]:
    """Makes a GPU that is named by its number the one that kernels are launched on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def one_thread(device: str) -> Iterator[None]:
    """One intra-op thread on the CPU: tiny products gain nothing from two, and bits must not depend on the number."""
    before = torch.get_num_threads()
    if torch.device(device).type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
