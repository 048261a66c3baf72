"""The study of verdicts on norms and similarity: truths are where it says, and what counts as
false.
"""

import sys
from dataclasses import replace

import numpy as np
import pytest

from geostat.fits.norms.fit import estimates
from geostat.fits.similarity.pairs import pairs_by_lag
from geostat.statistics.equivalence import HOLDS, PValues
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.verdicts.claims import CLAIMS
from studies.levels import (
    MISFITS,
    MODEL_HEADS,
    NORMS,
    REACHES,
    SLOPES,
    Kind,
    LevelRow,
    answers,
    calibration,
    in_models,
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
    assert (at.holds, at.fails) == pytest.approx((0.05, 0.05), abs=0.006)
    assert at.false == max(at.holds, at.fails)
    assert 0 < at.given_false < at.false
    skewed = list(answers(kind_of(document_mean(each.T))))
    both = next(row for row in skewed if row.share == 1)
    assert 0.02 < both.false < at.false == both.t_false
    inside, outside = rows[0], rows[-1]
    assert inside.holds > 0.99 > 0.01 > inside.false
    assert outside.fails > 0.99 > 0.01 > outside.false


@pytest.mark.parametrize(
    ("share", "false", "given"), [(0.8, 0.2, 0.1), (1.0, 0.3, 0.1), (1.25, 0.3, 0.05)]
)
def test_holding_is_false_outside_and_failing_inside(share, false, given):
    shares = {
        "holds": 0.3,
        "fails": 0.2,
        "given_holds": 0.05,
        "given_fails": 0.1,
        "t_holds": 0.4,
        "t_fails": 0.3,
    }
    row = LevelRow(claim="c", kind="k", truth=1.0, share=share, mean=1.0, **shares)
    assert (row.false, row.given_false, row.t_false) == (false, given, pytest.approx(false + 0.1))


def test_a_model_s_heads_are_judged_together():
    """Three models: of the first effect one head in 18 is sure and the others are at 0.04; of
    the second all are unsure but in model 0, where all are sure.
    """
    models, place = np.divmod(np.arange(3 * MODEL_HEADS), MODEL_HEADS)
    first, second = np.where(place == 0, 1e-4, 0.04), np.where(models == 0, 1e-4, 0.6)
    found = in_models([PValues(holds=p, fails=1 - p) for p in (first, second)])
    # The second effect stands one model on from the first: the model in which it is sure is the
    # second, and there the first's heads at 0.04 hold as well.
    assert [int((one == HOLDS).sum()) for one in found] == [1 + MODEL_HEADS + 1, MODEL_HEADS]
    assert (found[0].reshape(3, -1)[1] == HOLDS).all()
    assert (found[1].reshape(3, -1)[1] == HOLDS).all()


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


def skewed_kind(shape):
    each = np.random.default_rng(2).gamma(shape, size=(8, 20_000))
    return Kind(claim=CV, name="gamma", truth=shape, estimate=document_mean(each))


def test_the_reach_chosen_is_the_smallest_at_which_no_kind_is_false_too_often():
    mild, strong = skewed_kind(30.0), skewed_kind(3.0)
    *rows, last = calibration([mild, strong])
    for row, kind in zip(rows, (mild, strong), strict=True):
        assert row.holds[1] == (kind.tested(1.0, reach=REACHES[1]).holds <= 0.05).mean()
        assert list(row.holds) == sorted(row.holds, reverse=True)
        assert list(row.fails) == sorted(row.fails, reverse=True)
    assert last.worst == tuple(
        np.maximum(
            np.maximum(rows[0].holds, rows[0].fails), np.maximum(rows[1].holds, rows[1].fails)
        )
    )
    place = REACHES.index(last.reach)
    assert last.worst[place] <= 0.05 < last.worst[place - 1]
    assert next(iter(reversed(list(calibration([skewed_kind(0.2)]))))).reach is None


def test_the_command_calibrates(monkeypatch, capsys):
    monkeypatch.setattr(
        sys,
        "argv",
        ["study", "--claim", "similarity", "--calibrate", "--heads", "6", "--tokens", "65"],
    )
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(MISFITS) + 2 * len(SLOPES) + 2
    assert lines[-1].startswith("smallest reach with at most 5%: ")
    for claims in (["bounds"], ["norms", "weights"]):
        monkeypatch.setattr(sys, "argv", ["study", "--calibrate", "--claim", *claims])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
