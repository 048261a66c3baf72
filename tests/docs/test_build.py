"""The documentation builds without a warning, fetches nothing, and names every public function."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.places import DOCS, ROOT

import geostat as gs

NEEDED = ("sphinx", "myst_parser", "pydata_sphinx_theme")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in NEEDED),
        reason="the extra docs is not installed: make docs",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, str(DOCS), str(out)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return out


def test_every_public_function_stands_in_the_reference(built: Path):
    page = (built / "reference" / "api.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<dt class="sig sig-object py" id="[\w.]*?(\w+)">', page))
    modules = {name for name in gs.__all__ if isinstance(getattr(gs, name), ModuleType)}
    for name in modules:  # its functions are described one by one
        functions = set(getattr(gs, name).__all__)
        assert functions <= described
    assert set(gs.__all__) - modules - described == set()


def test_pages_load_nothing_from_elsewhere(built: Path):
    loaded = [
        (page.name, address)
        for page in built.rglob("*.html")
        for address in re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"',
            page.read_text(encoding="utf-8"),
        )
    ]
    assert loaded == []
    assert len(list(built.rglob("*.html"))) > 45
