"""Variance components between kinds of text, for the variance of estimates over documents.

The model is a one-way random-effects ANOVA: the value of a document is level + kind + residual,
with variances σ_b² between and σ_w² within kinds, estimated from mean squares. The value of a
document is its pseudo-value Kθ̂ − (K−1)θ̂₍ₖ₎. The variance of pseudo-values over K is the variance
of the document jackknife, so its components are those of every standard error of a run. Heads are
pooled by sums of squares without scaling to equal variance, which would bias the share downwards
(tests/geostat/analyses/test_kinds_of_text.py). Quantities with a unit are divided by the head's
estimate.
Sources: Searle, Casella & McCulloch (1992), "Variance Components", ch. 3; interval: Arvesen &
Layard (1975), Annals of Statistics 3, 1122-1134; test: Anderson (2001), Austral Ecology 26, 32-46.
Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.schema import Quantity
from geostat.datasets.table import quantities
from geostat.datasets.variable import Value, join_rows, variables
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife

FEWEST_KINDS: Final = 3
"""Fewest kinds for an interval: each jackknife replicate needs two kinds."""
LEAST_RATIO: Final = 1e-12
"""Smallest F, so that log F is finite for equal means of kinds."""
PERMUTATIONS: Final = 999
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Analysed:
    """A quantity whose variance is decomposed: values by document if stored, else pseudo-values."""

    variable: str
    """Group and name of the variable."""
    words: str
    """Meaning, with mathematics between dollar signs."""
    form: str | None = None
    """Similarity form (`gram`) of the variable, if it has that dimension."""
    relative: bool = False
    """Whether values are divided by the head's estimate, for quantities with a unit."""


QUANTITIES: Final = {
    "C": Analysed("norms/C", "norm of a content token, $C$, relative", relative=True),
    "lam": Analysed("norms/lam", "sink norm over content norm, $\\lambda$"),
    "cv_token": Analysed("norms/cv_token", "CV of norms within a document"),
    "rho0": Analysed("similarity/rho0", "mean cosine with the sink, $\\rho_0$"),
    "beta": Analysed(
        "similarity/beta", "decay of similarity, $\\beta$, relative", "exponential", relative=True
    ),
    "mae": Analysed(
        "similarity/mae_by_lag", "mean absolute error of exponential decay, MAE", "exponential"
    ),
    "offset": Analysed("similarity/offset", "cosine at long lags, $c$", "offset"),
    "p_sink": Analysed("weights/document_p_sink", "weight of the sink, $p_{\\mathrm{sink}}$"),
    "growth": Analysed("weights/growth", "growth of log weights towards the last token"),
    "misfit": Analysed("weights/misfit", "misfit of log weights from the four phases"),
}

VARIABLES: Final = quantities(
    r"""
    between_share | 1 | \sigma_b^2/(\sigma_b^2+\sigma_w^2) | share of the variance over documents
        between kinds of text, heads pooled | estimated | interval: 95% jackknife over kinds of log
        F, t(kinds - 1), cut to 0 and 1
    between_p | 1 | p | permutation p-value of the difference between kinds
    between_error_strata | 1 | \sigma_w/\sigma | standard error for fixed kinds (strata), over that
        of the document jackknife
    between_error_sample | 1 | \sqrt{\mathrm{MS}_b/\mathrm{MS}} | standard error for random kinds,
        over that of the document jackknife
    between_heads | 1 | H | number of pooled heads or KV heads
    between_words | 1 | - | meaning, mathematics between dollar signs
    """,
    dims=("quantity",),
)

BY_KIND: Final = (
    Quantity(
        "kind_estimate",
        "median over heads of the mean over a kind's documents, of their values or pseudo-values;"
        " C and beta over their estimates from all documents",
        dims=("kind_quantity", "text_kind"),
    ),
    Quantity("kind_documents", "documents of the kind", dims=("text_kind",)),
)


@dataclass(frozen=True, slots=True)
class OneWay:
    """One-way analysis of variance of K documents with values for several heads."""

    rows: FloatArray
    """Centred values, (document, column), scaled such that sums of squares are means over heads."""
    kinds: NDArray[np.int64]
    """Index of the kind, (document,)."""

    def squares(self) -> tuple[float, float, float]:
        """Return the mean squares between and within kinds, and the effective kind size n₀ =
        (K − Σn²/K) / (kinds − 1); NaN without degrees of freedom.
        """
        member = np.equal.outer(np.unique(self.kinds), self.kinds).astype(np.float64)
        size, documents = member.sum(axis=1), len(self.kinds)
        total, level = self._total(), self._level()
        kinds = float((((member @ self.rows) ** 2).sum(axis=1) / size).sum())
        df_between, df_within = len(size) - 1, documents - len(size)
        return (
            (kinds - level) / df_between if df_between else np.nan,
            (total - kinds) / df_within if df_within else np.nan,
            (documents - (size**2).sum() / documents) / df_between if df_between else np.nan,
        )

    def mean_square(self) -> float:
        """Return the mean square over documents, all treated as exchangeable."""
        return (self._total() - self._level()) / (len(self.kinds) - 1)

    def _total(self) -> float:
        return float((self.rows**2).sum())

    def _level(self) -> float:
        return float((self.rows.sum(axis=0) ** 2).sum() / len(self.rows))

    def log_ratio(self) -> float:
        """Return log F of the mean squares between and within kinds; NaN if that within is 0."""
        between, within, _ = self.squares()
        return float(np.log(max(between / within, LEAST_RATIO))) if within > 0 else np.nan

    def without(self, kind: int) -> OneWay:
        """Return the table without one kind."""
        others = self.kinds != kind
        return OneWay(self.rows[others], self.kinds[others])

    def share(self) -> Estimate:
        """Return σ_b²/(σ_b² + σ_w²) = (F − 1)/(F − 1 + n₀), at least 0, with the jackknife of log F
        over kinds.
        """
        logs = np.array([self.without(kind).log_ratio() for kind in np.unique(self.kinds)])
        replicates = logs if len(logs) >= FEWEST_KINDS else np.full_like(logs, np.nan)
        log_f = replace(jackknife(np.asarray(self.log_ratio()), replicates), without=None)
        size = self.squares()[2]

        def share(log_ratio: FloatArray) -> FloatArray:
            excess = np.maximum(np.expm1(log_ratio), 0.0)
            return np.asarray(excess / (excess + size))

        ratio = np.exp(log_f.value)
        slope = size * ratio / (ratio - 1 + size) ** 2
        return log_f.carried(share, np.asarray(log_f.se * slope), "share")

    def p_value(self) -> float:
        """Return the permutation p-value of F, with the observed assignment counted."""
        random, least = np.random.default_rng(SEED), self.squares()[0] * (1 - 1e-9)
        extreme = sum(
            OneWay(self.rows, random.permutation(self.kinds)).squares()[0] >= least
            for _ in range(PERMUTATIONS)
        )
        return (1 + extreme) / (1 + PERMUTATIONS)

    def errors(self) -> tuple[float, float]:
        """Return the standard error of a mean over documents relative to the document jackknife's:
        for fixed kinds (strata) and for random kinds.
        """
        between, within, size = self.squares()
        documents = len(self.kinds)
        total = self.mean_square()
        counts = np.unique(self.kinds, return_counts=True)[1]
        kinds = max((between - within) / size, 0.0) * (counts**2).sum() / documents
        return float(np.sqrt(within / total)), float(np.sqrt((within + kinds) / total))


def rows_of(values: FloatArray) -> tuple[FloatArray, int]:
    """Return the rows of a `OneWay` and the number of heads with finite values in all documents.

    With more heads than documents, rows are replaced by the R factor of a QR decomposition, which
    has the same inner products.

    Args:
        values: values of documents, (head, document).
    """
    known = values[np.isfinite(values).all(axis=1)]
    centred = (known - known.mean(axis=1, keepdims=True)) / np.sqrt(max(len(known), 1))
    if len(centred) > centred.shape[1]:
        centred = np.asarray(np.linalg.qr(centred, mode="r"))
    return centred.T, len(known)


def kinds_of(tree: xr.DataTree) -> list[str]:
    """Return the kind of each document of a run; "" if unknown."""
    rows = tree.attrs.get("manifest", {}).get("documents", [])
    return [str(row.get("kind") or "") for row in rows]


def contributions(fits: xr.Dataset, name: str) -> FloatArray:
    """Return the value or pseudo-value of each document, (head, document); no rows if the fits have
    neither.
    """
    documents = fits.sizes["document"]
    if "document" in fits.get(name, xr.DataArray()).dims:
        return np.asarray(fits[name].transpose(..., "document").values).reshape(-1, documents)
    if f"{name}_without" not in fits:
        return np.empty((0, documents))
    without = fits[f"{name}_without"].transpose(..., "document").values.reshape(-1, documents)
    return np.asarray(documents * fits[name].values.reshape(-1, 1) - (documents - 1) * without)


def values_of(tree: xr.DataTree, analysed: Analysed) -> FloatArray:
    """Return what each document contributes to a quantity of a fitted run, (head, document)."""
    group, variable = analysed.variable.split("/")
    fits = tree[group].to_dataset()
    fits = fits if analysed.form is None else fits.sel(gram=analysed.form)
    values = contributions(fits, variable)
    if analysed.relative and len(values):
        values = ratio(values, fits[variable].values.reshape(-1, 1))
    return values


def by_kind(tree: xr.DataTree, kinds: Sequence[str]) -> xr.Dataset:
    """Return the main quantities by kind of text, in order of appearance.

    Args:
        tree: a fitted run.

    Returns:
        BY_KIND; empty with one kind.
    """
    names = list(dict.fromkeys(kinds))
    values = {}
    for name, analysed in QUANTITIES.items():
        array = values_of(tree, analysed)
        array = array[np.isfinite(array).all(axis=1)]
        if array.size and array.shape[1] == len(kinds):
            values[name] = array
    if len(names) < 2 or not values:
        return xr.Dataset()
    members = [np.array(kinds, dtype=object) == name for name in names]
    numbers = {
        "kind_estimate": np.array(
            [
                [np.median(array[:, member].mean(axis=1)) for member in members]
                for array in values.values()
            ]
        ),
        "kind_documents": np.array([member.sum() for member in members]),
    }
    coords = {"kind_quantity": list(values), "text_kind": names}
    return xr.Dataset(
        variables(BY_KIND, numbers),
        coords={name: (name, np.array(words, dtype=object)) for name, words in coords.items()},
    )


def between_kinds(tree: xr.DataTree, kinds: Sequence[str]) -> xr.Dataset:
    """Decompose the variance over documents into components between and within kinds of text.

    Args:
        tree: a fitted run.

    Returns:
        VARIABLES, dims (quantity,); empty with one kind, or if no kind has two documents.
    """
    names, number = np.unique(np.array(list(kinds), dtype=object), return_inverse=True)
    by_quantity: dict[str, dict[str, Value]] = {}
    for name, analysed in QUANTITIES.items():
        rows, heads = rows_of(values_of(tree, analysed))
        if not rows.any() or len(rows) != len(number) or not 1 < len(names) < len(number):
            continue
        table = OneWay(rows, number)
        strata, sample = table.errors()
        by_quantity[name] = {
            "between_share": table.share(),
            "between_p": np.asarray(table.p_value()),
            "between_error_strata": np.asarray(strata),
            "between_error_sample": np.asarray(sample),
            "between_heads": np.asarray(heads),
            "between_words": np.asarray(analysed.words, dtype=object),
        }
    if not by_quantity:
        return xr.Dataset()
    numbers = join_rows(list(by_quantity.values()))
    coords = {"quantity": ("quantity", np.array(list(by_quantity), dtype=object))}
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords)
