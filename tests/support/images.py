"""Images of figures of made-up runs, with fixed numbers.

Renew the golden ones after a change of how figures look, and look at each:

    PYTHONPATH=tests .venv/bin/python -m support.images
"""

from functools import cache
from pathlib import Path

from support.experiments import with_typical_heads

from reports.figures import plan as rendering
from reports.figures.plan import draw
from reports.run import Run
from reports.topics.listed import FIGURES

GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
SHOWN = {
    "norms": {"width": 3.25},
    "separability": {},
    "heads": {},
    "regimes": {},
    "sphere": {"width": 3.25},
    "contributions": {"look": "slides"},
}
"""How each figure is drawn: in a column, as on the page, on a slide."""
DOTS = 60
"""Dots an inch: coarse, so that files are small."""


@cache
def _run() -> Run:
    return Run.of(with_typical_heads())


def image(name: str) -> bytes:
    plan = next(plan for plan in FIGURES if plan.name == name)
    figure = draw(plan, _run(), **SHOWN[name])
    return rendering.rendered(figure, "png", dots=DOTS)


if __name__ == "__main__":
    for name in SHOWN:
        (GOLDEN / f"{name}.png").write_bytes(image(name))
