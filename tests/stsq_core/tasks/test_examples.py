"""The slope of an objective at a model's outputs, which is written down where the objective is half a squared error."""

import pytest
import torch

from stsq_core.configs import Stsq
from stsq_core.tasks import Batch
from stsq_core.tasks.selection import StsqExamples

TASK = Stsq(T=5, q=2, d=3)


class Cubes(StsqExamples):
    """A plugin's, say."""

    def objective(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        return (outputs - batch.target).abs().pow(3).flatten(2).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 7, 64, 100])
@pytest.mark.parametrize("kind", [StsqExamples, Cubes])
def test_the_slope_has_the_bits_that_autograd_finds(kind: type[StsqExamples], count: int, dtype: torch.dtype) -> None:
    examples, numbers = kind(TASK), torch.Generator().manual_seed(count)
    outputs, target = torch.randn((2, 3, count, 2, 3), generator=numbers, dtype=dtype)
    batch = Batch(torch.zeros(3, count, 5, 3), None, target)
    leaf = outputs.clone().requires_grad_()
    (found,) = torch.autograd.grad(examples.objective(leaf, batch).mean(-1).sum(), leaf)
    torch.testing.assert_close(examples.slope(outputs, batch), found, rtol=0, atol=0)
