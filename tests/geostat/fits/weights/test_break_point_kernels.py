"""The sum of squares that the search minimises, and its derivatives, compared with numpy."""

import numpy as np
import pytest

from geostat.fits.weights.break_point_kernels import STRIDE, normal_equations

TOKENS, FIRST = 150, 3
BREAKS = [(20, 130), (0, TOKENS - 1), (40, 48), (TOKENS - 1, TOKENS - 1), (60, 60)]


def squares(theta, y, w, j1, j2):
    """Return the sum of squares at (b, η_osc, ω, η_tail); a complex step gives its derivative."""
    j = np.arange(TOKENS)
    wave = np.log(1 + theta[1] * np.cos(theta[2] * (FIRST + j)))
    model = theta[0] + np.where(j > j2, theta[3] * (j - j2), np.where(j > j1, wave, 0.0))
    return complex(np.sum(w * (y - model) ** 2))


@pytest.mark.parametrize(("j1", "j2"), BREAKS)
@pytest.mark.parametrize("shared", [True, False])
def test_normal_equations_are_derivatives_of_the_sum_of_squares(j1, j2, shared):
    assert j2 - j1 < STRIDE or (j2 - j1) % STRIDE != 0  # the last block of cosines is partial
    random = np.random.default_rng(5)
    y, w = random.normal(size=TOKENS), (random.random(TOKENS) > 0.1).astype(float)
    y *= w
    theta = np.array([0.2, 0.6, 0.9, 0.01])
    hess, bend, grad = np.empty((4, 4)), np.empty((4, 4)), np.empty(4)
    waves = np.empty((3, TOKENS))
    result = normal_equations(theta, y, w, FIRST, j1, j2, shared, hess, bend, grad, waves)

    def loss_at(step):
        shifted = theta + step
        shifted[3] = shifted[1] if shared else shifted[3]
        return squares(shifted, y, w, j1, j2)

    def slope(step):
        return np.array([loss_at(step + unit).imag for unit in 1e-30j * np.eye(4)]) / 1e-30

    assert result == pytest.approx(loss_at(np.zeros(4)).real, rel=1e-13)
    np.testing.assert_allclose(-2 * grad, slope(np.zeros(4)), rtol=1e-11, atol=1e-9)
    curve = np.array([slope(unit) - slope(-unit) for unit in 1e-6 * np.eye(4)]) / 2e-6
    size = np.sqrt(1 + np.abs(np.diag(curve)))
    scale = size * size[:, None]
    np.testing.assert_allclose(2 * bend / scale, curve / scale, atol=1e-6)
    assert (np.linalg.eigvalsh(hess) > -1e-9 * np.abs(hess).max()).all()  # J'J
