"""Figures of a made-up run against stored images, which `support.images` renews."""

from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images
from support.images import GOLDEN, SHOWN, image

TOLERANCE = 1.0
"""Root mean square difference of pixels, of 255. Fonts and FreeType come with matplotlib, so
machines agree; a line that moves by two pixels exceeds it.
"""


@pytest.mark.parametrize("name", SHOWN)
def test_a_figure_equals_its_golden_image(name: str, tmp_path: Path):
    drawn = tmp_path / f"{name}.png"
    drawn.write_bytes(image(name))
    difference = compare_images(str(GOLDEN / f"{name}.png"), str(drawn), tol=TOLERANCE)
    assert difference is None, f"{difference}Renew it after an intended change by support.images"
