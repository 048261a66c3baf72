import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import t as student
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.datasets.tokens import LayerTokens
from geostat.fits.weights.break_points import search
from geostat.fits.weights.effects import arithmetic, share_estimate
from geostat.fits.weights.fit import fit_weights
from geostat.statistics.jackknife import leave_one_out_mean

T = student.ppf(0.975, 7)
NO_WAVE = Truth(eta=0.0, eta_tail=0.2, t1=110, t2=110)


def share_of(shares):
    carries = np.ones(shares.shape, dtype=bool)
    return share_estimate(shares.mean(axis=0), leave_one_out_mean(shares), carries)


def test_interval_of_a_share_stays_between_zero_and_one():
    shares = np.array([0.9, 0.97, 0.99, 0.5, 0.98, 0.99, 0.97, 0.95])
    result = share_of(shares)
    logits = logit(leave_one_out_mean(shares))
    half_width = T * np.sqrt(7 / 8 * ((logits - logits.mean()) ** 2).sum())
    expected = expit(logit(shares.mean()) + np.array([-half_width, half_width]))
    assert_allclose([result.lower, result.upper], expected, rtol=1e-12)
    assert_allclose(result.se, shares.std(ddof=1) / np.sqrt(8))
    assert result.upper < 1 < shares.mean() + T * result.se
    one = share_of(np.ones(8))
    assert_array_equal([one.se, one.lower, one.upper], [0.0, 1.0, 1.0])


def test_logit_interval_of_a_skewed_share_covers_where_the_plain_interval_does_not():
    def drawn(seed, shape):
        return expit(1.6 * np.random.default_rng(seed).normal(size=shape) - 2.5)

    shares, truth = drawn(2, (8, 4000)), drawn(3, 1_000_000).mean()
    result = share_of(shares)
    covers = ((result.lower < truth) & (truth < result.upper)).mean()
    plain = (abs(shares.mean(axis=0) - truth) < T * result.se).mean()
    assert covers >= 0.92 > plain


@pytest.fixture(scope="module")
def data():
    return capture(NO_WAVE, Spread(token=0.5), Sizes(heads=2), seed=3)


@pytest.fixture(scope="module")
def fit(data):
    return fit_weights(data)


def test_documents_are_fitted_separately(data, fit):
    logs = np.log(data["attention_weight"].values[:, 0, :, 1:].astype(float))
    assert not fit["oscillation_identified"].any()
    for document in (0, 5):
        result = search(logs[document], 1)
        assert_array_equal(fit["document_t2"][document, 0], result["t2"][0])
        assert_allclose(fit["document_eta"][document, 0], result["eta_tail"][0], rtol=1e-9)
    assert_allclose(fit["t2_document_sd"], fit["document_t2"].std("document", ddof=1))
    assert_allclose(fit["document_p_sink"].mean("document"), fit["p_sink"])
    assert fit["document_p_base"].dims == ("document", "layer", "head")


def test_documents_of_an_oscillating_head_are_fitted_with_its_form():
    fit = fit_weights(capture(sizes=Sizes(heads=2, kv_heads=1), seed=5))
    assert fit["oscillation_identified"].all()
    assert_allclose(fit["document_omega"], Truth().omega, atol=0.05)
    assert (fit["document_t1"] < fit["document_t2"]).all()


def test_masses_and_totals_have_intervals(fit):
    for name in ("mass_sink", "mass_plateau", "mass_tail", "total_model", "sink_to_plateau"):
        assert (fit[f"{name}_lower"] < fit[name]).all(), name
        assert (fit[f"{name}_upper"] > fit[name]).all(), name
    assert (fit["mass_oscillation"] == 0).all()
    assert np.isnan(fit["mass_oscillation_se"]).all()
    excludes_one = (fit["total_model_lower"] > 1) | (fit["total_model_upper"] < 1)
    assert_array_equal(fit["total_model_differs"], excludes_one)
    assert_allclose(fit["mass_sink"], fit["p_sink"])
    per_token = fit["mass_plateau"] / fit["t1"]
    assert_allclose(fit["sink_to_plateau"], fit["p_sink"] / per_token, rtol=1e-6)


@pytest.mark.parametrize("documents", [4, 8])
def test_the_interval_of_the_ratio_of_sink_and_plateau_covers_the_truth(documents: int):
    def drawn(seed: int, shape: tuple[int, ...]) -> np.ndarray:
        random = np.random.default_rng(seed)
        sink = expit(random.normal(size=shape) - 1.5)
        plateau = (1 - sink) * np.exp(0.6 * random.normal(size=shape)) / 100
        return np.stack([sink, plateau], axis=-1)

    shares, means = drawn(2, (documents, 3000)), drawn(3, (1_000_000,)).mean(axis=0)
    visible = LayerTokens(start=0, tokens=2, sink=True)
    fit = {"b": np.zeros(3000), "t1": np.ones(3000), "t2": np.ones(3000)}
    fit |= {name: np.zeros(3000) for name in ("eta_osc", "eta_tail", "omega")}
    replicates = {name: np.tile(values, (documents, 1)) for name, values in fit.items()}
    found = arithmetic(shares, visible, fit, replicates)["sink_to_plateau"]
    truth = means[0] / means[1]
    covers = (found.lower < truth) & (truth < found.upper)
    assert 0.92 < covers.mean() < 0.98


def test_a_total_of_one_is_distinguished_from_other_totals():
    spread = Spread(token=0.1, document_level=0.02)
    data = capture(NO_WAVE, spread, Sizes(heads=5, kv_heads=1), seed=6)
    growth = np.exp(0.2 * np.maximum(np.arange(1, 128) - 110, 0)).sum() * NO_WAVE.p_base
    data["attention_weight"][..., 1:] *= (1 - NO_WAVE.p_sink) / growth
    assert fit_weights(data)["total_model_differs"].mean() <= 0.2
    data["attention_weight"][..., 1:] *= 0.8
    assert fit_weights(data)["total_model_differs"].all()
