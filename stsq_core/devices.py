"""Which device a pack trains on."""

from typing import Literal

Device = Literal["auto", "cpu", "cuda"]


def resolve_device(asked: Device) -> str:
    """The torch device for what was asked: `auto` is the GPU where torch sees one, else the CPU."""
    if asked != "auto":
        return asked
    import torch  # here, so that naming a device does not wait for it

    return "cuda" if torch.cuda.is_available() else "cpu"
