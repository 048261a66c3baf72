"""Records of effects that claims are on: totals, growth, distance of the form from the log weights;
and of the masses of the phases.
"""

from __future__ import annotations

from geostat.fits.weights.variables.kinds import LOG, LOGIT, effect, estimate, head, reason

_GROWTH = effect(
    "growth",
    "total growth, log of the last weight over the plateau's; each document's from the T_2 of the"
    " others",
    "nat",
    r"\eta(L - T_2)",
    more={
        "missing": "NaN where growth does not stand out of the noise",
        "scale": "standard error: the larger of scatter over documents and jackknife",
    },
)
TOTALS = (
    estimate("total", "measured sum of the weights", "1", r"\sum_i \alpha_i", equation=""),
    estimate(
        "total_model",
        "sum of the fitted weights, sink included where visible",
        "1",
        r"\sum_i \hat\alpha_i",
        more=LOG,
    ),
    effect(
        "total_model_log", "log of the sum of the fitted weights", "nat", r"\log\sum_i \hat\alpha_i"
    ),
    _GROWTH,
    reason(_GROWTH),
)
RMSE = effect("rmse", "root mean squared residual of the mean log weight", "nat", r"\mathrm{RMSE}")
DISTANCES = (
    RMSE,
    effect(
        "misfit",
        "root mean squared residual of the mean log weight, as it would be with ever more"
        " documents",
        "nat",
        r"\mathrm{RMSE}_\infty",
        more={
            "scale": (
                "interval of its square, whose root is taken; standard error: its longer arm over t"
            )
        },
    ),
)
MASSES = (
    estimate("mass_sink", "weight of the sink, arithmetic mean", "1", r"\alpha_0", more=LOGIT),
    estimate(
        "mass_plateau",
        "weight of the plateau, arithmetic mean",
        "1",
        r"\sum_{0<i\le T_1}\alpha_i",
        more=LOGIT,
    ),
    estimate(
        "mass_oscillation",
        "weight of the oscillation, arithmetic mean",
        "1",
        r"\sum_{T_1<i\le T_2}\alpha_i",
        more=LOGIT,
    ),
    estimate(
        "mass_tail",
        "weight of the growth phase, arithmetic mean",
        "1",
        r"\sum_{i>T_2}\alpha_i",
        more=LOGIT,
    ),
)
TOTAL_DIFFERS = head(
    "total_model_differs",
    "the fitted weights do not sum to 1: their interval excludes it",
    "1",
    r"\sum_i \hat\alpha_i \neq 1",
)
