import numpy as np
import pytest
from synthetic import Sizes, capture

from geostat.errors import InputError
from geostat.norms import fit_norms
from geostat.one_head import FORMS, fit_head
from geostat.similarity import fit_similarity
from geostat.weights import fit_weights


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
            assert one[name].value == pytest.approx(float(similarity[name].sel(gram=form, layer=1, kv_head=1)), rel=1e-9), (form, name)
    for form in FORMS["weights"]:
        one = fit_head(data, 1, 3, "weights", form).params
        assert np.exp(one["log_p_base"].value) == pytest.approx(float(weight["form_p_base"].sel(form=form, layer=1, head=3)), rel=1e-9)
        assert one["eta"].value == pytest.approx(float(weight["form_eta"].sel(form=form, layer=1, head=3)), rel=1e-9)


def test_report_names_the_parameters_and_which_are_held(data):
    report = fit_head(data, 0, 0, "weights").fit_report()
    for word in ("log_p_base", "eta", "omega", "(fixed)"):
        assert word in report


def test_without_a_sink_lambda_is_held():
    windowed = capture(sizes=Sizes(window=(40,)))
    result = fit_head(windowed, 0, 0, "norms")
    assert not result.params["lam"].vary
    assert result.params["C"].value == pytest.approx(float(fit_norms(windowed)["C"][0, 0]), rel=1e-6)


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
