"""List of a page's topics, in the order of the paper: which question each asks, and which figures,
tables and answers belong to it.

One more topic: a row of `PLANS`. Imports the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What belongs to a topic. The first of `rows`, keys of the scoreboard, answers where there is
    no key result of the topic's name.
    """

    key: str
    short: str
    question: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    claim: str = ""
    """Claim of /verdicts whose layers are named."""
    quantity: str = ""
    """Of the table of kinds of text."""
    fit: str = ""
    """Further arguments of `gs.fit_head`."""


PLANS: Final = (
    Plan(
        key="norms",
        short="Norms",
        question="Are value vectors of one length, behind a short first token?",
        figures=("norms",),
        tables=("norms", "compressed", "sinks", "sink_tokens"),
        rows=("norms_stable", "sink_compressed"),
        claim="norms.cv",
        quantity="cv_token",
        fit='which="norms"',
    ),
    Plan(
        key="similarity",
        short="Similarity",
        question="Does similarity decay exponentially with distance?",
        figures=("similarity",),
        tables=("similarity",),
        rows=("decay_exponential", "sink_one_cosine"),
        claim="similarity.exponential",
        quantity="mae",
        fit='which="similarity"',
    ),
    Plan(
        key="weights",
        short="Weights",
        question="Do attention weights run through four phases?",
        figures=("weights", "rivals"),
        tables=("weights", "rivals"),
        rows=("phases", "sink_weight", "oscillation", "recency", "recency_exponential"),
        claim="weights.shape_position",
        quantity="misfit",
        fit='which="weights"',
    ),
    Plan(
        key="separability",
        short="Separability",
        question="Do selected tokens stand apart?",
        figures=("separability", "heads"),
        tables=("separability",),
        rows=("lowest_between", "best_small"),
    ),
    Plan(
        key="bounds",
        short="Bounds",
        question="Do the bounds hold, and which assumption costs them most?",
        figures=("coverage", "costs", "predictive", "ladder"),
        tables=("coverage", "ingredients", "predictive"),
        rows=("envelopes",),
    ),
    Plan(
        key="sink",
        short="Sink",
        question="What is it good for: does the sink’s similarity tell of Recall?",
        figures=("sink", "sphere"),
        tables=("sink",),
        rows=("sink_correlates", "sink_precision", "sink_predicted"),
    ),
    Plan(
        key="regimes",
        short="Regimes",
        question="What do heads do: Retriever, Mixer or Reset?",
        figures=("regimes", "contributions", "regime_depth", "regime_curves"),
        tables=("regimes", "regime_sweep"),
        rows=("regimes", "regimes_norms", "regimes_sizes", "regimes_depth", "regimes_curves"),
    ),
    Plan(
        key="effective",
        short="Tokens needed",
        question="What is it good for: how many tokens does a query need?",
        figures=("effective", "effective_layers", "ablation"),
        tables=(
            *("effective", "effective_curves", "effective_sets"),
            *("head_told", "head_function", "head_needs", "budgets", "regime_cuts", "contexts"),
        ),
    ),
    Plan(
        key="normaliser",
        short="Normaliser",
        question="What does the normaliser do: how do weights fall, and how near do tokens lie?",
        figures=("normaliser",),
        tables=("normaliser",),
    ),
    Plan(
        key="directions",
        short="Directions",
        question="Do the directions of values separate, or weights and lengths alone?",
        tables=("separable",),
    ),
)
REST: Final = Plan(
    key="reach",
    short="All heads",
    question="What do all heads together give, and how far do these numbers reach?",
    tables=("pooled", "depth", "kinds"),
    rows=("families",),
)
"""Takes every figure and table that belongs to no other topic."""
