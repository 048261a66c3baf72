"""Pages of runs as the product writes them, without the files beside them, which take longer."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import xarray as xr

from reports.page import page


def page_html(tree: xr.DataTree, **options: Any) -> str:
    """Return the page that `write_page` writes."""
    with TemporaryDirectory() as folder, patch.object(page, "write_beside"):
        return page.write_page(tree, Path(folder), **options).read_text(encoding="utf-8")
