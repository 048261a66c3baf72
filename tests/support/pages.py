"""Pages of runs as the product writes them, without the files beside them, which take longer; what
stands in a page, and arrays as it reads them.
"""

import base64
import gzip
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from reports.page import page
from reports.page.explorer import MISSING


def page_html(tree: xr.DataTree, *, out: Path | None = None, **options: Any) -> str:
    """Return the page that `write_page` writes, into `out` if its files are wanted."""
    with TemporaryDirectory() as folder, patch.object(page, "write_figures_and_tables"):
        written = page.write_page(tree, out or Path(folder), **options)
        return written.read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Tags with their attributes, words and scripts of HTML whose tags all close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def attributes(self, *names: str) -> list[str | None]:
        """What stands in attributes of these names."""
        return [value for _, entry in self.tags for name, value in entry.items() if name in names]

    @property
    def ids(self) -> list[str | None]:
        return self.attributes("id")

    @property
    def references(self) -> list[str | None]:
        """Where the page leads to or fetches from."""
        return self.attributes("src", "href", "xlink:href", "data", "poster", "srcset", "action")

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "input", "br"}:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self.scripts[-1] += data
        elif inside != "style":
            self.words.append(data)

    def handle_comment(self, data):
        assert "-->" not in data
        assert self.open[-1] not in ("p", "td")


def unpacked(directory: dict[str, Any], text: str, name: str) -> NDArray[np.float64]:
    """Read an array of the explorer back, as the page does."""
    entry = directory[name]
    kind = "<f4" if entry["kind"] == "float" else "<i2"
    data = np.frombuffer(
        gzip.decompress(base64.b64decode(text)),
        kind,
        count=int(np.prod(entry["shape"])),
        offset=entry["start"],
    )
    values = data.reshape(entry["shape"]).astype(np.float64)
    if entry["kind"] == "float":
        return values
    values = np.where(values == MISSING, np.nan, entry["offset"] + entry["scale"] * values)
    return np.exp(values) if entry["logarithm"] else values
