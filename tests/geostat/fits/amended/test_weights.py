"""Weights by rank: forms against SciPy, recovery of drawn queries, variance components."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from empirical.measure.ranks import ranks
from geostat.fits.amended import weights as module
from geostat.fits.amended.weights import SHAPES, WEIGHT_FORMS, compare_weights, fit_weights

TOKENS, DOCUMENTS, HEADS, QUERIES = 1024, 6, 16, 8
SINK, SPREAD, TAIL = 0.3, 1.5, 0.1


def stored(logits: np.ndarray) -> xr.Dataset:
    """/ranks of queries, (document, head, query, token), beside one sink."""
    kept = ranks(logits.shape[-1])
    ordered = -np.sort(-logits, axis=-1)
    logs = ordered - np.log(np.exp(ordered).sum(axis=-1, keepdims=True)) + np.log(1 - SINK)
    dims = ("document", "layer", "head", "query")
    shape = (len(logits), 1, *logits.shape[1:3])
    sink = np.full((*shape, 2), np.nan)
    sink[..., 0] = np.log(SINK)
    return xr.Dataset(
        {
            "log_weight": ((*dims, "rank"), logs[:, None][..., kept - 1].astype(np.float32)),
            "sink_log_weight": ((*dims, "sink"), sink.astype(np.float32)),
            "content_tokens": (dims, np.full(shape, logits.shape[-1], np.int32)),
        },
        {"rank": kept},
    )


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """Queries of form h; the scale varies over heads, documents and queries. Read only."""
    draw = np.random.default_rng(0)
    scale = SPREAD + 0.5 * draw.normal(size=(1, HEADS, 1))
    scale = scale + 0.1 * draw.normal(size=(DOCUMENTS, HEADS, 1))
    scale = (scale + 0.1 * draw.normal(size=(DOCUMENTS, HEADS, QUERIES))).clip(0.4)
    z = draw.normal(size=(DOCUMENTS, HEADS, QUERIES, TOKENS))
    return stored(scale[..., None] * z * np.exp(TAIL * z * z / 2))


@pytest.mark.parametrize(
    ("form", "distribution"), [("gaussian", stats.norm), ("logistic", stats.logistic)]
)
def test_quantiles_are_those_of_the_distribution(form, distribution):
    rank = np.arange(1.0, 101)
    expected = distribution.ppf(1 - (rank - 3 / 8) / 100.25)
    np.testing.assert_allclose(module.quantile(form, 0.0, rank, 100), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [-0.4, 0.0, 0.5])
def test_the_pareto_tail_joins_the_normal_smoothly(shape):
    rank = np.arange(1.0, 1001)
    z, q = (module.quantile(form, shape, rank, 1000) for form in ("gaussian", "gpd"))
    scale = stats.norm.sf(module.TAIL) / stats.norm.pdf(module.TAIL)
    p = (rank - 3 / 8) / 1000.25
    tail = p < 0.1
    expected = module.TAIL + stats.genpareto.isf(p[tail] / 0.1, shape, scale=scale)
    np.testing.assert_allclose(q[tail], expected)
    np.testing.assert_array_equal(q[~tail], z[~tail])


@pytest.mark.parametrize("form", SHAPES)
def test_forms_fall_with_the_rank(form):
    rank = np.arange(1.0, 1025)
    for shape in SHAPES[form]:
        assert (np.diff(module.quantile(form, shape, rank, 1024)) < 0).all()


def test_the_normal_form_is_a_regression(data):
    fitted = fit_weights(data, "gaussian")
    x = -stats.norm.ppf((data["rank"].values - 3 / 8) / 1024.25)
    y = data["log_weight"].values[2, 0, 1, 3]
    line = stats.linregress(x, y)
    assert fitted.scale[2, 1, 3] == pytest.approx(line.slope)
    np.testing.assert_allclose(np.ptp(fitted.logs[2, 1, 3]), line.slope * np.ptp(x))


def test_drawn_weights_are_recovered(data):
    found = compare_weights(data)
    fitted = fit_weights(data)
    assert fitted.shape.mean() == pytest.approx(TAIL, abs=0.02)
    assert found["weight_tail"].mean() == pytest.approx(TAIL, abs=0.02)
    assert found["weight_scale"].mean() == pytest.approx(SPREAD, abs=0.5)
    np.testing.assert_allclose(found["sink_weight"], SINK, rtol=1e-5)
    content = np.exp(fitted.logs[0, 0, 0])
    every = np.arange(1, TOKENS + 1)
    total = np.exp(np.interp(np.log(every), np.log(data["rank"]), np.log(content))).sum()
    assert total == pytest.approx(1 - SINK, rel=0.01)
    # the true form predicts as well as the measured weights of the others; lighter tails do not
    explained = dict(zip(WEIGHT_FORMS, found["mass_r2"].values.tolist(), strict=True))
    assert explained["h"] == pytest.approx(explained["measured"], abs=0.02)
    assert max(explained[form] for form in ("gaussian", "g", "logistic")) < explained["h"] - 0.05
    assert found["top_bias"].sel(weight_form="measured") == 0
    top = found["top_error"].sel(weight_form=["h", "gaussian"]).values
    assert top[0] < 0.6 * top[1]
    assert found["weight_form"].values.tolist() == list(WEIGHT_FORMS)


def test_variance_components_are_recovered():
    draw = np.random.default_rng(1)
    values = 3.0 * draw.normal(size=(1, 300, 1)) + 2.0 * draw.normal(size=(8, 300, 1))
    values = values + draw.normal(size=(8, 300, 16))
    np.testing.assert_allclose(module._components(values), np.array([9, 4, 1]) / 14, atol=0.05)
    assert np.isnan(module._components(values[:1])).all()


def test_few_content_tokens_have_no_fit(data):
    few = data.copy(deep=True)
    few["log_weight"][0, 0, 0, 0, 5:] = np.nan
    few["content_tokens"][0, 0, 0, 0] = 5
    fitted = fit_weights(few)
    assert np.isnan(fitted.logs[0, 0, 0]).all()
    assert np.isnan(fitted.scale[0, 0, 0])
    assert np.isfinite(compare_weights(few)["mass_r2"]).all()


def test_without_content_tokens_nothing_is_compared(data):
    """Every token is a functional sink."""
    sinks = data.copy(deep=True)
    sinks["log_weight"][:] = np.nan
    sinks["content_tokens"][:] = 0
    found = compare_weights(sinks)
    for name in ("mass_r2", "top_error", "weight_scale", "weight_variance"):
        assert found[name].isnull().all(), name
