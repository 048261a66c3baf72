"""Numbers beside the statements of the normaliser: the two that each of errata 101-107 sets side by
side.

Source: arXiv 2508.17821. The words of each erratum are in normaliser.toml. Imports numpy.
"""

from __future__ import annotations

import numpy as np

from theory.errata.examples import Numbers
from theory.normaliser.direction_sums import share_within
from theory.normaliser.distances import distances
from theory.normaliser.normalisers import jacobian, weights


def weight_of_one() -> Numbers:
    """Erratum 101: a weight of one half in a long context."""
    length, bound = 10_000, 5.0
    logits = np.full(length, -bound)
    logits[0] = bound
    largest, upper = float(weights(logits).max()), float(np.exp(2 * bound) / length)
    quoted = {"length": float(length), "bound": upper}
    return Numbers(1 / length, largest, largest > 0.5 and upper > 1, quoted)


def one_norm() -> Numbers:
    """Erratum 102: d̃ as one norm."""
    found = distances([1 / 3] * 3, [[1.0], [2.0], [2.0]], [True, False, False])
    bound, one = float(found.printed), float(found.one_norm)
    total = float(found.total)
    return Numbers(bound, one, total <= bound * (1 + 1e-12) < one, {"total": total})


def heavy_outside() -> Numbers:
    """Erratum 103: a token outside that weighs more than all inside."""
    found = distances([0.1, 0.9], [[1.0], [1.0]], [True, False])
    bound, truth = float(found.printed), float(found.total)
    return Numbers(bound, truth, bound < truth and bool(np.isclose(found.repaired, truth)))


def mean_below_rms() -> Numbers:
    """Erratum 104: the mean of a distance lies below its root mean square."""
    angles = (np.arange(4096) + 0.5) * 2 * np.pi / 4096  # of one unit vector to the other
    mean = float(np.sqrt(2 + 2 * np.cos(angles)).mean())
    return Numbers(2**0.5, mean, bool(np.isclose(mean, 4 / np.pi, rtol=1e-6)))


def largest_contribution() -> Numbers:
    """Erratum 105: M as the largest contribution."""
    tokens, dimension = 65, 8
    rms = (tokens - 1) ** 0.5
    bound = float(np.exp(-((rms / 2) ** 2) / 2))
    truth = float(share_within(np.ones(tokens - 1), rms / 2, dimension))
    return Numbers(bound, truth, bound < truth, {"tokens": float(tokens)})


def tied_pair() -> Numbers:
    """Erratum 106: the spectral norm of a tied pair."""
    norm = float(np.linalg.norm(jacobian([0.5, 0.5]), 2))
    return Numbers(0.25, norm, bool(np.isclose(norm, 0.5)))


def cold_pair() -> Numbers:
    """Erratum 107: slopes at a low temperature."""
    entry = float(jacobian([0.5, 0.5], 0.1).max())
    return Numbers(2**0.5, entry, entry > 2**0.5)
