"""Golden files of tables, byte for byte; and equal runs give equal files."""

import json
from functools import partial
from pathlib import Path

import pytest
from support.golden_tables import FOLDER, chosen, written
from support.reports_tree import plain_tree
from support.spine import Finished

from empirical.store.store import Store
from geostat.display.tree import with_display
from geostat.runs.render import FORMATS, write_part
from reports.tables.every import tables

WRITTEN = written()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_is_written_as_its_golden_file(name: str):
    golden = (FOLDER / name).read_bytes().decode("utf-8")
    assert WRITTEN[name] == golden, (
        "tables have changed: PYTHONPATH=tests .venv/bin/python -m support.golden_tables renews"
        " the golden files; look at the difference"
    )


def test_golden_files_hold_what_the_run_holds():
    norms = next(table for table in json.loads(WRITTEN["tables.json"]) if table["name"] == "norms")
    assert norms["rows"][0][2]["value"] == 1.0  # the median of 1.1, 0.9, 1.3 and 0.7
    assert "$C$,made-up quantity (value units); Assumption 1" in WRITTEN["tables.csv"]
    assert len(chosen()) == WRITTEN["tables.tex"].count(r"\caption")


def test_runs_made_alike_give_the_same_bytes():
    one, other = (tables(with_display(plain_tree.__wrapped__(documents=3))) for _ in range(2))
    assert one is not other
    assert [table.json() for table in one.values()] == [table.json() for table in other.values()]


@pytest.mark.slow
def test_two_renderings_of_a_run_are_the_same_bytes(finished: Finished, tmp_path: Path):
    write = partial(write_part, "tables", formats=",".join(FORMATS["tables"]), standalone=True)
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        write(Store.open(finished.store), folder)
    one, other = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert one == other
    assert {path.rpartition(".")[2] for path in one} == {"tex", "md", "html", "csv", "json"}
    run = {path.name: path.read_bytes() for path in (finished.out / "tables").iterdir()}
    assert run.items() <= one.items()
