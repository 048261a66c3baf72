"""Recovery study of the verdicts on bounds: how often is an answer false, where curves lie inside,
at, and outside bound and tolerance?

Run: python -m studies.verdicts --claim bounds [--heads 1000] [--seed 0] [--tokens 257]

A *kind* of head has weights as `weights` draws them, with or without growth, and values from Model
G at the median fit of SmolLM2-135M. Of each kind a pool of documents is made: curves of Precision
and Recall, measured as in a model, and sharp bounds at each document's own weights. A head is 8
documents of the pool, with replacement, so its expected curve is the pool's mean, exactly. Bounds
move with the document as those of theory do, but are shifted (and cut to [0, 1]) until their mean
lies where it is planted. Bounds that are planted nowhere are left out at −1 and 2, so that the
planted one decides. /envelope and the p-values are made by `envelope.confront` and
`answers.give_verdicts` themselves. Answers are counted one by one, at 5%, as if a head stood alone.
Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.measure.selection import separability
from empirical.measure.sizes import default_n
from geostat.bounds.by_document import envelope_grid, evaluate
from geostat.bounds.envelope import envelope_dataset
from geostat.datasets.separability import ALL_BOUNDS, SIDES, STATISTICS
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.verdicts.answers import give_verdicts
from geostat.verdicts.tolerances import read_tolerances
from studies.weights import DOCUMENTS, PlantedWeights, draw, plant
from theory.audit.simulate import draw_directions
from theory.head.similarity_decay import offset_exponential

CLAIM: Final = "bounds.sharp_offset"
"""All claims on bounds are tested alike; this one speaks of the kind of cosines that are drawn
here.
"""

DECAY, OFFSET, SINK_COSINE, SINK_NORM, DIMENSION = 1.36, 0.137, -0.07, 0.25, 64
"""Median β, c, ρ₀ and λ of SmolLM2-135M's value heads, eight texts of 1,024 tokens, and their
size d.
"""

POOL: Final = 2000
"""Documents of a kind."""

KINDS: Final = {"flat": "absent", "growing": "strong"}
"""Kinds of heads, and the growth of their weights as `weights` names it."""

BANDS: Final = ((2, 4), (5, 32), (33, np.inf))
"""Sizes N, first and last, that share a row."""

FAR: Final = {"lower": -1.0, "upper": 2.0}
SIGN: Final = {"lower": 1.0, "upper": -1.0}
"""A bound lies above the curve by SIGN times its excess."""

INSIDE: Final = (-0.3, -0.1, -0.03)
OUTSIDE: Final = (0.05, 0.1, 0.2)
HEADS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Documents of one kind of head: sizes N (n,), curves (statistic, document, n), bounds
    (statistic, side, document, n).
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
    """Answers to one kind of head: shares of all heads; `alike`: of the planted curves and
    sizes, those at which all documents agree.
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

    def told(self) -> str:
        """The row as a line."""
        return (
            f"bounds {self.kind:8s} {self.planted:31s} excess {self.excess:6.3f}  tolerance"
            f" {self.tolerance:5.3f}  heads {self.heads:5d}  median {self.median:6.3f}  holds"
            f" {self.holds:6.1%}  fails {self.fails:6.1%}  documents agree {self.alike:6.1%}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """Of curves whose expectation lies at the bound itself, the share that one side's bound
    flags as clearly outside (/envelope, `x_outside`).
    """

    kind: str
    statistic: str
    side: str
    sizes: str
    flagged: float
    cells: int

    def told(self) -> str:
        """The row as a line."""
        where = f"{self.kind:8s} {self.statistic:9s} {self.side:5s} {self.sizes:9s}"
        return (
            f"flags  {where}  at the bound  cells {self.cells:6d}  clearly outside"
            f" {self.flagged:6.1%}"
        )


def made(kind: str, documents: int, tokens: int, random: np.random.Generator) -> Pool:
    """Draw the documents of one kind of head, and measure and bound each.

    Args:
        kind: of `KINDS`.
        documents: how many, a multiple of 8.
        tokens: T, the sink included.
        random: source of the draws.
    """
    one = plant(PlantedWeights(tokens=tokens, oscillation="absent", growth=KINDS[kind]), 1, random)
    rows = draw(
        {name: np.repeat(value, documents // DOCUMENTS) for name, value in one.items()},
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


def placed(pool: Pool, excess: float) -> tuple[FloatArray, BoolArray]:
    """Shift bounds until the expected curve lies `excess` beyond each, in the mean over documents.

    Args:
        pool: documents of one kind.
        excess: of the expected curve over the bound; below 0 where it lies inside.

    Returns:
        Bounds (statistic, side, document, n) in [0, 1], and where there is such a bound,
        (statistic, side, n): 1 < N < T, its mean in [0, 1]. Elsewhere bounds are NaN.
    """
    sign = np.array([SIGN[side] for side in SIDES])[:, None]
    wanted = pool.truth[:, None] + sign * excess
    there = (pool.n > 1) & (pool.n < pool.tokens) & (wanted >= 0) & (wanted <= 1)
    low, high = np.full(wanted.shape, -1.0), np.full(wanted.shape, 1.0)
    for _ in range(50):
        middle = (low + high) / 2
        above = np.clip(pool.bounds + middle[:, :, None], 0.0, 1.0).mean(axis=2) > wanted
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    shifted = np.clip(pool.bounds + ((low + high) / 2)[:, :, None], 0.0, 1.0)
    return np.where(there[:, :, None], shifted, np.nan), there


def judged(pool: Pool, bounds: FloatArray, chosen: NDArray[np.int64]) -> dict[str, FloatArray]:
    """Lay bounds over the curves of heads and give verdicts, as a run does.

    Args:
        pool: documents of one kind.
        bounds: (statistic, side, head, document, n).
        chosen: which documents of the pool a head has, (head, document).

    Returns:
        estimate, p_holds and p_fails, (head,); alike: 1 where all documents have the same curve,
        else 0, and outside: 1 where a curve is flagged as clearly outside, else 0, (statistic,
        head, n).
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
    own = xr.Dataset(
        {name: (along, values) for name, values in edges.items()},
        coords={"edition": ["sharp"], "n_envelope": pool.n},
    )
    groups = {
        "/capture": capture,
        "/measured_envelope": own,
        "/norms": xr.Dataset(),
        "/similarity": xr.Dataset(),
    }
    envelope = envelope_dataset(
        xr.DataTree.from_dict(groups), editions=("sharp",), grams=(), points=None
    )
    groups["/envelope"] = envelope.assign_coords(
        gram=["offset"]
    )  # bounds by document come in where a run holds those of its own Grams
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


def planted(
    pool: Pool,
    name: tuple[str, str],
    excess: float,
    where: BoolArray,
    heads: int,
    random: np.random.Generator,
    *,
    one: bool,
) -> BoundsRow:
    """Plant bounds at one excess and count the answers.

    Args:
        pool: documents of one kind.
        name: the kind, and which bounds are planted, as the row tells them.
        excess: of the expected curve over each planted bound.
        where: bounds that may be planted, (statistic, side, n); those without room for it in [0, 1]
            are left out.
        heads: how many heads.
        random: source of the draws.
        one: whether a head has one of the bounds, drawn, or all.
    """
    edges, there = placed(pool, excess)
    places = np.argwhere(there & where)
    far = np.array([FAR[side] for side in SIDES])[:, None, None, None]
    result: list[dict[str, FloatArray]] = []
    for start in range(0, heads, HEADS_AT_ONCE):
        count = min(HEADS_AT_ONCE, heads - start)
        chosen = random.integers(pool.curves.shape[1], size=(count, DOCUMENTS))
        at = np.zeros((count, *there.shape), dtype=bool)
        if one:
            at[(np.arange(count), *places[random.integers(len(places), size=count)].T)] = True
        else:
            at[:, *places.T] = True
        parts = judged(
            pool,
            np.where(at.transpose(1, 2, 0, 3)[:, :, :, None], edges[:, :, chosen], far),
            chosen,
        )
        cells = np.asarray(at.any(axis=2)).transpose(1, 0, 2)  # statistic, head, n
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


def rows_of(kind: str, pool: Pool, heads: int, random: np.random.Generator) -> Iterator[BoundsRow]:
    """Yield the rows of one kind of head."""
    tolerance = read_tolerances()[CLAIM].value
    every = np.ones((len(STATISTICS), len(SIDES), pool.n.size), dtype=bool)
    for excess in INSIDE:
        yield planted(pool, (kind, "every bound"), excess, every, heads, random, one=False)
    for place, side in enumerate(SIDES):
        where = every & (np.arange(len(SIDES)) == place)[:, None]
        for excess in (tolerance, *OUTSIDE):
            yield planted(
                pool, (kind, f"every {side} bound"), excess, where, heads, random, one=False
            )
    room = placed(pool, tolerance)[1]
    for at, (statistic, side) in enumerate(product(STATISTICS, SIDES)):
        for first, last in BANDS:
            where = np.zeros_like(every)
            where.reshape(-1, pool.n.size)[at] = (pool.n >= first) & (pool.n <= last)
            if (where & room).any():
                yield planted(
                    pool,
                    (kind, f"one {statistic} {side}, {_sizes(first, last)}"),
                    tolerance,
                    where,
                    heads,
                    random,
                    one=True,
                )
    for excess in OUTSIDE:
        yield planted(pool, (kind, "one bound"), excess, every, heads, random, one=True)


def flags_of(kind: str, pool: Pool, heads: int, random: np.random.Generator) -> Iterator[FlagRow]:
    """Yield how often a curve whose expectation lies at a bound is flagged, 2.5% by name, side
    by side and for small, middle and large N.
    """
    edges, there = placed(pool, 0.0)
    chosen = random.integers(pool.curves.shape[1], size=(heads, DOCUMENTS))
    for place, side in enumerate(SIDES):
        one = edges[:, :, chosen]
        one[:, 1 - place] = FAR[SIDES[1 - place]]
        outside = judged(pool, one, chosen)["outside"]
        for at, statistic in enumerate(STATISTICS):
            for first, last in BANDS:
                sizes = there[at, place] & (pool.n >= first) & (pool.n <= last)
                if sizes.any():
                    cells = outside[at][:, sizes]
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
        pool = made(kind, POOL, tokens, random)
        yield from rows_of(kind, pool, heads, random)
        yield from flags_of(kind, pool, heads, random)
