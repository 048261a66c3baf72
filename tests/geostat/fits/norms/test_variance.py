import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from geostat.fits.norms import variance
from geostat.fits.norms.variance import SOURCES, mean_squares, split

T_OF_EIGHT = 2.3646
"""Student's t, 97.5%, seven degrees of freedom."""


def table(seed, documents=8, heads=5, positions=60, deviations=(0.4, 0.3, 1.0)):
    """Return norms (document, head, position) with planted standard deviations of the three
    effects.
    """
    random = np.random.default_rng(seed)
    shapes = (documents, heads, 1), (1, heads, positions), (documents, heads, positions)
    effects = [sd * random.normal(size=shape) for sd, shape in zip(deviations, shapes, strict=True)]
    return 10 + sum(effects)


def shares_of(estimates, head=0):
    return [float(estimates[f"share_{name}"].value[head]) for name in SOURCES]


@pytest.mark.parametrize("deviations", [(0.8, 0.6, 1.0), (0.0, 0.6, 1.0), (0.8, 0.0, 1.0)])
def test_shares_equal_those_of_the_statsmodels_mixed_model(deviations):
    norm = table(5, documents=6, heads=3, positions=15, deviations=deviations)
    estimates = split(norm)
    for head in range(3):
        result = variance.mixed_model(norm[:, head])
        assert result.converged
        assert str(result.summary()).count(" Var ") == 2
        if 0 in shares_of(estimates, head)[:2]:
            assert any("boundary" in note for note in result.notes)
        parts = np.array([*result.vcomp, result.scale])
        assert_allclose(shares_of(estimates, head), parts / parts.sum(), atol=2e-4)


def test_leave_one_out_mean_squares_equal_refits():
    norm = table(7)
    norm[2, 0] = np.nan  # one document lacks the head
    norm[:, 1, 50:] = np.nan  # positions missing in all documents
    block = variance.complete_block(norm)
    assert np.isfinite(np.delete(block[:, 0], 2, axis=0)).all()
    _, without = mean_squares(block)
    for left_out in range(8):
        expected, _ = mean_squares(np.delete(block, left_out, axis=0))
        for name in (*SOURCES, "level", "documents", "positions"):
            result = getattr(without, name)[left_out]
            assert_allclose(result, getattr(expected, name), rtol=1e-10, err_msg=name)


def test_planted_variances_are_recovered_and_shares_add_to_one():
    norm = table(8, heads=600)
    result = split(norm)
    assert_allclose(sum(result[f"share_{name}"].value for name in SOURCES), 1, rtol=1e-12)
    variances = mean_squares(norm)[0].variances()  # unbiased
    variation = result["cv_position"]
    estimates = {**variances, "cv_position": variation.value**2 * 100}
    truth = dict(zip(SOURCES, (0.16, 0.09, 1.0), strict=True)) | {"cv_position": 0.09}
    for name, planted in truth.items():
        error = estimates[name].std() / np.sqrt(600)
        assert abs(estimates[name].mean() - planted) < 4 * error, name
    half_width = T_OF_EIGHT * variation.se * 1.0001
    assert (variation.value - half_width <= variation.lower).all()
    assert (variation.upper <= variation.value + half_width).all()


def test_without_an_effect_the_share_is_zero_in_about_half_of_the_heads():
    result = split(table(9, heads=400, positions=200, deviations=(0.3, 0.0, 1.0)))
    share, variation = result["share_position"], result["cv_position"]
    zero = share.value == 0
    assert 140 < zero.sum() < 260
    assert (result["share_document"].value > 0).all()
    # An estimate at 0 still has limits, from the unbiased estimate below 0.
    assert np.isfinite(share.upper).all()
    assert_allclose(T_OF_EIGHT * variation.se[zero], variation.upper[zero], rtol=1e-4)
    inside = (share.lower <= 0) & (share.upper >= 0)
    assert inside.sum() >= binom.ppf(1e-3, 400, 0.93)


def test_limits_of_the_document_share_cover_where_symmetric_limits_do_not():
    norm = table(10, heads=2000, positions=40, deviations=(0.3, 0.2, 1.0))
    truth = 0.09 / (0.09 + 0.04 + 1.0)
    result = split(norm)["share_document"]
    inside = (result.lower <= truth) & (result.upper >= truth)
    assert 0.92 <= inside.mean() <= 0.98
    estimate = variance.shares(mean_squares(norm)[0])["document"]
    assert (np.abs(estimate - truth) <= T_OF_EIGHT * result.se).mean() < 0.91


@pytest.mark.parametrize("deviations", [(0.0, 0.0, 1.0), (3.0, 0.1, 0.1), (0.1, 3.0, 0.1)])
def test_limits_contain_the_estimate_and_stay_between_zero_and_one(deviations):
    split_of_heads = split(table(11, heads=50, deviations=deviations))
    for name in SOURCES:
        result = split_of_heads[f"share_{name}"]
        assert (result.lower >= 0).all(), name
        assert (result.upper <= 1).all(), name
        # An estimate at 0 pools its mean square with the residual's, which shifts the others
        # slightly.
        assert (result.lower <= result.value + 0.02).all(), name
        assert (result.value <= result.upper + 0.02).all(), name


def test_variance_from_one_source_is_attributed_to_it():
    norm = np.array([1.0, 2.0, 4.0])[:, None, None]
    assert shares_of(split(np.broadcast_to(norm, (3, 1, 6)))) == pytest.approx([1, 0, 0], abs=1e-12)
    norm = np.arange(1.0, 7.0)
    result = split(np.broadcast_to(norm, (3, 1, 6)))
    assert shares_of(result) == pytest.approx([0, 1, 0], abs=1e-12)
    assert_allclose(result["cv_position"].value, norm.std(ddof=1) / 3.5)


def test_constant_norms_have_no_shares():
    noise = np.random.default_rng(12).normal(size=(4, 1, 9))
    constant = np.full((4, 1, 9), np.float32(0.1)).astype(float) * (1 + 1e-9 * noise)
    assert np.isnan(split(constant)["share_residual"].value).all()
    assert variance.mixed_model(constant[:, 0]) is None


def test_a_short_document_restricts_the_positions_of_the_block():
    norm = table(13, heads=1)
    holes = norm.copy()
    holes[3, 0, 40:] = np.nan
    result, expected = split(holes), split(norm[..., :40])
    for name in expected:
        for part, array in expected[name].arrays().items():
            assert_allclose(result[name].arrays()[part], array, rtol=1e-9, err_msg=f"{name} {part}")
