"""Effective attention set size as a dataset (/effective): all losses, N* by scope, rule and mode,
and rank correlations of separability with the loss over N.

Source: arXiv 2609.37879. Rank correlations of mean Precision, Recall and F with the relative rise
of the loss are over powers of two, which every search evaluates, so the sizes do not depend on N*.
Two curves that both decrease with N have a rank correlation of 1 for this reason alone. Imports
numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.analyses.effective_size import Cell, curve_of, next_size, rises, star
from geostat.datasets.separability import WITH_F
from geostat.datasets.table import quantities
from geostat.datasets.variable import (
    Value,
    entries,
    interval,
    known,
    stacked,
    variables,
    words_along,
)
from geostat.statistics.arrays import FloatArray, ranks, ratio
from geostat.statistics.jackknife import Estimate, document_mean, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents

RANGES: Final = {"all": 1, "from 8": 8}
"""Ranges of N, with the smallest N of each."""
LEAST: Final = 4
"""Fewest sizes of a correlation."""
SOURCE: Final = "arXiv 2609.37879"
GEOMETRY: Final = quantities(
    r"""
    rank_correlation | 1 | \rho_S | rank correlation over N (powers of two) of a curve, mean over
        heads and documents, with the mean relative loss increase | estimated
    sizes | 1 | - | number of sizes N in the correlation | dims: mode range | none
    """,
    dims=("mode", "statistic", "range"),
    equation=SOURCE,
)


def over_sizes(
    measured: xr.Dataset, plain: FloatArray, losses: Mapping[Cell, FloatArray]
) -> xr.Dataset | None:
    """Correlate curves of a run with losses when all heads keep the N largest weights.

    Args:
        measured: /capture, averaged over queries.
        plain: losses without intervention, (document,).
        losses: losses by intervention, (document,) each.

    Returns:
        `rank_correlation` (mode, statistic, range) and `sizes` (mode, range); the correlation is
        NaN with fewer than LEAST sizes or a constant curve. None without such interventions.
    """
    modes = list(dict.fromkeys(cell.mode for cell in losses))
    if not any(cell[:2] == ("all", "attention") for cell in losses):
        return None
    shape = (len(modes), len(WITH_F), len(RANGES))
    value, counts = np.full(shape, np.nan), np.zeros((len(modes), len(RANGES)))
    without = np.full((len(plain), *shape), np.nan)
    powers = [n for n in measured["n"].values.tolist() if n & (n - 1) == 0]
    for index, mode in enumerate(modes):
        curve = curve_of(losses, "all", "attention", mode)
        rise = rises(plain, {n: loss for n, loss in curve.items() if n in powers})
        for place, least in enumerate(RANGES.values()):
            sizes = [n for n in rise if n >= least]
            counts[index, place] = len(sizes)
            if len(sizes) < LEAST:
                continue
            rises_by_size = np.stack([rise[n] for n in sizes], axis=1)  # (document, n)
            for column, statistic in enumerate(WITH_F):
                pair = _curve(measured[statistic], sizes), rises_by_size
                value[index, column, place] = spearman(*map(mean_over_documents, pair))
                without[:, index, column, place] = spearman(*map(leave_one_out_mean, pair))
    numbers: dict[str, Value] = {"rank_correlation": jackknife(value, without), "sizes": counts}
    coords = {
        "mode": words_along("mode", modes, "treatment of unselected tokens"),
        "statistic": words_along("statistic", WITH_F, "measure of separability"),
        "range": words_along("range", RANGES, "range of N"),
    }
    return xr.Dataset(variables(GEOMETRY, numbers), coords=coords)


def _curve(values: xr.DataArray, sizes: list[int]) -> FloatArray:
    """Return the mean over heads by document, (document, n)."""
    selected = values.sel(n=sizes).astype(np.float64)
    others = [name for name in selected.dims if name not in ("document", "n")]
    return selected.mean(others).transpose("document", "n").values


def spearman(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the rank correlation along the last axis; NaN if one of the two is constant.

    >>> float(spearman(np.array([1.0, 2.0, 4.0]), np.array([9.0, 8.0, 1.0])))
    -1.0
    """
    a, b = (ranks(x) for x in (first, second))
    a, b = (x - x.mean(axis=-1, keepdims=True) for x in (a, b))
    return ratio((a * b).sum(axis=-1), np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1)))


VARIABLES: Final = quantities(
    r"""
    plain_loss | nats | \mathrm{NLL} | mean next-token loss without intervention | dims: document |
        none
    loss | nats | \mathrm{NLL}(N) | mean next-token loss with N selected tokens for every query of
        the scope | dims: scope rule mode n document
    loss_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}}(N) | relative loss increase with N selected
        tokens, mean over documents | dims: scope rule mode n | estimated
    n_star | tokens | N^*_\tau | effective attention set size: smallest N from which the loss
        increases by at most tau | dims: scope rule mode tau | estimated
    steps_up | 1 | - | number of steps between evaluated N at which the loss increases with N | none
    largest_step_up | 1 | \max \delta \Delta\mathrm{NLL}_{\mathrm{rel}} | largest increase of the
        relative loss from one evaluated N to the next | none
    """,
    dims=("scope", "rule", "mode"),
    equation=SOURCE,
)
SETS: Final = quantities(
    r"""
    set_loss | nats | - | mean next-token loss with the set selected by the rule
    set_loss_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}} | relative loss increase with the set
        selected by the rule, mean over documents | dims: scope set_rule mode | estimated
    set_size | tokens | - | tokens in the set selected by the rule, mean over queries, heads and
        layers
    """,
    dims=("scope", "set_rule", "mode", "document"),
)


RECORDS: Final = (*VARIABLES, *SETS, *GEOMETRY)
"""Records of /effective."""


def effective_dataset(
    plain: FloatArray,
    losses: Mapping[Cell, FloatArray],
    sizes: Mapping[Cell, FloatArray],
    *,
    taus: Sequence[float],
    tokens: int,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Return /effective from all measured losses.

    Args:
        plain: losses without intervention, (document,), nats.
        losses: losses by intervention, (document,) each.
        sizes: mean size of the sets of set rules, (document,) each.
        taus: relative rises τ for which N* is reported.

    Returns:
        VARIABLES, and SETS if set rules were measured; NaN for interventions that were not
        measured. A search resumes from `loss`, which has every measured N.
    """
    rankings = {cell: loss for cell, loss in losses.items() if cell.n}
    sets = {cell: loss for cell, loss in losses.items() if not cell.n}
    scopes, modes = _words(losses, "scope"), _words(losses, "mode")
    coords = {
        "tau": xr.Variable("tau", list(taus), {"long_name": "largest relative loss increase"}),
        "scope": words_along("scope", scopes, "layers and heads of the intervention"),
        "mode": words_along("mode", modes, "treatment of unselected tokens"),
    }
    attrs = {"long_name": "effective attention set size", "tokens": tokens, **attributes}
    data = xr.Dataset(variables(VARIABLES[:1], {"plain_loss": plain}), coords=coords, attrs=attrs)
    if rankings:
        data = data.merge(_curves(plain, rankings, scopes, modes, taus, tokens))
    if sets:
        data = data.merge(_sets(plain, sets, scopes, modes, sizes))
    return data


def _array(rows: Mapping[Cell, FloatArray], *labels: Sequence[Any]) -> FloatArray:
    """Return rows by scope, rule, mode and n, (..., document); NaN where not measured."""
    documents = len(next(iter(rows.values())))
    array = np.full((*map(len, labels), documents), np.nan)
    for cell, row in rows.items():
        array[tuple(names.index(name) for names, name in zip(labels, cell, strict=True))] = row
    return array


def _curves(
    plain: FloatArray,
    losses: Mapping[Cell, FloatArray],
    scopes: list[str],
    modes: list[str],
    taus: Sequence[float],
    tokens: int,
) -> xr.Dataset:
    """Return VARIABLES of rules that rank tokens."""
    rules, sizes = _words(losses, "rule"), sorted({cell.n for cell in losses})
    shape = (len(scopes), len(rules), len(modes))
    up, largest = np.full(shape, np.nan), np.full(shape, np.nan)
    stars = []
    for place in np.ndindex(shape):
        curve = curve_of(losses, scopes[place[0]], rules[place[1]], modes[place[2]])
        stars += [star(plain, curve, tau, tokens) for tau in taus]
        if next_size(plain, curve, (), tokens) is None:  # the search was not interrupted
            steps = np.diff([*(row.mean() for row in rises(plain, curve).values()), 0.0])
            up[place], largest[place] = (steps > 0).sum(), max(steps.max(), 0.0)
    loss = _array(losses, scopes, rules, modes, sizes)
    numbers: dict[str, Value] = {
        "loss": loss,
        "loss_rise": _mean_rise(loss / plain),
        "n_star": stacked(stars, *shape, len(taus)),
        "steps_up": up,
        "largest_step_up": largest,
    }
    coords = {
        "rule": words_along("rule", rules, "rule that selects tokens"),
        "n": xr.Variable("n", sizes, {"long_name": "selected tokens of a query"}),
    }
    return xr.Dataset(variables(VARIABLES[1:], numbers), coords=coords)


def _mean_rise(ratio: FloatArray) -> Estimate:
    """Return the mean rise over documents from ratios of losses, (..., document); limits are at
    least −1, since losses are not negative.
    """
    rise = document_mean(np.moveaxis(ratio - 1, -1, 0))
    return replace(rise, lower=np.maximum(rise.lower, -1.0), upper=np.maximum(rise.upper, -1.0))


def _sets(
    plain: FloatArray,
    losses: Mapping[Cell, FloatArray],
    scopes: list[str],
    modes: list[str],
    sizes: Mapping[Cell, FloatArray],
) -> xr.Dataset:
    """Return SETS of rules that determine the number of selected tokens."""
    rules = _words(losses, "rule")
    loss, size = (
        _array({cell: rows[cell] for cell in losses}, scopes, rules, modes, [0])[..., 0, :]
        for rows in (losses, sizes)
    )
    rise = _mean_rise(loss / plain)
    numbers: dict[str, Value] = {"set_loss": loss, "set_loss_rise": rise, "set_size": size}
    coords = {"set_rule": words_along("set_rule", rules, "rule that selects a set")}
    return xr.Dataset(variables(SETS, numbers), coords=coords)


def _words(losses: Iterable[Cell], name: str) -> list[str]:
    """Return scopes, rules or modes in order of first appearance."""
    return list(dict.fromkeys(getattr(cell, name) for cell in losses))


def cells_of(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return the losses of an /effective dataset and the sizes of its sets, by intervention."""
    by_name: dict[str, dict[Cell, FloatArray]] = {}
    for name, rule in (("loss", "rule"), ("set_loss", "set_rule"), ("set_size", "set_rule")):
        by_name[name] = {}
        for place, labels in entries(data.isel(document=0), name, every=True):
            row = data[name].values[place]
            if np.isfinite(row).all():
                cell = Cell(labels["scope"], labels[rule], labels["mode"], labels.get("n", 0))
                by_name[name][cell] = row
    return by_name["loss"] | by_name["set_loss"], by_name["set_size"]


def summary(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return the effective set sizes as lines, or as records if `everything`."""
    if everything:
        return {"effective": _star_records(data), "sets": _set_records(data)}
    lines: dict[str, list[str]] = {}
    for row in _star_records(data):
        key = f"{row['scope']}: {row['rule']}, {row['mode']}"
        lines.setdefault(key, []).append(_star(row))
    stars = [f"{key}: {', '.join(parts)}{_steps(data, key)}" for key, parts in lines.items()]
    return {"effective": stars + [_set(row) for row in _set_records(data)]}


def _star_records(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return a record for each N* whose search is complete."""
    return [
        labels
        | {"n_star": float(data["n_star"][place]), **interval(data, "n_star", place)}
        | {"steps_up": int(data["steps_up"][place[:-1]])}
        | {"largest_step_up": known(data["largest_step_up"][place[:-1]])}
        | {"documents": data.sizes["document"]}
        for place, labels in entries(data, "n_star")
    ]


def _set_records(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return a record for each set rule."""
    return [
        labels
        | {"tokens": float(data["set_size"][place].mean())}
        | {"loss_rise": float(data["set_loss_rise"][place])}
        | interval(data, "set_loss_rise", place)
        | {"documents": data.sizes["document"]}
        for place, labels in entries(data, "set_loss_rise")
    ]


def _star(row: Mapping[str, Any]) -> str:
    limits = "" if row["lower"] is None else f" ({row['lower']:.0f} to {row['upper']:.0f})"
    noun, verb = ("token", "keeps") if row["n_star"] == 1 else ("tokens", "keep")
    return f"{row['n_star']:.0f} {noun}{limits} {verb} the loss within {100 * row['tau']:.3g}%"


def _set(row: Mapping[str, Any]) -> str:
    low, high = row["lower"], row["upper"]
    limits = "" if low is None else f" ({100 * low:+.1f}% to {100 * high:+.1f}%)"
    return (
        f"{row['scope']}: {row['set_rule']}, {row['mode']}: keeps {row['tokens']:.1f} tokens, the"
        f" loss changes by {100 * row['loss_rise']:+.1f}%{limits}"
    )


def _steps(data: xr.Dataset, key: str) -> str:
    """Say at how many steps the loss rises with N; "" if there are none."""
    scope, method = key.rsplit(": ", 1)
    rule, mode = method.split(", ")
    selected = data.sel(scope=scope, rule=rule, mode=mode)
    if not (count := int(selected["steps_up"])):
        return ""
    return (
        f"; the loss rises with N at {count} steps between evaluated N, by up to"
        f" {100 * float(selected['largest_step_up']):.2g}%"
    )
