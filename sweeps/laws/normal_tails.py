"""Log probability and hazard of the normal tail, element by element and far out, as censored likelihoods need them."""

import math

import numpy as np

FAR = -20.0
"""Below this the asymptotic series is exact to 1e-7."""


def log_probability(z: np.ndarray) -> np.ndarray:
    """`ln Phi(z)`."""
    near = np.maximum(z, FAR)
    probability = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in near.ravel().tolist()]).reshape(z.shape)
    beyond = np.minimum(z, FAR)
    series = -(beyond**2) / 2 - np.log(-beyond * math.sqrt(2 * math.pi)) + np.log1p(-1 / beyond**2 + 3 / beyond**4)
    logs: np.ndarray = np.where(z < FAR, series, np.log(probability))
    return logs


def hazard(z: np.ndarray) -> np.ndarray:
    """`phi(z) / Phi(z)`, the derivative of `ln Phi`."""
    bounded = np.clip(z, -1e6, 38.0)
    ratio: np.ndarray = np.exp(-(bounded**2) / 2 - log_probability(bounded)) / math.sqrt(2 * math.pi)
    return ratio
