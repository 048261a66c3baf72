"""Records of /ablation: what its variables are called and mean. Imports this room's variables."""

from __future__ import annotations

from functools import partial
from typing import Final

from geostat.datasets.variable import JACKKNIFE, Variable
from geostat.experiments.ablation.head_facts import PREDICTORS

GAIN: Final = "geometry adds"
"""What follows MODELS along `told_by`: R² of both less R² of weights."""
_RISE: Final = r"\Delta\mathrm{NLL}_{\mathrm{rel}}"
_estimate = partial(Variable, estimated=True)
CELLS: Final = (
    Variable(
        "plain_loss",
        "mean next-token loss of the model as it is",
        "nats",
        r"\mathrm{NLL}",
        dims=("document",),
    ),
    Variable("loss", "mean next-token loss under a cut", "nats", dims=("cell", "document")),
    Variable("cell_scope", "which heads are cut", dims=("cell",)),
    Variable("cell_rule", "which tokens they keep, or how a budget is shared", dims=("cell",)),
    Variable("cell_mode", "what becomes of tokens that are not kept", dims=("cell",)),
    Variable("cell_n", "tokens a head keeps, 0: none", "tokens", dims=("cell",)),
)
HEADS: Final = (
    _estimate(
        "head_rise",
        "relative rise of the loss where the head alone keeps N tokens, mean over documents",
        symbol=_RISE,
        dims=("mode", "n", "layer", "head"),
    ),
    _estimate(
        "head_n_star",
        "N from which on, of those tried, the rise is at most tau; the window where there is none",
        "tokens",
        r"N^*_\tau",
        more={"interval": JACKKNIFE},
        dims=("mode", "layer", "head"),
    ),
    Variable(
        "head_steps_up",
        "neighbours among the N tried, the window last, between which the rise grows with N",
        dims=("mode", "layer", "head"),
    ),
    Variable("group_heads", "heads of a group", dims=("mode", "group")),
    _estimate(
        "head_share_of_one",
        "share of a group's heads that need one token",
        dims=("mode", "group"),
    ),
    _estimate(
        "head_needed",
        "own N that this share of a group's heads does not exceed",
        "tokens",
        r"N^*_\tau",
        dims=("mode", "group", "quantile"),
    ),
    _estimate(
        "rank_correlation",
        "rank correlation over heads of what is known of a head with what the model loses; errors"
        " over documents and layers",
        symbol=r"\rho_S",
        dims=("mode", "outcome", "known", "given"),
    ),
    _estimate(
        "told",
        "share of the variance of the loss's ranks that is told for layers left out; errors over"
        " documents and layers",
        symbol="R^2",
        dims=("mode", "outcome", "told_by"),
    ),
    Variable("told_heads", "heads that this is over", dims=("mode", "outcome")),
)
FACTS: Final = (
    *(
        Variable(name, PREDICTORS[name], dims=("document", "layer", "head", "n"))
        for name in ("precision", "recall", "f_outer", "f_inner", "kept_mass")
    ),
    Variable("entropy", PREDICTORS["entropy"], "nats", dims=("document", "layer", "head")),
    Variable("sharp_f_lower", PREDICTORS["sharp_f_lower"], dims=("layer", "head", "n")),
)
BUDGETS: Final = (
    _estimate(
        "budget_rise",
        "relative rise of the loss where a budget of tokens a head is shared out, mean over"
        " documents",
        symbol=_RISE,
        dims=("mode", "budget", "way"),
    ),
    _estimate(
        "budget_less_mass",
        "that rise less the rise with equal kept mass, mean over documents",
        symbol=rf"\Delta {_RISE}",
        dims=("mode", "budget", "way"),
    ),
)
REGIME: Final = (
    _estimate(
        "regime_rise",
        "relative rise of the loss where a regime's heads are cut, mean over documents",
        symbol=_RISE,
        dims=("regime", "cut"),
    ),
    Variable("regime_heads", "heads that are cut", dims=("regime",)),
    Variable(
        "drawn_rise",
        "mean relative rise where as many heads, drawn from all, are cut",
        symbol=_RISE,
        dims=("regime", "cut", "draw"),
    ),
    Variable(
        "drawn_p",
        "two-sided p-value of the regime among as many drawn heads: twice the share of draws, the"
        " regime itself among them, on its side",
        symbol="p",
        dims=("regime", "cut"),
    ),
)
