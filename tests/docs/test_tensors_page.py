"""Examples with tensors from another program: each runs if its package is installed, and gives the
numbers of geostat's tap on the same model.

    python3 -m venv /tmp/peers  # a separate environment, with geostat's dependencies
    /tmp/peers/bin/pip install -c constraints.txt transformer_lens nnsight
    HF_HUB_OFFLINE=1 /tmp/peers/bin/python -m pytest tests/docs/test_tensors_page.py
"""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from support.places import DOCS

import geostat as gs

PAGE = DOCS / "how_to" / "tensors_from_elsewhere.md"
FENCES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PEERS = ("transformer_lens", "nnsight")
CLOSE = {"attention_weight": 1e-5, "value_norm": 1e-4, "sink_cosine": 1e-5, "cosine_mean": 1e-5}


def example(package: str, folder: Path) -> dict:
    """Run an example as a file, because nnsight reads the source; return its variables."""
    of_package = [
        fence for fence in FENCES if re.search(rf"^(import|from) {package}\b", fence, re.M)
    ]
    others = [fence for fence in FENCES if not any(f" {peer}" in fence for peer in PEERS)]
    (text,) = of_package if package in PEERS else others
    (folder / "example.py").write_text(text, encoding="utf-8")
    return runpy.run_path(str(folder / "example.py"))


@pytest.mark.slow
def test_the_example_with_arrays_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    variables = example("numpy", tmp_path)
    assert variables["run"].attrs["parity"] == {"checked": False}
    assert "weights" in variables["fits"].children


@pytest.mark.filterwarnings("ignore")  # of other people's code
@pytest.mark.parametrize("package", PEERS)
def test_the_example_of_a_library_gives_the_numbers_of_the_tap(
    package: str, tmp_path: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip(package)
    (tmp_path / "model").symlink_to(model_folder)
    monkeypatch.chdir(tmp_path)
    variables = example(package, tmp_path)
    ids = [row.numpy() for row in variables["token_ids"]]
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained("model")
    tapped = gs.capture(model, documents=ids, length=40, queries="last", out="tapped")
    run = variables["run"]
    assert run["capture"]["token_id"].equals(tapped["capture"]["token_id"])
    for name, close in CLOSE.items():
        found, expected = run["capture"][name], tapped["capture"][name]
        assert np.isfinite(expected.values).any()
        np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=close, err_msg=name)
