import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.linalg import toeplitz
from support.raising import RAISED, raising
from support.spine import Finished

import geostat as gs
from empirical.errors import InputError as MeasurementError
from geostat.errors import InputError
from geostat.what_if.answer import answer, from_head, is_file, measured_of_head, read_gram
from geostat.what_if.options import WhatIfOptions
from theory.head.gram import smallest_eigenvalue
from theory.head.projection import nearest_correlation
from theory.what_if.given_gram import measured_gram


def study(out: Path, *sets: str, **options: Any) -> tuple[dict[str, Any], xr.Dataset]:
    """Return the printed answer of a study of the sharp edition, and its file."""
    printed = answer(WhatIfOptions(edition="sharp", sets=sets, out=out, **options))
    return printed, xr.open_dataset(out / "whatif.nc")


def test_the_gram_of_a_head_has_its_measured_cosines(finished: Finished):
    captured = finished.tree["capture"].to_dataset()
    kv_head = int(captured["kv_head_of_head"][1])
    of_head = captured.isel(layer=1, kv_head=kv_head).astype(np.float64).mean("document")
    tokens = captured.sizes["position"]
    expected = toeplitz([1.0, *of_head["cosine_mean"].values[: tokens - 2], 0.0])
    expected[0, 1:] = expected[1:, 0] = of_head["sink_cosine"].values[1:]
    np.testing.assert_allclose(measured_of_head(finished.tree, "L1H1"), expected, atol=1e-7)


def test_a_head_can_be_studied_with_its_measured_gram(finished: Finished, tmp_path: Path):
    head = {"run": finished.store, "head": "L1H1", "gram": "measured"}
    printed, data = study(tmp_path, "N=2,4", **head)
    gram = measured_of_head(finished.tree, "L1H1")
    projected = np.asarray(measured_gram(gram, projected=True).gram)
    assert (data.attrs["gram"], data.attrs["head"]) == ("measured", "L1H1")
    distance = np.linalg.norm(projected - gram)
    assert float(data["projection_distance"]) == pytest.approx(distance, abs=1e-6)
    infeasible = smallest_eigenvalue(gram, len(gram)) < -1e-9
    assert bool(data["projected"]) == infeasible == ("gram" in printed)
    base = from_head(finished.tree, "L1H1", gram="measured")
    again = gs.whatif({"N": [2, 4]}, gram=gram, project=True, edition="sharp", base=base)
    np.testing.assert_allclose(data["recall_lower"], again["recall_lower"])


def test_a_head_that_does_not_see_the_sink_has_no_gram(finished: Finished):
    captured = finished.tree["capture"].to_dataset()
    blind = captured.assign(sink_cosine=captured["sink_cosine"] * np.nan)
    for run, message in (
        (xr.DataTree.from_dict({"/capture": blind}), "L0H0: not every cosine was measured"),
        (xr.DataTree(), "the run holds no /capture"),
    ):
        with pytest.raises(InputError, match=message):
            measured_of_head(run, "L0H0")


GRAM = nearest_correlation(np.eye(5) + 0.3 * (1 - np.eye(5)))


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("g.npy", lambda path: np.save(path, GRAM)),
        ("single.npy", lambda path: np.save(path, GRAM.astype(np.float32))),
        ("g.npz", lambda path: np.savez(path, GRAM)),
        ("named.npz", lambda path: np.savez(path, other=np.ones(3), gram=GRAM)),
        ("g.csv", lambda path: np.savetxt(path, GRAM, delimiter=",", header="cosines")),
        ("g.txt", lambda path: np.savetxt(path, GRAM, delimiter=" ", header="cosines")),
        ("semicolons.csv", lambda path: np.savetxt(path, GRAM, delimiter="; ", header="cosines")),
    ],
)
def test_a_gram_is_read_from_a_file(name, save, tmp_path: Path):
    save(tmp_path / name)
    assert is_file(str(tmp_path / name))
    np.testing.assert_allclose(read_gram(tmp_path / name), GRAM, rtol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
def test_one_row_or_column_is_a_lag_profile(shape, tmp_path: Path):
    lags = np.exp(-0.5 * np.arange(6))
    np.save(tmp_path / "lags.npy", lags.reshape(shape))
    np.testing.assert_array_equal(read_gram(tmp_path / "lags.npy"), lags)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no paths of open files here")
def test_a_gram_may_be_a_finite_pipe_but_no_other_special_file(tmp_path: Path):
    end, start = os.pipe()
    with os.fdopen(start, "w") as file:
        file.write("1, 0.5\n0.5, 1\n")
    np.testing.assert_array_equal(read_gram(Path(f"/dev/fd/{end}")), [[1, 0.5], [0.5, 1]])
    os.close(end)
    for name in ("zero.csv", "zero.npy"):
        (tmp_path / name).symlink_to("/dev/zero")
        with pytest.raises(MeasurementError, match=f"{name}: is a pipe, a device or a socket"):
            read_gram(tmp_path / name)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_errors_of_reading_a_gram_are_one_line(tmp_path: Path, monkeypatch, error):
    np.save(tmp_path / "a.npy", np.eye(3))
    monkeypatch.setattr(np, "load", raising(error))
    with pytest.raises(MeasurementError, match=r"cannot be read \(.*\), expected a square array"):
        read_gram(tmp_path / "a.npy")


def test_a_study_under_a_gram_from_a_file(tmp_path: Path):
    values = np.random.default_rng(0).normal(size=(20, 30))
    values /= np.linalg.norm(values, axis=1)[:, None]
    gram = values @ values.T
    np.savetxt(tmp_path / "g.csv", gram, delimiter=",")
    _, data = study(tmp_path, "N=2,4", "eta=0.1", gram=str(tmp_path / "g.csv"))
    again = gs.whatif(N=[2, 4], eta=0.1, gram=gram, edition="sharp")
    np.testing.assert_allclose(data["recall_lower"], again["recall_lower"])
    assert data.attrs["fixed_L"] == 19
    assert data.attrs["gram_file"].endswith("g.csv")
    assert "measured Gram" in (tmp_path / "whatif.md").read_text(encoding="utf-8")


def test_an_infeasible_gram_from_a_file_is_projected(tmp_path: Path):
    gram = np.eye(8)
    gram[3, 4:6] = gram[4:6, 3] = -0.9
    np.save(tmp_path / "bad.npy", gram)
    printed, data = study(tmp_path, "N=2,4", gram=str(tmp_path / "bad.npy"), project=True)
    distance = float(data["projection_distance"])
    assert data.attrs["projection"] == "nearest"
    assert distance == pytest.approx(np.linalg.norm(nearest_correlation(gram) - gram), rel=1e-6)
    assert f"{distance:.4g}" in printed["gram"]
    table = (tmp_path / "whatif.md").read_text(encoding="utf-8")
    assert "the measured, projected Gram" in table


def test_a_search_uses_the_given_gram(tmp_path: Path):
    np.save(tmp_path / "g.npy", np.eye(20))
    options = {"gram": str(tmp_path / "g.npy"), "edition": "sharp", "sets": ["eta=0.1"]}
    search = {"bounds": ("precision_lower",), "find": "N", "target": 0.5}
    result = answer(WhatIfOptions(**options, **search))
    assert result["found"].startswith("largest N up to which precision_lower stays >= 0.5: ")
