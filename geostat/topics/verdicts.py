"""Verdicts: *holds*, *holds trivially*, *fails* or *undetermined* for every head and claim, with
estimate, interval, tolerance and p-values.

A verdict is an equivalence test: the 95% interval of the effect over documents lies within the
tolerance, outside it, or neither (`geostat.statistics.equivalence`). Standard errors and skewness
are moderated over the heads of a claim (`geostat.statistics.moderation`). Heads are tested one by
one; counts under control of the false-discovery rate over heads are added. A claim on a form holds
trivially where its effect is within the tolerance, but its held-out loss is not significantly below
that of a flat form (one-sided paired t-test over documents at 95%). A claim on bounds is an
intersection-union test over sides, statistics and N, with another second test
(`geostat.bounds.gaps`). Imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.schema import Quantity
from geostat.bounds.gaps import CODES, cells, deciding
from geostat.datasets.variable import known, variables, words_along
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import (
    ANSWERS,
    FAILS,
    NO_ESTIMATE,
    PValues,
    against,
    answers,
    beyond_flat,
    intersection_union,
    with_presence,
)
from geostat.statistics.mixture import share_of_heads
from geostat.statistics.moderation import Errors, moderated
from geostat.statistics.multiple_testing import FALSE_DISCOVERIES
from geostat.topics.claims import CLAIMS, read_tolerances, refuse_withdrawn, replicates, within
from geostat.topics.records import ANSWER_CODES, UNITS, Claim, Tolerance, Unit

_number = partial(Quantity, units="units of the effect")
EFFECT: Final = (
    Quantity("answer", "2 holds trivially, 1 holds, -1 fails, 0 undetermined, -2 no estimate"),
    _number("estimate", "estimated effect"),
    _number("se", "moderated standard error of the effect over documents"),
    Quantity("degrees", "degrees of freedom of that standard error"),
    Quantity(
        "skew", "moderated skewness of the effect over documents; NaN if the test does not use it"
    ),
    _number("lower", "lower limit of the unadjusted 95% interval"),
    _number("upper", "upper limit of the unadjusted 95% interval"),
    Quantity("p_holds", "p-value of the null hypothesis that the claim is false"),
    Quantity("p_fails", "p-value of the null hypothesis that the claim is true"),
    *(
        Quantity(
            f"{name}_adjusted", f"{name} adjusted over the heads of the claim (Benjamini-Hochberg)"
        )
        for name in ("p_holds", "p_fails")
    ),
)
"""Answer by head, and the numbers behind it."""
CELL: Final = (
    Quantity(
        "cell_bound",
        f"deciding bound: {', '.join(f'{code} {name}' for code, name in CODES.items())}; -1 for"
        " other claims",
    ),
    Quantity("cell_n", "N of the deciding bound; 0 for other claims"),
    Quantity(
        "cell_count",
        "number of bounds tested, one for each side, statistic and N; 0 for other claims",
    ),
    Quantity("cell_p_holds", "p_holds of the deciding bound alone"),
    Quantity("cell_p_fails", "p_fails of the deciding bound, times the number of bounds tested"),
)
"""The deciding bound of a claim on bounds."""
NO_CELL: Final = dict(
    zip((record.name for record in CELL), (-1, 0, 0, np.nan, np.nan), strict=True)
)
"""Values of CELL for other claims."""


def _by_unit(unit: str, records: Sequence[Quantity]) -> tuple[Quantity, ...]:
    dims = (f"claim_{unit}", "layer", unit)
    return tuple(replace(record, name=f"{record.name}_{unit}", dims=dims) for record in records)


BY_UNIT: Final = {unit: _by_unit(unit, EFFECT) for unit in UNITS}
OF_BOUNDS: Final = _by_unit("head", CELL)
"""Records of the deciding bound; claims on bounds are tested in query heads."""
_claim = partial(Quantity, dims=("claim",))
OVERALL: Final = (
    _claim("tolerance", "tolerance, in units of the effect"),
    _claim("tested", "heads with an estimate"),
    _claim("no_estimate", "heads without an estimate"),
    _claim("holds", "heads in which the claim holds, and not trivially"),
    _claim(
        "holds_trivially",
        "heads in which the effect is within the tolerance, but a flat form predicts as well",
    ),
    _claim("fails", "heads in which the claim fails"),
    _claim("undetermined", "heads in which the claim is undetermined"),
    _claim(
        "holds_adjusted",
        "heads in which the claim holds at a false-discovery rate of q (Benjamini-Hochberg)",
    ),
    _claim("fails_adjusted", "heads in which the claim fails at that false-discovery rate"),
    _claim("within", "share of estimates that lie within the tolerance"),
    _claim("true_share", "estimated share of heads for which the claim is true (mixture model)"),
    _claim("true_share_lower", "lower limit of the 95% interval of true_share"),
    _claim("true_share_upper", "upper limit of the 95% interval of true_share"),
)
SHARES: Final = tuple(record.name for record in OVERALL[-4:])
"""Shares of all heads, which a part of a run does not have."""


Effect = tuple[Claim, dict[str, NDArray[Any]]]
"""A claim, and the arrays of EFFECT and CELL in all heads by name, (layer, unit)."""


def give_verdicts(
    tree: xr.DataTree, tolerances: Mapping[str, Tolerance] | None = None
) -> xr.Dataset:
    """Test every claim in every head.

    Args:
        tree: a run with /capture, fits and, for claims on bounds, /envelope.
        tolerances: tolerances by claim that replace the built-in ones.

    Returns:
        /verdicts. With dims (claim_u, layer, u) for u in kv_head and head: the variables of EFFECT.
        For claims on bounds, p_holds and p_fails combine all bounds of a head, and the estimate is
        that of the deciding bound (CELL). With dims (claim): OVERALL; `true_share` is NaN for
        claims on bounds and for runs without leave-one-document-out values. Claims whose fits or
        bounds are not in the run are left out.
    """
    by_claim = {**read_tolerances(), **(tolerances or {})}
    claims = [replace(claim, tolerance=by_claim[claim.key]) for claim in CLAIMS]
    effects = [effect for claim in claims if (effect := _effect(tree, claim)) is not None]
    verdicts = xr.merge([_by_head(tree, unit, effects) for unit in UNITS])
    numbers = [
        {"tolerance": claim.tolerance.value}
        | _counts(verdicts, claim.of, claim.key)
        | _true_shares(claim, arrays, replicates(tree, claim))
        for claim, arrays in effects
    ]
    overall = {record.name: np.array([row[record.name] for row in numbers]) for record in OVERALL}
    verdicts = verdicts.assign(variables(OVERALL, overall))
    verdicts = verdicts.assign_coords(claim=_keys("claim", effects))
    verdicts.attrs = {
        "long_name": "verdicts",
        "false_discovery_rate": FALSE_DISCOVERIES,
        "answers": json.dumps({str(code): word for code, word in ANSWERS.items()}),
        "bounds": json.dumps({str(code): name for code, name in CODES.items()}),
        "claims": json.dumps([_row(claim) for claim, _ in effects], ensure_ascii=False),
    }
    return verdicts


def _row(claim: Claim) -> dict[str, Any]:
    """Return a claim as a JSON row of /verdicts."""
    names = ("key", "says", "short", "of", "side", "units")
    row: dict[str, Any] = {name: getattr(claim, name) for name in names} | {
        "tolerance": claim.tolerance.value,
        "source": claim.tolerance.source,
        "estimate": f"/{claim.group}" if claim.bounds else f"/{claim.group}/{claim.variable}",
    }
    if claim.select:
        row["select"] = dict(claim.select)
    if second_test := claim.presence or claim.flat:
        row["second_test"] = f"/{claim.group}/{second_test}"
    if claim.flat:
        row["flat"] = claim.flat
    return row


def _effect(tree: xr.DataTree, claim: Claim) -> Effect | None:
    """Return a claim with its effect and p-values; None if the run has no estimate of it."""
    if claim.group not in tree.children:
        return None
    data = tree[claim.group].to_dataset()
    if any(
        name not in data.coords or value not in data[name].values
        for name, value in claim.select.items()
    ):
        return None
    selected = data.sel(claim.select)
    if claim.bounds:
        return _excess(tree, claim, selected)
    needed = (claim.variable, f"{claim.variable}_se", claim.presence, claim.flat)
    if any(name not in selected for name in needed if name is not None):
        return None
    shape = selected[claim.variable].shape
    estimate, se, skew = (
        selected[name].values.astype(np.float64) if name in selected else np.full(shape, np.nan)
        for name in (claim.variable, f"{claim.variable}_se", f"{claim.variable}_skew")
    )
    without = replicates(tree, claim)
    errors = moderated(
        se,
        skew,
        data["documents"].values.astype(np.float64),
        None if without is None else np.moveaxis(without, 0, -1),
    )
    p = against(estimate, errors, claim.tolerance.value, claim.side)
    if claim.presence is not None:
        absent = selected[claim.presence].values.astype(np.float64)
        p = with_presence(p, absent, np.isfinite(estimate))
    within = p.holds
    if claim.flat is not None:
        p = beyond_flat(p, selected[claim.flat].values.astype(np.float64))
    no_cell = {name: np.full(shape, value) for name, value in NO_CELL.items()}
    return claim, _arrays(estimate, errors, p, within) | no_cell


def _excess(tree: xr.DataTree, claim: Claim, bounds: xr.Dataset) -> Effect:
    """Return how far measured curves exceed their bounds, as an intersection-union test over cells.

    The estimate is that of the deciding cell.
    """
    capture = tree["capture"].to_dataset()
    documents = float(bounds.attrs.get("documents", capture.sizes["document"]))
    result = cells(bounds, capture["tokens"].values, documents, claim.tolerance.value)
    p = intersection_union(result.p)
    estimated: NDArray[np.bool_] = np.asarray(np.isfinite(result.excess).any(axis=-1))
    cell = deciding(result, answers(p, estimated) == FAILS)
    return claim, _arrays(cell.excess, Errors.of_t(cell.se, documents), p) | {
        "cell_bound": cell.bound,
        "cell_n": cell.n,
        "cell_count": cell.cells,
        "cell_p_holds": cell.p.holds,
        "cell_p_fails": cell.p.fails,
    }


def _arrays(
    estimate: FloatArray, errors: Errors, p: PValues, within: FloatArray | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of EFFECT by name; `within` as for `answers`."""
    (lower, upper), adjusted = errors.limits(estimate), p.adjusted()
    return {
        "answer": answers(p, np.isfinite(estimate), within),
        "estimate": estimate,
        "se": errors.se,
        "degrees": errors.degrees,
        "skew": errors.skew,
        "lower": lower,
        "upper": upper,
        "p_holds": p.holds,
        "p_fails": p.fails,
        "p_holds_adjusted": adjusted.holds,
        "p_fails_adjusted": adjusted.fails,
    }


def _by_head(tree: xr.DataTree, unit: Unit, effects: Sequence[Effect]) -> xr.Dataset:
    """Return EFFECT, and CELL if there are claims on bounds, of all claims on one unit."""
    of_unit = [effect for effect in effects if effect[0].of == unit]
    if not of_unit:
        return xr.Dataset()
    records = BY_UNIT[unit]
    if any(claim.bounds for claim, _ in of_unit):
        records += OF_BOUNDS
    rows = [arrays for _, arrays in of_unit]
    numbers = {f"{name}_{unit}": np.stack([row[name] for row in rows]) for name in rows[0]}
    capture = tree["capture"].to_dataset()
    return xr.Dataset(
        variables(records, numbers),
        coords={name: capture[name].variable for name in ("layer", unit)}
        | {f"claim_{unit}": _keys(f"claim_{unit}", of_unit)},
    )


def _keys(dim: str, effects: Sequence[Effect]) -> xr.Variable:
    """Return the keys of the claims as the coordinate of a dim."""
    return words_along(dim, (claim.key for claim, _ in effects), "claim")


def _counts(verdicts: xr.Dataset, unit: str, claim: str) -> dict[str, float]:
    """Return the counts of heads of OVERALL on a claim."""
    selected = verdicts.sel({f"claim_{unit}": claim})
    answer = selected[f"answer_{unit}"].values
    counts: dict[str, float] = {
        name: int((answer == code).sum()) for name, code in ANSWER_CODES.items()
    }
    for name in ("holds", "fails"):
        significant = selected[f"p_{name}_adjusted_{unit}"].values <= FALSE_DISCOVERIES
        counts[f"{name}_adjusted"] = int((significant & (answer != NO_ESTIMATE)).sum())
    return counts | {"tested": answer.size - counts["no_estimate"]}


def _true_shares(
    claim: Claim, arrays: Mapping[str, NDArray[Any]], without: FloatArray | None
) -> dict[str, float]:
    """Return SHARES: of heads whose estimate, and whose true effect, lies within the tolerance."""
    inside = partial(within, tolerance=claim.tolerance.value, side=claim.side)
    estimate, se, shares = arrays["estimate"], arrays["se"], dict.fromkeys(SHARES, float("nan"))
    # A cell beyond the tolerance has p_holds = 1, so the deciding cell is beyond the tolerance if
    # any cell is.
    estimated = np.isfinite(estimate)
    if estimated.any():
        shares["within"] = float(inside(estimate[estimated]).mean())
    if without is not None:
        estimated &= np.isfinite(se) & np.isfinite(without).all(axis=0)
        share = share_of_heads(estimate[estimated], se[estimated], without[:, estimated], inside)
        numbers = (share.value, share.lower, share.upper)
        shares |= dict(zip(SHARES[1:], map(float, numbers), strict=True))
    return shares


def claim_rows(verdicts: xr.Dataset) -> list[dict[str, Any]]:
    """Return the claims of /verdicts, with keys key, says, short, of, side, units, tolerance,
    source and estimate.

    `select`, `second_test` and `flat` are optional; p_holds is at least the p-value of the second
    test. `flat` names that test if it compares with a flat form.
    """
    return list(json.loads(verdicts.attrs["claims"]))


def counted_claims(verdicts: xr.Dataset) -> list[dict[str, Any]]:
    """Return every claim of /verdicts with its counts of heads by answer, and the estimated share
    of heads for which it is true, with its 95% interval.

    If layers see different numbers of tokens, counts are summed over parts, and shares are None.
    """
    rows = []
    for claim in claim_rows(verdicts):
        selected = verdicts.sel(claim=claim["key"])
        row = {name: claim[name] for name in ("key", "says", "of", "side", "tolerance", "units")}
        row |= {name: int(selected.get(name, np.zeros(())).sum()) for name in ANSWER_CODES}
        row |= {name: None if selected[name].ndim else known(selected[name]) for name in SHARES[1:]}
        rows.append(row)
    return rows


def refuse_older(name: str, groups: Mapping[str, Any]) -> None:
    """Refuse a run whose /verdicts contain a withdrawn claim.

    Raises:
        InputError: naming the claim and how to renew the run.
    """
    for row in claim_rows(groups["verdicts"]) if "verdicts" in groups else ():
        refuse_withdrawn(
            f"{name}: its claim {row['key']}", row["key"], "Run `geostat confront` on it again."
        )


def recounted(verdicts: xr.Dataset) -> xr.Dataset:
    """Return /verdicts of a part of a run with its answers counted again.

    Shares for which a claim is true are estimated over all heads, so they become NaN.
    """
    recount = verdicts.copy(deep=True)  # counts are overwritten
    for name in SHARES:
        recount[name] = xr.full_like(recount[name], np.nan)
    for claim in claim_rows(verdicts):
        for name, number in _counts(verdicts, claim["of"], claim["key"]).items():
            if name in recount:  # an older run counts fewer answers
                recount[name].loc[{"claim": claim["key"]}] = number
    return recount
