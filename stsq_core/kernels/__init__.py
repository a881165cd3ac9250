"""The engine's inner loops, one implementation a kind of device."""

import torch

from stsq_core.kernels.interface import Draws, Kernels, PopulationStep, Rates, TokenStep

__all__ = ["Draws", "Kernels", "PopulationStep", "Rates", "TokenStep", "kernels_for"]


def kernels_for(device: torch.device) -> Kernels:
    """The fastest implementation that runs on a device. What a kind of device needs is imported only where it is used."""
    if device.type == "cpu":
        from stsq_core.kernels.cpu import CpuKernels

        return CpuKernels(device)
    from stsq_core.kernels.plain import PlainKernels

    return PlainKernels(device)
