"""Stages after the capture, on datasets: the fits and the confrontation with the bounds.

Imports xarray and theory; no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import xarray as xr

from geostat.analyses.chance import compare_with_nulls
from geostat.analyses.found_sinks import summarise_sinks
from geostat.analyses.head_regimes import classify_heads
from geostat.analyses.kinds_of_text import between_kinds, by_kind, kinds_of
from geostat.analyses.sink import correlate_with_sink
from geostat.bounds.by_document import EDITIONS, ENVELOPE_POINTS
from geostat.bounds.cost_of_assumptions import swap_ingredients
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.predictive.curves import predictive_curves
from geostat.bounds.sensitivity import sensitivity
from geostat.datasets.overlap import spread_over
from geostat.datasets.parts import by_part
from geostat.errors import InputError
from geostat.fits.amended.fit import fit_amended
from geostat.fits.amended.prediction import fitted_separability
from geostat.fits.norms.fit import fit_norms
from geostat.fits.pooled import fit_pooled
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights
from geostat.runs.console import QUIET, Console
from geostat.runs.groups import CONFRONTED, joined, measured, tree_of
from geostat.topics.records import Tolerance
from geostat.topics.summary import summarise
from geostat.topics.verdicts import give_verdicts
from theory.head.results import Edition


def fitted(
    captured: xr.Dataset, *, cluster: Any = None, console: Console = QUIET
) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 to a /capture dataset.

    Layers that see different numbers of tokens are fitted separately (`geostat.datasets.parts`).

    Args:
        captured: /capture, averaged over queries by `groups.measured`.
        cluster: workers that fit (`geostat.datasets.overlap`); None for this process.

    Returns:
        Datasets by group: norms, similarity, weights, pooled.

    Raises:
        InputError: if a variable is missing, no head can be fitted, or the workers cannot be
            reached.
    """
    with spread_over(cluster):
        return by_part(partial(_fit_part, console=console), tree_of({"capture": captured}))


def _fit_part(tree: xr.DataTree, *, console: Console) -> dict[str, xr.Dataset]:
    """Fit the layers of one part of a run."""
    captured, fits = tree["capture"].to_dataset(), {}
    for name, function in (
        ("norms", fit_norms),
        ("similarity", fit_similarity),
        ("weights", fit_weights),
    ):
        console.stage(f"fit {name}")
        fits[name] = function(captured, progress=partial(console.fraction, f"fit {name}"))
    console.stage("fit pooled heads")
    fits["pooled"] = fit_pooled(captured)
    return fits


def confronted(
    tree: xr.DataTree, *, cluster: Any = None, console: Console = QUIET, **kwargs: Any
) -> dict[str, xr.Dataset]:
    """Evaluate the bounds of a fitted run, compare them with the measured curves, give the
    verdicts.

    Layers that see different numbers of tokens are confronted separately
    (`geostat.datasets.parts`).

    Args:
        tree: a captured and fitted run; earlier confrontations in it are ignored.
        cluster: as for `fitted`.
        kwargs: `editions`, `points`, `swap` and `predict` as for `geostat.confront`; `tolerances`
            by claim.

    Returns:
        Datasets by group.

    Raises:
        InputError: if an older geostat made the fits.
    """
    if "gain_over_constant" not in tree["weights"].to_dataset():
        raise InputError(
            "the run's fits were made by an older geostat: /weights has no gain_over_constant. Run"
            " `geostat fit` on it again."
        )
    confront_part = partial(_confront_part, console=console, **kwargs)
    with spread_over(cluster):
        return by_part(confront_part, tree.drop_nodes(CONFRONTED, errors="ignore"))


def _confront_part(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    points: int | None = ENVELOPE_POINTS,
    tolerances: Mapping[str, Tolerance] | None = None,
    swap: bool = True,
    predict: bool = False,
    console: Console,
) -> dict[str, xr.Dataset]:
    """Confront the layers of one part of a run."""
    bounds = partial(envelope_dataset, editions=editions, points=points)
    groups: tuple[tuple[str, str, Callable[..., xr.Dataset], bool], ...] = (
        ("envelope", "confront", bounds, True),
        ("ingredients", "cost of assumptions", swap_ingredients, swap),
        ("sensitivity", "sensitivity of the bounds", sensitivity, swap),
        ("predictive", "predict curves", predictive_curves, predict),
        ("fitted", "predict heads by rank", fitted_separability, predict and _has_ranks(tree)),
    )
    if predict and "ranks" not in tree.children:
        console.stage("no prediction by rank: an older geostat captured the run; capture it again")
    console.stage("analyses")
    results = analyses(tree)
    analysed = joined(tree, tree_of(results))
    for name, stage, evaluate, enabled in groups:
        if enabled:
            console.stage(stage)
            results[name] = evaluate(analysed, progress=partial(console.fraction, stage))
    results["verdicts"] = give_verdicts(
        joined(tree, tree_of({"envelope": results["envelope"]})), tolerances
    )
    summary = summarise(joined(tree, tree_of(results)), tolerances)
    kinds = kinds_of(tree)
    of_kinds = between_kinds(tree, kinds).merge(by_kind(tree, kinds))
    return results | {"summary": summary.merge(of_kinds)}


def _has_ranks(tree: xr.DataTree) -> bool:
    """Return whether a run has /ranks of the two documents that a prediction by rank needs."""
    return "ranks" in tree.children and tree["ranks"].sizes["document"] > 1


def analyses(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Return the analyses of a captured run by group: sink, sinks_found, amended, heads, separable.

    They read /capture and, if measured, /queries, /sinks, /ranks and /null. /heads uses the last
    query.
    """
    capture = measured(tree)
    null = tree["null"].to_dataset() if "null" in tree.children else None
    results = {}
    if "sinks" in tree.children:
        results["sinks_found"] = summarise_sinks(capture, tree["sinks"].to_dataset(), tree.attrs)
    if "ranks" in tree.children:
        results["amended"] = fit_amended(tree["ranks"].to_dataset())
    return results | {
        "sink": correlate_with_sink(capture),
        "heads": classify_heads(tree["capture"].to_dataset()),
        "separable": compare_with_nulls(capture, null),
    }
