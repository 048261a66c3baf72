"""Figures look as they did: images of a made-up run against golden ones, which
`PYTHONPATH=tests .venv/bin/python -m support.images` renews.
"""

from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images
from support.images import GOLDEN, SHOWN, image

TOLERANCE = 1.0
"""Root mean square of the differences of pixels, of 255. Letters are of matplotlib's own fonts and
its own FreeType, so that machines agree; a line that moves by two dots makes more than this.
"""
MOST_BYTES = 300_000
"""Of all golden images together."""


@pytest.mark.parametrize("name", SHOWN)
def test_a_figure_looks_as_it_did(name: str, tmp_path: Path):
    seen = tmp_path / f"{name}.png"
    seen.write_bytes(image(name))
    told = compare_images(str(GOLDEN / f"{name}.png"), str(seen), tol=TOLERANCE)
    assert told is None, f"{told}Renew it if it is meant to: {__doc__}"


def test_golden_images_are_few_and_small():
    files = list(GOLDEN.iterdir())
    assert {file.stem for file in files} == set(SHOWN)
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
