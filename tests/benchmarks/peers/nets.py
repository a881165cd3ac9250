"""The fully connected net by others: one eager PyTorch model, and JAX `jit(vmap(scan))` over a pack (`pip install jax`).

The net of `stsq_core.programs.fcn`: two hidden layers of rectified units, the subset at both, uniform initial weights, Adam.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class NetSize:
    """A task, the widths of the two hidden layers, and a batch."""

    T: int
    width: int
    batch: int
    q: int = 3
    d: int = 2
    tail: int = 128

    def __str__(self) -> str:
        return f"T={self.T} d={self.d} width={self.width} tail={self.tail} batch={self.batch}"


def eager_net_loop(size: NetSize, *, seed: int, steps: int, lr: float = 0.001) -> None:
    """Train one net."""
    import torch
    from torch import nn

    T, q, d, B = size.T, size.q, size.d, size.batch
    gen = torch.Generator().manual_seed(seed)
    first, second, last = nn.Linear(T * d + T, size.width), nn.Linear(size.width + T, size.tail), nn.Linear(size.tail, d)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *last.parameters()], lr=lr)
    for _ in range(steps):
        X = torch.randn(B, T, d, generator=gen)
        y = torch.rand(B, T, generator=gen).topk(q, dim=1).indices
        Y = torch.zeros(B, T).scatter_(1, y, 1.0)
        target = torch.einsum("bt,btd->bd", Y, X) / q
        h = torch.relu(first(torch.cat([X.view(B, -1), Y], 1)))
        out = last(torch.relu(second(torch.cat([h, Y], 1))))
        loss = 0.5 * ((out - target) ** 2).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def jax_net(size: NetSize, *, pack: int, steps: int) -> Callable[[], float]:
    """What trains a pack and returns the microseconds of a model-step, again and again."""
    from peers.jax_vmap import compiled_run

    return compiled_run(functools.partial(_initial, size), functools.partial(_loss, size), pack=pack, steps=steps)


def _initial(size: NetSize, key):
    import jax

    shapes = (size.T * (size.d + 1), size.width), (size.width + size.T, size.tail), (size.tail, size.d)
    keys = jax.random.split(key, len(shapes))
    return tuple(
        (jax.random.uniform(k, shape, minval=-1, maxval=1) / shape[0] ** 0.5, jax.numpy.zeros(shape[1]))
        for k, shape in zip(keys, shapes, strict=True)
    )


def _loss(size: NetSize, parameters, key):
    import jax
    import jax.numpy as jnp

    T, q, d, B = size.T, size.q, size.d, size.batch
    key_x, key_y = jax.random.split(key)
    X = jax.random.normal(key_x, (B, T, d))
    y = jax.lax.top_k(jax.random.uniform(key_y, (B, T)), q)[1]
    Y = jnp.zeros((B, T)).at[jnp.arange(B)[:, None], y].set(1.0)
    (W1, b1), (W2, b2), (W3, b3) = parameters
    h = jax.nn.relu(jnp.concatenate([X.reshape(B, -1), Y], 1) @ W1 + b1)
    out = jax.nn.relu(jnp.concatenate([h, Y], 1) @ W2 + b2) @ W3 + b3
    target = jnp.take_along_axis(X, y[..., None], 1).mean(1)
    return 0.5 * ((out - target) ** 2).sum(-1).mean()
