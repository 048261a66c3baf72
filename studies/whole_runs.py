"""Recovery study of what a whole run says: are its key results, and the assumption that it says
costs the bounds most, what was planted?

Run: python -m studies.whole_runs [--runs 12] [--seed 0] [--only NAME ...]

A *model* is planted: value vectors are drawn from Model G (`theory.audit.simulate`) with norms,
cosines and weights as the paper assumes, or with one assumption broken. Each run is 8 documents of
it, measured by the functions that measure a real model, fitted, confronted and judged by a run's
own stages. Counted are the answers of the key results that rest on an assumption or on the bounds,
and which assumption the table `ingredients` names first as costing Recall or Precision. Imports
numpy and xarray.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.capture.layer_view import RunShape
from empirical.capture.observers import Baselines, Buffers, Geometry
from empirical.measure.convention import Convention
from empirical.measure.layer import measure_layer
from empirical.measure.nulls import measure_layer as measure_nulls
from empirical.measure.sizes import default_n
from geostat.runs import stages
from geostat.runs.groups import tree_of
from geostat.statistics.arrays import FloatArray
from reports.tables.bounds import SCORES, costliest
from studies.weights import DOCUMENTS, PlantedWeights, draw, plant
from theory.audit.simulate import draw_directions
from theory.head.similarity_decay import offset_exponential

LAYERS, KV_HEADS, HEADS, TOKENS, DIMENSION = 4, 3, 6, 257, 64
"""Of a planted model; 24 heads that share 12 value heads."""
DECAY, SINK_COSINE, SINK_NORM = 0.3, 0.1, 0.25
"""β, ρ₀ and λ of every value head; a Gram matrix of these exists at T = 257."""
KEYS: Final = ("norms", "similarity", "weights", "bounds")
"""Key results whose truth is planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A model: which assumptions are true of it, and what its run should say."""

    name: str
    norm_cv: float = 0.02
    """Of content norms, lognormal; tolerated are 0.05."""
    offset: float = 0.0
    """c: what cosines decay to."""
    hump: float = 0.0
    """Nats by which the middle third of a document is more attended, which no phase has."""


MODELS: Final = (
    Planted(name="as-assumed"),
    Planted(name="norms-vary", norm_cv=0.5),
    Planted(name="decay-to-constant", offset=0.3),
    Planted(name="weights-hump", hump=4.0),
)


def drawn(planted: Planted, random: np.random.Generator) -> xr.DataTree:
    """Return a captured run of a planted model: /capture and /null."""
    shape = RunShape(
        layers=LAYERS,
        heads=HEADS,
        kv_heads=KV_HEADS,
        positions=TOKENS,
        dimension=DIMENSION,
        n=default_n(TOKENS),
        convention=Convention.PAPER,
        seed=0,
        visible=(TOKENS,) * LAYERS,
    )
    plans = {one.group: one.plan(shape) for one in (Geometry(), Baselines())}
    weights = _weights(planted, random)
    buffers = [Buffers(plans) for _ in range(DOCUMENTS)]
    for document, buffer in enumerate(buffers):
        buffer.arrays["capture"]["token_id"][...] = random.integers(0, 30000, TOKENS)
        for layer in range(LAYERS):
            alpha, values = weights[document, layer], _values(planted, random)
            seed = (int(random.integers(2**31)), document, layer)
            buffer.put("capture", layer, measure_layer(alpha, values, shape.n, sink=True))
            buffer.put("null", layer, measure_nulls(alpha, values, shape.n, seed=seed))
    groups = {}
    for group, plan in plans.items():
        variables: dict[str, Any] = {
            name: (("document", *row.dims), np.stack([one.arrays[group][name] for one in buffers]))
            for name, row in plan.variables.items()
        }
        groups[group] = xr.Dataset(variables, coords=plan.coordinates, attrs=plan.attributes)
        groups[group]["document"] = [f"document {index}" for index in range(DOCUMENTS)]
    return tree_of(groups, {"model": {"id": planted.name}})


def _weights(planted: Planted, random: np.random.Generator) -> FloatArray:
    """Attention rows, (document, layer, head, position), float32, each of sum 1."""
    setting = PlantedWeights(tokens=TOKENS, oscillation="absent", growth="strong")
    rows = draw(plant(setting, LAYERS * HEADS, random), TOKENS, random)["attention_weight"].values
    third = TOKENS // 3
    rows[..., third : 2 * third] *= np.exp(planted.hump)
    rows = (rows / rows.sum(axis=-1, keepdims=True)).astype(np.float32)
    return np.asarray(rows.reshape(DOCUMENTS, LAYERS, HEADS, TOKENS))


def _values(planted: Planted, random: np.random.Generator) -> FloatArray:
    """Value vectors of one layer of a document, (kv_head, position, dimension), float32."""
    gram = offset_exponential(DECAY, planted.offset, SINK_COSINE, TOKENS)
    seed = int(random.integers(2**31))
    units = np.concatenate(list(draw_directions(gram, TOKENS, DIMENSION, KV_HEADS, seed)), axis=1)
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    norms = np.exp(random.normal(0.0, np.sqrt(np.log1p(planted.norm_cv**2)), units.shape[:2]))
    norms[0] = SINK_NORM
    return np.ascontiguousarray((units * norms[..., None]).swapaxes(0, 1), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Said:
    """What a run said: the answer of each key result, how far Recall lies below its expected share
    inside, and what the table of costs names first, of Recall and of Precision.
    """

    answers: dict[str, str]
    gap: float
    named: dict[str, str]


def said(planted: Planted, random: np.random.Generator) -> Said:
    """Draw a run, fit, confront and judge it."""
    captured = drawn(planted, random)
    fits = stages.fitted(captured["capture"].to_dataset())
    tree = tree_of(
        {name: node.to_dataset() for name, node in captured.children.items()} | fits,
        captured.attrs,
    )
    found = stages.confronted(tree, editions=("sharp",))
    summary = found["summary"]
    results = [json.loads(line) for line in summary.attrs["key_results"]]
    gap = float(summary["recall_drawn_gap"].sel(edition="sharp", gram="exponential"))
    answers = {one["key"]: one["answer"] for one in results}
    named = {score: next(iter(costliest(found["ingredients"], score)), "none") for score in SCORES}
    return Said(answers, gap, named)


def lines(planted: Planted, runs: Sequence[Said]) -> Iterator[str]:
    """Yield the rows of a model's runs."""
    gaps = np.array([one.gap for one in runs])
    for key in KEYS:
        counts = Counter(one.answers[key] for one in runs)
        told = ", ".join(f"{answer} {count}" for answer, count in counts.most_common())
        yield f"{planted.name:18s} {key:11s} {told}"
    error = f" ± {gaps.std(ddof=1) / len(gaps) ** 0.5:.3f}" if len(gaps) > 1 else ""
    told = f"{gaps.mean():.3f}{error} of Recall below the share inside of drawn heads"
    yield f"{planted.name:18s} {'gap':11s} {told}"
    for score in SCORES:
        counts = Counter(one.named[score] for one in runs)
        told = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        yield f"{planted.name:18s} costs {score:9s} {told}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what the runs of every model say."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    ask.add_argument("--runs", type=int, default=12)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", nargs="+", choices=[one.name for one in MODELS])
    given = ask.parse_args(arguments)
    for index, planted in enumerate(MODELS):
        if given.only and planted.name not in given.only:
            continue
        start = time.perf_counter()
        runs = [
            said(planted, np.random.default_rng([given.seed, index, run]))
            for run in range(given.runs)
        ]
        print(*lines(planted, runs), sep="\n")
        print(
            f"{planted.name:18s} {given.runs} runs, {time.perf_counter() - start:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
