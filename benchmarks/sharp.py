"""Time of the sharp and printed editions on a synthetic model of the built-in model's size.

90 layer-and-kv_head pairs with 3 heads each, 24 sizes N, 8 documents, T = 1024, d = 64: every
(document, kv_head) has a separate Gram matrix. Run: python -m benchmarks.sharp [--documents K]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from theory.evaluate.envelopes import envelope, envelopes
from theory.head.gram import offset_exponential
from theory.head.results import Edition

TOKENS, DIMENSION, KV_HEADS, HEADS_PER_KV = 1024, 64, 90, 3
SIZES = np.unique(np.round(np.geomspace(1, TOKENS, 27)).astype(int))[-24:]


def synthetic_heads(rng: np.random.Generator, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return α (heads, T) with a sink and a recent tail over uneven content, and value norms
    (heads, T).
    """
    content = rng.gamma(0.5, size=(heads, TOKENS)) * (
        1 + 20 * np.exp(-np.arange(TOKENS)[::-1] / 30)
    )
    content[:, 0] = content[:, 1:].sum(axis=1) * rng.uniform(0.1, 3, heads)
    norms = rng.normal(1, 0.05, (heads, TOKENS))
    norms[:, 0] = 0.1
    return content / content.sum(axis=1, keepdims=True), norms


def measured_gram(rng: np.random.Generator) -> np.ndarray:
    """Return the float32 cosines of random correlated values, as a capture would measure them."""
    values = rng.normal(size=(TOKENS, DIMENSION)) + rng.normal(size=DIMENSION) * 0.7
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return (values @ values.T).astype(np.float32)


def time_model(edition: Edition, measured: bool, documents: int) -> float:
    """Return the seconds for one Gram matrix per KV head over the whole model."""
    rng = np.random.default_rng(0)
    alpha, norms = synthetic_heads(rng, HEADS_PER_KV)
    seconds = 0.0
    for item in range(-1, documents * KV_HEADS):
        if item % 10 == 0:
            alpha, norms = synthetic_heads(rng, HEADS_PER_KV)
        gram = (
            measured_gram(rng)
            if measured
            else offset_exponential(rng.uniform(0.05, 1), rng.uniform(0, 0.5), 0.02, TOKENS)
        )
        start = time.perf_counter()
        envelopes(alpha, norms, gram, DIMENSION, SIZES, edition=edition, feasible=True)
        seconds += (time.perf_counter() - start) * (item >= 0)
    return seconds


def main() -> None:
    """Print the table of timings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=8)
    documents = parser.parse_args().documents
    print(
        f"{KV_HEADS * HEADS_PER_KV} heads, {len(SIZES)} sizes, {documents} documents, T = {TOKENS},"
        f" d = {DIMENSION}"
    )
    editions: tuple[Edition, ...] = ("sharp", "printed")
    for edition in editions:
        for measured in (False, True):
            print(
                f"{edition:8s} {'measured' if measured else 'by lag':9s}"
                f" {time_model(edition, measured, documents):7.1f} s"
            )
    alpha, norms = synthetic_heads(np.random.default_rng(1), 1)
    start = time.perf_counter()
    envelope(
        alpha[0],
        norms[0],
        offset_exponential(0.1, 0.2, 0.02, TOKENS),
        DIMENSION,
        SIZES,
        edition="sharp",
    )
    print(f"one head, exact law: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
