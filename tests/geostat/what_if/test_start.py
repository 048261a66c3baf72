"""The Gram that was measured of a head: lag means and sink cosines of the capture, projected;
and Grams from files.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.raising import RAISED, raising
from support.spine import Finished, geostat, refused

import geostat as gs
from empirical.errors import InputError as MeasurementError
from geostat.errors import InputError
from geostat.what_if.answer import Asked, answer
from geostat.what_if.start import from_head, is_file, measured_of_head, read_gram
from theory.head.gram import smallest_eigenvalue
from theory.head.projection import nearest_correlation
from theory.what_if.given_gram import measured_gram


def by_hand(captured: xr.Dataset, layer: int, kv_head: int) -> np.ndarray:
    """The matrix, entry by entry."""
    one = captured.isel(layer=layer, kv_head=kv_head)
    tokens = int(captured["tokens"][layer])
    gram = np.eye(tokens)
    for i in range(tokens):
        for j in range(i):
            values = (
                one["sink_cosine"].isel(position=i) if j == 0 else one["cosine_mean"].sel(lag=i - j)
            )
            gram[i, j] = gram[j, i] = float(values.astype(np.float64).mean())
    return gram


def test_the_gram_of_a_head_is_what_was_measured_of_its_values(finished: Finished):
    captured = finished.tree["capture"].to_dataset()
    kv_head = int(captured["kv_head_of_head"][1])
    np.testing.assert_allclose(
        measured_of_head(finished.tree, "L1H1"), by_hand(captured, 1, kv_head), atol=1e-7
    )


def test_a_head_under_its_own_gram_is_one_command(finished: Finished, tmp_path):
    said = answer(
        Asked(
            run=finished.store,
            head="L1H1",
            gram="measured",
            edition="sharp",
            sets=["N=2,4"],
            out=tmp_path,
        )
    )
    found = xr.open_dataset(tmp_path / "whatif.nc")
    gram = measured_of_head(finished.tree, "L1H1")
    moved = measured_gram(gram, projected=True)
    assert found.attrs["gram"] == "measured"
    assert found.attrs["head"] == "L1H1"
    assert float(found["projection_distance"]) == pytest.approx(
        np.linalg.norm(np.asarray(moved.gram) - gram), abs=1e-6
    )
    assert (
        bool(found["projected"])
        == (smallest_eigenvalue(gram, len(gram)) < -1e-9)
        == ("gram" in said)
    )
    again = gs.whatif(
        {"N": [2, 4]},
        gram=gram,
        project=True,
        edition="sharp",
        base=from_head(finished.tree, "L1H1", gram="measured"),
    )
    np.testing.assert_allclose(
        found["recall_upper" if "recall_upper" in found else "recall_lower"], again["recall_lower"]
    )


def test_a_head_of_a_sink_out_of_sight_has_no_gram(finished: Finished):
    captured = finished.tree["capture"].to_dataset()
    blind = xr.DataTree.from_dict(
        {"/capture": captured.assign(sink_cosine=captured["sink_cosine"] * np.nan)}
    )
    with pytest.raises(InputError, match="L0H0: not every cosine was measured"):
        measured_of_head(blind, "L0H0")
    with pytest.raises(InputError, match="the run holds no /capture"):
        measured_of_head(xr.DataTree(), "L0H0")


@pytest.mark.parametrize(
    "name", ["g.npy", "g.npz", "named.npz", "g.csv", "g.txt", "semicolons.csv", "single.npy"]
)
def test_a_gram_is_read_from_a_file(name, tmp_path):
    gram = nearest_correlation(np.eye(5) + 0.3 * (1 - np.eye(5)))
    path = tmp_path / name
    if name == "named.npz":
        np.savez(path, other=np.ones(3), gram=gram)
    elif path.suffix == ".npz":
        np.savez(path, gram)
    elif path.suffix == ".npy":
        np.save(path, gram.astype(np.float32) if name == "single.npy" else gram)
    else:
        np.savetxt(
            path,
            gram,
            delimiter={"g.csv": ",", "g.txt": " ", "semicolons.csv": "; "}[name],
            header="cosines",
        )
    assert is_file(str(path))
    np.testing.assert_allclose(read_gram(path), gram, rtol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
def test_one_row_or_column_is_a_lag_profile(shape, tmp_path):
    lags = np.exp(-0.5 * np.arange(6))
    np.save(tmp_path / "lags.npy", lags.reshape(shape))
    np.testing.assert_array_equal(read_gram(tmp_path / "lags.npy"), lags)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no paths of open files here")
def test_a_gram_may_come_through_a_pipe_that_ends_and_through_nothing_else(tmp_path):
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
def test_whatever_reading_a_gram_raises_is_one_line(tmp_path, monkeypatch, error):
    np.save(tmp_path / "a.npy", np.eye(3))
    monkeypatch.setattr(np, "load", raising(error))
    with pytest.raises(MeasurementError, match=r"cannot be read \(.*\), expected a square array"):
        read_gram(tmp_path / "a.npy")


def test_a_study_under_a_gram_from_a_file(tmp_path):
    values = np.random.default_rng(0).normal(size=(20, 30))
    values /= np.linalg.norm(values, axis=1)[:, None]
    gram = values @ values.T
    np.savetxt(tmp_path / "g.csv", gram, delimiter=",")
    out = tmp_path / "out"
    answer(Asked(gram=str(tmp_path / "g.csv"), edition="sharp", sets=["N=2,4", "eta=0.1"], out=out))
    found = xr.open_dataset(out / "whatif.nc")
    again = gs.whatif(N=[2, 4], eta=0.1, gram=gram, edition="sharp")
    np.testing.assert_allclose(found["recall_lower"], again["recall_lower"])
    assert found.attrs["fixed_L"] == 19
    assert found.attrs["gram_file"].endswith("g.csv")
    assert "measured Gram" in (out / "whatif.md").read_text(encoding="utf-8")

    gram[3, 4] = gram[4, 3] = -0.9
    np.save(tmp_path / "bad.npy", gram)
    said = answer(
        Asked(
            gram=str(tmp_path / "bad.npy"), edition="sharp", sets=["N=2,4"], project=True, out=out
        )
    )
    found = xr.open_dataset(out / "whatif.nc")
    assert found.attrs["projection"] == "nearest"
    assert float(found["projection_distance"]) == pytest.approx(
        np.linalg.norm(nearest_correlation(gram) - gram), rel=1e-6
    )
    assert f"{float(found['projection_distance']):.4g}" in said["gram"]
    assert "moved to the nearest that some have" in (out / "whatif.md").read_text(encoding="utf-8")


def test_a_search_knows_the_gram(tmp_path):
    np.save(tmp_path / "g.npy", np.eye(20))
    said = answer(
        Asked(
            gram=str(tmp_path / "g.npy"),
            edition="sharp",
            sets=["eta=0.1"],
            bounds=("precision_lower",),
            find="N",
            target=0.5,
        )
    )
    assert said["found"].startswith("largest N up to which precision_lower stays >= 0.5: ")


def test_more_tokens_than_can_be_held_are_refused_in_a_line():
    said = refused(geostat("whatif", "--set", "L=" + "9" * 30, "--set", "N=2"))
    assert "expected at most 100,000,000 tokens" in said
