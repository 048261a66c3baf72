"""List of the figures that a run can have: how each is called, laid out, drawn and captioned.

One more figure: a function that draws on given axes, a caption of the same name, and a row of
`FIGURES`. Imports matplotlib, never pyplot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from reports.figures.ablation import figure_ablation, figure_effective_layers
from reports.figures.assumptions import figure_norms, figure_similarity, figure_weights
from reports.figures.captions import (
    ablation,
    assumptions,
    contributions,
    effective,
    experiments,
    normaliser,
    predictive,
    rivals,
    separability,
    verdicts,
)
from reports.figures.captions.caption import Caption
from reports.figures.contributions import figure_contributions, figure_sphere
from reports.figures.effective import figure_effective
from reports.figures.experiments import (
    figure_regime_curves,
    figure_regime_depth,
    figure_regimes,
    figure_sink,
)
from reports.figures.normaliser import figure_normaliser
from reports.figures.predictive import figure_predictive
from reports.figures.rivals import figure_costs, figure_ladder, figure_rivals
from reports.figures.separability import (
    figure_coverage,
    figure_heads,
    figure_idea,
    figure_separability,
)
from reports.figures.verdicts import figure_claims
from reports.run import Run


@dataclass(frozen=True, slots=True)
class Plan:
    """One figure: how it is called, laid out, drawn and captioned. What it shows is a `Run`, or
    the dataset of a comparison.
    """

    name: str
    title: str
    paper: str
    """Its counterpart in the paper; empty for none."""
    grid: tuple[int, int]
    """Rows and columns of axes."""
    height: float | Callable[[Any], float]
    """Inches, perhaps by what is shown."""
    draw: Callable[[Any, Any], object]
    caption: Callable[[Any], Caption]
    group: str = ""
    """The part of a `Run` that may be missing and this figure needs; empty for none."""


def _coverage_height(run: Run) -> float:
    return 1.7 + 0.36 * len(run.bounds)


def _claims_height(run: Run) -> float:
    return 1.0 + 0.24 * run.needed("verdicts").sizes["claim"]


def _map_height(run: Run) -> float:
    rows = 2 * run.capture.sizes["head"] + run.capture.sizes["kv_head"]
    return min(9.0, 2.4 + 0.13 * rows)


FIGURES: Final = (
    Plan("idea", "What is measured", "Figure 1", (1, 2), 3.4, figure_idea, separability.idea),
    Plan(
        "claims",
        "Which claims hold, in which layers?",
        "",
        (1, 1),
        _claims_height,
        figure_claims,
        verdicts.claims,
        "verdicts",
    ),
    Plan(
        "norms",
        "Are value vectors of one length?",
        "Figure 2",
        (1, 2),
        3.5,
        figure_norms,
        assumptions.norms,
    ),
    Plan(
        "similarity",
        "Does similarity decay exponentially?",
        "Figure 3",
        (1, 2),
        3.7,
        figure_similarity,
        assumptions.similarity,
    ),
    Plan(
        "weights",
        "Do weights have four phases?",
        "Figure 4",
        (1, 2),
        3.6,
        figure_weights,
        assumptions.weights,
    ),
    Plan(
        "rivals",
        "Which form fits best?",
        "",
        (1, 2),
        3.8,
        figure_rivals,
        rivals.rivals,
        "rivals",
    ),
    Plan(
        "separability",
        "Do selected tokens stand apart?",
        "Figure 5",
        (1, 2),
        4.3,
        figure_separability,
        separability.separability,
    ),
    Plan(
        "sphere",
        "How do value vectors lie on the sphere?",
        "Figure 9",
        (1, 3),
        2.5,
        figure_sphere,
        contributions.sphere,
        "sphere",
    ),
    Plan(
        "coverage",
        "Where do the bounds hold, head by head?",
        "",
        (2, 1),
        _coverage_height,
        figure_coverage,
        separability.coverage,
    ),
    Plan(
        "costs",
        "Which assumption costs the bounds most?",
        "",
        (1, 1),
        2.9,
        figure_costs,
        rivals.costs,
        "ingredients",
    ),
    Plan("heads", "Which heads?", "", (3, 1), _map_height, figure_heads, separability.heads),
    Plan(
        "sink",
        "Does the sink’s similarity matter?",
        "Figure 6",
        (1, 2),
        4.2,
        figure_sink,
        experiments.sink,
        "sink",
    ),
    Plan(
        "regimes",
        "What do heads do?",
        "Figure 7",
        (2, 3),
        4.9,
        figure_regimes,
        experiments.regimes,
        "regimes",
    ),
    Plan(
        "contributions",
        "Which tokens do heads take from?",
        "Figure 10",
        (1, 3),
        3.3,
        figure_contributions,
        contributions.contributions,
        "contributions",
    ),
    Plan(
        "regime_depth",
        "Which regimes at which depth?",
        "Figure 8",
        (3, 1),
        5.6,
        figure_regime_depth,
        experiments.regime_depth,
        "regimes",
    ),
    Plan(
        "regime_curves",
        "Do regimes differ in separability?",
        "Figure 11",
        (1, 2),
        3.9,
        figure_regime_curves,
        experiments.regime_curves,
        "regimes",
    ),
    Plan(
        "effective",
        "How many tokens does a query need?",
        "",
        (1, 2),
        4.2,
        figure_effective,
        effective.effective,
        "effective",
    ),
    Plan(
        "effective_layers",
        "Which layers need many tokens?",
        "",
        (1, 2),
        3.6,
        figure_effective_layers,
        ablation.effective_layers,
        "effective_layers",
    ),
    Plan(
        "ablation",
        "Does geometry tell which heads the model needs?",
        "",
        (1, 2),
        5.2,
        figure_ablation,
        ablation.ablation,
        "heads_cut",
    ),
    Plan(
        "normaliser",
        "What does the normaliser do to weights?",
        "",
        (1, 2),
        4.0,
        figure_normaliser,
        normaliser.normaliser,
        "normaliser",
    ),
    Plan(
        "predictive",
        "Does the theory predict a head’s curve?",
        "",
        (2, 4),
        4.5,
        figure_predictive,
        predictive.predictive,
        "predictive",
    ),
    Plan(
        "ladder",
        "How far off are predictions?",
        "",
        (1, 1),
        2.9,
        figure_ladder,
        rivals.ladder,
        "predictive",
    ),
)
"""The figures that a run can have, in the report's order."""
