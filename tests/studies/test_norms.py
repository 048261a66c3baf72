import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from studies.norms import REQUIRED, SETTINGS, draw, main, study

HEADS = 200


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_intervals_cover_the_planted_values_and_estimates_are_unbiased(setting):
    fewest, most = binom.ppf(5e-4, HEADS, 0.93), binom.ppf(1 - 5e-4, HEADS, 0.97)
    for row in study(setting, HEADS, documents=8, length=200, seed=1):
        if not row.required:
            continue
        assert fewest <= row.covered * HEADS <= most, row
        error = 4 * row.spread / np.sqrt(HEADS) + 0.002 * abs(row.planted)
        assert abs(row.mean - row.planted) < error, row
        assert row.error == pytest.approx(row.spread, rel=0.25), row


def test_drawn_heads_have_the_planted_moments():
    setting = replace(SETTINGS[0], document=0.1, slope=0.0, memory=0.6)
    norms = draw(setting, 400, 8, 300, np.random.default_rng(0)) / setting.C
    content = norms[..., 1:]
    assert float(norms[..., 0].mean()) == pytest.approx(setting.lam, abs=4 * 0.13 / np.sqrt(3200))
    own = content - content.mean(axis=0)
    of_means = np.sqrt(7 / 8 * (0.1**2 + 0.21**2 * 4 / 299))
    assert float(own.mean(axis=-1).std()) == pytest.approx(of_means, rel=0.05)
    residual = own - own.mean(axis=-1, keepdims=True)
    memory = (residual[..., 1:] * residual[..., :-1]).mean() / (residual**2).mean()
    assert float(memory) == pytest.approx(0.6, abs=0.02)
    assert float(residual.std()) == pytest.approx(0.21 * np.sqrt(7 / 8), rel=0.02)


def test_one_command_prints_every_parameter_with_its_coverage(capsys):
    code = main(["--heads", "60", "--length", "64", "--seed", "3"])
    said = capsys.readouterr().out
    for name in REQUIRED:
        row = rf"^\w+ +{name} .* \d+\.\d% ± \d\.\d%   (?:ok|MISSED)$"
        assert len(re.findall(row, said, re.MULTILINE)) == len(SETTINGS)
    assert code == ("MISSED" in said)


@pytest.mark.parametrize("drawn", [0.2, 0.3])
def test_insufficient_coverage_is_reported_as_missed(capsys, monkeypatch, drawn):
    monkeypatch.setattr("studies.norms.SETTINGS", SETTINGS[:1])
    monkeypatch.setattr(
        "studies.norms.draw", lambda setting, *rest: draw(replace(setting, lam=drawn), *rest)
    )
    assert main(["--heads", "60", "--length", "64"]) == 1
    covered = re.search(r"lam .* (\d+\.\d)% ± .*MISSED", capsys.readouterr().out)
    assert covered
    assert float(covered[1]) < 50
