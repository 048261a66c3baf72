r"""What heads are good for, /ablation: losses where single heads are cut, where a budget of tokens
is shared out among heads, and where a regime's heads are cut or taken out; and whether geometry
tells which heads the model needs.

With the loss NLL of a document and NLL′ under a cut, ΔNLL_rel = NLL′/NLL − 1, a mean over
documents. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, join, variables, words_along
from geostat.experiments.ablation_records import BUDGETS, CELLS, FACTS, GAIN, HEADS, REGIME
from geostat.experiments.ablation_words import answers, primary
from geostat.experiments.budgets import WAYS
from geostat.experiments.context import context_dataset
from geostat.experiments.effective_size import PLAIN, Cell
from geostat.experiments.head_facts import PREDICTORS, Facts
from geostat.experiments.head_function import GIVEN, MODELS, Heads, associations, predictions
from geostat.experiments.head_regime_rules import REGIMES
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, document_mean


def head_cell(layer: int, head: int, mode: str, n: int) -> Cell:
    """Name the cut of one head.

    >>> head_cell(3, 1, "deletion", 8)
    Cell(scope='L3H1', rule='attention', mode='deletion', n=8)
    """
    return Cell(f"L{layer}H{head}", "attention", mode, n)


def cells_of(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return every loss that /ablation holds, the model's own under PLAIN; there are no sets."""
    parts = [data[f"cell_{name}"].values.tolist() for name in Cell._fields]
    cells = [Cell(str(a), str(b), str(c), int(n)) for a, b, c, n in zip(*parts, strict=True)]
    losses = dict(zip(cells, data["loss"].values, strict=True))
    return {PLAIN: data["plain_loss"].values, **losses}, {}


def ablation_dataset(
    losses: Mapping[Cell, FloatArray],
    facts: Facts,
    *,
    sizes: Sequence[int],
    budgets: Sequence[int],
    tau: float,
    told: Mapping[str, Any],
) -> xr.Dataset:
    """Return /ablation from every loss that was measured.

    Args:
        losses: by cut, (document), the model's own under PLAIN.
        facts: what is known of heads.
        sizes: N at which heads were cut alone; budgets: that were shared out, in tokens a head.
        tau: by which share the loss may rise at a head's own N*.
        told: attributes; `draws`, `regime_tokens`, `greedy_sizes` and `context_tau` among them.

    Returns:
        CELLS and FACTS; of what was measured whole HEADS, BUDGETS, REGIME and `context.VARIABLES`.
    """
    rises = {cell: loss / losses[PLAIN] - 1 for cell, loss in losses.items() if cell != PLAIN}
    cells = list(rises)
    numbers: dict[str, Value] = {
        "plain_loss": losses[PLAIN],
        "loss": np.stack([losses[cell] for cell in cells]) if cells else np.empty((0, 0)),
        **{
            f"cell_{name}": np.array(
                [getattr(cell, name) for cell in cells], int if name == "n" else object
            )
            for name in Cell._fields
        },
    }
    data = xr.Dataset(variables(CELLS, numbers), attrs={"tau": tau, **told})
    data.attrs["long_name"] = "losses under cuts of heads"
    parts = [
        _facts(facts, sizes),
        _heads(rises, facts, sizes, tau),
        _budgets(rises, budgets, str(told["greedy_sizes"])),
        _regimes(rises, facts, int(told["regime_tokens"]), int(told["draws"])),
        context_dataset(losses, float(told["context_tau"])),
    ]
    known = [part for part in parts if part is not None]
    modes = list(
        dict.fromkeys(
            mode for part in known if "mode" in part for mode in part["mode"].values.tolist()
        )
    )
    for part in known:
        along = part.reindex(mode=modes) if "mode" in part.dims else part
        data = data.merge(along, combine_attrs="override")
    data = data.assign_coords(
        mode=words_along("mode", modes, "what becomes of tokens that are not kept")
    )
    data.attrs["answers"] = list(answers(data).values())
    data.attrs["primary"] = primary(data)
    return data


def _facts(facts: Facts, sizes: Sequence[int]) -> xr.Dataset:
    """Return what is known of heads at the sizes at which they were cut."""
    at = [list(facts.sizes).index(n) for n in sizes]
    numbers: dict[str, Value] = {name: each[..., at] for name, each in facts.curves.items()}
    numbers["kept_mass"] = facts.kept_mass[..., [n - 1 for n in sizes]]
    numbers |= {"entropy": facts.entropy, "sharp_f_lower": facts.sharp_f[..., at]}
    return xr.Dataset(variables(FACTS, numbers), coords=_sizes(sizes))


def _heads(
    rises: Mapping[Cell, FloatArray], facts: Facts, sizes: Sequence[int], tau: float
) -> xr.Dataset | None:
    """Return what single heads cost, and what tells it; None where that was not measured."""
    layers, heads = facts.shape
    outcomes = _outcomes(sizes, tau, facts.tokens)
    modes = [
        mode
        for mode in dict.fromkeys(cell.mode for cell in rises)
        if all(
            head_cell(layer, head, mode, n) in rises
            for layer in range(layers)
            for head in range(heads)
            for n in sizes
        )
    ]
    if not modes:
        return None
    parts: dict[str, list[Estimate]] = {"head_rise": [], "rank_correlation": [], "told": []}
    stars = []
    for mode in modes:
        each = np.stack(
            [
                [
                    [rises[head_cell(layer, head, mode, n)] for head in range(heads)]
                    for layer in range(layers)
                ]
                for n in sizes
            ]
        )
        rise = np.moveaxis(each, -1, 0)  # (document, n, layer, head)
        mean = document_mean(rise)
        parts["head_rise"].append(mean)
        stars.append(_star(mean.value, sizes, tau, facts.tokens))
        of = [
            Heads(
                rise=rise.reshape(*rise.shape[:2], -1),
                outcome=outcome.of,
                known=facts.predictors(outcome.n),
                layer=np.repeat(np.arange(layers), heads),
            )
            for outcome in outcomes
        ]
        parts["rank_correlation"].append(_stacked([associations(one) for one in of]))
        parts["told"].append(_stacked([predictions(one) for one in of]))
    numbers: dict[str, Value] = {name: _stacked(each) for name, each in parts.items()}
    coords = {
        "mode": modes,
        "outcome": words_along("outcome", [one.name for one in outcomes], "what the model loses"),
        "known": words_along("known", PREDICTORS, "what is known of a head"),
        "given": words_along("given", GIVEN, "what is held fixed"),
        "told_by": words_along("told_by", (*MODELS, GAIN), "what tells of layers left out"),
    }
    data = variables(HEADS, numbers | {"head_n_star": np.stack(stars)})
    return xr.Dataset(data, coords=coords | _sizes(sizes))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model loses by a head."""

    name: str
    n: int
    """N at which the head's curves are taken."""
    of: Callable[[FloatArray], FloatArray]
    """From mean rises, (size, head)."""


def _outcomes(sizes: Sequence[int], tau: float, tokens: int) -> list[Outcome]:
    """Return the rise at each N, and N* at the smallest N above 1."""

    def rise(at: int, mean: FloatArray) -> FloatArray:
        return mean[at]

    small = next((n for n in sizes if n > 1), sizes[0])
    return [Outcome(f"rise at N = {n}", n, partial(rise, at)) for at, n in enumerate(sizes)] + [
        Outcome(f"N* at {100 * tau:.3g}%", small, lambda mean: _star(mean, sizes, tau, tokens))
    ]


def _star(mean: FloatArray, sizes: Sequence[int], tau: float, tokens: int) -> FloatArray:
    """Return the smallest N that was tried from which on the mean rise, (n, ...), is at most τ; T
    where there is none.
    """
    within = np.flip(np.logical_and.accumulate(np.flip(mean <= tau, 0), axis=0), 0)
    return np.where(within.any(axis=0), np.asarray(sizes)[within.argmax(axis=0)], tokens)


def _budgets(
    rises: Mapping[Cell, FloatArray], budgets: Sequence[int], sizes: str
) -> xr.Dataset | None:
    """Return what budgets cost by how they are shared; None where none was."""
    modes = list(dict.fromkeys(cell.mode for cell in rises if cell.scope == "budget"))
    if not modes:
        return None
    documents = len(next(iter(rises.values())))
    each = np.full((documents, len(modes), len(budgets), len(WAYS)), np.nan)
    for place in np.ndindex(each.shape[1:]):
        mode, budget, way = (
            modes[place[0]],
            budgets[place[1]],
            list(WAYS)[place[2]],
        )
        scope = f"budget {sizes}" if way == "greedy" else "budget"
        if (cell := Cell(scope, way, mode, budget)) in rises:
            each[(slice(None), *place)] = rises[cell]
    against = each - each[..., [list(WAYS).index("mass")]]
    numbers: dict[str, Value] = {
        "budget_rise": document_mean(each),
        "budget_less_mass": document_mean(against),
    }
    coords = {
        "mode": modes,
        "budget": xr.Variable("budget", list(budgets), {"long_name": "tokens a head keeps, mean"}),
        "way": words_along("way", WAYS, "how the budget is shared out"),
    }
    return xr.Dataset(variables(BUDGETS, numbers), coords=coords)


def _regimes(
    rises: Mapping[Cell, FloatArray], facts: Facts, n: int, draws: int
) -> xr.Dataset | None:
    """Return what regimes cost beside as many heads drawn from all; None where none was cut."""
    regimes = [name for name in REGIMES[1:] if any(cell.scope == name for cell in rises)]
    if not regimes:
        return None
    cuts = [
        (mode, size)
        for mode, size in dict.fromkeys(
            (cell.mode, cell.n) for cell in rises if cell.scope in regimes
        )
        if size in (0, n)
    ]
    documents = len(next(iter(rises.values())))
    each = np.full((documents, len(regimes), len(cuts)), np.nan)
    drawn = np.full((len(regimes), len(cuts), draws), np.nan)
    for i, j in np.ndindex(len(regimes), len(cuts)):
        mode, size = cuts[j]
        if (cell := Cell(regimes[i], "attention", mode, size)) in rises:
            each[:, i, j] = rises[cell]
        for draw in range(draws):
            name = f"{regimes[i]}, draw {draw}"
            if (cell := Cell(name, "attention", mode, size)) in rises:
                drawn[i, j, draw] = rises[cell].mean()
    mean = document_mean(each)
    middle = np.median(drawn, axis=-1)
    farther = np.abs(drawn - middle[..., None]) >= np.abs(mean.value - middle)[..., None]
    told = np.isfinite(drawn).all(axis=-1) & np.isfinite(mean.value)
    numbers: dict[str, Value] = {
        "regime_rise": mean,
        "regime_heads": np.array([int(facts.of_regime(name).sum()) for name in regimes]),
        "drawn_rise": drawn,
        "drawn_p": np.where(told, (farther.sum(axis=-1) + 1) / (draws + 1), np.nan),
    }
    names = [f"keep {size}, {mode}" if size else "taken out" for mode, size in cuts]
    coords = {
        "regime": words_along("regime", regimes, "regime of the heads that are cut"),
        "cut": words_along("cut", names, "how they are cut"),
    }
    return xr.Dataset(variables(REGIME, numbers), coords=coords)


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    return {"n": xr.Variable("n", list(sizes), {"long_name": "tokens that a head keeps"})}


def _stacked(each: Sequence[Estimate]) -> Estimate:
    """Return estimates along a new first axis."""
    joined = join(each, np.stack)
    assert isinstance(joined, Estimate)
    return joined
