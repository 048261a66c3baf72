import numpy as np
import pytest
from scipy.stats import t as student
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.fits.weights.break_points import search
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.phase_mass import share_estimate
from geostat.statistics.jackknife import leave_one_out_mean


def test_interval_of_a_share_stays_inside_it():
    each = np.array([0.9, 0.97, 0.99, 0.5, 0.98, 0.99, 0.97, 0.95])
    mean = each.mean()
    found = share_estimate(mean, leave_one_out_mean(each), np.ones(8, dtype=bool))
    logit = np.log(leave_one_out_mean(each) / (1 - leave_one_out_mean(each)))
    half = student.ppf(0.975, 7) * np.sqrt(7 / 8 * ((logit - logit.mean()) ** 2).sum())
    expected = 1 / (1 + np.exp(-(np.log(mean / (1 - mean)) + np.array([-half, half]))))
    np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-12)
    assert float(found.se) == pytest.approx(each.std(ddof=1) / np.sqrt(8))
    assert found.upper < 1 < mean + student.ppf(0.975, 7) * float(found.se)
    whole = share_estimate(np.float64(1.0), np.ones(8), np.ones(8, dtype=bool))
    np.testing.assert_array_equal([whole.se, whole.lower, whole.upper], [0.0, 1.0, 1.0])


def test_interval_of_a_skewed_share_covers_where_the_plain_one_does_not():
    random = np.random.default_rng(2)
    each = 1 / (1 + np.exp(2.5 - 1.6 * random.normal(size=(8, 4000))))
    truth = (1 / (1 + np.exp(2.5 - 1.6 * np.random.default_rng(3).normal(size=1_000_000)))).mean()
    found = share_estimate(
        each.mean(axis=0), leave_one_out_mean(each), np.ones(each.shape, dtype=bool)
    )
    covers = ((found.lower < truth) & (truth < found.upper)).mean()
    half = student.ppf(0.975, 7) * found.se
    plain = (abs(each.mean(axis=0) - truth) < half).mean()
    assert covers >= 0.92 > plain


@pytest.fixture(scope="module")
def fit():
    return fit_weights(
        capture(
            Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110),
            Spread(token=0.5),
            Sizes(heads=6, kv_heads=2),
            seed=4,
        )
    )


def test_documents_are_fitted_alone(fit):
    data = capture(
        Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110),
        Spread(token=0.5),
        Sizes(heads=6, kv_heads=2),
        seed=4,
    )
    logs = np.log(data["attention_weight"].values[:, 0, :, 1:].astype(float))
    assert not fit["oscillation_identified"].any()
    for document in (0, 5):
        found = search(logs[document], 1)
        np.testing.assert_array_equal(fit["document_t2"][document, 0], found["t2"][0])
        np.testing.assert_allclose(
            fit["document_eta"][document, 0], found["eta_tail"][0], rtol=1e-9
        )
    np.testing.assert_allclose(fit["t2_document_sd"], fit["document_t2"].std("document", ddof=1))
    np.testing.assert_allclose(fit["document_p_sink"].mean("document"), fit["p_sink"])
    assert fit["document_p_base"].dims == ("document", "layer", "head")


def test_documents_of_an_oscillating_head_are_fitted_with_its_form():
    oscillating = fit_weights(capture(sizes=Sizes(heads=2, kv_heads=1), seed=5))
    assert oscillating["oscillation_identified"].all()
    np.testing.assert_allclose(oscillating["document_omega"], Truth().omega, atol=0.05)
    assert (oscillating["document_t1"] < oscillating["document_t2"]).all()


def test_masses_and_totals_travel_with_intervals(fit):
    for name in ("mass_sink", "mass_plateau", "mass_tail", "total_model"):
        assert (fit[f"{name}_lower"] < fit[name]).all(), name
        assert (fit[f"{name}_upper"] > fit[name]).all(), name
    assert (fit["mass_oscillation"] == 0).all()
    assert np.isnan(fit["mass_oscillation_se"]).all()
    np.testing.assert_array_equal(
        fit["total_model_differs"], (fit["total_model_lower"] > 1) | (fit["total_model_upper"] < 1)
    )
    np.testing.assert_allclose(fit["mass_sink"], fit["p_sink"])


def test_a_total_of_one_is_told_from_others():
    truth = Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110)
    data = capture(
        truth, Spread(token=0.1, document_level=0.02), Sizes(heads=16, kv_heads=4), seed=6
    )
    growth = np.exp(0.2 * np.maximum(np.arange(1, 128) - 110, 0)).sum() * truth.p_base
    whole = data.copy(deep=True)
    whole["attention_weight"][..., 1:] *= (1 - truth.p_sink) / growth
    assert fit_weights(whole)["total_model_differs"].mean() <= 0.2
    whole["attention_weight"][..., 1:] *= 0.8
    assert fit_weights(whole)["total_model_differs"].all()
