"""The error of an average by quadrature: its coverage by simulation, what no node saw, and the exact mean that it is freed by."""

from __future__ import annotations

import numpy as np
import pytest

from theory import conditional_error
from theory.conditional_error import FLOOR, controlled, off_by, spread_of, sums_off_by, unseen
from theory.conditional_rows import lattice_points
from theory.conditional_sums import bends, interpolated


@pytest.mark.parametrize("scales", [np.ones(1), np.ones(40), np.array([1.0, *[0.01] * 20])])
def test_a_sum_over_rows_is_off_by_more_in_no_more_cases_than_said(monkeypatch: pytest.MonkeyPatch, scales: np.ndarray) -> None:
    monkeypatch.setattr(conditional_error, "CONFIDENCE", 0.02)
    parts = np.random.default_rng(1).normal(size=(20_000, len(scales), 4)) * scales[:, None]
    variances = spread_of(parts, axis=2)
    off = np.array([sums_off_by(row[:, None], 3)[0] for row in variances])
    share = (parts.mean(axis=2).sum(axis=1) > off).mean()
    assert share <= 0.02 + 4 * np.sqrt(0.02 / 20_000)
    assert share >= 0.01


def test_few_parts_count_for_less_and_nothing_is_exact() -> None:
    variance = np.array([1e-4])
    assert off_by(variance, 3)[0] > 3 * off_by(variance, 300)[0] > 0.03
    assert off_by(np.zeros(1), 15)[0] == FLOOR


def test_an_event_that_no_node_saw_is_that_rare() -> None:
    assert (1 - unseen(500)) ** 500 == pytest.approx(conditional_error.CONFIDENCE, rel=0.2)


@pytest.mark.parametrize(("n", "others"), [(2, 30), (8, 4), (128, 129), (1, 1)])
def test_averages_of_a_row_lie_that_near_to_a_line_in_the_count(n: int, others: int) -> None:
    count = np.linspace(0, others, 4001)
    recall, _, outer, outer_f = bends(n, others)
    for bend, values in (
        (2 * recall, np.maximum(1 - count, 0)),
        (outer, 1 - interpolated(count, n)),
        (outer_f, 1 - interpolated(count, 2 * n)),
    ):
        chord = values[0] + (values[-1] - values[0]) * count / others
        assert np.abs(values - chord).max() <= bend + 1e-12


def test_what_is_a_line_in_the_count_is_exact_and_the_rest_keeps_its_mean() -> None:
    rng = np.random.default_rng(2)
    kappa = rng.exponential(size=(4000, 3, 4, 16))
    value = np.stack([1 - 0.3 * kappa, np.maximum(1 - kappa, 0)])
    columns = np.stack([*value, kappa, kappa**2, *(value * kappa)])
    exact = []
    for draw in range(len(kappa)):
        total = columns[:, draw].sum(axis=-1).transpose(1, 2, 0)
        exact.append(controlled(total, np.full(3, 16), np.ones(3)))
    found = np.array(exact)
    np.testing.assert_allclose(found[..., 0], 0.7, atol=1e-9)
    mean = found[..., 1].mean()  # E(1 − κ)⁺ = e⁻¹ for κ of mean 1
    assert mean == pytest.approx(np.exp(-1), abs=4 * found[..., 1].mean(axis=(1, 2)).std() / np.sqrt(len(found)))
    assert found[..., 1].std() < 0.75 * value[1].mean(axis=-1).std()


def test_shifts_are_each_parts_and_each_rows_own() -> None:
    points = lattice_points(0, 8, np.arange(5), 4).reshape(3, 5, 4, 8)
    assert np.unique(points[:, :, :, 0].round(12)).size == 3 * 5 * 4
    np.testing.assert_array_equal(lattice_points(0, 8, np.array([3]), 2).reshape(3, 2, 8), points[:, 3, :2])
    gaps = np.diff(np.sort(points[0, 2, 1]))
    np.testing.assert_allclose(gaps, 1 / 8, atol=1e-12)
