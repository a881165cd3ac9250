"""What tensors hold at a time, and the shapes at which the counts of `stsq_core.training.cost` are held against it."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class HeldBytes(TorchDispatchMode):
    """Follows every tensor storage from its creation to its end, and remembers the most bytes that were held at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._held = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._follow(tensor.untyped_storage())
        return out

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._known:
            self._known.add(key)
            self._held += storage.nbytes()
            self.peak = max(self.peak, self._held)
            weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, num_bytes: int) -> None:
        self._known.discard(key)
        self._held -= num_bytes


FULL = {"model__init": "gaussian", "model__x_query": "gaussian", "model__attend_query": True}

SHAPES = {
    "minibatch": {"T": 32, "d": 5, "d_e": 32, "training": {"batch_size": 64}},
    "minibatch, long": {"T": 200, "d": 5, "d_e": 64, "training": {"batch_size": 256}},
    "population": {"T": 50, "d": 5, "d_e": 64, "training": {"objective": "population", "batch_size": 256}},
    "population, wide": {"T": 128, "d_e": 200, "training": {"objective": "population", "batch_size": 16}},
    "float64": {"T": 50, "d_e": 24, "training": {"batch_size": 64, "dtype": "float64"}},
    "one-hot": {"T": 64, "model__positions": {"kind": "one_hot"}, "training": {"batch_size": 64}},
    "a book a sample": {
        "T": 32,
        "d": 5,
        "model__positions": {"kind": "random_sign", "d_e": 32, "redraw": "per_sample"},
        "training": {"batch_size": 64},
    },
    "gaussian": {"T": 64, "d": 5, "model__positions": {"kind": "gaussian", "d_e": 64}, "training": {"batch_size": 64}},
    "gaussian, a book a sample": {
        "T": 32,
        "d": 5,
        "model__positions": {"kind": "gaussian", "d_e": 32, "redraw": "per_sample"},
        "training": {"batch_size": 64},
    },
    "sinusoidal": {"T": 64, "d": 5, "model__positions": {"kind": "sinusoidal", "d_e": 48}, "training": {"batch_size": 64}},
    "full": {"T": 48, "d": 11, "d_e": 21, "training": {"batch_size": 64}, **FULL},
    "full, wide": {"T": 24, "d_e": 200, "training": {"batch_size": 16}, **FULL},
    "full, one-hot": {"T": 64, "d": 4, "model__positions": {"kind": "one_hot"}, "training": {"batch_size": 256}, **FULL},
    "full, a book a sample": {
        "T": 32,
        "d": 5,
        "model__init": "gaussian",
        "model__positions": {"kind": "gaussian", "d_e": 32, "redraw": "per_sample"},
        "training": {"batch_size": 64},
    },
    "learned": {"T": 50, "d": 5, "model__positions": {"kind": "learned", "d_e": 64}, "training": {"batch_size": 64}},
    "learned, dual": {
        "T": 50,
        "d": 5,
        "model__positions": {"kind": "learned", "d_e": 64, "query": "dual"},
        "training": {"batch_size": 64},
    },
    "learned, float64": {
        "T": 24,
        "model__positions": {"kind": "learned", "d_e": 100},
        "training": {"batch_size": 16, "dtype": "float64"},
    },
    "population, a book a sample": {
        "T": 20,
        "model__positions": {"kind": "random_sign", "d_e": 16, "redraw": "per_sample"},
        "training": {"objective": "population", "batch_size": 64},
    },
}

NETS = [(12, 16, 128), (32, 128, 512), (4, 8, 64)]
"""(T, width, batch) of fully connected nets."""
