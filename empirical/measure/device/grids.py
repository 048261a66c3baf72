"""Grids, bins and dtypes of a measurement on a device: what depends only on lengths, computed once
and cached on the device.

Measured numbers are never read, so a layer finds everything on its device without a copy. Imports
numpy, torch and this room's sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from empirical.measure.cosine_kernels import COSINE_BINS
from empirical.measure.layer import lag_bins, position_blocks
from empirical.measure.selection import Sizes

BYTES: Final = 1 << 30
"""Temporary memory of a measurement, 1 GiB: bound of the cosines and distances of a chunk of heads,
sizes N or tokens. The layers' tensors and a few copies of results come on top.
"""

LANES: Final = 8
"""Histogram tables used in turn by neighbouring rows, so that fewer counts wait for each other."""

LAYOUTS: Final = 32
"""Cached layouts: one per kind of layer and analysed query."""


def wide(device: torch.device) -> torch.dtype:
    """Return the accumulation dtype: float64, or float32 on mps, which lacks float64.

    On mps, the relative error of a sum is about 10⁻⁷ of its largest term; that of the standard
    deviation of nearly equal cosines is up to 3·10⁻⁴.
    """
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sizes N of a selection over T tokens, for some heads, on a device."""

    tokens: int
    n: Tensor
    """The distinct N ≤ T, ascending, (n) int64."""
    starts: Tensor
    """First rank added by each N, for every head in turn, (head · n) int64: rank + head · N_max."""
    most: int
    """The largest distinct N, N_max."""
    requested: Tensor | None
    """Index of each requested N in `n`, beyond its end for N > T; None if all are distinct."""
    whole: Tensor
    """Whether N = T, (n) bool."""

    def scatter(self, measured: Tensor) -> Tensor:
        """Map (…, distinct N) to (…, requested N), with NaN for N > T."""
        if self.requested is None:
            return measured
        behind = measured.new_full((*measured.shape[:-1], 1), torch.nan)
        return torch.cat([measured, behind], dim=-1).index_select(-1, self.requested)


def grid(n: Any, tokens: int, heads: int, device: torch.device) -> Grid:
    """Return the grid of sizes `n`; None: the default grid. Raises the errors of `Sizes`."""
    requested = Sizes(n, tokens).requested
    return _grid(requested.tobytes(), tokens, heads, device)


@lru_cache(maxsize=LAYOUTS)
def _grid(requested: bytes, tokens: int, heads: int, device: torch.device) -> Grid:
    sizes = Sizes(np.frombuffer(requested, np.int64), tokens)
    inside = sizes.inside
    most = int(inside[-1]) if inside.size else 0
    starts = np.concatenate([[0], inside[:-1]])[: inside.size]
    every = np.array_equal(inside, sizes.requested)
    return Grid(
        tokens=tokens,
        n=_tensor(inside, device),
        starts=_tensor((np.arange(heads)[:, None] * most + starts).reshape(-1), device),
        most=most,
        requested=None if every else _tensor(np.searchsorted(inside, sizes.requested), device),
        whole=_tensor(inside == tokens, device),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags, their bins and the blocks of positions of one layer, on a device."""

    first: int
    """The first content token: 1 with a sink, else 0."""
    count: int
    """Longest lag between tokens of the layer including the sink: T − 1."""
    cell: Tensor
    """First histogram cell of each lag from 1, (lag) int64."""
    bins: int
    """Number of lag bins."""
    of_bin: Tensor
    """Whether a lag belongs to a bin, (lag, lag_bin), in the accumulation dtype."""
    block: Tensor
    """Whether a token, from last to first, lies in a block, (position_block, token) float32."""


@lru_cache(maxsize=LAYOUTS)
def lags(tokens: int, positions: int, sink: bool, device: torch.device) -> Lags:
    """Return the lags of a layer that sees the last `tokens` of `positions` positions."""
    bins = lag_bins(positions, sink=sink or positions > tokens)
    lag, token = np.arange(1, tokens), np.arange(tokens)[::-1] + positions - tokens
    # Every lag of two content tokens has a bin; the sink's longest lag may lack one.
    of_lag = np.searchsorted(bins[:, 1], lag) if len(bins) else np.zeros_like(lag)
    of_bin = of_lag[:, None] == np.arange(len(bins))
    blocks = position_blocks(positions)
    block = (blocks[:, :1] <= token) & (token <= blocks[:, 1:])
    return Lags(
        first=int(sink),
        count=tokens - 1,
        cell=_tensor(of_lag.astype(np.int64) * COSINE_BINS, device),
        bins=len(bins),
        of_bin=_tensor(of_bin, device).to(wide(device)),
        block=_tensor(block.astype(np.float32), device),
    )


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def joined(parts: list[Tensor], dim: int) -> Tensor:
    """Concatenate tensors; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)
