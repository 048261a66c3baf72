"""Documentation build: no warnings, no network access."""

import importlib.util
import re
from pathlib import Path

import pytest
from support.commands import called
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
    words = ("-W", "--keep-going", "-q", "-b", "html", DOCS, out)
    code = "import sys; from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    result = called(*words, code=code, cwd=ROOT)
    assert result.code == 0, result.stderr
    return out


def test_built_pages_load_nothing_from_the_network(built: Path):
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
