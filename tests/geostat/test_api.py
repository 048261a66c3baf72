"""Python functions: the README's example on a tiny run, and the InputError of all packages."""

import json
import re
import shutil
from pathlib import Path

import lmfit
import numpy as np
import pytest
import xarray as xr
from support.commands import called
from support.spine import LENGTH, Finished, Said

import geostat as gs
from empirical.errors import StoreError
from empirical.store.store import Store
from geostat.runs import stages

CAPTURED = ("capture", "null", "queries", "sinks", "ranks", "measured_envelope")
FITTED = ("norms", "similarity", "weights", "pooled")


@pytest.fixture
def run(finished: Finished) -> xr.DataTree:
    """Return a captured run."""
    return finished.tree.filter(lambda node: node.name in CAPTURED)


@pytest.fixture
def fits(finished: Finished) -> xr.DataTree:
    return finished.tree.filter(lambda node: node.name in FITTED)


@pytest.fixture
def env(finished: Finished) -> xr.DataTree:
    return finished.tree.filter(lambda node: node.name not in CAPTURED + FITTED)


def test_python_and_the_command_line_give_equal_results(
    run, finished: Finished, captured: Path, model_folder: Path, text_folder: Path, tmp_path: Path
):
    options = {"count": 2, "length": LENGTH, "n": [1, 2, 9], "out": tmp_path / "mine.zarr"}
    texts = gs.documents(text_folder / "*.txt")
    measured = gs.capture(str(model_folder), documents=texts, **options)
    fits = gs.fit(run)
    env = gs.confront(run, fits, editions=("sharp",), swap=False)
    assert env["envelope"]["edition"].values.tolist() == ["sharp"]
    assert "The printed bounds" not in env["summary"].attrs["sentences"][4]
    for mine, stored, groups in (
        (measured, gs.open(captured), ("capture", "null", "measured_envelope")),
        (fits, finished.tree, FITTED),
        (env, finished.tree.sel(edition=["sharp"]), ("envelope", "separable", "sink")),
    ):
        for name in groups:
            assert set(mine[name].data_vars) == set(stored[name].data_vars)
            for variable, values in mine[name].data_vars.items():
                np.testing.assert_array_equal(values, stored[name][variable], f"{name}/{variable}")
                assert values.attrs == stored[name][variable].attrs, f"{name}/{variable}"


def test_a_report_shows_the_given_confrontation(
    run, fits, env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = []
    monkeypatch.setattr(
        "reports.page.page.write_page", lambda tree, out: shown.append(set(tree.children))
    )
    groups = {f"/{name}": node.to_dataset() for name, node in run.children.items()}
    old = xr.DataTree.from_dict(groups | {"/predictive": env["sink"].to_dataset()})
    gs.report(old, fits, env, out=tmp_path)
    shown_only = {"display", "example", "head_curves", "sphere", "contributions"}
    assert shown == [{*run.children, *fits.children, *env.children, *shown_only}]


def test_one_head_is_fitted_by_lmfit(run):
    result = gs.fit_head(run, 1, 3)
    assert isinstance(result, lmfit.model.ModelResult)
    assert "beta" in result.fit_report()


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


REFUSED = {
    "no such run": lambda run, fits: gs.open("absent"),
    "n 0: sizes": lambda run, fits: gs.capture(documents=["a text"], n="0"),
    "edition 'best'": lambda run, fits: gs.confront(run, fits, editions=("best",)),
    "layer": lambda run, fits: gs.fit_head(run, 9, 0),
    "which='nothing'": lambda run, fits: gs.fit_head(run, 0, 0, which="nothing"),
    "has no /envelope, only nothing. Use the result of geostat.confront": (
        lambda run, fits: gs.report(run, fits, xr.DataTree())
    ),
    "with /capture, but it has no /capture, only /norms, .*geostat.open": (
        lambda run, fits: gs.fit(fits)
    ),
    "str: expected an xarray.DataTree with /capture, but it is not a DataTree": (
        lambda run, fits: gs.fit("run.zarr")
    ),
    "Dataset: expected an xarray.DataTree with /capture": (
        lambda run, fits: gs.fit_head(run["capture"].to_dataset(), 0, 0)
    ),
    "expected an xarray.DataTree with /norms, but it has .*geostat.fit": (
        lambda run, fits: gs.confront(run, run)
    ),
    "expected an xarray.DataTree with /verdicts": lambda run, fits: run.geostat.claims(),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_of_every_package_raises_geostat_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run, fits, message: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gs.InputError, match=message) as caught:
        REFUSED[message](run, fits)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keyword", ["bogus", "text"])
def test_an_unknown_keyword_is_refused_with_the_known_ones(tmp_path: Path, keyword: str):
    message = rf"capture\(\) has no keyword '{keyword}', expected one of model, .*documents, .*"
    with pytest.raises(TypeError, match=message) as caught:
        gs.capture(out=tmp_path / "out", **{keyword: 1})
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_raises_store_error(tmp_path: Path, run):
    assert gs.StoreError is StoreError
    (tmp_path / "run.zarr").mkdir()
    (tmp_path / "run.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(gs.StoreError, match="damaged"):
        gs.open(tmp_path)


def test_heavy_packages_are_imported_lazily():
    code = (
        "import geostat, geostat.cli.app, sys; seen = lambda *names: {*names} & {*sys.modules};"
        " print(seen('torch', 'xarray', 'lmfit', 'matplotlib')); geostat.plot.norms;"
        " print(seen('torch', 'lmfit', 'matplotlib.pyplot'))"
    )
    assert called(code=code) == Said(0, "set()\nset()\n", "")


def test_public_names_are_complete_and_listed_before_they_are_imported():
    for name in gs.__all__:
        assert getattr(gs, name).__doc__, name
    listed = called(code="import geostat as gs; print(*dir(gs))").stdout
    assert set(gs.__all__) <= set(listed.split())
    with pytest.raises(AttributeError, match="no attribute 'whatever'"):
        _ = gs.whatever


def test_messages_name_python_keywords(model_folder: Path, text_folder: Path, tmp_path):
    with pytest.raises(gs.InputError) as refused:
        gs.capture(str(model_folder), documents=text_folder, count=9, length=70, out=tmp_path)
    assert "--" not in str(refused.value)
    assert "count" in str(refused.value)
    assert "length" in str(refused.value)


def test_claims_are_a_frame_of_the_stored_counts(env):
    frame, verdicts = gs.claims(env), env["verdicts"].to_dataset()
    assert env.geostat.claims().equals(frame)
    assert list(frame.index) == list(verdicts["claim"].values)
    for name in ("holds", "holds_trivially", "fails", "undetermined", "no_estimate"):
        np.testing.assert_array_equal(frame[name], verdicts[name])
    np.testing.assert_array_equal(frame["true_share"], verdicts["true_share"])


def test_save_writes_fits_and_bounds_into_the_store(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = shutil.copytree(captured, tmp_path / "run.zarr")
    names = ("norms", "similarity", "weights")
    mine = {name: xr.Dataset({"level": ("layer", [0.5])}, attrs={"of": "mine"}) for name in names}
    Store.open(out).put({"summary": mine["norms"]})
    run = gs.open(tmp_path)
    monkeypatch.setattr(stages, "fitted", lambda captured, **options: mine)
    monkeypatch.setattr(stages, "confronted", lambda *_, **options: {"separable": mine["norms"]})
    fits = gs.fit(run)
    assert Store.open(out).results == ["summary"]
    gs.fit(run, save=tmp_path)
    store = Store.open(out)
    assert store.results == sorted(names)
    xr.testing.assert_identical(store.read("norms"), mine["norms"])
    fits["weights"].attrs["of"] = "another"
    gs.confront(run, fits, save=out)
    store = Store.open(out)
    assert store.results == sorted([*names, "separable"])
    assert store.read("weights").attrs["of"] == "another"
    assert store.read("separable").attrs["of"] == "mine"


def test_save_refuses_another_run(finished: Finished, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stages, "fitted", lambda *_, **options: pytest.fail("was fitted"))
    part = finished.tree.isel(document=slice(2), missing_dims="ignore")
    with pytest.raises(gs.InputError, match="holds another run, expected the store of this run"):
        gs.fit(part, save=finished.out)
    with pytest.raises(gs.InputError, match=r"absent/run\.zarr"):
        gs.fit(part, save=finished.out / "absent")


def test_a_head_is_selected_by_name(finished: Finished):
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
    label = tree["heads"]["label"].sel(criterion="size", layer=1, head=3)
    regime = one["regime"].sel(criterion="size").item()
    assert f"{int(label)} {regime}" in label.attrs["codes"]


def test_a_head_of_a_run_that_is_only_captured_has_its_scores(run):
    assert set(gs.head(run, "L0H0").data_vars) >= {"precision", "recall_upper"}
    assert gs.head(run, "L0H0").sizes["parameter"] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("5.3", "'5.3' is not a head, expected a layer and a head such as L5H3."),
        (3, "3 is not a head, expected a layer and a head such as L5H3."),
        ("L9H0", "layer 9 is not in this run, expected one of 0 to 3."),
    ],
)
def test_an_unknown_head_name_is_refused(run, name, message: str):
    with pytest.raises(gs.InputError, match=re.escape(message)):
        run.geostat.head(name)
