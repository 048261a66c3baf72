"""Quantities by which runs are compared, and their estimates for one run.

An estimate is a mean over heads, with leave-one-document-out replicates. The heads of a run are all
heads of the model, and its documents are the sample: standard errors come from a jackknife over
documents. Unit, symbol and equation of a quantity are those of its record in the group that holds
it. Source: arXiv 2602.01893, Assumptions 1-2, §4, §4.1, Theorems 1-2; arXiv 2609.37879 for
effective set sizes. Imports numpy, xarray and theory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Final, cast

import numpy as np
import xarray as xr

from empirical.schema import SEPARABILITY, Quantity
from geostat.analyses.effective_size import crossing, curve_of, next_size
from geostat.analyses.sink import COEFFICIENTS, Table, correctable, correlations, fisher
from geostat.bounds.by_document import bounds_of_layer, fitted_heads, measured_curves
from geostat.bounds.head import Groups, document_weights
from geostat.bounds.overall import VARIABLES as SUMMARY
from geostat.comparison.runs import RUN_LETTERS, ReducedRun, bounds_of
from geostat.datasets.overlap import Progress, tracked
from geostat.datasets.separability import BOUNDS, STATISTICS, over_queries
from geostat.datasets.tokens import most_tokens
from geostat.experiments.effective.dataset import VARIABLES as EFFECTIVE_SIZES
from geostat.experiments.effective.dataset import cells_of
from geostat.fits.norms.fit import HEADS as NORMS
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import BY_FORM, fit_similarity
from geostat.fits.similarity.forms import FORMS
from geostat.paper import CORRELATION_SIZES, EFFECTIVE, WORKING_SIZE
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
from theory.head.results import Edition

KINDS: Final = {"correlation": "as measured", "unattenuated": "corrected for document noise"}
MODES: Final = {mode: f"n_star_{mode}" for mode in ("deletion", "renormalisation")}
"""Quantity of the effective set size N* by mode."""
RECORDS: Final = SEPARABILITY | {
    record.name: record for record in (*NORMS, *BY_FORM, *COEFFICIENTS, *SUMMARY, *EFFECTIVE_SIZES)
}
"""The tables of quantities that hold what is compared."""


def quantities(pairs: Sequence[tuple[str, str]]) -> Iterator[Quantity]:
    """Yield the compared quantities in the order of the report, without N*.

    For bounds there is one quantity for each (edition, Gram) of `pairs`. Means of documents depend
    on the number of documents.
    """
    kv_heads, heads = "KV heads", "heads"
    yield _compared("cv_token", "cv_token", "CV of value norms within a document", kv_heads)
    averaged = "CV of value norms averaged over documents"
    yield _compared("cv_profile", "cv_profile", averaged, kv_heads, "documents")
    yield _compared("lam", "lam", "norm of the sink's value over that of other tokens", kv_heads)
    for form in FORMS:
        words = f"misfit (MAE) of mean cosines, {form.replace('_', ' ')} form"
        yield _compared(f"mae_{form}", "mae_by_lag", words, kv_heads, "documents")
    for name in STATISTICS:
        words = f"mean {name.capitalize()} at N = {WORKING_SIZE}"
        yield _compared(f"{name}_at_{WORKING_SIZE}", name, words, heads, "convention")
    for kind, description in KINDS.items():
        words = f"correlation of Recall with the sink's similarity, {description}"
        settings = "convention documents" if kind == "correlation" else "convention"
        yield _compared(f"{kind}_peak", kind, f"largest {words}", heads, f"{settings} sizes")
        for n in CORRELATION_SIZES:
            yield _compared(f"{kind}_at_{n}", kind, f"{words}, at N = {n}", heads, settings)
    for (edition, gram), name in product(pairs, STATISTICS):
        words = f"{name.capitalize()} within its bounds, {edition}, {gram} Gram"
        settings = "convention documents bound_sizes"
        key = f"{name}_inside"
        yield _compared(f"{key}_{edition}_{gram}", key, words, heads, settings)


def token_needs() -> list[Quantity]:
    """Return the quantity N* for each mode, at the relative loss τ that the authors report."""
    words = f"effective attention set size N* at {EFFECTIVE['tau']:.0%}"
    return [
        _compared(name, "n_star", f"{words}, {mode}, not rounded up", "all heads at once")
        for mode, name in MODES.items()
    ]


def _compared(
    name: str, record: str, long_name: str, over: str, requires_equal: str = ""
) -> Quantity:
    """Return a compared quantity, with unit, symbol and equation of its record.

    `over` names the heads that are averaged. A difference is due to the models only if the settings
    in `requires_equal` and `OF_EVERYTHING` are equal.
    """
    more = {"over": over, "requires_equal": tuple(requires_equal.split())}
    return replace(RECORDS[record], name=name, long_name=long_name, dims=(), more=more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """Estimate of one run, its leave-one-document-out replicates (document,), number of heads."""

    estimate: float
    without: FloatArray
    heads: int
    correlation: bool = False
    at_n: float = float("nan")
    """Size N of a largest value."""

    def jackknifed(self) -> Estimate:
        """Return the jackknife-t estimate with a 95% interval; correlations use Fisher's z."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (fisher if self.correlation else jackknife)(
                np.asarray(self.estimate), self.without
            )


NO_SCALAR: Final = Scalar(estimate=float("nan"), without=np.full(2, np.nan), heads=0)
"""Estimate of a run without the quantity."""


def scalars(
    groups: Mapping[str, xr.Dataset],
    *,
    coverage_errors: bool = True,
    progress: Progress | None = None,
) -> dict[str, Scalar]:
    """Return every quantity of one run, by key.

    Fits and bounds are read from `groups`; only leave-one-document-out replicates are computed.

    Args:
        groups: /capture, /norms, /similarity and /envelope of fitted Grams; /queries if several
            queries were analysed; /effective if it was measured.
        coverage_errors: whether to compute replicates of coverage, which takes as long as
            confronting the run.
        progress: receives the completed share of that computation.
    """
    capture, norms, similarity = (groups[name] for name in ("capture", "norms", "similarity"))
    forms = [form for form in FORMS if form in similarity["gram"].values]
    # Runs of older versions store no replicates and are fitted again.
    norms = norms if "lam_without" in norms else fit_norms(capture)
    similarity = similarity if "mae_by_lag_without" in similarity else fit_similarity(capture)
    result = {name: _fitted(name, norms) for name in ("cv_profile", "lam", "cv_token")}
    result |= {f"mae_{form}": _fitted("mae_by_lag", similarity.sel(gram=form)) for form in forms}
    result |= shares_inside(groups, errors=coverage_errors, progress=progress)
    if "effective" in groups:
        heads = capture.sizes["layer"] * capture.sizes["head"]
        result |= token_need_scalars(groups["effective"], heads)
    capture = over_queries(groups)
    return result | _separability(capture) | _correlations(capture)


def _over_heads(estimate: FloatArray, without: FloatArray) -> Scalar:
    """Average heads whose estimate and replicates are finite; shapes (head,), (document, head)."""
    known = np.isfinite(estimate) & (np.isfinite(without).all(axis=0) if len(without) > 1 else True)
    if not known.any():
        return Scalar(estimate=float("nan"), without=np.full(len(without), np.nan), heads=0)
    return Scalar(
        estimate=float(estimate[known].mean()),
        without=without[:, known].mean(axis=1),
        heads=int(known.sum()),
    )


def _fitted(name: str, fits: xr.Dataset) -> Scalar:
    """Average a fitted number and its replicates over KV heads; dims (layer, kv_head)."""
    value = fits[name].transpose("layer", "kv_head").values.ravel()
    without = fits[f"{name}_without"].transpose("document", "layer", "kv_head").values
    return _over_heads(value, without.reshape(len(without), -1))


def _separability(capture: xr.Dataset) -> dict[str, Scalar]:
    """Return mean P and R at one N, averaged over heads and then over documents."""
    result = {}
    for name in STATISTICS if WORKING_SIZE in capture["n"].values else ():
        values = (
            capture[name]
            .sel(n=WORKING_SIZE)
            .transpose("document", "layer", "head")
            .values.astype(np.float64)
        )
        flat = values.reshape(len(values), -1)
        replicates = leave_one_out_mean(flat)
        result[f"{name}_at_{WORKING_SIZE}"] = _over_heads(flat.mean(axis=0), replicates)
    return result


def _correlations(capture: xr.Dataset) -> dict[str, Scalar]:
    """Return correlations over heads of Recall at N with the sink's similarity, for each kind.

    They are taken at CORRELATION_SIZES, and at the N of the largest correlation; empty if too few
    heads have both values.
    """
    table = Table.of(capture)
    documents, n = table.similarity.shape[0], capture["n"].values
    by_kind = correlations(table)
    if by_kind is None:
        return {}
    inside = (n > 1) & (n < most_tokens(capture))
    scalar = partial(Scalar, heads=table.heads, correlation=True)
    result = {}
    for kind, rows in zip(KINDS, by_kind, strict=True):
        curve, replicates = rows[0], rows[1:]
        replicates = replicates if documents > 1 else np.full((1, n.size), np.nan)
        if kind == "unattenuated":
            curve = np.where(correctable(curve, replicates), curve, np.nan)
        for index in np.flatnonzero(np.isin(n, CORRELATION_SIZES) & inside):
            result[f"{kind}_at_{n[index]}"] = scalar(
                estimate=float(curve[index]), without=replicates[:, index]
            )
        if np.isfinite(curve[inside]).any():
            peak = int(np.where(inside & np.isfinite(curve), curve, -np.inf).argmax())
            peaks = np.where(inside & np.isfinite(replicates), replicates, -np.inf).max(axis=1)
            peaks = np.where(np.isfinite(peaks), peaks, np.nan)
            result[f"{kind}_peak"] = scalar(
                estimate=float(curve[peak]), without=peaks, at_n=float(n[peak])
            )
    return result


CELL: Final = ("layer", "head", "n_envelope")


def shares_inside(
    groups: Groups, *, errors: bool = True, progress: Progress | None = None
) -> dict[str, Scalar]:
    """Return the share of cells (head, N) within their bounds, by key.

    Cells have 1 < N < T. A bound is a mean over documents, each at its weights; a replicate
    therefore leaves a document out of both the curve and the bound. Replicates evaluate the bounds
    of each document at the run's fits.

    Args:
        groups: /capture, /norms, /similarity and /envelope of fitted Grams.
        errors: whether to compute replicates, which takes as long as confronting the run; without
            them they are NaN.
        progress: receives the completed share.
    """
    capture, envelope = groups["capture"], groups["envelope"]
    grid, tokens = envelope["n_envelope"].values, capture["tokens"].values
    between = ((grid > 1) & (grid < tokens[:, None]))[:, None, :]
    curves, documents = measured_curves(capture, grid), capture.sizes["document"]
    shares = {}
    for edition, gram in tracked(bounds_of(groups), progress):
        selected = envelope.sel(edition=edition, gram=gram)
        by_document = (
            _bounds_by_document(groups, edition, gram, grid) if errors and documents > 1 else None
        )
        for statistic in STATISTICS:
            names = (statistic, f"{statistic}_lower", f"{statistic}_upper")
            mean, low, high = (selected[name].transpose(*CELL).values for name in names)
            counted = between & np.isfinite(low) & np.isfinite(high) & np.isfinite(mean)
            if not counted.any():
                continue
            without = np.full(documents, np.nan)
            if by_document is not None:
                curve = curves[statistic].transpose("document", *CELL).values
                by_name = (curve, *(by_document[name] for name in names[1:]))
                without = _inside(counted, *map(leave_one_out_mean, by_name))
            shares[f"{statistic}_inside_{edition}_{gram}"] = Scalar(
                estimate=float(_inside(counted, mean, low, high)),
                without=without,
                heads=int(counted.any(axis=-1).sum()),
            )
    return shares


def _inside(
    counted: np.ndarray, curve: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return the share of counted cells inside their bounds, (..., layer, head, n) → (...)."""
    with np.errstate(invalid="ignore"):
        outside = ((curve < low) | (curve > high)) & counted
    return np.asarray(1 - outside.sum(axis=(-3, -2, -1)) / counted.sum())


def _bounds_by_document(
    groups: Groups, edition: str, gram: str, grid: np.ndarray
) -> dict[str, FloatArray]:
    """Return the bounds of every document by name, (document, layer, head, n)."""
    capture = groups["capture"]
    sizes = (capture.sizes[dim] for dim in ("document", "layer", "head"))
    bounds = np.full((len(BOUNDS), *sizes, grid.size), np.nan)
    for layer, _, heads, model in fitted_heads(groups, gram):
        given = (document_weights(capture, layer, heads), model.norms, model.gram, grid)
        (bounds[:, :, layer, heads],) = bounds_of_layer(
            capture, layer, *given, editions=[cast(Edition, edition)], names=BOUNDS
        )
    return dict(zip(BOUNDS, bounds, strict=True))


def token_need_scalars(effective: xr.Dataset, heads: int) -> dict[str, Scalar]:
    """Return N* of a run whose heads all select by weight, by key; omitted if not determined."""
    losses, _ = cells_of(effective)
    result = {}
    for mode, key in MODES.items():
        loss_by_n = curve_of(losses, "all", "attention", mode)
        if not loss_by_n:
            continue
        plain, tokens = effective["plain_loss"].values, int(effective.attrs["tokens"])
        if next_size(plain, loss_by_n, [EFFECTIVE["tau"]], tokens) is None:
            n_star, without = crossing(plain, loss_by_n, EFFECTIVE["tau"], tokens)
            if (without == 1).all():  # every replicate is 1: no standard error
                without = np.full_like(without, np.nan)
            result[key] = Scalar(estimate=float(n_star), without=without, heads=heads)
    return result


def effective_sizes(
    runs: Sequence[ReducedRun], by_run: Sequence[Mapping[str, Scalar]]
) -> tuple[list[Quantity], list[str]]:
    """Return the quantities N* that a run has, and notes on runs without one.

    Effective sizes of different targets are not compared.
    """
    lettered = list(zip(RUN_LETTERS, runs, by_run, strict=False))
    targets = {
        letter: str(run.groups["effective"].attrs["target"])
        for letter, run, _ in lettered
        if "effective" in run.groups
    }
    if len(set(targets.values())) > 1:
        each = "; ".join(f"{letter}: {target}" for letter, target in targets.items())
        return [], [f"Effective sizes have different targets ({each}) and are not compared."]
    found = {name for estimates in by_run for name in estimates}
    notes = []
    for letter, _, estimates in lettered:
        lacking = [mode for mode, name in MODES.items() if name in found and name not in estimates]
        if lacking:
            notes.append(
                f"{letter} has no N* at {EFFECTIVE['tau']:.0%} ({', '.join(lacking)}). Measure it"
                " with `geostat effective`, with the options and the --out of its capture, and"
                " confront it again."
            )
    return [quantity for quantity in token_needs() if quantity.name in found], notes
