"""The study of verdicts on norms and similarity: truths are where it says, and what counts as
false.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest

from geostat.fits.norms.fit import estimates
from geostat.fits.similarity.pairs import pairs_by_lag
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.verdicts.claims import CLAIMS
from studies.levels import (
    MISFITS,
    NORMS,
    SLOPES,
    Kind,
    LevelRow,
    answers,
    misfit,
    planted,
    similarity,
    slopes,
)
from studies.norms import draw
from studies.verdicts import main

CV = next(claim for claim in CLAIMS if claim.key == "norms.cv")


@pytest.mark.parametrize("setting", NORMS, ids=lambda setting: setting.name)
def test_the_planted_effects_are_those_of_heads_without_noise(setting):
    quiet = replace(setting, document=0.0, slope=0.0, sink=0.0, token=0.0)
    found = estimates(draw(quiet, 4, 2, 65, np.random.default_rng(0)), first_content=1)
    truth = planted(setting, 65)
    assert found["cv_profile"].value == pytest.approx(truth["cv_position"], rel=1e-3)
    assert found["trend"].value == pytest.approx(truth["trend"], abs=1e-9)
    norms = draw(quiet, 4, 2, 65, np.random.default_rng(0))
    assert norms[..., 0] / norms[..., 1:].mean(axis=-1) == pytest.approx(truth["lam"])


def test_a_misfit_is_nothing_for_the_true_form_and_the_distance_of_another():
    form, setting = MISFITS[0]
    tokens, lag = 65, np.arange(1.0, 64)
    assert (
        misfit(setting.form, replace(setting, tokens=tokens), lag, pairs_by_lag(lag, tokens - 1))
        < 1e-3
    )
    true = misfit(form, replace(setting, tokens=tokens), lag, pairs_by_lag(lag, tokens - 1))
    kind = next(
        kind
        for kind in similarity(12, tokens, 0)
        if kind.claim.key == f"similarity.{form}" and "offset=0.1" in kind.name
    )
    assert kind.truth == true > 0.02
    assert kind.estimate.value.mean() == pytest.approx(true, rel=0.1)


def kind_of(estimate):
    return Kind(claim=CV, name="normal", truth=0.2, estimate=estimate)


def test_answers_of_a_normal_effect_are_false_as_often_as_they_may_be():
    random = np.random.default_rng(1)
    each = 0.2 + 0.02 * random.standard_normal((20_000, 8))
    se = each.std(axis=1, ddof=1) / np.sqrt(8)
    rows = list(answers(kind_of(Estimate(value=each.mean(axis=1), se=se, lower=se, upper=se))))
    at = next(row for row in rows if row.share == 1)
    assert (at.holds, at.fails) == pytest.approx((0.025, 0.025), abs=0.0045)
    assert at.false == max(at.holds, at.fails)
    assert (at.t_holds, at.t_fails) == (at.holds, at.fails)  # no skewness, nothing moderated
    moderated = list(answers(kind_of(document_mean(each.T))))
    both = next(row for row in moderated if row.share == 1)
    assert (both.holds, both.fails) == pytest.approx((0.025, 0.025), abs=0.0045)
    assert both.t_false == at.t_false
    inside, outside = rows[0], rows[-1]
    assert inside.holds > 0.99 > 0.01 > inside.false
    assert outside.fails > 0.99 > 0.01 > outside.false


@pytest.mark.parametrize(("share", "false"), [(0.8, 0.2), (1.0, 0.3), (1.25, 0.3)])
def test_holding_is_false_outside_and_failing_inside(share, false):
    shares = {"holds": 0.3, "fails": 0.2, "t_holds": 0.4, "t_fails": 0.3}
    row = LevelRow(claim="c", kind="k", truth=1.0, share=share, mean=1.0, **shares)
    assert (row.false, row.t_false) == (false, pytest.approx(false + 0.1))


@pytest.mark.parametrize("setting", SLOPES, ids=lambda setting: setting.name)
def test_slopes_are_planted_where_the_study_says(setting):
    kinds = [kind for kind in slopes(200, 65, 1) if kind.name == setting.name]
    assert {kind.claim.key for kind in kinds} == {"similarity.stationary", "similarity.sink"}
    for kind in kinds:
        assert kind.truth == setting.slope
        assert kind.estimate.value.mean() == pytest.approx(
            setting.slope, abs=4 * np.hypot(setting.own, 0.06) / np.sqrt(8 * 200)
        )
    assert setting.draw(20_000, np.random.default_rng(0)).std() == pytest.approx(
        setting.own, rel=0.02
    )


def test_the_command_prints_both_studies(monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["study", "--claim", "norms", "similarity", "--heads", "6", "--tokens", "65"]
    )
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 * (5 * len(NORMS) + len(MISFITS) + 2 * len(SLOPES))
    assert lines[0].startswith("norms.cv ")
    assert lines[-1].startswith("similarity.offset ")
