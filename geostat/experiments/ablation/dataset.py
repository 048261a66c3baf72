r"""Ablation of heads as a dataset (/ablation): losses for single heads, budgets and regimes, and
whether geometry predicts them; with summary sentences and records.

For the loss NLL of a document and its loss NLL′ under ablation, ΔNLL_rel = NLL′/NLL − 1, averaged
over documents. Imports numpy and xarray.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.analyses.effective_size import PLAIN, Cell
from geostat.analyses.head_regime_rules import REGIMES
from geostat.datasets.table import quantities
from geostat.datasets.variable import Value, entries, interval, known, variables, words_along
from geostat.experiments.ablation.budgets import GEOMETRY, WAYS
from geostat.experiments.ablation.context import VARIABLES as CONTEXT
from geostat.experiments.ablation.context import context_dataset
from geostat.experiments.ablation.heads import (
    FEATURES,
    GAIN,
    HEADS,
    along_sizes,
    heads_dataset,
    of_regime,
    primary_size,
)
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean

CELLS: Final = quantities(
    r"""
    plain_loss | nats | \mathrm{NLL} | mean next-token loss without ablation | dims: document
    loss | nats | - | mean next-token loss under ablation | dims: cell document
    cell_scope | 1 | - | name of the ablated heads
    cell_rule | 1 | - | rule that selects tokens, or allocation of a budget
    cell_mode | 1 | - | treatment of unselected tokens
    cell_n | tokens | - | selected tokens per head; 0: none
    """,
    dims=("cell",),
)
BUDGETS: Final = quantities(
    r"""
    budget_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}} | relative loss increase under a budget
        of tokens per head, mean over documents | estimated
    budget_less_mass | 1 | \Delta \Delta\mathrm{NLL}_{\mathrm{rel}} | loss increase minus the
        increase with equal selected mass, mean over documents | estimated
    """,
    dims=("mode", "budget", "way"),
)
REGIME: Final = quantities(
    r"""
    regime_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}} | relative loss increase with ablated
        heads of a regime, mean over documents | estimated
    regime_heads | 1 | - | number of ablated heads | dims: regime
    drawn_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}} | mean relative loss increase with as many
        randomly drawn heads ablated | dims: regime cut draw
    drawn_p | 1 | p | two-sided permutation p-value of the regime against draws of as many random
        heads
    """,
    dims=("regime", "cut"),
)
RECORDS: Final = (*CELLS, *FEATURES, *HEADS, *BUDGETS, *REGIME, *CONTEXT)
"""Records of /ablation."""


def cells_of(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return the losses of an /ablation dataset by intervention, and no sizes of sets."""
    columns = (data[f"cell_{name}"].values.tolist() for name in Cell._fields)
    cells = itertools.starmap(Cell, zip(*columns, strict=True))
    losses = dict(zip(cells, data["loss"].values, strict=True))
    return {PLAIN: data["plain_loss"].values, **losses}, {}


def budgets_held(losses: Iterable[Cell]) -> list[int]:
    """Return the measured budgets, ascending."""
    return sorted({cell.n for cell in losses if cell.scope.partition(",")[0] == "budget"})


def ablation_dataset(
    losses: Mapping[Cell, FloatArray],
    features: xr.Dataset,
    *,
    tau: float,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Return /ablation from all measured losses, of this command and earlier ones.

    Args:
        losses: losses by intervention, (document,) each; PLAIN without ablation.
        features: as of `heads.features_of`, at every measured N and budget.
        tau: relative loss increase that defines N* of a head.
        attributes: attributes of the dataset, with `context_tau` and `greedy_sizes`, the N of the
            losses behind greedy budgets. A mode without greedy budgets for these N uses its last.

    Returns:
        CELLS and FEATURES; HEADS, BUDGETS, REGIME and `context.VARIABLES` if completely measured.
    """
    rises = {cell: loss / losses[PLAIN] - 1 for cell, loss in losses.items() if cell != PLAIN}
    cells = list(rises)
    numbers: dict[str, Value] = {
        "plain_loss": losses[PLAIN],
        "loss": np.array([losses[cell] for cell in cells]).reshape(len(cells), -1),
    }
    for name in Cell._fields:
        column = [getattr(cell, name) for cell in cells]
        numbers[f"cell_{name}"] = np.array(column, int if name == "n" else object)
    data = xr.Dataset(variables(CELLS, numbers), attrs={"tau": tau, **attributes})
    data.attrs["long_name"] = "losses under ablation of heads"
    greedy = _greedy_sizes(rises, str(attributes["greedy_sizes"]))
    data.attrs["greedy_sizes"] = _by_mode(greedy)
    parts = [
        xr.Dataset(
            variables(FEATURES, {record.name: features[record.name].values for record in FEATURES}),
            coords=along_sizes(features["n"].values.tolist()),
        ),
        heads_dataset(losses, features, tau),
        _budgets(rises, greedy),
        _regimes(rises, features),
        context_dataset(losses, float(attributes["context_tau"])),
    ]
    measured = [part for part in parts if part is not None]
    of_modes = [part["mode"].values.tolist() for part in measured if "mode" in part]
    modes = list(dict.fromkeys(itertools.chain(*of_modes)))
    for part in measured:
        aligned = part.reindex(mode=modes) if "mode" in part.dims else part
        data = data.merge(aligned, combine_attrs="override", join="outer")
    if modes:
        words = words_along("mode", modes, "treatment of unselected tokens")
        data = data.assign_coords(mode=words)
    data.attrs["primary"] = primary(data)
    data.attrs["answers"] = answers(data)
    return data


def _greedy_sizes(rises: Iterable[Cell], requested: str) -> dict[str, str]:
    """Return by mode the N of the losses behind its greedy budgets: the requested ones if
    measured, otherwise the last.
    """
    by_mode: dict[str, list[str]] = {}
    for cell in rises:
        if cell.rule == "greedy":
            by_mode.setdefault(cell.mode, []).append(cell.scope.partition("losses at ")[2])
    return {mode: requested if requested in sizes else sizes[-1] for mode, sizes in by_mode.items()}


def _by_mode(sizes: Mapping[str, str]) -> str:
    """Return sizes as text, by mode if modes differ.

    >>> _by_mode({"deletion": "1,8"}), _by_mode({"deletion": "1,8", "renormalisation": "1,4"})
    ('1,8', '1,8 (deletion), 1,4 (renormalisation)')
    """
    if len(set(sizes.values())) < 2:
        return "".join(set(sizes.values()))
    return ", ".join(f"{size} ({mode})" for mode, size in sizes.items())


def _budgets(rises: Mapping[Cell, FloatArray], greedy: Mapping[str, str]) -> xr.Dataset | None:
    """Return BUDGETS by mode, budget and allocation; None without budgets."""
    modes = list(dict.fromkeys(cell.mode for cell in rises if cell.scope == "budget"))
    if not modes:
        return None
    budgets, documents = budgets_held(rises), len(next(iter(rises.values())))
    by_document = np.full((documents, len(modes), len(budgets), len(WAYS)), np.nan)
    for place in np.ndindex(by_document.shape[1:]):
        mode, budget, way = modes[place[0]], budgets[place[1]], list(WAYS)[place[2]]
        if (cell := budget_cell(way, mode, budget, greedy.get(mode, ""))) in rises:
            by_document[(slice(None), *place)] = rises[cell]
    by_mass = by_document[..., [list(WAYS).index("mass")]]
    numbers: dict[str, Value] = {
        "budget_rise": document_mean(by_document),
        "budget_less_mass": document_mean(by_document - by_mass),
    }
    coords = {
        "mode": modes,
        "budget": xr.Variable("budget", budgets, {"long_name": "mean selected tokens per head"}),
        "way": words_along("way", WAYS, "allocation of the budget"),
    }
    return xr.Dataset(variables(BUDGETS, numbers), coords=coords)


def budget_cell(way: str, mode: str, budget: int, sizes: str) -> Cell:
    """Return the key of a budget; greedy allocations are from losses at `sizes`."""
    return Cell(f"budget, losses at {sizes}" if way == "greedy" else "budget", way, mode, budget)


def _regimes(rises: Mapping[Cell, FloatArray], features: xr.Dataset) -> xr.Dataset | None:
    """Return REGIME with random draws of as many heads; None without ablated regimes."""
    regimes = [name for name in REGIMES[1:] if any(cell.scope == name for cell in rises)]
    if not regimes:
        return None
    cuts = list(dict.fromkeys((c.mode, c.n) for c in rises if c.scope in regimes))
    cuts.sort(key=lambda cut: (cut[1] == 0, cut))
    documents = len(next(iter(rises.values())))
    most = max(
        len({c.scope for c in rises if c.scope.startswith(f"{name}, draw ")}) for name in regimes
    )
    by_document = np.full((documents, len(regimes), len(cuts)), np.nan)
    drawn = np.full((len(regimes), len(cuts), most), np.nan)
    for i, j in np.ndindex(len(regimes), len(cuts)):
        cell = Cell(regimes[i], "attention", *cuts[j])
        if cell in rises:
            by_document[:, i, j] = rises[cell]
        for draw in range(most):
            of_draw = cell._replace(scope=f"{cell.scope}, draw {draw}")
            if of_draw in rises:
                drawn[i, j, draw] = rises[of_draw].mean()
    mean = document_mean(by_document)
    observed, count = mean.value[..., None], np.isfinite(drawn).sum(axis=-1)
    extreme = np.minimum((drawn <= observed).sum(axis=-1), (drawn >= observed).sum(axis=-1))
    p = np.minimum(1.0, 2 * (extreme + 1) / (count + 1))
    numbers: dict[str, Value] = {
        "regime_rise": mean,
        "regime_heads": np.array([int(of_regime(features, name).sum()) for name in regimes]),
        "drawn_rise": drawn,
        "drawn_p": np.where((count > 0) & np.isfinite(mean.value), p, np.nan),
    }
    names = [f"keep {size}, {mode}" if size else "taken out" for mode, size in cuts]
    coords = {
        "regime": words_along("regime", regimes, "regime of the ablated heads"),
        "cut": words_along("cut", names, "form of the ablation"),
    }
    return xr.Dataset(variables(REGIME, numbers), coords=coords)


def primary(data: xr.Dataset) -> str:
    """Return the primary outcome; "" without single-head ablations."""
    sizes = _sizes(data) if "head_rise" in data else []
    return f"rise at N = {primary_size(sizes)}" if sizes else ""


def _sizes(data: xr.Dataset) -> list[int]:
    """Return the N of single-head ablations."""
    known_rises = data["head_rise"].notnull()
    others = [dim for dim in known_rises.dims if dim != "n"]
    return [int(n) for n in data["n"].values[known_rises.any(others)]]


def _modes(data: xr.Dataset, name: str) -> list[str]:
    """Return the modes of a variable; empty if the dataset does not have it."""
    return list(data["mode"].values) if name in data else []


def answers(data: xr.Dataset) -> list[str]:
    """Return sentences on single heads and on budgets for each measured mode."""
    return [
        line
        for mode in _modes(data, "mode")
        for line in (*_answer_of_heads(data, mode), *_answer_of_budgets(data, mode))
    ]


def _answer_of_heads(data: xr.Dataset, mode: str) -> Iterator[str]:
    """Say whether geometry predicts the loss increase of single heads beyond weights."""
    if "r2_held_out_layers" not in data or not data["head_rise"].sel(mode=mode).notnull().any():
        return
    size = primary_size(_sizes(data.sel(mode=mode)))
    selected = data.sel(mode=mode, outcome=f"rise at N = {size}")
    name, heads, where = "r2_held_out_layers", int(selected["r2_heads"]), f"{mode}, N = {size}"
    gain, low, high = (
        float(selected[f"{name}{part}"].sel(predictor=GAIN)) for part in ("", "_lower", "_upper")
    )
    weights = float(selected[name].sel(predictor="weights"))
    if not np.isfinite(gain):
        yield (
            f"Whether geometry predicts the loss increase from ablating a head ({where}) cannot be"
            f" estimated: {heads} heads, or their layers, are too few to hold a layer out."
        )
        return
    text = (
        "Attention weights (selected mass and entropy) predict the loss increase from ablating a"
        f" head ({where}) with R² = {_number(weights)} on held-out layers, over {heads} heads;"
        f" geometry adds {_number(gain)}"
    )
    if not np.isfinite([low, high]).all():
        yield f"{text}. One document gives no interval."
        return
    limits = f"95%: {_number(low)} to {_number(high)}"
    yield f"{text} ({limits}), {'more' if low > 0 else 'not significantly more'} than 0."


def _answer_of_budgets(data: xr.Dataset, mode: str) -> Iterator[str]:
    """Say whether allocation by geometry is better than by equal selected mass."""
    if "budget_less_mass" not in data:
        return
    selected = data.sel(mode=mode, way=list(GEOMETRY))
    low, high = (selected[f"budget_less_mass_{side}"] for side in ("lower", "upper"))
    tested = (low.notnull() & high.notnull()).all("way").values
    if not tested.any():
        return
    budgets = data["budget"].values[tested].tolist()
    better, worse = (
        [n for n, holds in zip(budgets, side.any("way").values[tested], strict=True) if holds]
        for side in (high < 0, low > 0)
    )
    gains = (
        f"better than equal selected mass at {_listed(better)}"
        if better
        else "not better than equal selected mass"
    )
    losses = f", and worse in one of two directions at {_listed(worse)}" if worse else ""
    yield (
        f"For budgets of {_listed(budgets)} tokens per head ({mode}), allocation by geometry is"
        f" {gains}{losses} (95%, paired over documents, unadjusted)."
    )


def _listed(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")


def summary(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return answers, budgets and regimes as lines, or as records if `everything`."""
    if everything:
        return {"answers": answers(data), **_records(data)}
    lines = answers(data)
    by_budget: dict[str, list[str]] = {}
    for row in _budget_records(data):
        key = f"budget of {row['budget']} tokens per head, {row['mode']}: the loss changes by "
        by_budget.setdefault(key, []).append(f"{row['way']} {_percent(row)}")
    lines += [key + ", ".join(parts) for key, parts in by_budget.items()]
    lines += [
        f"{row['heads']} {row['regime']} heads, {row['cut']}: the loss changes by {_percent(row)};"
        f" for as many random heads by {_share(row['drawn_median'])}% (median), p = {row['p']:.2g}"
        for row in _regime_records(data)
        if row["p"] is not None
    ]
    return {"ablation": [*lines, *_needs(data), *_powers(data)]}


def _records(data: xr.Dataset) -> dict[str, list[dict[str, Any]]]:
    """Return every estimate as a record with labels and limits."""

    def of(name: str, key: str) -> list[dict[str, Any]]:
        return [
            labels | {key: float(data[name][place]), **interval(data, name, place)}
            for place, labels in entries(data, name)
        ]

    held_out = of("r2_held_out_layers", "r2")
    for row in held_out:
        row["heads"] = int(data["r2_heads"].sel(mode=row["mode"], outcome=row["outcome"]))
    name, shares = "head_n_star", data.get("head_share_of_one")
    single_heads = [
        labels
        | {"n_star": int(data[name][place]), "steps_up": int(data["head_steps_up"][place])}
        | interval(data, name, place)
        for place, labels in entries(data, name)
        if shares is not None and np.isfinite(shares[place[0], 0])
    ]
    return {
        "held_out_layers": held_out,
        "correlations": of("rank_correlation", "value"),
        "budgets": _budget_records(data),
        "regimes": _regime_records(data),
        "single_heads": single_heads,
        "contexts": of("context_n_star", "n_star"),
    }


def _budget_records(data: xr.Dataset) -> list[dict[str, Any]]:
    rise, less = "budget_rise", "budget_less_mass"
    return [
        labels
        | {"rise": float(data[rise][place]), **interval(data, rise, place)}
        | {"less_mass": known(data[less][place])}
        | {f"less_mass_{side}": limit for side, limit in interval(data, less, place).items()}
        for place, labels in entries(data, rise)
    ]


def _regime_records(data: xr.Dataset) -> list[dict[str, Any]]:
    return [
        labels
        | {"heads": int(data["regime_heads"][place[0]]), "rise": float(data["regime_rise"][place])}
        | interval(data, "regime_rise", place)
        | {
            "draws": int(data["drawn_rise"][place].notnull().sum()),
            "drawn_median": known(data["drawn_rise"][place].median()),
            "p": known(data["drawn_p"][place]),
        }
        for place, labels in entries(data, "regime_rise")
    ]


def _needs(data: xr.Dataset) -> Iterator[str]:
    """Yield a line for each mode on N* of single heads."""
    for mode in _modes(data, "head_share_of_one"):
        selected = data.sel(mode=mode, group="all")
        if np.isfinite(selected["head_share_of_one"]):
            share = _with_limits(selected, "head_share_of_one", 100, unit="%")
            half, most = (_with_limits(selected.isel(quantile=i), "head_needed") for i in (0, 1))
            yield (
                f"single heads, {mode}: {share} of {int(selected['group_heads'])} need one token to"
                f" keep the loss within {100 * float(data.attrs['tau']):.3g}%; half need at most"
                f" {half} and 90% at most {most}"
            )


def _powers(data: xr.Dataset) -> Iterator[str]:
    """Yield a line for each mode on the change of N* with context length."""
    for mode in _modes(data, "context_n_star"):
        selected = data.sel(mode=mode)
        stars = [
            f"{_with_limits(selected.isel(context=index), 'context_n_star')} of {context}"
            for index, context in enumerate(data["context"].values)
            if np.isfinite(selected["context_n_star"][index])
        ]
        if len(stars) < 2:
            continue
        line = f"{mode}: {', '.join(stars)} tokens keep the loss within"
        line += f" {100 * float(data.attrs['context_tau']):.3g}%"
        if np.isfinite(selected["context_power"]):
            power = _with_limits(selected, "context_power", digits=2)
            line += f"; N* is proportional to the context to the power {power}"
        yield line


def _with_limits(
    data: xr.Dataset, name: str, times: float = 1.0, digits: int = 0, unit: str = ""
) -> str:
    """Return an estimate with its limits, if any, in brackets."""
    value, low, high = (
        f"{times * float(data[f'{name}{part}']):.{digits}f}" for part in ("", "_lower", "_upper")
    )
    return f"{value}{unit}" + (f" ({low} to {high})" if np.isfinite(data[f"{name}_lower"]) else "")


def _percent(row: Mapping[str, Any]) -> str:
    limits = ""
    if row["lower"] is not None:
        limits = f" ({_share(row['lower'])} to {_share(row['upper'])})"
    return f"{_share(row['rise'])}%{limits}"


def _share(value: float) -> str:
    """Return a share in percent with its sign."""
    return f"{100 * value:+.{0 if abs(value) >= 1 else 1 if abs(value) >= 0.02 else 2}f}"
