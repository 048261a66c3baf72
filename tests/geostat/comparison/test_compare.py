"""Comparison of runs: estimates, paired jackknife errors, and notes on differing settings."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.special import stdtrit
from support.comparisons import SHORTER, compared, shorter
from support.spine import LENGTH, Finished, geostat, refused

import geostat as gs
from geostat.analyses.effective_size import Cell, next_size
from geostat.analyses.sink import correlate_with_sink
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.overall import overall
from geostat.comparison.compare import compare, difference
from geostat.comparison.quantities import (
    Scalar,
    quantities,
    scalars,
    token_need_scalars,
    token_needs,
)
from geostat.comparison.runs import document_keys, names_of
from geostat.errors import InputError
from geostat.experiments.effective.dataset import effective_dataset
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.paper import REPORTED
from reports import comparison

pytestmark = pytest.mark.usefixtures("read_once")

GROUPS = ("capture", "norms", "similarity", "envelope")
EDITIONS = [
    (edition, gram) for edition in ("printed", "sharp") for gram in ("exponential", "offset")
]


@pytest.fixture
def pair(finished: Finished, model_folder: Path, text_folder: Path) -> list[Path]:
    return [finished.store, shorter(finished.store, model_folder, text_folder)]


@pytest.fixture
def data(pair: list[Path]) -> xr.Dataset:
    return compared(*pair)


def groups_of(finished: Finished) -> dict[str, xr.Dataset]:
    """Return the groups of a run that a comparison reads."""
    groups = {name: finished.tree[name].to_dataset() for name in GROUPS}
    return groups | {"envelope": groups["envelope"].sel(gram=["exponential", "offset"])}


def test_estimates_equal_those_of_the_run(data: xr.Dataset, pair: list[Path]):
    for place, path in enumerate(pair):
        run, of_run = gs.open(path), data.isel(run=place)
        sink = run["sink"].to_dataset().sel(measure="pearson")
        peak = int(sink["peak_n"])
        expected = {name: run["norms"][name].mean() for name in ("cv_token", "cv_profile", "lam")}
        expected["mae_offset"] = run["similarity"]["mae_by_lag"].sel(gram="offset").mean()
        expected["correlation_peak"] = sink["correlation"].sel(n=peak)
        for edition, gram in EDITIONS:
            inside = run["summary"]["recall_inside"].sel(edition=edition, gram=gram)
            expected[f"recall_inside_{edition}_{gram}"] = inside
        freed = [name for name in of_run["quantity"].values if name.startswith("unattenuated_at_")]
        assert freed
        for name in freed:  # NaN in both where the document noise is too large to correct
            expected[name] = sink["unattenuated"].sel(n=int(name.rsplit("_", 1)[1]))
        for name, value in expected.items():
            found = of_run["estimate"].sel(quantity=name)
            np.testing.assert_allclose(found, value, rtol=1e-12, err_msg=name)
        assert int(of_run.sel(quantity="correlation_peak")["at_n"]) == peak
        np.testing.assert_allclose(
            of_run["precision_mean"].sel(n=2), run["summary"]["precision_mean"].sel(n=2)
        )


def test_a_replicate_equals_a_run_without_the_document(finished: Finished):
    groups = groups_of(finished)
    found = scalars(groups)
    capture = groups["capture"].isel(document=[0, 2])
    norms, similarity = fit_norms(capture), fit_similarity(capture)
    sink = correlate_with_sink(capture, resamples=2).sel(measure="pearson")
    expected = {name: (norms[name].mean(), 1e-9) for name in ("cv_token", "cv_profile", "lam")}
    for form in ("exponential", "offset_power"):
        expected[f"mae_{form}"] = similarity["mae_by_lag"].sel(gram=form).mean(), 1e-5
    expected["correlation_peak"] = sink["correlation"].sel(n=int(sink["peak_n"])), 1e-9
    expected["precision_at_4"] = capture["precision"].astype(float).sel(n=4).mean(), 1e-9
    part = {"capture": capture, "norms": groups["norms"], "similarity": groups["similarity"]}
    part["envelope"] = envelope_dataset(xr.DataTree.from_dict(part))  # fits unchanged
    inside = overall(xr.DataTree.from_dict(part))["precision_inside"]
    for edition, gram in EDITIONS:
        value = inside.sel(edition=edition, gram=gram)
        expected[f"precision_inside_{edition}_{gram}"] = value, 1e-12
    for name, (value, rtol) in expected.items():
        np.testing.assert_allclose(found[name].without[1], value, rtol=rtol, err_msg=name)


def _mean(values: np.ndarray) -> Scalar:
    without = (values.sum() - values) / (values.size - 1)
    return Scalar(estimate=float(values.mean()), without=without, heads=1)


@pytest.mark.parametrize("shared", [8, 4, 0])
def test_the_interval_of_a_difference_has_95_percent_coverage(shared: int):
    chance, draws, held, wide = np.random.default_rng(shared), 1500, 0, []
    first, second = [f"d{k}" for k in range(8)], [f"d{k}" for k in range(8 - shared, 16 - shared)]
    for _ in range(draws):
        text = chance.normal(size=16)  # effect of a document on both runs
        a = text[:8] + 0.5 * chance.normal(size=8)
        b = text[8 - shared : 16 - shared] + 0.5 * chance.normal(size=8)
        interval = difference(_mean(a), _mean(b), (first, second))
        held += interval.lower <= 0 <= interval.upper
        wide.append(interval.upper - interval.lower)
    error = 3 * np.sqrt(0.95 * 0.05 / draws)
    conservative = 0.02 if shared == 4 else 0  # degrees of freedom
    assert 0.95 - error < held / draws < 0.95 + error + conservative
    if shared == 8:  # pairing removes shared document effects
        assert np.mean(wide) < 0.6 * 2 * float(stdtrit(14, 0.975)) * np.sqrt(2 * 1.25 / 8)


def test_a_paired_error_is_a_jackknife_and_an_unpaired_error_adds_squares():
    chance = np.random.default_rng(0)
    a, b = chance.normal(size=6), chance.normal(size=6)
    names = [str(k) for k in range(6)]
    # documents are matched by key, not by position
    paired = difference(_mean(a), _mean(b[::-1]), (names, names[::-1]))
    assert paired.se == pytest.approx(np.std(a - b, ddof=1) / np.sqrt(6))
    assert paired.degrees == 5
    apart = difference(_mean(a), _mean(b[:4]), (names, ["x", "y", "z", "w"]))
    squares = np.hypot(np.std(a, ddof=1) / np.sqrt(6), np.std(b[:4], ddof=1) / 2)
    assert apart.se == pytest.approx(squares)
    assert 3 < apart.degrees < 8
    single = Scalar(estimate=1.0, without=np.array([np.nan]), heads=1)
    assert np.isnan(difference(_mean(a), single, (names, ["x"])).se)


@pytest.mark.slow
def test_a_run_does_not_differ_from_its_copy(finished: Finished, tmp_path: Path):
    shutil.copytree(finished.store, tmp_path / "copy.zarr")
    data = compare([finished.store, tmp_path / "copy.zarr"], quick=True)
    known = np.isfinite(data["difference_se"].values)
    assert known.any()
    assert (data["difference"].values[known] == 0).all()
    assert (data["p_holm"].values[known] == 1).all()
    assert data.attrs["notes"] == [
        "A and B hold the same measurement, byte for byte.",
        "A and B: paired, all 3 documents shared.",
    ]
    assert "differ significantly in 0 of " in data.attrs["sentences"][0]
    without_errors = data["estimate_se"].sel(quantity="recall_inside_sharp_offset")
    assert not np.isfinite(without_errors).any()  # quick
    assert len(set(data["run"].values.tolist())) == 2


def test_differing_settings_are_noted_with_the_affected_differences(data: xr.Dataset):
    first, *others, last = data.attrs["notes"]
    lengths = f"(A: {LENGTH} tokens; B: {SHORTER} tokens)"
    assert first.startswith(f"The lengths differ {lengths}: sizes N are not rescaled")
    assert last == "A and B: paired, all 3 documents shared."  # the same texts in shorter windows
    absent = ("The texts differ", "The conventions differ", "The numbers of documents")
    assert not any(note.startswith(absent) for note in others)
    differing = {
        name: set(str(data["differing_settings"].sel(quantity=name).values[0]).split())
        for name in ("cv_token", "recall_inside_sharp_offset")
    }
    assert differing["cv_token"] == {"length"}
    assert {"length", "bound_sizes"} <= differing["recall_inside_sharp_offset"]


@pytest.mark.slow
def test_different_conventions_editions_and_documents_are_compared_with_notes(
    finished: Finished, followup: xr.DataTree
):
    data = compare([finished.tree, followup])
    notes = "\n".join(data.attrs["notes"])
    for words in (
        "The conventions differ (A: paper; B: followup)",
        "The numbers of documents differ (A: 3; B: 1)",
        "The editions and Grams of the bounds differ",
        "The null baselines differ (A: measured; B: none)",
        "The tolerances of the verdicts differ (A: norms.cv 0.05",
        "B: norms.cv 0.2): shares of heads refer to different claims.",
        "A and B: paired where documents are shared, 1 of 3 and 1.",
    ):
        assert words in notes
    models = data["model"].values
    assert data["run"].values.tolist() == [f"{models[0]} (run 1)", f"{models[1]} (run 2)"]
    lost = data.isel(run=1).sel(quantity="recall_inside_printed_offset")
    assert np.isnan(lost["estimate"])
    assert int(lost["heads"]) == 0
    [sentence] = data.attrs["sentences"]
    assert sentence.startswith("A and B: no difference can be tested: a run has only one document")
    for name, affected in (("cv_profile", True), ("cv_token", False)):
        settings = str(data["differing_settings"].sel(quantity=name).item()).split()
        assert ("documents" in settings) == affected


@pytest.mark.parametrize(
    ("models", "paths", "names"),
    [
        ("m other m", "/a/long/run.zarr /b/run.zarr /c/short/run.zarr", "m (long)|other|m (short)"),
        ("m m", "/a/x/run.zarr /b/x/run.zarr", "m (a/x)|m (b/x)"),
        ("m m", "/a/one.zarr /a/two.zarr", "m (one.zarr)|m (two.zarr)"),
    ],
)
def test_runs_of_one_model_have_distinct_names(models: str, paths: str, names: str):
    assert names_of(models.split(), [Path(path) for path in paths.split()]) == names.split("|")


def test_documents_are_identified_by_their_text():
    named = (("1.txt", "a"), ("2.txt", "a"), ("1.txt", "b"))
    rows = [{"name": name, "text_sha256": digest} for name, digest in named]
    assert document_keys([*rows, {"name": "plain"}]) == ("a", "a 1", "b", "plain")


def test_incomparable_runs_are_refused(finished: Finished, captured: Path, tmp_path: Path):
    run = finished.store
    for runs, message in (
        (run, "expected a list of runs"),
        ([run], f"{run} alone was given to compare, expected 2 to 26 runs"),
        ([run, run.parent], f"{run.parent}: was given twice"),
        ([run, tmp_path / "none.zarr"], f"{tmp_path}/none.zarr: no such run"),
        ([run, captured], f"{captured}: holds no /norms, /similarity, /weights, /envelope, /sink,"),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            gs.compare(runs, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("mine")  # refused before a run is read
    line = refused(geostat("compare", run, tmp_path / "none", "--out", tmp_path / "file"))
    assert line.startswith(f"{tmp_path}/file: is a file, expected a folder to write in")


def test_the_command_writes_the_page_and_prints_json(
    pair: list[Path], data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = comparison.plans(data)[:1]
    monkeypatch.setattr(comparison, "plans", lambda data: first)
    result = geostat("compare", *pair, "--quick", "--out", tmp_path / "out", "--json", "--quiet")
    assert (result.code, result.stderr) == (0, "")
    printed = json.loads(result.stdout)
    assert Path(printed["comparison"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [run["letter"] for run in printed["runs"]] == ["A", "B"]
    estimates = printed["estimates"]
    expected = float(data["estimate"].sel(quantity="cv_token")[1])
    assert estimates["B"]["cv_token"]["estimate"] == expected
    inside = estimates["A"]["recall_inside_sharp_offset"]
    assert inside["estimate_se"] is None
    assert inside["estimate"] == data["estimate"].sel(quantity="recall_inside_sharp_offset")[0]
    assert printed["differences"]["A − B"]["cv_token"]["differing_settings"] == ["length"]
    assert printed["reported"] == [row for row in REPORTED if row["models"] != "Gemma-7B"]
    assert "0.02 to 0.03" not in json.dumps(estimates)


def test_reported_numbers_refer_to_existing_quantities():
    every = [*quantities([("printed", "exponential")]), *token_needs()]
    names = {quantity.name for quantity in every} | {"separability"}
    assert {name for row in REPORTED for name in row["beside"]} <= names
    for row in REPORTED:
        assert row["source"].startswith(("§", "arXiv"))
        assert row["kind"]
        assert row["models"]


TARGETS = {"target": "all", "targets": 511}


def with_effective_size(run: Path, least: float) -> xr.DataTree:
    """Return a run whose loss rises by this factor over the number of kept tokens."""
    tree, plain = gs.open(run), np.array([2.0, 1.0, 3.0])
    documents, curve = tree["capture"].sizes["document"], {}
    rise = least * np.array([0.6, 1.0, 1.7])[:documents]
    while (size := next_size(plain[:documents], curve, [0.05], 512)) is not None:
        curve[size] = plain[:documents] * (1 + rise * (1 / size - 1 / 512))
    losses = {Cell("all", "attention", "deletion", n): loss for n, loss in curve.items()}
    sizes = {"taus": [0.05], "tokens": 512, "attributes": TARGETS}
    tree["effective"] = xr.DataTree(effective_dataset(plain[:documents], losses, {}, **sizes))
    return tree


def missing_sizes(data: xr.Dataset) -> list[str]:
    return [note for note in data.attrs["notes"] if "geostat effective" in note]


@pytest.mark.slow
def test_effective_sizes_are_compared_with_reported_ones(pair: list[Path], tmp_path: Path):
    trees = [with_effective_size(run, least) for run, least in zip(pair, (4.0, 0.4), strict=True)]
    result = gs.compare([trees[0], trees[1]], quick=True, out=tmp_path)
    selected = result.sel(quantity="n_star_deletion")
    stars = [tree["effective"]["n_star"].item() for tree in trees]
    assert np.ceil(selected["estimate"].values).tolist() == stars
    assert stars[0] > 5 * stars[1]
    assert (selected["estimate_se"] > 0).all()
    first, second = selected["estimate"].values
    assert float(selected["difference"].squeeze()) == first - second
    assert "n_star_renormalisation" not in result["quantity"].values
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    for words in ("226 tokens", "Gemma-7B", "N* is one number for all heads at once"):
        assert words in page
    assert missing_sizes(result) == []
    trees[1]["effective"].attrs["target"] = "last:5"
    other = gs.compare([trees[0], trees[1]], quick=True)
    assert "n_star_deletion" not in other["quantity"].values
    assert "have different targets (A: all; B: last:5)" in " ".join(other.attrs["notes"])
    [note] = missing_sizes(gs.compare([trees[0], pair[1]], quick=True))
    assert note.startswith("B has no N* at 5% (deletion). Measure it with `geostat effective`")


def test_runs_without_effective_sizes_do_not_mention_them(data: xr.Dataset):
    [numbers] = [
        table for table in comparison.comparison_tables(data).values() if "numbers" in table.name
    ]
    assert "N*" not in numbers.caption
    assert "n_star_deletion" not in data["quantity"].values
    assert missing_sizes(data) == []


def test_a_constant_n_star_has_no_standard_error():
    losses = {Cell("all", "attention", "deletion", n): np.full(3, 1.01) for n in (1, 2, 4, 8)}
    sizes = {"taus": [0.05], "tokens": 16, "attributes": TARGETS | {"targets": 15}}
    result = token_need_scalars(effective_dataset(np.ones(3), losses, {}, **sizes), 9)
    assert list(result) == ["n_star_deletion"]
    estimate = result["n_star_deletion"].jackknifed()
    assert float(estimate.value) == 1
    assert np.isnan(estimate.se)
