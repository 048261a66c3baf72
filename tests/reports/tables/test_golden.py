"""Golden files of tables, byte for byte; equal runs give equal files."""

import pytest
from support.golden_tables import FOLDER, written
from support.reports_tree import plain_tree

from geostat.display.tree import with_display
from reports.tables.paper import latex
from reports.tables.table import Table
from reports.topics.listed import tables


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return written()


@pytest.mark.parametrize(
    "name", ["tables.tex", "tables_two_columns.tex", "tables.md", "tables.csv", "tables.json"]
)
def test_a_table_equals_its_golden_file(files: dict[str, str], name: str):
    golden = (FOLDER / name).read_bytes().decode("utf-8")
    assert files[name] == golden, "support.golden_tables renews the files; inspect the difference"


def test_equal_runs_give_equal_bytes():
    first, second = (tables(with_display(plain_tree.__wrapped__(documents=3))) for _ in range(2))
    assert first is not second
    for write in (latex, Table.markdown, Table.html, Table.csv, Table.json):
        assert [*map(write, first.values())] == [*map(write, second.values())]
