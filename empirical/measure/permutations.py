"""Permutation nulls: which value a token gets is random, the values of the head are not.

Random directions also differ from real values in anisotropy; permuted values do not. Precision and
Recall depend on pairs of weight and value only, so a permutation of values is an inverse
permutation of weights, and all nulls share the cosines of the head. A permutation is drawn once
for a KV head and document; its query heads and queries share it, so under the null hypothesis
measured and permuted curves are exchangeable. The definitions are those of `schema.NULLS`. Imports
numpy for the draws, and torch, so that both executions use the same functions and draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

PERMUTATIONS: Final = ("permuted_values", "permuted_sink", "permuted_octaves", "other_head")

MOST: Final = 64
"""Largest N of a permutation null: the dense part of the default grid."""

SIZES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Sizes N of permutation nulls where more are requested up to MOST; fewer sizes save time."""


def small_sizes(n: np.ndarray) -> np.ndarray:
    """Return sizes in which those that permutation nulls leave out exceed every T, so that they
    become NaN.

    >>> small_sizes(np.arange(1, 200))[[0, 4, 5, 100]] < 1000
    array([ True, False,  True, False])
    """
    small = n <= MOST
    measured = small if small.sum() <= len(SIZES) else np.isin(n, SIZES)
    return np.where(measured, n, np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Permutations:
    """Random permutations of one layer's positions, one for each KV head."""

    content: np.ndarray
    """Permutations that keep position 0, (kv_head, position)."""
    whole: np.ndarray
    """Permutations of all positions."""

    @classmethod
    def draw(cls, seed: np.random.SeedSequence, kv_heads: int, positions: int) -> Permutations:
        """Draw both permutations of every KV head."""
        generator = np.random.Generator(np.random.SFC64(seed))
        content = [1 + generator.permutation(positions - 1) for _ in range(kv_heads)]
        whole = [generator.permutation(positions) for _ in range(kv_heads)]
        return cls(np.insert(np.stack(content), 0, 0, axis=1), np.stack(whole))

    def seen(self, first: int, stop: int) -> Permutations:
        """Return the permutations that these induce on the positions `first` to `stop` − 1.

        A position maps to the first of its successive images among them. Uniform permutations
        induce uniform ones.
        """
        return Permutations(*(_induced(rows, first, stop) for rows in (self.content, self.whole)))


def _induced(permutations: np.ndarray, first: int, stop: int) -> np.ndarray:
    image = permutations[:, first:stop]
    while (outside := (image < first) | (image >= stop)).any():
        image = np.where(outside, np.take_along_axis(permutations, image, axis=1), image)
    return image - first


def permuted(
    alpha: Tensor, norms: Tensor, draw: Permutations, *, sink: bool
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the weights of every head over the values of its KV head, and its order of selection,
    by null.

    Args:
        alpha: attention rows, (head, token).
        norms: norms of the values, (kv_head, token).
        draw: permutations of these tokens.
        sink: whether token 0 is the sink.

    Returns:
        Weights and order, (head, token) each. For "other_head" both belong to the preceding KV
        head's query heads. Without a sink "permuted_sink" is left out, and with one KV head
        "other_head".
    """
    group = len(alpha) // len(norms)
    order = alpha.sort(dim=-1, descending=True, stable=True).indices
    content, whole = (
        _on(alpha.device, rows).repeat_interleave(group, dim=0)
        for rows in (draw.content, draw.whole)
    )
    octaves = _within_octaves(order, content, sink)
    images = {"permuted_values": content, "permuted_octaves": octaves}
    nulls = {name: (_moved(alpha, image), image.gather(1, order)) for name, image in images.items()}
    if sink:
        norm = norms.repeat_interleave(group, dim=0)
        nulls["permuted_sink"] = _with_sink(alpha, norm, whole), whole.gather(1, order)
    if len(norms) > 1:
        nulls["other_head"] = alpha.roll(group, 0), order.roll(group, 0)
    return nulls


def _on(device: torch.device, array: np.ndarray) -> Tensor:
    """Return an array as a tensor on a device, without waiting for the device."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def _moved(alpha: Tensor, image: Tensor) -> Tensor:
    """Return weights in which that of a token belongs to its image."""
    return torch.empty_like(alpha).scatter_(1, image, alpha)


def _with_sink(alpha: Tensor, norm: Tensor, image: Tensor) -> Tensor:
    """Return weights for which the sink's contribution keeps its norm in a random direction.

    The sink and the token that gets its direction keep their norms; other tokens get vectors.
    """
    of_sink = image[:, :1]
    ratio = norm[:, :1] / norm.gather(1, of_sink)
    known = ratio.isfinite() & (ratio > 0)  # a zero vector has no direction
    ratio = torch.where(known, ratio, 1.0).to(alpha.dtype)
    scale = torch.ones_like(alpha).scatter_(1, of_sink, ratio)
    scale[:, :1] /= ratio
    return _moved(alpha, image) * scale


def _within_octaves(order: Tensor, keys: Tensor, sink: bool) -> Tensor:
    """Return the image of each token under a permutation of ranks 1, 2-3, 4-7, … of content tokens.

    order: tokens by weight, (head, token). keys: distinct random numbers of the tokens, which order
    the ranks of an octave.
    """
    if sink:  # the sink first, then content by weight
        rank_of_sink = (order != 0).to(torch.int8)
        order = order.gather(1, rank_of_sink.sort(dim=-1, stable=True).indices)
    tokens = order.shape[1]
    rank = np.maximum(np.arange(tokens) + (0 if sink else 1), 0.5)  # the sink's octave is its own
    octave = _on(order.device, np.floor(np.log2(rank)).astype(np.int64))
    shuffled = (octave * tokens + keys.gather(1, order)).argsort(dim=-1)
    return torch.empty_like(order).scatter_(1, order, order.gather(1, shuffled))
