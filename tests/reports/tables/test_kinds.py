"""Tables of kinds of text: main quantities by kind, and what lies between kinds."""

from support.reports_tree import run_tree, with_kinds

from reports.run import Run
from reports.topics.kinds import HEADERS, tables


def test_quantities_by_kind_stand_in_the_rows_of_the_kinds():
    by_kind, between = tables(Run.of(with_kinds(run_tree())))
    assert (by_kind.name, between.name) == ("kind_estimates", "kinds")
    assert [cell.plain for cell in by_kind.headers] == [
        *("kind of text", "documents"),
        *(HEADERS[name] for name in ("C", "rho0")),
    ]
    rows = [[cell.plain for cell in row] for row in by_kind.rows]
    assert rows == [["$code$", "2", "0.980", "0.200"], ["topics", "1", "1.02", "0.300"]]


def test_a_run_that_lacks_them_has_no_tables():
    assert tables(Run.of(run_tree())) == []
