"""Scripts behind quoted numbers: each prints the numbers of a run."""

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
def test_a_script_prints_the_numbers_of_the_run(
    name: str,
    finished: Finished,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("geostat.api.open", lambda path: finished.tree)  # verified once
    import_module(f"docs.scripts.{name}").main(str(finished.out))
    assert EXPECTED[name](finished.tree) in capsys.readouterr().out


def test_every_script_is_tested_and_named_in_a_page():
    scripts = {path.stem for path in (DOCS / "scripts").glob("*.py")}
    others = {"balls", "cluster_on_paper", "noise_limits", "pages", "unit_directions"}
    assert scripts == set(EXPECTED) | others | {"readme_numbers", "quoted_tables"}
    texts = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in texts)
    assert [name for name in scripts if f"python -m docs.scripts.{name}" not in text] == []


def test_unit_directions_exceed_a_bound_of_model_g(capsys: pytest.CaptureFixture[str]):
    unit_directions.main(draws=20_000)
    bound, unit, model = (float(line.split()[-1]) for line in capsys.readouterr().out.splitlines())
    assert bound == pytest.approx(0.969, abs=0.0005)
    assert unit == pytest.approx(0.980, abs=0.003)  # three standard errors of 20,000 draws
    assert model < bound + 0.003


@pytest.mark.slow
def test_quoted_detection_limits_equal_the_computed_ones(capsys: pytest.CaptureFixture[str]):
    noise_limits.main()
    amplitude, growth = re.findall(r"[0-9]+\.[0-9]+", capsys.readouterr().out)
    page = " ".join((DOCS / "explanation" / "verdicts.md").read_text(encoding="utf-8").split())
    assert f"from an amplitude of {amplitude} on, and growth from {growth} nats on" in page


def test_the_figure_shows_precision_and_recall_of_the_page(tmp_path: Path):
    balls.main(str(tmp_path / "balls.png"))
    assert (tmp_path / "balls.png").stat().st_size > 10_000
    found = balls.measured()
    page = (DOCS / "explanation" / "precision_and_recall.md").read_text(encoding="utf-8")
    assert found["precision"] == pytest.approx(3 / 5)
    assert found["recall"] == pytest.approx(2 / 3)
    assert "Precision is 3/5" in page
    assert "Recall is 2/3" in page


@pytest.mark.parametrize("name", ["command_line", "claims", "signatures"])
def test_generated_reference_pages_are_up_to_date(name: str):
    page = DOCS / "reference" / f"{name}.md"
    assert page.read_text(encoding="utf-8") == getattr(pages, name)(), f"run {pages.COMMAND}"


def test_the_cluster_page_quotes_the_projection(capsys: pytest.CaptureFixture[str]):
    cluster_on_paper.main()
    page = (DOCS / "how_to" / "cluster.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page


def test_constants_of_the_projection_equal_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    constants = cluster_on_paper
    prose = " ".join(measured.split())
    assert f"take one thread {constants.ENVELOPE_S:.2f} s" in prose
    assert f"| receives it packed from a worker | {constants.WRITER_MS} |" in measured
    shared = "| finds it on a shared disk; two workers write the shards |"
    (row,) = (line for line in measured.splitlines() if line.startswith(shared))
    assert row.endswith(f"| {constants.SHARED_MS} |")
    assert f"({constants.ARRAYS} arrays, {constants.DOCUMENT_MB} MB packed)" in prose
    for name in ("geometry, default N", "baselines, last query"):
        least, _, _ = name.partition(",")
        row = next(line for line in measured.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {constants.LEAST_US[least]:,} |" in row
