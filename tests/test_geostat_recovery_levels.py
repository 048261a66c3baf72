"""The study of verdicts on norms and similarity: truths are where it says, and what counts as false."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from geostat.claims import CLAIMS
from geostat.norms import fit_layer
from geostat.recovery_levels import MISFITS, NORMS, LevelRow, answers, misfit, planted, similarity
from geostat.recovery_norms import draw
from geostat.recovery_verdicts import main
from geostat.similarity_pairs import pairs_by_lag

CV = next(claim for claim in CLAIMS if claim.key == "norms.cv")


@pytest.mark.parametrize("setting", NORMS, ids=lambda setting: setting.name)
def test_the_planted_effects_are_those_of_heads_without_noise(setting):
    quiet = replace(setting, document=0.0, slope=0.0, sink=0.0, token=0.0)
    found = fit_layer(draw(quiet, 4, 2, 65, np.random.default_rng(0)), first_content=1)
    truth = planted(setting, 65)
    assert found["cv_profile"] == pytest.approx(truth["cv_position"], rel=1e-3)
    assert found["trend"] == pytest.approx(truth["trend"], abs=1e-9)
    norms = draw(quiet, 4, 2, 65, np.random.default_rng(0))
    assert norms[..., 0] / norms[..., 1:].mean(axis=-1) == pytest.approx(truth["lam"])


def test_a_misfit_is_nothing_for_the_true_form_and_the_distance_of_another():
    form, setting = MISFITS[0]
    tokens, lag = 65, np.arange(1.0, 64)
    assert misfit(setting.form, replace(setting, tokens=tokens), lag, pairs_by_lag(lag, tokens - 1)) < 1e-3
    true = misfit(form, replace(setting, tokens=tokens), lag, pairs_by_lag(lag, tokens - 1))
    rows = [row for row in similarity(12, tokens, 0) if row.claim == f"similarity.{form}" and "offset=0.1" in row.kind]
    assert rows[0].truth == true > 0.02
    assert rows[0].mean == pytest.approx(true, rel=0.1)


def test_answers_of_a_normal_effect_are_false_as_often_as_they_may_be():
    random = np.random.default_rng(1)
    each = 0.2 + 0.02 * random.standard_normal((20_000, 8))
    rows = list(answers(CV, "normal", 0.2, each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(8)))
    at = next(row for row in rows if row.share == 1)
    assert (at.holds, at.fails) == pytest.approx((0.05, 0.05), abs=0.006)
    assert at.false == max(at.holds, at.fails)
    inside, outside = rows[0], rows[-1]
    assert inside.holds > 0.99 > 0.01 > inside.false
    assert outside.fails > 0.99 > 0.01 > outside.false


@pytest.mark.parametrize(("share", "false"), [(0.8, 0.2), (1.0, 0.3), (1.25, 0.3)])
def test_holding_is_false_outside_and_failing_inside(share, false):
    row = LevelRow(claim="c", kind="k", truth=1.0, share=share, mean=1.0, holds=0.3, fails=0.2)
    assert row.false == false


def test_the_command_prints_both_studies(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["study", "--claim", "norms", "similarity", "--heads", "6", "--tokens", "65"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 * (5 * len(NORMS) + len(MISFITS))
    assert lines[0].startswith("norms.cv ")
    assert lines[-1].startswith("similarity.offset ")
