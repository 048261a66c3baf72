"""Study of the intervals of one head's Precision and Recall, means over K documents of values in
[0, 1]: coverage and width of Student's t and of Wilson's interval with a pooled dispersion.

Run: python -m studies.shares [REPORT] [--samples 200] [--seed 0]

With REPORT, the folder of a run of several queries, the population of a head is its values at each
query of each document: a sample takes K documents at random and one query of each (*one query*), or
the mean of as many queries, at random, as were measured (*mean*). Without it, the population is
drawn from Model G at random weights. All heads share the documents of a sample, so their errors are
correlated. Coverage is over heads and samples; *near 0 or 1*: heads whose mean is below 0.1 or
above 0.9. Imports numpy and xarray.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr

import geostat as gs
from geostat.bounds.gaps import drawn_curves
from geostat.bounds.head import FittedHead
from geostat.datasets.separability import STATISTICS
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.proportion import share_over_documents
from theory.head.gram import offset_exponential

DOCUMENTS: Final = (3, 5, 8)
SIZES: Final = np.array([2, 3, 8, 64])
EDGE: Final = 0.1
TOKENS, DIMENSION, HEADS, POPULATION = 128, 32, 60, 400
"""Window, head size, heads and documents of the population from Model G."""


def of_model_g(random: np.random.Generator) -> dict[str, FloatArray]:
    """Return populations from Model G by score, (document, query, head, n), with one query.

    Weights are Dirichlet rows; their concentration differs between heads.
    """
    coords = {"tokens": ("layer", [TOKENS]), "sink_visible": ("layer", [True])}
    attrs = {"convention": "paper", "dimension": DIMENSION}
    capture = xr.Dataset(coords=coords | {"position": np.arange(TOKENS)}, attrs=attrs)
    curves = []
    for head in range(HEADS):
        concentration = np.exp(random.uniform(np.log(0.02), np.log(0.5)))
        rows = random.dirichlet(np.full(TOKENS, concentration), (POPULATION, 1))
        gram = offset_exponential(0.3, random.uniform(0, 0.3), 0.1, TOKENS)
        model = FittedHead(
            norms=np.r_[0.2, np.ones(TOKENS - 1)], gram=gram, projected=False, distance=0.0
        )
        curves.append(drawn_curves(capture, 0, rows, model, SIZES, seed=head)[:2, :, 0])
    values = np.stack(curves, axis=-2)[:, :, None]
    return dict(zip(STATISTICS, values, strict=True))


def of_run(report: Path) -> dict[str, FloatArray]:
    """Return the populations of a run by score, (document, query, head, n)."""
    queries = gs.open(report)["queries"].to_dataset().sel(n=SIZES)
    return {
        name: queries[f"{name}_by_query"]
        .stack(place=("layer", "head"))
        .transpose("document", "query", "place", "n")
        .values.astype(np.float64)
        for name in STATISTICS
    }


def sampled(
    values: FloatArray, documents: int, queries: int, random: np.random.Generator
) -> FloatArray:
    """Return means over random queries of random documents, (document, head, n)."""
    chosen = random.integers(0, len(values), documents)
    return np.stack(
        [values[i, random.integers(0, values.shape[1], queries)].mean(axis=0) for i in chosen]
    )


def coverage(
    values: FloatArray, documents: int, queries: int, samples: int, random: np.random.Generator
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return by interval where it contains the mean of the population, and its width, both
    (sample, head, n); limits are clipped to [0, 1].
    """
    truth = values.mean(axis=(0, 1))
    results: dict[str, list[FloatArray]] = {"t": [], "Wilson": []}
    for _ in range(samples):
        sample = sampled(values, documents, queries, random)
        for name, estimate in (
            ("t", document_mean(sample)),
            ("Wilson", share_over_documents(sample)),
        ):
            results[name].append(_covered(estimate, truth))
    stacked = {name: np.stack(rows, axis=1) for name, rows in results.items()}
    return {name: (covered, width) for name, (covered, width) in stacked.items()}


def _covered(estimate: Estimate, truth: FloatArray) -> FloatArray:
    """Return where an interval contains the truth, 1 or 0, and its width: (2, head, n)."""
    low, high = (np.clip(limit, 0.0, 1.0) for limit in (estimate.lower, estimate.upper))
    covered = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
    return np.stack([covered.astype(np.float64), high - low])


def lines(
    values: dict[str, FloatArray], samples: int, random: np.random.Generator
) -> Iterator[str]:
    """Yield one row per kind of document, number of documents, score and N."""
    for name, population in values.items():
        measured, truth = population.shape[1], population.mean(axis=(0, 1))
        near = np.minimum(truth, 1 - truth) < EDGE
        for kind, queries in {"one query": 1, "mean": measured}.items():
            if kind == "mean" and measured == 1:
                continue
            for documents in DOCUMENTS:
                found = coverage(population, documents, queries, samples, random)
                for index, n in enumerate(SIZES):
                    parts = [
                        f"{interval:6} {covers[..., index].mean():6.1%}"
                        f" (near 0 or 1 {_mean(covers[:, near[:, index], index]):>5})"
                        f" width {width[..., index].mean():.2f}"
                        for interval, (covers, width) in found.items()
                    ]
                    yield f"{name:9} {kind:9} K = {documents} N = {n:2}  {'  '.join(parts)}"


def _mean(covers: FloatArray) -> str:
    return f"{covers.mean():.0%}" if covers.size else "n/a"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("report", nargs="?", type=Path)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    random = np.random.default_rng(options.seed)
    values = of_run(options.report) if options.report else of_model_g(random)
    for line in lines(values, options.samples, random):
        print(line, flush=True)


if __name__ == "__main__":
    main()
