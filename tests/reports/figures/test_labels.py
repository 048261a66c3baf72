"""Labels of every figure stand apart and are readable: on the page, in a column, on a slide."""

from collections.abc import Iterator
from functools import cache

import pytest
from matplotlib.text import Text
from support import optional_groups as made_up
from support.experiments import experimented, with_typical_heads
from support.figures import assert_labels_stand_apart
from support.optional_groups import run_with
from support.reports_tree import run_tree

from reports.figures.plan import PLANS
from reports.run import Run

LOOKS = {
    "page": (None, "paper", [7.4], 6),
    "column": (3.25, "paper", [3.25], 6),
    "slide": (None, "slides", [10, 5.625], 14),
}
"""Width, look, expected size in inches (of paper: the width), smallest font in points."""
PLAIN = "idea norms similarity weights separability coverage heads"
EXPERIMENTS = "sink regimes contributions regime_depth regime_curves"
BOTH = ("deletion", "renormalisation")
RULES = ("attention", "contribution", "recent", "sink-recent", "sink-orthogonal", "random")
RUNS = {
    "plain": (PLAIN, lambda: Run.of(run_tree())),
    "experiments": (f"{EXPERIMENTS} sphere", lambda: Run.of(with_typical_heads())),
    "ablation": ("ablation", lambda: run_with(ablation=made_up.ablation())),
    "six rules": ("effective", lambda: run_with(effective=made_up.effective(RULES))),
    "sets": ("effective", lambda: run_with(effective=made_up.effective((), scope="L1H2"))),
    "layers": ("effective_layers", lambda: run_with(effective=made_up.effective_layers())),
    "normaliser": ("normaliser", lambda: run_with(normaliser=made_up.normaliser())),
}
SLOW_RUNS = {
    "heads": ("ablation", lambda: run_with(ablation=made_up.ablation(parts="heads"))),
    "one of normaliser": ("normaliser", lambda: run_with(normaliser=made_up.normaliser(1))),
    "window": (PLAIN, lambda: Run.of(run_tree(window=40)["40"])),
    "one document": (f"{EXPERIMENTS} sphere", lambda: Run.of(experimented(documents=1))),
    "window of experiments": (EXPERIMENTS, lambda: Run.of(experimented(window=40)["40"])),
    "modes": ("ablation", lambda: run_with(ablation=made_up.ablation(1, modes=BOTH))),
    "budgets": ("ablation", lambda: run_with(ablation=made_up.ablation(parts="budgets"))),
    "two rules": ("effective", lambda: run_with(effective=made_up.effective())),
    "rules of one": ("effective", lambda: run_with(effective=made_up.effective(documents=1))),
    "a layer": ("effective", lambda: run_with(effective=made_up.effective(scope="layer 3"))),
    "one mode": (
        "effective_layers",
        lambda: run_with(effective=made_up.effective_layers(BOTH[:1])),
    ),
}


@cache
def made(name: str) -> Run:
    return (RUNS | SLOW_RUNS)[name][1]()


def cases() -> Iterator[object]:
    """Every figure in a column, those of every run on the page; the rest is slow."""
    for name, (figures, _) in (RUNS | SLOW_RUNS).items():
        for figure in figures.split():
            for look in LOOKS:
                quick = name in RUNS and (look == "column" or (look, name) == ("page", "plain"))
                marks = [] if quick else [pytest.mark.slow]
                yield pytest.param(figure, name, look, id=f"{figure}-{name}-{look}", marks=marks)


@pytest.mark.parametrize(("figure", "run", "look"), [*cases()])
def test_labels_stand_apart_are_readable_and_legends_repeat_none(figure: str, run: str, look: str):
    width, style, size, smallest = LOOKS[look]
    drawn = assert_labels_stand_apart(PLANS[figure], made(run), width, style)
    assert drawn.get_size_inches().tolist()[: len(size)] == size
    fonts = [text.get_fontsize() for text in drawn.findobj(Text) if text.get_text().strip()]
    assert min(fonts) >= smallest
    legends = [*drawn.legends, *(axes.get_legend() for axes in drawn.axes)]
    words = [text.get_text() for legend in legends if legend for text in legend.get_texts()]
    assert len(set(words)) == len(words)
