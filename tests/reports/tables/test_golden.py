"""Golden files of tables, byte for byte; equal runs give equal files."""

from pathlib import Path

import pytest
from support.golden_tables import FOLDER, chosen, written
from support.places import contents
from support.reports_tree import plain_tree
from support.spine import Finished

from empirical.store.store import Store
from geostat.display.tree import with_display
from geostat.runs.options import TablesOptions
from geostat.runs.render import write_tables
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


def test_golden_files_contain_the_values_of_the_run(files: dict[str, str]):
    """What a renewed golden file has to hold."""
    bound = "at N = 7, edition sharp, gram offset; one of 80 bounds"
    for row in (
        '$C$,made-up quantity (value units); Assumption 1,"1 [0.850, 1.15]",0.10,4',
        "norms are constant,≤ 0.05; §3.1,1 (0),1 (1),1,50% (32% to 68%) of 3 KV heads; 1 more"
        " without an estimate,8.9%",
        "curves lie within <sharp> bounds,|·| ≤ 0.01; a & b,2 (2),2 (0),4,n/a; 8 heads,100%",
        "0,1 / 1,2 / 1\n1,0 / 0,0 / 1\n",
        "norms.cv,L0V0,holds,0.1000 ± 0.0010,0.0980 to 0.102,0.50,≤ 0.05,0.010,<0.0001,0.020,0.50,",
        "norms.cv,L1V1,no estimate,n/a,n/a,",
        f'0.25,0.75,0.020,0.50,"/envelope/precision_lower − precision {bound}"',
        f'0.25,0.75,0.16,0.50,"/envelope/recall − recall_upper {bound}"',
        '"norm, $C$",4,62%,30% to 81%,0.0095,0.77,1.3',
    ):
        assert row in files["tables.csv"]
    assert len(chosen()) == files["tables.tex"].count(r"\caption")


def test_equal_runs_give_equal_bytes():
    first, second = (tables(with_display(plain_tree.__wrapped__(documents=3))) for _ in range(2))
    assert first is not second
    assert [table.json() for table in first.values()] == [table.json() for table in second.values()]


@pytest.mark.slow
def test_two_renderings_of_a_run_are_equal(finished: Finished, tmp_path: Path):
    options = {"formats": ",".join(TablesOptions.FORMATS), "standalone": True}
    for name in ("first", "second"):
        table_options = TablesOptions(run=finished.store, out=tmp_path / name, **options)
        write_tables(Store.open(finished.store), table_options)
    first, second = (contents(tmp_path / name) for name in ("first", "second"))
    assert first == second
    assert {path.rpartition(".")[2] for path in first} == {"tex", "md", "html", "csv", "json"}
    assert contents(finished.out / "tables").items() <= first.items()
