"""Studies under a user's Gram, phases in shares of L, and the limit of memory."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.heads import phases
from support.model_g import assert_same, gram_of

from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.gram import LagGram, offset_exponential, smallest_eigenvalue
from theory.head.projection import nearest_correlation
from theory.what_if import grid
from theory.what_if.crossing import find_crossing
from theory.what_if.given_gram import Measured, measured_gram
from theory.what_if.parameters import BOUNDS, LOWER
from theory.what_if.study import Question, study

TOKENS = 25
AXES = {"N": [2, 5, 25], "d": [16, 64], "kappa": [0.1, 0.5], "p_sink": [0.05, 0.4]}
FIXED = {"lam": 0.3, "eta": 0.1, "omega": 0.7, "T1": 6, "T2": 18}


def random_gram():
    return gram_of(np.random.default_rng(0).normal(size=(TOKENS, 40)) + 0.3)


def under(gram, edition="sharp", bounds=BOUNDS, **options):
    """The question under a given Gram."""
    measured = gram if isinstance(gram, Measured) else measured_gram(gram, **options)
    return Question(edition=edition, decay="measured", measured=measured, bounds=bounds)


@pytest.mark.parametrize("edition", ["printed", "sharp", "conditional"])
def test_every_point_equals_the_evaluation_of_one_head_at_that_gram(edition):
    gram = random_gram()
    printed = edition == "printed"
    axes = {name: values for name, values in AXES.items() if name != "kappa" or printed}
    found = study(axes, FIXED, under(gram, edition))
    norms = np.ones(TOKENS)
    norms[0] = 0.3
    assert found.full("feasible").all()
    for place in np.ndindex(*found.shape):
        at = {name: values[k] for (name, values), k in zip(axes.items(), place, strict=True)}
        alpha = phases(6, 12, 6, p_sink=at["p_sink"], eta=0.1, omega=0.7).weights()
        choices = {"edition": edition, "kappa": at.get("kappa")}
        alone = envelope(alpha, norms, gram, at["d"], [at["N"]], **choices)
        here = SimpleNamespace(**{name: found.full(name)[place] for name in BOUNDS})
        assert_same(here, alone, BOUNDS, rtol=1e-9, atol=2e-8)
    lower = study(axes, FIXED, under(gram, edition, bounds=LOWER))
    for name in LOWER:
        np.testing.assert_array_equal(lower.full(name), found.full(name))
    assert found.fixed["L"] == 24
    assert not {"beta", "rho0", "c", "stretch"} & set(found.fixed)


def test_a_lag_profile_with_the_cosines_of_a_form_is_that_form():
    form = offset_exponential(0.4, 0.2, 0.1, TOKENS)
    fixed = FIXED | {"N": 4}
    question = Question(edition="sharp", decay="offset", bounds=BOUNDS)
    expected = study({}, fixed | {"L": 24, "beta": 0.4, "c": 0.2, "rho0": 0.1}, question)
    for gram in (
        measured_gram(form.by_lag[:24], rho0=0.1),
        measured_gram(LagGram(form.by_lag[:24], 0.1)),
        measured_gram(form.matrix(TOKENS)),
    ):
        found = study({}, fixed, under(gram))
        for name in BOUNDS:
            close = {"rtol": 1e-12, "atol": 1e-14}
            np.testing.assert_allclose(found.full(name), expected.full(name), **close)
    assert study({}, fixed, under(form.by_lag[:24], rho0=0.1)).fixed["rho0"] == 0.1


def test_an_impossible_gram_is_refused_or_projected_and_its_distance_kept():
    gram = random_gram()
    gram[3, 4] = gram[4, 3] = -0.95
    message = r"gram: its smallest eigenvalue is -0\.\d+, expected none below 0.*Use --project"
    with pytest.raises(InputError, match=message):
        measured_gram(gram)
    moved = measured_gram(gram, projected=True)
    np.testing.assert_allclose(moved.gram, nearest_correlation(gram), atol=1e-9)
    assert moved.kind == "nearest"
    assert moved.distance == pytest.approx(np.linalg.norm(moved.gram - gram), rel=1e-12)
    assert smallest_eigenvalue(moved.gram, TOKENS) > -1e-9
    found = study({"N": [2, 3]}, FIXED, replace(under(moved), project=True))
    assert found.full("projected").all()
    np.testing.assert_array_equal(found.full("projection_distance"), moved.distance)
    assert np.isfinite(found.full("recall_upper")).all()
    kept = measured_gram(random_gram(), projected=True)
    assert (kept.kind, kept.distance) == ("none", 0.0)
    np.testing.assert_allclose(kept.gram, random_gram(), atol=1e-15)


def test_only_the_sink_of_a_lag_profile_is_projected_if_that_suffices():
    edge = offset_exponential(0.4, 0.0, 0.0, TOKENS).edge(24)
    moved = measured_gram(np.exp(-0.4 * np.arange(24)), rho0=0.9, projected=True)
    assert moved.kind == "sink"
    assert moved.distance == pytest.approx(0.9 - edge, rel=1e-9)


def test_rounding_is_no_asymmetry():
    gram = random_gram().astype(np.float32)
    gram[1, 2] += 1e-6
    settled = np.asarray(measured_gram(gram).gram)
    np.testing.assert_array_equal(settled, settled.T)
    np.testing.assert_array_equal(np.diagonal(settled), 1)


def test_the_length_of_a_search_is_the_grams():
    found = find_crossing("N", 0.01, FIXED, under(random_gram(), bounds=("precision_lower",)))
    assert found.searched == (1, 24)


def upper_precision(axes, **fixed):
    """A study of one bound, and the bound."""
    shape = {"N": 5, "eta": 0.05, "omega": 0.7, "rho0": 0.0, "p_sink": 0.02}
    question = Question(edition="sharp", bounds=("precision_upper",))
    found = study(axes, shape | fixed, question)
    return found, found.full("precision_upper")


def test_phases_keep_their_proportion_when_the_length_varies():
    lengths = {"L": [20, 50, 90]}
    found, bound = upper_precision(lengths, T1="0.3L", T2="0.8L")
    assert (found.fixed["T1"], found.fixed["T2"]) == ("0.3L", "0.8L")
    for k, length in enumerate(lengths["L"]):
        ends = {"T1": round(0.3 * length), "T2": round(0.8 * length)}
        assert bound[k] == upper_precision({}, L=length, **ends)[1]
    _, still = upper_precision(lengths, T1=6, T2=16)
    assert still[0] == bound[0]
    assert abs(still[2] - bound[2]) > 1e-3
    _, plain = upper_precision(lengths)
    np.testing.assert_array_equal(plain, upper_precision(lengths, T1="0.5L", T2="0.9L")[1])


def test_shares_of_the_length_can_vary_themselves():
    found, bound = upper_precision({"L": [20, 50], "T1": ["0.1L", "0.5L"]})
    assert found.shares == {"T1", "T2"}
    np.testing.assert_array_equal(found.axes["T1"], [0.1, 0.5])
    for i, length in enumerate((20, 50)):
        for j, share in enumerate((0.1, 0.5)):
            ends = {"T1": round(share * length), "T2": round(0.9 * length)}
            assert bound[i, j] == upper_precision({}, L=length, **ends)[1]


def test_memory_counts_profiles_and_what_is_held_while_they_are_evaluated(monkeypatch):
    monkeypatch.setattr(grid, "free_memory", lambda: 10e6)
    question = Question(bounds=("recall_lower",))
    study({"beta": np.geomspace(0.1, 1, 20_000)}, {"L": 64}, question)
    message = r"points need .* GiB, expected at most 0.0 GiB. Use fewer values"
    for axes in ({"beta": np.geomspace(0.1, 1, 300_000)}, {"eta": np.linspace(0, 0.01, 6_000)}):
        with pytest.raises(InputError, match=message):
            study(axes, {"L": 64}, question)


N_AND_TWO_MORE = [
    {"rho0": np.linspace(-0.9, 0.9, 60), "N": range(1, 61), "beta": np.geomspace(0.01, 0.5, 60)},
    {"eta": np.linspace(0, 0.05, 40), "p_sink": np.linspace(0, 0.9, 40), "N": range(1, 33)},
]


@pytest.mark.parametrize("axes", N_AND_TWO_MORE, ids=["similarity", "profiles"])
def test_what_is_held_is_no_more_than_was_counted(axes, monkeypatch):
    counted = []
    monkeypatch.setattr(grid, "refuse_beyond_memory", lambda needed, what: counted.append(needed))
    tracemalloc.start()
    study(axes, {"L": 64}, Question())
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < counted[0] / grid.MEMORY_SHARE
