"""Tiny tensors gain nothing from a second thread, and lose much to it on a busy machine."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported: the GPU's kernels run on CPU tensors


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
