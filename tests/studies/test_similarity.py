import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

from geostat.fits.similarity.forms import FORMS
from studies import similarity
from theory.evaluate.simulate import draw_directions
from theory.head.gram import is_feasible

OFFSET = similarity.PlantedSimilarity(
    form="offset", values={"beta": 0.3, "offset": 0.1}, rho0=0.15, tokens=65
)


@pytest.fixture(scope="module")
def recovered():
    return similarity.recover(OFFSET, heads=200, seed=1)


def test_expected_cosine_of_gaussian_vectors_equals_simulation():
    random = np.random.default_rng(0)
    for rho, d in ((0.6, 8), (-0.3, 4)):
        x = random.normal(size=(200_000, d))
        y = rho * x + np.sqrt(1 - rho**2) * random.normal(size=x.shape)
        cosine = (x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
        norm = np.linalg.norm(x, axis=1) / np.sqrt(d)
        for expected, seen in (
            (similarity.expected_cosine(rho, d), cosine),
            (similarity.expected_norm(d), norm),
        ):
            assert expected == pytest.approx(seen.mean(), abs=4 * seen.std() / np.sqrt(len(x)))


def test_simulated_heads_are_reduced_like_a_capture():
    drawn = similarity.draw(OFFSET, 3, 2, seed=4)
    gram = similarity.fitted_gram("offset", 65, 0.3, 0.1, 1.0, 0.15)
    directions = np.concatenate(list(draw_directions(gram, 65, 64, 6, 4)), axis=1)
    values = directions[:, 4]  # document 1, head 1
    values *= np.where(np.arange(65) == 0, 0.5, 2.0)[:, None]
    norm = np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(drawn.norm[1, 1], norm)
    cosine = values @ values.T / np.outer(norm, norm)
    np.testing.assert_allclose(drawn.sink[1, 1], cosine[0, 1:])
    for lag in (1, 10, 63):
        mean = np.diagonal(cosine[1:, 1:], lag).mean()
        assert drawn.cosines.cosine[1, 1, lag - 1] == pytest.approx(mean)
    assert drawn.cosines.lag[-1] == 63
    assert drawn.cosines.pairs[-1] == 1


def test_intervals_cover_and_the_true_form_is_selected(recovered):
    names = [row.parameter for row in recovered.coverage]
    assert names == ["beta", "offset", "rho0", "sink_slope", "C", "lam"]
    fewest, most = binom.ppf([1e-4, 1 - 1e-4], 200, 0.95)
    for row in recovered.coverage:
        assert fewest <= row.covered <= most, row.parameter
        assert row.missing == 0
    assert recovered.chosen["offset"] >= binom.ppf(1e-3, 200, 0.9)
    assert sum(recovered.chosen.values()) == 200


def test_a_wrong_estimand_is_detected(recovered):
    # The mean norm is 0.4% below the planted root mean square: the study must be able to tell.
    row = next(row for row in recovered.coverage if row.parameter == "C")
    assert row.covered_planted < row.covered


def test_settings_are_feasible_and_include_every_form():
    assert {setting.form for setting in similarity.SETTINGS} == set(FORMS)
    for setting in similarity.SETTINGS:
        values = similarity.ABSENT | dict(setting.values)
        gram = similarity.fitted_gram(setting.form, setting.tokens, rho0=setting.rho0, **values)
        assert is_feasible(gram, setting.tokens)
    with pytest.raises(ValueError, match="the Gram matrix is not positive semidefinite"):
        similarity.draw(dataclasses.replace(OFFSET, rho0=0.9), 2, 2, 0)


def test_the_table_marks_failed_coverage_and_selection(recovered):
    good = "\n".join(similarity.table(recovered))
    assert "OUTSIDE" not in good
    assert "BELOW" not in good
    low = dataclasses.replace(recovered.coverage[0], covered=150)
    bad = dataclasses.replace(
        recovered, coverage=(low, *recovered.coverage[1:]), chosen={"offset": 100, "power": 100}
    )
    text = "\n".join(similarity.table(bad))
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
