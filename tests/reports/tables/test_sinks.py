"""Sinks by what they do: the tables show the dataset, and the header says what stands first."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from support.reports_tree import run_tree

from reports.page.header import header
from reports.run import Run
from reports.tables.sinks import MEANS, ROWS, sink_tables

TOKENS = {
    "id": [9, 2, 0],
    "text": ["\n", "", ""],
    "cases": [7, 1, 0],  # filled up, as of a run in parts
    "heads": [4, 1, 0],
    "documents": [2, 1, 0],
    "first": [40, 0, 0],
    "last": [48, 0, 0],
    "weight": [0.25, 0.125, np.nan],
    "norm_ratio": [0.2, 0.3, np.nan],
}


def found(first_is_bos=0):
    data = xr.Dataset(
        {
            "share": ("case", [1.0, 0.25, 0.75, 0.0]),
            "heads": ("case", [8, 2, 6, 0]),
            "first_is_bos": ((), first_is_bos),
            **{f"token_{name}": ("sink_token", values) for name, values in TOKENS.items()},
        },
        coords={"case": list(ROWS)},
        attrs={"compressed": 0.5, "much": 10.0, "n": 8},
    )
    for at, name in enumerate(MEANS):
        mean = 0.1 * at + np.array([0.1, 0.2, 0.3, np.nan])
        data[name] = ("case", mean)
        data[f"{name}_se"] = ("case", 0.01 * mean)
    return data


def run_with(data):
    return replace(Run.of(run_tree()), sinks_found=data)


def test_cases_and_tokens_are_those_of_the_dataset():
    cases, tokens = (table.frame() for table in sink_tables(run_with(found())))
    assert list(cases.index if cases.index.name else cases.iloc[:, 0]) == list(ROWS.values())
    rows = cases.reset_index().astype(str)
    assert rows.iloc[2].tolist()[-9:-6] == ["strongest elsewhere", "75.0%", "6"]
    assert rows.iloc[2].tolist()[-6:-4] == ["0.3000 ± 0.0030", "0.400 ± 0.004"]
    assert set(rows.iloc[3].tolist()[-6:]) == {"n/a"}
    listed = tokens.reset_index().astype(str).iloc[:, -8:].values.tolist()
    assert listed == [
        ["“\\n”", "9", "7", "4", "2", "40 to 48", "0.25", "0.20"],
        ["n/a", "2", "1", "1", "1", "0", "0.12", "0.30"],
    ]
    assert sink_tables(run_with(None)) == []
    untold = found().drop_dims("sink_token")
    assert [table.name for table in sink_tables(run_with(untold))] == ["sinks"]


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        (0, "a token of the text, no beginning-of-text token"),
        (3, "the beginning-of-text token in 3 of 3 documents"),
        (-1, None),
    ],
)
def test_the_header_says_what_stands_at_position_0(documents, words):
    facts = dict(header(run_with(found(documents)), None))
    assert facts.get("Position 0") == words
    assert "Heads that see position 0" not in facts


def test_the_header_says_how_many_heads_see_position_0():
    run = run_with(None)
    part = {"tokens": run.positions, "layers": 2, "of": 6, "every": [[run.positions, 2], [9, 4]]}
    facts = dict(header(replace(run, attrs=run.attrs | {"part": part}), None))
    heads = run.capture.sizes["head"]
    assert facts["Heads that see position 0"] == f"{2 * heads} of {6 * heads}"
