"""Which device a pack trains on, and the memory it has."""

import os
from typing import Literal

Device = Literal["auto", "cpu", "cuda"]


def resolve_device(asked: Device) -> Literal["cpu", "cuda"]:
    """The torch device for what was asked: `auto` is the GPU where torch sees one, else the CPU."""
    if asked != "auto":
        return asked
    import torch  # here, so that naming a device does not wait for it

    return "cuda" if torch.cuda.is_available() else "cpu"


def free_memory(device: Literal["cpu", "cuda"], *, share: float = 1.0) -> float:
    """Bytes of memory that are free: on the GPU, or on this machine as its kernel counts them.

    Of a GPU that several workers share no more than one's `share` of all of it.
    """
    if device == "cpu":
        free = "SC_AVPHYS_PAGES"
        pages = free if free in os.sysconf_names else "SC_PHYS_PAGES"  # macOS counts no free ones
        return float(os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE"))
    import torch

    unused, total = torch.cuda.mem_get_info()
    return min(float(unused), share * total)
