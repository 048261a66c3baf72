"""Synthetic /capture datasets whose heads obey the assumptions exactly, so that every parameter's
truth is known.

Documents differ as texts do: a document has its own β, c, ρ₀, level of log α and of ‖v‖, drawn
about the truth, and each token, lag and pair its own noise on top. Cosine histograms and shares of
negative cosines are the expected ones of a normal spread about the mean. The separability curves
(precision, recall, radii, …) are left out: they need value vectors, which nothing here has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtr
from scipy.stats import binom


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Parameters of every head."""

    C: float = 2.0
    lam: float = 0.25
    cv: float = 0.2
    beta: float = 0.15
    offset: float = 0.1
    rho0: float = 0.12
    p_sink: float = 0.4
    p_base: float = 2e-3
    eta: float = 0.35
    eta_tail: float = 0.35
    omega: float = 0.9
    t1: int = 30
    t2: int = 118


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Standard deviations: of a document about the truth, and of a token, lag or pair about its
    document.
    """

    document_norm: float = 0.02
    document_beta: float = 0.10
    document_offset: float = 0.02
    document_rho0: float = 0.02
    document_level: float = 0.10
    pair: float = 0.10
    sink: float = 0.05
    token: float = 0.20


@dataclass(frozen=True, kw_only=True)
class Sizes:
    documents: int = 8
    layers: int = 1
    heads: int = 4
    kv_heads: int = 2
    positions: int = 128
    window: tuple[int, ...] = ()
    """Visible tokens of each layer; all by default. A layer that sees fewer than all positions
    does not see the sink.
    """


DIMS = {
    "attention_weight": ("head", "position"),
    "value_norm": ("kv_head", "position"),
    "sink_cosine": ("kv_head", "position"),
    "cosine_mean": ("kv_head", "lag"),
    "cosine_negative_fraction": ("kv_head", "lag"),
    "cosine_histogram": ("kv_head", "lag_bin", "cosine_bin"),
    "cosine_block_mean": ("kv_head", "position_block", "lag_bin"),
    "precision": ("head", "n"),
    "recall": ("head", "n"),
}
"""Dims of the variables after document and layer."""
EDGES = np.linspace(-1.0, 1.0, 81)


def assert_covered(fit: xr.Dataset, name: str, planted: float, share: float = 0.9) -> None:
    """Raise if fewer intervals cover the planted value than the 0.1% quantile of their number where
    each covers it with probability `share`.
    """
    inside = (fit[f"{name}_lower"] < planted) & (fit[f"{name}_upper"] > planted)
    assert int(inside.sum()) >= binom.ppf(1e-3, inside.size, share), name


def log_weights(truth: Truth, position: np.ndarray) -> np.ndarray:
    """log α of content tokens, written from the paper and not from the code under test."""
    out = np.full(position.size, np.log(truth.p_base))
    for index, i in enumerate(position):
        if truth.t1 < i <= truth.t2:
            out[index] += np.log(1 + truth.eta * np.cos(truth.omega * i))
        elif i > truth.t2:
            out[index] += truth.eta_tail * (i - truth.t2)
    return out


def capture_of(
    arrays: dict[str, np.ndarray],
    coords: dict[str, Any],
    tokens: Sequence[int] | None = None,
    **attrs: Any,
) -> xr.Dataset:
    """Return a /capture dataset of arrays (document, layer, ...), laid out as a run's.

    `tokens` are the visible tokens of each layer, all by default.
    """
    data = {name: (("document", "layer", *DIMS[name]), array) for name, array in arrays.items()}
    out = xr.Dataset(data, coords, attrs)
    sizes = out.sizes
    seen = np.array(tokens or [sizes["position"]] * sizes["layer"])
    labels: dict[str, Any] = {
        dim: np.arange(sizes[dim])
        for dim in ("layer", "head", "kv_head", "position")
        if dim in sizes
    }
    labels["document"] = np.array([f"text {k}" for k in range(sizes["document"])], dtype=object)
    labels["tokens"] = ("layer", seen)
    labels["sink_visible"] = ("layer", seen == sizes["position"])
    group = sizes["head"] // sizes.get("kv_head", 1)
    labels["kv_head_of_head"] = ("head", np.arange(sizes["head"]) // group)
    return out.assign_coords(labels)


def capture(
    truth: Truth = Truth(), spread: Spread = Spread(), sizes: Sizes = Sizes(), seed: int = 0
) -> xr.Dataset:
    """Return a /capture dataset with the variables the assumption fits read, float32, laid out
    as a run's.
    """
    random = np.random.default_rng(seed)
    positions = sizes.positions
    tokens = sizes.window or (positions,) * sizes.layers
    lag = np.arange(1, max(positions - 1, 2))
    # Every lag up to 8 alone, then bins that double; up to four blocks of positions of equal size.
    starts = np.array([k for k in (*range(1, 9), 9, 17, 33, 65, 129, 257, 513) if k <= lag[-1]])
    bins = starts, np.append(starts[1:] - 1, lag[-1])
    blocks = np.unique(np.linspace(0, positions, 5).astype(int))
    layers = [_layer(truth, spread, sizes, seen, lag, bins, blocks, random) for seen in tokens]
    arrays = {name: np.stack([layer[name] for layer in layers], axis=1) for name in layers[0]}
    ids = random.integers(0, 1000, (sizes.documents, positions), dtype=np.int32)
    coords = {
        "lag": lag,
        "lag_bin_start": ("lag_bin", bins[0]),
        "lag_bin_stop": ("lag_bin", bins[1]),
        "cosine_bin_left": ("cosine_bin", EDGES[:-1]),
        "cosine_bin_right": ("cosine_bin", EDGES[1:]),
        "position_block_start": ("position_block", blocks[:-1]),
        "position_block_stop": ("position_block", blocks[1:] - 1),
    }
    return capture_of(arrays, coords, tokens).assign(token_id=(("document", "position"), ids))


def _layer(
    truth: Truth,
    spread: Spread,
    sizes: Sizes,
    seen: int,
    lag: np.ndarray,
    bins: tuple[np.ndarray, np.ndarray],
    blocks: np.ndarray,
    random: np.random.Generator,
) -> dict[str, np.ndarray]:
    documents, positions = sizes.documents, sizes.positions
    of_heads, of_kv_heads = (documents, sizes.heads), (documents, sizes.kv_heads)
    sink, start = seen == positions, positions - seen
    first, content = int(sink), seen - int(sink)

    def by_document(deviation: float) -> np.ndarray:
        return random.normal(0, deviation, (*of_kv_heads, 1))

    weight = np.zeros((*of_heads, positions))
    log_alpha = log_weights(truth, first + np.arange(content)) + random.normal(
        0, spread.document_level, (*of_heads, 1)
    )
    log_alpha = log_alpha + random.normal(0, spread.token, (*of_heads, content))
    weight[..., start + first :] = np.exp(log_alpha)
    norm = np.full((*of_kv_heads, positions), np.nan)
    level = truth.C * (1 + by_document(spread.document_norm))
    uniform = random.uniform(-np.sqrt(3), np.sqrt(3), (*of_kv_heads, content))
    norm[..., start + first :] = level * (1 + truth.cv * uniform)
    sink_cosine = np.full((*of_kv_heads, positions), np.nan)
    if sink:
        weight[..., 0] = truth.p_sink * np.exp(random.normal(0, 0.05, of_heads))
        norm[..., 0] = truth.lam * level[..., 0]
        rho0 = truth.rho0 + by_document(spread.document_rho0)
        sink_cosine[..., 1:] = rho0 + random.normal(0, spread.sink, (*of_kv_heads, content))
    beta = truth.beta * np.exp(by_document(spread.document_beta))
    offset = truth.offset + by_document(spread.document_offset) * (truth.offset != 0)
    pairs = np.maximum(content - lag, 0)
    expected = offset + (1 - offset) * np.exp(-beta * lag)
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = random.normal(0, 1, expected.shape) * spread.pair / np.sqrt(pairs)
    counts = np.zeros((*of_kv_heads, bins[0].size, EDGES.size - 1))
    for index, (low, high) in enumerate(zip(*bins, strict=True)):
        within = (lag >= low) & (lag <= high)
        share = np.diff(ndtr((EDGES - expected[..., within, None]) / spread.pair), axis=-1)
        counts[..., index, :] = (pairs[within, None] * share).sum(axis=-2)
    out = {
        "attention_weight": weight,
        "value_norm": norm,
        "sink_cosine": sink_cosine,
        "cosine_mean": np.where(pairs > 0, expected + noise, np.nan),
        "cosine_negative_fraction": np.where(pairs > 0, ndtr(-expected / spread.pair), np.nan),
        "cosine_block_mean": _block_means(expected, spread, first, blocks - start, bins),
    }
    return {name: array.astype(np.float32) for name, array in out.items()} | {
        "cosine_histogram": np.round(counts).astype(np.int32)
    }


def _block_means(
    expected: np.ndarray,
    spread: Spread,
    first: int,
    blocks: np.ndarray,
    bins: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Mean cosine by block of the later token and lag bin: the model's, and noise as of so many
    pairs; it does not drift with position.
    """
    random = np.random.default_rng(abs(int(1e9 * expected.sum())))
    out = np.full((*expected.shape[:2], blocks.size - 1, bins[0].size), np.nan)
    lag = np.arange(1, expected.shape[-1] + 1)
    for block, (low, high) in enumerate(pairwise(blocks)):
        pairs = np.maximum(high - np.maximum(max(low, first), first + lag), 0)
        for index, (a, b) in enumerate(zip(bins[0] - 1, bins[1], strict=True)):
            if total := pairs[a:b].sum():
                mean = (expected[..., a:b] * pairs[a:b]).sum(axis=-1) / total
                noise = random.normal(0, spread.pair / np.sqrt(total), mean.shape)
                out[..., block, index] = mean + noise
    return out
