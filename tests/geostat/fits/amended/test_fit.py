"""Amended assumptions of heads drawn at known parameters."""

import lmfit
import numpy as np
import pytest
import xarray as xr

from empirical.capture.observers import Ranks
from empirical.measure.queries import Row
from empirical.measure.ranks import measure_layer
from empirical.schema import RANKS
from geostat.fits.amended.fit import RECORDS, fit_amended
from geostat.fits.amended.forms import FORMS, fit

TOKENS, DIMENSION, DOCUMENTS, HEADS = 512, 48, 6, 4
LIMIT, FIRST, GAMMA, LAMBDA, RHO = 0.2, 0.7, 0.6, 0.1, -0.3
OCTAVES = TOKENS.bit_length()


def weights(draw: np.random.Generator) -> np.ndarray:
    """Lognormal weights with a sink at position 0."""
    alpha = np.exp(2 * draw.normal(size=TOKENS))
    alpha[0] = alpha.sum()
    return alpha / alpha.sum()


def by_rank(alpha: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Values whose cosine is c(max(r, r')), by a sum of one vector for each octave and below."""
    unit = draw.normal(size=(OCTAVES + 1, DIMENSION)) / np.sqrt(DIMENSION)
    rank = np.empty(TOKENS, int)
    rank[np.argsort(-alpha)] = np.arange(TOKENS)  # the sink has rank 0
    octave = np.log2(np.maximum(rank, 1)).astype(int)
    coherence = LIMIT + (FIRST - LIMIT) * (1.45 * 2.0 ** np.arange(OCTAVES)) ** -GAMMA
    coherence[0] = FIRST
    steps = np.sqrt(np.append(-np.diff(coherence), coherence[-1]))
    shared = (steps[:, None] * unit[:-1])[::-1].cumsum(axis=0)[::-1]
    noise = draw.normal(size=(TOKENS, DIMENSION)) / np.sqrt(DIMENSION)
    values = shared[octave] + np.sqrt(1 - coherence[octave])[:, None] * noise
    mean = shared[-1] / np.linalg.norm(shared[-1])
    values[0] = LAMBDA * (RHO / np.sqrt(LIMIT) * mean + np.sqrt(1 - RHO**2 / LIMIT) * unit[-1])
    return 5 * values


def by_lag(alpha: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Values whose cosine is LIMIT + (1 − LIMIT)e^(−0.05k), whatever the weights."""
    noise = draw.normal(size=(TOKENS, DIMENSION)) / np.sqrt(DIMENSION)
    for token in range(1, TOKENS):
        noise[token] = np.exp(-0.05) * noise[token - 1] + np.sqrt(1 - np.exp(-0.1)) * noise[token]
    mean = draw.normal(size=DIMENSION) / np.sqrt(DIMENSION)
    return np.sqrt(LIMIT) * mean + np.sqrt(1 - LIMIT) * noise


def alike(alpha: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Values of one mean cosine."""
    mean, *noise = draw.normal(size=(TOKENS + 1, DIMENSION)) / np.sqrt(DIMENSION)
    return np.sqrt(LIMIT) * mean + np.sqrt(1 - LIMIT) * np.array(noise)


def drawn(values_of, documents: int = DOCUMENTS) -> xr.Dataset:
    """/ranks of one layer of heads with own values."""
    draw, measured = np.random.default_rng(2), []
    for _ in range(documents):
        alpha = np.stack([weights(draw) for _ in range(HEADS)])
        values = np.stack([values_of(row, draw) for row in alpha])
        rows = [Row(position=TOKENS - 1, first=0, alpha=alpha)]
        measured.append(measure_layer(rows, values))
    return xr.Dataset(
        {
            name: (
                ("document", *RANKS[name].dims),
                np.stack([document[name][None] for document in measured]),
            )
            for name in measured[0]
        }
    )


def test_parameters_of_rank_coherence_are_recovered():
    fitted = fit_amended(drawn(by_rank))
    chosen = fitted["cosine_chosen"].values.ravel().tolist()
    assert chosen.count(FORMS.index("rank")) >= HEADS - 1
    assert (fitted["rank_over_lag_p"] < 0.05).all()
    expected = {
        "coherence_limit": LIMIT,
        "dimension": DIMENSION,
        "norm_slope": 0.0,
        "class_cosine": RHO,
        "class_norm_ratio": LAMBDA,
    }
    for name, truth in expected.items():
        inside = (fitted[f"{name}_lower"] <= truth) & (truth <= fitted[f"{name}_upper"])
        assert inside.sum() >= HEADS - 1, name
    assert fitted["class_share"].values.tolist() == [[1.0] * HEADS]
    assert fitted["first_share"].values.tolist() == [[1.0] * HEADS]


@pytest.mark.parametrize(("values_of", "form"), [(by_lag, "offset"), (alike, "constant")])
def test_the_form_that_the_values_were_drawn_from_is_chosen(values_of, form):
    fitted = fit_amended(drawn(values_of))
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
    assert Ranks.group == "ranks"
