"""Number and choice of analysed queries: standard error of a head's mean relative to that of the
last query alone, on the built-in model and text.

The study averages Precision and Recall at N = 8 and the sink's weight over the queries of a
document, and computes the standard error over documents for each head. It prints medians over
heads, relative to the last query, and the share of a query's variance that lies within documents.

    python -m studies.queries
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from empirical.measure.queries import Row, measure_layer
from empirical.sources import builtin, models
from empirical.sources.queries import Queries
from empirical.sources.windows import Windows, windows
from empirical.tap.tap import TappedLayer, tap

MOST = 32
SIZE = 8
COUNTS = (1, 2, 4, 8, 16, 32)
NAMES = ("Precision, N = 8", "Recall, N = 8", "weight of the sink")


def measured(model: models.LoadedModel, text: Windows, queries: Queries) -> np.ndarray:
    """Return Precision, Recall and sink weight per query, (document, query, number, layer·head)."""
    documents, length = text.token_ids.shape
    positions = queries.positions(length, text.sha256)
    result = np.empty((documents, queries.count, len(NAMES), model.layers, model.heads))
    for document, (ids, of_document) in enumerate(zip(text.token_ids, positions, strict=True)):

        def on_layer(
            layer: TappedLayer, of_document: np.ndarray = of_document, document: int = document
        ) -> None:
            rows = [
                Row(position=at, first=0, alpha=layer.alpha[0, query, :, : at + 1])
                for query, at in enumerate(of_document.tolist())
            ]
            numbers = measure_layer(rows, layer.values[0], [SIZE])
            for index, name in enumerate(("precision_by_query", "recall_by_query")):
                result[document, :, index, layer.index] = numbers[name][..., 0].T
            result[document, :, 2, layer.index] = layer.alpha[0, :, :, 0]

        ids = torch.as_tensor(ids[None].astype(np.int64))
        tap(model.model, ids, on_layer, queries=torch.as_tensor(of_document[None]))
    return result.reshape(*result.shape[:3], -1)


def subset(numbers: np.ndarray, way: str, count: int) -> np.ndarray:
    """Return the last `count` queries (`last`), or `count` evenly spaced queries."""
    if way == "last":
        return numbers[:, MOST - count :]
    return numbers[:, np.linspace(MOST - 1, 0, count).round().astype(int)]


def error(by_document: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over documents, the first axis."""
    return np.asarray(by_document.std(axis=0, ddof=1) / np.sqrt(len(by_document)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    options = parser.parse_args(arguments)
    source = models.find(None)
    documents = builtin.all_kinds()
    text = windows(documents, source.tokenizer, length=options.length, count=options.documents)
    model = source.load()
    print("| quantity | queries | " + " | ".join(f"Q = {count}" for count in COUNTS), end=" |")
    print(" within documents |\n|---|---|" + "---|" * (len(COUNTS) + 1))
    for way in ("last", "spread"):
        all_queries = measured(model, text, Queries(way, MOST))
        for index, name in enumerate(NAMES):
            numbers = all_queries[:, :, index]
            alone = np.median(error(numbers[:, -1]))
            ratios = [
                np.median(error(subset(numbers, way, count).mean(axis=1))) / alone
                for count in COUNTS
            ]
            within = numbers.var(axis=1, ddof=1).mean(axis=0)
            between = (numbers.mean(axis=1).var(axis=0, ddof=1) - within / MOST).clip(min=0)
            with np.errstate(invalid="ignore"):
                share = np.nanmedian(within / (within + between))
            print(f"| {name} | {way}:Q | " + " | ".join(f"{ratio:.2f}" for ratio in ratios), end="")
            print(f" | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
