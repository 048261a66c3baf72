"""The command as a person meets it: one line and an exit code for bad input, JSON where asked,
silence where asked, and nothing lost to Ctrl-C.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from support.spine import LENGTH, Finished, Said, geostat, refused

from empirical.store.store import Store
from theory.audit import document, summary
from theory.statements import catalogue

pytestmark = pytest.mark.usefixtures("read_once")


def test_the_main_job_tells_its_stages_and_prints_the_verdict(finished: Finished):
    said = finished.said
    stages = [line.removeprefix("geostat: ") for line in said.stderr.splitlines()]
    # On a machine that has not compiled its kernels yet, a note stands beside some stages.
    beside = re.compile(r"documents|\d%$|^compile kernels, once on this machine")
    assert [stage for stage in stages if not beside.search(stage)] == [
        "read the text",
        "load the model",
        "capture",
        "fit norms",
        "fit similarity",
        "fit weights",
        "fit pooled heads",
        "confront",
        "cost of assumptions",
        "sensitivity of the bounds",
        "experiments",
        "report",
    ]
    assert any(stage.startswith("3/3 documents") for stage in stages)
    lines = said.stdout.splitlines()
    assert lines[0] == "verdict:"
    results = [json.loads(line) for line in finished.tree["summary"].attrs["key_results"]]
    assert [line.split()[:2] for line in lines[1:7]] == [
        [one["key"], one["answer"]] for one in results
    ]
    assert lines[7:] == [f"run: {finished.store}", f"report: {finished.out / 'report.html'}"]
    page = (finished.out / "report.html").read_text(encoding="utf-8")
    assert "Assumption 2" in page
    assert (
        len(list((finished.out / "figures").glob("*.pdf")))
        == len(list((finished.out / "figures").glob("*.png")))
        >= 7
    )
    assert list((finished.out / "tables").glob("*.tex"))


@pytest.mark.parametrize(
    ("part", "asked", "said"),
    [
        ("tables", ("--only", "norm"), "'norm' is no table of this run, expected some of "),
        pytest.param(
            *(
                "tables",
                ("--format", "tex"),
                "--format tex: expected one of latex, markdown, html,",
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(
                "tables",
                ("--columns", "3"),
                "--columns 3: expected 1 or 2. Give the columns of your",
            ),
            marks=pytest.mark.slow,
        ),
        (
            "tables",
            ("--standalone", "--format", "csv"),
            "--standalone --format csv: expected latex among the formats, of which the document",
        ),
        ("figures", ("--only", "99"), "'99' is no figure of this run, expected some of "),
        ("figures", ("--format", "gif"), "--format gif: expected one of pdf, png, svg."),
        ("figures", ("--width", "3"), "--width 3: expected 2.5 to 14 inches, as a number with in,"),
        pytest.param(
            *("figures", ("--width", "1.2.3in"), "--width 1.2.3in: expected 2.5 to 14 inches"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("figures", ("--width", "30cm0"), "--width 30cm0: expected 2.5 to 14 inches"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("figures", ("--width", "99cm"), "--width 99cm: expected 2.5 to 14 inches"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("figures", ("--style", "poster"), "--style poster: expected one of paper, slides."),
            marks=pytest.mark.slow,
        ),
        (
            "figures",
            ("--style", "slides", "--width", "3.25in"),
            "--width 3.25in: expected at least 8 inches for --style slides",
        ),
    ],
)
def test_what_is_no_table_figure_format_or_width_is_refused_and_nothing_written(
    finished: Finished, tmp_path: Path, part: str, asked: tuple[str, ...], said: str
):
    out = tmp_path / "new"
    assert refused(geostat(part, finished.store, "--out", out, *asked)).startswith(said)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.slow
def test_one_table_and_one_figure_are_written_as_asked(finished: Finished, tmp_path: Path):
    asked = ("--only", "norms", "--quiet", "--out", tmp_path)
    assert geostat("tables", finished.store, "--format", "csv,json", *asked).code == 0
    paper = ("--format", "latex", "--columns", 2, "--standalone")
    assert geostat("tables", finished.store, *paper, *asked).code == 0
    assert r"\begin{table*}" in (tmp_path / "norms.tex").read_text(encoding="utf-8")
    document = (tmp_path / "tables.tex").read_text(encoding="utf-8")
    assert document.startswith(r"\documentclass[twocolumn]{article}")
    assert document.count(r"\caption") == 1
    given = ("--format", "svg", "--width", "8.255cm")
    assert geostat("figures", finished.store, *given, *asked).code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "norms.csv",
        "norms.json",
        "norms.svg",
        "norms.tex",
        "norms_caption.tex",
        "norms_caption.txt",
        "tables.tex",
    }
    width = re.search(r'width="([0-9.]+)pt"', (tmp_path / "norms.svg").read_text(encoding="utf-8"))
    assert float(width[1]) == pytest.approx(3.25 * 72)


@pytest.mark.slow
def test_json_is_json_and_the_stages_stay_on_stderr(finished: Finished, tmp_path: Path):
    store = tmp_path / "run.zarr"
    shutil.copytree(finished.store, store)
    said = geostat("confront", store, "--edition", "sharp", "--n", "all", "--json")
    assert said.code == 0
    found = json.loads(said.stdout)
    assert found["run"] == str(store)
    assert list(found) == ["key_results", "claims", "scoreboard", "sentences", "run"]
    assert (len(found["key_results"]), len(found["sentences"])) == (6, 5)
    verdicts = Store.open(store).read("verdicts")
    for claim in found["claims"]:
        at = verdicts.sel(claim=claim["key"])
        assert claim["fails"] == int(at["fails"])
        assert claim["true_share"] == pytest.approx(float(at["true_share"]), nan_ok=True) or (
            claim["true_share"] is None and np.isnan(at["true_share"])
        )
    assert len(found["claims"]) == verdicts.sizes["claim"]
    assert [row["key"] for row in found["scoreboard"][0]][:2] == ["norms_stable", "sink_compressed"]
    assert "confront" in said.stderr
    envelope = Store.open(store).read("envelope")
    assert list(envelope["edition"].values) == ["sharp"]
    np.testing.assert_array_equal(envelope["n_envelope"], finished.tree["capture"]["n"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_fits", "same_results")
def test_quiet_is_silent_but_for_what_json_asks(finished: Finished, tmp_path: Path):
    store = tmp_path / "run.zarr"
    shutil.copytree(finished.store, store)
    assert geostat("confront", store, "--quiet") == Said(0, "", "")
    assert geostat("tables", store, "--only", "norms", "--quiet") == Said(0, "", "")
    assert list((tmp_path / "tables").glob("*.tex"))
    fitted = geostat("fit", store, "--json", "--quiet")
    assert (fitted.code, fitted.stderr) == (0, "")
    assert json.loads(fitted.stdout)["results"] == ["norms", "pooled", "similarity", "weights"]


def test_a_seldom_used_word_has_the_result_of_its_option(
    tmp_path: Path, model_folder: Path, text_folder: Path
):
    given = [
        "--documents",
        1,
        "--length",
        LENGTH,
        "--n",
        "1-3",
        "--convention",
        "followup",
        "--special-tokens",
        "none",
        "--seed",
        7,
        "--head",
        "L1H2",
    ]
    said = geostat(
        "capture",
        model_folder,
        "--text",
        text_folder / "text 2.txt",
        *given,
        "--no-null",
        "--out",
        tmp_path / "mine.zarr",
        "--json",
    )
    assert json.loads(said.stdout) == {"run": str(tmp_path / "mine.zarr"), "documents": 1}
    tree = Store.open(tmp_path / "mine.zarr").tree()
    assert list(tree["capture"]["n"].values) == [1, 2, 3]
    assert tree["capture"].attrs["convention"] == "followup"
    assert tree["capture"]["token_id"].values[0, 0] != 1  # no token put before the text
    assert tree.attrs["seed"] == 7
    assert list(tree["capture"]["named_head"].values) == ["L1H2"]
    assert "null" not in tree.children


def test_foreign_markup_is_printed_untouched(tmp_path: Path, model_folder: Path, text_folder: Path):
    odd = tmp_path / "[/INST] [bold red]:smile: {0} %s"
    odd.mkdir(parents=True)  # the slash makes two folders of it
    (odd / "model").symlink_to(model_folder)
    shutil.copy(text_folder / "text 0.txt", odd / "text.txt")
    asked = [
        odd / "model",
        "--text",
        odd / "text.txt",
        "--documents",
        1,
        "--length",
        LENGTH,
        "--n",
        "1,2",
    ]
    said = geostat("capture", *asked, "--out", odd)
    assert said.code == 0
    assert said.stdout == f"run: {odd / 'run.zarr'}\ndocuments: 1\n"
    again = refused(geostat("capture", *asked, "--out", odd, "--seed", "1"))
    assert str(odd) in again


def test_statements_are_printed():
    said = geostat("theory", "12")
    assert said.code == 0
    assert "eq. (12)" in said.stdout
    errata = geostat("theory", "--errata")
    assert errata.code == 0
    assert json.loads(geostat("theory", "12", "--as", "json").stdout)
    assert len(json.loads(geostat("theory", "--errata", "--as", "json").stdout)) == len(
        list(catalogue.errata())
    )
    line = refused(geostat("theory", "unheard-of"))
    assert line.endswith("`geostat theory` lists all.")
    assert len(line.split(", ")) == 3
    assert (
        geostat("theory", "theorem", 1)
        == geostat("theory", "Theorem 1")
        == geostat("theory", "theorem1")
    )
    assert (
        geostat("theory", "erratum", 17)
        == geostat("theory", "--errata", 17)
        == geostat("theory", 17, "--errata")
    )
    assert "| V |" in geostat("theory", "table", 2, "--test").stdout
    assert "expected table 1 or table 2" in refused(geostat("theory", "12", "--test"))
    assert "--as runes" in refused(geostat("theory", "12", "--as", "runes"))


def test_doctor_verifies_a_run(finished: Finished):
    said = geostat("doctor", finished.store.parent, "--json")
    found = json.loads(said.stdout)
    groups = (
        "/envelope, /heads, /ingredients, /norms, /pooled, /sensitivity, /separable,"
        " /similarity, /sink, /sinks_found, /summary, /verdicts, /weights"
    )
    assert found["run"] == f"{finished.store} is sound: 3 documents; {groups}"
    assert "cpu" in found["devices"]


def test_no_command_shows_what_there_is():
    said = geostat()
    for command in (
        "run",
        "capture",
        "fit",
        "confront",
        "report",
        "tables",
        "figures",
        "theory",
        "doctor",
    ):
        assert f"  {command} " in said.stdout + said.stderr


def test_a_study_and_an_audit_are_commands(tmp_path: Path):
    said = geostat(
        "whatif",
        "--set",
        "N=2,4",
        "--set",
        "L=32",
        "--set",
        "rho0=0",
        "--edition",
        "sharp",
        "--out",
        tmp_path / "study",
    )
    assert said.code == 0
    assert said.stdout.startswith("points: 2, 0 of them left out")
    head, *rows = said.stdout.split("by_value:\n")[1].splitlines()[:3]
    assert head.split() == [
        "N",
        "precision_lower",
        "recall_lower",
        "f_outer_lower",
        "f_inner_lower",
    ]
    assert [row.split()[0] for row in rows] == ["2", "4"]
    assert (tmp_path / "study" / "whatif.nc").is_file()
    found = geostat(
        "whatif", "--find", "N", "--target", "0.5", "--set", "L=32", "--bound", "precision_lower"
    )
    assert found.code == 0
    assert "precision_lower" in found.stdout
    assert "'banana' is no parameter" in refused(geostat("whatif", "--set", "banana=1"))
    audited = geostat("theory", "--audit", "--draws", "20", "--every", "1200")
    assert audited.code == 0
    assert "| conditional | E R(r_min) |" in audited.stdout
    assert "expected at least 2 draws" in refused(geostat("theory", "--audit", "--draws", "1"))


def test_an_audit_that_cannot_be_written_is_refused_before_its_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    worked = []
    monkeypatch.setattr(
        summary, "all_samples", lambda *arguments, **options: worked.append(options)
    )
    monkeypatch.setattr(document, "document", lambda found, every: "# Audit\n")
    for out in (tmp_path, tmp_path / "absent" / "audit.md"):
        line = refused(geostat("theory", "--audit", "--out", out))
        assert (
            line
            == f"--out {out}: cannot be written, expected a file in a folder that is there. Name"
            " another."
        )
    assert not worked
    said = geostat("theory", "--audit", "--out", tmp_path / "audit.md")
    assert (said.code, said.stdout, (tmp_path / "audit.md").read_text()) == (0, "", "# Audit\n")


def test_the_version_is_that_of_the_package():
    assert geostat("--version") == Said(0, f"geostat {version('attention-geostat')}\n", "")


@pytest.mark.parametrize(("begun", "offered"), [("wha", "whatif"), ("theory --err", "--errata")])
def test_a_shell_completes_commands_and_options(begun: str, offered: str):
    words = ["geostat", *begun.split()]
    asked = {"_GEOSTAT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words)}
    asked["COMP_CWORD"] = str(len(words) - 1)
    program = "import sys; sys.argv = ['geostat']; from geostat.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered in done.stdout.split(), done
