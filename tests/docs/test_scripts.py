"""Scripts whose numbers the pages quote: each prints what a run holds."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.places import DOCS, ROOT
from support.spine import LENGTH, Finished

from docs.scripts import balls, cluster_on_paper, noise_limits, pages, unit_directions


def median(tree: xr.DataTree, group: str, name: str) -> float:
    return float(np.nanmedian(tree[group][name].values))


def as_printed(values: xr.DataArray) -> xr.DataArray:
    return values.sel(edition="printed", gram="exponential", n_envelope=slice(2, LENGTH - 1))


EXPECTED: dict[str, Callable[[xr.DataTree], str]] = {
    "norms": lambda tree: f"median cv_token: {median(tree, 'norms', 'cv_token'):.4f}",
    "similarity": lambda tree: (
        f"offset        {float(tree['similarity']['mae_by_lag'].sel(gram='offset').median()):.4f}"
    ),
    "weights": lambda tree: (
        f"sum of the fitted weights: {median(tree, 'weights', 'total_model_log'):.2f}\n"
    ),
    "shares_by_documents": lambda tree: (
        f"3 documents: common_share {median(tree, 'weights', 'common_share'):.2f}"
        f" r2_document {median(tree, 'weights', 'r2_document'):.2f}"
    ),
    "depth": lambda tree: (
        f"p_sink        {float(tree['pooled']['change'].sel(parameter='p_sink')):.3f}"
    ),
    "bounds": lambda tree: (
        "largest printed lower bound of Recall:"
        f" {float(as_printed(tree['envelope']['recall_lower']).max()):.3g}"
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_script_prints_what_the_run_holds(
    name: str,
    finished: Finished,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("geostat.api.open", lambda path: finished.tree)  # verified once
    import_module(f"docs.scripts.{name}").main(str(finished.out))
    assert EXPECTED[name](finished.tree) in capsys.readouterr().out


def test_every_script_is_tested_and_named_where_its_number_stands():
    scripts = {path.stem for path in (DOCS / "scripts").glob("*.py")}
    others = {
        "balls",
        "cluster_on_paper",
        "noise_limits",
        "pages",
        "unit_directions",
        "readme_numbers",
        "quoted_tables",
    }
    assert scripts == set(EXPECTED) | others
    texts = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    said = "\n".join(page.read_text(encoding="utf-8") for page in texts)
    assert [name for name in scripts if f"python -m docs.scripts.{name}" not in said] == []


def test_a_bound_of_model_g_is_passed_by_unit_directions(capsys: pytest.CaptureFixture[str]):
    unit_directions.main(draws=20_000)
    bound, unit, model = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert bound == pytest.approx(0.969, abs=0.0005)
    assert unit == pytest.approx(0.980, abs=0.003)  # three standard errors of 20,000 draws
    assert model < bound + 0.003


@pytest.mark.slow
def test_the_limits_that_a_page_quotes_are_those_of_the_tests(capsys: pytest.CaptureFixture[str]):
    noise_limits.main()
    amplitude, growth = re.findall(r"[0-9]+\.[0-9]+", capsys.readouterr().out)
    page = " ".join((DOCS / "explanation" / "verdicts.md").read_text(encoding="utf-8").split())
    assert f"from an amplitude of {amplitude} on, and growth from {growth} nats on" in page


def test_the_picture_shows_the_precision_and_recall_that_the_page_tells(tmp_path: Path):
    balls.main(str(tmp_path / "balls.png"))
    assert (tmp_path / "balls.png").stat().st_size > 10_000
    found = balls.measured()
    page = (DOCS / "explanation" / "precision_and_recall.md").read_text(encoding="utf-8")
    assert found["precision"] == pytest.approx(3 / 5)
    assert found["recall"] == pytest.approx(2 / 3)
    assert "Precision is 3/5" in page
    assert "Recall is 2/3" in page


@pytest.mark.parametrize("name", ["command_line", "claims", "signatures"])
def test_pages_of_the_reference_are_what_the_program_says(name: str):
    page = DOCS / "reference" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == getattr(pages, name)(), f"run {pages.COMMAND}"


def test_the_page_on_clusters_has_what_the_script_multiplies_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster_on_paper.main()
    page = (DOCS / "how_to" / "cluster.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page


def test_what_is_multiplied_out_is_what_was_measured_last() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    constants = cluster_on_paper
    assert f"take one thread {constants.ENVELOPE_S:.2f} s" in measured
    assert f"| gets it packed, as from a worker | {constants.WRITER_MS} |" in measured
    shared = "| finds it on its disk, where two others write the shards |"
    (row,) = (line for line in measured.splitlines() if line.startswith(shared))
    assert row.endswith(f"| {constants.SHARED_MS} |")
    assert f"({constants.ARRAYS} arrays, {constants.DOCUMENT_MB} MB packed)" in measured
    for name, least in (
        ("geometry, default N", "geometry"),
        ("baselines, last query", "baselines"),
    ):
        row = next(line for line in measured.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {constants.LEAST_US[least]:,} |" in row
