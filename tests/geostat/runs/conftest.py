"""A run that tests of several folders go on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.families import tiny, tokens
from support.shared import once, shared_folder
from support.spine import geostat

import geostat as gs


@pytest.fixture(scope="session")
def with_regimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four windows of 80 tokens, `tokens(4, 80)`, of the tiny Llama in memory, confronted; to be
    copied.
    """
    out = shared_folder(tmp_path_factory, "with regimes") / "run"

    def make() -> list[int]:
        documents = list(tokens(4, 80).numpy())
        gs.capture(tiny("llama"), documents=documents, length=80, null=False, out=out)
        return [geostat(stage, out).code for stage in ("fit", "confront")]

    assert once(out.parent, make) == [0, 0]
    return out
