"""The documentation builds without a warning and fetches nothing."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import DOCS, ROOT

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
