"""Pairwise cosines of a layer's values, and their sums by lag, by torch on any device.

Source: arXiv 2602.01893, (6)-(8) and Assumption 2; the reference is `measure.pairs` and
`measure.cosine_kernels`. Tokens are in reverse order, so tokens r < c in a chunk of rows have lag c
− r: read with a row stride one element longer, the chunk's columns are lags without moving data. A
zero vector has no direction: its cosines are stored as 0 and excluded from counts.

Cosines are float32 products. Sums by lag use the accumulation dtype (`grids.wide`), those by
position block float32. A cosine within 2⁻²⁰ of a histogram edge may count in the neighbouring bin.
Imports torch and this room's records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from empirical.measure.cosine_kernels import COSINE_BINS
from empirical.measure.device import grids
from empirical.measure.device.grids import LANES, Lags

STEPS: Final = 4
"""Parts of the rows of a triangle of pairs. Each part is as wide as its first row, so a quarter
more than the pairs is read instead of twice as much.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Cosines of some kv_heads: as columns, all tokens (in reverse) with those from `start` on; as
    rows, the latter with all later ones.
    """

    kv_heads: slice
    start: int
    columns: Tensor
    """(kv_head, token + 1, column); the last row is left to be filled."""
    rows: Tensor
    """(kv_head, row + 1, token from `start` on), likewise; equal to `columns` if those are all."""


def reversed_units(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return norms, (kv_head, token), and unit vectors in reverse; zero vectors stay zero."""
    norm = torch.linalg.vector_norm(values, dim=-1, dtype=grids.wide(values.device))
    norm = norm.to(values.dtype)
    unit = values / norm.masked_fill(norm == 0, 1)[..., None]
    return norm, unit.flip(1)


def chunks(unit: Tensor, size: int, group: int, budget: int) -> Iterator[Chunk]:
    """Yield the cosines of reversed unit vectors in chunks whose measurement, at `size` sizes N and
    for `group` heads per kv_head, fits in `budget` bytes: several kv_heads, or some tokens of one.
    """
    kv_heads, tokens, _ = unit.shape
    # Of one column: cosines, twice where they are not all; then either what the histogram holds of
    # each (24), or the largest so far of each head and N with their places (32).
    column = 8 * tokens + max(24 * tokens, 32 * group * size)
    width = min(max(budget // column, 1), tokens)
    kv_head_count = max(budget // (column * tokens), 1)
    for low in range(0, kv_heads, kv_head_count):
        part = unit[low : low + kv_head_count]
        for start in range(0, tokens, width):
            selected = part[:, start : start + width]
            columns = _products(part, selected)
            rows = columns if width == tokens else _products(selected, part[:, start:])
            kv_heads_here = slice(low, low + len(part))
            yield Chunk(kv_heads=kv_heads_here, start=start, columns=columns, rows=rows)


def _products(rows: Tensor, columns: Tensor) -> Tensor:
    """Return ⟨row, column⟩ with one additional row at the end."""
    out = rows.new_empty(len(rows), rows.shape[1] + 1, columns.shape[1])
    torch.bmm(rows, columns.mT, out=out[:, :-1])
    return out


class Sums:
    """Sums over pairs of content tokens, by kv_head and lag from 1, of reversed unit vectors."""

    def __init__(self, unit: Tensor, lags: Lags) -> None:
        kv_heads, dtype = len(unit), grids.wide(unit.device)
        self.lags = lags
        # Σ cos and Σ cos², (kv_head, lag).
        self.cosine = unit.new_zeros(kv_heads, lags.count, dtype=dtype)
        self.square = unit.new_zeros(kv_heads, lags.count, dtype=dtype)
        # Number of cosines below 0, (kv_head, lag).
        self.negative = unit.new_zeros(kv_heads, lags.count, dtype=torch.int64)
        # Σ cos by block of the later token, (kv_head, position_block, lag) float32.
        self.block = unit.new_zeros(kv_heads, len(lags.block), lags.count)
        # Histogram cells in lanes, then one cell per lag for entries that are no pairs.
        cells = LANES * lags.bins * COSINE_BINS + lags.count
        self.table = unit.new_zeros(kv_heads, cells, dtype=torch.int32)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk's pairs; overwrites its cosines of pairs in the other order."""
        cosine, start, lags = chunk.rows, chunk.start, self.lags
        count, wide = cosine.shape[1] - 1, cosine.shape[2]
        longest = wide - 1
        if longest == 0:  # the first token has no predecessor
            return
        cosine[:, :-1].triu_(1)
        cosine[:, -1].zero_()
        if lags.first:
            cosine[:, :, -1].zero_()  # the sink
        shape, strides = (len(cosine), count, longest), (cosine.stride(0), wide + 1, 1)
        by_lag = cosine.as_strided(shape, strides, cosine.storage_offset() + 1)
        kv_heads = chunk.kv_heads
        step = -(-count // STEPS)
        for top in range(0, count, step):
            # Entries after the last pair of the first of these rows belong to no pair.
            part = by_lag[:, top : top + step, : longest - top]
            lag = slice(0, part.shape[2])
            block = lags.block[:, start + top : start + top + part.shape[1]]
            squares = torch.linalg.vector_norm(part, dim=1, dtype=self.square.dtype).square()
            self.cosine[kv_heads, lag].add_(part.sum(dim=1, dtype=self.cosine.dtype))
            self.square[kv_heads, lag].add_(squares)
            self.negative[kv_heads, lag].add_((part < 0).sum(dim=1))
            self.block[kv_heads, :, lag].add_(torch.matmul(block, part))
            if lags.bins and part.shape[2]:
                _count(part, lags, self.table[kv_heads])

    def summaries(self, norm: Tensor, unit: Tensor) -> dict[str, Tensor]:
        """Return the variables of `Pairs.summaries` by position and by lag."""
        lags, dtype, known = self.lags, norm.dtype, norm > 0
        ends = torch.stack([unit[:, -1], unit[:, 0]], dim=-1)  # token 0, the last
        to_ends = torch.bmm(unit, ends).flip(1).clamp(-1, 1)
        to_sink = to_ends[..., 0].masked_fill(~(known & known[:, :1]), torch.nan)
        to_sink[:, : lags.first].fill_(torch.nan)
        counts = pair_counts(norm, lags)
        pairs = counts.sum(dim=1)
        mean = self.cosine / pairs
        variance = (self.square / pairs - mean.square()).clamp(min=0)
        shown = slice(0, lags.count - lags.first if lags.count else 0)
        block = torch.matmul(self.block.to(counts.dtype), lags.of_bin)
        return {
            "value_norm": norm,
            "sink_cosine": to_sink if lags.first else torch.full_like(norm, torch.nan),
            "cosine_to_last_value": to_ends[..., 1].masked_fill(
                ~(known & known[:, -1:]), torch.nan
            ),
            "cosine_mean": mean[:, shown].to(dtype),
            "cosine_std": variance.sqrt()[:, shown].to(dtype),
            "cosine_negative_fraction": (self.negative / pairs)[:, shown].to(dtype),
            "cosine_histogram": self._histogram(pairs),
            "cosine_block_mean": (block / torch.matmul(counts, lags.of_bin)).to(dtype),
        }

    def _histogram(self, pairs: Tensor) -> Tensor:
        """Return the counts, (kv_head, lag_bin, cosine_bin) int32, of pairs that have a cosine."""
        lags, table = self.lags, self.table
        counted = table[:, : LANES * lags.bins * COSINE_BINS]
        lanes = counted.view(len(table), LANES, lags.bins, COSINE_BINS)
        counts = lanes.sum(dim=1, dtype=torch.int32)
        every = lags.count - lags.first - torch.arange(lags.count, device=table.device)
        without = torch.matmul(every.clamp(min=0) - pairs, lags.of_bin)
        counts[:, :, COSINE_BINS // 2].sub_(without.to(torch.int32))
        return counts


def _count(by_lag: Tensor, lags: Lags, table: Tensor) -> None:
    """Count the cosines of some rows in the histogram."""
    _, rows, longest = by_lag.shape
    half = COSINE_BINS // 2
    row = torch.arange(rows, device=table.device)[:, None]
    lag = torch.arange(longest, device=table.device)
    # Entries after a row's last pair are no pairs; each lag counts them in a separate cell.
    cells = lags.bins * COSINE_BINS
    cell = torch.where(
        row + lag < longest - lags.first,
        lags.cell[:longest] + row % LANES * cells,
        LANES * cells - half + lag,
    )
    middle = torch.full((), float(half), device=table.device)
    bins = torch.add(middle, by_lag, alpha=half).to(torch.int16).clamp_(0, COSINE_BINS - 1)
    index = torch.add(cell, bins).view(len(table), -1)
    one = torch.ones((), dtype=table.dtype, device=table.device)
    table.scatter_add_(1, index, one.expand_as(index))


def pair_counts(norm: Tensor, lags: Lags) -> Tensor:
    """Return the number of pairs of content tokens with a direction, by block of the later token,
    (kv_head, position_block, lag): a correlation of ones and zeros by Fourier transform, rounded.
    """
    known = (norm > 0).flip(1).to(grids.wide(norm.device))
    if lags.first:
        known[:, -1].zero_()
    length = 2 * known.shape[1]
    later = torch.fft.rfft(known[:, None] * lags.block, n=length)
    product = torch.fft.rfft(known, n=length)[:, None] * later.conj()
    return torch.fft.irfft(product, n=length)[..., 1 : known.shape[1]].round()
