"""The `geostat` command: output, JSON and exit codes."""

import json
import re
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from support.spine import LENGTH, Finished, Said, argv, geostat, refused
from typer.testing import CliRunner

from empirical.store.store import Store
from geostat.cli.app import app

pytestmark = pytest.mark.usefixtures("read_once", "displayed")


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Path:
    return shutil.copytree(finished.store, tmp_path / "run.zarr")


def test_run_reports_its_stages_and_prints_the_verdict(finished: Finished):
    output = finished.said
    stages = [line.removeprefix("geostat: ") for line in output.stderr.splitlines()]
    # On a machine without compiled kernels, some stages print a note about compilation.
    beside = re.compile(r"documents|\d%$|^compile kernels, once on this machine")
    assert [stage for stage in stages if not beside.search(stage)] == [
        *("read the text", "load the model", "capture", "untrained control"),
        *("fit norms", "fit similarity", "fit weights", "fit pooled heads"),
        *("analyses", "confront", "cost of assumptions", "sensitivity of the bounds", "report"),
    ]
    assert any(stage.startswith("3/3 documents") for stage in stages)
    for stage in ("fit norms", "fit weights", "confront", "sensitivity of the bounds"):
        assert f"{stage} 100%" in stages
    lines = output.stdout.splitlines()
    assert lines[0] == "verdict:"
    results = [json.loads(line) for line in finished.tree["summary"].attrs["key_results"]]
    for line, result in zip(lines[1:7], results, strict=True):
        assert line.split()[0] == result["key"]
        assert line.split(maxsplit=1)[1].startswith(result["answer"])
    assert lines[7:] == [f"run: {finished.store}", f"report: {finished.out / 'report.html'}"]
    assert "Assumption 2" in (finished.out / "report.html").read_text(encoding="utf-8")
    figures = [len(list((finished.out / "figures").glob(f"*.{kind}"))) for kind in ("pdf", "png")]
    assert figures == [2, 2]
    assert list((finished.out / "tables").glob("*.tex"))


@pytest.mark.slow
def test_only_the_requested_table_and_figure_are_written(finished: Finished, tmp_path: Path):
    for line in (
        "tables --format csv,json",
        "tables --format latex --columns 2 --standalone",
        "figures --format svg --width 8.255cm",
    ):
        part, *options = argv(f"{line} --only norms --quiet --out")
        assert geostat(part, finished.store, *options, tmp_path).code == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    norms = {f"norms.{kind}" for kind in ("csv", "json", "svg", "tex")}
    assert set(written) == norms | {"norms_caption.tex", "norms_caption.txt", "tables.tex"}
    assert r"\begin{table*}" in written["norms.tex"]
    assert written["tables.tex"].startswith(r"\documentclass[twocolumn]{article}")
    assert written["tables.tex"].count(r"\caption") == 1
    width = re.search(r'width="([0-9.]+)pt"', written["norms.svg"])
    assert float(width[1]) == pytest.approx(3.25 * 72)


@pytest.mark.slow
def test_json_goes_to_stdout_and_stages_to_stderr(finished: Finished, copied: Path):
    result = geostat("confront", copied, "--edition", "sharp", "--n", "all", "--json")
    assert result.code == 0
    assert "confront" in result.stderr
    actual = json.loads(result.stdout)
    assert actual["run"] == str(copied)
    assert list(actual) == ["key_results", "claims", "scoreboard", "sentences", "run"]
    assert (len(actual["key_results"]), len(actual["sentences"])) == (6, 5)
    verdicts = Store.open(copied).read("verdicts")
    assert [claim["key"] for claim in actual["claims"]] == list(verdicts["claim"].values)
    for claim in actual["claims"]:
        selected = verdicts.sel(claim=claim["key"])
        share = np.nan if claim["true_share"] is None else claim["true_share"]
        assert claim["fails"] == int(selected["fails"])
        assert share == pytest.approx(float(selected["true_share"]), nan_ok=True)
    scored = [row["key"] for row in actual["scoreboard"][0]]
    assert scored[:2] == ["norms_stable", "sink_compressed"]
    envelope = Store.open(copied).read("envelope")
    assert list(envelope["edition"].values) == ["sharp"]
    np.testing.assert_array_equal(envelope["n_envelope"], finished.tree["capture"]["n"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits", "same_results")
def test_quiet_prints_only_json(copied: Path):
    assert geostat("confront", copied, "--quiet") == Said(0, "", "")
    assert geostat("tables", copied, "--only", "norms", "--quiet") == Said(0, "", "")
    assert list((copied.parent / "tables").glob("*.tex"))
    fitted = geostat("fit", copied, "--json", "--quiet")
    assert (fitted.code, fitted.stderr) == (0, "")
    assert json.loads(fitted.stdout)["results"] == ["norms", "pooled", "similarity", "weights"]


def test_rare_options_have_an_effect(tmp_path: Path, model_folder: Path, text_folder: Path):
    given = argv(
        f"--documents 1 --length {LENGTH} --n 1-3 --convention followup --special-tokens none"
        " --seed 7 --head L1H2 --no-null --json --out"
    )
    text, out = text_folder / "text 2.txt", tmp_path / "mine.zarr"
    result = geostat("capture", model_folder, "--text", text, *given, out)
    assert json.loads(result.stdout) == {"run": str(out), "documents": 1}
    tree = Store.open(out).tree()
    assert list(tree["capture"]["n"].values) == [1, 2, 3]
    assert tree["capture"].attrs["convention"] == "followup"
    assert tree["capture"]["token_id"].values[0, 0] != 1  # no special token before the text
    assert tree.attrs["seed"] == 7
    assert list(tree["capture"]["named_head"].values) == ["L1H2"]
    assert "null" not in tree.children


def test_markup_in_names_is_printed_verbatim(tmp_path: Path):
    odd = tmp_path / "[/INST] [bold red]:smile: {0} %s"  # the slash creates two folders
    study = geostat(*argv("whatif --set L=9 --set N=2 --out"), odd)
    assert f"  {odd}/whatif.nc\n" in study.stdout
    assert str(odd) in refused(geostat("fit", odd))


def test_words_of_a_statement_are_joined_and_options_may_follow():
    assert "eq. (12)" in geostat("theory", "12").stdout
    assert json.loads(geostat("theory", "12", "--as", "json").stdout)
    assert geostat("theory", "theorem", 1) == geostat("theory", "Theorem 1")
    assert geostat("theory", "erratum", 17) == geostat("theory", 17, "--errata")
    assert "lists all." in refused(geostat("theory", "unheard-of"))


def test_without_a_command_the_help_lists_all_commands():
    result = geostat()
    for command in argv("run capture fit confront report tables figures theory doctor"):
        assert f"  {command} " in result.stdout + result.stderr


def test_whatif_prints_a_table_and_solves_for_a_target(tmp_path: Path):
    study = argv("whatif --set N=2,4 --set L=32 --set rho0=0 --edition sharp --no-figures --out")
    result = geostat(*study, tmp_path)
    assert result.code == 0
    assert result.stdout.startswith("points: 2, 0 omitted")
    head, *rows = result.stdout.split("by_value:\n")[1].splitlines()[:3]
    assert head.split() == argv("N precision_lower recall_lower f_outer_lower f_inner_lower")
    assert [row.split()[0] for row in rows] == ["2", "4"]
    assert (tmp_path / "whatif.nc").is_file()
    found = geostat(*argv("whatif --find N --target 0.5 --set L=32 --bound precision_lower"))
    assert found.code == 0
    assert "precision_lower" in found.stdout


def test_version_is_the_package_version():
    assert geostat("--version") == Said(0, f"geostat {version('attention-geostat')}\n", "")


def test_a_shell_completes_commands_and_options():
    for begun, offered in (("wha", "whatif"), ("theory --err", "--errata")):
        words = {"COMP_WORDS": f"geostat {begun}", "COMP_CWORD": str(len(begun.split()))}
        env = {"_GEOSTAT_COMPLETE": "complete_bash"} | words
        assert CliRunner().invoke(app, prog_name="geostat", env=env).stdout == f"{offered}\n"
