"""The reference of variables is what a run holds."""

from pathlib import Path

import pytest
from support.spine import Finished

from geostat.runs.reference import RECORDS, reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "variables.md"


def test_the_page_is_written_from_the_records():
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run python -m geostat.runs.reference docs/reference/variables.md"
    )


@pytest.mark.parametrize("group", RECORDS)
def test_a_run_holds_what_the_records_say_and_nothing_else(finished: Finished, group: str):
    if group not in finished.tree:
        pytest.skip("made on request")
    held = finished.tree[group].to_dataset()
    parts = {part.name: part for record in RECORDS[group] for part in record.parts().values()}
    # Principal components are of named heads only, and no head is named here; the texts are of one
    # kind, so nothing lies between kinds; F-scores are derived on opening.
    between = {name for name in parts if name.startswith("between_")}
    absent = ({"principal_components"} | between) & set(parts)
    derived = {"f_outer", "f_inner"} if group in ("capture", "null") else set()
    assert set(map(str, held.data_vars)) - derived == set(parts) - absent
    for name in set(parts) - absent:
        assert set(held[name].dims) == set(parts[name].dims), name
        assert {
            key: held[name].attrs[key] for key in ("long_name", "units", "symbol", "equation")
        } == {
            key: parts[name].attributes[key] for key in ("long_name", "units", "symbol", "equation")
        }, name
