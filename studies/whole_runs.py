"""Recovery study of whole runs: do the key results, and the assumption that costs the most
coverage, agree with the simulated truth?

Run: python -m studies.whole_runs [--runs 12] [--seed 0] [--only NAME ...]

A simulated model has value vectors from Model G (`theory.evaluate.simulate`), with norms, cosines
and weights as the paper assumes, or with one violated assumption. Each run has 8 documents,
measured by the functions that measure a real model, and fitted and tested by the stages of a run.
The study counts the answers of the key results on assumptions and bounds, and the assumption that
the table `ingredients` lists first, for Recall and for Precision. Imports numpy and xarray.
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
from empirical.measure.layer import measure_layer
from empirical.measure.nulls import measure_layer as measure_nulls
from empirical.measure.queries import Row
from empirical.measure.selection import Convention, default_n
from geostat.runs import stages
from geostat.runs.groups import tree_of
from geostat.statistics.arrays import FloatArray
from reports.topics.bounds import WORDS as SCORES
from reports.topics.bounds import costliest
from studies.weights import DOCUMENTS, PlantedWeights, draw, plant
from theory.evaluate.simulate import draw_directions
from theory.head.gram import offset_exponential

LAYERS, KV_HEADS, HEADS, TOKENS, DIMENSION = 4, 3, 6, 257, 64
"""Shape of the simulated model: 24 heads that share 12 KV heads."""
DECAY, SINK_COSINE, SINK_NORM = 0.3, 0.1, 0.25
"""β, ρ₀ and λ of every KV head; their Gram matrix is positive semidefinite at T = 257."""
KEYS: Final = ("norms", "similarity", "weights", "bounds")
"""Key results with a known truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Parameters of a simulated model; the defaults satisfy every assumption."""

    name: str
    norm_cv: float = 0.02
    """CV of content norms, lognormal; the tolerance is 0.05."""
    offset: float = 0.0
    """c, the limit of the cosines."""
    hump: float = 0.0
    """Extra log weight of the middle third of a document, nats; no phase describes it."""


MODELS: Final = (
    Planted(name="as-assumed"),
    Planted(name="norms-vary", norm_cv=0.5),
    Planted(name="decay-to-constant", offset=0.3),
    Planted(name="weights-hump", hump=4.0),
)


def drawn(planted: Planted, random: np.random.Generator) -> xr.DataTree:
    """Return a captured run of a simulated model: /capture and /null."""
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
    plans = {observer.group: observer.plan(shape) for observer in (Geometry(), Baselines())}
    weights = _weights(planted, random)
    buffers = [Buffers(plans) for _ in range(DOCUMENTS)]
    for document, buffer in enumerate(buffers):
        buffer.arrays["capture"]["token_id"][...] = random.integers(0, 30000, TOKENS)
        for layer in range(LAYERS):
            alpha, values = weights[document, layer], _values(planted, random)
            seed = (int(random.integers(2**31)), document, layer)
            buffer.put("capture", layer, measure_layer(alpha, values, shape.n, sink=True))
            row = Row(position=TOKENS - 1, first=0, alpha=alpha)
            buffer.put("null", layer, measure_nulls([row], values, shape.n, seed=seed))
    groups = {}
    for group, plan in plans.items():
        variables: dict[str, Any] = {
            name: (
                ("document", *row.dims),
                np.stack([buffer.arrays[group][name] for buffer in buffers]),
            )
            for name, row in plan.variables.items()
        }
        groups[group] = xr.Dataset(variables, coords=plan.coordinates, attrs=plan.attributes)
        groups[group]["document"] = [f"document {index}" for index in range(DOCUMENTS)]
    return tree_of(groups, {"model": {"id": planted.name}})


def _weights(planted: Planted, random: np.random.Generator) -> FloatArray:
    """Return attention rows, (document, layer, head, position), float32, each with sum 1."""
    setting = PlantedWeights(tokens=TOKENS, oscillation="absent", growth="strong")
    rows = draw(plant(setting, LAYERS * HEADS, random), TOKENS, random)["attention_weight"].values
    third = TOKENS // 3
    rows[..., third : 2 * third] *= np.exp(planted.hump)
    rows = (rows / rows.sum(axis=-1, keepdims=True)).astype(np.float32)
    return np.asarray(rows.reshape(DOCUMENTS, LAYERS, HEADS, TOKENS))


def _values(planted: Planted, random: np.random.Generator) -> FloatArray:
    """Return value vectors of one layer of a document, (kv_head, position, dimension), float32."""
    gram = offset_exponential(DECAY, planted.offset, SINK_COSINE, TOKENS)
    seed = int(random.integers(2**31))
    units = np.concatenate(list(draw_directions(gram, TOKENS, DIMENSION, KV_HEADS, seed)), axis=1)
    units /= np.linalg.norm(units, axis=-1, keepdims=True)
    norms = np.exp(random.normal(0.0, np.sqrt(np.log1p(planted.norm_cv**2)), units.shape[:2]))
    norms[0] = SINK_NORM
    return np.ascontiguousarray((units * norms[..., None]).swapaxes(0, 1), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Results of one run.

    answers: answer of each key result. gap: share of Recall inside minus that of drawn heads.
    named: the assumption with the largest cost, for Recall and for Precision.
    """

    answers: dict[str, str]
    gap: float
    named: dict[str, str]


def run_result(planted: Planted, random: np.random.Generator) -> RunResult:
    """Draw a run, fit it and compute its verdicts."""
    captured = drawn(planted, random)
    fits = stages.fitted(captured["capture"].to_dataset())
    tree = tree_of(
        {name: node.to_dataset() for name, node in captured.children.items()} | fits,
        captured.attrs,
    )
    confronted = stages.confronted(tree, editions=("sharp",))
    summary = confronted["summary"]
    results = [json.loads(line) for line in summary.attrs["key_results"]]
    gap = float(summary["recall_drawn_gap"].sel(edition="sharp", gram="exponential"))
    answers = {result["key"]: result["answer"] for result in results}
    named = {
        score: next(iter(costliest(confronted["ingredients"], score)), "none") for score in SCORES
    }
    return RunResult(answers, gap, named)


def lines(planted: Planted, runs: Sequence[RunResult]) -> Iterator[str]:
    """Yield the lines of one model."""
    gaps = np.array([run.gap for run in runs])
    for key in KEYS:
        counts = Counter(run.answers[key] for run in runs)
        text = ", ".join(f"{answer} {count}" for answer, count in counts.most_common())
        yield f"{planted.name:18s} {key:11s} {text}"
    error = f" ± {gaps.std(ddof=1) / len(gaps) ** 0.5:.3f}" if len(gaps) > 1 else ""
    text = f"{gaps.mean():.3f}{error} of Recall below the share inside of drawn heads"
    yield f"{planted.name:18s} {'gap':11s} {text}"
    for score in SCORES:
        counts = Counter(run.named[score] for run in runs)
        text = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        yield f"{planted.name:18s} costs {score:9s} {text}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the results of every model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=[model.name for model in MODELS])
    options = parser.parse_args(arguments)
    for index, planted in enumerate(MODELS):
        if options.only and planted.name not in options.only:
            continue
        start = time.perf_counter()
        runs = [
            run_result(planted, np.random.default_rng([options.seed, index, run]))
            for run in range(options.runs)
        ]
        print(*lines(planted, runs), sep="\n")
        print(
            f"{planted.name:18s} {options.runs} runs, {time.perf_counter() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
