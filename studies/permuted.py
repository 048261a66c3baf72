"""Selection by value geometry: false answers and power of the gain over permuted values.

Simulated runs of 8 documents and 24 heads have weights and values as in a model: lognormal weights
that differ between documents, a sink, and anisotropic values in clusters, which tokens keep in all
heads. Under the null hypothesis values are independent of weights. The alternative adds a common
direction to the values of the tokens with the largest weights. Each run gets its answer from the
permutation null, as in a report. Source: `empirical.measure.permutations`.

Run: python -m studies.permuted [--runs 150]
"""

from __future__ import annotations

import argparse
from typing import Final

import numpy as np
import xarray as xr

from empirical.measure import nulls, queries
from empirical.measure.permutations import SIZES
from empirical.measure.queries import Row
from empirical.schema import NULLS
from geostat.analyses.chance import compare_with_nulls
from geostat.topics.separability import geometry

DOCUMENTS, KV_HEADS, GROUP, TOKENS, DIMENSION = 8, 12, 2, 96, 16
RAISED: Final = 16
"""Number of content tokens with the largest weights whose values share a direction."""
STRENGTHS: Final = (0.0, 0.4, 0.6, 0.8)
"""Length of that direction as a share of the value's norm, which is kept."""
CLUSTERS: Final = 10


def simulated_run(strength: float, random: np.random.Generator) -> xr.DataTree:
    """Return /capture and /separable of a run whose heads select by geometry if `strength` > 0."""
    rows: dict[str, list[dict[str, np.ndarray]]] = {"capture": [], "null": []}
    spread = np.exp(random.normal(0, 0.3, KV_HEADS * GROUP)) * 1.5
    for document in range(DOCUMENTS):
        cluster = random.integers(CLUSTERS, size=TOKENS)
        shared = random.normal(size=TOKENS)  # what all heads attend to
        scores = spread[:, None] * (
            0.7 * shared + 0.7 * random.normal(size=(KV_HEADS * GROUP, TOKENS))
        )
        scores[:, 0] = scores[:, 1:].max(axis=1) + 1
        alpha = np.exp(scores - scores.max(axis=1, keepdims=True))
        alpha /= alpha.sum(axis=1, keepdims=True)
        centres = random.normal(size=(KV_HEADS, CLUSTERS, DIMENSION))
        values = 0.5 + centres[:, cluster] + random.normal(size=(KV_HEADS, TOKENS, DIMENSION))
        values[:, 0] *= 0.3
        for kv_head in range(KV_HEADS):
            top = 1 + np.argsort(-alpha[kv_head * GROUP, 1:])[:RAISED]
            direction = random.normal(size=DIMENSION)
            direction /= np.linalg.norm(direction)
            norm = np.linalg.norm(values[kv_head, top], axis=1, keepdims=True)
            values[kv_head, top] *= np.sqrt(1 - strength**2)
            values[kv_head, top] += strength * norm * direction
        row = [Row(position=TOKENS - 1, first=0, alpha=alpha)]
        rows["capture"].append(queries.measure_layer(row, values, SIZES))
        seed = (int(random.integers(2**31)), document)
        rows["null"].append(nulls.measure_layer(row, values, SIZES, seed=seed))
    dims = {
        "capture": ("document", "layer", "head", "n"),
        "null": ("document", "layer", "head", "null", "n"),
    }
    n = np.array(SIZES)
    data = {
        group: xr.Dataset(
            {
                name: (dims[group], np.stack([row[name] for row in measured])[:, None])
                for name in ("precision", "recall")
            },
            coords={"n": n} | {"tokens": ("layer", [TOKENS]), "sink_visible": ("layer", [True])},
        )
        for group, measured in rows.items()
    }
    null = data["null"].assign_coords(null=np.array(NULLS, dtype=object))
    separable = compare_with_nulls(data["capture"], null)
    return xr.DataTree.from_dict({"/capture": data["capture"], "/separable": separable})


def main() -> None:
    """Print the shares of answers, and of heads above and below the null, by strength."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=150, help="simulated runs of each strength")
    runs = parser.parse_args().runs
    print("strength   holds   fails   mixed   gain in Precision   heads above   heads below")
    for strength in STRENGTHS:
        random = np.random.default_rng(7)
        answers, gains, above, below = [], [], 0, 0
        for _ in range(runs):
            tree = simulated_run(strength, random)
            result = geometry(tree)
            answers.append(result.answer)
            gains.append(float(result.number.value or 0.0))
            above, below = above + result.counts.holds, below + result.counts.fails
        heads = runs * KV_HEADS * GROUP
        share = {name: answers.count(name) / runs for name in ("holds", "fails", "mixed")}
        print(
            f"{strength:8.1f}"
            + "".join(f"  {share[name]:6.1%}" for name in share)
            + f"  {np.mean(gains):18.3f}  {above / heads:12.1%}  {below / heads:12.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
