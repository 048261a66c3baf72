"""The finished run as it is rendered. Read only."""

import pytest
import xarray as xr
from support.spine import Finished

from geostat.display.tree import with_display
from reports.run import Run


@pytest.fixture(scope="session")
def tree(finished: Finished) -> xr.DataTree:
    return with_display(finished.tree)


@pytest.fixture(scope="session")
def run(tree: xr.DataTree) -> Run:
    return Run.of(tree)
