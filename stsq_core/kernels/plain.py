"""The kernels in plain NumPy and torch: the definition that faster ones are tested against, and what other devices run.

Draws are made on the CPU and moved to the device.
"""

import math

import numpy as np
import torch

from stsq_core.kernels.interface import DUAL_TOLERANCE, Kernels, PopulationStep, Rates, StreamKeys, TokenStep
from stsq_core.kernels.plain_networks import PlainNetworks

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox(keys: np.ndarray, i: np.ndarray, row: np.ndarray) -> np.ndarray:
    """The four words of Philox4x32-7 at the counter (i, row, 0, 0): uint64 below 2^32, shape (*broadcast, 4)."""
    k0, k1 = keys & _LOW, keys >> _32
    c0, c1, k0, k1 = np.broadcast_arrays(i.astype(np.uint64), row.astype(np.uint64), k0, k1)
    c2 = c3 = np.zeros_like(c0)
    for _ in range(7):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _LOW, (k1 + np.uint64(0xBB67AE85)) & _LOW
    return np.stack([c0, c1, c2, c3], -1)


def mix(x: torch.Tensor) -> torch.Tensor:
    """The SplitMix64 finaliser (Steele, Lea, Flood 2014) in wrapping int64 arithmetic."""

    def shifted(x: torch.Tensor, bits: int) -> torch.Tensor:
        return (x >> bits) & ((1 << (64 - bits)) - 1)

    def signed(constant: int) -> int:
        return constant - (1 << 64)

    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def layer(values: torch.Tensor, hot: torch.Tensor | None, *, columns: int, rectify: bool) -> torch.Tensor:
    """See `Kernels.layer`."""
    blocks = [values.relu_() if rectify else values] + ([] if hot is None else [hot])
    rest = values.new_zeros((*values.shape[:2], columns - sum(block.shape[-1] for block in blocks)))
    rest[..., 0].fill_(1)  # feeds the bias
    return torch.cat([*blocks, rest], -1)


class PlainKernels(PlainNetworks, Kernels):
    """Tensor operations on any device."""

    def keys(self, bases: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
        return mix(bases + step)

    def normals(self, draws: StreamKeys, *, rows: int, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        words = _stream(draws, rows, numbers)
        turn = words[..., 1::2, :]
        u = (words[..., 0::2, :] >> np.uint64(1)).astype(np.float32) * np.float32(2.0**-31) + np.float32(2.0**-32)
        radius = np.sqrt(-2 * np.log(u))
        angle = turn.astype(np.uint32).view(np.int32) * (math.pi / 4 / 2**31)
        along, across = (1 - (turn & np.uint64(2)).astype(np.float64)) * radius * np.cos(angle), radius * np.sin(angle)
        turned = turn & np.uint64(1) != 0
        pairs = np.stack([np.where(turned, across, along), np.where(turned, along, across)], -2).astype(np.float32)
        return self._moved(draws, pairs.reshape(*words.shape[:2], -1)[..., :numbers], dtype)

    def uniforms(self, draws: StreamKeys, *, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        words = _stream(draws, 1, numbers)
        values = ((words >> np.uint64(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23) - np.float32(1)
        return self._moved(draws, values.reshape(len(words), -1)[:, :numbers], dtype)

    def signs(self, draws: StreamKeys, *, tokens: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        blocks = -(-length // 128)
        words = philox(_keys(draws)[:, None, None], np.arange(tokens)[:, None], np.arange(blocks))
        bits = (words[..., None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
        return self._moved(draws, 1 - 2 * bits.reshape(len(words), tokens, -1)[..., :length].astype(np.float32), dtype)

    def subsets(self, draws: StreamKeys, *, rows: int, T: int, q: int) -> torch.Tensor:
        words = philox(_keys(draws)[:, None, None], np.arange(rows)[:, None], np.arange(-(-q // 2)))
        words = words.reshape(len(words), rows, -1, 2)
        chosen: list[np.ndarray] = []
        for j in range(q):
            bound = np.uint64(T - q + j + 1)
            candidate = (words[:, :, j, 0] * bound + (words[:, :, j, 1] * bound >> _32)) >> _32
            taken = np.any([candidate == earlier for earlier in chosen], axis=0) if chosen else False
            chosen.append(np.where(taken, np.uint64(T - q + j), candidate))
        return draws.spread(torch.from_numpy(np.stack(chosen, -1).astype(np.int64)).to(self.device))

    def dual(self, codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        members = torch.stack([book[subset] for book, subset in zip(codes.double(), y, strict=True)])
        gram = members @ members.mT
        residual = torch.ones_like(gram[..., :1])
        c, direction = torch.zeros_like(residual), residual
        slope = residual.mT @ gram @ residual
        enough = DUAL_TOLERANCE**2 * slope
        for _ in range(y.shape[-1]):
            image = gram @ direction
            curvature = image.mT @ image
            going = (slope > enough) & (curvature > 0)
            step = torch.where(going, slope / curvature, 0)
            c, residual = c + step * direction, residual - step * image
            new_slope = residual.mT @ gram @ residual
            direction = residual + torch.where(going, new_slope / slope, 0) * direction
            slope = torch.where(going, new_slope, 0)
        return c.squeeze(-1).to(codes.dtype)

    def attend_population(
        self, N: torch.Tensor, v: torch.Tensor, y: torch.Tensor, c: torch.Tensor, *, T: int, gradient: bool
    ) -> PopulationStep:
        a = _over_tokens(y, c, len(N[0]))
        p = _softmax(a @ N, T)
        residual = v.view(-1, 1, 1) * p - _over_tokens(y, torch.ones_like(c), len(N[0])) / y.shape[-1]
        if not gradient:
            return PopulationStep((residual**2).sum(-1), torch.zeros_like(v), torch.zeros_like(N))
        shares = (p * residual).sum(-1)
        g = p * (residual - shares.unsqueeze(-1))
        return PopulationStep((residual**2).sum(-1), shares.mean(-1), a.mT @ g / y.shape[1])

    def attend_tokens(
        self,
        draws: StreamKeys,
        N: torch.Tensor,
        K: torch.Tensor,
        Q: torch.Tensor,
        V_x: torch.Tensor,
        y: torch.Tensor,
        c: torch.Tensor,
        *,
        T: int,
        gradient: bool,
    ) -> TokenStep:
        batch, d = y.shape[1], K.shape[1]
        X = self.normals(draws, rows=1, numbers=batch * d * T, dtype=N.dtype).view(len(y), batch, d, T)
        X = torch.nn.functional.pad(X, (0, N.shape[-1] - T))
        a = _over_tokens(y, c, N.shape[-1])
        u = torch.einsum("kbj,kdj->kbd", a, Q)
        p = _softmax(a @ N + torch.einsum("kbd,kbdt->kbt", u, X), T)
        context = torch.einsum("kbdt,kbt->kbd", X, p)
        target = torch.einsum("kbdt,kbt->kbd", X, _over_tokens(y, torch.ones_like(c), N.shape[-1])) / y.shape[-1]
        r = context @ V_x.mT + p @ K.mT - target
        squares = (r**2).sum(-1)
        if not gradient:
            return TokenStep(squares, torch.zeros_like(N), torch.zeros_like(K), torch.zeros_like(Q), torch.zeros_like(V_x))
        grad_p = r @ K + torch.einsum("kbd,kbdt->kbt", r @ V_x, X)
        g = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        grad_u = torch.einsum("kbdt,kbt->kbd", X, g)
        means = (a.mT @ g, r.mT @ p, grad_u.mT @ a, r.mT @ context)
        return TokenStep(squares, *(total / batch for total in means))

    def layer(self, values: torch.Tensor, hot: torch.Tensor | None, *, columns: int, rectify: bool) -> torch.Tensor:
        return layer(values, hot, columns=columns, rectify=rectify)

    def descend(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor] | None, rates: Rates
    ) -> None:
        def like(vector: torch.Tensor) -> torch.Tensor:
            return vector.view(-1, *(1 for _ in parameter.shape[1:]))

        direction = gradient
        if moments is not None:
            m, v = moments
            adam = like(rates.adam)
            m.copy_(torch.where(adam, like(rates.beta1) * m + like(1 - rates.beta1) * gradient, m))
            v.copy_(torch.where(adam, like(rates.beta2) * v + like(1 - rates.beta2) * gradient**2, v))
            direction = torch.where(adam, m / (v.sqrt() / like(rates.root) + like(rates.eps)), gradient)
        parameter.sub_(like(rates.rate) * direction)

    def _moved(self, draws: StreamKeys, values: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
        return draws.spread(torch.from_numpy(np.ascontiguousarray(values)).to(self.device, dtype))


def _keys(draws: StreamKeys) -> np.ndarray:
    return draws.keys.cpu().numpy().view(np.uint64)


def _stream(draws: StreamKeys, rows: int, numbers: int) -> np.ndarray:
    """The words of numbers 0, 1, ... of each row, in groups of 16 by word: (n, rows, 4 groups, 16), at least `numbers`."""
    counters = np.arange(-(-numbers // 64) * 16)
    words = philox(_keys(draws)[:, None, None], counters, np.arange(rows)[:, None])
    return words.reshape(len(words), rows, -1, 16, 4).swapaxes(-1, -2).reshape(len(words), rows, -1, 16)


def _over_tokens(y: torch.Tensor, values: torch.Tensor, tokens: int) -> torch.Tensor:
    """Values of the members of each subset spread over all tokens, zero elsewhere: (k, batch, tokens)."""
    return torch.zeros((*y.shape[:2], tokens), dtype=values.dtype, device=y.device).scatter_(2, y, values)


def _softmax(scores: torch.Tensor, T: int) -> torch.Tensor:
    """Softmax over the first T tokens, zero beyond."""
    beyond = torch.arange(scores.shape[-1], device=scores.device) >= T
    return scores.masked_fill(beyond, -math.inf).softmax(-1)
