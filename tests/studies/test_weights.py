import numpy as np
import pytest

from geostat.fits.weights.autocorrelation import lag_one
from geostat.fits.weights.forms import log_profile
from geostat.fits.weights.surrogates import statistics, surrogates
from studies import weights


def test_noise_has_the_stated_moments():
    setting = weights.PlantedWeights(tokens=1025, oscillation="absent", growth="absent")
    random = np.random.default_rng(1)
    truth = weights.plant(setting, 20, random)
    data = weights.draw(truth, 1025, random)["attention_weight"].values[:, 0]
    logs = np.log(data[..., 1:]) - truth["b"][0]
    about = logs - logs.mean(axis=-1, keepdims=True)
    assert about.std() == pytest.approx(2.4, rel=0.02)
    assert lag_one(about.reshape(160, -1)).mean() == pytest.approx(0.55, abs=0.01)
    mean = logs.mean(axis=0)
    spread = (mean - mean.mean(axis=-1, keepdims=True)).std()
    assert spread == pytest.approx(2.4 / np.sqrt(8), rel=0.05)
    assert logs.mean(axis=-1).std() == pytest.approx(1.3, rel=0.15)
    assert data[..., 0].mean() == pytest.approx(truth["p_sink"][0], rel=0.15)
    assert weights.mean_noise().variance[0] / (1 - 0.55**2) == pytest.approx(2.4**2 / 8)


@pytest.mark.slow
def test_most_effects_at_the_detection_limit_are_detected():
    oscillation, growth = weights.limits(257)
    assert 0.3 < oscillation < 0.6
    assert 0.7 < growth < 1.6
    random = np.random.default_rng(2)
    noise = random.normal(0, 2.4 * np.sqrt((1 - 0.55**2) / 8), (400, 256))
    noise[:, 0] /= np.sqrt(1 - 0.55**2)
    for i in range(1, 256):
        noise[:, i] += 0.55 * noise[:, i - 1]
    rows = noise + log_profile(np.arange(1.0, 257), 0.0, oscillation, 0.0, 1.0, 38, 197)
    one, names = weights.mean_noise(), ("phi", "theta", "variance")
    wide = type(one)(**{name: np.repeat(getattr(one, name), 400) for name in names})
    found = statistics(rows - rows.mean(axis=1, keepdims=True), rows, wide, 1)["oscillation"]
    assert 0.5 <= (found > np.quantile(surrogates(256, 1)["oscillation"], 0.95)).mean() <= 0.9


@pytest.mark.parametrize("oscillation", ["absent", "strong"])
def test_a_small_study_recovers_the_planted_values(oscillation):
    setting = weights.PlantedWeights(tokens=257, oscillation=oscillation, growth="strong")
    tally = weights.recover(setting, 8, seed=3)
    assert tally.counts["95% interval of p_base covers"][1] == 8
    for question, least in (
        ("95% interval of p_base covers", 0.7),
        ("95% interval of eta_tail covers", 0.7),
        ("t2 within 2%", 0.8),
        ("flag of the oscillation right", 0.8),
        ("flag of growth right", 0.8),
    ):
        successes, trials = tally.counts[question]
        assert successes >= least * trials > 0, question


def test_the_table_has_counts_targets_and_misses():
    tally = weights.Tally()
    tally.add("95% interval of p_base covers", np.arange(1000) < 950)
    tally.add("t2 within 2%", np.arange(1000) < 900)
    tally.add("t1 within 2%", np.arange(100) < 88)
    setting = next(iter(weights.settings([257])))
    met, missed, almost = weights.lines(setting, tally)
    assert met.endswith("met")
    assert "0.950 ± 0.007    950 of  1000" in met
    assert missed.endswith("NOT MET")
    assert almost.endswith("almost")
    assert len(list(weights.settings([257, 1025]))) == 20


def test_one_setting_can_be_selected(capsys, monkeypatch):
    words = "weights --heads 2 --tokens 65 --only strong/absent printed/printed"
    monkeypatch.setattr("sys.argv", words.split())
    weights.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert {tuple(row[1:3]) for row in rows} == {("strong", "absent"), ("printed", "printed")}


def test_an_unknown_setting_is_refused(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["weights", "--only", "wild/absent"])
    with pytest.raises(SystemExit) as stop:
        weights.main()
    assert stop.value.code == 2
    assert "strong/absent" in capsys.readouterr().err
