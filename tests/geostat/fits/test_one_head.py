import numpy as np
import pytest
from scipy import stats
from support.synthetic import Sizes, capture

from geostat.errors import InputError
from geostat.fits.norms.fit import fit_norms
from geostat.fits.norms.trend import bandwidth
from geostat.fits.norms.variance import SOURCES
from geostat.fits.one_head import FORMS, fit_head
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights

OF_LMFIT = [("norms", "two-level")] + [
    (which, form) for which in ("similarity", "weights") for form in FORMS[which]
]


@pytest.fixture(scope="module")
def data():
    return capture(sizes=Sizes(layers=2), seed=1)


@pytest.fixture(scope="module")
def fits(data):
    """The fits of all heads, at layer 1 and head 3."""
    layer, kv_head = data.isel(layer=[1]), {"layer": 1, "kv_head": 1}
    return {
        "norms": fit_norms(layer).sel(kv_head),
        "similarity": fit_similarity(layer).sel(kv_head),
        "weights": fit_weights(layer).sel(layer=1, head=3),
    }


def free(result):
    """Return value and error of each free parameter, of p_base instead of its logarithm."""
    out = {name: (p.value, p.stderr) for name, p in result.params.items() if p.vary}
    if "log_p_base" in out:
        log, error = out.pop("log_p_base")
        out["p_base"] = np.exp(log), error * np.exp(log)
    return out


@pytest.mark.parametrize(("which", "form"), OF_LMFIT)
def test_values_and_errors_equal_those_of_the_fit_of_all_heads(data, fits, which, form):
    prefix = "form_" if which == "weights" else ""
    fit = fits[which].sel({"similarity": {"gram": form}, "weights": {"form": form}}.get(which))
    compared = 0
    for name, (value, error) in free(fit_head(data, 1, 3, which, form)).items():
        expected, se = (float(fit[f"{prefix}{name}{part}"]) for part in ("", "_se"))
        if which == "weights" and np.isnan(se):
            continue  # a parameter that is not identified has no error
        assert error == pytest.approx(se, rel=1e-6), name
        assert abs(value - expected) < 1e-5 * se, name
        if which == "similarity":
            assert error != pytest.approx(float(fit[f"{name}_se_lags"]), rel=0.01)  # lmfit's error
        compared += 1
    assert compared > 0


def test_trend_and_variance_of_norms_are_statsmodels_results(data, fits):
    result = fit_head(data, 1, 3, "norms", "trend")
    assert result.params["trend"] == pytest.approx(float(fits["norms"]["trend"]), rel=1e-9)
    assert result.bse["trend"] == pytest.approx(float(fits["norms"]["trend_se_hac"]), rel=1e-9)
    assert f"(HAC) using {bandwidth(127)} lags" in str(result.summary())
    short = capture(sizes=Sizes(positions=24), seed=3)
    result, fit = fit_head(short, 0, 3, "norms", "variance"), fit_norms(short).sel(kv_head=1)
    parts = np.array([*result.vcomp, result.scale])
    expected = [float(fit[f"share_{name}"][0]) for name in SOURCES]
    np.testing.assert_allclose(parts / parts.sum(), expected, atol=2e-4)
    for word in ("document Var", "REML"):
        assert word in str(result.summary())


def test_correlations_and_bands_are_over_documents(data):
    result = fit_head(data, 1, 3, form="offset")
    beta, offset = result.params["beta"], result.params["offset"]
    others = [[k for k in range(8) if k != omitted] for omitted in range(8)]
    without = [fit_head(data.isel(document=rest), 1, 3, form="offset").params for rest in others]
    replicates = [[beta.value * np.log(p["beta"].value), p["offset"].value] for p in without]
    covariance = 7 * np.cov(np.array(replicates).T, bias=True)
    assert result.covar == pytest.approx(covariance, rel=1e-4)
    correlation = covariance[0, 1] / (beta.stderr * offset.stderr)
    assert beta.correl == pytest.approx({"offset": correlation}, rel=1e-4)
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    difference = result.uvars["offset"] - result.uvars["beta"]
    assert difference.std_dev == pytest.approx(np.sqrt(variance), rel=1e-4)
    # At lag 1000 the curve equals its offset.
    far = result.eval_uncertainty(sigma=0.95, lag=np.array([1000.0]))
    assert far == pytest.approx(stats.t(7).ppf(0.975) * offset.stderr, rel=1e-3)
    assert result.ndata == result.data.size


def test_the_report_names_the_source_of_its_errors(data):
    result = fit_head(data, 1, 3, form="offset")
    report = result.fit_report()
    assert report.startswith(
        "[[Errors]]\n    ± is the jackknife standard error over 8 documents; chi-square, AIC and"
        " BIC wrongly treat lags and tokens as independent\n"
    )
    assert f"+/- {result.params['offset'].stderr:.8f}" in report
    assert "standard error over 8 documents" in result._repr_html_()
    for method in (result.conf_interval, result.ci_report):
        with pytest.raises(InputError, match=r"lags and tokens as independent.*geostat\.fit\.$"):
            method()


@pytest.mark.parametrize("which", FORMS)
def test_one_document_gives_no_errors(data, which):
    result = fit_head(data.isel(document=[0]), 1, 3, which)
    assert {parameter.stderr for parameter in result.params.values() if parameter.vary} == {None}
    assert (result.covar, result.uvars) == (None, None)
    report = result.fit_report()
    assert report.startswith("[[Errors]]\n    one document: no standard errors; ")
    assert "+/-" not in report
    assert "[[Correlations]]" not in report
    with pytest.raises(InputError, match="1 document gave the fit no standard errors"):
        result.eval_uncertainty()


def test_without_a_sink_lambda_is_fixed():
    windowed = capture(sizes=Sizes(window=(40,)))
    params = fit_head(windowed, 0, 0, "norms").params
    assert not params["lam"].vary
    assert params["C"].value == pytest.approx(float(fit_norms(windowed)["C"][0, 0]), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, "beta"), "which='beta'.*norms, similarity, weights"),
        ((0, 0, "similarity", "cubic"), "form='cubic'.*exponential, offset"),
        ((7, 0), "layer 7 is not in this run, expected one of 0 to 1"),
        ((0, 4), "head 4 .*0 to 3"),
        ((0, 0, "weights"), "too little finite data for the shared form of weights"),
        ((0, 0, "norms", "variance"), "too little finite data for the variance form of norms"),
    ],
)
def test_what_cannot_be_fitted_is_refused(data, arguments, message):
    one_document = data.isel(document=[0], position=slice(5))
    with pytest.raises(InputError, match=message):
        fit_head(one_document.assign_coords(tokens=("layer", [5, 5])), *arguments)
