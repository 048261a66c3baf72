"""Runs side by side: every number is the runs' own, errors leave documents out of both runs, and
what hampers the comparison is said.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.special import stdtrit
from support.comparisons import SHORTER, compared, shorter
from support.spine import LENGTH, Finished, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.bounds.envelope import envelope_dataset
from geostat.bounds.overall import overall
from geostat.comparison.comparability import document_keys, names_of
from geostat.comparison.compare import compare
from geostat.comparison.coverage import shares_inside
from geostat.comparison.differences import difference
from geostat.comparison.quantities import Scalar, quantities, scalars
from geostat.comparison.token_needs import token_need_scalars, token_needs
from geostat.errors import InputError
from geostat.experiments.effective_dataset import effective_dataset
from geostat.experiments.effective_size import Cell, next_size
from geostat.experiments.sink import correlate_with_sink
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.paper import REPORTED
from geostat.verdicts.answers import give_verdicts
from geostat.verdicts.tolerances import Tolerance
from reports.comparison.tables import comparison_tables

pytestmark = pytest.mark.usefixtures("read_once")

GROUPS = ("capture", "norms", "similarity", "envelope")


@pytest.fixture
def pair(finished: Finished, model_folder: Path, text_folder: Path) -> list[Path]:
    return [finished.store, shorter(finished.store, model_folder, text_folder)]


@pytest.fixture
def data(pair: list[Path]) -> xr.Dataset:
    return compared(*pair)


def groups_of(finished: Finished) -> dict[str, xr.Dataset]:
    """What a comparison reads of a run."""
    groups = {name: finished.tree[name].to_dataset() for name in GROUPS}
    return groups | {"envelope": groups["envelope"].sel(gram=["exponential", "offset"])}


@pytest.fixture(scope="module")
def found(finished: Finished) -> dict[str, Scalar]:
    return scalars(groups_of(finished))


def test_every_number_is_the_runs_own(data: xr.Dataset, pair: list[Path]):
    for place, path in enumerate(pair):
        run = gs.open(path)
        at = data.isel(run=place)["estimate"]
        for key, values in (
            ("cv_token", run["norms"]["cv_token"]),
            ("cv_profile", run["norms"]["cv_profile"]),
            ("lam", run["norms"]["lam"]),
            ("mae_offset", run["similarity"]["mae_by_lag"].sel(gram="offset")),
        ):
            np.testing.assert_allclose(at.sel(quantity=key), values.mean(), rtol=1e-12)
        for edition, gram in (("printed", "exponential"), ("sharp", "offset")):
            inside = run["summary"]["recall_inside"].sel(edition=edition, gram=gram)
            np.testing.assert_allclose(
                at.sel(quantity=f"recall_inside_{edition}_{gram}"), inside, rtol=1e-12
            )
        sink = run["sink"].to_dataset().sel(measure="pearson")
        peak = int(sink["peak_n"])
        assert int(data.isel(run=place).sel(quantity="correlation_peak")["at_n"]) == peak
        np.testing.assert_allclose(
            at.sel(quantity="correlation_peak"), sink["correlation"].sel(n=peak), rtol=1e-12
        )
        freed = [
            str(key) for key in at["quantity"].values if str(key).startswith("unattenuated_at_")
        ]
        assert freed
        for key in freed:  # NaN in both where noise of this size cannot be taken out
            np.testing.assert_allclose(
                at.sel(quantity=key),
                sink["unattenuated"].sel(n=int(key.rsplit("_", 1)[1])),
                rtol=1e-12,
            )
        np.testing.assert_allclose(
            data.isel(run=place)["precision_mean"].sel(n=2),
            run["summary"]["precision_mean"].sel(n=2),
        )


def test_a_number_without_a_document_is_that_of_a_run_without_it(
    finished: Finished, found: dict[str, Scalar]
):
    others = [0, 2]
    groups = groups_of(finished)
    capture = groups["capture"].isel(document=others)
    norms, similarity, sink = (
        fit_norms(capture),
        fit_similarity(capture),
        correlate_with_sink(capture, resamples=2),
    )
    for key in ("cv_token", "cv_profile", "lam"):
        np.testing.assert_allclose(found[key].without[1], norms[key].mean(), rtol=1e-9)
    for form in ("exponential", "offset_power"):
        np.testing.assert_allclose(
            found[f"mae_{form}"].without[1],
            similarity["mae_by_lag"].sel(gram=form).mean(),
            rtol=1e-5,
        )
    curve = sink.sel(measure="pearson")
    np.testing.assert_allclose(
        found["correlation_peak"].without[1],
        curve["correlation"].sel(n=int(curve["peak_n"])),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        found["precision_at_4"].without[1],
        capture["precision"].astype(float).sel(n=4).mean(),
        rtol=1e-9,
    )


def test_coverage_without_a_document_leaves_it_out_of_curves_and_bounds(
    finished: Finished, found: dict[str, Scalar]
):
    others = [0, 2]
    groups = groups_of(finished)
    kept = {"capture": groups["capture"].isel(document=others)} | {
        name: groups[name] for name in ("norms", "similarity")
    }  # fits as they are
    kept["envelope"] = envelope_dataset(xr.DataTree.from_dict(kept))
    summary = overall(xr.DataTree.from_dict(kept))
    for edition in ("printed", "sharp"):
        for gram in ("exponential", "offset"):
            inside = summary["precision_inside"].sel(edition=edition, gram=gram)
            np.testing.assert_allclose(
                found[f"precision_inside_{edition}_{gram}"].without[1], inside, rtol=1e-12
            )


def _mean(values: np.ndarray) -> Scalar:
    without = (values.sum() - values) / (values.size - 1)
    return Scalar(estimate=float(values.mean()), without=without, heads=1)


@pytest.mark.parametrize("shared", [8, 4, 0])
def test_the_interval_of_a_difference_holds_the_true_one_in_95_percent_of_runs(shared: int):
    chance, draws, held, wide = np.random.default_rng(shared), 1500, 0, []
    first, second = [f"d{k}" for k in range(8)], [f"d{k}" for k in range(8 - shared, 16 - shared)]
    for _ in range(draws):
        text = chance.normal(size=16)  # what a document does to both runs
        a = text[:8] + 0.5 * chance.normal(size=8)
        b = text[8 - shared : 16 - shared] + 0.5 * chance.normal(size=8)
        at = difference(_mean(a), _mean(b), (first, second))
        held += at.lower <= 0 <= at.upper
        wide.append(at.upper - at.lower)
    error = 3 * np.sqrt(0.95 * 0.05 / draws)
    assert held / draws > 0.95 - error
    assert held / draws < 0.95 + error + (
        0.02 if shared == 4 else 0
    )  # there the degrees of freedom are the careful ones
    if shared == 8:  # pairing takes out what documents do to both
        assert np.mean(wide) < 0.6 * 2 * float(stdtrit(14, 0.975)) * np.sqrt(2 * 1.25 / 8)


def test_a_paired_difference_is_the_jackknife_of_the_difference_and_an_unpaired_one_adds_squares():
    chance = np.random.default_rng(0)
    a, b = chance.normal(size=6), chance.normal(size=6)
    names = [str(k) for k in range(6)]
    paired = difference(
        _mean(a), _mean(b[::-1]), (names, names[::-1])
    )  # documents are matched by what they are, not by place
    assert paired.se == pytest.approx(np.std(a - b, ddof=1) / np.sqrt(6))
    assert paired.degrees == 5
    apart = difference(_mean(a), _mean(b[:4]), (names, ["x", "y", "z", "w"]))
    assert apart.se == pytest.approx(
        np.hypot(np.std(a, ddof=1) / np.sqrt(6), np.std(b[:4], ddof=1) / 2)
    )
    assert 3 < apart.degrees < 8
    assert np.isnan(
        difference(
            _mean(a), Scalar(estimate=1.0, without=np.array([np.nan]), heads=1), (names, ["x"])
        ).se
    )


@pytest.mark.slow
def test_a_run_beside_its_copy_differs_in_nothing(finished: Finished, tmp_path: Path):
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
    assert "differ beyond noise in 0 of " in data.attrs["sentences"][0]
    assert not np.isfinite(
        data["estimate_se"].sel(quantity="recall_inside_sharp_offset")
    ).any()  # quick
    assert len(set(data["run"].values.tolist())) == 2


def test_differing_settings_are_said_and_stand_beside_the_differences_they_bear_on(
    data: xr.Dataset,
):
    first = data.attrs["notes"][0]
    assert first.startswith(
        f"The lengths differ (A: {LENGTH} tokens; B: {SHORTER} tokens): N are compared as they are"
    )
    assert (
        data.attrs["notes"][-1] == "A and B: paired, all 3 documents shared."
    )  # the same texts, cut shorter
    assert not any(
        note.startswith(("The texts differ", "The conventions differ", "The numbers of documents"))
        for note in data.attrs["notes"]
    )
    minds = {
        str(key): set(words.split())
        for key, words in zip(data["quantity"].values, data["minds"].values[0], strict=True)
    }
    assert minds["cv_token"] == {"length"}
    assert {"length", "bound_sizes"} <= minds["recall_inside_sharp_offset"]


@pytest.mark.slow
def test_other_conventions_editions_and_fewer_documents_are_compared_and_said(
    finished: Finished, pair: list[Path]
):
    tree = gs.open(pair[1])
    groups = {name: tree[name].to_dataset() for name in tree.children if name != "null"}
    groups["verdicts"] = give_verdicts(tree, {"norms.cv": Tolerance(value=0.2, source="test")})
    groups |= {name: groups[name].sel(edition=["sharp"]) for name in ("envelope", "summary")}
    groups = {
        name: group.isel(document=[0]) if "document" in group.dims else group
        for name, group in groups.items()
    }
    other = xr.DataTree.from_dict(groups)
    rows = tree.attrs["manifest"]["documents"][:1]
    other.attrs = tree.attrs | {"convention": "followup", "manifest": {"documents": rows}}
    data = compare([finished.tree, other])
    said = "\n".join(data.attrs["notes"])
    for words in (
        "The conventions differ (A: paper; B: followup)",
        "The numbers of documents differ (A: 3; B: 1)",
        "The editions and Grams of the bounds differ",
        "The null baselines differ (A: measured; B: none)",
        (
            "The tolerances of the verdicts differ (A: norms.cv 0.05; B: norms.cv 0.2): their"
            " shares answer different claims."
        ),
        "A and B: paired where documents are shared, 1 of 3 and 1.",
    ):
        assert words in said
    assert data["run"].values.tolist() == [
        f"{data['model'].values[0]} (run 1)",
        f"{data['model'].values[1]} (run 2)",
    ]
    lost = data.isel(run=1).sel(quantity="recall_inside_printed_offset")
    assert np.isnan(lost["estimate"])
    assert int(lost["heads"]) == 0
    assert data.attrs["sentences"] == [
        "A and B: nothing can be told from noise, as a run has one document or no quantity in"
        " common."
    ]
    assert "documents" in str(data["minds"].sel(quantity="cv_profile").item()).split()
    assert "documents" not in str(data["minds"].sel(quantity="cv_token").item()).split()


def test_names_tell_runs_of_one_model_apart():
    paths: Sequence[Path] = [
        Path("/a/long/run.zarr"),
        Path("/b/run.zarr"),
        Path("/c/short/run.zarr"),
    ]
    assert names_of(["m", "other", "m"], paths) == ["m (long)", "other", "m (short)"]
    assert names_of(["m", "m"], [Path("/a/x/run.zarr"), Path("/b/x/run.zarr")]) == [
        "m (a/x)",
        "m (b/x)",
    ]
    assert names_of(["m", "m"], [Path("/a/one.zarr"), Path("/a/two.zarr")]) == [
        "m (one.zarr)",
        "m (two.zarr)",
    ]


def test_documents_are_told_apart_by_their_text():
    rows = [
        {"name": "1.txt", "text_sha256": "a"},
        {"name": "2.txt", "text_sha256": "a"},
        {"name": "1.txt", "text_sha256": "b"},
        {"name": "plain"},
    ]
    assert document_keys(rows) == ("a", "a 1", "b", "plain")


def test_what_cannot_be_compared_is_refused_in_one_line_and_nothing_is_written(
    finished: Finished, captured: Path, tmp_path: Path
):
    out = tmp_path / "out"
    run = finished.store
    for runs, line in (
        (
            [run],
            (
                f"{run} alone was given to compare, expected 2 to 26 runs. Name them one after"
                " another."
            ),
        ),
        (
            [run, run.parent],
            (
                f"{run.parent}: stands in the comparison twice, expected runs that differ. Name"
                " each run once."
            ),
        ),
        ([run, tmp_path / "none.zarr"], f"{tmp_path}/none.zarr: no such run."),
        (
            [run, captured],
            (
                f"{captured}: holds no /norms, /similarity, /weights, /envelope, /sink, /heads,"
                " /separable, /verdicts, /summary, expected a run"
            ),
        ),
    ):
        assert refused(geostat("compare", *runs, "--out", out, "--quiet")).startswith(line)
    damaged = tmp_path / "damaged.zarr"
    shutil.copytree(run, damaged)
    for chunk in (damaged / "norms" / "cv_token").rglob("c/*/*"):
        if chunk.is_file():
            chunk.write_bytes(chunk.read_bytes()[:-3] + b"???")
    assert "damaged" in refused(geostat("compare", run, damaged, "--out", out, "--quiet"), 4)
    assert not out.exists()
    (tmp_path / "file").write_text("mine")
    line = refused(
        geostat("compare", run, tmp_path / "copy.zarr", "--out", tmp_path / "file", "--quiet")
    )
    assert (
        line
        == f"{tmp_path}/file: is a file, expected a folder to write in. Choose another folder with"
        " --out."
    )  # before either run is read
    with pytest.raises(InputError, match="expected a list of runs"):
        gs.compare(run)


def test_the_command_writes_the_page_and_tells_all_as_json(
    pair: list[Path], data: xr.Dataset, tmp_path: Path
):
    said = geostat("compare", *pair, "--quick", "--out", tmp_path / "out", "--json", "--quiet")
    assert (said.code, said.stderr) == (0, "")
    found = json.loads(said.stdout)
    assert Path(found["comparison"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [run["letter"] for run in found["runs"]] == ["A", "B"]
    assert found["estimates"]["B"]["cv_token"]["estimate"] == float(
        data["estimate"].sel(quantity="cv_token")[1]
    )
    assert found["estimates"]["A"]["recall_inside_sharp_offset"]["estimate_se"] is None
    assert found["differences"]["A − B"]["cv_token"]["minds"] == ["length"]
    assert found["reported"] == [row for row in REPORTED if row["models"] != "Gemma-7B"]
    assert "0.02 to 0.03" not in json.dumps(found["estimates"])


@pytest.mark.slow
def test_the_same_comparison_from_python(
    pair: list[Path], data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    written = []
    monkeypatch.setattr(
        "reports.comparison.page.write_comparison", lambda found, out: written.append((found, out))
    )
    again = gs.compare([gs.open(pair[0]), pair[1]], quick=True, out=tmp_path / "out")
    np.testing.assert_array_equal(again["estimate"].values, data["estimate"].values)
    assert written == [(again, tmp_path / "out")]
    assert "run 1" in str(again["run"].values[0])  # a tree in memory has no path


def test_what_the_paper_reports_is_beside_quantities_that_exist():
    rows = {row["quantity"]: row for row in REPORTED}
    every = [*quantities([("printed", "exponential")]), *token_needs()]
    keys = {quantity.key for quantity in every} | {"separability"}
    assert {key for row in rows.values() for key in row["beside"]} <= keys
    assert all(
        row["source"].startswith(("§", "arXiv")) and row["kind"] and row["models"]
        for row in rows.values()
    )
    # arXiv 2602.01893, §3.1; Figure 3; §4.1; §4
    said = [rows[name]["says"] for name in rows]
    assert said[0].startswith("0.02 to 0.03")
    assert said[1].startswith("0.09 on average")
    assert [mark for row in REPORTED for mark in row.get("marks", [])] == [
        {"n": 3, "value": 0.6},
        {"n": 6, "value": 0.25},
    ]
    assert "N in [1, 4]" in said


def test_shares_without_errors_are_the_same_shares(finished: Finished):
    groups = groups_of(finished)
    steps: list[float] = []
    plain = shares_inside(groups, errors=False, progress=steps.append)
    assert steps[-1] == 1
    assert all(np.isnan(without).all() for _, without, _ in plain.values())
    assert plain["recall", "sharp", "offset"][0] == float(
        Store.open(finished.store)
        .read("summary")["recall_inside"]
        .sel(edition="sharp", gram="offset")
    )


@pytest.mark.slow
def test_effective_sizes_stand_side_by_side_with_what_the_authors_report(pair, tmp_path):
    plain = np.array([2.0, 1.0, 3.0])
    trees = []
    for run, least in zip(pair, (4.0, 0.4), strict=True):
        tree = gs.open(run)
        documents = tree["capture"].sizes["document"]
        losses, curve = {}, {}
        rise = least * np.array([0.6, 1.0, 1.7])[:documents]
        while (size := next_size(plain[:documents], curve, [0.05], 512)) is not None:
            curve[size] = plain[:documents] * (1 + rise * (1 / size - 1 / 512))
        losses = {Cell("all", "attention", "deletion", n): loss for n, loss in curve.items()}
        told = {"target": "all", "targets": 511}
        data = effective_dataset(plain[:documents], losses, {}, taus=[0.05], tokens=512, told=told)
        tree["effective"] = xr.DataTree(data)
        trees.append(tree)
    found = gs.compare([trees[0], trees[1]], quick=True, out=tmp_path)
    at = found.sel(quantity="n_star_deletion")
    stars = [tree["effective"]["n_star"].item() for tree in trees]
    assert np.ceil(at["estimate"].values).tolist() == stars
    assert stars[0] > 5 * stars[1]
    assert (at["estimate_se"] > 0).all()
    difference = at["estimate"].values[0] - at["estimate"].values[1]
    assert float(at["difference"].squeeze()) == difference
    assert "n_star_renormalisation" not in found["quantity"].values
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert "226 tokens" in page
    assert "Gemma-7B" in page
    trees[1]["effective"].attrs["target"] = "last:5"
    other = gs.compare([trees[0], trees[1]], quick=True)
    assert "n_star_deletion" not in other["quantity"].values
    assert "of other targets (A: all; B: last:5)" in " ".join(other.attrs["notes"])
    assert "of N* the one number of all heads at once" in page
    plain_page = gs.compare(list(pair), quick=True)
    (numbers,) = [
        table for table in comparison_tables(plain_page).values() if "numbers" in table.name
    ]
    assert "N*" not in numbers.caption  # which it has none of
    assert "n_star_deletion" not in plain_page["quantity"].values
    assert not any("geostat effective" in note for note in plain_page.attrs["notes"])
    one_sided = gs.compare([trees[0], pair[1]], quick=True)
    (note,) = [note for note in one_sided.attrs["notes"] if "geostat effective" in note]
    assert note.startswith("B has no N* at 5% (deletion). Measure it with `geostat effective`")
    assert not any("geostat effective" in note for note in found.attrs["notes"])


def test_where_no_document_moves_n_star_from_one_no_error_is_told():
    losses = {Cell("all", "attention", "deletion", n): np.full(3, 1.01) for n in (1, 2, 4, 8)}
    told = {"target": "all", "targets": 15}
    data = effective_dataset(np.ones(3), losses, {}, taus=[0.05], tokens=16, told=told)
    found = token_need_scalars(data, 9)
    assert list(found) == ["n_star_deletion"]
    estimate = found["n_star_deletion"].jackknifed()
    assert float(estimate.value) == 1
    assert np.isnan(estimate.se)
