"""The kernels of the CPU: thin wrappers that lend the compiled loops the tensors' memory."""

import torch

from stsq_core.kernels import compiled
from stsq_core.kernels.interface import DUAL_TOLERANCE, Draws, Kernels, PopulationStep, Rates, TokenStep


class CpuKernels(Kernels):
    """Compiled loops over NumPy views: bit for bit the same for a trial whoever shares its stack."""

    def keys(self, bases: torch.Tensor, step: int | torch.Tensor) -> torch.Tensor:
        keys = torch.empty_like(bases)
        compiled.keys(bases.numpy(), int(step), keys.numpy())
        return keys

    def normals(self, draws: Draws, *, rows: int, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), rows, numbers), dtype=dtype)
        compiled.normals(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def uniforms(self, draws: Draws, *, numbers: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), numbers), dtype=dtype)
        compiled.uniforms(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def signs(self, draws: Draws, *, tokens: int, length: int, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((len(draws.keys), tokens, length), dtype=dtype)
        compiled.signs(draws.keys.numpy(), out.numpy())
        return draws.spread(out)

    def subsets(self, draws: Draws, *, rows: int, T: int, q: int) -> torch.Tensor:
        out = torch.empty((len(draws.keys), rows, q), dtype=torch.int64)
        compiled.subsets(draws.keys.numpy(), T, out.numpy())
        return draws.spread(out)

    def dual(self, codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(y.shape, dtype=codes.dtype)
        compiled.dual(codes.numpy(), y.numpy(), DUAL_TOLERANCE, out.numpy())
        return out

    def attend_population(
        self, N: torch.Tensor, v: torch.Tensor, y: torch.Tensor, c: torch.Tensor, *, T: int, gradient: bool
    ) -> PopulationStep:
        step = PopulationStep(
            squares=torch.empty(y.shape[:2], dtype=N.dtype), shares=torch.zeros_like(v), G=torch.zeros(N.shape, dtype=N.dtype)
        )
        inputs = (tensor.contiguous().numpy() for tensor in (N, v, y, c))
        compiled.attend_population(*inputs, T, gradient, *(tensor.numpy() for tensor in vars(step).values()))
        return step

    def attend_tokens(
        self,
        draws: Draws,
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
        step = TokenStep(
            squares=torch.empty(y.shape[:2], dtype=N.dtype),
            G=torch.zeros(N.shape, dtype=N.dtype),
            R=torch.zeros(K.shape, dtype=N.dtype),
            H=torch.zeros(Q.shape, dtype=N.dtype),
            grad_V_x=torch.zeros(V_x.shape, dtype=N.dtype),
        )
        inputs = (tensor.contiguous().numpy() for tensor in (draws.keys, draws.owner, N, K, Q, V_x, y, c))
        compiled.attend_tokens(*inputs, T, gradient, *(tensor.numpy() for tensor in vars(step).values()))
        return step

    def descend(
        self, parameter: torch.Tensor, gradient: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor] | None, rates: Rates
    ) -> None:
        k = len(parameter)
        flat = [tensor.view(k, -1) for tensor in (parameter, *(moments or ()))]
        arrays = [tensor.numpy() for tensor in (gradient.reshape(k, -1), *flat)]
        if moments is None:
            compiled.descend(*arrays, rates.rate.numpy())
        else:
            compiled.descend_with_moments(*arrays, *(vector.numpy() for vector in vars(rates).values()))
