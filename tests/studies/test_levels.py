"""Study of verdicts on norms and similarity: planted effects, and what a false answer is."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from geostat.fits.norms.fit import estimates
from geostat.fits.similarity.pairs import pairs_by_lag
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.topics.claims import CLAIMS
from studies import levels
from studies.norms import draw
from studies.verdicts import main

CV = next(claim for claim in CLAIMS if claim.key == "norms.cv")


@pytest.mark.parametrize("setting", levels.NORMS, ids=lambda setting: setting.name)
def test_planted_effects_equal_those_of_heads_without_noise(setting):
    quiet = replace(setting, document=0.0, slope=0.0, sink=0.0, token=0.0)
    found = estimates(draw(quiet, 4, 2, 65, np.random.default_rng(0)), first_content=1)
    truth = levels.planted(setting, 65)
    assert found["cv_profile"].value == pytest.approx(truth["cv_position"], rel=1e-3)
    assert found["trend"].value == pytest.approx(truth["trend"], abs=1e-9)
    norms = draw(quiet, 4, 2, 65, np.random.default_rng(0))
    assert norms[..., 0] / norms[..., 1:].mean(axis=-1) == pytest.approx(truth["lam"])


def test_the_misfit_is_zero_for_the_true_form_and_positive_for_another():
    form, setting = levels.MISFITS[0]
    lag = np.arange(1.0, 64)
    none, true = (
        levels.misfit(fitted, replace(setting, tokens=65), lag, pairs_by_lag(lag, 64))
        for fitted in (setting.form, form)
    )
    assert none < 1e-3
    kinds = [
        kind for kind in levels.similarity(12, 65, 0) if kind.claim.key == f"similarity.{form}"
    ]
    kind = next(kind for kind in kinds if "offset=0.1" in kind.name)
    assert kind.truth == true > 0.02
    assert kind.estimate.value.mean() == pytest.approx(true, rel=0.1)


def answers_of(estimate):
    return list(levels.answers(levels.Kind(claim=CV, name="normal", truth=0.2, estimate=estimate)))


def test_false_answers_on_a_normal_effect_have_the_nominal_rate():
    random = np.random.default_rng(1)
    each = 0.2 + 0.02 * random.standard_normal((20_000, 8))
    se = each.std(axis=1, ddof=1) / np.sqrt(8)
    rows = answers_of(Estimate(value=each.mean(axis=1), se=se, lower=se, upper=se))
    at = next(row for row in rows if row.share == 1)
    assert (at.holds, at.fails) == pytest.approx((0.025, 0.025), abs=0.0045)
    assert at.false == max(at.holds, at.fails)
    assert (at.t_holds, at.t_fails) == (at.holds, at.fails)  # no skewness, nothing moderated
    both = next(row for row in answers_of(document_mean(each.T)) if row.share == 1)
    assert (both.holds, both.fails) == pytest.approx((0.025, 0.025), abs=0.0045)
    assert both.t_false == at.t_false
    inside, outside = rows[0], rows[-1]
    assert inside.holds > 0.99 > 0.01 > inside.false
    assert outside.fails > 0.99 > 0.01 > outside.false


@pytest.mark.parametrize(("share", "false"), [(0.8, 0.2), (1.0, 0.3), (1.25, 0.3)])
def test_holding_is_false_outside_and_failing_inside(share, false):
    shares = {"holds": 0.3, "fails": 0.2, "t_holds": 0.4, "t_fails": 0.3}
    row = levels.LevelRow(claim="c", kind="k", truth=1.0, share=share, mean=1.0, **shares)
    assert (row.false, row.t_false) == (false, pytest.approx(false + 0.1))


@pytest.mark.parametrize("setting", levels.SLOPES, ids=lambda setting: setting.name)
def test_slopes_have_the_planted_mean_and_spread(setting):
    kinds = [kind for kind in levels.slopes(200, 65, 1) if kind.name == setting.name]
    assert {kind.claim.key for kind in kinds} == {"similarity.stationary", "similarity.sink"}
    for kind in kinds:
        assert kind.truth == setting.slope
        error = np.hypot(setting.spread, 0.06) / np.sqrt(8 * 200)
        assert kind.estimate.value.mean() == pytest.approx(setting.slope, abs=4 * error)
    spread = setting.draw(20_000, np.random.default_rng(0)).std()
    assert spread == pytest.approx(setting.spread, rel=0.02)


def test_the_command_prints_both_studies(monkeypatch, capsys):
    words = "study --claim norms similarity --heads 6 --tokens 65"
    monkeypatch.setattr(sys, "argv", words.split())
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 * (5 * len(levels.NORMS) + len(levels.MISFITS) + 2 * len(levels.SLOPES))
    assert lines[0].startswith("norms.cv ")
    assert lines[-1].startswith("similarity.offset ")
