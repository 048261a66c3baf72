"""Quantities that runs are compared by, in the order of the report, and one number for each of a
whole run, with what it would be without each document.

A run's heads are all the heads of its model, not a sample; its documents are the sample. So a
number is a mean over heads, and its standard error a jackknife over documents. Source: arXiv
2602.01893, Assumptions 1-2, §4, §4.1, Theorems 1-2. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

import numpy as np
import xarray as xr

from geostat.comparison.coverage import shares_inside
from geostat.datasets.progress import Progress
from geostat.datasets.queries import over_queries
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.tokens import most_tokens
from geostat.experiments.moments import Table, correlations
from geostat.experiments.sink import fisher, without_noise
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.similarity.forms import FORMS
from geostat.paper import CORRELATION_SIZES, WORKING_SIZE
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

KINDS: Final = {"correlation": "as measured", "unattenuated": "free of the documents' noise"}
FEW_DOCUMENTS: Final = "documents"
"""Of a quantity that averaging over more documents changes: it is not that of one document, nor
that of ever more.
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


THEOREMS: Final = {"precision": "Theorem 1", "recall": "Theorem 2"}


def quantities(pairs: Sequence[tuple[str, str]]) -> list[Quantity]:
    """Every quantity, in the order of the report; those of bounds for each (edition, Gram)."""
    of_value_heads = partial(Quantity, over="value heads")
    of_heads = partial(Quantity, over="heads")
    return [
        of_value_heads(
            "cv_token",
            "CV of value norms within a document",
            r"\mathrm{CV}_{\mathrm{token}}",
            "Assumption 1.1",
        ),
        of_value_heads(
            "cv_profile",
            "CV of value norms averaged over documents",
            r"\mathrm{CV}_{\mathrm{profile}}",
            "Fig. 2",
            minds=(FEW_DOCUMENTS,),
        ),
        of_value_heads(
            "lam", "norm of the sink's value over the others'", r"\lambda", "Assumption 1.2"
        ),
        *(
            of_value_heads(
                f"mae_{form}",
                f"misfit (MAE) of mean cosines, {form.replace('_', ' ')} form",
                r"\mathrm{MAE}",
                "§3.2, Fig. 3",
                minds=(FEW_DOCUMENTS,),
            )
            for form in FORMS
        ),
        *(
            of_heads(
                f"{name}_at_{WORKING_SIZE}",
                f"mean {name.capitalize()} at N = {WORKING_SIZE}",
                LETTERS[name],
                "Fig. 5",
                minds=("convention",),
            )
            for name in STATISTICS
        ),
        *(quantity for kind in KINDS for quantity in _of_sink(kind)),
        *(
            of_heads(
                f"{name}_inside_{edition}_{gram}",
                f"{name.capitalize()} within its bounds, {edition}, {gram} Gram",
                r"\mathrm{share}",
                THEOREMS[name],
                minds=("convention", FEW_DOCUMENTS, "bound_sizes"),
            )
            for (edition, gram), name in product(pairs, STATISTICS)
        ),
    ]


def _of_sink(kind: str) -> list[Quantity]:
    """Correlations of Recall with the sink's similarity: the largest, and those at named N."""
    minds = ("convention", *((FEW_DOCUMENTS,) if kind == "correlation" else ()))
    of_heads = (r"\mathrm{corr}(R,\rho_0)", "§4.1, Fig. 6", "heads")
    label = f"correlation of Recall with the sink's similarity, {KINDS[kind]}"
    return [
        Quantity(f"{kind}_peak", f"largest {label}", *of_heads, (*minds, "sizes")),
        *(
            Quantity(f"{kind}_at_{n}", f"{label}, at N = {n}", *of_heads, minds)
            for n in CORRELATION_SIZES
        ),
    ]


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


def scalars(
    groups: Mapping[str, xr.Dataset],
    *,
    coverage_errors: bool = True,
    progress: Progress | None = None,
) -> dict[str, Scalar]:
    """Every quantity of one run, by key.

    `groups` holds /capture, /queries if several were analysed, /norms, /similarity and /envelope,
    of fitted Grams. Fits and bounds are
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
    within = over_queries(groups)
    return out | _separability(within) | _correlations(within)


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
    """Correlations over heads of Recall at N with the sink's similarity, of each of KINDS: at
    CORRELATION_SIZES, and the largest over N; none where too few heads have both.
    """
    table = Table.of(capture)
    documents, n = table.similarity.shape[0], capture["n"].values
    found = correlations(table)
    if found is None:
        return {}
    inside = (n > 1) & (n < most_tokens(capture))
    scalar = partial(Scalar, heads=table.heads, correlation=True)
    out = {}
    for kind, rows in zip(KINDS, found, strict=True):
        curve, others = rows[0], rows[1:]
        others = others if documents > 1 else np.full((1, n.size), np.nan)
        if kind == "unattenuated":
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
