"""Figures as bytes: the surroundings change nothing in them."""

from __future__ import annotations

import os

import pytest
from matplotlib.figure import Figure

from reports.figures.rendering import rendered


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_an_epoch_of_the_environment_dates_no_figure(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Figure(figsize=(1.0, 1.0))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    plain = rendered(figure, kind)
    for epoch in ("x", "-1", "9" * 30, "1700000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        assert rendered(figure, kind) == plain
        assert os.environ["SOURCE_DATE_EPOCH"] == epoch
