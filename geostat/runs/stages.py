"""Stages after the capture, from datasets to datasets: the fits, and the confrontation with the
bounds. Imports xarray and theory; no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import xarray as xr

from geostat.bounds.by_document import EDITIONS, ENVELOPE_POINTS
from geostat.bounds.cost_of_assumptions import swap_ingredients
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.predictive.curves import predictive_curves
from geostat.bounds.sensitivity import sensitivity
from geostat.datasets.overlap import spread_over
from geostat.datasets.parts import by_part
from geostat.errors import InputError, refuse_unknown
from geostat.experiments.chance import compare_with_nulls
from geostat.experiments.found_sinks import summarise_sinks
from geostat.experiments.head_regimes import classify_heads
from geostat.experiments.kinds_of_text import between_kinds, kinds_of
from geostat.experiments.sink import correlate_with_sink
from geostat.fits.norms.fit import fit_norms
from geostat.fits.pooled.fit import fit_pooled
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights
from geostat.runs.console import QUIET, Console
from geostat.runs.groups import CONFRONTED, joined, measured, tree_of
from geostat.verdicts.answers import give_verdicts
from geostat.verdicts.sentences import summarise
from geostat.verdicts.tolerances import Tolerance
from theory.head.results import Edition


def fitted(
    captured: xr.Dataset, *, cluster: Any = None, console: Console = QUIET
) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 to a /capture dataset (of several queries what `groups.measured`
    returns): norms, similarity, weights, pooled, by group.

    Layers that see different numbers of tokens are fitted apart (`geostat.datasets.parts`).
    `cluster` names the workers that do it (`geostat.datasets.overlap`); None: this process.

    Raises:
        InputError: if a variable is missing, no head can be fitted, or there are no such workers.
    """
    with spread_over(cluster):
        return by_part(partial(_fit_part, console=console), tree_of({"capture": captured}))


def _fit_part(tree: xr.DataTree, *, console: Console) -> dict[str, xr.Dataset]:
    """Fit the layers of one part, or of a run that is its only part."""
    captured, out = tree["capture"].to_dataset(), {}
    for name, function in (
        ("norms", fit_norms),
        ("similarity", fit_similarity),
        ("weights", fit_weights),
    ):
        console.stage(f"fit {name}")
        out[name] = function(captured, progress=partial(console.fraction, f"fit {name}"))
    console.stage("fit pooled heads")
    out["pooled"] = fit_pooled(captured)
    return out


def confronted(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition] = EDITIONS,
    points: int | None = ENVELOPE_POINTS,
    tolerances: Mapping[str, Tolerance] | None = None,
    swap: bool = True,
    predict: bool = False,
    cluster: Any = None,
    console: Console = QUIET,
) -> dict[str, xr.Dataset]:
    """Evaluate the bounds of a captured and fitted run, lay them over the measured curves, make the
    experiments, give the verdicts: datasets by group.

    Earlier confrontations in `tree` are not looked at; `tolerances` are by claim. Layers that see
    different numbers of tokens are confronted apart (`geostat.datasets.parts`). `cluster` is as for
    `fitted`, the rest as for `geostat.confront`.
    """
    _refuse_older_fits(tree)
    confront_part = partial(
        _confront_part,
        editions=editions,
        points=points,
        tolerances=tolerances,
        swap=swap,
        predict=predict,
        console=console,
    )
    with spread_over(cluster):
        return by_part(confront_part, tree.drop_nodes(CONFRONTED, errors="ignore"))


def _confront_part(
    tree: xr.DataTree,
    *,
    editions: Sequence[Edition],
    points: int | None,
    tolerances: Mapping[str, Tolerance] | None,
    swap: bool,
    predict: bool,
    console: Console,
) -> dict[str, xr.Dataset]:
    """Confront the layers of one part, or of a run that is its only part."""
    console.stage("confront")
    out = {
        "envelope": envelope_dataset(
            tree, editions=editions, points=points, progress=partial(console.fraction, "confront")
        )
    }
    if swap:
        console.stage("cost of assumptions")
        out["ingredients"] = swap_ingredients(
            tree, progress=partial(console.fraction, "cost of assumptions")
        )
        console.stage("sensitivity of the bounds")
        out["sensitivity"] = sensitivity(
            tree, progress=partial(console.fraction, "sensitivity of the bounds")
        )
    if predict:
        console.stage("predict curves")
        out["predictive"] = predictive_curves(
            tree, progress=partial(console.fraction, "predict curves")
        )
    console.stage("experiments")
    out |= experiments(tree)
    out["verdicts"] = give_verdicts(
        joined(tree, tree_of({"envelope": out["envelope"]})), tolerances
    )
    summary = summarise(joined(tree, tree_of(out)), tolerances)
    return out | {"summary": summary.merge(between_kinds(tree, kinds_of(tree)))}


def _refuse_older_fits(tree: xr.DataTree) -> None:
    """Refuse fits that were made before the shares in common were known, which the summary tells.

    Raises:
        InputError: telling what is missing, and how to renew the fits.
    """
    if "common_share" not in tree["weights"].to_dataset():
        raise InputError(
            "the run's fits were made by an older geostat: /weights has no common_share. Run"
            " `geostat fit` on it again."
        )


def experiments(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Make every experiment of a run with /capture and, if measured, /queries, /sinks and /null:
    sink, sinks_found, heads (at the last query) and separable, by group.
    """
    capture = measured(tree)
    null = tree["null"].to_dataset() if "null" in tree.children else None
    found = (
        {"sinks_found": summarise_sinks(capture, tree["sinks"].to_dataset(), tree.attrs)}
        if "sinks" in tree.children
        else {}
    )
    return found | {
        "sink": correlate_with_sink(capture),
        "heads": classify_heads(tree["capture"].to_dataset()),
        "separable": compare_with_nulls(capture, null),
    }


def chosen_editions(names: Sequence[str] | None) -> tuple[Edition, ...]:
    """Read edition names; all when none is given."""
    for name in names or ():
        refuse_unknown(name, EDITIONS, f"--edition {name}:", verb="Name")
    return tuple(edition for edition in EDITIONS if not names or edition in names)


def envelope_points(text: str) -> int | None:
    """Read `geostat confront --n`: default or all."""
    if text not in {"default", "all"}:
        raise InputError(f"--n {text}: expected default or all. Use one of those.")
    return ENVELOPE_POINTS if text == "default" else None
