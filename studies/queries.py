"""How many queries of a document to analyse, and which: the error of a head's mean over documents
against that of the last query alone, on the built-in model and text.

For each head: standard error over documents of Precision and Recall at N = 8 and of the sink's
weight, a document's number being the mean over its queries. Medians over heads, relative to the
last query; and the share of a single query's variance that lies within documents.

    python -m studies.queries
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from empirical.measure.queries import Row, measure_layer
from empirical.sources import builtin_texts, models
from empirical.sources.queries import Queries
from empirical.sources.windows import Windows, windows
from empirical.tap.tap import TappedLayer, tap

MOST = 32
SIZE = 8
COUNTS = (1, 2, 4, 8, 16, 32)
NAMES = ("Precision, N = 8", "Recall, N = 8", "weight of the sink")


def measured(model: models.LoadedModel, found: Windows, queries: Queries) -> np.ndarray:
    """Return every query's numbers, (document, query, number, layer·head)."""
    documents, length = found.token_ids.shape
    positions = queries.positions(length, found.sha256)
    result = np.empty((documents, queries.count, len(NAMES), model.layers, model.heads))
    for document, (ids, at) in enumerate(zip(found.token_ids, positions, strict=True)):

        def on_layer(layer: TappedLayer, at: np.ndarray = at, document: int = document) -> None:
            for query, position in enumerate(at.tolist()):
                alpha = layer.alpha[0, query, :, : position + 1]
                row = Row(position=position, first=0, alpha=alpha)
                numbers = measure_layer([row], layer.values[0], [SIZE])
                result[document, query, 0, layer.index] = numbers["precision"][:, 0]
                result[document, query, 1, layer.index] = numbers["recall"][:, 0]
                result[document, query, 2, layer.index] = alpha[:, 0]

        ids = torch.as_tensor(ids[None].astype(np.int64))
        tap(model.model, ids, on_layer, queries=torch.as_tensor(at[None]))
    return result.reshape(*result.shape[:3], -1)


def chosen(every: np.ndarray, way: str, count: int) -> np.ndarray:
    """Return the last `count` of all queries, or about as many evenly among them."""
    if way == "last":
        return every[:, MOST - count :]
    return every[:, np.linspace(MOST - 1, 0, count).round().astype(int)]


def error(each: np.ndarray) -> np.ndarray:
    """Return the standard error over documents of a mean over them, without the first axis."""
    return np.asarray(each.std(axis=0, ddof=1) / np.sqrt(len(each)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    given = parser.parse_args(arguments)
    found = models.find(None)
    documents = builtin_texts.all_kinds()
    text = windows(documents, found.tokenizer, length=given.length, count=given.documents)
    model = found.load()
    print("| number | queries | " + " | ".join(f"Q = {count}" for count in COUNTS), end=" |")
    print(" within documents |\n|---|---|" + "---|" * (len(COUNTS) + 1))
    for way in ("last", "spread"):
        every = measured(model, text, Queries(way, MOST))
        for index, name in enumerate(NAMES):
            one = every[:, :, index]
            alone = np.median(error(one[:, -1]))
            ratios = [
                np.median(error(chosen(one, way, count).mean(axis=1))) / alone for count in COUNTS
            ]
            within = one.var(axis=1, ddof=1).mean(axis=0)
            between = (one.mean(axis=1).var(axis=0, ddof=1) - within / MOST).clip(min=0)
            with np.errstate(invalid="ignore"):
                share = np.nanmedian(within / (within + between))
            print(f"| {name} | {way}:Q | " + " | ".join(f"{ratio:.2f}" for ratio in ratios), end="")
            print(f" | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
