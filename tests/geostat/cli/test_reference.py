"""The reference page lists the variables of a run."""

import pytest
from support.places import DOCS
from support.spine import Finished

from geostat.cli.reference import RECORDS, reference

PAGE = DOCS / "reference" / "variables.md"
DESCRIPTION = ("long_name", "units", "symbol", "equation")


def test_the_page_lists_the_records():
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run python -m geostat.cli.reference docs/reference/variables.md"
    )


@pytest.mark.parametrize("group", RECORDS)
def test_a_run_holds_exactly_the_recorded_variables(finished: Finished, group: str):
    if group not in finished.tree:
        pytest.skip("made on request")
    held = finished.tree[group].to_dataset()
    parts = {part.name: part for record in RECORDS[group] for part in record.parts().values()}
    # Principal components need named heads, and results on kinds need several kinds of text; this
    # run has neither. F-scores are derived on opening.
    absent = {
        name for name in parts if name.startswith(("between_", "kind_", "principal_components"))
    }
    derived = {"f_outer", "f_inner"} if group in ("capture", "null") else set()
    assert set(map(str, held.data_vars)) - derived == set(parts) - absent
    for name in set(parts) - absent:
        assert set(held[name].dims) == set(parts[name].dims), name
        for word in DESCRIPTION:
            assert held[name].attrs[word] == parts[name].attributes[word], (name, word)
