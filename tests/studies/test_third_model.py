"""The study of further models: what it trains on, that training learns, and the rules."""

import numpy as np
import pytest
import torch
import xarray as xr
from transformers import LlamaConfig

from geostat.datasets.separability import STATISTICS
from geostat.fits.amended.prediction import RUNGS
from studies import third_model


def test_the_models_are_not_trained_on_modules_of_the_built_in_text(tmp_path, monkeypatch):
    for name in ("abc.py", "ast.py", "calendar.py", "heapq.py", "email/parser.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    for folder in ("site-packages", "pydoc_data"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "topics.py").write_text(folder)
    monkeypatch.setattr(third_model.sysconfig, "get_path", lambda name: str(tmp_path))
    assert list(third_model.sources()) == ["abc.py", "email/parser.py"]


def test_training_learns_the_order_of_tokens(monkeypatch, capsys):
    """Tokens repeat 0 to 15, so their frequencies tell nothing and their order all."""
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        bos_token_id=None,
        eos_token_id=None,
    )
    for name, value in {"LENGTH": 32, "VOCABULARY": 16, "WARMUP": 5}.items():
        monkeypatch.setattr(third_model, name, value)
    monkeypatch.setitem(third_model.CONFIGS, "llama", config)
    stream = torch.arange(2000) % 16
    model = third_model.train("llama", [stream, stream], steps=60)
    assert third_model.unigram_loss([stream, stream]) == pytest.approx(np.log(16), rel=0.01)
    assert third_model.held_out_loss(model, stream, windows=4) < 0.5 * np.log(16)


@pytest.mark.parametrize(
    ("r2", "words"),
    [
        ((0.5, 0.7, 0.72), "confirmed; the law adds to sinks and repeats"),
        ((0.5, 0.7, 0.705), "confirmed; the law is not shown to add"),
        ((0.3, 0.5, 0.59), "not confirmed; the law adds"),
    ],
)
def test_a_run_is_judged_by_the_frozen_rules(monkeypatch, capsys, r2, words):
    curve = (("layer", "head", "n_fitted"), np.full((2, 3, 2), 0.5))
    biased = (curve[0], curve[1] + [0.01, -0.04])
    data = {}
    for name in ("precision", "recall"):
        data |= {name: curve, f"{name}_fitted": biased}
        data |= {f"{name}_{score}": ("rung", [0, *r2, np.nan, np.nan]) for score in ("r2", "mae")}
    fitted = xr.Dataset(data, coords={"n_fitted": [2, 8], "rung": list(RUNGS)})
    amended = xr.Dataset({"depends_on": (("layer", "head"), [[0, 1, 2], [3, 1, -1]])})
    p = [[0.5, 0.001, 0.9], [0.002, 0.8, np.nan]]
    amended["rank_added_p"] = ("layer", "head"), p
    amended["lag_added_p"] = ("layer", "head"), np.full((2, 3), 0.04) * [1, 1, 9]
    amended["dimension"] = ("layer", "head"), [[2.0, 3.0, 4.0], [5.0, 8.0, np.nan]]
    capture = xr.Dataset(attrs={"dimension": 32})
    cells = {
        "measure": ["inside", "drawn_inside", "drawn_gap"],
        "edition": ["sharp"],
        "gram": ["exponential", "offset", "rank"],
        "size_range": ["N ≤ 4", "N > 64"],
    }
    shares = xr.DataArray(np.linspace(0, 1, 18).reshape(3, 1, 3, 2), cells)
    ends = {"": 0.0, "_lower": -0.1, "_upper": 0.1}
    summary = xr.Dataset(
        {f"{name}_by_range{end}": shares + by for name in STATISTICS for end, by in ends.items()}
    )
    groups = {
        "/fitted": fitted,
        "/amended": amended,
        "/capture": capture,
        "/summary": summary,
    }
    tree = xr.DataTree.from_dict(groups)
    monkeypatch.setattr(third_model.gs, "open", lambda path: tree)
    third_model.judge("run")
    printed = capsys.readouterr().out
    assert f"amended assumptions {words}" in printed
    assert "constant 1, rank 2, lag 1, rank_and_lag 1" in printed
    assert "effective dimension 2 to 8, median 4; head size 32" in printed
    assert "24% (59%; 94.1, 84.1 to 104.1) at N ≤ 4; 29% (65%; 100.0, 90.0 to 110.0)" in printed
    assert "at a false-discovery rate of 5% the rank in 2, the lag in 0" in printed
    assert "layers that see" not in printed
    assert "largest bias -0.040 at N = 8, beyond 0.02 at 1 of 2 sizes" in printed

    windowed = fitted.expand_dims(part=[512, 64]).transpose(..., "part")
    for name in ("precision", "recall"):  # curves are of layers, scores of parts
        windowed[name], windowed[f"{name}_fitted"] = curve, biased
    capture["tokens"] = "layer", [64, 512]
    groups |= {"/fitted": windowed, "/capture": capture}
    groups["/summary"] = summary.expand_dims(part=[512, 64])
    monkeypatch.setattr(third_model.gs, "open", lambda path: xr.DataTree.from_dict(groups))
    third_model.judge("run")
    printed = capsys.readouterr().out
    before, after = words.split(";")
    for tokens in (512, 64):
        assert f"{before} in 1 layers that see {tokens} tokens;{after}" in printed
