"""Cosines of all pairs of a layer's values, and their sums by lag, by torch on any device.

Source: arXiv 2602.01893, (6)-(8) and Assumption 2; `measure.pairs` and `measure.cosine_kernels` are
the reference. Tokens stand in reverse, so a pair of tokens r < c in a chunk of rows has the lag
c − r: read with one element more a row, the chunk's columns are lags, and nothing is moved. A zero
vector has no direction: its cosines are held as 0, and left out of counts.

Cosines are float32 products; sums by lag are taken in the type of sums (`grids.wide`), those by
block of positions in float32. A cosine within 2⁻²⁰ of an edge of the histogram may count in the
bin beside it. Imports torch and this room's records.
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
"""Parts into which the rows of a triangle of pairs are cut: as each is as wide as its first row, a
quarter more than the pairs is read, and not twice as much.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Cosines of some kv_heads: of all tokens, in reverse, with those from `start` on, as columns;
    and the latter as rows with all that stand behind them.
    """

    kv_heads: slice
    start: int
    columns: Tensor
    """(kv_head, token + 1, column); the last row is to be filled."""
    rows: Tensor
    """(kv_head, row + 1, token from `start` on); the last row is to be filled. The same memory
    where all tokens are columns.
    """


def reversed_units(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return norms, (kv_head, token), and unit vectors from the last token to the first, zero for
    a zero vector, (kv_head, token, dimension).
    """
    norm = torch.linalg.vector_norm(values, dim=-1, dtype=grids.wide(values.device))
    norm = norm.to(values.dtype)
    unit = values / norm.masked_fill(norm == 0, 1)[..., None]
    return norm, unit.flip(1)


def chunks(unit: Tensor, size: int, group: int, budget: int) -> Iterator[Chunk]:
    """Yield the cosines of reversed unit vectors in chunks that are measured within `budget` bytes
    at `size` sizes N, for `group` heads of each kv_head: several kv_heads, or some tokens of one.
    """
    kv_heads, tokens, _ = unit.shape
    # Of one column: cosines, twice where they are not all; then either what the histogram holds of
    # each (24), or the largest so far of each head and N with their places (32).
    column = 8 * tokens + max(24 * tokens, 32 * group * size)
    width = min(max(budget // column, 1), tokens)
    some = max(budget // (column * tokens), 1)
    for low in range(0, kv_heads, some):
        part = unit[low : low + some]
        for start in range(0, tokens, width):
            chosen = part[:, start : start + width]
            columns = _products(part, chosen)
            rows = columns if width == tokens else _products(chosen, part[:, start:])
            kept = slice(low, low + len(part))
            yield Chunk(kv_heads=kept, start=start, columns=columns, rows=rows)


def _products(rows: Tensor, columns: Tensor) -> Tensor:
    """Return ⟨row, column⟩ with one more row behind them."""
    out = rows.new_empty(len(rows), rows.shape[1] + 1, columns.shape[1])
    torch.bmm(rows, columns.mT, out=out[:, :-1])
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums over pairs of content tokens so far, by kv_head and lag from 1."""

    cosine: Tensor
    """Σ cos, (kv_head, lag), in the type of sums."""
    square: Tensor
    """Σ cos², the same."""
    negative: Tensor
    """Number of cosines below 0, (kv_head, lag) int64."""
    block: Tensor
    """Σ cos by block of the later token, (kv_head, position_block, lag) float32."""
    table: Tensor
    """Histogram cells, in lanes, then a cell a lag for what is no pair, (kv_head, cell) int32."""


def no_sums(unit: Tensor, lags: Lags) -> Sums:
    """Return sums over no pair."""
    kv_heads, cells = len(unit), LANES * lags.bins * COSINE_BINS + lags.count
    kind = grids.wide(unit.device)
    return Sums(
        cosine=unit.new_zeros(kv_heads, lags.count, dtype=kind),
        square=unit.new_zeros(kv_heads, lags.count, dtype=kind),
        negative=unit.new_zeros(kv_heads, lags.count, dtype=torch.int64),
        block=unit.new_zeros(kv_heads, len(lags.block), lags.count),
        table=unit.new_zeros(kv_heads, cells, dtype=torch.int32),
    )


def add_pairs(chunk: Chunk, lags: Lags, sums: Sums) -> None:
    """Add a chunk's pairs to the sums; its cosines of pairs in the other order are lost."""
    cosine, start = chunk.rows, chunk.start
    count, wide = cosine.shape[1] - 1, cosine.shape[2]
    longest = wide - 1
    if longest == 0:  # the first token stands behind no other
        return
    cosine[:, :-1].triu_(1)
    cosine[:, -1].zero_()
    if lags.first:
        cosine[:, :, -1].zero_()  # the sink
    by_lag = cosine.as_strided(
        (len(cosine), count, longest),
        (cosine.stride(0), wide + 1, 1),
        cosine.storage_offset() + 1,
    )
    some = chunk.kv_heads
    step = -(-count // STEPS)
    for top in range(0, count, step):
        # What stands behind the last pair of the first of these rows is no pair of any.
        part = by_lag[:, top : top + step, : longest - top]
        lag = slice(0, part.shape[2])
        block = lags.block[:, start + top : start + top + part.shape[1]]
        squares = torch.linalg.vector_norm(part, dim=1, dtype=sums.square.dtype).square()
        sums.cosine[some, lag].add_(part.sum(dim=1, dtype=sums.cosine.dtype))
        sums.square[some, lag].add_(squares)
        sums.negative[some, lag].add_((part < 0).sum(dim=1))
        sums.block[some, :, lag].add_(torch.matmul(block, part))
        if lags.bins and part.shape[2]:
            _count(part, lags, sums.table[some])


def _count(by_lag: Tensor, lags: Lags, table: Tensor) -> None:
    """Count some rows' cosines in the histogram."""
    _, rows, longest = by_lag.shape
    half = COSINE_BINS // 2
    row = torch.arange(rows, device=table.device)[:, None]
    lag = torch.arange(longest, device=table.device)
    # What stands behind a row's last pair is no pair: each lag counts them in a cell of its own.
    cells = lags.bins * COSINE_BINS
    cell = torch.where(
        row + lag < longest - lags.first,
        lags.cell[:longest] + row % LANES * cells,
        LANES * cells - half + lag,
    )
    middle = torch.full((), float(half), device=table.device)
    bins = torch.add(middle, by_lag, alpha=half).to(torch.int16).clamp_(0, COSINE_BINS - 1)
    at = torch.add(cell, bins).view(len(table), -1)
    table.scatter_add_(1, at, torch.ones((), dtype=table.dtype, device=table.device).expand_as(at))


def pair_counts(norm: Tensor, lags: Lags) -> Tensor:
    """Return how many pairs of content tokens with a direction there are, by block of the later
    token, (kv_head, position_block, lag) in the type of sums.

    It is a correlation of ones and zeros, by Fourier transform, rounded.
    """
    known = (norm > 0).flip(1).to(grids.wide(norm.device))
    if lags.first:
        known[:, -1].zero_()
    length = 2 * known.shape[1]
    later = torch.fft.rfft(known[:, None] * lags.block, n=length)
    product = torch.fft.rfft(known, n=length)[:, None] * later.conj()
    return torch.fft.irfft(product, n=length)[..., 1 : known.shape[1]].round()


def summaries(norm: Tensor, unit: Tensor, sums: Sums, lags: Lags) -> dict[str, Tensor]:
    """Return the variables by position and by lag that `Pairs.summaries` does."""
    kind, known = norm.dtype, norm > 0
    ends = torch.stack([unit[:, -1], unit[:, 0]], dim=-1)  # token 0, the last
    to_ends = torch.bmm(unit, ends).flip(1).clamp(-1, 1)
    to_sink = to_ends[..., 0].masked_fill(~(known & known[:, :1]), torch.nan)
    to_sink[:, : lags.first].fill_(torch.nan)
    counts = pair_counts(norm, lags)
    pairs = counts.sum(dim=1)
    mean = sums.cosine / pairs
    variance = (sums.square / pairs - mean.square()).clamp(min=0)
    shown = slice(0, lags.count - lags.first if lags.count else 0)
    block = torch.matmul(sums.block.to(counts.dtype), lags.of_bin)
    return {
        "value_norm": norm,
        "sink_cosine": to_sink if lags.first else torch.full_like(norm, torch.nan),
        "cosine_to_last_value": to_ends[..., 1].masked_fill(~(known & known[:, -1:]), torch.nan),
        "cosine_mean": mean[:, shown].to(kind),
        "cosine_std": variance.sqrt()[:, shown].to(kind),
        "cosine_negative_fraction": (sums.negative / pairs)[:, shown].to(kind),
        "cosine_histogram": _histogram(sums.table, pairs, lags),
        "cosine_block_mean": (block / torch.matmul(counts, lags.of_bin)).to(kind),
    }


def _histogram(table: Tensor, pairs: Tensor, lags: Lags) -> Tensor:
    """Return the counts, (kv_head, lag_bin, cosine_bin) int32, without the pairs that have no
    cosine.
    """
    counted = table[:, : LANES * lags.bins * COSINE_BINS]
    counts = counted.view(len(table), LANES, lags.bins, COSINE_BINS).sum(dim=1, dtype=torch.int32)
    every = lags.count - lags.first - torch.arange(lags.count, device=table.device)
    without = torch.matmul(every.clamp(min=0) - pairs, lags.of_bin)
    counts[:, :, COSINE_BINS // 2].sub_(without.to(torch.int32))
    return counts
