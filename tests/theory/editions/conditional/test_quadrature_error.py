"""Quadrature error: coverage by simulation, events that nodes missed, the control variate."""

from collections.abc import Callable

import numpy as np
import pytest

from theory.editions.conditional import quadrature_error
from theory.editions.conditional.conditioning import lattice_points
from theory.editions.conditional.count_bounds import distance_beyond_line, interpolated
from theory.editions.conditional.quadrature_error import (
    FLOOR,
    error_of_mean,
    error_of_sums,
    missed_probability,
    variance_of_mean,
    with_control_variate,
)


@pytest.mark.parametrize("scales", [np.ones(1), np.ones(40), np.array([1.0, *[0.01] * 20])])
def test_the_error_of_a_sum_over_rows_has_its_stated_coverage(
    monkeypatch: pytest.MonkeyPatch, scales: np.ndarray
) -> None:
    monkeypatch.setattr(quadrature_error, "CONFIDENCE", 0.02)
    parts = np.random.default_rng(1).normal(size=(20_000, len(scales), 4)) * scales[:, None]
    variances = variance_of_mean(parts, axis=2)
    off = np.array([error_of_sums(row[:, None], 3)[0] for row in variances])
    share = (parts.mean(axis=2).sum(axis=1) > off).mean()
    assert share <= 0.02 + 4 * np.sqrt(0.02 / 20_000)
    assert share >= 0.01


def test_few_parts_give_larger_errors_and_no_error_is_zero() -> None:
    variance = np.array([1e-4])
    assert error_of_mean(variance, 3)[0] > 3 * error_of_mean(variance, 300)[0] > 0.03
    assert error_of_mean(np.zeros(1), 15)[0] == FLOOR


def test_an_event_that_no_node_saw_is_that_rare() -> None:
    none_seen = (1 - missed_probability(500)) ** 500
    assert none_seen == pytest.approx(quadrature_error.CONFIDENCE, rel=0.2)


@pytest.mark.parametrize(
    ("n", "others", "ties"), [(2, 30, 0), (8, 4, 2), (128, 129, 0), (1, 1, 0), (3, 0, 2)]
)
def test_values_lie_that_far_beyond_a_line_in_the_count(n: int, others: int, ties: int) -> None:
    count = np.linspace(0, others, 100 * others + 1)
    for level, slope in ((1.0, 0.0), (1.0, -1.0), (0.4, -0.02), (0.0, 0.3)):
        lines = (np.full((1, 4), level), np.full((1, 4), slope))
        found = distance_beyond_line(*lines, n, np.array([others]), np.array([ties]))[0]
        line = level + slope * count
        harm = [line - np.maximum(1 - count, 0), 1 - count / max(others, 1) - line]
        harm += [1 - interpolated(count + ties, size) - line for size in (n, 2 * n)]
        np.testing.assert_allclose(found, [max(0.0, each.max()) for each in harm], atol=1e-12)


def columns_of(value: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """Sums over nodes, (rows, parts, 2k + 2), of k values (k, rows, parts, nodes)."""
    return np.stack([*value, kappa, kappa**2, *(value * kappa)]).sum(axis=-1).transpose(1, 2, 0)


def test_what_is_a_line_in_the_count_is_exact_and_the_rest_keeps_its_mean() -> None:
    rng = np.random.default_rng(2)
    kappa = rng.exponential(size=(4000, 3, 4, 16))
    value = np.stack([1 - 0.3 * kappa, np.maximum(1 - kappa, 0)])

    def means(beyond: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        totals = (columns_of(value[:, draw], kappa[draw]) for draw in range(len(kappa)))
        return np.array(
            [with_control_variate(x, np.full(3, 16), np.ones(3), beyond)[0] for x in totals]
        )

    found = means(lambda _, slope: np.where(slope == 0, np.inf, 0))  # a line is always taken
    np.testing.assert_allclose(found[..., 0], 0.7, atol=1e-9)
    mean = found[..., 1].mean()  # E(1 − κ)⁺ = e⁻¹ for κ of mean 1
    error = found[..., 1].mean(axis=(1, 2)).std() / np.sqrt(len(found))
    assert mean == pytest.approx(np.exp(-1), abs=4 * error)
    assert found[..., 1].std() < 0.75 * value[1].mean(axis=-1).std()
    chosen = means(lambda level, _: np.zeros_like(level))[..., 1].mean(axis=2)
    assert chosen.mean() == pytest.approx(np.exp(-1), abs=0.1 * chosen.std())


def test_no_steep_line_is_drawn_on_to_where_many_tokens_may_come_at_once() -> None:
    # One token comes and goes; an event that none saw brings 28 more.
    kappa = np.random.default_rng(3).random((1, 16, 64))
    total = columns_of(np.stack([np.maximum(1 - kappa, 0), 1 - kappa, kappa / 3, kappa / 5]), kappa)

    def beyond(level: np.ndarray, slope: np.ndarray) -> np.ndarray:
        return distance_beyond_line(level, slope, 2, np.array([29]), np.array([0]))

    each, far = with_control_variate(total, np.array([64]), np.array([0.53]), beyond)
    # Below: (1 − κ)⁺ lies nowhere below that line.
    assert each[0, :, 0] == pytest.approx(0.47, abs=1e-9)
    np.testing.assert_allclose(each[0, :, 1], 1 - kappa[0].mean(axis=1), atol=1e-12)
    assert far[0, 0] < 0.01
    assert 0.4 < far[0, 1] < 0.6


def test_shifts_differ_between_parts_and_between_rows() -> None:
    points = lattice_points(0, 8, np.arange(5), 4).reshape(3, 5, 4, 8)
    assert np.unique(points[:, :, :, 0].round(12)).size == 3 * 5 * 4
    np.testing.assert_array_equal(
        lattice_points(0, 8, np.array([3]), 2).reshape(3, 2, 8), points[:, 3, :2]
    )
    gaps = np.diff(np.sort(points[0, 2, 1]))
    np.testing.assert_allclose(gaps, 1 / 8, atol=1e-12)
