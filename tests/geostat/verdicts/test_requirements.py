"""Verdicts as conditions: `--require` gives exit code 3 where one is not met, with everything
written, and `--tolerances` is obeyed.
"""

import shutil
from pathlib import Path

import pytest
import xarray as xr
from support.spine import Finished, Said, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.errors import InputError
from geostat.verdicts.requirements import hold_to, requirement


@pytest.fixture
def store(finished: Finished, tmp_path: Path) -> Path:
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.mark.usefixtures("one_figure", "read_once")
def test_a_requirement_that_is_met_is_said_and_one_that_is_not_gives_3(store: Path, tmp_path: Path):
    lax = tmp_path / "lax.toml"
    lax.write_text('[norms.cv]\nat_most = 10\nsource = "test"\n', encoding="utf-8")
    required = ("--require", "norms.cv holds 1", "--require", "norms.cv fails 1")
    said = geostat(
        "confront",
        store,
        "--no-swap",
        "--edition",
        "sharp",
        "--tolerances",
        lax,
        *required,
        "--quiet",
    )
    assert (said.code, said.stdout) == (3, "")
    assert said.stderr == "geostat: norms.cv fails in 0.0% of 8 heads, required at least 100.0%.\n"
    assert (
        float(Store.open(store).read("verdicts")["tolerance"].sel(claim="norms.cv")) == 10
    )  # written all the same
    assert "ingredients" not in Store.open(store).results
    met = geostat("report", store, "--require", "norms.cv holds 1")
    assert met.code == 0
    assert met.stdout.splitlines()[-2:] == [
        "required:",
        "  norms.cv holds in 100.0% of 8 heads, as required at least 100.0%",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure", "read_once")
def test_a_report_can_be_required_to_say_something(store: Path):
    said = geostat(
        "report", store, "--require", "norms.cv holds 1", "--require", "norms.cv fails 0", "--quiet"
    )
    assert said == Said(
        3, "", "geostat: norms.cv holds in 0.0% of 8 heads, required at least 100.0%.\n"
    )
    assert (store.parent / "report.html").exists()
    assert 'id="table-verdicts"' in (store.parent / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("same_results", "read_once")
def test_a_page_that_a_confrontation_outdates_is_named_with_the_command_that_renews_it(
    store: Path, finished: Finished
):
    """Under --quiet nothing is said. Where nothing lies there, nothing is said either: a test
    below.
    """
    confront = ("confront", store, "--edition", "sharp")
    tables, page = store.parent / "tables", store.parent / "report.html"
    shutil.copytree(finished.out / "tables", tables)
    told = (
        f"geostat: The tables in {tables} are older than these numbers. Run `geostat tables"
        f" {store}` to renew them."
    )
    assert geostat(*confront).stderr.splitlines()[-1] == told
    shutil.copy(finished.out / "report.html", page)
    said = geostat(*confront, "--require", "norms.cv fails 0")
    assert (
        said.stderr.splitlines()[-1]
        == f"geostat: {page} is older than these numbers. Run `geostat report {store}` to renew it."
    )
    assert said.stdout.splitlines()[-2] == "required:"
    assert geostat(*confront, "--quiet") == Said(0, "", "")


def test_a_damaged_fit_is_not_measured_again(store: Path):
    """What was captured is sound: every command gives the same remedy."""
    chunk = next(file for file in (store / "norms" / "cv_token" / "c").rglob("*") if file.is_file())
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(bytes(data))
    for command in (("fit", store, "--quiet"), ("report", store, "--quiet"), ("doctor", store)):
        line = refused(geostat(*command), code=4)
        assert line.startswith(f"{chunk}: damaged")
        assert line.endswith(
            f"What was measured is sound: run `geostat fit {store} --fresh`, then `geostat confront"
            f" {store}`."
        )


def test_words_that_say_nothing_are_refused_before_any_work(store: Path, tmp_path: Path):
    kept = Store.open(store).read("verdicts")
    for option, words, line in (
        (
            "--require",
            "norms.cv is good",
            "expected a claim, holds, fails or undetermined, and a share of heads",
        ),
        ("--require", "norms.cw holds 1", "norms.cw is no claim, expected one of norms.cv, "),
        ("--tolerances", tmp_path / "none.toml", "cannot be read"),
    ):
        assert line in refused(geostat("confront", store, option, words))
    assert Store.open(store).read("verdicts").identical(kept)


def test_a_withdrawn_claim_is_refused_with_the_reason(store: Path, tmp_path: Path):
    mine = tmp_path / "mine.toml"
    mine.write_text('[bounds.sharp_measured]\nat_most = 0.01\nsource = "mine"\n', encoding="utf-8")
    why = (
        "was withdrawn: the scatter of a head's own cosines enters twice, so that values drawn from"
        " the bounds' own model fail it as real heads do. "
    )
    for option, words, where in (
        ("--tolerances", mine, f"{mine}: [bounds.sharp_measured] "),
        (
            "--require",
            "bounds.sharp_measured holds 0",
            "--require bounds.sharp_measured holds 0: bounds.sharp_measured ",
        ),
    ):
        assert refused(geostat("confront", store, option, words)) == f"{where}{why}Leave it out."


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure", "read_once")
def test_a_run_whose_verdicts_answer_a_withdrawn_claim_is_to_be_confronted_again(
    store: Path, finished: Finished, tmp_path: Path
):
    held = Store.open(store)
    with held.alone():
        verdicts = held.read("verdicts")
        claims = verdicts.attrs["claims"].replace("bounds.sharp_offset", "bounds.sharp_measured")
        held.put({"verdicts": verdicts.assign_attrs(claims=claims)})
    for command in (("report", store), ("compare", finished.store, store)):
        line = refused(geostat(*command, "--out", tmp_path / "out", "--quiet"))
        assert line.startswith(f"{store}: its claim bounds.sharp_measured was withdrawn: ")
        assert line.endswith("Run `geostat confront` on it again.")
    run = gs.open(store)
    with pytest.raises(InputError, match=r"^env: its claim bounds\.sharp_measured was withdrawn"):
        gs.report(run, run, run, out=tmp_path / "out")
    said = geostat("confront", store, "--edition", "sharp", "--no-swap")
    assert said.code == 0
    assert "older" not in said.stderr
    answered = Store.open(store).read("verdicts").attrs["claims"]
    assert "bounds.sharp_offset" in answered
    assert "bounds.sharp_measured" not in answered


def test_a_run_without_verdicts_is_told_how_to_get_them(finished: Finished):
    groups = {
        f"/{name}": finished.tree[name].to_dataset()
        for name in finished.tree.children
        if name != "verdicts"
    }
    with pytest.raises(
        InputError,
        match=(
            r"^the run has no verdicts yet, expected /verdicts\. Run `geostat confront` on it"
            r" first\.$"
        ),
    ):
        hold_to(xr.DataTree.from_dict(groups), [requirement("norms.cv fails 0.5")])


@pytest.mark.slow
def test_ingredients_are_swapped_unless_told_not_to(finished: Finished, tmp_path: Path):
    """That they are not, where it is told so, stands in the first test."""
    assert next(iter(finished.tree["ingredients"]["swap"].values)) == "all"
    said = geostat("tables", finished.store, "--only", "ingredients", "--quiet", "--out", tmp_path)
    assert said.code == 0
    assert "norms fitted" in (tmp_path / "ingredients.md").read_text(encoding="utf-8")
