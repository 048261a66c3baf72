"""A saved model that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def saved(model_folder: Path, tmp_path: Path) -> Path:
    """A tiny Llama of four layers and its tokenizer of letters, with a token before each text."""
    return shutil.copytree(model_folder, tmp_path / "llama")
