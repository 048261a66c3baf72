"""Pairwise cosines of a layer's value states, computed in blocks to bound memory, and their sums by
lag.

Source: arXiv 2602.01893, (6)-(8) and Assumption 2. Sums by lag run over pairs of content tokens
(all except the sink); zero vectors have no cosine and are excluded. Blocks, parts and the order of
summation do not depend on the number of threads, and so neither do the results. Imports numpy and
this room's kernels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final

import numpy as np

from empirical.measure.compiled import Task, spread
from empirical.measure.cosine_kernels import (
    COSINE_BINS,
    STRIPE,
    TABLES,
    add_pairs,
    cosine_rows,
    unit_values,
)
from empirical.measure.head_kernels import STEP, padded

CELLS: Final = 1 << 24
"""Cosines of several kv_heads in memory at once: 64 MB in float32, all of T = 1,025 for 15."""

WHOLE: Final = 1 << 27
"""Cosines of one kv_head in memory at once: 512 MB in float32, all of T = 11,584. A whole matrix
needs half of the products, and no other product per head; blocks of columns need all of them.
"""

ROOMS: Final[deque[np.ndarray]] = deque(maxlen=1)
"""Buffer for cosines, kept for the next layer: allocating it takes half as long as the products."""

PARTS: Final = 2
"""Interleaved parts of the rows in a sum over pairs."""

STRIPES: Final = 4
"""Parts of the rows in a product; of the upper triangle, so the first parts are the longest."""

ALIGNED: Final = 16
"""Rows and columns of the matrix are padded to a multiple of this; no column is then special."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Cosines in memory: all rows of one kv_head, and some or all columns."""

    kv_head: int
    cosine: np.ndarray
    """(row, column), both padded; C-contiguous."""
    first: int
    """Token of the first column."""
    columns: int
    """Number of tokens among the columns."""


class Pairs:
    """Unit vectors of a layer's values, and sums over pairs; token 0 is at position `offset`."""

    def __init__(
        self, values: np.ndarray, *, sink: bool, offset: int, bins: np.ndarray, blocks: np.ndarray
    ) -> None:
        kv_heads, tokens, dimension = values.shape
        binned = int(bins[-1, 1]) if len(bins) else 0
        lags = max(tokens - 1, binned)
        wide, deep = padded(tokens, ALIGNED), padded(dimension, STEP)
        self.values, self.bins, self.tokens = values, bins, tokens
        self.first = int(sink)  # the first content token
        # Last token plus one of each position block.
        self.stops = (blocks[:, 1] + 1 - offset).clip(0, tokens)
        # First histogram cell of each lag; lags beyond the last bin share a row of cells that is
        # thrown away.
        self.cell_of_lag = np.full(lags, len(bins) * COSINE_BINS, np.int32)
        self.cell_of_lag[:binned] = np.repeat(
            np.arange(len(bins)) * COSINE_BINS, bins[:, 1] - bins[:, 0] + 1
        )
        self.unit = np.empty((kv_heads, wide, deep), values.dtype)
        self.unit_t = np.empty((kv_heads, deep, wide), values.dtype)
        # Norms, and cosines with token 0 and with the last.
        self.norm, self.to_first, self.to_last = np.empty((3, kv_heads, tokens), values.dtype)
        self.sums = np.zeros((kv_heads, PARTS, len(blocks), lags))  # Σ cos
        self.squares = np.zeros((kv_heads, PARTS, lags))
        self.negatives = np.zeros((kv_heads, PARTS, lags), np.int32)
        self.tables = np.zeros((kv_heads, PARTS, TABLES, (len(bins) + 1) * COSINE_BINS), np.int32)

    def visit(self, *visitors: Callable[[Block], list[Task]]) -> None:
        """Compute all cosines, batch by batch; run the visitors' tasks on each filled block."""
        spread(self.normalise())
        for blocks in self.batches():
            spread([task for block in blocks for task in self.fill(block)])
            spread([task for tasks in visitors for block in blocks for task in tasks(block)])

    def normalise(self) -> list[Task]:
        """Return the tasks that fill norms and unit vectors."""
        return [
            partial(unit_values, *arrays)
            for arrays in zip(self.values, self.norm, self.unit, self.unit_t, strict=True)
        ]

    def batches(self) -> Iterator[list[Block]]:
        """Yield batches of cosines that fit in memory: several kv_heads, or columns of one."""
        wide = self.unit.shape[1]
        width = wide if wide * wide <= WHOLE else max(CELLS // wide // STRIPE, 1) * STRIPE
        batch = min(max(CELLS // (wide * width), 1), len(self.values))
        memory = _room(batch * wide * width * self.unit.itemsize)
        room = np.frombuffer(memory, self.unit.dtype, batch * wide * width)
        room = room.reshape(batch, wide, width)
        for low in range(0, len(self.values), batch):
            for first in range(0, self.tokens, width):
                columns = min(width, self.tokens - first)
                yield [
                    Block(kv_head=k, cosine=room[k - low], first=first, columns=columns)
                    for k in range(low, min(low + batch, len(self.values)))
                ]
        ROOMS.append(memory)

    def fill(self, block: Block) -> list[Task]:
        """Return the tasks that compute a block."""
        wide, width = block.cosine.shape
        unit, unit_t = self.unit[block.kv_head], self.unit_t[block.kv_head]
        columns = min(width, wide - block.first)
        edges = [min(padded(wide * part // STRIPES, STRIPE), wide) for part in range(STRIPES + 1)]
        return [
            partial(cosine_rows, unit, unit_t, start, stop, block.first, columns, block.cosine)
            for start, stop in pairwise(edges)
            if stop > start
        ]

    def add(self, block: Block) -> list[Task]:
        """Return the tasks that add a filled block to the sums."""
        k, columns = block.kv_head, slice(block.first, block.first + block.columns)

        def copy_rows() -> None:
            self.to_first[k, columns] = block.cosine[0, : block.columns]
            self.to_last[k, columns] = block.cosine[self.tokens - 1, : block.columns]

        def add_part(part: int) -> None:
            rows = (self.first + part, self.tokens, PARTS)
            sums = (self.sums, self.squares, self.negatives, self.tables)
            add_pairs(
                *(block.cosine, block.first, block.columns, rows, self.stops, self.cell_of_lag),
                *(array[k, part] for array in sums),
            )

        return [copy_rows, *(partial(add_part, part) for part in range(PARTS))]

    def summaries(self) -> dict[str, np.ndarray]:
        """Return the variables by position and by lag; cosines are NaN for zero vectors."""
        dtype, known = self.norm.dtype, self.norm > 0
        to_last = np.where(known & known[:, -1:], self.to_last.clip(-1, 1), np.nan)
        sink_known = known & known[:, :1] & (self.first == 1)
        to_sink = np.where(sink_known, self.to_first.clip(-1, 1), np.nan)
        to_sink[:, : self.first] = np.nan
        lags = max(self.tokens - 1 - self.first, 0)
        counts = np.stack([self._counts(row) for row in known])
        sums, pairs = self.sums.sum(axis=1), counts.sum(axis=1)
        starts, binned = self.bins[:, 0] - 1, int(self.bins[-1, 1]) if len(self.bins) else 0
        with np.errstate(invalid="ignore"):
            mean = sums.sum(axis=1) / pairs
            variance = self.squares.sum(axis=1) / pairs - mean**2
            negative = self.negatives.sum(axis=1) / pairs
            block_sums, block_counts = (
                _add_bins(by_lag[..., :binned], starts) for by_lag in (sums, counts)
            )
            block_mean = block_sums / block_counts
        cells = self.tables.sum(axis=(1, 2), dtype=np.int32)
        histogram = cells.reshape(len(known), -1, COSINE_BINS)[:, : len(self.bins)]
        if starts.size and not known.all():
            # Pairs without a cosine were counted as 0 and are taken out of that bin.
            without = self._counts(np.ones(self.tokens, bool)).sum(axis=0) - pairs
            zeros = _add_bins(without[:, :binned], starts)
            histogram[:, :, COSINE_BINS // 2] -= zeros.astype(np.int32)
        return {
            "value_norm": self.norm,
            "sink_cosine": to_sink.astype(dtype),
            "cosine_to_last_value": to_last.astype(dtype),
            "cosine_mean": mean[:, :lags].astype(dtype),
            "cosine_std": np.sqrt(variance.clip(min=0))[:, :lags].astype(dtype),
            "cosine_negative_fraction": negative[:, :lags].astype(dtype),
            "cosine_histogram": histogram,
            "cosine_block_mean": block_mean.astype(dtype),
        }

    def _counts(self, known: np.ndarray) -> np.ndarray:
        """Return the number of pairs of known tokens, (position_block, lag)."""
        stops = tuple(self.stops.tolist())
        return _pair_counts(known.tobytes(), self.first, stops, self.squares.shape[-1])


def _room(size: int) -> np.ndarray:
    """Return a buffer of at least `size` bytes: that of the previous layer if it is free."""
    try:
        room = ROOMS.pop()
    except IndexError:
        return np.empty(size, np.uint8)
    return room if room.size >= size else np.empty(size, np.uint8)


def _add_bins(by_lag: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sum (..., lag) over consecutive bins of lags."""
    if not starts.size:
        return np.zeros((*by_lag.shape[:-1], 0), by_lag.dtype)
    return np.add.reduceat(by_lag, starts, axis=-1)


@lru_cache(maxsize=16)
def _pair_counts(known: bytes, first: int, stops: tuple[int, ...], lags: int) -> np.ndarray:
    """Count pairs of known tokens (bytes 0 or 1) from `first` on, (block of later token, lag)."""
    content = np.frombuffer(known, bool).copy()
    content[:first] = False
    counts = np.zeros((len(stops), lags), np.int64)
    for block, (start, stop) in enumerate(pairwise((0, *stops))):
        for later in start + np.flatnonzero(content[start:stop]):
            counts[block, :later] += content[:later][::-1]
    counts.flags.writeable = False  # shared by all calls
    return counts
