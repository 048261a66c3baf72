import numpy as np
import pytest
from scipy import stats
from support.synthetic import Sizes, capture

from geostat.errors import InputError
from geostat.fits.norms.fit import fit_norms
from geostat.fits.one_head import FORMS, fit_head
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights


@pytest.fixture(scope="module")
def data():
    return capture(sizes=Sizes(layers=2, heads=4, kv_heads=2), seed=1)


def test_one_head_is_the_same_fit_as_all_heads(data):
    norm, similarity, weight = fit_norms(data), fit_similarity(data), fit_weights(data)
    one = fit_head(data, 1, 3, "norms").params
    assert one["C"].value == pytest.approx(float(norm["C"].sel(layer=1, kv_head=1)), rel=1e-6)
    assert one["lam"].value == pytest.approx(float(norm["lam"].sel(layer=1, kv_head=1)), rel=1e-6)
    for form in FORMS["similarity"]:
        one = fit_head(data, 1, 3, form=form).params
        for name in one:
            assert one[name].value == pytest.approx(
                float(similarity[name].sel(gram=form, layer=1, kv_head=1)), rel=1e-9
            ), (form, name)
    for form in FORMS["weights"]:
        one = fit_head(data, 1, 3, "weights", form).params
        assert np.exp(one["log_p_base"].value) == pytest.approx(
            float(weight["form_p_base"].sel(form=form, layer=1, head=3)), rel=1e-9
        )
        assert one["eta"].value == pytest.approx(
            float(weight["form_eta"].sel(form=form, layer=1, head=3)), rel=1e-9
        )


def errors_of(result) -> dict[str, float]:
    return {name: parameter.stderr for name, parameter in result.params.items() if parameter.vary}


def test_errors_are_those_that_leaving_documents_out_gives_the_fits(data):
    norm, similarity, weight = fit_norms(data), fit_similarity(data), fit_weights(data)
    one, at = errors_of(fit_head(data, 1, 3, "norms")), norm.sel(layer=1, kv_head=1)
    assert one == pytest.approx({"C": float(at["C_se"]), "lam": float(at["lam_se"])}, rel=1e-6)
    seen = 0
    for form in FORMS["similarity"]:
        at = similarity.sel(gram=form, layer=1, kv_head=1)
        for name, error in errors_of(fit_head(data, 1, 3, form=form)).items():
            seen += 1
            assert (np.nan if error is None else error) == pytest.approx(
                float(at[f"{name}_se"]), rel=1e-6, nan_ok=True
            ), (form, name)
            assert error is None or error != pytest.approx(
                float(at[f"{name}_se_lags"]), rel=0.01
            )  # what lmfit itself would say
    for form in FORMS["weights"]:
        result = fit_head(data, 1, 3, "weights", form)
        at, own = weight.sel(form=form, layer=1, head=3), errors_of(result)
        base = np.exp(result.params["log_p_base"].value)
        for name, error in (
            ("p_base", own["log_p_base"] * base),
            ("eta", own["eta"]),
            ("omega", own.get("omega")),
        ):
            if np.isfinite(
                float(at[f"form_{name}_se"])
            ):  # of a parameter that is not identified the fits give none
                seen += 1
                assert error == pytest.approx(float(at[f"form_{name}_se"]), rel=1e-6), (form, name)
    assert seen > 10


def test_correlations_and_bands_are_those_of_documents(data):
    result = fit_head(data, 1, 3, form="offset")
    beta, offset = result.params["beta"], result.params["offset"]
    without = [
        fit_head(data.isel(document=[k for k in range(8) if k != left]), 1, 3, form="offset")
        for left in range(8)
    ]
    each = np.array(
        [
            [beta.value * np.log(one.params["beta"].value), one.params["offset"].value]
            for one in without
        ]
    )
    covariance = 7 * np.cov(each.T, bias=True)
    assert result.covar == pytest.approx(covariance, rel=1e-4)
    assert beta.correl == pytest.approx(
        {"offset": covariance[0, 1] / (beta.stderr * offset.stderr)}, rel=1e-4
    )
    assert (result.uvars["offset"] - result.uvars["beta"]).std_dev == pytest.approx(
        np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]), rel=1e-4
    )
    far = result.eval_uncertainty(
        sigma=0.95, lag=np.array([1000.0])
    )  # where the curve is its offset
    assert far == pytest.approx(stats.t(7).ppf(0.975) * offset.stderr, rel=1e-3)
    assert result.ndata == result.data.size


def test_the_report_says_where_its_errors_come_from_and_what_takes_lags_as_independent(data):
    result = fit_head(data, 1, 3, form="offset")
    report = result.fit_report()
    assert report.startswith(
        "[[Errors]]\n    ± is a jackknife over 8 documents; chi-square, AIC and BIC take lags and"
        " tokens as independent, which they are not\n"
    )
    assert f"+/- {result.params['offset'].stderr:.8f}" in report
    assert "jackknife over 8 documents" in result._repr_html_()
    for asked in (result.conf_interval, result.ci_report):
        with pytest.raises(
            InputError,
            match=(
                r"^lmfit's intervals take lags and tokens as independent, .* Use x_lower and"
                r" x_upper of geostat.fit\.$"
            ),
        ):
            asked()


@pytest.mark.parametrize("which", FORMS)
def test_one_document_gives_no_errors(data, which):
    result = fit_head(data.isel(document=[0]), 1, 3, which)
    assert set(errors_of(result).values()) == {None}
    report = result.fit_report()
    assert report.startswith("[[Errors]]\n    one document: no errors; ")
    assert "+/-" not in report
    assert "[[Correlations]]" not in report
    assert (result.covar, result.uvars) == (None, None)
    with pytest.raises(
        InputError,
        match=(
            r"^1 document gave the fit no errors, expected two or more\. Capture more documents\.$"
        ),
    ):
        result.eval_uncertainty()


def test_report_names_the_parameters_and_which_are_held(data):
    report = fit_head(data, 0, 0, "weights").fit_report()
    for word in ("log_p_base", "eta", "omega", "(fixed)"):
        assert word in report


def test_without_a_sink_lambda_is_held():
    windowed = capture(sizes=Sizes(window=(40,)))
    result = fit_head(windowed, 0, 0, "norms")
    assert not result.params["lam"].vary
    assert result.params["C"].value == pytest.approx(
        float(fit_norms(windowed)["C"][0, 0]), rel=1e-6
    )


def test_bad_questions_are_answered_in_one_line(data):
    with pytest.raises(InputError, match=r"which='beta'.*norms, similarity, weights"):
        fit_head(data, 0, 0, "beta")
    with pytest.raises(InputError, match=r"form='cubic'.*exponential, offset"):
        fit_head(data, 0, 0, form="cubic")
    with pytest.raises(InputError, match=r"layer 7 is not in this run, expected one of 0 to 1"):
        fit_head(data, 7, 0)
    with pytest.raises(InputError, match=r"head 4 .*0 to 3"):
        fit_head(data, 0, 4)
    short = capture(sizes=Sizes(positions=5))
    with pytest.raises(InputError, match="too little finite data for the shared form of weights"):
        fit_head(short, 0, 0, "weights")
