import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom
from support.synthetic import Sizes, capture

from geostat.errors import InputError
from geostat.fits.norms.fit import fit_norms
from geostat.fits.norms.variance import (
    SOURCES,
    MeanSquares,
    complete_block,
    mean_squares,
    mixed_model,
    share_of_variance,
    shares,
    split,
)
from geostat.fits.one_head import fit_head


def table(random, documents=8, heads=5, positions=60, deviations=(0.4, 0.3, 1.0)):
    """Norms (document, head, position) with planted standard deviations of document, position
    and residual.
    """
    document, position, residual = deviations
    return (
        10
        + document * random.normal(size=(documents, heads, 1))
        + position * random.normal(size=(1, heads, positions))
        + residual * random.normal(size=(documents, heads, positions))
    )


def statsmodels_shares(result):
    parts = np.array([*result.vcomp, result.scale])
    return parts / parts.sum()


@pytest.mark.parametrize("deviations", [(0.8, 0.6, 1.0), (0.0, 0.6, 1.0), (0.8, 0.0, 1.0)])
def test_shares_are_the_restricted_likelihood_of_statsmodels_crossed_mixed_model(deviations):
    norm = table(
        np.random.default_rng(5), documents=6, heads=3, positions=15, deviations=deviations
    )
    found = split(norm)
    for head in range(3):
        result = mixed_model(norm[:, head])
        assert result.converged
        assert str(result.summary()).count(" Var ") == 2
        if 0 in (found["share_document"].value[head], found["share_position"].value[head]):
            assert any("boundary" in note for note in result.notes)
        expected = statsmodels_shares(result)
        np.testing.assert_allclose(
            [found[f"share_{name}"].value[head] for name in SOURCES], expected, atol=2e-4
        )


def test_pooling_maximises_the_restricted_likelihood_also_where_a_component_is_zero():
    random = np.random.default_rng(6)
    at_zero = 0
    for _ in range(15):
        d, p = random.integers(2, 9, 2).astype(float)
        square = random.uniform(0.2, 2, 3)
        squares = MeanSquares(
            document=square[:1],
            position=square[1:2],
            residual=square[2:],
            documents=np.array([d]),
            positions=np.array([p]),
            level=np.ones(1),
        )
        degrees = np.array([d - 1, p - 1, (d - 1) * (p - 1)])

        def loss(variances, square=square, degrees=degrees, d=d, p=p):
            document, position, residual = variances
            expected = np.array([residual + p * document, residual + d * position, residual])
            return float((degrees * (np.log(expected) + square / expected)).sum())

        bounds = [(0, None), (0, None), (1e-3, None)]
        starts = [(0.1, 0.1, 1), (0, 0, 1), (1, 1, 0.1)]
        tight = {"ftol": 1e-15, "gtol": 1e-10}
        best = min(
            (minimize(loss, start, bounds=bounds, options=tight) for start in starts),
            key=lambda found: found.fun,
        )
        pooled = squares.pooled().variances()
        np.testing.assert_allclose([pooled[name][0] for name in SOURCES], best.x, atol=1e-4)
        at_zero += pooled["document"][0] == 0 or pooled["position"][0] == 0
    assert 3 < at_zero < 15


def test_leaving_a_document_out_in_closed_form_is_fitting_the_others():
    norm = table(np.random.default_rng(7))
    norm[2, 0] = np.nan  # a head that one document does not carry
    norm[:, 1, 50:] = np.nan  # positions that nobody has
    block = complete_block(norm)
    assert np.isfinite(np.delete(block[:, 0], 2, axis=0)).all()
    _, without = mean_squares(block)
    for left_out in range(8):
        expected, _ = mean_squares(np.delete(block, left_out, axis=0))
        for name in ("document", "position", "residual", "level", "documents", "positions"):
            np.testing.assert_allclose(
                getattr(without, name)[left_out], getattr(expected, name), rtol=1e-10, err_msg=name
            )


def test_planted_shares_are_found_and_add_to_one():
    norm = table(np.random.default_rng(8), heads=600)
    found = split(norm)
    np.testing.assert_allclose(sum(found[f"share_{name}"].value for name in SOURCES), 1, rtol=1e-12)
    whole, _ = mean_squares(norm)
    for name, variance in zip(SOURCES, (0.16, 0.09, 1.0), strict=True):
        estimates = whole.variances()[name]  # unbiased
        assert abs(estimates.mean() - variance) < 4 * estimates.std() / np.sqrt(600), name
    variation = found["cv_position"]
    half = 2.3646 * variation.se * 1.0001  # t, 7 degrees of freedom
    assert (variation.value - half <= variation.lower).all()
    assert (variation.upper <= variation.value + half).all()
    estimates = variation.value**2 * 100
    assert abs(estimates.mean() - 0.09) < 4 * estimates.std() / np.sqrt(600)


def test_without_an_effect_its_share_is_zero_in_about_half_the_heads_and_says_so():
    found = split(
        table(np.random.default_rng(9), heads=400, positions=200, deviations=(0.3, 0.0, 1.0))
    )
    share, variation = found["share_position"], found["cv_position"]
    zero = share.value == 0
    assert 140 < zero.sum() < 260
    assert (found["share_document"].value > 0).all()
    # An estimate at 0 still has limits: the unbiased estimate beneath it is no bound.
    assert np.isfinite(share.upper).all()
    np.testing.assert_allclose(2.3646 * variation.se[zero], variation.upper[zero], rtol=1e-4)
    inside = (share.lower <= 0) & (share.upper >= 0)
    assert inside.sum() >= binom.ppf(1e-3, 400, 0.93)


def test_limits_of_the_document_share_cover_with_eight_documents_where_symmetric_ones_do_not():
    norm = table(np.random.default_rng(10), heads=2000, positions=40, deviations=(0.3, 0.2, 1.0))
    truth = 0.09 / (0.09 + 0.04 + 1.0)
    found = split(norm)["share_document"]
    inside = (found.lower <= truth) & (found.upper >= truth)
    assert 0.92 <= inside.mean() <= 0.98
    whole, without = mean_squares(norm)
    plain = share_of_variance(whole, without, "document").se * 2.3646  # t, 7 degrees of freedom
    estimate = shares(whole)["document"]
    assert (np.abs(estimate - truth) <= plain).mean() < 0.91


@pytest.mark.parametrize("name", SOURCES)
def test_limits_hold_the_estimate_and_stay_between_zero_and_one(name):
    for deviations in ((0.0, 0.0, 1.0), (3.0, 0.1, 0.1), (0.1, 3.0, 0.1)):
        found = split(table(np.random.default_rng(11), heads=50, deviations=deviations))[
            f"share_{name}"
        ]
        assert (found.lower >= 0).all()
        assert (found.upper <= 1).all()
        # An estimate held at 0 pools its mean square with the residual's, which moves the others a
        # little.
        assert (found.lower <= found.value + 0.02).all()
        assert (found.value <= found.upper + 0.02).all()


def test_documents_that_differ_by_a_constant_alone_have_all_variance_between_them():
    norm = np.broadcast_to(np.array([1.0, 2.0, 4.0])[:, None, None], (3, 1, 6))
    found = split(norm)
    assert [float(found[f"share_{name}"].value[0]) for name in SOURCES] == pytest.approx(
        [1, 0, 0], abs=1e-12
    )
    found = split(np.broadcast_to(np.arange(1.0, 7.0), (3, 1, 6)))
    assert [float(found[f"share_{name}"].value[0]) for name in SOURCES] == pytest.approx(
        [0, 1, 0], abs=1e-12
    )
    assert float(found["cv_position"].value[0]) == pytest.approx(
        np.arange(1.0, 7.0).std(ddof=1) / 3.5
    )


def test_norms_that_do_not_vary_have_no_shares():
    constant = np.full((4, 1, 9), np.float32(0.1)).astype(float) * (
        1 + 1e-9 * np.random.default_rng(12).normal(size=(4, 1, 9))
    )
    assert np.isnan(split(constant)["share_residual"].value).all()
    assert mixed_model(constant[:, 0]) is None


def test_a_short_document_shortens_the_table_not_the_others():
    norm = table(np.random.default_rng(13), heads=1)
    holes = norm.copy()
    holes[3, 0, 40:] = np.nan
    found, expected = split(holes), split(norm[..., :40])
    for name in expected:
        for part, array in expected[name].arrays().items():
            np.testing.assert_allclose(
                found[name].arrays()[part], array, rtol=1e-9, err_msg=f"{name} {part}"
            )


def test_statsmodels_report_of_a_head_is_one_call_away_and_the_same_split():
    data = capture(sizes=Sizes(positions=24), seed=3)
    fit = fit_norms(data)
    result = fit_head(data, 0, 3, "norms", "variance")
    expected = [float(fit[f"share_{name}"].sel(layer=0, kv_head=1)) for name in SOURCES]
    np.testing.assert_allclose(statsmodels_shares(result), expected, atol=2e-4)
    report = str(result.summary())
    assert "document Var" in report
    assert "REML" in report
    with pytest.raises(InputError, match="too little finite data for the variance form of norms"):
        fit_head(data.isel(document=[0]), 0, 3, "norms", "variance")
