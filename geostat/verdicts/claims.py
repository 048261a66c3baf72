"""Claims that verdicts are given on, and their effects without each document.

A claim is a statement about one number, its *effect*, of every head: it holds where the effect lies
within a tolerance stated beforehand (`geostat.verdicts.tolerances`). Source: arXiv 2602.01893,
Assumptions 1-3, Theorems 1-2. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from geostat.errors import InputError
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import Side

Unit = Literal["kv_head", "head"]
UNITS: Final[tuple[Unit, ...]] = ("kv_head", "head")


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about one effect of every head, in units of `units`.

    `group`, `variable` and `select` say where its estimate stands in a run, with `x_se`, `x_skew`
    and `x_without` beside it; of a claim on bounds, /envelope with the edition and the Gram.
    `side`: whether the effect is to be at most or at least the tolerance, or its size within it.
    """

    key: str
    says: str
    variable: str
    side: Side = "at_most"
    select: Mapping[str, str] = field(default_factory=dict)
    short: str = ""
    """A few words for an axis or a narrow column."""
    presence: str | None = None
    """Of an effect that has an estimate only where a search found one: the variable with the
    p-value of the same search in noise.
    """

    @property
    def group(self) -> str:
        """The group of the run that holds its effect: the one that its key begins with."""
        topic = self.key.partition(".")[0]
        return "envelope" if topic == "bounds" else topic

    @property
    def bounds(self) -> bool:
        """Whether it speaks of bounds, which are held against measured curves at every N."""
        return self.group == "envelope"

    @property
    def of(self) -> Unit:
        """Whether it is of value heads or of query heads."""
        return "kv_head" if self.group in ("norms", "similarity") else "head"

    @property
    def units(self) -> str:
        """Unit of the effect: nats of weights, else none."""
        return "nat" if self.group == "weights" else "1"


def _bounds(key: str, edition: str, gram: str, words: str, short: str) -> Claim:
    says = f"Precision and Recall lie within {words}, at every N"
    return Claim(
        f"bounds.{key}",
        says,
        "precision",
        select={"edition": edition, "gram": gram},
        short=f"P, R within {short}",
    )


CLAIMS: Final = (
    Claim(
        "norms.cv",
        "within a document value norms are constant behind the sink",
        "cv_token",
        short="norms alike: in a document",
    ),
    Claim(
        "norms.cv_profile",
        "averaged over these documents value norms are constant behind the sink",
        "cv_profile",
        short="norms alike: mean of these documents",
    ),
    Claim(
        "norms.cv_position",
        "averaged over ever more documents value norms are constant behind the sink",
        "cv_position",
        short="norms alike: mean in the limit",
    ),
    Claim(
        "norms.trend",
        "value norms neither grow nor shrink along a document",
        "trend",
        "within",
        short="norms keep their level",
    ),
    Claim(
        "norms.sink",
        "the sink's norm is much smaller than the others'",
        "lam",
        short="the sink's norm is small",
    ),
    Claim(
        "similarity.exponential",
        "mean cosines decay as e^(−βk)",
        "mae_by_lag",
        select={"gram": "exponential"},
        short="cosines decay to 0",
    ),
    Claim(
        "similarity.offset",
        "mean cosines decay as c + (1−c)e^(−βk)",
        "mae_by_lag",
        select={"gram": "offset"},
        short="cosines decay to a constant",
    ),
    Claim(
        "similarity.offset_power",
        "mean cosines decay as c + (1−c)(1+k)^(−β)",
        "mae_by_lag",
        select={"gram": "offset_power"},
        short="cosines decay to a constant (power)",
    ),
    Claim(
        "similarity.stationary",
        "a mean cosine at one lag is the same early and late in a document",
        "drift_slope",
        "within",
        short="cosines alike early and late",
    ),
    Claim(
        "similarity.sink",
        "the sink's cosine is the same with early and late tokens",
        "sink_slope",
        "within",
        short="the sink's cosine alike early and late",
    ),
    Claim(
        "weights.total",
        "the weights of the fitted phases sum to 1",
        "total_model_log",
        "within",
        short="phases' weights sum to 1",
    ),
    Claim(
        "weights.growth",
        "weights grow towards the last token",
        "growth",
        "at_least",
        presence="growth_p",
        short="weights grow towards the end",
    ),
    Claim(
        "weights.shape",
        "averaged over these documents log weights follow the phases",
        "rmse",
        short="four phases: mean of these documents",
    ),
    Claim(
        "weights.shape_position",
        "averaged over ever more documents log weights follow the phases",
        "misfit",
        "at_most",
        short="four phases: mean in the limit",
    ),
    _bounds("printed", "printed", "exponential", "the bounds as printed", "printed bounds"),
    _bounds("sharp", "sharp", "exponential", "sharp bounds, decay as printed", "sharp bounds"),
    _bounds(
        "sharp_offset",
        "sharp",
        "offset",
        "sharp bounds, decay with an offset",
        "sharp bounds, offset",
    ),
)
"""Every claim, in the order of the report."""

WITHDRAWN: Final[Mapping[str, str]] = {
    "bounds.sharp_measured": (
        "the scatter of a head's own cosines enters twice, so that values drawn from the bounds'"
        " own model fail it as real heads do"
    )
}
"""Claims that were given once and are no longer, and why."""


def refuse_withdrawn(where: str, key: str, remedy: str = "Leave it out.") -> None:
    """Refuse a claim that is no longer given.

    Raises:
        InputError: telling `where` it is named, why it was withdrawn, and the remedy.
    """
    if key in WITHDRAWN:
        raise InputError(f"{where} was withdrawn: {WITHDRAWN[key]}. {remedy}")


def within(effect: FloatArray, tolerance: float, side: Side) -> NDArray[np.bool_]:
    """Where an effect itself, whatever its error, lies within its tolerance; False where it is
    NaN.
    """
    if side == "at_least":
        return np.asarray(effect >= tolerance)
    return np.asarray((np.abs(effect) if side == "within" else effect) <= tolerance)


def replicates(tree: xr.DataTree, claim: Claim) -> FloatArray | None:
    """Return a claim's effect without each document, (document, layer, head); None of bounds, and
    where the run did not keep it.
    """
    name = f"{claim.variable}_without"
    group = tree[claim.group].to_dataset()
    if claim.bounds or name not in group:
        return None
    return (
        group[name]
        .sel(claim.select)
        .transpose("document", "layer", claim.of)
        .values.astype(np.float64)
    )
