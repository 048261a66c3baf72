"""docs/studies/audit.md: written from an audit, every verdict computed and able to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.places import DOCS

from theory.audit import document, summary, truth
from theory.audit.__main__ import main
from theory.audit.document import verdicts


@pytest.fixture(scope="module")
def few() -> list[summary.Audit]:
    # What is written of an audit is tested here, so rows in doubt are drawn again a few times only.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(truth, "LADDER", (4, 16))
        small = summary.audit(summary.UNDER_MODEL_G, sample="small", draws=60, every=80, seed=1)
        return [
            summary.audit(sample=sample, draws=60, every=every, seed=1)
            for sample, every in (("grid", 160), ("random", 150))
        ] + [small]


def changed(
    found: summary.Audit, edition: str, quantity: str, **arrays: np.ndarray
) -> summary.Audit:
    """The audit with some arrays of one edition and quantity replaced."""
    return replace(
        found,
        rows=found.rows | {(edition, quantity): replace(found.rows[edition, quantity], **arrays)},
    )


def missed(found: summary.Audit) -> list[str]:
    return [verdict.target for verdict in verdicts(found) if not verdict.met]


def test_the_document_says_how_what_and_every_number(few: list[summary.Audit]):
    written = document.document(few, every=160)
    for part in (
        "60 draws",
        "seed 1",
        "every 160th",
        "**Violated**",
        "**Vacuous**",
        "## Grid",
        "## Random heads",
        "## Small heads",
        "| conditional | E R(r_min) |",
    ):
        assert part in written
    for one in few:
        for line in summary.table(one):
            assert (
                f"| {line.edition} | {document.WORDS[line.quantity]} | {line.violated_lower} |"
                f" {line.violated_upper} |" in written
            )
    assert "nan |" not in written
    assert "**missed**" in written  # too few rows
    assert max(map(len, [row for row in written.splitlines() if row.startswith("|")])) < 400


def test_each_verdict_can_fail(few: list[summary.Audit]):
    found = few[0]
    sharp, narrow, predicted = (
        found.rows[edition, "precision"] for edition in ("sharp", "conditional", "predicted")
    )
    one = np.zeros_like(sharp.violated)
    one[0, 0] = True
    assert "At least 2,000 rows" in missed(found)
    assert "`sharp` against Model G: no violation" in missed(
        changed(found, "sharp", "precision", violated=one)
    )
    assert "`conditional` against Model G: no violation" in missed(
        changed(found, "conditional", "recall", violated=one)
    )
    assert any(
        target.startswith("`repaired`, lower")
        for target in missed(changed(found, "repaired", "recall", violated=one))
    )
    assert not any(
        target.startswith("`repaired`, lower")
        for target in missed(changed(found, "repaired", "recall", violated=one[::-1]))
    )
    silent = missed(changed(found, "sharp", "recall", lower=np.zeros_like(sharp.lower)))
    assert any(target.startswith("`sharp` says something") for target in silent)
    wide = missed(
        changed(
            found,
            "conditional",
            "precision",
            upper=np.ones_like(narrow.upper),
            lower=np.zeros_like(narrow.lower),
        )
    )
    assert sum("median width of E P(r_max)" in target for target in wide) == 2
    far = missed(
        changed(
            found,
            "predicted",
            "precision",
            lower=predicted.truth + 0.1,
            reliable=np.ones_like(predicted.reliable),
        )
    )
    assert sum(target.startswith("`predicted`") for target in far) == 3
    good = changed(found, "predicted", "precision", lower=predicted.truth)
    for quantity in ("recall", "f_outer", "f_inner", "f_followup"):
        good = changed(good, "predicted", quantity, lower=found.rows["predicted", quantity].truth)
    assert not any(target.startswith("`predicted`") for target in missed(good))


def test_small_heads_have_their_own_targets(few: list[summary.Audit]):
    found = few[2]
    one = np.zeros_like(found.rows["conditional", "recall_followup"].violated)
    one[1, 0] = True
    assert "At least 4,000 cells: rows in two conventions" in missed(found)
    assert "`conditional` against Model G: no violation" in missed(
        changed(found, "conditional", "recall_followup", violated=one)
    )
    assert not any("width" in verdict.target for verdict in verdicts(found))


@pytest.mark.slow
def test_the_command_writes_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "audit.md"
    main([str(out), "--draws", "20", "--every", "1000"])
    assert out.read_text(encoding="utf-8").startswith("# Every edition against simulation")
    assert "100%" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(out), "--draws", "1"])


def test_the_document_in_docs_is_whole_and_recent():
    written = (DOCS / "studies" / "audit.md").read_text(encoding="utf-8")
    assert "3,645 rows" in written
    assert "## Small heads" in written
    for line in document._how(
        [summary.Audit(rows={}, draws=1000, seed=0, sample="grid", heads=0)], 1
    ):
        assert line in written
    for edition in ("printed", "repaired", "sharp", "conditional", "predicted"):
        assert f"| {edition} |" in written
