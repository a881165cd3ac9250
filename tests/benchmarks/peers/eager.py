"""One eager PyTorch model: the minibatch STSq transformer with per-step random-sign codes, as a careful user would write it."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A task, a code length and a batch."""

    T: int
    q: int
    d: int
    d_e: int
    batch: int

    def __str__(self) -> str:
        return f"T={self.T} q={self.q} d={self.d} d_e={self.d_e} batch={self.batch}"


def eager_loop(
    size: Size, *, seed: int, steps: int, lr: float = 0.01, device: str = "cpu", report: Callable[[int, float], None]
) -> None:
    """Train one model with Adam and the `sum` query; report its relative loss every 100 steps and at the end."""
    import torch

    T, q, d, d_e, B = size.T, size.q, size.d, size.d_e, size.batch
    gen = torch.Generator(device).manual_seed(seed)

    def batch():
        X = torch.randn(B, T, d, generator=gen, device=device)
        y = torch.rand(B, T, generator=gen, device=device).topk(q, dim=1).indices
        E = (torch.randint(0, 2, (T, d_e), generator=gen, device=device).float() * 2 - 1) / math.sqrt(d_e)
        Y = torch.zeros(B, T, device=device).scatter_(1, y, 1.0)
        return X, E, Y, torch.einsum("bt,btd->bd", Y, X) / q

    W = torch.zeros(d + d_e, d + d_e, requires_grad=True, device=device)
    V = torch.zeros(d, d + d_e, requires_grad=True, device=device)

    def squared_error(X, E, Y, target):
        Z = torch.cat([X, E.expand(B, -1, -1)], -1)
        z_query = torch.cat([torch.zeros(B, d, device=device), Y @ E], -1)
        weights = torch.einsum("btD,bD->bt", Z, z_query @ W.T).softmax(-1)
        out = torch.einsum("bt,btD->bD", weights, Z) @ V.T
        return ((out - target) ** 2).sum(-1).mean()

    optimizer = torch.optim.Adam([W, V], lr=lr)
    for step in range(1, steps + 1):
        loss = 0.5 * squared_error(*batch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == steps:
            with torch.no_grad():
                report(step, sum(squared_error(*batch()).item() for _ in range(8)) / 8 / (d / q))
