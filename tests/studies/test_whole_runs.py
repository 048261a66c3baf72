"""Study of whole runs: simulated models have the planted parameters, and rows count the results."""

import numpy as np
import pytest
import xarray as xr

from studies import whole_runs
from studies.whole_runs import DECAY, MODELS, SINK_NORM, RunResult, drawn, lines

PLANTED = {model.name: model for model in MODELS}


def captured(name: str, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    monkeypatch.setattr(whole_runs, "LAYERS", 1)
    return drawn(PLANTED[name], np.random.default_rng(0))["capture"].to_dataset()


def test_a_model_as_assumed_has_the_norms_cosines_and_weights_of_the_assumptions(monkeypatch):
    run = captured("as-assumed", monkeypatch)
    norm = run["value_norm"].isel(layer=0)
    assert norm.isel(position=0).values == pytest.approx(SINK_NORM, rel=1e-5)
    content = norm.isel(position=slice(1, None))
    assert float(content.std() / content.mean()) == pytest.approx(0.02, rel=0.05)
    cosine = run["cosine_mean"].mean(("document", "layer", "kv_head"))
    error = run["cosine_mean"].std(("document", "layer", "kv_head")) / np.sqrt(8 * 3)
    expected = np.exp(-DECAY * run["lag"])
    near = run["lag"] <= 100  # farther apart a mean is of few pairs
    # cosines of Gaussian vectors are biased by −ρ(1 − ρ²)/(2d), below 0.004
    assert bool((abs(cosine - expected) < 4 * error + 0.004)[near].all())
    assert run["attention_weight"].sum("position").values == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("norms-vary", lambda run: run["value_norm"].isel(position=slice(1, None)).std() > 0.3),
        ("decay-to-constant", lambda run: run["cosine_mean"].sel(lag=slice(50, 100)).mean() > 0.25),
        (
            "weights-hump",
            lambda run: (
                run["attention_weight"].sel(position=slice(90, 160)).mean()
                > 5 * run["attention_weight"].sel(position=slice(5, 75)).mean()
            ),
        ),
    ],
)
def test_each_other_model_violates_one_assumption(name, differs, monkeypatch):
    assert bool(differs(captured(name, monkeypatch)))
    monkeypatch.undo()
    assert not bool(differs(captured("as-assumed", monkeypatch)))


def test_rows_count_the_results_of_runs():
    named = {"recall": "weights", "precision": "none"}
    answers = dict.fromkeys(whole_runs.KEYS, "holds")
    runs = [
        RunResult(answers | {"bounds": word}, gap, named)
        for word, gap in (("holds", 0.1), ("fails", 0.3))
    ]
    rows = list(lines(PLANTED["as-assumed"], runs))
    assert any(line.split()[1:] == ["bounds", "holds", "1,", "fails", "1"] for line in rows)
    assert any("gap         0.200 ± 0.100" in line for line in rows)
    assert any(line.split()[1:] == ["costs", "recall", "weights", "2"] for line in rows)
