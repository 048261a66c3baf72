"""Synthetic /capture datasets whose heads obey the assumptions exactly, so that every parameter's
truth is known.

Documents differ as texts do: a document has its own β, c, ρ₀, level of log α and of ‖v‖, drawn
about the truth, and each token, lag and pair its own noise on top. Cosine histograms and shares of
negative cosines are the expected ones of a normal spread about the mean. The separability curves
(precision, recall, radii, …) are left out: they need value vectors, which nothing here has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import xarray as xr
from scipy.special import ndtr


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Parameters every head has, arrays of shape (layer, head) or (layer, kv_head) drawn from or
    set to these.
    """

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
    window: tuple[int, ...] = field(default=())
    """Visible tokens of each layer; all by default. A layer that sees fewer than all positions
    does not see the sink.
    """


def log_weights(truth: Truth, position: np.ndarray) -> np.ndarray:
    """log α of content tokens, written from the paper and not from the code under test."""
    out = np.full(position.size, np.log(truth.p_base))
    for at, i in enumerate(position):
        if truth.t1 < i <= truth.t2:
            out[at] += np.log(1 + truth.eta * np.cos(truth.omega * i))
        elif i > truth.t2:
            out[at] += truth.eta_tail * (i - truth.t2)
    return out


def capture(
    truth: Truth = Truth(), spread: Spread = Spread(), sizes: Sizes = Sizes(), seed: int = 0
) -> xr.Dataset:
    """Return a /capture dataset with the variables the assumption fits read, float32, laid out
    as a run's.
    """
    random = np.random.default_rng(seed)
    tokens = np.array(sizes.window or (sizes.positions,) * sizes.layers)
    lag = np.arange(1, max(sizes.positions - 1, 2))
    starts, stops = _lag_bins(int(lag[-1]))
    edges = np.linspace(-1.0, 1.0, 81)
    variables: dict[str, list[np.ndarray]] = {}
    for seen in tokens:
        for name, array in _layer(
            truth, spread, sizes, int(seen), lag, (starts, stops, edges), random
        ).items():
            variables.setdefault(name, []).append(array)
    dims = {
        "attention_weight": ("head", "position"),
        "value_norm": ("kv_head", "position"),
        "sink_cosine": ("kv_head", "position"),
        "cosine_mean": ("kv_head", "lag"),
        "cosine_negative_fraction": ("kv_head", "lag"),
        "cosine_histogram": ("kv_head", "lag_bin", "cosine_bin"),
        "cosine_block_mean": ("kv_head", "position_block", "lag_bin"),
    }
    data = {
        name: (("document", "layer", *dims[name]), np.stack(arrays, axis=1))
        for name, arrays in variables.items()
    }
    data["token_id"] = (
        ("document", "position"),
        random.integers(0, 1000, (sizes.documents, sizes.positions), dtype=np.int32),
    )
    coords = {
        "document": np.array([f"text {k}" for k in range(sizes.documents)], dtype=object),
        "layer": np.arange(sizes.layers),
        "head": np.arange(sizes.heads),
        "kv_head": np.arange(sizes.kv_heads),
        "position": np.arange(sizes.positions),
        "lag": lag,
        "lag_bin_start": ("lag_bin", starts),
        "lag_bin_stop": ("lag_bin", stops),
        "cosine_bin_left": ("cosine_bin", edges[:-1]),
        "cosine_bin_right": ("cosine_bin", edges[1:]),
        "position_block_start": ("position_block", _blocks(sizes.positions)[:-1]),
        "position_block_stop": ("position_block", _blocks(sizes.positions)[1:] - 1),
        "kv_head_of_head": ("head", np.arange(sizes.heads) // (sizes.heads // sizes.kv_heads)),
        "tokens": ("layer", tokens),
        "sink_visible": ("layer", tokens == sizes.positions),
    }
    return xr.Dataset(data, coords=coords)


def _lag_bins(longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Every lag up to 8 alone, then bins that double."""
    starts = np.array([k for k in (*range(1, 9), 9, 17, 33, 65, 129, 257, 513) if k <= longest])
    return starts, np.append(starts[1:] - 1, longest)


def _blocks(positions: int) -> np.ndarray:
    """Edges of up to four blocks of positions of equal size."""
    return np.unique(np.linspace(0, positions, 5).astype(int))


def _block_means(
    expected: np.ndarray,
    spread: Spread,
    first: int,
    start: int,
    bins: tuple[np.ndarray, ...],
    positions: int,
) -> np.ndarray:
    """Mean cosine by block of the later token and lag bin: the model's, and noise as of so many
    pairs; it does not drift with position.
    """
    starts, stops, _ = bins
    random = np.random.default_rng(abs(int(1e9 * expected.sum())))
    edges, shape = _blocks(positions) - start, expected.shape[:2]
    out = np.full((*shape, edges.size - 1, starts.size), np.nan)
    lag = np.arange(1, expected.shape[-1] + 1)
    for block, (low, high) in enumerate(pairwise(edges)):
        pairs = np.maximum(high - np.maximum(max(low, first), first + lag), 0)
        for at, (a, b) in enumerate(zip(starts - 1, stops, strict=True)):
            if total := pairs[a:b].sum():
                noise = random.normal(0, spread.pair / np.sqrt(total), shape)
                out[..., block, at] = (expected[..., a:b] * pairs[a:b]).sum(axis=-1) / total + noise
    return out


def _layer(
    truth: Truth,
    spread: Spread,
    sizes: Sizes,
    seen: int,
    lag: np.ndarray,
    bins: tuple[np.ndarray, ...],
    random: np.random.Generator,
) -> dict[str, np.ndarray]:
    documents, heads, kv_heads, positions = (
        sizes.documents,
        sizes.heads,
        sizes.kv_heads,
        sizes.positions,
    )
    sink, start = seen == positions, positions - seen
    first, content = int(sink), seen - int(sink)
    weight = np.zeros((documents, heads, positions))
    level = random.normal(0, spread.document_level, (documents, heads, 1))
    log_alpha = (
        log_weights(truth, first + np.arange(content))
        + level
        + random.normal(0, spread.token, (documents, heads, content))
    )
    weight[..., start + first :] = np.exp(log_alpha)
    norm = np.full((documents, kv_heads, positions), np.nan)
    own = truth.C * (1 + random.normal(0, spread.document_norm, (documents, kv_heads, 1)))
    norm[..., start + first :] = own * (
        1 + truth.cv * random.uniform(-np.sqrt(3), np.sqrt(3), (documents, kv_heads, content))
    )
    sink_cosine = np.full((documents, kv_heads, positions), np.nan)
    if sink:
        weight[..., 0] = truth.p_sink * np.exp(random.normal(0, 0.05, (documents, heads)))
        norm[..., 0] = truth.lam * own[..., 0]
        rho0 = truth.rho0 + random.normal(0, spread.document_rho0, (documents, kv_heads, 1))
        sink_cosine[..., 1:] = rho0 + random.normal(0, spread.sink, (documents, kv_heads, content))
    beta = truth.beta * np.exp(random.normal(0, spread.document_beta, (documents, kv_heads, 1)))
    offset = truth.offset + random.normal(0, spread.document_offset, (documents, kv_heads, 1)) * (
        truth.offset != 0
    )
    pairs = np.maximum(content - lag, 0)
    expected = offset + (1 - offset) * np.exp(-beta * lag)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(
            pairs > 0,
            expected + random.normal(0, 1, expected.shape) * spread.pair / np.sqrt(pairs),
            np.nan,
        )
    negative = np.where(pairs > 0, ndtr(-expected / spread.pair), np.nan)
    starts, stops, edges = bins
    counts = np.zeros((documents, kv_heads, starts.size, edges.size - 1))
    for at, (low, high) in enumerate(zip(starts, stops, strict=True)):
        within = (lag >= low) & (lag <= high)
        share = np.diff(ndtr((edges - expected[..., within, None]) / spread.pair), axis=-1)
        counts[..., at, :] = (pairs[within, None] * share).sum(axis=-2)
    out = {
        "attention_weight": weight,
        "value_norm": norm,
        "sink_cosine": sink_cosine,
        "cosine_mean": mean,
        "cosine_negative_fraction": negative,
        "cosine_block_mean": _block_means(expected, spread, first, start, bins, positions),
    }
    return {name: array.astype(np.float32) for name, array in out.items()} | {
        "cosine_histogram": np.round(counts).astype(np.int32)
    }
