"""Verdicts: for every head and claim *holds*, *fails* or *undetermined*, each with the estimate,
interval, tolerance and p-values behind it.

An effect's 95% interval over documents, its error and skewness moderated over the heads of the
claim (`geostat.statistics.moderation`), lies within the tolerance, outside, or neither
(`geostat.statistics.equivalence`). Each head is judged alone; how many answers are left when the
false-discovery rate over heads is controlled is counted beside. A claim on bounds is the
intersection of one on each side, statistic and N, whose second test is another
(`geostat.bounds.gaps`). Imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.bounds.gaps import CODES, Deciding, cells, deciding
from geostat.datasets.variable import variables
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import (
    ANSWERS,
    FAILS,
    HOLDS,
    PValues,
    against,
    answers,
    intersection_union,
    with_presence,
)
from geostat.statistics.mixture import share_of_heads
from geostat.statistics.moderation import Errors, moderated
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES
from geostat.verdicts.claims import (
    CLAIMS,
    UNITS,
    Claim,
    refuse_withdrawn,
    replicates,
    within,
)
from geostat.verdicts.tolerances import Tolerance, read_tolerances
from geostat.verdicts.variables import BY_UNIT, CELL, OF_BOUNDS, OVERALL, PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """An effect of all heads, (layer, unit), and its p-values."""

    estimate: FloatArray
    errors: Errors
    p: PValues
    cell: Deciding | None = None
    """Of a claim on bounds: the cell that estimate and standard error are of."""

    @property
    def answer(self) -> NDArray[np.int8]:
        """A code of ANSWERS for each head."""
        return answers(self.p, np.isfinite(self.estimate))


def give_verdicts(
    tree: xr.DataTree, tolerances: Mapping[str, Tolerance] | None = None
) -> xr.Dataset:
    """Give a verdict on every claim of every head.

    Args:
        tree: a run with /norms, /similarity and, for the claims on bounds, /envelope and /capture.
        tolerances: by claim, over those of `tolerances.toml`.

    Returns:
        /verdicts. For each unit u of kv_head and head, over (claim_u, layer, u): answer_u, and what
        it rests on as in PARTS. Claims on bounds join all bounds of a head in p_holds and p_fails,
        and give the estimate of the one that decided (CELL). Over (claim): OVERALL, of which the
        estimated share of heads is NaN of claims on bounds and where the run keeps no replicates.
        Claims whose bounds or fits the run does not hold are left out.
    """
    by_claim = {**read_tolerances(), **(tolerances or {})}
    by_unit: dict[str, list[tuple[Claim, _Effect]]] = {unit: [] for unit in UNITS}
    for claim in CLAIMS:
        effect = _effect(tree, claim, by_claim[claim.key].value)
        if effect is not None:
            by_unit[claim.of].append((claim, effect))
    every = [pair for effects in by_unit.values() for pair in effects]
    parts = [_by_head(tree, unit, effects) for unit, effects in by_unit.items() if effects]
    whole = xr.merge([*parts, _overall(tree, every, by_claim)], combine_attrs="drop_conflicts")
    whole.attrs = {
        "long_name": "verdicts",
        "false_discovery_rate": FALSE_DISCOVERIES,
        "answers": json.dumps({str(code): word for code, word in ANSWERS.items()}),
        "bounds": json.dumps({str(code): name for code, name in CODES.items()}),
        "claims": json.dumps(
            [_row(claim, by_claim[claim.key]) for claim, _ in every], ensure_ascii=False
        ),
    }
    return whole


def _row(claim: Claim, tolerance: Tolerance) -> dict[str, Any]:
    """A claim as a report needs it."""
    own = {name: getattr(claim, name) for name in ("key", "says", "short", "of", "side", "units")}
    row: dict[str, Any] = own | {
        "tolerance": tolerance.value,
        "source": tolerance.source,
        "estimate": f"/{claim.group}" if claim.bounds else f"/{claim.group}/{claim.variable}",
    }
    if claim.select:
        row["select"] = dict(claim.select)
    if claim.presence:
        row["second_test"] = f"/{claim.group}/{claim.presence}"
    return row


def _effect(tree: xr.DataTree, claim: Claim, tolerance: float) -> _Effect | None:
    """The effect of a claim and its p-values; None where the run does not hold it."""
    if claim.group not in tree.children:
        return None
    data = tree[claim.group].to_dataset()
    if any(
        name not in data.coords or value not in data[name].values
        for name, value in claim.select.items()
    ):
        return None
    chosen = data.sel(claim.select)
    if claim.bounds:
        return _excess(tree, chosen, tolerance)
    if any(
        name not in chosen
        for name in (claim.variable, f"{claim.variable}_se", claim.presence or claim.variable)
    ):
        return None
    skewed = f"{claim.variable}_skew"
    estimate, se, skew = (
        chosen[name].values.astype(np.float64) if name in chosen else np.full(shape, np.nan)
        for shape in [chosen[claim.variable].shape]
        for name in (claim.variable, f"{claim.variable}_se", skewed)
    )
    errors = moderated(se, skew, data["documents"].values.astype(np.float64))
    p = against(estimate, errors, tolerance, claim.side)
    if claim.presence is not None:
        p = with_presence(
            p, chosen[claim.presence].values.astype(np.float64), np.isfinite(estimate)
        )
    return _Effect(estimate=estimate, errors=errors, p=p)


def _excess(tree: xr.DataTree, bounds: xr.Dataset, tolerance: float) -> _Effect:
    """How far measured curves lie beyond their bounds: each cell is a claim, and all must hold; the
    estimate is the deciding cell's.
    """
    documents = float(bounds.attrs.get("documents", tree["capture"].sizes["document"]))
    result = cells(bounds, tree["capture"].to_dataset()["tokens"].values, documents, tolerance)
    p = intersection_union(result.p)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(result.excess).any(axis=-1))
    cell = deciding(result, answers(p, known) == FAILS)
    return _Effect(estimate=cell.excess, errors=Errors.of_t(cell.se, documents), p=p, cell=cell)


def _by_head(tree: xr.DataTree, unit: str, effects: Sequence[tuple[Claim, _Effect]]) -> xr.Dataset:
    """The answers of one kind of head, with what they rest on."""
    dims = (f"claim_{unit}", "layer", unit)
    bounds = any(claim.bounds for claim, _ in effects)
    records = BY_UNIT[unit] + (OF_BOUNDS[unit] if bounds else ())
    rows = [_columns(effect) | (_cell_columns(effect) if bounds else {}) for _, effect in effects]
    result = variables(
        records, {f"{name}_{unit}": np.stack([row[name] for row in rows]) for name in rows[0]}
    )
    capture = tree["capture"].to_dataset()
    coords = {name: capture[name].variable for name in ("layer", unit)}
    keys = np.array([claim.key for claim, _ in effects], dtype=object)
    return xr.Dataset(
        result, coords=coords | {dims[0]: xr.Variable((dims[0],), keys, {"long_name": "claim"})}
    )


def _columns(effect: _Effect) -> dict[str, np.ndarray]:
    """Answers of all heads, and PARTS."""
    errors, over = effect.errors, effect.p.adjusted()
    parts = [effect.estimate, errors.se, errors.degrees, errors.skew]
    parts += errors.limits(effect.estimate)
    parts += [effect.p.holds, effect.p.fails, over.holds, over.fails]
    return {"answer": effect.answer, **dict(zip(PARTS, parts, strict=True))}


def _cell_columns(effect: _Effect) -> dict[str, np.ndarray]:
    """CELL, which a claim on other things than bounds has none of."""
    cell, shape = effect.cell, effect.estimate.shape
    if cell is None:
        parts = [np.full(shape, none) for none in (-1, 0, 0, np.nan, np.nan)]
        return dict(zip(CELL, parts, strict=True))
    return dict(
        zip(CELL, (cell.bound, cell.n, cell.cells, cell.p.holds, cell.p.fails), strict=True)
    )


def _overall(
    tree: xr.DataTree,
    effects: Sequence[tuple[Claim, _Effect]],
    tolerances: Mapping[str, Tolerance],
) -> xr.Dataset:
    """Counts of each answer, and the share of heads of which a claim is true."""
    rows = []
    for claim, effect in effects:
        known, over = (
            np.isfinite(effect.estimate),
            answers(effect.p.adjusted(), np.isfinite(effect.estimate), FALSE_DISCOVERIES),
        )
        tested, tolerance = int(known.sum()), tolerances[claim.key].value
        holds, fails, *left = (
            int((given == code).sum()) for given in (effect.answer, over) for code in (HOLDS, FAILS)
        )
        counts = (tested, known.size - tested, holds, fails, tested - holds - fails, *left)
        rows.append((tolerance, *counts, *_true_of(tree, claim, effect, tolerance)))
    columns = list(zip(*rows, strict=True)) or [()] * len(OVERALL)
    numbers = {
        record.name: np.array(column) for record, column in zip(OVERALL, columns, strict=True)
    }
    keys = xr.Variable(
        ("claim",),
        np.array([claim.key for claim, _ in effects], dtype=object),
        {"long_name": "claim"},
    )
    return xr.Dataset(variables(OVERALL, numbers), coords={"claim": keys})


def _true_of(
    tree: xr.DataTree, claim: Claim, effect: _Effect, tolerance: float
) -> tuple[float, ...]:
    """The share of heads whose estimate lies within the tolerance; and whose effect does, with its
    limits.
    """

    def inside(values: FloatArray) -> NDArray[np.bool_]:
        return within(values, tolerance, claim.side)

    # A cell beyond the tolerance has p (holds) = 1, so the one that decides is beyond it where any
    # is.
    known = np.isfinite(effect.estimate)
    plain = float(inside(effect.estimate[known]).mean()) if known.any() else float("nan")
    again = replicates(tree, claim)
    if again is None:
        return plain, *(float("nan"),) * 3
    known &= np.isfinite(effect.errors.se) & np.isfinite(again).all(axis=0)
    found = share_of_heads(effect.estimate[known], effect.errors.se[known], again[:, known], inside)
    return plain, *(float(part) for part in (found.value, found.lower, found.upper))


def claim_rows(verdicts: xr.Dataset) -> list[dict[str, Any]]:
    """What /verdicts says of each claim, as `give_verdicts` wrote it down: key, says, of, side,
    units, tolerance, source, estimate, and where there is one select and second_test, a p-value
    that p (holds) is at least.
    """
    return list(json.loads(verdicts.attrs["claims"]))


def refuse_older(name: str, groups: Mapping[str, Any]) -> None:
    """Refuse a run whose /verdicts, if it has any, answer a claim that has been withdrawn since.

    Raises:
        InputError: telling which claim, and how to renew the run.
    """
    for row in claim_rows(groups["verdicts"]) if "verdicts" in groups else ():
        refuse_withdrawn(
            f"{name}: its claim {row['key']}", row["key"], "Run `geostat confront` on it again."
        )
