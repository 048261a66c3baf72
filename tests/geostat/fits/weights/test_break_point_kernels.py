"""The sum of squares that the search descends, and its derivatives, beside plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from geostat.fits.weights.break_point_kernels import STRIDE, normal_equations
from geostat.statistics.arrays import FloatArray

TOKENS, FIRST = 150, 3
BREAKS = [(20, 130), (0, TOKENS - 1), (40, 48), (TOKENS - 1, TOKENS - 1), (60, 60)]


def squares(theta: np.ndarray, y: FloatArray, w: FloatArray, j1: int, j2: int) -> complex:
    """Of (b, η_osc, ω, η_tail), as Assumption 3 has it; an imaginary step gives its derivative."""
    j = np.arange(TOKENS)
    wave = np.log(1 + theta[1] * np.cos(theta[2] * (FIRST + j)))
    model = theta[0] + np.where(j > j2, theta[3] * (j - j2), np.where(j > j1, wave, 0.0))
    return complex(np.sum(w * (y - model) ** 2))


@pytest.mark.parametrize(("j1", "j2"), BREAKS)
@pytest.mark.parametrize("shared", [True, False])
def test_the_equations_are_derivatives_of_the_squares(j1: int, j2: int, shared: bool) -> None:
    assert j2 - j1 < STRIDE or (j2 - j1) % STRIDE != 0  # blocks of the cosines end within
    chance = np.random.default_rng(5)
    y, w = chance.normal(size=TOKENS), (chance.random(TOKENS) > 0.1).astype(float)
    y *= w
    theta = np.array([0.2, 0.6, 0.9, 0.01])
    hess, bend, grad = np.empty((4, 4)), np.empty((4, 4)), np.empty(4)
    waves = np.empty((3, TOKENS))
    found = normal_equations(theta, y, w, FIRST, j1, j2, shared, hess, bend, grad, waves)

    def at(step: np.ndarray) -> complex:
        moved = theta + step
        moved[3] = moved[1] if shared else moved[3]
        return squares(moved, y, w, j1, j2)

    def slope(step: FloatArray) -> FloatArray:
        return np.array([at(step + one).imag for one in 1e-30j * np.eye(4)]) / 1e-30

    assert found == pytest.approx(at(np.zeros(4)).real, rel=1e-13)
    np.testing.assert_allclose(-2 * grad, slope(np.zeros(4)), rtol=1e-11, atol=1e-9)
    curve = np.array([slope(one) - slope(-one) for one in 1e-6 * np.eye(4)]) / 2e-6
    size = np.sqrt(1 + np.abs(np.diag(curve)))
    np.testing.assert_allclose(
        2 * bend / size / size[:, None], curve / size / size[:, None], atol=1e-6
    )
    assert (np.linalg.eigvalsh(hess) > -1e-9 * np.abs(hess).max()).all()  # J'J
