"""Noise of tokens that are correlated with their neighbours."""

import numpy as np
from scipy.signal import lfilter


def arma(phi, theta, rows, tokens, seed=0):
    innovation = np.random.default_rng(seed).normal(size=(rows, tokens + 400))
    return lfilter([1.0, theta], [1.0, -phi], innovation, axis=1)[:, 400:]
