"""Components of variance between kinds of text: how much of what documents differ in is the kind
that they are of.

One-way random effects: what a document gives is level + kind + rest, with variances σ_b² between
kinds and σ_w² within, from the mean squares (ANOVA, method of moments). What it gives is its
pseudo-value Kθ̂ − (K−1)θ̂₍ₖ₎, whose variance over K is that of the document jackknife,
so its parts are the parts of every error of a run. Heads are pooled by summing squares. They are
not scaled to equal variance first: that would shrink the share, as heads whose few kinds happen to
differ would count less (tests/geostat/experiments/test_kinds_of_text.py); what has a unit is taken
relative to the head's estimate.
Sources: Searle, Casella & McCulloch (1992), "Variance Components", ch. 3; interval: Arvesen &
Layard (1975), Annals of Statistics 3, 1122-1134; test: Anderson (2001), Austral Ecology 26, 32-46.
Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.datasets.variable import Value, Variable, join, variables
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife

FEWEST_KINDS: Final = 3
"""Kinds from which on there is an interval: without one of them, two must be left."""
LEAST_RATIO: Final = 1e-12
"""F of kinds whose means are equal, whose logarithm is to be finite."""
PERMUTATIONS: Final = 999
SEED: Final = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about. A variable of single documents is taken as it is, of another the
    pseudo-values; one that has a unit relative to the head's estimate.
    """

    variable: str
    """Group and name."""
    words: str
    form: str | None = None
    """Form of similarity that it is of."""
    relative: bool = False


QUANTITIES: Final = {
    "C": Asked("norms/C", "norm of a content token, $C$, relative", relative=True),
    "lam": Asked("norms/lam", "sink norm over content norm, $\\lambda$"),
    "cv_token": Asked("norms/cv_token", "CV of norms within a document"),
    "rho0": Asked("similarity/rho0", "mean cosine with the sink, $\\rho_0$"),
    "beta": Asked(
        "similarity/beta", "decay of similarity, $\\beta$, relative", "exponential", relative=True
    ),
    "mae": Asked(
        "similarity/mae_by_lag", "mean absolute error of exponential decay, MAE", "exponential"
    ),
    "offset": Asked("similarity/offset", "cosine at long lags, $c$", "offset"),
    "p_sink": Asked("weights/document_p_sink", "weight of the sink, $p_{\\mathrm{sink}}$"),
    "growth": Asked("weights/growth", "growth of log weights towards the last token"),
    "misfit": Asked("weights/misfit", "distance of log weights from the four phases"),
}

_number = partial(Variable, dims=("quantity",))
VARIABLES: Final = (
    _number(
        "between_share",
        "share of the variance over documents that lies between kinds of text, heads pooled",
        symbol=r"\sigma_b^2/(\sigma_b^2+\sigma_w^2)",
        estimated=True,
        more={"interval": "95% jackknife over kinds of log F, t(kinds - 1), cut to 0 and 1"},
    ),
    _number(
        "between_p",
        "share of ways to deal the documents to kinds in which kinds differ as much",
        symbol="p",
    ),
    _number(
        "between_error_strata",
        "standard error where the kinds are all there are, over that of the document jackknife",
        symbol=r"\sigma_w/\sigma",
    ),
    _number(
        "between_error_sample",
        "standard error where the kinds are a sample of kinds, over that of the document jackknife",
        symbol=r"\sqrt{\mathrm{MS}_b/\mathrm{MS}}",
    ),
    _number("between_heads", "heads, or value heads, that are pooled", symbol="H"),
    _number("between_words", "meaning, mathematics between dollar signs"),
)


@dataclass(frozen=True, slots=True)
class OneWay:
    """One-way analysis of variance of K documents, of what each holds of several heads."""

    rows: FloatArray
    """(document, column): what documents give, less its mean; squares add up to their mean over
    heads.
    """
    kinds: NDArray[np.int64]
    """(document,): number of the kind."""

    def squares(self) -> tuple[float, float, float]:
        """Mean squares between and within kinds, and the documents of a kind that enter F: n₀ = (K
        − Σn²/K) / (kinds − 1). NaN where there are no degrees of freedom.
        """
        member = np.equal.outer(np.unique(self.kinds), self.kinds).astype(np.float64)
        size, documents = member.sum(axis=1), len(self.kinds)
        total, level = self._total(), self._level()
        kinds = float((((member @ self.rows) ** 2).sum(axis=1) / size).sum())
        free, left = len(size) - 1, documents - len(size)
        return (
            (kinds - level) / free if free else np.nan,
            (total - kinds) / left if left else np.nan,
            (documents - (size**2).sum() / documents) / free if free else np.nan,
        )

    def _total(self) -> float:
        return float((self.rows**2).sum())

    def _level(self) -> float:
        return float((self.rows.sum(axis=0) ** 2).sum() / len(self.rows))

    def log_ratio(self) -> float:
        """Return log F of the mean squares between and within kinds; NaN where these do not
        differ within.
        """
        between, within, _ = self.squares()
        return float(np.log(max(between / within, LEAST_RATIO))) if within > 0 else np.nan

    def without(self, kind: int) -> OneWay:
        """Return the same without one kind."""
        left = self.kinds != kind
        return OneWay(self.rows[left], self.kinds[left])

    def share(self) -> Estimate:
        """Return σ_b²/(σ_b² + σ_w²) = (F − 1)/(F − 1 + n₀), cut at 0, with the jackknife of log F
        over kinds.
        """
        logs = np.array([self.without(kind).log_ratio() for kind in np.unique(self.kinds)])
        replicates = logs if len(logs) >= FEWEST_KINDS else np.full_like(logs, np.nan)
        found = replace(jackknife(np.asarray(self.log_ratio()), replicates), without=None)
        size = self.squares()[2]

        def share(log_ratio: FloatArray) -> FloatArray:
            excess = np.maximum(np.expm1(log_ratio), 0.0)
            return np.asarray(excess / (excess + size))

        ratio = np.exp(found.value)
        slope = size * ratio / (ratio - 1 + size) ** 2
        return found.carried(share, np.asarray(found.se * slope), "share")

    def p_value(self) -> float:
        """Return the p-value of F under random permutations of documents over kinds, this one
        among them.
        """
        random = np.random.default_rng(SEED)
        own = self.squares()[0]
        dealt = (
            OneWay(self.rows, random.permutation(self.kinds)).squares()[0]
            for _ in range(PERMUTATIONS)
        )
        beyond = sum(value >= own * (1 - 1e-9) for value in dealt)
        return (1 + beyond) / (1 + PERMUTATIONS)

    def errors(self) -> tuple[float, float]:
        """Return the standard error of a mean over documents, over the document jackknife's: where
        the kinds are fixed strata, and where they are a sample themselves.
        """
        between, within, size = self.squares()
        documents = len(self.kinds)
        total = (self._total() - self._level()) / (documents - 1)
        counts = np.unique(self.kinds, return_counts=True)[1]
        more = max((between - within) / size, 0.0) * (counts**2).sum() / documents
        return float(np.sqrt(within / total)), float(np.sqrt((within + more) / total))


def rows_of(given: FloatArray) -> tuple[FloatArray, int]:
    """Return what documents give, (head, document), less each head's mean, as the rows of a
    `OneWay`, and the number of heads: those that are known in all documents.

    Of more heads than documents only the triangle is kept that has the same products of rows.
    """
    known = given[np.isfinite(given).all(axis=1)]
    away = (known - known.mean(axis=1, keepdims=True)) / np.sqrt(max(len(known), 1))
    if len(away) > away.shape[1]:
        away = np.asarray(np.linalg.qr(away, mode="r"))
    return away.T, len(known)


def kinds_of(tree: xr.DataTree) -> list[str]:
    """Return the kind of each document of a run, "" where it is not known."""
    rows = tree.attrs.get("manifest", {}).get("documents", [])
    return [str(row.get("kind") or "") for row in rows]


def contributions(fits: xr.Dataset, name: str) -> FloatArray:
    """Return what each document gives to an estimate, (head, document): its own number, or its
    pseudo-value; no rows where the fits hold neither.
    """
    documents = fits.sizes["document"]
    if "document" in fits.get(name, xr.DataArray()).dims:
        return np.asarray(fits[name].transpose(..., "document").values).reshape(-1, documents)
    if f"{name}_without" not in fits:
        return np.empty((0, documents))
    without = fits[f"{name}_without"].transpose(..., "document").values.reshape(-1, documents)
    return np.asarray(documents * fits[name].values.reshape(-1, 1) - (documents - 1) * without)


def between_kinds(tree: xr.DataTree, kinds: Sequence[str]) -> xr.Dataset:
    """Tell how much of the variance over documents lies between kinds of text, by quantity.

    `tree` is a fitted run, `kinds` the kind of each document. Returns what VARIABLES names, over
    (quantity); nothing where there is one kind alone, or no kind has two documents.
    """
    names, number = np.unique(np.array(list(kinds), dtype=object), return_inverse=True)
    found: dict[str, dict[str, Value]] = {}
    for name, asked in QUANTITIES.items():
        group, variable = asked.variable.split("/")
        fits = tree[group].to_dataset()
        fits = fits if asked.form is None else fits.sel(gram=asked.form)
        given = contributions(fits, variable)
        if asked.relative and len(given):
            given = ratio(given, fits[variable].values.reshape(-1, 1))
        rows, heads = rows_of(given)
        if not rows.any() or len(rows) != len(number) or not 1 < len(names) < len(number):
            continue
        table = OneWay(rows, number)
        strata, sample = table.errors()
        found[name] = {
            "between_share": table.share(),
            "between_p": np.asarray(table.p_value()),
            "between_error_strata": np.asarray(strata),
            "between_error_sample": np.asarray(sample),
            "between_heads": np.asarray(heads),
            "between_words": np.asarray(asked.words, dtype=object),
        }
    if not found:
        return xr.Dataset()
    each = list(found.values())
    stacked = {name: join([one[name] for one in each], np.stack) for name in each[0]}
    coords = {"quantity": ("quantity", np.array(list(found), dtype=object))}
    return xr.Dataset(variables(VARIABLES, stacked), coords=coords)
