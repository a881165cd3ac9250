"""What is measured of a stack on fresh data, by name: losses in and out of distribution, attention, and the learned directions.

`loss` and `loss_stderr` are the relative loss `E ||f - target||^2 / (d/q)` and its standard error; `loss@T=250` and `loss@q=5`
are those on 250 tokens and on subsets of 5, with that q in d/q. Where the program integrates X out the error is that of subsets
and codes only. Every evaluation takes the same fresh samples, so that what changes between two steps is the trial: the values
along one curve share their sampling error.

With `describe`, for a transformer:

- `attention_mass`: the mean over samples of `sum_{t in y} p_t`, p the attention weights;
- `cosine_W`, `cosine_V`: the cosine (Frobenius) between an array and its ground-truth direction; 0 for an array of zeros;
- `cosine_W_centred`, with one-hot codes only: the same after the mean over keys, which moves no attention, is taken out of W;
- `norm_W_XX`, `norm_W_XE`, `norm_W_EX`, `norm_W_EE`, `norm_V_X`, `norm_V_E`: Frobenius norms of the blocks.

Source: the figures of arXiv:2406.06893.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from stsq_core.configs import Evaluation, OneHot, TrialConfig
from stsq_core.programs import Program, Tensors

Metrics = dict[str, tuple[float, ...]]
"""Values by name, one for each trial of a stack."""


def evaluate(program: Program, parameters: Tensors, evaluation: Evaluation) -> Metrics:
    """Everything that an evaluation asks for, of each trial."""
    chunks = range(evaluation.num_chunks)
    metrics = _losses(partial(program.fresh_losses, parameters), chunks, "")
    for T in evaluation.T_test:
        metrics |= _losses(partial(program.fresh_losses, parameters, T=T), chunks, f"@T={T}")
    for q in evaluation.q_test:
        metrics |= _losses(partial(program.fresh_losses, parameters, q=q), chunks, f"@q={q}")
    if evaluation.describe:
        metrics |= _attention(program, parameters, chunks) | _directions(program, parameters)
    return metrics


def ground_truth(config: TrialConfig) -> dict[str, np.ndarray]:
    """The directions that training converges to: `V = [I_d, 0]`, and W with `I_{d_e}` as its E-E block, zero elsewhere.

    With one-hot codes that block is `I - J/T`, J the matrix of ones: what all scores share moves no attention, and gradient
    descent from zero keeps out of it.
    """
    d, m = config.task.d, config.width
    W, V = np.zeros((m, m)), np.eye(d, m)
    W[d:, d:] = np.eye(m - d)
    if _is_one_hot(config):
        W[d:, d:] -= 1 / config.task.T
    return {"W": W, "V": V}


def describe(weights: dict[str, np.ndarray], config: TrialConfig) -> dict[str, float]:
    """Cosines and norms of one trial's `W` and `V`; nothing of a model that has no such arrays."""
    if not {"W", "V"} <= weights.keys():
        return {}
    W, V, d = weights["W"].astype(np.float64), weights["V"].astype(np.float64), config.task.d
    truth = ground_truth(config)
    blocks = {
        "W_XX": W[:d, :d], "W_XE": W[:d, d:], "W_EX": W[d:, :d], "W_EE": W[d:, d:], "V_X": V[:, :d], "V_E": V[:, d:]
    }  # fmt: skip
    return {
        "cosine_W": _cosine(W, truth["W"]),
        **({"cosine_W_centred": _cosine(_centred(W, d), truth["W"])} if _is_one_hot(config) else {}),
        "cosine_V": _cosine(V, truth["V"]),
        **{f"norm_{name}": _norm(block) for name, block in blocks.items()},
    }


def _losses(fresh: Callable[[int], torch.Tensor], chunks: range, suffix: str) -> Metrics:
    """The mean of fresh losses and its standard error, taken over chunk means: samples of a chunk may share a code book."""
    # fsum rounds once, however many chunks there are.
    rows = torch.stack([fresh(chunk).mean(-1) for chunk in chunks], 1).double().tolist()
    means = tuple(math.fsum(values) / len(chunks) for values in rows)
    errors = tuple(_standard_error(values, mean) for values, mean in zip(rows, means, strict=True))
    return {f"loss{suffix}": means, f"loss_stderr{suffix}": errors}


def _standard_error(values: list[float], mean: float) -> float:
    if not math.isfinite(mean):
        return mean
    return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1) / len(values))


def _attention(program: Program, parameters: Tensors, chunks: range) -> Metrics:
    masses = [program.fresh_attention_mass(parameters, chunk) for chunk in chunks]
    held = [mass.mean(-1) for mass in masses if mass is not None]
    if not held:
        return {}
    rows = torch.stack(held, 1).double().tolist()
    return {"attention_mass": tuple(math.fsum(values) / len(values) for values in rows)}


def _directions(program: Program, parameters: Tensors) -> Metrics:
    described = [describe(program.weights(parameters, place), config) for place, config in enumerate(program.configs)]
    return {name: tuple(values[name] for values in described) for name in described[0]}


def _is_one_hot(config: TrialConfig) -> bool:
    return isinstance(getattr(config.model, "positions", None), OneHot)


def _centred(W: np.ndarray, d: int) -> np.ndarray:
    """W with the mean over keys taken out of its rows for codes."""
    centred = W.copy()
    centred[d:] -= centred[d:].mean(0)
    return centred


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    norms = _norm(a) * _norm(b)
    return float(np.sum(a * b)) / norms if norms else 0.0


def _norm(a: np.ndarray) -> float:
    return math.sqrt(float(np.sum(a * a)))
