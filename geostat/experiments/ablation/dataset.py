r"""What heads are good for, /ablation: losses where single heads are cut, where a budget of tokens
is shared out among heads, and where a regime's heads are cut or taken out; and whether geometry
tells which heads the model needs.

With the loss NLL of a document and NLL′ under a cut, ΔNLL_rel = NLL′/NLL − 1, a mean over
documents. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, variables, words_along
from geostat.experiments.ablation.budgets import WAYS
from geostat.experiments.ablation.context import context_dataset
from geostat.experiments.ablation.head_facts import Facts
from geostat.experiments.ablation.heads import along_sizes, heads_dataset
from geostat.experiments.ablation.records import BUDGETS, CELLS, FACTS, REGIME
from geostat.experiments.ablation.words import answers, primary
from geostat.experiments.effective_size import PLAIN, Cell
from geostat.experiments.head_regime_rules import REGIMES
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean


def cells_of(data: xr.Dataset) -> tuple[dict[Cell, FloatArray], dict[Cell, FloatArray]]:
    """Return every loss that /ablation holds, the model's own under PLAIN; there are no sets."""
    parts = [data[f"cell_{name}"].values.tolist() for name in Cell._fields]
    cells = [Cell(str(a), str(b), str(c), int(n)) for a, b, c, n in zip(*parts, strict=True)]
    losses = dict(zip(cells, data["loss"].values, strict=True))
    return {PLAIN: data["plain_loss"].values, **losses}, {}


def budgets_held(losses: Iterable[Cell]) -> list[int]:
    """Return the budgets that were shared out in some way, ascending."""
    return sorted({cell.n for cell in losses if cell.scope.partition(",")[0] == "budget"})


def ablation_dataset(
    losses: Mapping[Cell, FloatArray], facts: Facts, *, tau: float, told: Mapping[str, Any]
) -> xr.Dataset:
    """Return /ablation from every loss that was measured, by this question or earlier ones.

    Args:
        losses: by cut, (document), the model's own under PLAIN.
        facts: what is known of heads, at every N and budget that was measured.
        tau: by which share the loss may rise at a head's own N*.
        told: attributes; `greedy_sizes`, N of the losses on which greedy budgets rest, and
            `context_tau` among them. Of a mode whose greedy budgets rest on others alone, the last
            that were measured stand.

    Returns:
        CELLS and FACTS; of what was measured whole HEADS, BUDGETS, REGIME and `context.VARIABLES`.
    """
    rises = {cell: loss / losses[PLAIN] - 1 for cell, loss in losses.items() if cell != PLAIN}
    cells = list(rises)
    numbers: dict[str, Value] = {
        "plain_loss": losses[PLAIN],
        "loss": np.array([losses[cell] for cell in cells]).reshape(len(cells), -1),
        **{
            f"cell_{name}": np.array(
                [getattr(cell, name) for cell in cells], int if name == "n" else object
            )
            for name in Cell._fields
        },
    }
    data = xr.Dataset(variables(CELLS, numbers), attrs={"tau": tau, **told})
    data.attrs["long_name"] = "losses under cuts of heads"
    greedy = _greedy_sizes(rises, str(told["greedy_sizes"]))
    data.attrs["greedy_sizes"] = _by_mode(greedy)
    parts = [
        _facts(facts),
        heads_dataset(losses, facts, tau),
        _budgets(rises, greedy),
        _regimes(rises, facts),
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
        data = data.merge(along, combine_attrs="override", join="outer")
    if modes:
        words = words_along("mode", modes, "what becomes of tokens that are not kept")
        data = data.assign_coords(mode=words)
    data.attrs["primary"] = primary(data)
    data.attrs["answers"] = answers(data)
    return data


def _facts(facts: Facts) -> xr.Dataset:
    """Return what is known of heads."""
    numbers: dict[str, Value] = dict(facts.curves)
    numbers["kept_mass"] = facts.kept_mass[..., [n - 1 for n in facts.sizes]]
    numbers |= {"entropy": facts.entropy, "sharp_f_lower": facts.sharp_f}
    return xr.Dataset(variables(FACTS, numbers), coords=along_sizes(facts.sizes))


def _greedy_sizes(rises: Iterable[Cell], asked: str) -> dict[str, str]:
    """Return by mode on losses at which N its greedy budgets rest: those asked for where they were
    measured, else the last that were.
    """
    held: dict[str, list[str]] = {}
    for cell in rises:
        if cell.rule == "greedy":
            held.setdefault(cell.mode, []).append(cell.scope.partition("losses at ")[2])
    return {mode: asked if asked in sizes else sizes[-1] for mode, sizes in held.items()}


def _by_mode(sizes: Mapping[str, str]) -> str:
    """Name sizes, by mode where modes differ.

    >>> _by_mode({"deletion": "1,8"}), _by_mode({"deletion": "1,8", "renormalisation": "1,4"})
    ('1,8', '1,8 (deletion), 1,4 (renormalisation)')
    """
    if len(set(sizes.values())) < 2:
        return "".join(set(sizes.values()))
    return ", ".join(f"{each} ({mode})" for mode, each in sizes.items())


def _budgets(rises: Mapping[Cell, FloatArray], greedy: Mapping[str, str]) -> xr.Dataset | None:
    """Return what budgets cost, by how they are shared; None where none was."""
    modes = list(dict.fromkeys(cell.mode for cell in rises if cell.scope == "budget"))
    if not modes:
        return None
    budgets, documents = budgets_held(rises), len(next(iter(rises.values())))
    each = np.full((documents, len(modes), len(budgets), len(WAYS)), np.nan)
    for place in np.ndindex(each.shape[1:]):
        mode, budget, way = modes[place[0]], budgets[place[1]], list(WAYS)[place[2]]
        if (cell := budget_cell(way, mode, budget, greedy.get(mode, ""))) in rises:
            each[(slice(None), *place)] = rises[cell]
    against = each - each[..., [list(WAYS).index("mass")]]
    numbers: dict[str, Value] = {
        "budget_rise": document_mean(each),
        "budget_less_mass": document_mean(against),
    }
    coords = {
        "mode": modes,
        "budget": xr.Variable("budget", budgets, {"long_name": "tokens a head keeps, mean"}),
        "way": words_along("way", WAYS, "how the budget is shared out"),
    }
    return xr.Dataset(variables(BUDGETS, numbers), coords=coords)


def budget_cell(way: str, mode: str, budget: int, sizes: str) -> Cell:
    """Name a budget that is shared out; a greedy one rests on losses at these `sizes`."""
    return Cell(f"budget, losses at {sizes}" if way == "greedy" else "budget", way, mode, budget)


def _regimes(rises: Mapping[Cell, FloatArray], facts: Facts) -> xr.Dataset | None:
    """Return what regimes cost beside as many heads drawn from all; None where none was cut."""
    regimes = [name for name in REGIMES[1:] if any(cell.scope == name for cell in rises)]
    if not regimes:
        return None
    cuts = list(dict.fromkeys((c.mode, c.n) for c in rises if c.scope in regimes))
    cuts.sort(key=lambda cut: (cut[1] == 0, cut))
    documents = len(next(iter(rises.values())))
    draws = [
        {c.scope.rpartition(" ")[2] for c in rises if c.scope.startswith(f"{name}, draw ")}
        for name in regimes
    ]
    most = max(len(one) for one in draws)
    each = np.full((documents, len(regimes), len(cuts)), np.nan)
    drawn = np.full((len(regimes), len(cuts), most), np.nan)
    for i, j in np.ndindex(len(regimes), len(cuts)):
        mode, size = cuts[j]
        if (cell := Cell(regimes[i], "attention", mode, size)) in rises:
            each[:, i, j] = rises[cell]
        for draw in range(most):
            cell = Cell(f"{regimes[i]}, draw {draw}", "attention", mode, size)
            if cell in rises:
                drawn[i, j, draw] = rises[cell].mean()
    mean = document_mean(each)
    own, count = mean.value[..., None], np.isfinite(drawn).sum(axis=-1)
    fewer = np.minimum((drawn <= own).sum(axis=-1), (drawn >= own).sum(axis=-1))
    p = np.minimum(1.0, 2 * (fewer + 1) / (count + 1))
    numbers: dict[str, Value] = {
        "regime_rise": mean,
        "regime_heads": np.array([int(facts.of_regime(name).sum()) for name in regimes]),
        "drawn_rise": drawn,
        "drawn_p": np.where((count > 0) & np.isfinite(mean.value), p, np.nan),
    }
    names = [f"keep {size}, {mode}" if size else "taken out" for mode, size in cuts]
    coords = {
        "regime": words_along("regime", regimes, "regime of the heads that are cut"),
        "cut": words_along("cut", names, "how they are cut"),
    }
    return xr.Dataset(variables(REGIME, numbers), coords=coords)
