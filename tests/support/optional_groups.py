"""Made-up optional groups of a run: ablation, effective sizes, normaliser, predicted curves."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr
from support.reports_tree import HEADS, LAYERS, POSITIONS, group, with_groups

from geostat.analyses.effective_size import PLAIN, Cell, next_size
from geostat.analyses.head_regime_rules import REGIMES
from geostat.experiments.ablation.budgets import WAYS
from geostat.experiments.ablation.context import plain_cell
from geostat.experiments.ablation.dataset import ablation_dataset, budget_cell
from geostat.experiments.ablation.heads import CURVES, head_cell
from geostat.experiments.effective.dataset import cells_of, effective_dataset, over_sizes
from geostat.experiments.normaliser import dataset as normaliser_numbers
from geostat.experiments.normaliser.dataset import normaliser_dataset
from reports.run import Run

ABLATED_LAYERS, ABLATED_HEADS, SIZES, BUDGETS, DRAWS = 20, 5, (1, 8), (8, 16), 4
TAUS = [0.01, 0.05, 0.1]
LENGTHS = [16, 32, POSITIONS]
SOURCES = ["exponential", "offset", "all but weights", "measured", "heads", "floor"]
N_PREDICTED = np.arange(2, 33)


@cache
def ablation(
    documents: int = 3,
    parts: str = "heads budgets regimes context",
    modes: tuple[str, ...] = ("deletion",),
) -> xr.Dataset:
    """Losses that depend only on the selected mass of the weights."""
    rng = np.random.default_rng(2)
    dims, shape = ("document", "layer", "head"), (documents, ABLATED_LAYERS, ABLATED_HEADS)
    mass = np.sort(rng.uniform(size=(*shape, POSITIONS)), axis=-1)
    sizes = sorted({*SIZES, *BUDGETS})
    features = xr.Dataset(
        {
            **{name: ((*dims, "n"), rng.uniform(size=(*shape, 3))) for name in CURVES},
            "entropy": (dims, rng.uniform(size=shape)),
            "lam": (dims[1:], rng.uniform(size=shape[1:])),
            "rho0": (dims[1:], rng.uniform(size=shape[1:])),
            "sharp_f_lower": ((*dims[1:], "n"), rng.uniform(size=(*shape[1:], 3))),
            "regime": (dims[1:], rng.integers(0, len(REGIMES), shape[1:])),
            "selected_mass": ((*dims, "n"), mass[..., [n - 1 for n in sizes]]),
            "mass": ((*dims, "token"), mass),
        },
        coords={"n": sizes},
    )
    plain = 2 + rng.uniform(size=documents)
    losses = {PLAIN: plain}
    curve: dict[int, np.ndarray]
    for mode in modes:
        if "heads" in parts:
            for layer, head in np.ndindex(ABLATED_LAYERS, ABLATED_HEADS):
                curve, noise = {}, 0.0004 * rng.uniform()
                while (n := next_size(plain, curve, [0.001], POSITIONS, first=SIZES)) is not None:
                    rise = 0.01 * (1 - mass[:, layer, head, n - 1]) + noise
                    curve[n] = plain * (1 + rise)
                    losses[head_cell(layer, head, mode, n, search=n not in SIZES)] = curve[n]
        if "budgets" in parts:
            for budget, (index, way) in [(b, w) for b in BUDGETS for w in enumerate(WAYS)]:
                rise = 1 / budget + 0.001 * (index - 1) * (1 + np.arange(documents))
                losses[budget_cell(way, mode, budget, "1,8")] = plain * (1 + rise)
    if "regimes" in parts:
        for regime in REGIMES[1:]:
            for mode, n in [*((mode, 8) for mode in modes), ("deletion", 0)]:
                for draw in range(-1, DRAWS):
                    name = f"{regime}, draw {draw}" if draw >= 0 else regime
                    rise = rng.uniform(size=documents)
                    losses[Cell(name, "attention", mode, n)] = plain * (1 + rise)
    if "context" in parts:
        for context in (16, 64):
            losses[plain_cell(context)], curve = plain.copy(), {}
            while (size := next_size(plain, curve, [0.05], context)) is not None:
                curve[size] = plain * (1 + 0.1 * context**0.5 / size)
                losses[Cell(plain_cell(context).scope, "attention", "deletion", size)] = curve[size]
    attributes = {"target": "last:9", "targets": 9, "tokens": POSITIONS}
    attributes |= {"greedy_sizes": "1,8", "context_tau": 0.05}
    return ablation_dataset(losses, features, tau=0.001, attributes=attributes)


def searched(plain: np.ndarray, rise: np.ndarray, taus: list[float]) -> dict[int, np.ndarray]:
    """The losses that a search for N* measures where they increase by `rise` / N."""
    curve: dict[int, np.ndarray] = {}
    while (size := next_size(plain, curve, taus, POSITIONS)) is not None:
        curve[size] = plain * (1 + rise * (1 / size - 1 / POSITIONS))
    return curve


def effective_layers(modes: tuple[str, ...] = ("deletion", "renormalisation")) -> xr.Dataset:
    """N* of single layers, smaller for deeper layers."""
    plain, taus, losses = np.array([2.0, 1.0, 3.0]), TAUS[:2], {}
    for layer in range(ABLATED_LAYERS):
        for mode in modes:
            curve = searched(plain, 4 / (1 + layer) * np.array([0.6, 1.0, 1.7]), taus)
            losses |= {Cell(f"layer {layer}", "attention", mode, n): v for n, v in curve.items()}
    attributes = {"target": "all", "targets": 9}
    return effective_dataset(plain, losses, {}, taus=taus, tokens=POSITIONS, attributes=attributes)


def effective(
    rules: tuple[str, ...] = ("attention", "recent"), *, documents: int = 3, scope: str = "all"
) -> xr.Dataset:
    """A model whose loss increases by c/N, more under deletion; with its curves over N."""
    plain, losses, sizes = np.array([2.0, 1.0, 3.0])[:documents], {}, {}
    for index, rule in enumerate(rules):
        for mode, smallest in (("deletion", 4.0), ("renormalisation", 0.4)):
            rise = smallest * (1 + 2 * index) * np.array([0.6, 1.0, 1.7])[:documents]
            curve = searched(plain, rise, TAUS)
            losses |= {Cell(scope, rule, mode, n): loss for n, loss in curve.items()}
    sparse = Cell(scope, "sparsemax", "deletion", 0)
    losses[sparse], sizes[sparse] = plain * 1.25, np.full(documents, 3.5)
    attributes = {"target": "last:9", "targets": 9}
    data = effective_dataset(
        plain, losses, sizes, taus=TAUS, tokens=POSITIONS, attributes=attributes
    )
    captured = group("capture").isel(document=slice(documents))
    for name, score in (("f_outer", "precision"), ("f_inner", "recall")):
        captured[name] = 2 * captured[score] / (1 + captured[score])
    curves = over_sizes(captured, data["plain_loss"].values, cells_of(data)[0])
    return data if curves is None else data.merge(curves)


def normaliser(documents: int = 3) -> xr.Dataset:
    """A model whose largest weight decays as L^−0.3, with differences between documents."""
    n, temperatures = normaliser_numbers.sizes_of(POSITIONS), normaliser_numbers.TEMPERATURES
    by_document = []
    for index in range(documents):
        lift, share = 1 + 0.1 * index, np.linspace(1, 0.8, len(n)) - 0.01 * index
        numbers = {
            name: lift * np.linspace(1, 3, len(LENGTHS)) for name in normaliser_numbers.BY_LENGTH
        }
        numbers["distance_bound"] = 4 * numbers["distance"]
        numbers["log_largest"] = -0.3 * np.log(LENGTHS) - 0.1 * index
        numbers["power"] = normaliser_numbers.power(LENGTHS, numbers["log_largest"])
        for rank, name in enumerate(normaliser_numbers.BY_SIZE):
            numbers[name] = share * (0.6 + 0.04 * rank) if "within" in name else share * (9 + rank)
        numbers["ks"], numbers["critical_share"] = share, np.array(0.5)
        numbers["response"] = 0.1 * lift / np.array(temperatures)
        numbers["response_most"] = 0.4 / np.array(temperatures)
        by_document.append(numbers)
    size = normaliser_numbers.SIZE
    attributes = {"tokens": POSITIONS, "size": size, "heads": 12, "dimension": 8}
    flat = np.linspace(1, 0.6, len(n))
    return normaliser_dataset(by_document, lengths=LENGTHS, n=n, flat=flat, attributes=attributes)


def predictive() -> xr.Dataset:
    """Predicted curves of a known error for each source; those of all measured are exact."""
    rng = np.random.default_rng(0)
    curve = ("layer", "head", "n_predicted")
    data: dict[str, object] = {"flagged_share": ("source", [0.25, 0.1, 0.05, 0.0, np.nan, np.nan])}
    for name, short in (("precision", 0.5), ("recall", 0.4)):
        measured = rng.uniform(0, 1, (LAYERS, HEADS, N_PREDICTED.size))
        scales, levels = np.array([0, 0.9, 0.95, 1, 0, 0]), np.array([short, 0, 0, 0, 0, 0.3])
        predicted = np.multiply.outer(scales, measured) + levels[:, None, None, None]
        data |= {name: (curve, measured), f"{name}_predicted": (("source", *curve), predicted)}
        settled = np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) > 2
        data[f"{name}_settled"] = (curve[:2], settled)
        for index, key in enumerate(("pooled_mae", "pooled_bias", "slope", "intercept")):
            data[f"{name}_{key}"] = ("source", (short + 0.1 * index) * np.arange(6))
            data[f"{name}_{key}_se"] = ("source", np.full(6, 0.012))
        for key in ("better", "r2_median"):
            data[f"{name}_{key}"] = ("source", [0.1, 0.2, 0.3, 0.3, 0.4, np.nan])
        data[f"{name}_pooled_bias"][1][4] = data[f"{name}_pooled_bias_se"][1][4] = 1e-17
        data[f"{name}_within"] = ("source", [0.2, 0.3, 0.4, 0.4, 0.5, np.nan])
        checked = {"median": 0.004, "ninety": 0.019, "worst": 0.07, "noise": 0.008}
        checked |= {"far": 3, "surely_far": 2, "caught": 1}
        data |= {f"{name}_check_{key}": ((), value) for key, value in checked.items()}
    data["check_flagged"] = ("check", [True, False, False])
    coords = {"source": np.array(SOURCES, dtype=object), "n_predicted": N_PREDICTED}
    coords |= {"layer": np.arange(LAYERS), "head": np.arange(HEADS)}
    return xr.Dataset(data, coords=coords, attrs={"draws": 1000, "documents": 3})


def run_with(**groups: xr.Dataset) -> Run:
    return Run.of(with_groups(**groups))
