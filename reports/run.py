"""What figures, captions and tables share: a run's groups, and its heads and documents pooled into curves.

Means and quantiles leave out what was not measured (NaN) and never warn about it. Imports numpy, xarray and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtrit

from reports.errors import InputError
from reports.statistics import FloatArray, mean

LEVEL = 0.95
"""Confidence level of document bands."""
WORKING_SIZE = 4
NEEDED = ("capture", "norms", "similarity", "weights", "envelope", "summary")


@dataclass(frozen=True, slots=True)
class Run:
    """The groups of one run as datasets. `null` is None where it was not measured, and so is any other that a run may lack."""

    attrs: dict[str, Any]
    capture: xr.Dataset
    norms: xr.Dataset
    similarity: xr.Dataset
    weights: xr.Dataset
    envelope: xr.Dataset
    summary: xr.Dataset
    null: xr.Dataset | None
    verdicts: xr.Dataset | None = None
    sink: xr.Dataset | None = None
    regimes: xr.Dataset | None = None
    """/heads."""
    separable: xr.Dataset | None = None
    ingredients: xr.Dataset | None = None
    predictive: xr.Dataset | None = None
    pooled: xr.Dataset | None = None

    @classmethod
    def of(cls, tree: xr.DataTree) -> Run:
        """Read a run; /null, /verdicts and the experiments may be missing, every other group must be there.

        Raises:
            InputError: naming the group that is missing.
        """
        for name in NEEDED:
            if name not in tree.children:
                raise InputError(f"the run holds no /{name}; expected {', '.join(NEEDED)}. Fit and confront it first.")
        groups = {name: tree[name].to_dataset() for name in NEEDED}
        known = {
            field: tree[name].to_dataset() if name in tree.children else None
            for field, name in (
                ("null", "null"),
                ("verdicts", "verdicts"),
                ("sink", "sink"),
                ("regimes", "heads"),
                ("separable", "separable"),
                ("ingredients", "ingredients"),
                ("predictive", "predictive"),
                ("pooled", "pooled"),
            )
        }
        attrs = {str(name): value for name, value in tree.attrs.items()}
        return cls(attrs=attrs, **known, **groups)  # type: ignore[arg-type]

    @property
    def documents(self) -> int:
        """Number K of documents."""
        return self.capture.sizes["document"]

    @property
    def heads(self) -> int:
        """Number of query heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["head"]

    @property
    def kv_heads(self) -> int:
        """Number of value heads over all layers."""
        return self.capture.sizes["layer"] * self.capture.sizes["kv_head"]

    @property
    def positions(self) -> int:
        """Tokens of a document."""
        return self.capture.sizes["position"]

    @property
    def dimension(self) -> int | None:
        """Size d of a head's value states, where the provenance tells."""
        model = self.attrs.get("model")
        found = model.get("dimension") if isinstance(model, dict) else None
        found = self.capture.attrs.get("dimension") if found is None else found
        return None if found is None else int(found)

    @property
    def critical(self) -> float:
        """Quantile of Student's t that turns a document standard error into a 95% half-width; NaN with one document."""
        return float(stdtrit(self.documents - 1, 0.5 + LEVEL / 2)) if self.documents > 1 else float("nan")

    def name_of(self, layer: int, head: int) -> str:
        """A head's name, by index: `L5H3`."""
        return f"L{self.capture['layer'].values[layer]}H{self.capture['head'].values[head]}"


def norm_profiles(run: Run) -> FloatArray:
    """Document-mean ‖v_i‖ in units of each head's C, shape (value head, position); NaN where not visible or C is unknown."""
    norm = run.capture["value_norm"].values.astype(np.float64)
    scale = run.norms["C"].values.astype(np.float64)
    scale = np.where(scale > 0, scale, np.nan)
    return (mean(norm) / scale[..., None]).reshape(-1, run.positions)


def weight_means(run: Run) -> tuple[FloatArray, FloatArray]:
    """Arithmetic and geometric mean of α over heads and documents at each position; a zero weight is left out of the geometric one."""
    arithmetic = mean(run.weights["weight_mean"].values.astype(np.float64).reshape(-1, run.positions))
    weight = run.capture["attention_weight"].values.reshape(-1, run.positions)
    positive = weight > 0
    logs = np.log(weight, where=positive, out=np.zeros(weight.shape, dtype=np.float32)).sum(axis=0, dtype=np.float64)
    number = positive.sum(axis=0)
    geometric = np.exp(np.divide(logs, number, out=np.full(run.positions, np.nan), where=number > 0))
    return np.where(arithmetic > 0, arithmetic, np.nan), geometric


def median_head(array: xr.DataArray, among: NDArray[np.bool_] | None = None) -> tuple[int, int] | None:
    """Indices (layer, head) of the head nearest to the median of an array over (layer, head); None where nothing is known."""
    values = np.asarray(array.values, dtype=np.float64)
    known = np.isfinite(values) if among is None else np.isfinite(values) & among
    if not known.any():
        return None
    distance = np.where(known, np.abs(values - np.median(values[known])), np.inf)
    layer, head = np.unravel_index(int(distance.argmin()), values.shape)
    return int(layer), int(head)


def at_size(curve: xr.DataArray, n: int) -> float:
    """The entry of a curve over n at size `n`; NaN where the run holds none."""
    where = np.flatnonzero(curve["n"].values == n)
    return float(curve.values[where[0]]) if where.size else float("nan")


def typical_similarity_head(run: Run) -> tuple[int, int] | None:
    """Indices (layer, kv_head) of the head whose exponential misfit is nearest to the median."""
    form = "exponential" if "exponential" in run.similarity["gram"].values else run.similarity["gram"].values[0]
    return median_head(run.similarity["mae_by_lag"].sel(gram=form).transpose("layer", "kv_head"))


def typical_weight_head(run: Run) -> tuple[int, int] | None:
    """Indices (layer, head) of the head of median misfit among all heads."""
    return median_head(run.weights["rmse"].transpose("layer", "head"))


def _counted(run: Run, statistic: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Distances outside the bounds, and which cells count: both bounds known and 1 < N < T, where P and R are not 1 by definition."""
    excess = run.envelope[f"{statistic}_excess"].transpose("edition", "gram", "layer", "head", "n_envelope")
    tokens = xr.DataArray(run.capture["tokens"].values, dims="layer")
    between = (excess["n_envelope"] > 1) & (excess["n_envelope"] < tokens)
    return excess, excess.notnull() & between


def small_size(run: Run) -> int:
    """The N at which heads are compared: 4, the edge of the paper's working range (§4), or the run's size nearest to it."""
    n = run.summary["n"].values
    return int(n[np.abs(n - WORKING_SIZE).argmin()])


def coverage_by_size(run: Run, statistic: str) -> xr.DataArray:
    """Share of heads whose measured curve lies within its bounds, dims (edition, gram, n_envelope); NaN where none counts."""
    excess, counted = _counted(run, statistic)
    heads = counted.sum(("layer", "head"))
    return ((excess <= 0) & counted).sum(("layer", "head")) / heads.where(heads > 0)


def coverage_by_head(run: Run, statistic: str) -> xr.DataArray:
    """Share of sizes 1 < N < T at which a head's measured curve lies within its bounds, dims (edition, gram, layer, head)."""
    excess, counted = _counted(run, statistic)
    sizes = counted.sum("n_envelope")
    return ((excess <= 0) & counted).sum("n_envelope") / sizes.where(sizes > 0)


def pairs_of_bounds(run: Run) -> list[tuple[str, str]]:
    """Every (edition, gram) of the run, in its order."""
    return [(str(edition), str(gram)) for edition in run.envelope["edition"].values for gram in run.envelope["gram"].values]


OWN_COSINES = (
    "The measured Gram, each head’s own cosines, tests nothing: these scatter as the values do, so the scatter enters twice, and even heads drawn from the "
    "bounds’ own model lie outside."
)
"""Why coverage by bounds at a head's own cosines says nothing of the head; tests/geostat/bounds/test_own_cosines.py draws such heads."""


def own_cosines(run: Run) -> str:
    """A note, behind a space, for a run that holds bounds at each head's own cosines; else nothing."""
    return f" {OWN_COSINES}" if any(gram == "measured" for _, gram in pairs_of_bounds(run)) else ""


def shown_bounds(run: Run) -> list[tuple[str, str]]:
    """The (edition, gram) that figures draw: printed with the paper's exponential Gram, sharp with the offset one; what there is."""
    there = pairs_of_bounds(run)
    return [pair for pair in (("printed", "exponential"), ("sharp", "offset")) if pair in there] or there[:1]
