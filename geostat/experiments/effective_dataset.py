"""The effective attention set size as a dataset: every loss that was measured, and N* by scope,
rule and mode. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, variables, words_along
from geostat.experiments.effective_size import Cell, next_size, rises, star
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, document_mean

CURVE: Final = ("scope", "rule", "mode")
SET: Final = ("scope", "set_rule", "mode")
SOURCE: Final = "arXiv 2609.37879"

_RISE = r"\Delta\mathrm{NLL}_{\mathrm{rel}}"
VARIABLES: Final = (
    Variable(
        "plain_loss",
        "mean next-token loss of the model as it is",
        "nats",
        r"\mathrm{NLL}",
        dims=("document",),
    ),
    Variable(
        "loss",
        "mean next-token loss where every query of the scope keeps N tokens",
        "nats",
        r"\mathrm{NLL}(N)",
        SOURCE,
        dims=(*CURVE, "n", "document"),
    ),
    Variable(
        "loss_rise",
        "relative rise of the loss where every query keeps N tokens, mean over documents",
        symbol=f"{_RISE}(N)",
        equation=SOURCE,
        dims=(*CURVE, "n"),
        estimated=True,
    ),
    Variable(
        "n_star",
        "effective attention set size: from this N on the loss rises by at most tau",
        "tokens",
        r"N^*_\tau",
        SOURCE,
        dims=(*CURVE, "tau"),
        estimated=True,
    ),
    Variable(
        "steps_up",
        "steps between neighbouring N that were tried at which the loss rises with N",
        dims=CURVE,
    ),
    Variable(
        "largest_step_up",
        "largest rise of the relative loss from one N that was tried to the next",
        symbol=rf"\max \delta {_RISE}",
        dims=CURVE,
    ),
)
SETS: Final = (
    Variable(
        "set_loss",
        "mean next-token loss where every query keeps the rule's own set",
        "nats",
        dims=(*SET, "document"),
    ),
    Variable(
        "set_loss_rise",
        "relative rise of the loss where every query keeps the rule's own set, mean over documents",
        symbol=_RISE,
        dims=SET,
        estimated=True,
    ),
    Variable(
        "set_size",
        "tokens that the rule's own set holds, mean over queries, heads and layers",
        "tokens",
        dims=(*SET, "document"),
    ),
)


def effective_dataset(
    plain: FloatArray,
    losses: Mapping[Cell, FloatArray],
    sizes: Mapping[Cell, FloatArray],
    *,
    taus: Sequence[float],
    tokens: int,
    told: Mapping[str, Any],
) -> xr.Dataset:
    """Return /effective from every loss that was measured.

    Args:
        plain: losses of the model as it is, (document), in nats.
        losses: those under interventions, (document).
        sizes: of sets of the rules' own, mean tokens they hold, (document).
        taus: the shares τ of which N* is told.
        tokens: of a window.
        told: further attributes.

    Returns:
        The variables of VARIABLES, and, where sets were measured, of SETS; NaN where an
        intervention was not made. `loss` holds all that is known of an N, so one may go on later.
    """
    ranked = {cell: loss for cell, loss in losses.items() if cell.n}
    own = {cell: loss for cell, loss in losses.items() if not cell.n}
    scopes, modes = _words(losses, "scope"), _words(losses, "mode")
    data = xr.Dataset(
        coords={
            "tau": xr.Variable(
                "tau", list(taus), {"long_name": "share by which the loss may rise"}
            ),
            "scope": words_along("scope", scopes, "layers and heads that are intervened on"),
            "mode": words_along("mode", modes, "what becomes of tokens that are not kept"),
        }
    )
    data.attrs = {"long_name": "effective attention set size", "tokens": tokens, **told}
    data["plain_loss"] = variables(VARIABLES[:1], {"plain_loss": plain})["plain_loss"]
    if ranked:
        data = data.merge(_curves(plain, ranked, scopes, modes, taus, tokens))
    if own:
        data = data.merge(_sets(plain, own, scopes, modes, sizes))
    return data


def _curves(
    plain: FloatArray,
    losses: Mapping[Cell, FloatArray],
    scopes: list[str],
    modes: list[str],
    taus: Sequence[float],
    tokens: int,
) -> xr.Dataset:
    """Return what is known of rules that rank."""
    rules = _words(losses, "rule")
    sizes = sorted({cell.n for cell in losses})
    shape = (len(scopes), len(rules), len(modes))
    loss = np.full((*shape, len(sizes), len(plain)), np.nan)
    stars: dict[str, FloatArray] = {
        part: np.full((*shape, len(taus)), np.nan) for part in ("value", "se", "lower", "upper")
    }
    up, largest = np.full(shape, np.nan), np.full(shape, np.nan)
    for place in np.ndindex(shape):
        scope, rule, mode = scopes[place[0]], rules[place[1]], modes[place[2]]
        known = {c.n: row for c, row in losses.items() if c[:3] == (scope, rule, mode)}
        if not known:
            continue
        for n, row in known.items():
            loss[(*place, sizes.index(n))] = row
        if next_size(plain, known, (), tokens) is not None:
            continue  # a search that was interrupted
        steps = np.diff([*(row.mean() for row in rises(plain, known).values()), 0.0])
        up[place], largest[place] = (steps > 0).sum(), max(steps.max(), 0.0)
        for at, tau in enumerate(taus):
            found = star(plain, known, tau, tokens).arrays()
            for part, values in stars.items():
                values[(*place, at)] = found[part]
    numbers: dict[str, Value] = {
        "loss": loss,
        "loss_rise": _mean_rise(loss / plain),
        "n_star": Estimate(**stars, scale="log"),
        "steps_up": up,
        "largest_step_up": largest,
    }
    return xr.Dataset(
        variables(VARIABLES[1:], numbers),
        coords={
            "rule": words_along("rule", rules, "which tokens a query keeps"),
            "n": xr.Variable("n", sizes, {"long_name": "tokens that a query keeps"}),
        },
    )


def _mean_rise(ratio: FloatArray) -> Estimate:
    """Return the mean rise over documents from ratios of losses, (..., document); limits are cut at
    −1, for no loss lies below 0.
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
    """Return what is known of rules that say how many tokens stay."""
    rules = _words(losses, "rule")
    shape = (len(scopes), len(rules), len(modes), len(plain))
    loss, held = np.full(shape, np.nan), np.full(shape, np.nan)
    for cell, row in losses.items():
        place = scopes.index(cell.scope), rules.index(cell.rule), modes.index(cell.mode)
        loss[place], held[place] = row, sizes[cell]
    rise = _mean_rise(loss / plain)
    return xr.Dataset(
        variables(SETS, {"set_loss": loss, "set_loss_rise": rise, "set_size": held}),
        coords={
            "set_rule": words_along("set_rule", rules, "which set a query keeps"),
        },
    )


def _words(losses: Iterable[Cell], name: str) -> list[str]:
    """Return scopes, rules or modes in the order in which they first come."""
    return list(dict.fromkeys(getattr(cell, name) for cell in losses))


def cells_of(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return the losses that an /effective dataset holds, and the sizes of its sets."""
    losses: dict[Cell, FloatArray] = {}
    sizes: dict[Cell, FloatArray] = {}
    for name, rule, into in (
        ("loss", "rule", losses),
        ("set_loss", "set_rule", losses),
        ("set_size", "set_rule", sizes),
    ):
        if name not in data:
            continue
        for place in np.ndindex(data[name].shape[:-1]):
            row = data[name][place]
            if np.isfinite(row).all():
                n = int(row["n"]) if "n" in row.coords else 0
                scope, word, mode = (str(row[dim].item()) for dim in ("scope", rule, "mode"))
                into[Cell(scope, word, mode, n)] = row.values
    return losses, sizes
