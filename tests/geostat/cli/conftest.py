"""Fixtures of tests of the command."""

import pytest
import xarray as xr
from support.spine import Finished

from geostat.display.tree import with_display
from geostat.runs import render


@pytest.fixture(scope="session")
def shown(finished: Finished) -> xr.DataTree:
    """Return the finished run with display groups."""
    return with_display(finished.tree)


@pytest.fixture
def displayed(shown: xr.DataTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and figures of any copy of the finished run use these display groups."""
    monkeypatch.setattr(render, "with_display", lambda tree: shown)
