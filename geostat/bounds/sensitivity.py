"""Sensitivity of the sharp bounds to one parameter at a time, at one head of every layer: what a
page lets its reader try.

The bounds are those of the first document's own weights at its last query, with fitted norms and
the fitted decay to an offset; one of β, c, ρ₀, λ and d is then changed by a step. All else is held:
the weights too, so nothing here says what training would do. Source: arXiv 2602.01893, Assumptions
1-2, Theorems 1-2. Imports theory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import envelope_grid, evaluate
from geostat.bounds.head import Groups, document_weights
from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, tracked
from geostat.datasets.separability import BOUNDS, STATISTICS
from geostat.datasets.tokens import layer_tokens, some_heads, value_heads
from geostat.datasets.variable import Variable, variables, words_along
from geostat.statistics.arrays import FloatArray
from geostat.statistics.losses import mean_over_documents
from theory.head.projection import project
from theory.head.similarity_decay import offset_exponential

NEEDED: Final = ("capture", "norms", "similarity")
GRAM: Final = "offset"
POINTS: Final = 12
"""About how many sizes N between 1 and T."""
MEDIAN_SIZE: Final = 8
"""The head of a layer is that of median Recall at the measured N nearest to it."""
STEPS: Final = (-2, -1, 0, 1, 2)
APART: Final = 0.1
"""By how much one step moves a cosine; other parameters it doubles or halves."""
MOST: Final = 0.95
"""A cosine at long lags, and the size of ρ₀, at most."""

_bound = {"dims": ("layer", "parameter", "step", "n_envelope"), "equation": "Theorems 1-2"}
VARIABLES: Final = (
    *(
        Variable(name, f"sharp {name.replace('_', ' ')} with one parameter changed", **_bound)  # type: ignore[arg-type]
        for name in BOUNDS
    ),
    *(
        Variable(
            name,
            f"measured {name} of that head in the first document",
            dims=("layer", "n_envelope"),
        )
        for name in STATISTICS
    ),
    Variable(
        "value",
        "value of the parameter; beta in 1/token, c, rho0 and lam without unit, d a count",
        dims=("layer", "parameter", "step"),
    ),
    Variable(
        "moved",
        "how far rho0 was moved to where vectors have it",
        equation="erratum 9",
        dims=("layer", "parameter", "step"),
    ),
    Variable(
        "of_head", "head of the layer of median Recall; -1: none could be fitted", dims=("layer",)
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What is changed, and the scale C of the norms, which is not."""

    beta: float
    c: float
    rho0: float
    lam: float
    d: float
    scale: float

    @property
    def known(self) -> bool:
        """Whether all were fitted, with a decay."""
        return bool(np.isfinite([self.beta, self.c, self.rho0, self.lam, self.scale]).all()) and (
            self.beta > 0
        )


CHANGED: Final[dict[str, Callable[[float, int], float]]] = {
    "beta": lambda value, step: value * 2.0**step,
    "c": lambda value, step: value if step == 0 else float(np.clip(value + APART * step, 0, MOST)),
    "rho0": lambda value, step: (
        value if step == 0 else float(np.clip(value + APART * step, -MOST, MOST))
    ),
    "lam": lambda value, step: value * 2.0**step,
    "d": lambda value, step: float(max(round(value * 2.0**step), 2)),
}
"""Each parameter after so many steps."""
OF_SINK: Final = ("rho0", "lam")
"""Parameters that are of the sink, and mean nothing where it is not seen."""


def sensitivity(tree: xr.DataTree, progress: Progress | None = None) -> xr.Dataset:
    """Evaluate the sharp bounds of one head a layer with one parameter changed at a time.

    Args:
        tree: a run with the groups NEEDED.
        progress: called with the share of the work done.

    Returns:
        /sensitivity, as in VARIABLES: bounds (layer, parameter, step, n_envelope), unitless; step
        0 is the fit. NaN where a layer has no head with a complete fit, a parameter is of a sink
        that is not seen, or no vectors have such cosines, whatever ρ₀.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    sizes = capture["n"].values
    inner = sizes[(sizes > 1) & (sizes < capture.sizes["position"])]  # of every part the same
    grid = envelope_grid(inner, POINTS) if inner.size else inner
    layers = list(range(capture.sizes["layer"]))
    names = (*STATISTICS, "attention_weight", "tokens", "sink_visible", "kv_head")
    held = groups | {"capture": some_heads(capture, names)}
    changed = overlapped(partial(_of_layer, held, grid), layers)
    each = changed if grid.size else (_nothing(grid) for _ in layers)
    rows = [row for _, row in zip(tracked(layers, progress), each, strict=True)]
    found: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    coords = {
        "layer": capture["layer"].variable,
        "parameter": words_along("parameter", CHANGED, "the parameter that is changed"),
        "step": xr.Variable(("step",), list(STEPS), {"long_name": "steps from the fit"}),
        "n_envelope": xr.Variable(
            ("n_envelope",), grid, {"long_name": "selected tokens N", "units": "tokens"}
        ),
    }
    attrs = {
        "long_name": "sharp bounds with one parameter changed",
        "gram": GRAM,
        "median_at": _size(capture),
    }
    return xr.Dataset(variables(VARIABLES, found), coords=coords, attrs=attrs)


def _nothing(grid: np.ndarray) -> dict[str, Any]:
    """One layer's numbers, by the names of VARIABLES, while none is known."""
    shape = (len(CHANGED), len(STEPS))
    return {
        **{name: np.full((*shape, grid.size), np.nan) for name in BOUNDS},
        **{name: np.full(grid.size, np.nan) for name in STATISTICS},
        **{name: np.full(shape, np.nan) for name in ("value", "moved")},
        "of_head": np.array(-1),
    }


def _of_layer(groups: Groups, grid: np.ndarray, layer: int) -> dict[str, Any]:
    """Change every parameter of one layer's head: numbers by the names of VARIABLES."""
    capture, found, chosen = groups["capture"], _nothing(grid), _median_head(groups, layer)
    if chosen is None:
        return found
    head, fitted = chosen
    sink = layer_tokens(capture, layer).sink
    found["of_head"] = np.array(int(capture["head"].values[head]))
    for name in STATISTICS:
        found[name] = capture[name].isel(document=0, layer=layer, head=head).sel(n=grid).values
    for at, step in np.ndindex(found["value"].shape):
        if list(CHANGED)[at] in OF_SINK and not sink:
            continue
        if at and STEPS[step] == 0:  # the fit itself, evaluated with the first parameter
            _copy_fit(fitted, (at, step), found)
        else:
            _change(groups, layer, head, fitted, (at, step), grid, found)
    return found


def _copy_fit(fitted: Parameters, at: tuple[int, int], found: dict[str, FloatArray]) -> None:
    """Take what the first parameter has at step 0, in place."""
    for name in (*BOUNDS, "moved"):
        found[name][at] = found[name][0, at[1]]
    found["value"][at] = getattr(fitted, list(CHANGED)[at[0]])


def _change(
    groups: Groups,
    layer: int,
    head: int,
    fitted: Parameters,
    at: tuple[int, int],
    grid: np.ndarray,
    found: dict[str, FloatArray],
) -> None:
    """Evaluate one head with one parameter changed by one step, in place."""
    capture, seen = groups["capture"], layer_tokens(groups["capture"], layer)
    name = list(CHANGED)[at[0]]
    value = CHANGED[name](getattr(fitted, name), STEPS[at[1]])
    changed = replace(fitted, **{name: value})
    found["value"][at] = value
    gram = offset_exponential(changed.beta, changed.c, changed.rho0, seen.tokens)
    if not np.isfinite(gram.edge(seen.content)):
        return
    near = project(gram, seen.tokens, sink=0 if seen.sink else None)
    found["moved"][at] = near.distance
    norms = np.full(seen.tokens, changed.scale)
    norms[0] *= changed.lam  # 1 where the first token is no sink
    weights = document_weights(capture, layer, np.array([head]))[0]
    [bounds] = evaluate(
        weights,
        norms,
        near.gram,
        int(changed.d),
        grid,
        editions=["sharp"],
        sink=seen.sink,
        convention=str(capture.attrs["convention"]),
    )
    for bound in BOUNDS:
        found[bound][at] = bounds[bound][0]


def _median_head(groups: Groups, layer: int) -> tuple[int, Parameters] | None:
    """The head (index) of median Recall among those with complete fits and weights, and its fits;
    None where there is none.
    """
    capture = groups["capture"]
    every = capture["recall"].sel(n=_size(capture)).isel(layer=layer)
    recall = mean_over_documents(every.transpose("document", "head").values).astype(every.dtype)
    known: dict[int, Parameters] = {}
    for head, kv_head in enumerate(value_heads(capture)):
        fitted = _fitted(groups, layer, int(kv_head))
        weights = document_weights(capture, layer, np.array([head]))[0]
        if fitted.known and np.isfinite(weights).all() and np.isfinite(recall[head]):
            known[head] = fitted
    if not known:
        return None
    middle = float(np.median(recall[list(known)]))
    head = min(known, key=lambda one: abs(recall[one] - middle))
    return head, known[head]


def _size(capture: xr.Dataset) -> int:
    """The measured N at which heads are told apart."""
    n = capture["n"].values
    return int(n[np.abs(n - MEDIAN_SIZE).argmin()])


def _fitted(groups: Groups, layer: int, kv_head: int) -> Parameters:
    """The fitted parameters of a value head; of a sink that is not seen ρ₀ = 0 and λ = 1."""
    norm = groups["norms"].isel(layer=layer, kv_head=kv_head)
    similarity = groups["similarity"]
    if GRAM not in similarity["gram"].values:
        nothing = float("nan")
        return Parameters(beta=nothing, c=nothing, rho0=nothing, lam=nothing, d=0, scale=nothing)
    fit = similarity.sel(gram=GRAM).isel(layer=layer, kv_head=kv_head)
    sink = layer_tokens(groups["capture"], layer).sink
    return Parameters(
        beta=float(fit["beta"]),
        c=float(fit["offset"]),
        rho0=float(fit["rho0"]) if sink else 0.0,
        lam=float(norm["lam"]) if sink else 1.0,
        d=float(groups["capture"].attrs["dimension"]),
        scale=float(norm["C"]),
    )
