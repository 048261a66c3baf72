"""Supports of sparsemax and 1.5-entmax, compiled and by torch, against their definitions."""

import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor

from empirical.intervention.rules import by_newton, support

POWERS = (1, 2)
"""To which what lies above the threshold is taken: sparsemax, 1.5-entmax."""


def threshold(row: Tensor, power: int) -> float:
    """τ with Σ (z/power − τ)₊^power = 1, of double logits whose largest is 0."""
    z = row / power
    return brentq(lambda t: float(((z - t).clamp_min(0) ** power).sum()) - 1, -1, 0, xtol=1e-14)


def made(seed: int, entries: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.tensor([0.01, 0.3, 1.0, 3.0, 30.0])[:, None, None]
    logits = torch.randn(5, 40, entries, generator=generator) * scale + 40
    hidden = torch.rand(logits.shape, generator=generator) < 0.3
    hidden[..., 0] = False
    return logits.masked_fill(hidden, -torch.inf)


@pytest.mark.parametrize("entries", [1, 7, 130])
@pytest.mark.parametrize("power", POWERS)
def test_the_support_matches_the_definition(power, entries):
    logits = made(entries, entries)
    exact = logits.double() - logits.double().amax(dim=-1, keepdim=True)
    expected = by_newton(exact, power)
    for place in ((0, 3), (2, 0), (3, 39), (4, 7)):
        edge = threshold(exact[place], power)
        assert expected[place].tolist() == (exact[place] / power > edge).tolist()
    differs = support(logits, power) != expected
    at_the_edge = torch.zeros_like(differs)
    for place in differs.nonzero():
        edge = threshold(exact[*place[:-1]], power)
        at_the_edge[*place] = abs(float(exact[*place]) / power - edge) < 1e-5
    assert bool((differs <= at_the_edge).all())
    assert int(differs.sum()) <= 2


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("which", [support, by_newton])
def test_ties_and_edges(which, power):
    rows = [[0.0, 0.0, 0.0], [0.0, -power, -power - 1], [-torch.inf, 2.0, -torch.inf]]
    expected = [[True] * 3, [True, False, False], [False, True, False]]
    assert which(torch.tensor(rows), power).tolist() == expected


@pytest.mark.parametrize("power", POWERS)
def test_a_row_without_any_entry_has_no_support(power):
    rows = torch.tensor([[-torch.inf, -torch.inf], [1.0, -torch.inf]])
    assert support(rows, power).tolist() == [[False, False], [True, False]]
