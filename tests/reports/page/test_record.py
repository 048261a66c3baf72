"""report.json: what the page says as data, by its schema, equal for equal runs."""

import json
import re

import jsonschema
import pytest
import xarray as xr
from support.pages import page_html
from support.places import ROOT
from support.reports_tree import run_tree
from support.spine import Finished

from reports.page.record import SCHEMA, as_text, claims
from reports.run import Run, column


def record_of(tree: xr.DataTree, tmp_path, **options) -> dict:
    page_html(tree, out=tmp_path, **options)
    return json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(finished: Finished) -> dict:
    return json.loads((finished.out / "report.json").read_text(encoding="utf-8"))


def schema() -> jsonschema.Draft202012Validator:
    told = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(told)
    return jsonschema.Draft202012Validator(told)


def test_a_finished_run_keeps_to_the_schema(written):
    schema().validate(written)
    part = written["parts"][0]
    assert len(part["key_results"]) == 6
    assert len(part["figures"]) > 8
    assert {table["name"] for table in part["tables"]} > {"norms", "verdicts", "heads"}


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize("options", [{"documents": 1, "null": False}, {"window": 40}])
def test_runs_of_which_less_is_known_keep_to_it(options, tmp_path):
    told = record_of(run_tree(**options), tmp_path)
    schema().validate(told)
    assert [part["tokens"] for part in told["parts"]] == ([64, 40] if "window" in options else [64])


def test_the_schema_refuses_a_number_that_is_text(written):
    part = written["parts"][0]
    wrong = written | {"parts": [part | {"heads": "16"}]}
    assert not schema().is_valid(wrong)


def test_the_docs_hold_the_schema():
    assert (ROOT / "docs/_static/report.schema.json").read_text() == SCHEMA.read_text()


@pytest.mark.usefixtures("one_figure")
def test_equal_runs_give_equal_files_whatever_time_they_took(tmp_path):
    for name, seconds in (("a", {"fit": 1.0}), ("b", {"fit": 2.0})):
        page_html(run_tree(), out=tmp_path / name, seconds=seconds)
    first, second = ((tmp_path / name / "report.json").read_bytes() for name in "ab")
    assert first == second


def test_no_number_is_written_as_nan():
    assert as_text({"value": float("nan")}) == '{"value":null}\n'


def test_counts_of_claims_are_those_of_their_verdicts(finished: Finished, written):
    data = finished.tree["verdicts"].to_dataset()
    told = {claim["key"]: claim for claim in written["parts"][0]["claims"]}
    assert list(told) == list(data["claim"].values)
    for key, claim in told.items():
        assert claim["holds"] == int(data["holds"].sel(claim=key))
        answers = column(data, claim)
        assert claim["by_layer"]["fails"] == (answers == -1).sum(axis=1).tolist()
        total = sum(claim[name] for name in ("holds", "fails", "undetermined", "no_estimate"))
        assert total == answers.size
    assert claims(Run.of(run_tree())) == []


def test_the_page_says_what_the_file_says(finished: Finished, written):
    html = (finished.out / "report.html").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"<[^>]+>", "", html).split())
    part = written["parts"][0]
    for result in part["key_results"]:
        assert result["verdict"] in words
    assert part["short_sentences"]["norms"] in words
    for topic in part["topics"]:
        assert topic["question"] in words
