"""A small made-up run for the tests of reports: 2 layers, 4 heads, 2 KV heads, 64 positions,
3 documents, named as in a real run.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

from geostat.display.tree import with_display
from reports.tables.table import Table
from theory.paper_tables.table_1 import corrected_tables

LAYERS, HEADS, KV_HEADS, POSITIONS = 2, 4, 2, 64
N = np.unique(np.geomspace(1, POSITIONS, 30).astype(int))
DRAWN = ["random_selection", "random_directions", "permuted_values"]
N_ENVELOPE = N[::3]
EDITIONS, GRAMS = ["printed", "sharp"], ["exponential", "offset", "measured"]
STATISTICS = ("precision", "recall", "f_outer", "f_inner")
SENTENCES = [f"Sentence {number} of the verdict, with a < b & c." for number in "12345"]
KEY_RESULTS: list[dict[str, Any]] = [
    {
        "key": key,
        "answer": answer,
        "verdict": f"What is said of {key}, with a < b.",
        "number": {
            **{"of": f"Number of {key}", "value": 0.12345, "lower": 0.1},
            "upper": None if answer == "undetermined" else 0.2,
            "expected": None,
            "tolerated": 0.05 if answer == "fails" else None,
        },
        "counts": {"of": "heads", "holds": 5, "fails": 2, "undetermined": 0, "no_estimate": 1},
        "claim": "",
        "tokens": None,
    }
    for key, answer in {
        **{"norms": "fails", "similarity": "undetermined", "weights": "holds"},
        **{"separability": "holds", "bounds": "fails", "geometry": "undetermined"},
    }.items()
]


def words(
    symbol: str = "x", units: str = "1", equation: str = "arXiv 2602.01893, Assumption 1"
) -> dict[str, str]:
    return {"long_name": "made-up quantity", "units": units, "symbol": symbol, "equation": equation}


def parameter(
    name: str, dims: tuple[str, ...], values: np.ndarray, documents: int, **attrs: str
) -> dict[str, Any]:
    error = np.abs(values) * 0.1 if documents > 1 else np.full(values.shape, np.nan)
    parts = {"": values, "_se": error, "_lower": values - 2 * error, "_upper": values + 2 * error}
    return {f"{name}{part}": (dims, array, words(**attrs)) for part, array in parts.items()}


def capture(rng: np.random.Generator, documents: int, window: int) -> xr.Dataset:
    """Position 0 is the sink; the second layer sees the last `window` positions only."""
    tokens = np.array([POSITIONS, window])
    visible = np.arange(POSITIONS) >= POSITIONS - tokens[:, None]
    of_kv_head = (documents, LAYERS, KV_HEADS)
    alpha = rng.dirichlet(np.full(POSITIONS, 0.3), size=(documents, LAYERS, HEADS))
    alpha *= visible[:, None]
    norm = np.where(visible[:, None], rng.uniform(0.8, 1.2, (*of_kv_head, POSITIONS)), np.nan)
    norm[..., 0] *= 0.3
    lag = np.arange(1, POSITIONS - 1)
    cosine = 0.2 + 0.8 * np.exp(-0.3 * lag) + rng.normal(0, 0.02, (*of_kv_head, lag.size))
    cosine = np.where(lag < tokens[:, None, None] - 1, cosine, np.nan)
    kv_dims, head_dims = ("document", "layer", "kv_head"), ("document", "layer", "head")
    data: dict[str, Any] = {
        "attention_weight": ((*head_dims, "position"), alpha.astype(np.float32)),
        "value_norm": ((*kv_dims, "position"), norm.astype(np.float32)),
        "cosine_mean": ((*kv_dims, "lag"), cosine.astype(np.float32)),
    }
    for name in ("precision", "recall"):
        noise = rng.normal(0, 0.02, (documents, LAYERS, HEADS, N.size))
        values = np.clip(1 / np.sqrt(N) + noise, 0, 1)
        values[..., 0] = 1
        values = np.where(tokens[:, None, None] >= N, values, np.nan).astype(np.float32)
        data[name] = ((*head_dims, "n"), values, words(name[0].upper(), equation="(2)"))
    coords = {
        "document": [f"document {index}" for index in range(documents)],
        "layer": np.arange(LAYERS),
        "head": np.arange(HEADS),
        "kv_head": np.arange(KV_HEADS),
        "position": np.arange(POSITIONS),
        "lag": lag,
        "n": N,
        "tokens": ("layer", tokens),
        "sink_visible": ("layer", tokens == POSITIONS),
        "kv_head_of_head": ("head", np.arange(HEADS) // (HEADS // KV_HEADS)),
    }
    return xr.Dataset(data, coords=coords, attrs={"convention": "paper", "dimension": 16})


def norms(captured: xr.Dataset, documents: int) -> xr.Dataset:
    sink = captured["sink_visible"].values
    level = np.array([[1.1, 0.9], [1.3, 0.7]])
    data: dict[str, Any] = {"sink_visible": ("layer", sink)}
    for name, values, symbol, units in (
        ("C", level, "C", "value units"),
        ("lam", np.where(sink[:, None], 0.3 * level, np.nan), r"\lambda", "1"),
        ("cv_token", 0.2 * level, r"\mathrm{CV}_{\mathrm{token}}", "1"),
        ("cv_profile", 0.025 * level, r"\mathrm{CV}_{\mathrm{profile}}", "1"),
    ):
        dims = ("layer", "kv_head")
        data |= parameter(name, dims, values, documents, symbol=symbol, units=units)
    return xr.Dataset(data)


def similarity(captured: xr.Dataset, documents: int) -> xr.Dataset:
    dims, of_kv_head = ("gram", "layer", "kv_head"), ("layer", "kv_head")
    ones = np.array([[1.0, 0.9], [1.2, 0.8]])
    beta, offset = np.stack([0.05 * ones, 0.3 * ones]), np.stack([0 * ones, 0.2 * ones])
    rho0 = np.where(captured["sink_visible"].values[:, None], -0.1 * ones, np.nan)
    data = parameter("beta", dims, beta, documents, symbol=r"\beta", units="1/token")
    data |= parameter("offset", dims, offset, documents, symbol="c")
    data |= parameter("rho0", of_kv_head, rho0, documents, symbol=r"\rho_0")
    for name, low, high in (
        ("mae_by_lag", 0.13, 0.02),
        ("mae_by_pair", 0.2, 0.1),
        ("rmse", 0.15, 0.03),
        ("r2", -0.5, 0.9),
    ):
        data[name] = (dims, np.stack([low * ones, high * ones]), words("E"))
    data["feasible"] = (dims, np.stack([ones > 1, ones > 0]), words(r"G \succeq 0"))
    data["negative_fraction"] = (of_kv_head, 0.2 * ones, words(r"\mathrm{P}(\rho_{ij} < 0)"))
    data["offset_preferred"] = (of_kv_head, ones > 0.85, words(r"c \neq 0"))
    return xr.Dataset(data, coords={"gram": GRAMS[:2]})


def weights(captured: xr.Dataset, documents: int) -> xr.Dataset:
    dims, along = ("layer", "head"), ("layer", "head", "position")
    ones = np.linspace(0.5, 1.5, LAYERS * HEADS).reshape(LAYERS, HEADS)
    sink = captured["sink_visible"].values[:, None]
    wave = ones > 1
    data: dict[str, Any] = {"sink_visible": ("layer", sink[:, 0])}
    for name, values, symbol in (
        ("p_sink", np.where(sink, 0.4 * ones, np.nan), r"p_{\mathrm{sink}}"),
        ("p_base", 1.2e-5 * ones, r"p_{\mathrm{base}}"),
        ("eta", 0.05 * ones, r"\eta"),
        ("omega", np.where(wave, 0.6 * ones, np.nan), r"\omega"),
        ("t1", np.where(wave, 10.0, 40.0), "T_1"),
        ("t2", np.where(wave, 50.0, 40.0), "T_2"),
        ("total", ones / ones, r"\Sigma_i \alpha_i"),
    ):
        data |= parameter(name, dims, values, documents, symbol=symbol)
    mean = captured["attention_weight"].mean("document").values.astype(np.float64)
    mean = np.where(mean > 0, mean, np.nan)
    data["weight_mean"] = (along, mean, words(r"\bar\alpha_i"))
    data["log_weight_mean"] = (along, np.log(mean), words(r"\log\alpha_i"))
    model = np.where(np.isfinite(mean), -5.0, np.nan)
    data["log_weight_model"] = (along, model, words(r"\log\alpha_i"))
    data |= {"rmse": (dims, ones, words("E", "nats")), "r2": (dims, 0.5 * ones, words("R^2"))}
    data["oscillation_identified"] = (dims, wave, words())
    data["growth_identified"] = (dims, ones > 0.6, words())
    return xr.Dataset(data)


def envelope(captured: xr.Dataset) -> xr.Dataset:
    dims = ("edition", "gram", "layer", "head", "n_envelope")
    shape = (len(EDITIONS), len(GRAMS), LAYERS, HEADS, N_ENVELOPE.size)
    measured = captured.sel(n=N_ENVELOPE).rename(n="n_envelope").mean("document")
    data: dict[str, Any] = {}
    for statistic in STATISTICS:
        score = "precision" if statistic in ("precision", "f_outer") else "recall"
        curve = measured[score].values.astype(np.float64)
        low, high = (np.broadcast_to(curve + shift, shape).copy() for shift in (-0.2, 0.2))
        high[0, 0, ..., 3:] = curve[..., 3:] - 0.05
        low[0, 0] -= 1.0
        excess = np.maximum(np.maximum(low - curve, curve - high), 0.0)
        for end, values in (("lower", low), ("upper", high), ("excess", excess)):
            data[f"{statistic}_{end}"] = (dims, values, words())
        data[f"{statistic}_outside"] = (dims, excess > 0.01, words())
        data[statistic] = (("layer", "head", "n_envelope"), curve, words())
    return xr.Dataset(data, coords={"edition": EDITIONS, "gram": GRAMS, "n_envelope": N_ENVELOPE})


def summary(captured: xr.Dataset, null: xr.Dataset, laid: xr.Dataset, documents: int) -> xr.Dataset:
    found = xr.Dataset(
        attrs={
            "sentences": SENTENCES,
            "key_results": [json.dumps(result) for result in KEY_RESULTS],
            "errata": json.dumps([ERRATUM]),
            "paper_tables": json.dumps(corrected_tables()),
        }
    )
    for name in ("precision", "recall"):
        by_document = captured[name].mean(("layer", "head")).astype(np.float64)
        mean = by_document.mean("document")
        spread = by_document.std("document", ddof=1) if documents > 1 else np.nan * mean
        found[f"{name}_mean"], found[f"{name}_se"] = mean, spread / np.sqrt(documents)
        found[f"{name}_null"] = null[name].mean(("document", "layer", "head")).astype(np.float64)
    found["floor"] = ("n", N / POSITIONS)
    every = ("layer", "head", "n_envelope")
    for statistic in STATISTICS:
        lower, upper, excess = (laid[f"{statistic}_{end}"] for end in ("lower", "upper", "excess"))
        found[f"{statistic}_lower"] = lower.mean(("layer", "head"))
        found[f"{statistic}_upper"] = upper.mean(("layer", "head"))
        found[f"{statistic}_inside"] = (excess <= 0).mean(every)
        found[f"{statistic}_outside"] = laid[f"{statistic}_outside"].mean(every)
        for where, value in (("inside", 0.9), ("outside", 0.004)):
            drawn = xr.DataArray([value, value, np.nan], dims="gram")
            drawn = drawn.broadcast_like(found[f"{statistic}_inside"])
            found[f"{statistic}_drawn_{where}"] = drawn
            found[f"{statistic}_drawn_{where}_se"] = drawn / 100
        found[f"{statistic}_width"] = (upper - lower).mean(every)
        found[f"{statistic}_excess"] = excess.mean(every)
        curve = laid[statistic].mean(("layer", "head"))
        counted = curve.notnull() & (curve["n_envelope"] > 1) & (curve["n_envelope"] < POSITIONS)
        above = curve >= found[f"{statistic}_lower"] - 1e-9
        inside = counted & above & (curve <= found[f"{statistic}_upper"] + 1e-9)
        found[f"{statistic}_means_inside"] = inside.sum("n_envelope")
        found[f"{statistic}_means_counted"] = counted.sum("n_envelope")
    return found.drop_vars([name for name in found.coords if name not in found.dims])


ERRATUM = {
    "number": 1,
    "title": "Units",
    "printed": r"$\kappa d(\Delta/B)^2$",
    "true": r"$\kappa d(\Delta/B^2)^2$ & more",
    "reading": "Bounds e^{−κd} move with the unit of a_min_in.",
}


def with_kinds(tree: xr.DataTree) -> xr.DataTree:
    """The run with documents of two kinds, and what lies between these."""
    tree = tree.copy()
    rows = tree.attrs["manifest"]["documents"]
    kinds = ["$code$", "$code$", *["topics"] * (len(rows) - 2)]
    documents = [
        {**row, "kind": kind, "text_sha256": "c" * 64}
        for row, kind in zip(rows, kinds, strict=True)
    ]
    corpus = {"name": "made-up text", "population": "two kinds in turn"}
    tree.attrs = {**tree.attrs, "corpus": corpus, "manifest": {"documents": documents}}
    numbers = {"share": 0.62, "share_lower": 0.3, "share_upper": 0.81, "p": 0.0095}
    numbers |= {"error_strata": 0.77, "error_sample": 1.31, "heads": 4.0}
    between = {f"between_{name}": ("quantity", [value]) for name, value in numbers.items()}
    between["between_words"] = ("quantity", np.array(["norm, $C$"], dtype=object))
    between["kind_estimate"] = (("kind_quantity", "text_kind"), [[0.98, 1.02], [0.2, 0.3]])
    between["kind_documents"] = ("text_kind", [2, len(rows) - 2])
    summary = tree["summary"].to_dataset().assign(between)
    coords = {"quantity": ["C"], "kind_quantity": ["C", "rho0"], "text_kind": ["$code$", "topics"]}
    tree["summary"] = xr.DataTree(summary.assign_coords(coords))
    return tree


def run_tree(**options: Any) -> xr.DataTree:
    """A confronted run as it is rendered, the caller's own; `options` as below. `window` < 64 gives
    the second layer a sliding window that does not see the sink: the run stands in two parts.
    """
    return _shown(**options).copy(deep=True)


@cache
def _shown(**options: Any) -> xr.DataTree:
    return with_display(plain_tree(**options))


def group(name: str) -> xr.Dataset:
    """A group of the run, the caller's own."""
    return run_tree()[name].to_dataset()


def with_groups(**groups: xr.Dataset) -> xr.DataTree:
    """The run as it is rendered with these groups, new or in place of its own."""
    tree = run_tree()
    for name, data in groups.items():
        tree[name] = xr.DataTree(data)
    return with_display(tree)


def cells(table: Table) -> list[str]:
    """The rows of a table in plain text, with bars between cells."""
    return [" | ".join(row) for row in table.frame().to_numpy().tolist()]


@cache
def plain_tree(
    *,
    documents: int = 3,
    null: bool = True,
    window: int = POSITIONS,
    model: str = "tiny-model",
    seed: int = 0,
) -> xr.DataTree:
    """The run as it is stored; `run_tree` for what is shown of it."""
    captured = capture(np.random.default_rng(seed), documents, window)
    shape, dims = (
        (documents, LAYERS, HEADS, len(DRAWN), N.size),
        ("document", "layer", "head", "null", "n"),
    )
    floor = np.broadcast_to(N / POSITIONS, shape).astype(np.float32)
    baseline = xr.Dataset(
        {name: (dims, floor) for name in ("precision", "recall")},
        coords={"null": DRAWN, "n": N},
    )
    laid = envelope(captured)
    groups = {
        "capture": captured,
        "norms": norms(captured, documents),
        "similarity": similarity(captured, documents),
        "weights": weights(captured, documents),
        "envelope": laid,
        "summary": summary(captured, baseline, laid, documents),
        "null": baseline,
    }
    if not null:
        del groups["null"]
        groups["summary"] = groups["summary"].drop_dims("null")
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    provenance = {"model": model, "family": "llama", "revision": None}
    manifest = [{"name": f"document {index}", "sha256": "b" * 64} for index in range(documents)]
    tree.attrs = {
        "geostat_version": "0.1.0",
        "model": provenance | {"layers": LAYERS, "heads": HEADS, "dimension": 16},
        "corpus": {"name": "made-up text", "sha256": ["a" * 64] * documents},
        "length": POSITIONS,
        "parity": {"weights": 1e-7, "log_weights": float("nan")},
        "manifest": {"documents": manifest},
    }
    return tree
