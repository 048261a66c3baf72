r"""What the model loses where single heads are cut, one row a head, and what tells it.

A head's own N*_τ is the smallest N that was tried with ΔNLL_rel ≤ τ there and at every larger N
that was tried, where that head alone keeps N tokens. Tried are the sizes asked for, then halves of
the gap, down to neighbouring N. Imports numpy and xarray.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, join, variables, words_along
from geostat.experiments.ablation.head_facts import PREDICTORS, Facts
from geostat.experiments.ablation.head_function import (
    GIVEN,
    MODELS,
    Heads,
    associations,
    predictions,
)
from geostat.experiments.ablation.records import GAIN, HEADS
from geostat.experiments.ablation.words import primary_size
from geostat.experiments.effective_size import PLAIN, Cell, crossing, crossing_of, star, star_of
from geostat.experiments.head_regime_rules import REGIMES
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import Estimate, document_mean, jackknife

QUANTILES: Final = (0.5, 0.9)
"""Shares of the heads of which is told what N* they do not exceed."""
SEARCH: Final = ", N*"
"""What a scope ends with where N was tried for N* alone."""


def head_cell(layer: int, head: int, mode: str, n: int, *, search: bool = False) -> Cell:
    """Name the cut of one head; search: at an N that was not asked for, on the way to its N*.

    >>> head_cell(3, 1, "deletion", 8)
    Cell(scope='L3H1', rule='attention', mode='deletion', n=8)
    """
    return Cell(f"L{layer}H{head}{SEARCH if search else ''}", "attention", mode, n)


def sizes_held(losses: Iterable[Cell], shape: tuple[int, int]) -> dict[str, list[int]]:
    """Return the N at which every head, of (layers, heads), was cut alone, by mode."""
    counts: Counter[tuple[str, int]] = Counter(
        (cell.mode, cell.n) for cell in losses if re.fullmatch(r"L\d+H\d+", cell.scope)
    )
    whole = sorted(key for key, count in counts.items() if count == shape[0] * shape[1])
    return {mode: [n for m, n in whole if m == mode] for mode in dict.fromkeys(m for m, _ in whole)}


def curve_of_head(
    losses: Mapping[Cell, FloatArray], layer: int, head: int, mode: str
) -> dict[int, FloatArray]:
    """Return the losses where one head alone is cut, (document), by N, ascending."""
    scopes = {head_cell(layer, head, mode, 0, search=search).scope for search in (False, True)}
    found = {
        cell.n: loss
        for cell, loss in losses.items()
        if cell.scope in scopes and cell.mode == mode and cell.n
    }
    return dict(sorted(found.items()))


def heads_dataset(losses: Mapping[Cell, FloatArray], facts: Facts, tau: float) -> xr.Dataset | None:
    """Return what single heads cost, and what tells it: HEADS; None where that was not measured.

    Args:
        losses: by cut, (document), the model's own under PLAIN.
        facts: what is known of heads, at every N at which all heads were cut.
        tau: by which share the loss may rise at a head's own N*.
    """
    held = sizes_held(losses, facts.shape)
    parts = [_of_mode(losses, facts, mode, sizes, tau) for mode, sizes in held.items()]
    if not parts:
        return None
    data = xr.concat(parts, "mode", join="outer", combine_attrs="override")
    sizes = sorted(data["n"].values.tolist())
    outcomes = [*(f"rise at N = {n}" for n in sizes), _star_name(tau)]
    words = words_along("outcome", outcomes, "what the model loses")
    data = data.reindex(n=sizes, outcome=outcomes)
    return data.assign_coords(outcome=words, **along_sizes(sizes))


def _of_mode(
    losses: Mapping[Cell, FloatArray], facts: Facts, mode: str, sizes: Sequence[int], tau: float
) -> xr.Dataset:
    layers, heads = facts.shape
    places = np.ndindex(layers, heads)
    curves = [curve_of_head(losses, layer, head, mode) for layer, head in places]
    plain = losses[PLAIN]
    rise = np.stack([[curve[n] / plain - 1 for curve in curves] for n in sizes])
    rise = np.moveaxis(rise, -1, 0)  # (document, n, head)
    weights = facts.of_weights(sizes)
    # limits are those of each head alone, whole numbers up to T: not moderated over heads
    stars = [
        replace(star(plain, curve, tau, facts.tokens, first=sizes), skew=None) for curve in curves
    ]
    outcomes = _outcomes(rise, sizes)
    settled = all(np.isfinite(one.value) for one in stars)
    if settled:
        outcomes.append(_star_outcome(plain, curves, sizes, tau, facts.tokens))
    correlations, told, counts = [], [], []
    for outcome in outcomes:
        of = Heads(
            rise=outcome.rise,
            outcome=outcome.of,
            known=facts.predictors(outcome.n),
            layer=np.repeat(np.arange(layers), heads),
        )
        correlations.append(associations(of))
        found, count = predictions(of, weights)
        told.append(found)
        counts.append(count)
    groups = {"all": np.ones(layers * heads, dtype=bool)}
    groups |= {name: facts.of_regime(name).ravel() for name in REGIMES[1:]}
    numbers: dict[str, Value] = {
        "group_heads": np.array([[int(group.sum()) for group in groups.values()]]),
        **needs_of_groups(plain, curves, tau, facts.tokens, list(groups.values()), settled=settled),
        "head_rise": _stacked([document_mean(rise.reshape(*rise.shape[:2], layers, heads))]),
        "head_n_star": _stacked([_stacked(stars, (layers, heads))]),
        "head_steps_up": np.array([_steps_up(plain, one) for one in curves]).reshape(
            1, layers, heads
        ),
        "rank_correlation": _stacked([_stacked(correlations)]),
        "told": _stacked([_stacked(told)]),
        "told_heads": np.array([counts]),
    }
    names = [_star_name(tau) if one.n_star else f"rise at N = {one.n}" for one in outcomes]
    coords = {
        "mode": [mode],
        "outcome": words_along("outcome", names, "what the model loses"),
        "known": words_along("known", PREDICTORS, "what is known of a head"),
        "given": words_along("given", GIVEN, "what is held fixed"),
        "group": words_along("group", groups, "heads: all, or of a regime (by sizes)"),
        "quantile": xr.Variable("quantile", list(QUANTILES), {"long_name": "share of the heads"}),
        "told_by": words_along("told_by", (*MODELS, GAIN), "what tells of layers left out"),
    }
    return xr.Dataset(variables(HEADS, numbers), coords=coords | along_sizes(sizes))


def _steps_up(plain: FloatArray, curve: Mapping[int, FloatArray]) -> int:
    """Count the neighbours among the N tried, the window last, from one to the next of which the
    mean rise grows.
    """
    means = [*((curve[n] / plain - 1).mean() for n in sorted(curve)), 0.0]
    return int((np.diff(means) > 0).sum())


def needs_of_groups(
    plain: FloatArray,
    curves: Sequence[Mapping[int, FloatArray]],
    tau: float,
    tokens: int,
    groups: Sequence[BoolArray],
    *,
    settled: bool,
) -> dict[str, Value]:
    """Return which share of the heads of each group needs one token, (1, group), and the N* that a
    share of them does not exceed, (1, group, quantile), with jackknives over documents; NaN of a
    group without heads, and unless every head's search is over.
    """
    each = [crossing(plain, curve, tau, tokens) for curve in curves]
    place = np.array([value for value, _ in each])
    without = np.stack([fewer for _, fewer in each], axis=1)  # (document, head)
    shares, needed = [], []
    for group in groups:
        known = group if settled else np.zeros_like(group)
        one, ones = (_share_of_one(values[..., known]) for values in (place, without))
        share = jackknife(one, ones)
        limits = {name: np.clip(getattr(share, name), 0, 1) for name in ("lower", "upper")}
        shares.append(replace(share, **limits))
        logs, fewer = (_quantiles(np.log(values[..., known])) for values in (place, without))
        needed.append(star_of(logs, fewer, tokens))
    return {
        "head_share_of_one": _stacked([_stacked(shares)]),
        "head_needed": _stacked([_stacked(needed)]),
    }


def _share_of_one(places: FloatArray) -> FloatArray:
    """The share of the last axis that is 1, NaN of none."""
    return np.asarray(
        (places <= 1).mean(axis=-1) if places.shape[-1] else np.full(places.shape[:-1], np.nan)
    )


def _quantiles(logs: FloatArray) -> FloatArray:
    """Quantiles of the last axis, (..., quantile), NaN of none."""
    if not logs.shape[-1]:
        return np.full((*logs.shape[:-1], len(QUANTILES)), np.nan)
    return np.moveaxis(np.quantile(logs, QUANTILES, axis=-1, method="inverted_cdf"), 0, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the model loses by a head."""

    n: int
    """N at which the head's curves are taken."""
    rise: FloatArray
    """What it is told from, (document, size, head); NaN where a head was not cut."""
    of: Callable[[FloatArray], FloatArray]
    """From mean rises, (size, head)."""
    n_star: bool = False


def _outcomes(rise: FloatArray, sizes: Sequence[int]) -> list[Outcome]:
    """Return the rise at each N."""

    def at_size(at: int, mean: FloatArray) -> FloatArray:
        return mean[at]

    return [Outcome(n=n, rise=rise, of=partial(at_size, at)) for at, n in enumerate(sizes)]


def _star_outcome(
    plain: FloatArray,
    curves: Sequence[Mapping[int, FloatArray]],
    sizes: Sequence[int],
    tau: float,
    tokens: int,
) -> Outcome:
    """Return heads' own N*, before it is rounded up, told by curves at the primary N."""
    every = sorted({n for curve in curves for n in curve})
    rise = np.full((len(plain), len(every), len(curves)), np.nan)
    for at, curve in enumerate(curves):
        rise[:, [every.index(n) for n in curve], at] = np.stack(list(curve.values()), axis=1)
    rise = rise / plain[:, None, None] - 1

    def of(mean: FloatArray) -> FloatArray:
        found = []
        for row in mean.T:
            tried = np.isfinite(row)
            ends = [*np.array(every)[tried].tolist(), tokens]
            found.append(crossing_of(ends, np.append(row[tried], 0.0), tau))
        return np.array(found)

    return Outcome(n=primary_size(sizes), rise=rise, of=of, n_star=True)


def _star_name(tau: float) -> str:
    return f"N* at {100 * tau:.3g}%"


def along_sizes(sizes: Sequence[int]) -> dict[str, Any]:
    """Return the coordinate of N."""
    return {"n": xr.Variable("n", list(sizes), {"long_name": "tokens that a head keeps"})}


def _stacked(each: Sequence[Estimate], shape: tuple[int, ...] | None = None) -> Estimate:
    """Return estimates along a new first axis, or along axes of this shape."""

    def stack(parts: Sequence[FloatArray]) -> FloatArray:
        out = np.stack(parts)
        return out if shape is None else out.reshape(*shape, *out.shape[1:])

    return cast("Estimate", join(each, stack))
