"""Study of intervals: distributions of documents, coverage, and printed rows."""

import sys

import numpy as np
import pytest

from studies.intervals import (
    EFFECTS,
    KINDS,
    LAWS,
    MODEL,
    SAMPLES,
    kinds_of_text,
    main,
    means,
    of_norms,
)


@pytest.mark.parametrize("law", [law for law in LAWS if law != "lognormal"])
def test_documents_have_mean_zero_and_standard_deviation_one(law):
    x = LAWS[law]((1_000_000,), np.random.default_rng(0))
    assert x.mean() == pytest.approx(0, abs=0.01)
    assert x.std() == pytest.approx(1, abs=0.15 if law == "t(3)" else 0.01)


def test_intervals_of_normal_documents_have_nominal_coverage():
    row = means("normal", 8, 0.0, 0.0, 90, 0)
    assert float(row.split("covered")[1].split("%")[0]) == pytest.approx(95, abs=2)


def test_kinds_that_vary_at_random_need_intervals_by_kind():
    """The standard error of each coverage is below 1.5%."""
    documents, kinds = (
        float(part.split()[0].rstrip("%"))
        for part in kinds_of_text("normal", 5, 2, 300, 0)
        .split(" by documents ")[1]
        .split(" by kinds ")
    )
    assert documents < 88 < 90 < kinds < 98


def test_intervals_of_norm_parameters_have_nominal_coverage():
    for row in of_norms("normal", 300, 0):
        assert float(row.split("covered")[1].split("%")[0]) == pytest.approx(95, abs=4)


@pytest.mark.slow
def test_the_command_prints_every_row(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["study", "--heads", "24"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == (4 * len(SAMPLES) + len(KINDS)) * len(LAWS) + 2 * 2 * len(
        EFFECTS
    ) + 7 * len(LAWS)
    assert MODEL == 90
