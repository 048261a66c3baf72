"""report.json: content of the page as data, valid by its schema."""

import json

import jsonschema
import pytest
from support.places import ROOT
from support.reports_tree import run_tree
from support.spine import Finished

from reports.page.record import ANSWERS, SCHEMA, as_text, claims
from reports.run import Run, column


@pytest.fixture(scope="module")
def written(finished: Finished) -> dict:
    return json.loads((finished.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    content = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def test_the_record_of_a_finished_run_is_valid_and_one_with_text_for_a_number_is_not(
    schema, written
):
    schema.validate(written)
    part = written["parts"][0]
    assert not schema.is_valid(written | {"parts": [part | {"heads": "16"}]})
    assert len(part["key_results"]) == 6
    assert [figure["name"] for figure in part["figures"]] == ["claims", "idea"]
    assert {table["name"] for table in part["tables"]} > {"norms", "verdicts", "heads"}


def test_the_docs_contain_the_schema():
    assert (ROOT / "docs/_static/report.schema.json").read_text() == SCHEMA.read_text()


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
        assert claim["by_layer"]["holds_trivially"] == (answers == 2).sum(axis=1).tolist()
        assert sum(claim[name] for name in ANSWERS) == answers.size
    assert claims(Run.of(run_tree())) == []
