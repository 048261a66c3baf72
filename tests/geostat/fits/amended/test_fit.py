"""Amended assumptions of heads drawn at known parameters."""

import lmfit
import numpy as np
import pytest
import xarray as xr

from geostat.datasets.variable import reasons
from geostat.fits.amended.fit import RECORDS, fit_amended, parameters
from geostat.fits.amended.forms import EFFECTS, fit, fit_coherence
from studies.by_rank import KINDS, TRUE, alike, by_rank
from studies.by_rank import drawn as drawn_of

HEADS, DOCUMENTS = 4, 8


@pytest.fixture(scope="module")
def ranks() -> xr.Dataset:
    """Heads drawn by rank. Read only."""
    return drawn(by_rank)


def drawn(values_of, documents: int = DOCUMENTS) -> xr.Dataset:
    return drawn_of(values_of, HEADS, documents, 2)


def test_parameters_of_rank_coherence_are_recovered(ranks):
    fitted = fit_amended(ranks)
    for name, truth in TRUE.items():
        inside = (fitted[f"{name}_lower"] <= truth) & (truth <= fitted[f"{name}_upper"])
        assert inside.sum() >= HEADS - 1, name
    assert fitted["class_share"].values.tolist() == [[1.0] * HEADS]
    assert fitted["first_share"].values.tolist() == [[1.0] * HEADS]


@pytest.mark.parametrize("kind", ["constant", "rank", "lag"])
def test_cosines_are_shown_to_depend_on_what_they_were_drawn_from(kind):
    shown = fit_amended(drawn(KINDS[kind]))["depends_on"].values.ravel().tolist()
    assert shown.count(EFFECTS.index(kind)) >= HEADS - 1
    assert shown.count(EFFECTS.index("rank_and_lag")) == 0


def test_parameters_of_the_others_do_not_read_a_document(ranks):
    for document in (0, 3):
        left = parameters(ranks.isel(document=np.arange(DOCUMENTS) != document))
        for name, of_every in parameters(ranks).items():
            np.testing.assert_allclose(of_every[1 + document], left[name][0], rtol=1e-9)


def test_the_law_of_rank_is_least_squares():
    octave = np.arange(9)
    truth = 0.3 + 0.4 * (1.5 * 2.0**octave) ** -0.8
    truth += 0.01 * np.random.default_rng(0).normal(size=9)
    members = [np.arange(2.0**o, 2.0 ** (o + 1)) for o in octave]

    def model(o, limit, falling, gamma):
        return np.array([limit + falling * (members[int(i)] ** -gamma).mean() for i in o])

    best = lmfit.Model(model).fit(truth, o=octave, limit=0.2, falling=0.5, gamma=1.0)
    for found in (
        fit("rank_law", truth[None], np.ones((1, 9)), octave, np.zeros(9, int)),
        fit_coherence(truth[None], np.ones((1, 9)), octave).cosine,
    ):
        assert ((found[0] - truth) ** 2).sum() <= 1.02 * best.chisqr


@pytest.mark.parametrize("level", [-0.4, 0.0, 1.5])
def test_coherence_stays_in_its_range(level):
    octave = np.arange(6)
    found = fit_coherence(np.full((1, 6), level), np.ones((1, 6)), octave)
    assert 0 <= found.limit[0] <= found.first[0] <= 1
    assert found.cosine[0] == pytest.approx(np.full(6, np.clip(level, 0, 1)), abs=1e-6)


def test_additive_effects_are_those_of_a_regression():
    draw = np.random.default_rng(1)
    ranks, lags = (octave.ravel() for octave in np.indices((4, 5)))
    cosine, weight = draw.normal(size=(2, 20)), draw.random((2, 20))
    weight[:, 3] = 0
    found = fit("rank_and_lag", cosine, weight, ranks, lags)
    design = np.concatenate([np.eye(4)[ranks], np.eye(5)[lags]], axis=1)
    for case in range(2):
        root = np.sqrt(weight[case])
        expected = design @ np.linalg.lstsq(design * root[:, None], cosine[case] * root)[0]
        np.testing.assert_allclose(found[case], expected, atol=1e-9)


def test_one_document_has_values_without_errors():
    fitted = fit_amended(drawn(by_rank, documents=1))
    assert fitted["coherence_limit"].notnull().all()
    assert fitted["coherence_limit_se"].isnull().all()
    assert fitted["loss_held_out"].isnull().all()
    flags = fitted["flags"].values.ravel()
    assert all(
        "one_document" in reasons(xr.DataArray(one, attrs=fitted["flags"].attrs)) for one in flags
    )


def test_every_variable_has_its_attributes():
    fitted = fit_amended(drawn(alike, documents=2))
    assert all(fitted[record.name].attrs["long_name"] for record in RECORDS)
