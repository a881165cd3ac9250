"""The loops of the networks in torch: the definition that the compiled ones are tested against, and what other devices run."""

import torch

from stsq_core.kernels.network_interface import NetworkKernels


class PlainNetworks(NetworkKernels):
    """Tensor operations on any device."""

    def gru(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, kept: torch.Tensor, *, t: int, before: int, units: int
    ) -> None:
        fed_rz, fed_n = fed.tensor_split([2 * states.shape[-1]], -1)
        x_rz, x_n = x[:, t].tensor_split([2 * states.shape[-1]], -1)
        gates = (x_rz + fed_rz).sigmoid_()
        r, z = gates.chunk(2, -1)
        n = (x_n + r * fed_n).tanh_()
        after = after_step(t, before)
        states[:, after] = n + z * (states[:, before] - n)
        states[:, after, :, units] = 1
        kept[:, t] = torch.cat([gates, n, fed_n], -1)

    def gru_back(
        self,
        slope: torch.Tensor,
        fed_back: torch.Tensor,
        carried: torch.Tensor,
        states: torch.Tensor,
        kept: torch.Tensor,
        at_x: torch.Tensor,
        at_fed: torch.Tensor,
        *,
        t: int,
        before: int,
        units: int,
    ) -> None:
        r, z, n, fed_n = kept[:, t].chunk(4, -1)
        carried += slope[:, t] + fed_back
        carried[..., units] = 0
        at_n = carried * (1 - z) * (1 - n * n)
        at_r = at_n * fed_n * r * (1 - r)
        at_z = carried * (states[:, before] - n) * z * (1 - z)
        at_x[:, t] = torch.cat([at_r, at_z, at_n], -1)
        at_fed[:, t] = torch.cat([at_r, at_z, at_n * r], -1)
        carried *= z

    def elman(
        self, x: torch.Tensor, fed: torch.Tensor, states: torch.Tensor, *, t: int, before: int, units: int, is_tanh: bool
    ) -> None:
        h, after = x[:, t] + fed, after_step(t, before)
        states[:, after] = h.tanh_() if is_tanh else h.relu_()
        states[:, after, :, units] = 1

    def elman_back(
        self,
        slope: torch.Tensor,
        fed_back: torch.Tensor,
        states: torch.Tensor,
        at_x: torch.Tensor,
        *,
        t: int,
        before: int,
        units: int,
        is_tanh: bool,
    ) -> None:
        h, at_h = states[:, after_step(t, before)], slope[:, t] + fed_back
        at_x[:, t] = at_h * (1 - h * h) if is_tanh else at_h * (h > 0)
        at_x[:, t, :, units] = 0


def after_step(t: int, before: int) -> int:
    """The place of the state after step t, which is either t or t + 1, as the state before it is the other."""
    return 2 * t + 1 - before
