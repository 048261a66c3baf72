"""The Python face: what the README's few lines do, on a tiny run, and its one class of error."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import lmfit
import numpy as np
import pytest
import xarray as xr
from support.spine import LENGTH, Finished

import geostat as gs
from empirical.errors import StoreError
from empirical.store.store import Store
from geostat.runs import stages


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, text_folder: Path
) -> xr.DataTree:
    out = tmp_path_factory.mktemp("face") / "mine.zarr"
    return gs.capture(
        str(model_folder),
        documents=gs.documents(text_folder / "*.txt"),
        count=3,
        length=LENGTH,
        out=out,
    )


@pytest.fixture(scope="module")
def fits(run: xr.DataTree) -> xr.DataTree:
    return gs.fit(run)


@pytest.fixture(scope="module")
def env(run: xr.DataTree, fits: xr.DataTree) -> xr.DataTree:
    return gs.confront(run, fits)


def test_the_face_and_the_command_measure_fit_and_confront_alike(
    run, fits, env, finished: Finished
):
    for trees, groups in (
        (run, ("capture", "null", "measured_envelope")),
        (fits, ("norms", "similarity", "weights")),
        (env, ("envelope", "summary")),
    ):
        assert set(groups) <= set(trees.children)
        for name in groups:
            mine, stored = trees[name].to_dataset(), finished.tree[name].to_dataset()
            assert set(mine.data_vars) == set(stored.data_vars)
            for variable in mine.data_vars:
                np.testing.assert_array_equal(
                    mine[variable].values, stored[variable].values, err_msg=f"{name}/{variable}"
                )
                assert mine[variable].attrs == stored[variable].attrs, f"{name}/{variable}"


@pytest.mark.slow
def test_a_run_is_opened_by_its_folder_or_its_store(finished: Finished):
    for path in (finished.out, finished.store, str(finished.store)):
        tree = gs.open(path)
        xr.testing.assert_identical(
            tree["capture"].to_dataset(), finished.tree["capture"].to_dataset()
        )
        assert tree.attrs["model"]["family"] == "llama"


@pytest.mark.usefixtures("one_figure")
def test_a_report_is_written_by_hand_too(run, fits, env, tmp_path: Path):
    page = gs.report(run, fits, env, out=tmp_path / "page")
    assert page == tmp_path / "page" / "report.html"
    text = page.read_text(encoding="utf-8")
    for sentence in env["summary"].attrs["sentences"]:
        assert sentence.split("(")[0][:30] in text
    assert len(list((tmp_path / "page" / "figures").glob("*.png"))) == 1
    assert list((tmp_path / "page" / "tables").glob("*.tex"))


def test_a_report_shows_what_it_is_given_and_no_earlier_confrontation(
    run, fits, env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = []
    monkeypatch.setattr(
        "reports.page.page.write_page", lambda tree, out: shown.append(set(tree.children))
    )
    old = xr.DataTree.from_dict(
        {
            **{f"/{name}": node.to_dataset() for name, node in run.children.items()},
            "/predictive": env["sink"].to_dataset(),
        }
    )
    gs.report(old, fits, env, out=tmp_path)
    shown_only = {"display", "example", "head_curves", "sphere", "contributions"}
    assert shown == [{*run.children, *fits.children, *env.children, *shown_only}]


def test_one_head_is_fitted_by_lmfit_and_agrees_with_the_fits(run, fits):
    result = gs.fit_head(run, 1, 3)
    assert isinstance(result, lmfit.model.ModelResult)
    beta = fits["similarity"]["beta"].sel(gram="exponential").values[1, 1]
    assert result.params["beta"].value == pytest.approx(beta, rel=1e-6)
    assert "beta" in result.fit_report()
    offset = gs.fit_head(run, 1, 3, which="similarity", form="offset")
    assert offset.params["offset"].value == pytest.approx(
        fits["similarity"]["offset"].sel(gram="offset").values[1, 1], rel=1e-5
    )


def test_confront_takes_editions_and_sizes(run, fits):
    found = gs.confront(run, fits, editions=("sharp",), points=3)
    assert list(found["envelope"]["edition"].values) == ["sharp"]
    assert found["envelope"].sizes["n_envelope"] == 3
    assert "as printed" not in found["summary"].attrs["sentences"][4]


def test_documents_are_named_by_file_folder_and_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_text("text")
    assert gs.documents(tmp_path / "*.txt") == (tmp_path / "a.txt", tmp_path / "b.txt")
    assert gs.documents(str(tmp_path / "c.md"), tmp_path) == (tmp_path / "c.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert gs.documents("[ab].txt", "c.*") == (Path("a.txt"), Path("b.txt"), Path("c.md"))
    assert gs.documents() == ()
    with pytest.raises(gs.InputError, match=r"\*.rst: no such file or folder"):
        gs.documents("a.txt", "*.rst")


def test_one_text_may_be_named_without_a_list(
    tmp_path: Path, model_folder: Path, text_folder: Path
):
    text = text_folder / "text 1.txt"
    for documents in (text, str(text)):
        found = gs.capture(
            str(model_folder),
            documents=documents,
            count=1,
            length=LENGTH,
            out=tmp_path,
            n="1,2",
            null=False,
        )
        assert list(found["capture"]["document"].values) == [text.as_posix()]
    assert "null" not in found.children


def test_every_rooms_bad_input_is_geostats_own_error(
    tmp_path: Path, run, fits, text_folder: Path, model_folder: Path
):
    refusals = {
        "no such run": lambda: gs.open(tmp_path / "absent"),
        "no such file or folder, and it is no": lambda: gs.capture("no/such/model", out=tmp_path),
        "length is 500": lambda: gs.capture(
            str(model_folder), documents=[text_folder], length=500, out=tmp_path
        ),
        "n 0: sizes": lambda: gs.capture(
            str(model_folder), documents=[text_folder], length=9, n="0", out=tmp_path
        ),
        "edition 'best'": lambda: gs.confront(run, fits, editions=("best",)),
        "layer": lambda: gs.fit_head(run, 9, 0),
        "which='nothing'": lambda: gs.fit_head(run, 0, 0, which="nothing"),
        "has no /envelope, only nothing. Use what geostat.confront": lambda: gs.report(
            run, fits, xr.DataTree(), out=tmp_path / "report"
        ),
        "with /capture, but it has no /capture, only /norms, .*geostat.open": lambda: gs.fit(fits),
        "str: expected an xarray.DataTree with /capture, but it is none": lambda: gs.fit(
            "run.zarr"
        ),
        "expected an xarray.DataTree with /norms.*geostat.fit returned": lambda: gs.confront(
            run, run
        ),
        "Dataset: expected an xarray.DataTree with /capture": lambda: gs.fit_head(
            run["capture"].to_dataset(), 0, 0
        ),
        "documents=3: expected text files or folders, texts or token ids": lambda: gs.capture(
            documents=3, out=tmp_path
        ),
        "length '9'": lambda: gs.capture(length="9", out=tmp_path),
    }
    for said, call in refusals.items():
        with pytest.raises(gs.InputError, match=said) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_setting_is_named_with_those_there_are(tmp_path: Path):
    for bogus in ("bogus", "text"):
        with pytest.raises(
            TypeError,
            match=(
                rf"capture\(\) has no keyword '{bogus}', expected one of documents, count, .*seed, "
            ),
        ) as caught:
            gs.capture(out=tmp_path / "out", **{bogus: 1})
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_another_error(tmp_path: Path, run):
    assert gs.StoreError is StoreError
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(gs.StoreError, match="damaged"):
        gs.open(tmp_path)


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import geostat, geostat.cli.app, sys; print([name for name in ('torch', 'xarray', 'lmfit',"
        " 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there_and_no_other():
    for name in gs.__all__:
        assert getattr(gs, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'whatever'"):
        _ = gs.whatever


def test_bad_input_is_told_in_the_words_of_python(model_folder: Path, text_folder: Path, tmp_path):
    with pytest.raises(gs.InputError) as refused:
        gs.capture(str(model_folder), documents=text_folder, count=9, length=70, out=tmp_path)
    assert "--" not in str(refused.value)
    assert "count" in str(refused.value)
    assert "length" in str(refused.value)


def test_public_names_are_listed_before_they_are_imported():
    program = "import geostat as gs; print(*dir(gs))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(gs.__all__) <= set(done.stdout.split())


def test_claims_are_a_frame_of_the_stored_counts(env):
    frame, verdicts = gs.claims(env), env["verdicts"].to_dataset()
    assert list(frame.index) == list(verdicts["claim"].values)
    for name in ("holds", "fails", "undetermined", "no_estimate"):
        np.testing.assert_array_equal(frame[name], verdicts[name])
    np.testing.assert_array_equal(frame["true_share"], verdicts["true_share"])


def test_fits_and_bounds_are_kept_in_the_run_s_store_where_it_is_named(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = shutil.copytree(captured, tmp_path / "run.zarr")
    names = ("norms", "similarity", "weights")
    mine = {name: xr.Dataset({"level": ("layer", [0.5])}, attrs={"of": "mine"}) for name in names}
    Store.open(out).put({"summary": mine["norms"]})
    run = gs.open(tmp_path)
    monkeypatch.setattr(stages, "fitted", lambda captured, **asked: mine)
    monkeypatch.setattr(stages, "confronted", lambda *_, **asked: {"sink": mine["norms"]})
    fits = gs.fit(run)
    assert Store.open(out).results == ["summary"]
    gs.fit(run, save=tmp_path)
    store = Store.open(out)
    assert store.results == sorted(names)
    xr.testing.assert_identical(store.read("norms"), mine["norms"])
    fits["weights"].attrs["of"] = "another"
    gs.confront(run, fits, save=out)
    store = Store.open(out)
    assert store.results == sorted([*names, "sink"])
    assert store.read("weights").attrs["of"] == "another"
    assert store.read("sink").attrs["of"] == "mine"


def test_results_are_not_kept_with_another_run(finished: Finished, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stages, "fitted", lambda *_, **asked: pytest.fail("was fitted"))
    part = finished.tree.isel(document=slice(2), missing_dims="ignore")
    with pytest.raises(gs.InputError, match="holds another run, expected the store that this one"):
        gs.fit(part, save=finished.out)
    with pytest.raises(gs.InputError, match=r"absent/run\.zarr"):
        gs.fit(part, save=finished.out / "absent")


def test_a_head_is_told_by_its_name(finished: Finished):
    tree = finished.tree
    one = tree.geostat.head("L1H3")
    assert one.attrs == {"name": "L1H3", "layer": 1, "head": 3, "kv_head": 1}
    offset = tree["similarity"].to_dataset().sel(gram="offset", layer=1, kv_head=1)
    fitted = one.sel(parameter="similarity.beta.offset")
    for name, variable in {"value": "beta", "se": "beta_se", "upper": "beta_upper"}.items():
        np.testing.assert_equal(float(fitted[name]), float(offset[variable]))
    p_sink = tree["weights"].to_dataset().sel(layer=1, head=3)["p_sink"]
    assert float(one["value"].sel(parameter="weights.p_sink")) == float(p_sink)
    queries = tree["queries"]["precision"].sel(layer=1, head=3)
    np.testing.assert_allclose(one["precision"], queries.mean("document"), rtol=1e-6)
    verdict = tree["verdicts"].to_dataset().sel(layer=1, kv_head=1, claim_kv_head="norms.cv")
    words = json.loads(tree["verdicts"].attrs["answers"])
    assert one["answer"].sel(claim="norms.cv") == words[str(int(verdict["answer_kv_head"]))]
    assert float(one["estimate"].sel(claim="norms.cv")) == float(verdict["estimate_kv_head"])
    code = int(tree["heads"]["label"].sel(criterion="size", layer=1, head=3))
    assert (
        f"{code} {one['regime'].sel(criterion='size').item()}"
        in (tree["heads"]["label"].attrs["codes"])
    )


def test_a_head_of_a_run_that_is_only_captured_has_its_scores(run):
    assert set(gs.head(run, "L0H0").data_vars) >= {"precision", "recall_upper"}
    assert gs.head(run, "L0H0").sizes["parameter"] == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("5.3", "'5.3' is no head, expected a layer and a head such as L5H3. Name it so."),
        (3, "3 is no head, expected a layer and a head such as L5H3. Name it so."),
        ("L9H0", "layer 9 is not in this run, expected one of 0 to 3. Choose one of those."),
    ],
)
def test_a_head_that_is_none_is_refused(run, name, told: str):
    with pytest.raises(gs.InputError, match=re.escape(told)):
        run.geostat.head(name)


def test_the_claims_of_a_run_are_its_own_method_too(finished: Finished):
    assert finished.tree.geostat.claims().equals(gs.claims(finished.tree))
    with pytest.raises(gs.InputError, match=r"expected an xarray\.DataTree with /verdicts"):
        finished.tree.drop_nodes("verdicts").geostat.claims()
