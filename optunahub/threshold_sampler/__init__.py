"""A sampler that looks for the threshold of a parameter: from which value on an objective reaches a target."""

from .result import ThresholdResult
from .threshold_sampler import ThresholdSampler

__all__ = ["ThresholdResult", "ThresholdSampler"]
