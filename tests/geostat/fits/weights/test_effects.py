import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.datasets.tokens import LayerTokens
from geostat.fits.weights.effects import distance
from geostat.fits.weights.effects import growth as growth_of
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.forms import CURVE, log_profile
from geostat.fits.weights.identifiability import Reason
from geostat.statistics.jackknife import jackknife
from studies.verdicts import Row, growth, oscillation, shape


@pytest.fixture(scope="module")
def fits():
    return fit_weights(capture(spread=Spread(token=0.1), sizes=Sizes(heads=3, kv_heads=1), seed=4))


def test_total_growth_is_the_log_ratio_of_the_last_weight_to_the_plateau(fits):
    assert (fits["growth_reason"] == Reason.HAS_ONE).all()
    log_ratio = fits["log_weight_model"][..., -1] - np.log(fits["p_base"])
    assert_allclose(fits["growth"], log_ratio, atol=0.1)
    assert (fits["growth_se"] < 0.25).all()
    assert_allclose(fits["growth_lower"] + fits["growth_upper"], 2 * fits["growth"], rtol=1e-6)
    # 127 − 118 tokens at rate 0.35.
    assert ((fits["growth_lower"] < 0.35 * 9) & (fits["growth_upper"] > 0.35 * 9)).all()


def test_growth_of_a_document_starts_at_the_t2_of_the_others():
    random = np.random.default_rng(5)
    rows = random.normal(size=(4, 2, 30))
    rows[1, 0, 12] = np.nan
    t2 = random.integers(10, 25, (4, 2)).astype(float)
    zero = np.zeros((4, 2))
    replicates = dict.fromkeys(CURVE, zero) | {"t1": t2, "t2": t2, "eta_tail": zero + 0.1}
    fit = {name: of_documents[0] for name, of_documents in replicates.items()}
    visible = LayerTokens(start=0, tokens=31, sink=True)
    both = np.ones(2, bool)
    growth = growth_of(rows, visible, fit, replicates, both, ~both)["growth"]
    by_document = np.empty((4, 2))
    for k, head in np.ndindex(4, 2):
        known = np.isfinite(rows[k, head])
        ramp = np.maximum(1.0 + np.arange(30) - t2[k, head], 0)[known]
        slope = np.polyfit(ramp, rows[k, head][known], 1)[0]
        by_document[k, head] = slope * (30 - t2[k, head])
    assert_allclose(growth.value, by_document.mean(axis=0))
    assert_allclose(growth.without.T, (by_document.sum(axis=0) - by_document) / 3)
    plain = jackknife(np.zeros(2), 0.1 * (30 - t2)).se
    assert_allclose(growth.se, np.maximum(plain, by_document.std(axis=0, ddof=1) / 2))


def test_total_model_log_is_the_log_of_total_model(fits):
    for part in ("", "_lower", "_upper"):
        assert_allclose(fits[f"total_model_log{part}"], np.log(fits[f"total_model{part}"]))
    assert_allclose(fits["total_model_log_se"], fits["total_model_se"] / fits["total_model"])


def test_growth_within_the_noise_has_no_estimate():
    flat = fit_weights(capture(Truth(eta=0.0, eta_tail=0.0), sizes=Sizes(heads=8), seed=2))
    absent = ~flat["growth_identified"].values
    assert absent.sum() >= 6
    assert np.isnan(flat["growth"].values[absent]).all()
    assert (flat["growth_reason"].values[absent] == Reason.PHASE_ABSENT).all()


def drawn(documents, heads, tokens, steps, level, noise, seed):
    """Return log weights of a constant profile with steps, by (document, head, token)."""
    random = np.random.default_rng(seed)
    rows = -5.0 + steps * random.choice([-1.0, 1.0], (heads, tokens))
    rows = rows + level * random.normal(size=(documents, heads, 1))
    return rows + noise * random.normal(size=(documents, heads, tokens))


def level_of(mean):
    """Return the exact fit of the level of a constant profile."""
    b = np.nanmean(mean, axis=-1)
    fit = dict.fromkeys(CURVE, np.full(b.shape, 0.5)) | {"b": b}
    return fit | dict.fromkeys(("t1", "t2"), np.full(b.shape, float(mean.shape[-1])))


def without_each(rows):
    """Return the levels of the leave-one-out means, (document, head)."""
    means = np.stack([np.delete(rows, k, axis=0).mean(axis=0) for k in range(len(rows))])
    return level_of(means)


def test_rmse_and_misfit_equal_their_definitions():
    rows = drawn(5, 3, 40, 0.3, 1.0, 0.5, 0)
    fit, replicates = level_of(rows.mean(axis=0)), without_each(rows)
    document_level = (rows - rows.mean(axis=0)).mean(axis=-1, keepdims=True)

    def expected(selected, fit):
        model = log_profile(1.0 + np.arange(40), *(fit[name][:, None] for name in CURVE))
        square = (rows[selected].mean(axis=0) - model) ** 2
        noise = (rows - document_level)[selected].var(axis=0, ddof=1) / len(selected)
        return np.sqrt(square.mean(axis=-1)), (square - noise).mean(axis=-1)

    rmse, square = expected(range(5), fit)
    others = [[k for k in range(5) if k != omitted] for omitted in range(5)]
    of_others = [
        expected(selected, {name: values[k] for name, values in replicates.items()})
        for k, selected in enumerate(others)
    ]
    rmse_without, square_without = (np.stack(values) for values in zip(*of_others, strict=True))
    visible = LayerTokens(start=0, tokens=41, sink=True)
    result = distance(rows, visible, fit, replicates)
    assert_allclose(result["rmse"].se, jackknife(rmse, rmse_without).se)
    assert_allclose(result["misfit"].value, np.sqrt(np.maximum(square, 0)))
    upper = jackknife(square, square_without).upper
    assert_allclose(result["misfit"].upper, np.sqrt(upper))
    rows[[0, 2], 1, 7] = np.nan  # a weight of 0 in two documents
    holes = distance(rows, visible, fit, replicates)["misfit"]
    assert_allclose(holes.value, result["misfit"].value, rtol=0.2)
    assert np.isfinite(holes.se).all()


@pytest.mark.parametrize("level", [0.0, 1.5])
def test_the_misfit_is_unbiased_and_ignores_levels_of_documents(level):
    rows = drawn(8, 400, 200, 0.4, level, 1.0, 3)
    visible = LayerTokens(start=0, tokens=201, sink=True)
    result = distance(rows, visible, level_of(rows.mean(axis=0)), without_each(rows))["misfit"]
    square = result.value**2
    assert square.mean() == pytest.approx(0.4**2 * (1 - 1 / 200), abs=4 * square.std() / 20)
    assert ((result.lower <= 0.4) & (result.upper >= 0.4)).mean() >= 0.93


def assert_few_false_answers(row: Row, heads: int) -> None:
    """Assert that at most one head in twenty gets a false answer, within simulation error."""
    largest = 0.05 + 3 * np.sqrt(0.05 * 0.95 / heads)
    holds_true = {
        "growth": row.planted >= row.tolerance,
        "shape_position": row.planted <= row.tolerance,
    }[row.claim]
    at_tolerance = abs(row.planted / row.tolerance - 1) < 0.03
    if not holds_true or at_tolerance:
        assert row.holds <= largest, row.line()
    if holds_true or at_tolerance:
        assert row.fails <= largest, row.line()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "share", "heads", "seed"),
    [(growth, 1.0, 100, 8), (growth, 2.5, 100, 8), (shape, 1.0, 60, 9), (shape, 1.5, 60, 9)],
)
def test_false_answers_are_rare_and_large_effects_are_found(claim, share, heads, seed):
    row = claim(share, 0.25, heads, 97, np.random.default_rng(seed))
    assert_few_false_answers(row, heads)
    assert share == 1.0 or (row.holds if claim is growth else row.fails) > 0.9


@pytest.mark.slow
def test_estimates_of_detected_small_oscillations_are_biased_upwards():
    """The reason why no claim is on the oscillation."""
    row = oscillation(0.8, 100, 97, np.random.default_rng(1))
    assert 0 < row.found < 0.2
    assert row.median > 1.2 * row.planted
    assert row.fails == 0
