"""Which implementation of the inner loops runs on a device."""

import torch

from stsq_core.kernels.interface import Kernels


def kernels_for(device: torch.device) -> Kernels:
    """The fastest implementation that runs on a device. What a kind of device needs is imported only where it is used."""
    if device.type == "cpu":
        from stsq_core.kernels.cpu import CpuKernels

        return CpuKernels(device)
    if device.type == "cuda" and _has_triton():
        from stsq_core.kernels.cuda import CudaKernels

        return CudaKernels(device)
    from stsq_core.kernels.plain import PlainKernels

    return PlainKernels(device)


def _has_triton() -> bool:
    """Whether there is a Triton that knows tuples, which came with 3.3 (and torch 2.7)."""
    try:
        import triton
    except ImportError:
        return False
    return tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)
