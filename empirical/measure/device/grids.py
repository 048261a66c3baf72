"""Grids, bins and types of a measurement on a device: what depends on lengths alone, made once and
kept there.

Nothing here looks at measured numbers, so a layer finds all of it on its device and copies
nothing. Imports numpy, torch and this room's sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from empirical.measure.cosine_kernels import COSINE_BINS
from empirical.measure.layer import lag_bins, position_blocks
from empirical.measure.sizes import Sizes

BYTES: Final = 1 << 30
"""Temporary memory of a measurement, 1 GiB: heads, sizes N and tokens are taken in
chunks whose cosines and distances keep below it. Beside them stand the layers' own tensors and
what is measured of them, a few times over.
"""

LANES: Final = 8
"""Histogram tables that neighbouring rows take in turn, so that fewer counts wait for another."""

LAYOUTS: Final = 32
"""Layouts that are kept: of each kind of layer, and each analysed query."""


def wide(device: torch.device) -> torch.dtype:
    """Return the type of sums: float64, or float32 on mps, which has no other.

    There a sum errs by some 10⁻⁷ of its largest part: the standard deviation of cosines that are
    nearly equal, by up to 3·10⁻⁴.
    """
    return torch.float32 if device.type == "mps" else torch.float64


@contextmanager
def full_products() -> Iterator[None]:
    """Multiply matrices in full float32, whatever the caller allows elsewhere: TF32 or bfloat16
    would move cosines by 10⁻³.
    """
    before = torch.get_float32_matmul_precision()
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sizes N of one selection over T tokens, for some heads, on a device."""

    tokens: int
    n: Tensor
    """The distinct N ≤ T, ascending, (n) int64."""
    starts: Tensor
    """First rank that each N adds, of every head in turn, (head · n) int64: rank + head · N_max."""
    most: int
    """The largest of them, N_max."""
    asked: Tensor | None
    """Where each asked N stands among them, NaN's place for N > T; None where they are all."""
    whole: Tensor
    """Whether N = T, (n) bool."""

    def scatter(self, measured: Tensor) -> Tensor:
        """Take (…, distinct N) to (…, asked N), NaN for N > T."""
        if self.asked is None:
            return measured
        behind = measured.new_full((*measured.shape[:-1], 1), torch.nan)
        return torch.cat([measured, behind], dim=-1).index_select(-1, self.asked)


def grid(n: Any, tokens: int, heads: int, device: torch.device) -> Grid:
    """Return the grid of sizes `n`; None: the default one. Raises what `Sizes` does."""
    asked = Sizes(n, tokens).asked
    return _grid(asked.tobytes(), tokens, heads, device)


@lru_cache(maxsize=LAYOUTS)
def _grid(asked: bytes, tokens: int, heads: int, device: torch.device) -> Grid:
    sizes = Sizes(np.frombuffer(asked, np.int64), tokens)
    inside = sizes.inside
    most = int(inside[-1]) if inside.size else 0
    starts = np.concatenate([[0], inside[:-1]])[: inside.size]
    every = np.array_equal(inside, sizes.asked)
    return Grid(
        tokens=tokens,
        n=_tensor(inside, device),
        starts=_tensor((np.arange(heads)[:, None] * most + starts).reshape(-1), device),
        most=most,
        asked=None if every else _tensor(np.searchsorted(inside, sizes.asked), device),
        whole=_tensor(inside == tokens, device),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags, their bins and the blocks of positions of one layer, on a device."""

    first: int
    """The first content token: 1 beside a sink, else 0."""
    count: int
    """Longest lag between tokens of the layer, the sink among them: T − 1."""
    cell: Tensor
    """First histogram cell of each lag from 1, (lag) int64."""
    bins: int
    """How many bins of lags there are."""
    of_bin: Tensor
    """Whether a lag belongs to a bin, (lag, lag_bin) in the type of sums."""
    block: Tensor
    """Whether a token, from the last to the first, lies in a block, (position_block, token)
    float32.
    """


@lru_cache(maxsize=LAYOUTS)
def lags(tokens: int, positions: int, sink: bool, device: torch.device) -> Lags:
    """Return the lags of a layer that sees the last `tokens` of some positions."""
    bins = lag_bins(positions, sink=sink or positions > tokens)
    lag, token = np.arange(1, tokens), np.arange(tokens)[::-1] + positions - tokens
    # Every lag of two content tokens has a bin; the sink's longest may have none, and no pair.
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


def own_head(heads: int, kv_heads: int, device: torch.device) -> Tensor:
    """Return the kv_head of each head, (head) int64."""
    return torch.arange(heads, device=device) // (heads // kv_heads)
