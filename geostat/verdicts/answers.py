"""Verdicts: for every head and claim *holds*, *fails* or *undetermined*, each with the estimate,
interval, tolerance and p-values behind it.

An effect is tested against its tolerance from both sides with its document-jackknife standard error
and Student's t on K − 1 degrees of freedom, and with Hall's transformation of it, which allows for
skewed documents; the false-discovery rate over the heads of the model is controlled for *holds* and
for *fails* apart (`geostat.statistics.equivalence`). Intervals are not adjusted. A claim on bounds
is the intersection of one on each side, statistic and N, whose second test is another
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
    REACH,
    PValues,
    answers,
    intersection_union,
    one_sided,
    with_presence,
)
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES
from geostat.statistics.t_test import critical_value
from geostat.verdicts.claims import (
    CLAIMS,
    UNITS,
    Claim,
    refuse_withdrawn,
    replicates,
    share_within,
)
from geostat.verdicts.tolerances import Tolerance, read_tolerances
from geostat.verdicts.variables import BY_UNIT, CELL, OF_BOUNDS, OVERALL, PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """An effect of all heads, (layer, unit), and its p-values."""

    estimate: FloatArray
    se: FloatArray
    degrees: FloatArray
    p: PValues
    skew: FloatArray
    """Of single documents; NaN where the p-values rest on Student's t alone, or on another test
    beside it.
    """
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
        and give the estimate of the one that decided (CELL). Over (claim): OVERALL, of which
        true_at_least and true_at_most, the share of heads of which the claim is true, are by what
        the false-discovery rate q allows (1−q)·holds and 1 − (1−q)·fails in expectation, and the
        error of within is NaN where the run keeps no replicates. Claims whose bounds or fits the
        run does not hold are left out.
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
        "skewness_reach": REACH,
        "answers": json.dumps({str(code): word for code, word in ANSWERS.items()}),
        "bounds": json.dumps({str(code): name for code, name in CODES.items()}),
        "claims": json.dumps(
            [_row(claim, by_claim[claim.key]) for claim, _ in every], ensure_ascii=False
        ),
    }
    return whole


def _row(claim: Claim, tolerance: Tolerance) -> dict[str, Any]:
    """A claim as a report needs it."""
    own = {name: getattr(claim, name) for name in ("key", "says", "of", "side", "units")}
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
    estimate, se = (
        chosen[f"{claim.variable}{part}"].values.astype(np.float64) for part in ("", "_se")
    )
    degrees = np.maximum(data["documents"].values.astype(np.float64) - 1, 1)
    skewed = f"{claim.variable}_skew"
    skew = (
        chosen[skewed].values.astype(np.float64)
        if skewed in chosen
        else np.full(estimate.shape, np.nan)
    )
    p = one_sided(estimate, se, degrees, tolerance, claim.side, skew)
    if claim.presence is not None:
        p = with_presence(
            p, chosen[claim.presence].values.astype(np.float64), np.isfinite(estimate)
        )
    return _Effect(estimate=estimate, se=se, degrees=degrees, p=p, skew=skew)


def _excess(tree: xr.DataTree, bounds: xr.Dataset, tolerance: float) -> _Effect:
    """How far measured curves lie beyond their bounds: each cell is a claim, and all must hold; the
    estimate is the deciding cell's.
    """
    documents = float(bounds.attrs.get("documents", tree["capture"].sizes["document"]))
    result = cells(bounds, tree["capture"].to_dataset()["tokens"].values, documents, tolerance)
    p = intersection_union(result.p)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(result.excess).any(axis=-1))
    cell = deciding(result, answers(p, known) == FAILS)
    degrees = np.full(cell.excess.shape, max(documents - 1, 1))
    return _Effect(
        estimate=cell.excess,
        se=cell.se,
        degrees=degrees,
        p=p,
        skew=np.full(cell.excess.shape, np.nan),
        cell=cell,
    )


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
    half = critical_value(effect.degrees) * effect.se
    over = effect.p.adjusted()
    parts = [
        effect.estimate,
        effect.se,
        effect.skew,
        effect.estimate - half,
        effect.estimate + half,
    ]
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
    """Counts of each answer, the share of heads of which a claim is true, and of those whose
    estimate lies within the tolerance.
    """
    rows = []
    for claim, effect in effects:
        tolerance = tolerances[claim.key].value
        tested = int(np.isfinite(effect.estimate).sum())
        holds, fails = (int((effect.answer == code).sum()) for code in (HOLDS, FAILS))
        keep = (1 - FALSE_DISCOVERIES) / tested if tested else float("nan")
        counts = (tested, effect.estimate.size - tested, holds, fails, tested - holds - fails)
        # A cell beyond the tolerance has p (holds) = 1, so the one that decides is beyond it where
        # any is.
        share = share_within(effect.estimate, replicates(tree, claim), tolerance, claim.side)
        within = (float(part) for part in (share.value, share.se, share.lower, share.upper))
        rows.append((tolerance, *counts, keep * holds, 1 - keep * fails, *within))
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
