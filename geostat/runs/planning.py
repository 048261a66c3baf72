"""Plan of a larger run: designs that reach a wanted interval or settle a claim.

Reads the variance components of a run (`geostat.analyses.plan`). Imports pandas and xarray.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from geostat.analyses.kinds_of_text import QUANTITIES, OneWay, kinds_of, rows_of, values_of
from geostat.analyses.plan import Components, arms, components
from geostat.datasets.separability import STATISTICS
from geostat.errors import InputError, refuse_unknown
from geostat.paper import WORKING_SIZE
from geostat.runs.groups import group_of
from geostat.statistics.equivalence import UNDETERMINED
from geostat.topics.claims import CLAIMS, refuse_withdrawn, replicates

PER_KIND: Final = (1, 2, 4)
"""Documents of each kind in planned designs."""
SHARES: Final = (0.25, 0.5, 0.75)
"""Shares of the undetermined heads that a plan decides."""
NAMES: Final = (*QUANTITIES, *STATISTICS)
"""Quantities that can be planned: those of the table of kinds, Precision and Recall."""


class Planned(NamedTuple):
    """A quantity to plan."""

    words: str
    parts: Components
    heads: int
    level: float
    """Mean absolute value over heads; 1 if the values are relative."""


def plan(
    run: xr.DataTree,
    quantity: str | None = None,
    width: float | str | None = None,
    claim: str | None = None,
    *,
    power: float = 0.8,
) -> pd.DataFrame:
    """Return the designs that reach a wanted interval, or that settle a claim.

    Args:
        run: a fitted run; for `claim` a confronted one.
        quantity: C, lam, cv_token, rho0, beta, mae, offset, p_sink, growth, misfit, precision or
            recall (both at the paper's N = 4); None lists all.
        width: wanted half-width of the 95% interval of the median head, in the unit of `quantity`,
            or "10%" of its mean; None shows larger runs only.
        claim: a claim such as "norms.cv", instead of `quantity`: the sizes at which heads that are
            undetermined are decided if their estimates are true.
        power: probability with which such a head is decided.

    Returns:
        With a quantity, a row per design: kinds of text, documents in all, queries of a document,
        standard error and half-width with its 95% interval, tokens. With a claim, a row per share
        of the undetermined heads: kinds of one document each, their documents, and the documents
        of the run's own kinds (`same_kinds`). Otherwise a row per quantity: half-width, share of
        the variance over documents between kinds, and the error of larger runs over the run's.
        Missing or infinite: no number reaches it, or each kind has one document, which does not
        show how much documents of a kind differ.

    Raises:
        InputError: for an unknown name or a bad number, a run without fits or verdicts, or one with
            a single document.

    >>> import geostat as gs
    >>> gs.plan(gs.open("report"), "rho0", "10%")["design"].tolist()
    ['this run', 'twice the documents', 'needed']
    """
    documents = group_of(run, "capture").sizes["document"]
    if documents < 2:
        raise InputError(
            "the run has one document, expected at least 2, which show how much documents differ."
            " Measure more with --documents."
        )
    if claim is not None:
        if quantity is not None or width is not None:
            raise InputError(
                f"--claim {claim}: was given with --quantity or --width, expected one of them."
                " Drop the other."
            )
        return _of_claim(run, claim, power)
    if quantity is not None:
        refuse_unknown(quantity, NAMES, f"--quantity {quantity}:", verb="Name")
        if (chosen := _planned(run, quantity)) is None:
            raise InputError(
                f"--quantity {quantity}: has no values by document in this run, expected one of"
                f" {', '.join(name for name in NAMES if _planned(run, name))}. Name one of those."
            )
        return _designs(run, chosen, width)
    if width is not None:
        raise InputError(
            f"--width {width}: was given without a quantity, expected one of {', '.join(NAMES)}."
            " Name it with --quantity."
        )
    every = {name: chosen for name in NAMES if (chosen := _planned(run, name)) is not None}
    return pd.DataFrame([_ratios(name, chosen) for name, chosen in every.items()])


def as_json(frame: pd.DataFrame, seconds: float | None) -> dict[str, Any]:
    """Return a plan in plain types, with measuring time at `seconds` a document if known."""
    if seconds is not None and "documents" in frame:
        frame = frame.assign(seconds=(frame["documents"] * seconds).round())
    rows = [
        {name: None if _missing(value) else _plain(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    return {str(name): value for name, value in frame.attrs.items()} | {"plan": rows}


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _plain(value: Any) -> Any:
    """Return whole numbers as integers, other numbers with three significant digits."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else float(f"{value:.3g}")


def _sample(run: xr.DataTree) -> tuple[np.ndarray, int]:
    """Return the index of the kind of each document, and the analysed queries of a document."""
    names = kinds_of(run) or [""] * run["capture"].sizes["document"]
    queries = run["queries"].sizes["query"] if "queries" in run.children else 1
    return np.unique(names, return_inverse=True)[1], queries


def _planned(run: xr.DataTree, name: str) -> Planned | None:
    """Return a quantity of a run; None if the run has no values of it."""
    kinds, queries = _sample(run)
    square = None
    if name in STATISTICS:
        source = run["queries" if queries > 1 else "capture"].to_dataset()
        source = source.sel(n=WORKING_SIZE, method="nearest")
        by_document, relative = source[name], False
        words = f"{name.capitalize()} at N = {int(source['n'])}"
        values = _rows(by_document)
        if queries > 1:
            square = source[f"{name}_by_query"].var("query", ddof=1)
    else:
        analysed = QUANTITIES[name]
        group_of(run, analysed.variable.partition("/")[0])
        words, relative = re.sub(r",? \$[^$]*\$", "", analysed.words), analysed.relative
        values = values_of(run, analysed)
        if name == "p_sink" and queries > 1:
            square = run["queries"].to_dataset()["sink_weight_sd"] ** 2
    rows, heads = rows_of(values)
    if not rows.any():
        return None
    variances = values.var(axis=1)[np.isfinite(values).all(axis=1)]
    typical = float(np.median(variances) / variances.mean())
    by_query = np.zeros(len(kinds)) if square is None else np.nanmean(_rows(square), axis=0)
    parts = components(OneWay(rows * np.sqrt(typical), kinds), by_query * typical, queries)
    level = 1.0 if relative else float(np.nanmean(np.abs(values.mean(axis=1))))
    return Planned(words, parts, heads, level)


def _rows(values: xr.DataArray) -> np.ndarray:
    """Return values by head and document, (head, document)."""
    documents = values.sizes["document"]
    return values.transpose(..., "document").values.astype(float).reshape(-1, documents)


def _ratios(name: str, chosen: Planned) -> dict[str, Any]:
    """Return a row of the overview: the half-width, and what larger runs make of the error."""
    parts = chosen.parts
    kinds, documents = parts.documents / parts.sizes, parts.documents
    error = float(parts.of_run().value)

    def change(*design: float) -> float:
        return float(parts.error(*design).value) / error

    total = (
        parts.between_kinds[0]
        + parts.between_documents[0]
        + (parts.between_queries[0] / parts.queries)
    )
    return {
        "quantity": name,
        "half_width": error * float(arms(parts.sampled(parts.kinds, documents))),
        "between_kinds": math.nan if parts.confounded else float(parts.between_kinds[0] / total),
        "error_twice_documents": math.nan
        if parts.confounded
        else change(kinds, 2 * documents, parts.queries),
        "error_twice_kinds": change(2 * kinds, 2 * documents, parts.queries),
        "error_twice_queries": change(kinds, documents, 2 * parts.queries),
    }


def _designs(run: xr.DataTree, chosen: Planned, width: float | str | None) -> pd.DataFrame:
    """Return the run, larger runs, and those that reach a half-width."""
    parts, positions = chosen.parts, run["capture"].sizes["position"]
    kinds, documents, queries = parts.kinds, parts.documents, parts.queries
    several = kinds > 1

    def row(name: str, kinds: float, documents: float, queries: int) -> dict[str, Any]:
        result = {"design": name, "kinds": kinds, "documents": documents, "queries": queries}
        if not math.isfinite(documents):
            return result
        scale = 1 if name.startswith("needed") else parts.documents / (parts.sizes * parts.kinds)
        error = parts.error(kinds * scale, documents, queries)
        arm = float(arms(parts.sampled(int(kinds), int(documents))))
        return result | {
            "error": float(error.value),
            "half_width": arm * float(error.value),
            "half_width_lower": arm * float(error.lower),
            "half_width_upper": arm * float(error.upper),
            "tokens": documents * positions,
        }

    rows = [row("this run", kinds, documents, queries)]
    if not parts.confounded:
        rows.append(row("twice the documents", kinds, 2 * documents, queries))
    if several:
        rows.append(row("twice the kinds", 2 * kinds, 2 * documents, queries))
    if parts.between_queries[0]:
        rows.append(row("twice the queries", kinds, documents, 2 * queries))
    attrs = {
        "quantity": f"{chosen.words}, {chosen.heads} heads",
        "variance": _shares(parts),
    }
    if width is not None:
        wanted = _width(width, chosen.level)
        attrs["wanted"] = f"half-width {wanted:.3g}"
        for each in PER_KIND if several and not parts.confounded else PER_KIND[:1]:
            needed = float(parts.fewest(wanted, each, queries))
            of = f", {each} a kind" if several else ""
            rows.append(row(f"needed{of}", *_split(several, needed, each), queries))
        if several and not parts.confounded:
            more = float(parts.more_documents(wanted, queries))
            rows.append(row(f"needed, {kinds} kinds", kinds, more * kinds, queries))
    frame = pd.DataFrame(rows)
    frame.attrs.update(attrs)
    return frame


def _split(several: bool, needed: float, each: int) -> tuple[float, float]:
    """Return kinds and documents of `needed` sampled units."""
    return (needed, needed * each) if several else (1, needed)


def _shares(parts: Components) -> str:
    """Return the shares of the variance of a single query, by level, as text."""
    levels = {
        "documents, each of its own kind" if parts.confounded else "kinds of text": (
            parts.between_kinds[0]
        ),
        "documents of a kind": parts.between_documents[0],
        "queries of a document": parts.between_queries[0],
    }
    total = sum(levels.values())
    known = {name: share / total for name, share in levels.items() if share}
    return ", ".join(f"{share:.0%} between {name}" for name, share in known.items())


def _width(width: float | str, level: float) -> float:
    """Return a half-width, of which "10%" is a share of `level`; an InputError if it is none."""
    text = str(width).strip()
    try:
        value = float(text.removesuffix("%")) * (level / 100 if text.endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(
            f"--width {width}: expected a number above 0, or a percentage such as 10%. Give one."
        )
    return value


def _of_claim(run: xr.DataTree, key: str, power: float) -> pd.DataFrame:
    """Return the sizes at which shares of the undetermined heads of a claim are decided."""
    if not 0.5 <= power < 1:
        raise InputError(f"--power {power}: expected 0.5 or more and less than 1. Use 0.8.")
    refuse_withdrawn(f"--claim {key}", key)
    claims = {claim.key: claim for claim in CLAIMS if not claim.bounds and claim.presence is None}
    refuse_unknown(key, claims, f"--claim {key}:", verb="Name")
    claim, verdicts = claims[key], group_of(run, "verdicts")
    without = replicates(run, claim)
    if without is None or key not in verdicts[f"claim_{claim.of}"].values:
        raise InputError(
            f"--claim {key}: the run has no verdict on it by document, expected one. Run `geostat"
            " fit` and `geostat confront` on it again."
        )
    selected = verdicts.sel({f"claim_{claim.of}": key, "claim": key})
    estimate, se, answer = (
        selected[f"{name}_{claim.of}"].values.ravel() for name in ("estimate", "se", "answer")
    )
    kinds, queries = _sample(run)
    documents = len(kinds)
    left_out = without.reshape(documents, -1)
    undetermined = (answer == UNDETERMINED) & (se > 0) & np.isfinite(left_out).all(axis=0)
    effect, error = estimate[undetermined], se[undetermined]
    rows = rows_of((documents * effect - (documents - 1) * left_out[:, undetermined]).T)[0]
    frame = pd.DataFrame(
        {"share": SHARES, "kinds": np.nan, "documents": np.nan, "same_kinds": np.nan}
    )
    frame.attrs["claim"] = f"{claim.says}: {len(effect)} of {answer.size} heads undetermined"
    if not rows.any():
        return frame
    parts = components(OneWay(rows, kinds), np.zeros(documents), queries)
    distance = np.abs(
        (np.abs(effect) if claim.side == "within" else effect) - selected["tolerance"].item()
    )
    width = distance / error * np.sqrt(parts.mean_square / documents)
    units = parts.fewest(width, 1, queries, power)
    more = parts.more_documents(width, queries, power) * parts.kinds if parts.kinds > 1 else units
    if parts.confounded:
        more = np.full_like(more, np.nan)
    for name, needed in (("kinds", units), ("documents", units), ("same_kinds", more)):
        frame[name] = np.quantile(needed, SHARES, method="inverted_cdf")
    if parts.kinds == 1:
        frame["kinds"] = 1
    frame.attrs.update({"variance": _shares(parts), "power": power})
    return frame
