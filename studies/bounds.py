"""Recovery study of the verdicts on bounds: rates of false answers for curves inside, at and
outside the bound and its tolerance.

Run: python -m studies.verdicts --claim bounds [--heads 1000] [--seed 0] [--tokens 257]

A *kind* of head has weights from `weights`, with or without growth, and values from Model G at the
median fit of SmolLM2-135M. Each kind has a pool of documents, with measured curves of Precision and
Recall, and sharp bounds evaluated with each document's weights. A head is 8 documents from the
pool, with replacement, so its expected curve is exactly the mean of the pool. The bounds of each
document are shifted (and clipped to [0, 1]) until their mean has a planted distance from the curve.
Other bounds are set to −1 and 2, which never decide. `envelope.confront` and
`answers.give_verdicts` compute /envelope and the p-values. Answers are counted at 5% for each head
alone. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.measure.selection import default_n, separability
from geostat.bounds.by_document import envelope_grid, evaluate
from geostat.bounds.envelope import envelope_dataset
from geostat.datasets.separability import ALL_BOUNDS, SIDES, STATISTICS
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.topics.claims import read_tolerances
from geostat.topics.verdicts import give_verdicts
from studies.weights import DOCUMENTS, PlantedWeights, draw, plant
from theory.evaluate.simulate import draw_directions
from theory.head.gram import offset_exponential

CLAIM: Final = "bounds.sharp_offset"
"""The claim on the form of similarity that is simulated; all claims on bounds use the same test."""

DECAY, OFFSET, SINK_COSINE, SINK_NORM, DIMENSION = 1.36, 0.137, -0.07, 0.25, 64
"""Median β, c, ρ₀ and λ of SmolLM2-135M's KV heads over eight texts of 1,024 tokens, and the head
dimension d.
"""

POOL: Final = 2000
"""Documents in the pool of a kind."""

KINDS: Final = {"flat": "absent", "growing": "strong"}
"""Kinds of heads, with the growth of their weights as named in `weights`."""

BANDS: Final = ((2, 4), (5, 32), (33, np.inf))
"""Ranges of sizes N, one per row."""

FAR: Final = {"lower": -1.0, "upper": 2.0}
SIGN: Final = {"lower": 1.0, "upper": -1.0}
"""Sign of bound minus curve for a positive excess."""

INSIDE: Final = (-0.3, -0.1, -0.03)
OUTSIDE: Final = (0.05, 0.1, 0.2)
HEADS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Documents of one kind of head.

    n: sizes N (n,). curves: (statistic, document, n). bounds: (statistic, side, document, n).
    """

    tokens: int
    n: NDArray[np.int64]
    curves: FloatArray
    bounds: FloatArray

    @property
    def truth(self) -> FloatArray:
        """Expected curves, (statistic, n)."""
        return np.asarray(self.curves.mean(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsRow:
    """Answers for one kind of head, as shares of all heads. `alike` is the share of planted curves
    and sizes at which all documents have equal values.
    """

    kind: str
    planted: str
    excess: float
    tolerance: float
    median: float
    holds: float
    fails: float
    alike: float
    heads: int

    def line(self) -> str:
        """Return the row as a line of text."""
        return (
            f"bounds {self.kind:8s} {self.planted:31s} excess {self.excess:6.3f}  tolerance"
            f" {self.tolerance:5.3f}  heads {self.heads:5d}  median {self.median:6.3f}  holds"
            f" {self.holds:6.1%}  fails {self.fails:6.1%}  documents agree {self.alike:6.1%}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """Share of curves flagged as clearly outside (/envelope, `x_outside`) by one side's bound, if
    the expected curve equals the bound.
    """

    kind: str
    statistic: str
    side: str
    sizes: str
    flagged: float
    cells: int

    def line(self) -> str:
        """Return the row as a line of text."""
        where = f"{self.kind:8s} {self.statistic:9s} {self.side:5s} {self.sizes:9s}"
        return (
            f"flags  {where}  at the bound  cells {self.cells:6d}  clearly outside"
            f" {self.flagged:6.1%}"
        )


def draw_pool(kind: str, documents: int, tokens: int, random: np.random.Generator) -> Pool:
    """Draw the documents of one kind of head with their curves and bounds.

    Args:
        kind: one of `KINDS`.
        documents: number of documents, a multiple of 8.
        tokens: T, including the sink.
        random: random generator.
    """
    parameters = plant(
        PlantedWeights(tokens=tokens, oscillation="absent", growth=KINDS[kind]), 1, random
    )
    rows = draw(
        {name: np.repeat(value, documents // DOCUMENTS) for name, value in parameters.items()},
        tokens,
        random,
    )["attention_weight"].values
    weights = rows.reshape(-1, tokens)
    norms = np.full(tokens, 1.0)
    norms[0] = SINK_NORM
    gram, n = (
        offset_exponential(DECAY, OFFSET, SINK_COSINE, tokens),
        envelope_grid(default_n(tokens)),
    )
    curves, start = np.empty((len(STATISTICS), len(weights), n.size)), 0
    for units in draw_directions(
        gram, tokens, DIMENSION, len(weights), int(random.integers(2**31))
    ):
        values = np.ascontiguousarray((units * norms[:, None, None]).swapaxes(0, 1))
        result = separability(weights[start : start + len(values)], values, n)
        curves[:, start : start + len(values)] = [result[name] for name in STATISTICS]
        start += len(values)
    [edges] = evaluate(
        weights, norms, gram, DIMENSION, n, editions=["sharp"], sink=True, convention="paper"
    )
    bounds = np.array([[edges[f"{name}_{side}"] for side in SIDES] for name in STATISTICS])
    return Pool(tokens=tokens, n=n, curves=curves, bounds=bounds)


def shift_bounds(pool: Pool, excess: float) -> tuple[FloatArray, BoolArray]:
    """Shift the bounds until the expected curve exceeds their mean over documents by `excess`.

    Args:
        pool: documents of one kind.
        excess: expected curve beyond the bound; negative inside.

    Returns:
        Bounds (statistic, side, document, n) in [0, 1], and a mask of valid bounds (statistic,
        side, n): 1 < N < T with a mean in [0, 1]. Invalid bounds are NaN.
    """
    sign = np.array([SIGN[side] for side in SIDES])[:, None]
    target = pool.truth[:, None] + sign * excess
    there = (pool.n > 1) & (pool.n < pool.tokens) & (target >= 0) & (target <= 1)
    low, high = np.full(target.shape, -1.0), np.full(target.shape, 1.0)
    for _ in range(50):
        middle = (low + high) / 2
        above = np.clip(pool.bounds + middle[:, :, None], 0.0, 1.0).mean(axis=2) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    shifted = np.clip(pool.bounds + ((low + high) / 2)[:, :, None], 0.0, 1.0)
    return np.where(there[:, :, None], shifted, np.nan), there


def bound_verdicts(
    pool: Pool, bounds: FloatArray, chosen: NDArray[np.int64]
) -> dict[str, FloatArray]:
    """Compare bounds with the curves of heads and compute the verdicts, with the functions of a
    run.

    Args:
        pool: documents of one kind.
        bounds: (statistic, side, head, document, n).
        chosen: indices of each head's documents in the pool, (head, document).

    Returns:
        estimate, p_holds and p_fails, (head,). alike: 1 if all documents have equal values, else 0,
        and outside: 1 if a curve is flagged as clearly outside, else 0; (statistic, head, n).
    """
    heads, dims = len(chosen), ("document", "layer", "head", "n")
    curves = pool.curves[:, chosen].swapaxes(1, 2)[
        :, :, None
    ]  # statistic, document, layer, head, n
    coords: dict[str, Any] = {
        "n": pool.n,
        "layer": [0],
        "head": np.arange(heads),
        "kv_head": [0],
        "kv_head_of_head": ("head", np.zeros(heads, dtype=int)),
        "tokens": ("layer", [pool.tokens]),
        "sink_visible": ("layer", [True]),
        "document": np.arange(DOCUMENTS).astype(str),
    }
    data = {name: (dims, values) for name, values in zip(STATISTICS, curves, strict=True)}
    capture = xr.Dataset(data, coords=coords, attrs={"convention": "paper", "dimension": DIMENSION})
    edges = {
        name: np.full((DOCUMENTS, 1, 1, heads, pool.n.size), np.nan) for name in ALL_BOUNDS
    }  # document, edition, layer, head, n
    for (name, side), values in zip(
        product(STATISTICS, SIDES), bounds.reshape(-1, *bounds.shape[2:]), strict=True
    ):
        edges[f"{name}_{side}"][:] = values.swapaxes(0, 1)[:, None, None]
    along = ("document", "edition", "layer", "head", "n_envelope")
    measured = xr.Dataset(
        {name: (along, values) for name, values in edges.items()},
        coords={"edition": ["sharp"], "n_envelope": pool.n},
    )
    groups = {
        "/capture": capture,
        "/measured_envelope": measured,
        "/norms": xr.Dataset(),
        "/similarity": xr.Dataset(),
    }
    envelope = envelope_dataset(
        xr.DataTree.from_dict(groups), editions=("sharp",), grams=(), points=None
    )
    groups["/envelope"] = envelope.assign_coords(
        gram=["offset"]
    )  # a run holds bounds by document in /measured_envelope
    result = give_verdicts(
        xr.DataTree.from_dict({name: groups[name] for name in ("/capture", "/envelope")})
    ).sel(claim_head=CLAIM)
    parts = {name: result[f"{name}_head"].values[0] for name in ("estimate", "p_holds", "p_fails")}
    error, outside = (
        groups["/envelope"][[f"{name}_{part}" for name in STATISTICS]]
        .to_dataarray()
        .squeeze(drop=True)
        .transpose("variable", "head", "n_envelope")
        for part in ("se", "outside")
    )
    return parts | {
        "alike": (error.values == 0).astype(np.float64),
        "outside": outside.values.astype(np.float64),
    }


def plant_bounds(
    pool: Pool,
    name: tuple[str, str],
    excess: float,
    where: BoolArray,
    heads: int,
    random: np.random.Generator,
    *,
    single: bool,
) -> BoundsRow:
    """Plant bounds at one excess and count the answers.

    Args:
        pool: documents of one kind.
        name: the kind and the planted bounds, as printed in the row.
        excess: expected curve beyond each planted bound.
        where: candidate bounds, (statistic, side, n); those that would leave [0, 1] are excluded.
        heads: number of heads.
        random: random generator.
        single: plant one random bound per head instead of all.
    """
    edges, there = shift_bounds(pool, excess)
    places = np.argwhere(there & where)
    far = np.array([FAR[side] for side in SIDES])[:, None, None, None]
    result: list[dict[str, FloatArray]] = []
    for start in range(0, heads, HEADS_AT_ONCE):
        count = min(HEADS_AT_ONCE, heads - start)
        chosen = random.integers(pool.curves.shape[1], size=(count, DOCUMENTS))
        active = np.zeros((count, *there.shape), dtype=bool)
        if single:
            active[(np.arange(count), *places[random.integers(len(places), size=count)].T)] = True
        else:
            active[:, *places.T] = True
        parts = bound_verdicts(
            pool,
            np.where(active.transpose(1, 2, 0, 3)[:, :, :, None], edges[:, :, chosen], far),
            chosen,
        )
        cells = np.asarray(active.any(axis=2)).transpose(1, 0, 2)  # statistic, head, n
        result.append(
            parts | {"agree": (parts["alike"] * cells).sum(axis=(0, 2)) / cells.sum(axis=(0, 2))}
        )
    estimate, holds, fails, agree = (
        np.concatenate([part[key] for part in result])
        for key in ("estimate", "p_holds", "p_fails", "agree")
    )
    return BoundsRow(
        kind=name[0],
        planted=name[1],
        excess=excess,
        tolerance=read_tolerances()[CLAIM].value,
        median=float(np.median(estimate)),
        holds=float((holds <= SIGNIFICANCE).mean()),
        fails=float((fails <= SIGNIFICANCE).mean()),
        alike=float(agree.mean()),
        heads=heads,
    )


def verdict_rows(
    kind: str, pool: Pool, heads: int, random: np.random.Generator
) -> Iterator[BoundsRow]:
    """Yield the rows of one kind of head."""
    tolerance = read_tolerances()[CLAIM].value
    all_bounds = np.ones((len(STATISTICS), len(SIDES), pool.n.size), dtype=bool)
    for excess in INSIDE:
        yield plant_bounds(
            pool, (kind, "every bound"), excess, all_bounds, heads, random, single=False
        )
    for place, side in enumerate(SIDES):
        where = all_bounds & (np.arange(len(SIDES)) == place)[:, None]
        for excess in (tolerance, *OUTSIDE):
            yield plant_bounds(
                pool, (kind, f"every {side} bound"), excess, where, heads, random, single=False
            )
    room = shift_bounds(pool, tolerance)[1]
    for index, (statistic, side) in enumerate(product(STATISTICS, SIDES)):
        for first, last in BANDS:
            where = np.zeros_like(all_bounds)
            where.reshape(-1, pool.n.size)[index] = (pool.n >= first) & (pool.n <= last)
            if (where & room).any():
                yield plant_bounds(
                    pool,
                    (kind, f"one {statistic} {side}, {_sizes(first, last)}"),
                    tolerance,
                    where,
                    heads,
                    random,
                    single=True,
                )
    for excess in OUTSIDE:
        yield plant_bounds(
            pool, (kind, "one bound"), excess, all_bounds, heads, random, single=True
        )


def flag_rows(kind: str, pool: Pool, heads: int, random: np.random.Generator) -> Iterator[FlagRow]:
    """Yield the rate of flags for curves whose expectation equals a bound (nominal 2.5%), per side
    and for small, middle and large N.
    """
    edges, there = shift_bounds(pool, 0.0)
    chosen = random.integers(pool.curves.shape[1], size=(heads, DOCUMENTS))
    for place, side in enumerate(SIDES):
        one_sided = edges[:, :, chosen]
        one_sided[:, 1 - place] = FAR[SIDES[1 - place]]
        outside = bound_verdicts(pool, one_sided, chosen)["outside"]
        for index, statistic in enumerate(STATISTICS):
            for first, last in BANDS:
                sizes = there[index, place] & (pool.n >= first) & (pool.n <= last)
                if sizes.any():
                    cells = outside[index][:, sizes]
                    band = _sizes(first, last)
                    yield FlagRow(
                        kind=kind,
                        statistic=statistic,
                        side=side,
                        sizes=band,
                        flagged=float(cells.mean()),
                        cells=cells.size,
                    )


def _sizes(first: float, last: float) -> str:
    return f"N from {first}" if last == np.inf else f"N {first} to {last}"


def study(heads: int, tokens: int, seed: int) -> Iterator[BoundsRow | FlagRow]:
    """Yield every row of the study."""
    for kind in KINDS:
        random = np.random.default_rng(seed)
        pool = draw_pool(kind, POOL, tokens, random)
        yield from verdict_rows(kind, pool, heads, random)
        yield from flag_rows(kind, pool, heads, random)
