"""A small made-up run for the tests of reports: 2 layers, 4 heads, 2 value heads, 64 positions,
3 documents, named as in a real run.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

from geostat.display.tree import with_display
from theory.paper_tables.settled import settled_tables

LAYERS, HEADS, KV_HEADS, POSITIONS = 2, 4, 2, 64
N = np.unique(np.geomspace(1, POSITIONS, 30).astype(int))
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
            "of": f"Number of {key}",
            "value": 0.12345,
            "lower": 0.1,
            "upper": None if answer == "undetermined" else 0.2,
            "expected": None,
            "tolerated": 0.05 if answer == "fails" else None,
        },
        "counts": {"of": "heads", "holds": 5, "fails": 2, "undetermined": 0, "no_estimate": 1},
        "claim": "",
        "tokens": None,
    }
    for key, answer in {
        "norms": "fails",
        "similarity": "undetermined",
        "weights": "holds",
        "separability": "holds",
        "bounds": "fails",
        "directions": "undetermined",
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
    alpha = (
        rng.dirichlet(np.full(POSITIONS, 0.3), size=(documents, LAYERS, HEADS)) * visible[:, None]
    )
    norm = np.where(
        visible[:, None], rng.uniform(0.8, 1.2, (documents, LAYERS, KV_HEADS, POSITIONS)), np.nan
    )
    norm[..., 0] *= 0.3
    lag = np.arange(1, POSITIONS - 1)
    cosine = (
        0.2
        + 0.8 * np.exp(-0.3 * lag)
        + rng.normal(0, 0.02, (documents, LAYERS, KV_HEADS, lag.size))
    )
    cosine = np.where(lag < tokens[:, None, None] - 1, cosine, np.nan)
    curve = {}
    for name in ("precision", "recall"):
        values = np.clip(
            1 / np.sqrt(N) + rng.normal(0, 0.02, (documents, LAYERS, HEADS, N.size)), 0, 1
        )
        values[..., 0] = 1
        values = np.where(tokens[:, None, None] >= N, values, np.nan)
        curve[name] = (
            ("document", "layer", "head", "n"),
            values.astype(np.float32),
            words(name[0].upper(), equation="(2)"),
        )
    return xr.Dataset(
        {
            "attention_weight": (
                ("document", "layer", "head", "position"),
                alpha.astype(np.float32),
            ),
            "value_norm": (("document", "layer", "kv_head", "position"), norm.astype(np.float32)),
            "cosine_mean": (("document", "layer", "kv_head", "lag"), cosine.astype(np.float32)),
            **curve,
        },
        coords={
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
        },
        attrs={"convention": "paper", "dimension": 16},
    )


def norms(captured: xr.Dataset, documents: int) -> xr.Dataset:
    dims = ("layer", "kv_head")
    sink = captured["sink_visible"].values
    level = np.array([[1.1, 0.9], [1.3, 0.7]])
    data = parameter("C", dims, level, documents, symbol="C", units="value units")
    data |= parameter(
        "lam", dims, np.where(sink[:, None], 0.3 * level, np.nan), documents, symbol=r"\lambda"
    )
    data |= parameter(
        "cv_token", dims, 0.2 * level, documents, symbol=r"\mathrm{CV}_{\mathrm{token}}"
    )
    data |= parameter(
        "cv_profile", dims, 0.025 * level, documents, symbol=r"\mathrm{CV}_{\mathrm{profile}}"
    )
    return xr.Dataset({**data, "sink_visible": ("layer", sink)})


def similarity(captured: xr.Dataset, documents: int) -> xr.Dataset:
    dims, own = ("gram", "layer", "kv_head"), ("layer", "kv_head")
    ones = np.array([[1.0, 0.9], [1.2, 0.8]])
    data = parameter(
        "beta",
        dims,
        np.stack([0.05 * ones, 0.3 * ones]),
        documents,
        symbol=r"\beta",
        units="1/token",
    )
    data |= parameter("offset", dims, np.stack([0 * ones, 0.2 * ones]), documents, symbol="c")
    data |= parameter(
        "rho0",
        own,
        np.where(captured["sink_visible"].values[:, None], -0.1 * ones, np.nan),
        documents,
        symbol=r"\rho_0",
    )
    for name, low, high in (
        ("mae_by_lag", 0.13, 0.02),
        ("mae_by_pair", 0.2, 0.1),
        ("rmse", 0.15, 0.03),
        ("r2", -0.5, 0.9),
    ):
        data[name] = (dims, np.stack([low * ones, high * ones]), words("E"))
    data["feasible"] = (dims, np.stack([ones > 1, ones > 0]), words(r"G \succeq 0"))
    data["negative_fraction"] = (own, 0.2 * ones, words(r"\mathrm{P}(\rho_{ij} < 0)"))
    data["offset_preferred"] = (own, ones > 0.85, words(r"c \neq 0"))
    return xr.Dataset(data, coords={"gram": GRAMS[:2]})


def weights(captured: xr.Dataset, documents: int) -> xr.Dataset:
    dims, along = ("layer", "head"), ("layer", "head", "position")
    ones = np.linspace(0.5, 1.5, LAYERS * HEADS).reshape(LAYERS, HEADS)
    sink = captured["sink_visible"].values[:, None]
    wave = ones > 1
    data: dict[str, Any] = {}
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
    seen = mean > 0
    data["weight_mean"] = (along, np.where(seen, mean, np.nan), words(r"\bar\alpha_i"))
    data["log_weight_mean"] = (
        along,
        np.log(mean, where=seen, out=np.full(mean.shape, np.nan)),
        words(r"\log\alpha_i"),
    )
    data["log_weight_model"] = (along, np.where(seen, -5.0, np.nan), words(r"\log\alpha_i"))
    data |= {"rmse": (dims, ones, words("E", "nats")), "r2": (dims, 0.5 * ones, words("R^2"))}
    data |= {
        "oscillation_identified": (dims, wave, words()),
        "growth_identified": (dims, ones > 0.6, words()),
    }
    return xr.Dataset({**data, "sink_visible": ("layer", sink[:, 0])})


def envelope(captured: xr.Dataset) -> xr.Dataset:
    dims = ("edition", "gram", "layer", "head", "n_envelope")
    shape = (len(EDITIONS), len(GRAMS), LAYERS, HEADS, N_ENVELOPE.size)
    measured = captured.sel(n=N_ENVELOPE).rename(n="n_envelope").mean("document")
    data: dict[str, Any] = {}
    for statistic in STATISTICS:
        curve = measured[
            "precision" if statistic in ("precision", "f_outer") else "recall"
        ].values.astype(np.float64)
        low, high = (
            np.broadcast_to(curve - 0.2, shape).copy(),
            np.broadcast_to(curve + 0.2, shape).copy(),
        )
        high[0, 0, ..., 3:] = curve[..., 3:] - 0.05
        low[0, 0] -= 1.0
        excess = np.maximum(np.maximum(low - curve, curve - high), 0.0)
        data |= {
            f"{statistic}_lower": (dims, low, words()),
            f"{statistic}_upper": (dims, high, words()),
            f"{statistic}_excess": (dims, excess, words()),
        }
        data[f"{statistic}_outside"] = (dims, excess > 0.01, words())
        data[statistic] = (("layer", "head", "n_envelope"), curve, words())
    return xr.Dataset(data, coords={"edition": EDITIONS, "gram": GRAMS, "n_envelope": N_ENVELOPE})


def summary(
    captured: xr.Dataset,
    null: xr.Dataset,
    laid: xr.Dataset,
    documents: int,
    errata: list[dict[str, object]],
) -> xr.Dataset:
    found = xr.Dataset(
        attrs={
            "sentences": SENTENCES,
            "key_results": [json.dumps(one) for one in KEY_RESULTS],
            "errata": json.dumps(errata),
            "paper_tables": json.dumps(settled_tables()),
        }
    )
    for name in ("precision", "recall"):
        each = captured[name].mean(("layer", "head")).astype(np.float64)
        found[f"{name}_mean"] = each.mean("document")
        found[f"{name}_se"] = (
            each.std("document", ddof=1) / np.sqrt(documents)
            if documents > 1
            else each.mean("document") * np.nan
        )
        found[f"{name}_null"] = null[name].mean(("document", "layer", "head")).astype(np.float64)
    found["floor"] = ("n", N / POSITIONS)
    for statistic in STATISTICS:
        for side in ("lower", "upper"):
            found[f"{statistic}_{side}"] = laid[f"{statistic}_{side}"].mean(("layer", "head"))
        found[f"{statistic}_inside"] = (laid[f"{statistic}_excess"] <= 0).mean(
            ("layer", "head", "n_envelope")
        )
        found[f"{statistic}_outside"] = laid[f"{statistic}_outside"].mean(
            ("layer", "head", "n_envelope")
        )
        for where, value in (("inside", 0.9), ("outside", 0.004)):
            fitted = xr.DataArray([value, value, np.nan], dims="gram").broadcast_like(
                found[f"{statistic}_inside"]
            )
            found[f"{statistic}_drawn_{where}"] = fitted
            found[f"{statistic}_drawn_{where}_se"] = fitted / 100
        found[f"{statistic}_width"] = (
            laid[f"{statistic}_upper"] - laid[f"{statistic}_lower"]
        ).mean(("layer", "head", "n_envelope"))
        found[f"{statistic}_excess"] = laid[f"{statistic}_excess"].mean(
            ("layer", "head", "n_envelope")
        )
        curve = laid[statistic].mean(("layer", "head"))
        counted = curve.notnull() & (curve["n_envelope"] > 1) & (curve["n_envelope"] < POSITIONS)
        inside = (
            counted
            & (curve >= found[f"{statistic}_lower"] - 1e-9)
            & (curve <= found[f"{statistic}_upper"] + 1e-9)
        )
        found[f"{statistic}_means_inside"], found[f"{statistic}_means_counted"] = (
            inside.sum("n_envelope"),
            counted.sum("n_envelope"),
        )
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
    own = [
        {**row, "kind": kind, "text_sha256": "c" * 64}
        for row, kind in zip(rows, kinds, strict=True)
    ]
    tree.attrs = {
        **tree.attrs,
        "corpus": {"name": "made-up text", "population": "two kinds in turn"},
        "manifest": {"documents": own},
    }
    numbers = {"share": 0.62, "share_lower": 0.3, "share_upper": 0.81, "p": 0.0095}
    numbers |= {"error_strata": 0.77, "error_sample": 1.31, "heads": 4.0}
    between = {f"between_{name}": ("quantity", [value]) for name, value in numbers.items()}
    between["between_words"] = ("quantity", np.array(["norm, $C$"], dtype=object))
    summary = tree["summary"].to_dataset().assign(between)
    tree["summary"] = xr.DataTree(summary.assign_coords(quantity=["C"]))
    return tree


def run_tree(**options: Any) -> xr.DataTree:
    """A confronted run as it is rendered, the caller's own; `options` as below. `window` < 64 gives
    the second layer a sliding window that does not see the sink: the run stands in two parts.
    """
    return _shown(**options).copy(deep=True)


@cache
def _shown(**options: Any) -> xr.DataTree:
    return with_display(plain_tree(**options))


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
    rng = np.random.default_rng(seed)
    captured = capture(rng, documents, window)
    baseline = xr.Dataset(
        {
            name: (
                ("document", "layer", "head", "null", "n"),
                np.broadcast_to(N / POSITIONS, (documents, LAYERS, HEADS, 2, N.size)).astype(
                    np.float32
                ),
            )
            for name in ("precision", "recall")
        },
        coords={"null": ["random_selection", "random_directions"], "n": N},
    )
    laid = envelope(captured)
    told = summary(captured, baseline, laid, documents, [ERRATUM])
    groups = {
        "capture": captured,
        "norms": norms(captured, documents),
        "similarity": similarity(captured, documents),
        "weights": weights(captured, documents),
    }
    groups |= {
        "envelope": laid,
        "summary": (
            told if null else told.drop_vars(["precision_null", "recall_null"]).drop_dims("null")
        ),
    }
    if null:
        groups["null"] = baseline
    tree = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs = {
        "geostat_version": "0.1.0",
        "model": {
            "model": model,
            "family": "llama",
            "layers": LAYERS,
            "heads": HEADS,
            "dimension": 16,
            "revision": None,
        },
        "corpus": {"name": "made-up text", "sha256": ["a" * 64] * documents},
        "length": POSITIONS,
        "parity": {"weights": 1e-7, "log_weights": float("nan")},
        "manifest": {
            "documents": [
                {"name": f"document {index}", "sha256": "b" * 64} for index in range(documents)
            ]
        },
    }
    return tree
