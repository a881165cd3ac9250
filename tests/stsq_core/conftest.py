"""Tiny tensors gain nothing from a second thread, and lose much to it on a busy machine."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
