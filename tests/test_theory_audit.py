"""The audit finds violations where there are some, and none where there are none."""

from dataclasses import replace

import numpy as np
import pytest

from theory import audit


@pytest.fixture(scope="module")
def few() -> audit.Audit:
    return audit.audit(("printed", "repaired", "sharp"), draws=300, every=41)


def test_the_grid_is_wide_enough():
    grid = list(audit.heads())
    assert sum(len(head.n) for head in grid) >= 2000
    assert {head.dimension for head in grid} == set(audit.DIMENSIONS)
    assert min(head.gram.rho0 for head in grid) < 0


def test_proven_bounds_are_not_violated(few: audit.Audit):
    for line in audit.table(few):
        if line.edition in ("sharp", "repaired"):
            assert line.violated_lower == 0, line
        if line.edition == "sharp":
            assert line.violated_upper == 0, line


def test_the_printed_edition_is_violated(few: audit.Audit):
    assert sum(line.violated_lower + line.violated_upper for line in audit.table(few) if line.edition == "printed") > 0


def test_sharp_says_something_wherever_repaired_does(few: audit.Audit):
    assert audit.sharp_beyond_repaired(few, "precision") == audit.sharp_beyond_repaired(few, "recall") == 0


def test_a_bound_that_is_too_tight_is_caught(monkeypatch: pytest.MonkeyPatch):
    true_bounds = audit._bounds

    def tighter(head: audit.Head, edition: str) -> object:
        found = true_bounds(head, edition)
        middle = (found.recall_lower + found.recall_upper) / 2
        return replace(found, recall_lower=middle, recall_upper=middle)

    monkeypatch.setattr(audit, "_bounds", tighter)
    monkeypatch.setattr(audit, "AGAIN", 2)
    lines = {line.quantity: line for line in audit.table(audit.audit(("sharp",), draws=300, every=119))}
    assert lines["recall"].violated_lower + lines["recall"].violated_upper > 0
    assert lines["recall"].worst > 0
    assert lines["precision"].violated_lower + lines["precision"].violated_upper == 0


def test_a_chance_flag_clears_when_drawn_again(monkeypatch: pytest.MonkeyPatch):
    once = audit._truth

    def unlucky(head: audit.Head, directions: str, n: np.ndarray, draws: int, seed: int) -> audit.Truth:
        found = once(head, directions, n, draws, seed)
        return {name: (mean + 0.5 * (draws == 300), error) for name, (mean, error) in found.items()}

    monkeypatch.setattr(audit, "_truth", unlucky)
    monkeypatch.setattr(audit, "AGAIN", 2)
    for line in audit.table(audit.audit(("sharp",), draws=300, every=119)):
        assert line.flagged > 0
        assert line.violated_lower + line.violated_upper == 0


def test_the_table_names_every_edition_and_quantity(few: audit.Audit):
    written = audit.markdown(few).splitlines()
    assert written[0].startswith("| edition | of | rows | violated, lower")
    assert len(written) == 2 + 3 * 4
