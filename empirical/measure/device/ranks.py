"""Weights and values by rank of the attention weight, by torch on any device.

The reference, with the definitions, is `measure.ranks`. All heads of a layer are measured at once,
one query after the other. Sums use the accumulation dtype (`grids.wide`), products of values of
equal tokens float32. Imports torch and this room's sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from empirical.measure.device import grids
from empirical.measure.device.queries import mean_of_finite, weights_of
from empirical.measure.queries import Row
from empirical.measure.ranks import (
    MOST_SINKS,
    TINY,
    TOP,
    labels_of,
    octaves,
    ranks,
    sampled,
)
from empirical.measure.sinks import COMPRESSED, MUCH


@torch.no_grad()
def measure_layer(
    rows: Sequence[Row],
    values: Tensor,
    token_ids: np.ndarray | None = None,
    *,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Describe one document's layer by rank; arguments and variables as of the reference. `budget`
    bounds the bytes of temporary products.
    """
    is_sink, positions = _functional_sinks(rows, values), values.shape[1]
    label = _sent(labels_of(positions, token_ids), values.device)
    every = [Ranked(row, is_sink, positions) for row in rows]
    chosen = [every[query] for query in sampled(len(rows))]
    parts = [of_query.described(values, label, budget) for of_query in chosen]
    sums = {name: sum((part[name] for part in parts[1:]), parts[0][name]) for name in parts[0]}
    means = {
        "octave_square": ("square", "octave_tokens"),
        "octave_product": ("product", "octave_pairs"),
        "lag_cosine": ("cosine", "lag_pairs"),
        "equal_product": ("equal", "equal_pairs"),
        "equal_square": ("equal_square", "equal_pairs"),
        "residual_square": ("trace", "queries"),
        "residual_along_s": ("along_s", "queries"),
        "residual_along_mean": ("along_mean", "queries"),
    }
    counts = ("octave_tokens", "octave_pairs", "octave_repeats", "lag_pairs", "equal_pairs")
    return {
        **{name: _mean(sums[total], sums[count]) for name, (total, count) in means.items()},
        **{name: sums[name].round().int() for name in counts},
        "residual_concentration": every[-1].concentration(values, budget).float(),
        "log_weight": torch.stack([of_query.log_weight() for of_query in every], dim=1),
        "sink_log_weight": torch.stack([of_query.sink_log_weight() for of_query in every], dim=1),
        "content_tokens": torch.stack([of_query.content for of_query in every], dim=1).int(),
        **_sink_class(rows[-1], values, is_sink),
    }


class Ranked:
    """One query of all heads with its content tokens ranked by weight."""

    def __init__(self, row: Row, is_sink: Tensor, positions: int) -> None:
        self.seen = slice(row.first, row.position + 1)
        self.alpha, self.is_sink = weights_of(row), is_sink[:, self.seen]
        self.positions, self.device = positions, is_sink.device
        self.kept = _kept(positions, self.device)
        order = self.alpha.argsort(dim=-1, descending=True, stable=True)
        counted = (~self.is_sink.gather(1, order)).cumsum(dim=-1)
        self.content = counted[:, -1]
        """Number of content tokens, (head)."""
        self.rank = torch.empty_like(order).scatter_(1, order, counted)
        """Rank of each content token, (head, token)."""
        beyond = self.alpha.shape[1]
        self.order = order.new_zeros(len(order), beyond + 1)
        """Content tokens by rank from 0, (head, token + 1)."""
        place = torch.where(self.is_sink, beyond, self.rank - 1)
        tokens = torch.arange(beyond, device=self.device).expand_as(place)
        self.order.scatter_(1, place, tokens)
        self.octave = _octave(self.rank)

    @cached_property
    def reached(self) -> Tensor:
        """Ranks at which weights are kept, (head, rank), at most the number of content tokens."""
        return torch.minimum(self.kept, self.content[:, None])

    @cached_property
    def valid(self) -> Tensor:
        """Whether a kept rank is the first to reach its rank, (head, rank)."""
        before = torch.nn.functional.pad(self.kept[:-1], (1, 0))
        return before < self.content[:, None]

    def _at_reached(self) -> Tensor:
        """Tokens at the ranks reached, (head, rank)."""
        return self.order.gather(1, (self.reached - 1).clamp(min=0))

    def log_weight(self) -> Tensor:
        """Return log α of content tokens at the kept ranks, (head, rank)."""
        logs = self.alpha.gather(1, self._at_reached()).clamp(min=TINY).log()
        return logs.masked_fill(~self.valid, torch.nan)

    def sink_log_weight(self) -> Tensor:
        """Return log α of the sinks with most weight, (head, sink)."""
        count = min(MOST_SINKS, self.alpha.shape[1])
        heaviest = self.alpha.masked_fill(~self.is_sink, -1).topk(count, dim=-1).values
        logs = heaviest.clamp(min=TINY).log().masked_fill(heaviest < 0, torch.nan)
        return torch.nn.functional.pad(logs, (0, MOST_SINKS - count), value=torch.nan)

    def _member(self, dtype: torch.dtype) -> Tensor:
        """Return whether a content token belongs to an octave, (head, token, octave)."""
        scale = torch.arange(octaves(self.positions), device=self.device)
        member = (self.octave[..., None] == scale) & ~self.is_sink[..., None]
        return member.to(dtype)

    def described(self, values: Tensor, label: Tensor, budget: int) -> dict[str, Tensor]:
        """Return the sums of `ranks.Sums`."""
        states, wide = values[:, self.seen], grids.wide(self.device)
        full, member = states.to(wide), self._member(wide)
        tokens = member.sum(dim=1)
        total = _grouped(member.mT, full)
        square = _grouped(member.mT, full.square().sum(dim=-1, keepdim=True))[..., 0]
        equal, equal_pairs = self._equal(states, label[self.seen], budget)
        product = total @ total.mT - torch.diag_embed(square) - equal
        equals = self._equals(label[self.seen], wide)
        squares = full.square().sum(dim=-1)[torch.arange(len(equals)) // (len(equals) // len(full))]
        pairs = tokens[:, :, None] * tokens[:, None] - torch.diag_embed(tokens) - equal_pairs
        return {
            "octave_tokens": tokens,
            "square": square,
            "product": product,
            "octave_pairs": pairs,
            "octave_repeats": self._repeats(label[self.seen], member),
            "equal": equal.sum(dim=(1, 2)) / 2,
            "equal_square": (equals * squares).sum(dim=1) / 2,
            "equal_pairs": equal_pairs.sum(dim=(1, 2)) / 2,
            **self._residual(full, tokens, total, square),
            **self._cosines(states, label[self.seen]),
        }

    def _equal(self, states: Tensor, label: Tensor, budget: int) -> tuple[Tensor, Tensor]:
        """Return sums of products over ordered pairs of equal tokens, and their number, by octaves
        of both, (head, octave, octave).
        """
        member, wide, tokens = self._member(states.dtype), grids.wide(self.device), len(label)
        alike = (label[:, None] == label).to(states.dtype).fill_diagonal_(0)
        group, products = len(member) // len(states), []
        step = max(budget // (8 * tokens * (tokens + group * member.shape[2])), 1)
        for low in range(0, len(states), step):
            part, here = states[low : low + step], member[low * group : (low + step) * group]
            products.append((_grouped(here.mT, part @ part.mT * alike) @ here).to(wide))
        pairs = (member.mT @ alike).to(wide) @ member.to(wide)
        return grids.joined(products, 0), pairs

    def _equals(self, label: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the number of other content tokens equal to each, 0 for sinks, (head, token)."""
        content = (~self.is_sink).to(dtype)
        label = label.expand_as(self.rank)
        counts = content.new_zeros(len(content), self.positions).scatter_add(1, label, content)
        return (counts.gather(1, label) - 1) * content

    def _repeats(self, label: Tensor, member: Tensor) -> Tensor:
        """Count tokens with an equal token of higher rank, by octave and the highest one's."""
        label, content = label.expand_as(self.rank), ~self.is_sink
        ranked = self.rank.masked_fill(self.is_sink, self.positions + 1)
        leader = ranked.new_full((len(ranked), self.positions), self.positions + 1)
        leader = leader.scatter_reduce(1, label, ranked, "amin").gather(1, label)
        scale = torch.arange(member.shape[2], device=self.device)
        of_leader = (_octave(leader)[..., None] == scale).to(member.dtype)
        return (member * (content & (self.rank > leader))[..., None]).mT @ of_leader

    @cached_property
    def _beyond(self) -> Tensor:
        """Whether a content token has a rank beyond TOP, (head, token)."""
        return ~self.is_sink & (self.rank > TOP)

    def _residual(
        self, full: Tensor, tokens: Tensor, total: Tensor, square: Tensor
    ) -> dict[str, Tensor]:
        """Return what `ranks._add_residual` adds, without the last."""
        first, heavy = octaves(TOP + 1) - 1, ~self.is_sink & (self.rank <= TOP)
        tokens, few = tokens[:, first:], tokens[:, first:].clamp(min=1)
        s = _grouped((self.alpha * heavy)[:, None].to(full.dtype), full)[:, 0]
        directions = {"along_s": s, "along_mean": total.sum(dim=1)}
        total = total[:, first:]
        trace = (square[:, first:] - total.square().sum(dim=-1) / few).sum(dim=1)
        known = ((tokens - 1).clamp(min=0).sum(dim=1) > 0) & (trace > 0)
        for direction in directions.values():
            known &= direction.square().sum(dim=-1) > 0
        out = {"queries": known.to(full.dtype)}
        out["trace"] = torch.where(known, trace / (tokens - 1).clamp(min=0).sum(dim=1), 0)
        for name, direction in directions.items():
            along = _grouped(direction[:, None], full.mT)[:, 0].square()
            within = (total @ direction[..., None])[..., 0].square() / few
            spread = (along * self._beyond).sum(dim=1) - within.sum(dim=1)
            size = trace * direction.square().sum(dim=-1)
            out[name] = torch.where(known, spread / size, 0)
        return out

    def concentration(self, values: Tensor, budget: int) -> Tensor:
        """Return tr W²/tr² W, (head)."""
        states = values[:, self.seen].to(grids.wide(self.device))
        member = self._member(states.dtype) * self._beyond[..., None]
        tokens, total = member.sum(dim=1), _grouped(member.mT, states)
        group = len(member) // len(states)
        step = max(budget // (16 * states.shape[1] * states.shape[2] * group), 1)
        parts = []
        for low in range(0, len(states), step):
            heads = slice(low * group, (low + step) * group)
            each = states[low : low + step].repeat_interleave(group, dim=0)
            mean = total[heads] / tokens[heads, :, None].clamp(min=1)
            w = (each * self._beyond[heads, :, None]).mT @ each
            w = w - total[heads].mT @ mean
            trace = w.diagonal(dim1=1, dim2=2).sum(dim=1)
            parts.append(w.square().sum(dim=(1, 2)) / trace.square())
        return grids.joined(parts, 0)

    def _cosines(self, states: Tensor, label: Tensor) -> dict[str, Tensor]:
        """Return what `ranks._add_cosines` adds."""
        token, wide = self._at_reached(), grids.wide(self.device)
        kv_head = torch.arange(len(token), device=self.device) // (len(token) // len(states))
        unit = states[kv_head[:, None], token]
        norm = torch.linalg.vector_norm(unit, dim=-1)
        unit = (unit / norm.masked_fill(norm == 0, 1)[..., None]).to(wide)
        usable = self.valid & (norm > 0)
        scale = torch.arange(octaves(self.positions), device=self.device)
        pairs = usable[:, :, None] & usable[:, None]
        pairs &= label[token][:, :, None] != label[token][:, None]
        pairs = pairs.tril(-1).to(wide)
        lag = _octave((token[:, :, None] - token[:, None]).abs())
        of_lag = (lag[..., None] == scale).to(wide) * pairs[..., None]
        of_rank = (_octave(self.reached)[..., None] == scale).to(wide)
        cosine = ((unit @ unit.mT)[..., None] * of_lag).sum(dim=2)
        return {"cosine": of_rank.mT @ cosine, "lag_pairs": of_rank.mT @ of_lag.sum(dim=2)}


def _mean(total: Tensor, count: Tensor) -> Tensor:
    return (total / count).masked_fill(count == 0, torch.nan).float()


def _grouped(by_head: Tensor, by_kv_head: Tensor) -> Tensor:
    """Multiply matrices of heads, (head, row, k), by those of their kv_heads, (kv_head, k, column),
    which are not repeated.
    """
    heads, rows, inner = by_head.shape
    flat = by_head.reshape(len(by_kv_head), -1, inner)
    return (flat @ by_kv_head).reshape(heads, rows, -1)


def _octave(rank: Tensor) -> Tensor:
    """Return floor(log2(rank)) of positive integers; below 1, −1."""
    powers = 1 << torch.arange(40, device=rank.device)
    return torch.bucketize(rank, powers, right=True) - 1


def _functional_sinks(rows: Sequence[Row], values: Tensor) -> Tensor:
    """Return the functional sinks of `sinks.functional_sinks`, (head, position)."""
    weights = [
        torch.nn.functional.pad(
            weights_of(row), (row.first, values.shape[1] - 1 - row.position), value=torch.nan
        )
        for row in rows
    ]
    weight, last = mean_of_finite(torch.stack(weights)), rows[-1]
    norm = torch.linalg.vector_norm(values, dim=-1)
    content = norm[:, max(last.first, 1) : last.position + 1].sort(dim=1).values
    if not content.shape[1]:
        return torch.zeros_like(weight, dtype=torch.bool)
    middle = content[:, [(content.shape[1] - 1) // 2, content.shape[1] // 2]].mean(dim=1)
    short = (norm <= COMPRESSED * middle[:, None]) & (middle[:, None] > 0)
    short = short.repeat_interleave(len(weight) // len(short), dim=0)
    return short & (weight >= MUCH / last.alpha.shape[1])


def _sink_class(last: Row, values: Tensor, is_sink: Tensor) -> dict[str, Tensor]:
    """Return what `ranks._sink_class` returns."""
    seen, wide = slice(last.first, last.position + 1), grids.wide(values.device)
    sink, states = is_sink[:, seen], values[:, seen].to(wide)
    norm = torch.linalg.vector_norm(states, dim=-1)
    unit = states / norm.masked_fill(norm == 0, 1)[..., None]
    count, content = sink.sum(dim=1), (~sink).sum(dim=1)
    direction = _grouped(sink[:, None].to(wide), unit) / count[:, None, None]
    cosine = _grouped(direction, unit.mT)[:, 0]
    mean = cosine.masked_fill(sink, 0).sum(dim=1) / content
    spread = (cosine - mean[:, None]).square().masked_fill(sink, 0).sum(dim=1) / content
    square = _grouped(sink[:, None].to(wide), norm.square()[..., None])[:, 0, 0] / count
    numbers = {"class_square": square, "class_cosine": mean, "class_cosine_sd": spread.sqrt()}
    first = is_sink[:, 0] & (last.first == 0)
    return {name: number.float() for name, number in numbers.items()} | {"sink_first": first.int()}


@lru_cache(maxsize=grids.LAYOUTS)
def _kept(positions: int, device: torch.device) -> Tensor:
    return torch.from_numpy(ranks(positions)).to(device)


def _sent(label: np.ndarray, device: torch.device) -> Tensor:
    """Copy labels to the device without waiting for it."""
    host = torch.from_numpy(label)
    return (host.pin_memory() if device.type == "cuda" else host).to(device, non_blocking=True)
