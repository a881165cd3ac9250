"""Samples of sparse Boolean functions, and the loss of what a model makes of them."""

from typing import assert_never

import torch

from stsq_core.configs import COPIED, SparseBoolean
from stsq_core.numerics import placeless
from stsq_core.tasks.examples import Batch, Examples, Source


class BooleanExamples(Examples[SparseBoolean]):
    """T bits of +-1, and the value of a function of those at hidden positions, which no model is shown.

    Training descends the logistic loss `ln(1 + e^{-label f})`. The relative loss of a sample is twice the indicator of a wrong
    sign (a zero is half wrong): its mean is `2 (1 - accuracy)`, 1 for a fair coin.
    """

    @property
    def output_size(self) -> int:
        return 1

    @property
    def zero_loss(self) -> float:
        """The error of a model that answers zero, a fair coin's."""
        return 0.5

    def batch(self, source: Source, count: int) -> Batch:
        T = self.task.T
        drawn = source.uniforms("bits", 1, count * T).view(-1, count, T)
        bits = torch.where(drawn < 2 * self.task.truth_probability - 1, 1.0, -1.0).to(source.dtype)
        if self.task.inputs == "structured":
            copied = source.uniforms("copied bits", 1, count * T).view(-1, count, T) < 2 * COPIED - 1
            place = torch.arange(T, device=bits.device)
            bits = bits.gather(2, place.where(~copied, 0).cummax(2).values)
        asked = bits.gather(2, self.hidden(source).expand(-1, count, -1))
        return Batch(bits.unsqueeze(-1), None, self._label(asked).view(-1, count, 1, 1))

    def hidden(self, source: Source) -> torch.Tensor:
        """Where each trial's hidden bits are, (k, 1, q)."""
        return source.of_trial().subsets("hidden bits", 1, T=self.task.T, q=self.task.q)

    def objective(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        return placeless(torch.nn.functional.softplus, -outputs * batch.target).flatten(1)

    def relative_losses(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """`2 * 1(wrong sign)` of each sample, (k, batch); not finite where the output is not."""
        return (1 - (outputs * batch.target).sign() + 0 * outputs).flatten(1)

    def _label(self, bits: torch.Tensor) -> torch.Tensor:
        """The function of q bits of +-1, (.., q): +-1."""
        match self.task.function:
            case "and":
                return bits.amin(-1)
            case "or":
                return bits.amax(-1)
            case "majority":
                return bits.sum(-1).sign()
            case "parity":
                return bits.prod(-1)
            case function:
                assert_never(function)
