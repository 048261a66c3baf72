"""One number for a whole run, with what it would be without each document: what runs are compared
by.

A run's heads are all the heads of its model, not a sample; its documents are the sample. So a
number is a mean over heads, its standard error a jackknife over documents, and that of a difference
between two runs a jackknife that leaves a document out of both where both hold it. Source of the
quantities: arXiv 2602.01893, Assumptions 1-2, §4, §4.1, Theorems 1-2. Imports numpy, xarray and
theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final, cast

import numpy as np
import xarray as xr

from geostat.bounds.by_document import bounds_of_layer, fitted_heads, measured_curves
from geostat.bounds.head import document_weights
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.separability import BOUNDS, LETTERS, STATISTICS
from geostat.experiments.moments import Moments, Table, shares_of
from geostat.experiments.sink import fisher, without_noise
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.similarity.forms import FORMS
from geostat.paper import CORRELATION_SIZES, WORKING_SIZE
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from geostat.statistics.t_test import critical_value
from theory.head.results import Edition

KINDS: Final = {"correlation": "as measured", "unattenuated": "free of the documents' noise"}
FEW_DOCUMENTS: Final = "documents"
"""Of a quantity that averaging over more documents changes: it is not that of one document, nor
that of ever more.
"""
CELL: Final = ("layer", "head", "n_envelope")
Share = tuple[float, FloatArray, int]
"""The share within, the same without each document (NaN where it was not asked for), and how
many heads it is of.
"""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What runs are compared by; `minds` names the settings, beside those of the text, that must
    be equal for a difference to be the models'.
    """

    key: str
    long_name: str
    symbol: str
    equation: str
    over: str
    minds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A run's estimate, without each document in turn (document,), over how many heads it is
    averaged, and its 95% interval.
    """

    estimate: float
    without: FloatArray
    heads: int
    correlation: bool = False
    at: float = float("nan")
    """The N at which it was found, of a largest value."""

    def jackknifed(self) -> Estimate:
        """95% jackknife-t; a correlation's on Fisher's z."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (fisher if self.correlation else jackknife)(
                np.asarray(self.estimate), self.without
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Estimate of one run minus another's, its standard error, limits, and degrees of freedom;
    NaN where not known.
    """

    value: float = float("nan")
    se: float = float("nan")
    lower: float = float("nan")
    upper: float = float("nan")
    degrees: float = float("nan")


def quantities(pairs: Sequence[tuple[str, str]]) -> list[Quantity]:
    """Every quantity, in the order of the report; those of bounds for each (edition, Gram)."""
    value_heads, few = "value heads", (FEW_DOCUMENTS,)
    out = [
        Quantity(
            "cv_token",
            "CV of value norms within a document",
            r"\mathrm{CV}_{\mathrm{token}}",
            "Assumption 1.1",
            value_heads,
        ),
        Quantity(
            "cv_profile",
            "CV of value norms averaged over documents",
            r"\mathrm{CV}_{\mathrm{profile}}",
            "Fig. 2",
            value_heads,
            few,
        ),
        Quantity(
            "lam",
            "norm of the sink's value over the others'",
            r"\lambda",
            "Assumption 1.2",
            value_heads,
        ),
    ]
    for form in FORMS:
        words = f"misfit (MAE) of mean cosines, {form.replace('_', ' ')} form"
        out.append(
            Quantity(f"mae_{form}", words, r"\mathrm{MAE}", "§3.2, Fig. 3", value_heads, few)
        )
    for name in STATISTICS:
        words = f"mean {name.capitalize()} at N = {WORKING_SIZE}"
        out.append(
            Quantity(
                f"{name}_at_{WORKING_SIZE}",
                words,
                LETTERS[name],
                "Fig. 5",
                "heads",
                ("convention",),
            )
        )
    for kind, words in KINDS.items():
        minds = ("convention", *(few if kind == "correlation" else ()))
        of_heads = (r"\mathrm{corr}(R,\rho_0)", "§4.1, Fig. 6", "heads")
        label = f"correlation of Recall with the sink's similarity, {words}"
        out.append(Quantity(f"{kind}_peak", f"largest {label}", *of_heads, (*minds, "sizes")))
        out += [
            Quantity(f"{kind}_at_{n}", f"{label}, at N = {n}", *of_heads, minds)
            for n in CORRELATION_SIZES
        ]
    theorems, minds = (
        {"precision": "Theorem 1", "recall": "Theorem 2"},
        (
            "convention",
            FEW_DOCUMENTS,
            "bound_sizes",
        ),
    )
    for (edition, gram), name in product(pairs, STATISTICS):
        words = f"{name.capitalize()} within its bounds, {edition}, {gram} Gram"
        out.append(
            Quantity(
                f"{name}_inside_{edition}_{gram}",
                words,
                r"\mathrm{share}",
                theorems[name],
                "heads",
                minds,
            )
        )
    return out


def scalars(
    groups: Mapping[str, xr.Dataset],
    *,
    coverage_errors: bool = True,
    progress: Progress | None = None,
) -> dict[str, Scalar]:
    """Every quantity of one run, by key.

    `groups` holds /capture, /norms, /similarity and /envelope, of fitted Grams. Fits and bounds are
    taken from there; only what leaves a document out is made anew, with `coverage_errors` for
    coverage too, which takes as long as to confront the run and is told to `progress`.
    """
    capture, norms, similarity = (groups[name] for name in ("capture", "norms", "similarity"))
    forms = [form for form in FORMS if form in similarity["gram"].values]
    # Runs of an earlier version hold no replicates: those are fitted again.
    norms = norms if "lam_without" in norms else fit_norms(capture)
    similarity = similarity if "mae_by_lag_without" in similarity else fit_similarity(capture)
    out = {name: _fitted(name, norms) for name in ("cv_profile", "lam", "cv_token")}
    out |= {f"mae_{form}": _fitted("mae_by_lag", similarity.sel(gram=form)) for form in forms}
    for (statistic, edition, gram), (share, without, heads) in shares_inside(
        groups, errors=coverage_errors, progress=progress
    ).items():
        out[f"{statistic}_inside_{edition}_{gram}"] = Scalar(
            estimate=share, without=without, heads=heads
        )
    return out | _separability(capture) | _correlations(capture)


def _over_heads(estimate: FloatArray, without: FloatArray) -> Scalar:
    """Mean over the heads that have an estimate with all documents and without each; shapes
    (head,) and (document, head).
    """
    known = np.isfinite(estimate) & (np.isfinite(without).all(axis=0) if len(without) > 1 else True)
    if not known.any():
        return Scalar(estimate=float("nan"), without=np.full(len(without), np.nan), heads=0)
    return Scalar(
        estimate=float(estimate[known].mean()),
        without=without[:, known].mean(axis=1),
        heads=int(known.sum()),
    )


def _fitted(name: str, fits: xr.Dataset) -> Scalar:
    """Mean over value heads of a fitted number, from its replicates; dims (layer, kv_head)."""
    value = fits[name].transpose("layer", "kv_head").values.ravel()
    without = fits[f"{name}_without"].transpose("document", "layer", "kv_head").values
    return _over_heads(value, without.reshape(len(without), -1))


def _separability(capture: xr.Dataset) -> dict[str, Scalar]:
    """Mean P and R at one N: heads averaged within a document, then documents."""
    out = {}
    for name in STATISTICS if WORKING_SIZE in capture["n"].values else ():
        values = (
            capture[name]
            .sel(n=WORKING_SIZE)
            .transpose("document", "layer", "head")
            .values.astype(np.float64)
        )
        flat = values.reshape(len(values), -1)
        out[f"{name}_at_{WORKING_SIZE}"] = _over_heads(flat.mean(axis=0), leave_one_out_mean(flat))
    return out


def _correlations(capture: xr.Dataset) -> dict[str, Scalar]:
    table = Table.of(capture)
    moments = Moments.of(table.similarity, table.recall) if table.heads else None
    if moments is None:
        return {}
    documents, n = table.similarity.shape[0], capture["n"].values
    whole, without = shares_of(documents)
    inside = (n > 1) & (n < capture.sizes["position"])
    scalar = partial(Scalar, heads=table.heads, correlation=True)
    out = {}
    for kind in KINDS:
        apart = kind == "unattenuated"
        curve, others = (moments.correlation(shares, apart=apart)[0] for shares in (whole, without))
        curve = curve[0] if documents > 1 or not apart else np.full(n.size, np.nan)
        others = others if documents > 1 else np.full((1, n.size), np.nan)
        if apart:
            curve = np.where(without_noise(curve, others), curve, np.nan)
        for at in np.flatnonzero(np.isin(n, CORRELATION_SIZES) & inside):
            out[f"{kind}_at_{n[at]}"] = scalar(estimate=float(curve[at]), without=others[:, at])
        if np.isfinite(curve[inside]).any():
            peak = int(np.where(inside & np.isfinite(curve), curve, -np.inf).argmax())
            among = np.where(inside & np.isfinite(others), others, -np.inf).max(axis=1)
            without_each = np.where(np.isfinite(among), among, np.nan)
            out[f"{kind}_peak"] = scalar(
                estimate=float(curve[peak]), without=without_each, at=float(n[peak])
            )
    return out


def shares_inside(
    groups: Mapping[str, xr.Dataset], *, errors: bool = True, progress: Progress | None = None
) -> dict[tuple[str, str, str], Share]:
    """Return the share of (head, 1 < N < T) cells within bounds, by statistic, edition and Gram,
    with and without each document: curves and bounds both.

    A bound is a mean over documents, each at its own weights, so a document moves a head's curve
    and its bounds together, and the share less or more than either alone. Bounds are evaluated
    again by document, at the run's fits.

    `groups` holds /capture, /norms, /similarity and /envelope, of fitted Grams. `errors`: evaluate
    bounds by document too, which takes as long as to confront the run; `progress` is told the share
    of it done.
    """
    capture, envelope = groups["capture"], groups["envelope"]
    grid, tokens = envelope["n_envelope"].values, capture["tokens"].values
    between = ((grid > 1) & (grid < tokens[:, None]))[:, None, :]
    curves = measured_curves(capture, grid)
    pairs = [
        (cast(Edition, str(edition)), str(gram))
        for edition in envelope["edition"].values
        for gram in envelope["gram"].values
    ]
    out: dict[tuple[str, str, str], Share] = {}
    for edition, gram in tracked(pairs, progress):
        at = envelope.sel(edition=edition, gram=gram)
        by_document = (
            _evaluated(groups, edition, gram, grid)
            if errors and capture.sizes["document"] > 1
            else None
        )
        for statistic in STATISTICS:
            low, high = (
                at[f"{statistic}_{side}"].transpose(*CELL).values for side in ("lower", "upper")
            )
            mean = envelope[statistic].transpose(*CELL).values
            counted = between & np.isfinite(low) & np.isfinite(high) & np.isfinite(mean)
            if not counted.any():
                continue
            without = np.full(capture.sizes["document"], np.nan)
            if by_document is not None:
                left = leave_one_out_mean(curves[statistic].transpose("document", *CELL).values)
                lower, upper = (
                    leave_one_out_mean(by_document[f"{statistic}_{side}"])
                    for side in ("lower", "upper")
                )
                without = np.array(
                    [_inside(*row, counted) for row in zip(left, lower, upper, strict=True)]
                )
            out[statistic, edition, gram] = (
                _inside(mean, low, high, counted),
                without,
                int(counted.any(axis=-1).sum()),
            )
    return out


def _inside(curve: FloatArray, low: FloatArray, high: FloatArray, counted: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        outside = (curve < low) | (curve > high)
    return float(1 - (outside & counted).sum() / counted.sum())


def _evaluated(
    groups: Mapping[str, xr.Dataset], edition: Edition, gram: str, grid: np.ndarray
) -> dict[str, FloatArray]:
    """Bounds of every document, (document, layer, head, n)."""
    capture, norms, similarity = (groups[name] for name in ("capture", "norms", "similarity"))
    bounds = np.full(
        (len(BOUNDS), *(capture.sizes[dim] for dim in ("document", "layer", "head")), grid.size),
        np.nan,
    )
    for layer, _, heads, model in fitted_heads(capture, norms, similarity, gram):
        weights = document_weights(capture, layer, heads)
        bounds[:, :, layer, heads] = bounds_of_layer(
            capture, layer, weights, model.norms, model.gram, grid, edition=edition, names=BOUNDS
        )
    return dict(zip(BOUNDS, bounds, strict=True))


def difference(
    first: Scalar, second: Scalar, documents: tuple[Sequence[str], Sequence[str]]
) -> Difference:
    """Subtract the second run's number from the first's, with a jackknife that leaves a shared
    document out of both.

    With u_k = √((K−1)/K) (θ₍ₖ₎ − θ̄) of each run, and 0 for a document it does not hold, se² =
    Σ_k (u_k of the first − u_k of the second)². If all documents are shared this is the jackknife
    of the difference; if none is, se² is the sum of both squares (unpaired).

    `documents` tells those of each run apart. t on K−1 degrees of freedom where all documents are
    shared, Welch and Satterthwaite's where none is, the smaller K−1 in between.

    >>> one = Scalar(estimate=1.0, without=np.array([0.9, 1.1]), heads=3)
    >>> difference(one, one, (("x", "y"), ("x", "y"))).se  # the same documents
    0.0
    """
    value, counts = first.estimate - second.estimate, [len(names) for names in documents]
    moved: dict[str, float] = dict.fromkeys([*documents[0], *documents[1]], 0.0)
    squares = []
    for sign, one, names in zip((1.0, -1.0), (first, second), documents, strict=True):
        shift = np.sqrt(1 - 1 / len(names)) * (one.without - one.without.mean())
        squares.append(float((shift**2).sum()))
        for name, part in zip(names, shift, strict=True):
            moved[name] += sign * float(part)
    se = (
        float(np.sqrt(sum(part**2 for part in moved.values()))) if min(counts) > 1 else float("nan")
    )
    if not np.isfinite(se) or not np.isfinite(value):
        return Difference(value=value)
    degrees = float(min(counts) - 1)
    if not set(documents[0]) & set(documents[1]) and sum(squares) > 0:
        degrees = sum(squares) ** 2 / sum(
            part**2 / (count - 1) for part, count in zip(squares, counts, strict=True)
        )
    half = float(critical_value(degrees)) * se
    return Difference(value=value, se=se, lower=value - half, upper=value + half, degrees=degrees)
