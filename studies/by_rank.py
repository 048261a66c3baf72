"""Recovery of the amended assumptions: heads drawn from a cosine by rank, by lag, or of all pairs.

Run: python -m studies.by_rank [--heads 60] [--documents 6] [--seed 2]

Prints how often each form of the cosine is preferred, and the coverage of 95% intervals for heads
drawn by rank.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

import numpy as np
import xarray as xr

from empirical.measure.queries import Row
from empirical.measure.ranks import measure_layer
from empirical.schema import RANKS
from geostat.fits.amended.fit import fit_amended
from geostat.fits.amended.forms import FORMS
from theory.arrays import FloatArray

TOKENS, DIMENSION = 512, 48
LIMIT, FIRST, GAMMA, LAMBDA, RHO = 0.2, 0.7, 0.6, 0.1, -0.3
OCTAVES: Final = TOKENS.bit_length()
TRUE: Final = {
    "coherence_limit": LIMIT,
    "dimension": DIMENSION,
    "norm_slope": 0.0,
    "class_norm_ratio": LAMBDA,
    "class_cosine": RHO,
}
"""Parameters of heads drawn by rank."""

Draw = np.random.Generator


def weights(draw: Draw) -> FloatArray:
    """Return lognormal weights, (token), with a sink at position 0."""
    alpha = np.exp(2 * draw.normal(size=TOKENS))
    alpha[0] = alpha.sum()
    return np.asarray(alpha / alpha.sum())


def by_rank(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values, (token, dimension), whose cosine is c(r) of the lower rank, c constant within
    an octave, and a short sink.
    """
    unit = draw.normal(size=(OCTAVES + 1, DIMENSION)) / np.sqrt(DIMENSION)
    rank = np.empty(TOKENS, int)
    rank[np.argsort(-alpha)] = np.arange(TOKENS)  # the sink has rank 0
    octave = np.log2(np.maximum(rank, 1)).astype(int)
    coherence = LIMIT + (FIRST - LIMIT) * (1.5 * 2.0 ** np.arange(OCTAVES) - 0.5) ** -GAMMA
    steps = np.sqrt(np.append(-np.diff(coherence), coherence[-1]))
    shared = (steps[:, None] * unit[:-1])[::-1].cumsum(axis=0)[::-1]
    noise = draw.normal(size=(TOKENS, DIMENSION)) / np.sqrt(DIMENSION)
    values = shared[octave] + np.sqrt(1 - coherence[octave])[:, None] * noise
    mean = shared[-1] / np.linalg.norm(shared[-1])
    values[0] = LAMBDA * (RHO / np.sqrt(LIMIT) * mean + np.sqrt(1 - RHO**2 / LIMIT) * unit[-1])
    return np.asarray(5 * values)


def by_lag(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values whose cosine is LIMIT + (1 − LIMIT)e^(−0.05k), whatever the weights."""
    noise = draw.normal(size=(TOKENS, DIMENSION)) / np.sqrt(DIMENSION)
    for token in range(1, TOKENS):
        noise[token] = np.exp(-0.05) * noise[token - 1] + np.sqrt(1 - np.exp(-0.1)) * noise[token]
    mean = draw.normal(size=DIMENSION) / np.sqrt(DIMENSION)
    return np.asarray(np.sqrt(LIMIT) * mean + np.sqrt(1 - LIMIT) * noise)


def alike(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values with one mean cosine."""
    mean, *noise = draw.normal(size=(TOKENS + 1, DIMENSION)) / np.sqrt(DIMENSION)
    return np.asarray(np.sqrt(LIMIT) * mean + np.sqrt(1 - LIMIT) * np.array(noise))


KINDS: Final = {"rank": by_rank, "offset": by_lag, "constant": alike}
"""Functions that draw values, by the form of their cosine."""


def drawn(
    values_of: Callable[[FloatArray, Draw], FloatArray], heads: int, documents: int, seed: int
) -> xr.Dataset:
    """Return /ranks of one layer of heads with own values, at one query of each document."""
    draw, measured = np.random.default_rng(seed), []
    for _ in range(documents):
        alpha = np.stack([weights(draw) for _ in range(heads)])
        values = np.stack([values_of(row, draw) for row in alpha])
        measured.append(measure_layer([Row(position=TOKENS - 1, first=0, alpha=alpha)], values))
    return xr.Dataset(
        {
            name: (
                ("document", *RANKS[name].dims),
                np.stack([document[name][None] for document in measured]),
            )
            for name in measured[0]
        }
    )


def main() -> None:
    """Print the preferred forms and the coverage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--heads", type=int, default=60, help="number of heads of each kind")
    parser.add_argument("--documents", type=int, default=6, help="number of documents")
    parser.add_argument("--seed", type=int, default=2, help="seed of the draws")
    options = vars(parser.parse_args())
    print(f"{'drawn from':12}" + "".join(f"{form:>14}" for form in FORMS) + "   preferred in heads")
    for kind, values_of in KINDS.items():
        fitted = fit_amended(drawn(values_of, **options))
        chosen = fitted["cosine_chosen"].values.ravel()
        counts = np.bincount(chosen[chosen >= 0], minlength=len(FORMS))
        print(f"{kind:12}" + "".join(f"{count:14}" for count in counts))
        if kind == "rank":
            by_rank_fit = fitted
    print(f"{'parameter':18}{'true':>8}{'mean':>9}{'covered by 95% intervals':>27}")
    for name, truth in TRUE.items():
        value = by_rank_fit[name]
        low, high = by_rank_fit[f"{name}_lower"], by_rank_fit[f"{name}_upper"]
        share = float(((low <= truth) & (truth <= high)).mean())
        print(f"{name:18}{truth:8.2f}{float(value.mean()):9.3f}{share:27.0%}")


if __name__ == "__main__":
    main()
