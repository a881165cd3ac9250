"""The strongest alternative for a pack: JAX, `jit(vmap(scan))` over the models, with all data drawn inside.

Trains the model of `eager.py` (per-step random-sign codes, Adam); needs `pip install jax`.
"""

import functools
import math
import time
from collections.abc import Callable

from peers.eager import Size


def stack_microseconds(size: Size, *, query: str, pack: int, steps: int, rounds: int = 3) -> float:
    """Microseconds of a model-step of the transformer, compilation not counted: the median of some rounds."""
    run = compiled_run(functools.partial(_initial, size), functools.partial(_loss, size, query), pack=pack, steps=steps)
    return sorted(run() for _ in range(rounds))[rounds // 2]


def compiled_run(initial: Callable, loss: Callable, *, pack: int, steps: int) -> Callable[[], float]:
    """What trains a pack and returns the microseconds of a model-step, again and again.

    Args:
        initial: parameters from a key.
        loss: of parameters on a batch that is drawn from a key.
        pack: how many models.
        steps: of a run.
    """
    import jax

    compiled = jax.jit(jax.vmap(functools.partial(_run, initial, loss, steps)))
    keys = jax.random.split(jax.random.PRNGKey(0), pack)
    compiled(keys).block_until_ready()

    def run() -> float:
        begun = time.perf_counter()
        compiled(keys).block_until_ready()
        return (time.perf_counter() - begun) / pack / steps * 1e6

    return run


def _initial(size: Size, key):
    import jax.numpy as jnp

    return jnp.zeros((size.d + size.d_e, size.d_e)), jnp.zeros((size.d, size.d + size.d_e))


def _loss(size: Size, query: str, parameters, key):
    import jax
    import jax.numpy as jnp

    T, q, d, d_e, B = size.T, size.q, size.d, size.d_e, size.batch
    W, V = parameters
    key_x, key_y, key_e = jax.random.split(key, 3)
    X = jax.random.normal(key_x, (B, T, d))
    y = jax.lax.top_k(jax.random.uniform(key_y, (B, T)), q)[1]
    E = (jax.random.bernoulli(key_e, 0.5, (T, d_e)).astype(jnp.float32) * 2 - 1) / math.sqrt(d_e)
    members = E[y]
    if query == "dual":
        gram = members @ members.transpose(0, 2, 1) + 1e-6 * jnp.eye(q)
        members = members * jnp.linalg.solve(gram, jnp.ones((B, q, 1)))
    u = members.sum(1) @ W.T
    p = jax.nn.softmax(u[:, d:] @ E.T + jnp.einsum("btd,bd->bt", X, u[:, :d]))
    out = jnp.einsum("bt,btd->bd", p, X) @ V[:, :d].T + (p @ E) @ V[:, d:].T
    target = jnp.take_along_axis(X, y[..., None], 1).mean(1)
    return 0.5 * ((out - target) ** 2).sum(-1).mean()


def _step(objective: Callable, state, key):
    import jax
    import jax.numpy as jnp

    parameters, m, v, t = state
    loss, gradient = jax.value_and_grad(objective)(parameters, key)
    t = t + 1
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, gradient)
    parameters = jax.tree.map(
        lambda p, a, b: p - 0.01 * (a / (1 - 0.9**t)) / (jnp.sqrt(b / (1 - 0.999**t)) + 1e-8), parameters, m, v
    )
    return (parameters, m, v, t), loss


def _run(initial: Callable, loss: Callable, steps: int, key):
    import jax
    import jax.numpy as jnp

    key_start, key = jax.random.split(key)
    start = initial(key_start)
    state = start, jax.tree.map(jnp.zeros_like, start), jax.tree.map(jnp.zeros_like, start), 0.0
    return jax.lax.scan(functools.partial(_step, loss), state, jax.random.split(key, steps))[1]
