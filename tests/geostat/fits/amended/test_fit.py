"""Amended assumptions of heads drawn at known parameters."""

import lmfit
import numpy as np
import pytest
import xarray as xr

from geostat.fits.amended.fit import RECORDS, fit_amended
from geostat.fits.amended.forms import FORMS, fit
from studies.by_rank import KINDS, TRUE, alike, by_rank
from studies.by_rank import drawn as drawn_of

HEADS, DOCUMENTS = 4, 6


def drawn(values_of, documents: int = DOCUMENTS) -> xr.Dataset:
    return drawn_of(values_of, HEADS, documents, 2)


def test_parameters_of_rank_coherence_are_recovered():
    fitted = fit_amended(drawn(by_rank))
    chosen = fitted["cosine_chosen"].values.ravel().tolist()
    assert chosen.count(FORMS.index("rank")) >= HEADS - 1
    assert (fitted["rank_over_lag_p"] < 0.05).all()
    for name, truth in TRUE.items():
        inside = (fitted[f"{name}_lower"] <= truth) & (truth <= fitted[f"{name}_upper"])
        assert inside.sum() >= HEADS - 1, name
    assert fitted["class_share"].values.tolist() == [[1.0] * HEADS]
    assert fitted["first_share"].values.tolist() == [[1.0] * HEADS]


@pytest.mark.parametrize("form", ["offset", "constant"])
def test_the_form_that_the_values_were_drawn_from_is_chosen(form):
    fitted = fit_amended(drawn(KINDS[form]))
    chosen = fitted["cosine_chosen"].values.ravel().tolist()
    assert chosen.count(FORMS.index(form)) >= HEADS - 1
    assert (fitted["rank_over_lag_p"] < 0.05).sum() <= 1


def test_the_fit_on_the_grid_is_least_squares():
    octave, one = np.arange(9), np.zeros(9, int)
    truth = 0.3 + 0.4 * (1.5 * 2.0**octave) ** -0.8
    truth += 0.01 * np.random.default_rng(0).normal(size=9)
    found = fit("rank", truth[None], np.ones((1, 9)), octave, one).at(octave, one)[0]
    members = [np.arange(2.0**o, 2.0 ** (o + 1)) for o in octave]

    def model(o, limit, rank, gamma):
        return np.array([limit + rank * (members[int(i)] ** -gamma).mean() for i in o])

    best = lmfit.Model(model).fit(truth, o=octave, limit=0.2, rank=0.5, gamma=1.0)
    assert ((found - truth) ** 2).sum() <= 1.02 * best.chisqr


def test_one_document_has_values_without_errors():
    fitted = fit_amended(drawn(by_rank, documents=1))
    assert fitted["coherence_limit"].notnull().all()
    assert fitted["coherence_limit_se"].isnull().all()
    assert fitted["loss_held_out"].isnull().all()
    assert (fitted["flags"] & 2 > 0).all()


def test_every_variable_has_its_attributes():
    fitted = fit_amended(drawn(alike, documents=2))
    assert all(fitted[record.name].attrs["long_name"] for record in RECORDS)
