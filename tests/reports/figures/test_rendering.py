"""Files of figures: equal figures give equal bytes in any environment, with small fonts."""

from __future__ import annotations

import os

import pytest
from fontTools import subset
from support.reports_tree import run_tree

from reports.figures import plan as rendering
from reports.figures import style
from reports.figures.plan import draw, rendered
from reports.run import Run
from reports.topics.listed import FIGURES

PLANS = {plan.name: plan for plan in FIGURES}
FONTS = style.STYLE["pdf.fonttype"]
"""Font type of users; other tests draw glyphs as paths, which is faster."""


@pytest.fixture(autouse=True)
def fonts_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(style.STYLE, "pdf.fonttype", FONTS)


def test_equal_runs_give_equal_files_for_any_source_date_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (draw(PLANS["weights"], Run.of(run_tree())) for _ in range(2))
    for kind in ("svg", "pdf", "png"):
        monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
        plain = rendered(first, kind)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "x")  # which matplotlib would refuse
        assert rendered(second, kind) == plain
        assert os.environ["SOURCE_DATE_EPOCH"] == "x"


def test_fonts_in_pdf_files_are_truetype_without_layout_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure, known = draw(PLANS["norms"], Run.of(run_tree())), subset.Options().drop_tables
    short = rendered(figure, "pdf")
    assert b"/FontFile2" in short
    assert b"/Type3" not in short
    assert subset.Options().drop_tables == known
    monkeypatch.setattr(rendering, "_LAYOUT", ())
    assert len(short) < len(rendered(figure, "pdf"))
