"""From scores to weights: the kinds of attention."""

import math

import torch

from stsq_core.configs import Scores, missing_case
from stsq_core.numerics import placeless


def weigh(scores: torch.Tensor, kind: Scores, *, q: int, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The weights p of scores along the last axis, of the same shape (`architecture.Scores` says how).

    Args:
        scores: (k, ..., T).
        kind: which attention.
        q: how many scores `top_q` keeps at least.
        bias: b of `sigmoid`, (k, 1).
    """
    match kind:
        case "softmax":
            return scores.softmax(-1)
        case "linear":
            return scores
        case "top_q":
            least = scores.detach().topk(min(q, scores.shape[-1]), -1, sorted=True).values[..., -1:]
            return scores.masked_fill(scores.detach() < least, -math.inf).softmax(-1)
        case "sigmoid":
            assert bias is not None
            return placeless(torch.sigmoid, scores + bias.view(-1, *[1] * (scores.dim() - 1)))
        case _:
            raise missing_case(kind, "stsq_core/networks/scores.py: weigh")


def mass(weights: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The share of the weights' absolute sum that lies on y, (k, rows), for weights (k, rows, columns) and y (k, rows, q)."""
    size = weights.abs()
    return size.gather(2, y).sum(-1) / size.sum(-1).clamp_min(torch.finfo(size.dtype).tiny)
