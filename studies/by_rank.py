"""Recovery of the amended assumptions: heads whose cosines depend on the rank, the lag, both or
neither.

Run: python -m studies.by_rank [--heads 60] [--documents 8] [--seed 2]

Prints what the cosines of drawn heads are shown to depend on, with weights that do not depend on
the position and with larger weights of recent tokens, and the coverage of 95% intervals for heads
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
from geostat.fits.amended.forms import EFFECTS
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


def weights(draw: Draw, recency: float = 0.0) -> FloatArray:
    """Return weights, (token), with a sink at position 0: lognormal, and with `recency` larger
    within some 20 tokens of the query.
    """
    recent = recency * np.exp(-np.arange(TOKENS)[::-1] / 20)
    alpha = np.exp((2 - recency / 3) * draw.normal(size=TOKENS) + recent)
    alpha[0] = alpha.sum()
    return np.asarray(alpha / alpha.sum())


def by_rank(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values, (token, dimension), whose cosine is c(r) of the larger rank, c constant within
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


def _vectors(draw: Draw, count: int) -> FloatArray:
    return np.asarray(draw.normal(size=(count, DIMENSION)) / np.sqrt(DIMENSION))


def _decaying(draw: Draw, beta: float) -> FloatArray:
    """Return vectors, (token, dimension), whose cosine is e^(−βk)."""
    vectors = _vectors(draw, TOKENS)
    for token in range(1, TOKENS):
        vectors[token] *= np.sqrt(1 - np.exp(-2 * beta))
        vectors[token] += np.exp(-beta) * vectors[token - 1]
    return vectors


def by_lag(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values whose cosine is 0.15 + 0.2e^(−k) + 0.15e^(−0.02k), whatever the weights."""
    parts = [
        (0.2, _decaying(draw, 1.0)),
        (0.15, _decaying(draw, 0.02)),
        (0.5, _vectors(draw, TOKENS)),
    ]
    return np.asarray(
        np.sqrt(0.15) * _vectors(draw, 1) + sum(np.sqrt(share) * part for share, part in parts)
    )


def by_both(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values whose mean cosine is about that by rank, halved, plus 0.15e^(−0.3k)."""
    return np.asarray(by_rank(alpha, draw) / 5 + np.sqrt(0.4) * _decaying(draw, 0.3))


def alike(alpha: FloatArray, draw: Draw) -> FloatArray:
    """Return values with one mean cosine."""
    return np.asarray(
        np.sqrt(LIMIT) * _vectors(draw, 1) + np.sqrt(1 - LIMIT) * _vectors(draw, TOKENS)
    )


KINDS: Final = {"constant": alike, "rank": by_rank, "lag": by_lag, "rank_and_lag": by_both}
"""Functions that draw values, by what their cosine depends on."""


def drawn(
    values_of: Callable[[FloatArray, Draw], FloatArray],
    heads: int,
    documents: int,
    seed: int,
    recency: float = 0.0,
) -> xr.Dataset:
    """Return /ranks of one layer of heads with own values, at one query of each document."""
    draw, measured = np.random.default_rng(seed), []
    for _ in range(documents):
        alpha = np.stack([weights(draw, recency) for _ in range(heads)])
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
    """Print what the cosines are shown to depend on, and the coverage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--heads", type=int, default=60, help="number of heads of each kind")
    parser.add_argument("--documents", type=int, default=8, help="number of documents")
    parser.add_argument("--seed", type=int, default=2, help="seed of the draws")
    options = vars(parser.parse_args())
    print(f"{'weights':10}{'drawn from':14}" + "".join(f"{name:>14}" for name in EFFECTS))
    for words, recency in (("any", 0.0), ("recent", 3.0)):
        for kind, values_of in KINDS.items():
            fitted = fit_amended(drawn(values_of, **options, recency=recency))
            shown = fitted["depends_on"].values.ravel()
            counts = np.bincount(shown[shown >= 0], minlength=len(EFFECTS))
            print(f"{words:10}{kind:14}" + "".join(f"{count:14}" for count in counts))
    by_rank_fit = fit_amended(drawn(by_rank, **options))
    print(f"{'parameter':18}{'true':>8}{'mean':>9}{'covered by 95% intervals':>27}")
    for name, truth in TRUE.items():
        value = by_rank_fit[name]
        low, high = by_rank_fit[f"{name}_lower"], by_rank_fit[f"{name}_upper"]
        share = float(((low <= truth) & (truth <= high)).mean())
        print(f"{name:18}{truth:8.2f}{float(value.mean()):9.3f}{share:27.0%}")


if __name__ == "__main__":
    main()
