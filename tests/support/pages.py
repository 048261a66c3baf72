"""Pages of runs as the product writes them, without the files beside them, which take longer."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import xarray as xr

from reports.page import page


def page_html(tree: xr.DataTree, *, out: Path | None = None, **options: Any) -> str:
    """Return the page that `write_page` writes, into `out` if its files are wanted."""
    with TemporaryDirectory() as folder, patch.object(page, "write_beside"):
        written = page.write_page(tree, out or Path(folder), **options)
        return written.read_text(encoding="utf-8")
