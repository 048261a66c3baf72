"""Functional sinks: tables show the dataset, and the header names the token at position 0."""

from dataclasses import replace

import numpy as np
import xarray as xr
from support.reports_tree import HEADS, POSITIONS, cells, run_tree

from reports.page.header import header
from reports.run import Run
from reports.topics.sinks import MEANS, ROWS, tables

TOKENS = {
    "id": [9, 2, 0],
    "text": ["\n", "", ""],
    "cases": [7, 1, 0],  # padded, as in a run in parts
    "heads": [4, 1, 0],
    "documents": [2, 1, 0],
    "first": [40, 0, 0],
    "last": [48, 0, 0],
    "weight": [0.25, 0.125, np.nan],
    "norm_ratio": [0.2, 0.3, np.nan],
}


def sinks(first_is_bos=0):
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
    for index, name in enumerate(MEANS):
        mean = 0.1 * index + np.array([0.1, 0.2, 0.3, np.nan])
        data[name], data[f"{name}_se"] = ("case", mean), ("case", 0.01 * mean)
    return data


def run_with(data, **attrs):
    run = Run.of(run_tree())
    return replace(run, sinks_found=data, attrs=run.attrs | attrs)


def test_cases_and_tokens_equal_the_dataset():
    cases, tokens = tables(run_with(sinks()))
    rows = cells(cases)
    assert [row.split(" | ")[0] for row in rows] == list(ROWS.values())
    first = "strongest elsewhere | 75.0% | 6 | 0.3000 ± 0.0030 | 0.400 ± 0.004 | "
    assert rows[2].startswith(first)
    assert rows[3].endswith(" | n/a" * 6)
    assert cells(tokens) == [
        "“\\n” | 9 | 7 | 4 | 2 | 40 to 48 | 0.25 | 0.20",
        "n/a | 2 | 1 | 1 | 1 | 0 | 0.12 | 0.30",
    ]
    assert tables(run_with(None)) == []
    (without_tokens,) = tables(run_with(sinks().drop_dims("sink_token")))
    assert without_tokens.name == "sinks"


def test_the_header_names_the_token_at_position_0_and_counts_heads_that_see_it():
    for documents, words in (
        (0, "a token of the text, not a beginning-of-text token"),
        (3, "the beginning-of-text token in 3 of 3 documents"),
        (-1, None),
    ):
        facts = dict(header(run_with(sinks(documents)), None))
        assert facts.get("Position 0") == words
        assert "Heads that see position 0" not in facts
    part = {"tokens": POSITIONS, "layers": 2, "of": 6, "every": [[POSITIONS, 2], [9, 4]]}
    facts = dict(header(run_with(None, part=part), None))
    assert facts["Heads that see position 0"] == f"{2 * HEADS} of {6 * HEADS}"
