"""Requirements on verdicts: `--require` gives exit code 3 if one is not met, after everything is
written; `--tolerances` replaces tolerances.
"""

import shutil
from pathlib import Path

import pytest
from support.spine import Finished, Said, argv, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.errors import InputError
from geostat.runs import render
from geostat.runs.console import Console
from geostat.topics.claims import enforce_requirements, requirement


@pytest.fixture
def store(finished: Finished, tmp_path: Path) -> Path:
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.mark.usefixtures("read_once")
def test_met_requirements_are_printed_and_unmet_ones_give_exit_code_3(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lax = tmp_path / "lax.toml"
    lax.write_text('[norms.cv]\nat_most = 10\nsource = "test"\n', encoding="utf-8")
    words = argv('--no-swap --edition sharp --require "norms.cv holds 1" --quiet')
    unmet = ("--require", "norms.cv fails 1", "--tolerances", lax)
    message = "geostat: norms.cv fails in 0.0% of 8 KV heads, required at least 100.0%.\n"
    assert geostat("confront", store, *words, *unmet) == Said(3, "", message)
    # The verdicts are written nevertheless.
    assert float(Store.open(store).read("verdicts")["tolerance"].sel(claim="norms.cv")) == 10
    assert "ingredients" not in Store.open(store).results
    written = []

    def write_report(store: Store, out: Path, console: Console) -> Path:
        written.append(store.path)
        return out

    monkeypatch.setattr(render, "write_report", write_report)
    words = ("report", store, "--require", "norms.cv holds 1")
    assert geostat(*words, "--require", "norms.cv fails 1", "--quiet") == Said(3, "", message)
    assert written == [store]
    met = geostat(*words)
    assert met.code == 0
    assert met.stdout.splitlines()[-2:] == [
        "required:",
        "  norms.cv holds in 100.0% of 8 KV heads, meeting the required 100.0%",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("same_results", "read_once")
def test_an_outdated_page_is_named_with_the_command_that_renews_it(store: Path, finished: Finished):
    confront = ("confront", store, "--edition", "sharp")
    tables, page = store.parent / "tables", store.parent / "report.html"
    shutil.copytree(finished.out / "tables", tables)
    line = geostat(*confront).stderr.splitlines()[-1]
    assert line.startswith(f"geostat: The tables in {tables} are older than these numbers.")
    assert line.endswith(f"Run `geostat tables {store}` to renew them.")
    shutil.copy(finished.out / "report.html", page)
    result = geostat(*confront, "--require", "norms.cv fails 0")
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"geostat: {page} is older than these numbers.")
    assert line.endswith(f"Run `geostat report {store}` to renew it.")
    assert result.stdout.splitlines()[-2] == "required:"
    assert geostat(*confront, "--quiet") == Said(0, "", "")


def test_a_damaged_fit_needs_no_new_capture(store: Path):
    """The capture is intact, and every command gives the same remedy."""
    chunk = next(file for file in (store / "norms" / "cv_token" / "c").rglob("*") if file.is_file())
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(bytes(data))
    renewal = f"run `geostat fit {store} --fresh`, then `geostat confront {store}`."
    for command in (("fit", store, "--quiet"), ("report", store, "--quiet"), ("doctor", store)):
        line = refused(geostat(*command), code=4)
        assert line.startswith(f"{chunk}: damaged")
        assert line.endswith(f"The measurements are intact: {renewal}")


def test_invalid_requirements_and_tolerances_are_refused_before_any_work(
    store: Path, tmp_path: Path
):
    before = Store.open(store).read("verdicts")
    for option, value, message in (
        ("--require", "norms.cv is good", "expected a claim, holds, holds trivially, fails"),
        ("--tolerances", tmp_path / "none.toml", "cannot be read"),
    ):
        assert message in refused(geostat("confront", store, option, value))
    assert Store.open(store).read("verdicts").identical(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure", "read_once")
def test_a_run_with_a_withdrawn_claim_must_be_confronted_again(
    store: Path, finished: Finished, tmp_path: Path
):
    opened, out = Store.open(store), tmp_path / "out"
    with opened.alone():
        verdicts = opened.read("verdicts")
        claims = verdicts.attrs["claims"].replace("bounds.sharp_offset", "bounds.sharp_measured")
        opened.put({"verdicts": verdicts.assign_attrs(claims=claims)})
    for command in (("report", store), ("compare", finished.store, store)):
        line = refused(geostat(*command, "--out", out, "--quiet"))
        assert line.startswith(f"{store}: its claim bounds.sharp_measured was withdrawn: ")
        assert line.endswith("Run `geostat confront` on it again.")
    run = gs.open(store)
    with pytest.raises(InputError, match=r"^env: its claim bounds\.sharp_measured was withdrawn"):
        gs.report(run, run, run, out=out)
    result = geostat("confront", store, "--edition", "sharp", "--no-swap")
    assert result.code == 0
    assert "older" not in result.stderr
    claims = Store.open(store).read("verdicts").attrs["claims"]
    assert "bounds.sharp_offset" in claims
    assert "bounds.sharp_measured" not in claims


def test_a_run_without_verdicts_is_refused_with_the_remedy(finished: Finished):
    bare = finished.tree.drop_nodes("verdicts")
    with pytest.raises(InputError, match=r"has no verdicts yet.*Run `geostat confront` on it"):
        enforce_requirements(bare, [requirement("norms.cv fails 0.5")])
