import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from geostat.fits.similarity.forms import FORMS
from studies import similarity
from studies.similarity import (
    SETTINGS,
    PlantedSimilarity,
    draw,
    expected_cosine,
    expected_norm,
    recover,
    table,
)
from theory.audit.simulate import draw_directions
from theory.head.gram import is_feasible

OFFSET = PlantedSimilarity(form="offset", values={"beta": 0.3, "offset": 0.1}, rho0=0.15, tokens=65)


@pytest.fixture(scope="module")
def recovered():
    return recover(OFFSET, heads=200, seed=1)


def test_mean_cosine_of_gaussian_vectors_is_the_one_that_draws_have():
    random = np.random.default_rng(0)
    for rho, d in ((0.6, 8), (-0.3, 4)):
        x = random.normal(size=(200_000, d))
        y = rho * x + np.sqrt(1 - rho**2) * random.normal(size=x.shape)
        cosine = (x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
        assert expected_cosine(rho, d) == pytest.approx(
            cosine.mean(), abs=4 * cosine.std() / np.sqrt(len(x))
        )
        norm = np.linalg.norm(x, axis=1) / np.sqrt(d)
        assert expected_norm(d) == pytest.approx(norm.mean(), abs=4 * norm.std() / np.sqrt(len(x)))


@pytest.mark.parametrize("rho", [-0.7, 0.2, 0.9])
def test_mean_cosine_falls_short_by_the_known_bias(rho):
    d = 4000
    assert rho - expected_cosine(rho, d) == pytest.approx(rho * (1 - rho**2) / (2 * d), rel=0.01)
    assert expected_cosine(1.0, 64) == pytest.approx(1.0)


def test_draws_are_reduced_as_a_capture_reduces_them():
    drawn = draw(OFFSET, 3, 2, seed=4)
    gram = similarity.fitted_gram("offset", 65, 0.3, 0.1, 1.0, 0.15)
    values = np.concatenate(list(draw_directions(gram, 65, 64, 6, 4)), axis=1)[
        :, 4
    ]  # document 1, head 1
    values *= np.where(np.arange(65) == 0, 0.5, 2.0)[:, None]
    norm = np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(drawn.norm[1, 1], norm)
    cosine = values @ values.T / np.outer(norm, norm)
    np.testing.assert_allclose(drawn.sink[1, 1], cosine[0, 1:])
    for lag in (1, 10, 63):
        assert drawn.cosines.cosine[1, 1, lag - 1] == pytest.approx(
            np.diagonal(cosine[1:, 1:], lag).mean()
        )
    assert drawn.cosines.lag[-1] == 63
    assert drawn.cosines.pairs[-1] == 1


def test_nominal_intervals_cover_and_the_true_form_is_chosen(recovered):
    assert [row.parameter for row in recovered.coverage] == [
        "beta",
        "offset",
        "rho0",
        "sink_slope",
        "C",
        "lam",
    ]
    for row in recovered.coverage:
        assert binom.ppf(1e-4, 200, 0.95) <= row.covered <= binom.ppf(1 - 1e-4, 200, 0.95), (
            row.parameter
        )
        assert row.missing == 0
    assert recovered.chosen["offset"] >= binom.ppf(1e-3, 200, 0.9)
    assert sum(recovered.chosen.values()) == 200


def test_a_wrong_estimand_is_seen_to_be_missed(recovered):
    # The mean norm is 0.4% below the planted root mean square: the study must be able to tell.
    row = next(row for row in recovered.coverage if row.parameter == "C")
    assert row.covered_planted < row.covered


def test_settings_are_feasible_and_hold_every_form():
    assert {setting.form for setting in SETTINGS} == set(FORMS)
    for setting in SETTINGS:
        assert is_feasible(
            similarity.fitted_gram(
                setting.form,
                setting.tokens,
                rho0=setting.rho0,
                **(similarity.ABSENT | dict(setting.values)),
            ),
            setting.tokens,
        )
    with pytest.raises(ValueError, match="no vectors have these cosines"):
        draw(dataclasses.replace(OFFSET, rho0=0.9), 2, 2, 0)


def test_table_shouts_where_coverage_or_choice_fails(recovered):
    good = "\n".join(table(recovered))
    assert "OUTSIDE" not in good
    assert "BELOW" not in good
    low = dataclasses.replace(recovered.coverage[0], covered=150)
    bad = dataclasses.replace(
        recovered, coverage=(low, *recovered.coverage[1:]), chosen={"offset": 100, "power": 100}
    )
    text = "\n".join(table(bad))
    assert "150 of 200 ( 75.0 ± 3.1%) OUTSIDE 92-98%" in text
    assert "100 of 200 ( 50.0 ± 3.5%) BELOW 90%; else: power 100" in text


def test_the_command_runs_and_repeats(capsys, monkeypatch):
    monkeypatch.setattr(similarity, "SETTINGS", (dataclasses.replace(OFFSET, tokens=33),))
    printed = []
    for _ in range(2):
        similarity.main(["--heads", "20", "--documents", "4", "--seed", "3"])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "of 6 nominal 95% intervals" in printed[0]
