"""report.json: content of the page as data, valid by its schema, equal for equal runs."""

import json
import re

import jsonschema
import pytest
from support.pages import page_html
from support.places import ROOT
from support.reports_tree import run_tree
from support.spine import Finished

from reports.page.record import SCHEMA, as_text, claims
from reports.run import Run, column


@pytest.fixture(scope="module")
def written(finished: Finished) -> dict:
    return json.loads((finished.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    content = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def test_the_record_of_a_finished_run_is_valid(schema, written):
    schema.validate(written)
    part = written["parts"][0]
    assert len(part["key_results"]) == 6
    assert [figure["name"] for figure in part["figures"]] == ["claims", "idea"]
    assert {table["name"] for table in part["tables"]} > {"norms", "verdicts", "heads"}


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    ("options", "tokens"), [({"documents": 1, "null": False}, [64]), ({"window": 40}, [64, 40])]
)
def test_records_of_incomplete_runs_are_valid(options, tokens, schema, tmp_path):
    page_html(run_tree(**options), out=tmp_path)
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    schema.validate(record)
    assert [part["tokens"] for part in record["parts"]] == tokens


def test_the_schema_refuses_a_number_that_is_text(schema, written):
    part = written["parts"][0]
    assert not schema.is_valid(written | {"parts": [part | {"heads": "16"}]})


def test_the_docs_contain_the_schema():
    assert (ROOT / "docs/_static/report.schema.json").read_text() == SCHEMA.read_text()


@pytest.mark.usefixtures("one_figure")
def test_equal_runs_give_equal_files_for_any_wall_time(tmp_path):
    for name, seconds in (("a", {"fit": 1.0}), ("b", {"fit": 2.0})):
        page_html(run_tree(), out=tmp_path / name, seconds=seconds)
    first, second = ((tmp_path / name / "report.json").read_bytes() for name in "ab")
    assert first == second


def test_no_number_is_written_as_nan():
    assert as_text({"value": float("nan")}) == '{"value":null}\n'


def test_counts_of_claims_equal_their_verdicts(finished: Finished, written):
    data = finished.tree["verdicts"].to_dataset()
    by_key = {claim["key"]: claim for claim in written["parts"][0]["claims"]}
    assert list(by_key) == list(data["claim"].values)
    for key, claim in by_key.items():
        assert claim["holds"] == int(data["holds"].sel(claim=key))
        answers = column(data, claim)
        assert claim["by_layer"]["fails"] == (answers == -1).sum(axis=1).tolist()
        total = sum(claim[name] for name in ("holds", "fails", "undetermined", "no_estimate"))
        assert total == answers.size
    assert claims(Run.of(run_tree())) == []


def test_the_page_contains_the_text_of_the_record(finished: Finished, written):
    html = (finished.out / "report.html").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"<[^>]+>", "", html).split())
    part = written["parts"][0]
    shown = [result["verdict"] for result in part["key_results"]]
    shown += [topic["question"] for topic in part["topics"]]
    assert [text for text in (*shown, part["short_sentences"]["norms"]) if text not in words] == []
