"""Variables of /heads: contributions, labels and their stability, counts and curves by regime."""

from __future__ import annotations

from functools import partial
from typing import Final

from geostat.datasets.variable import Variable
from geostat.experiments.head_regime_rules import REGIMES, UNKNOWN

SIZES: Final = {
    "sink": ("the sink's contribution", r"\|\alpha_0 v_0\|"),
    "last": ("the last token's contribution", r"\|\alpha_L v_L\|"),
    "rest": ("the other tokens' contributions, norm of their sum", r"\|\sum_{0<i<L} \alpha_i v_i\|"),
    "rest_total": ("the other tokens' contributions, sum of their norms", r"\sum_{0<i<L} \|\alpha_i v_i\|"),
}


SYMBOLS: Final = {"precision": r"P(r_{\max},N)", "recall": r"R(r_{\min},N)"}
"""Of the measured curves, as /capture has them."""

_of_head = partial(Variable, equation="§4.2", dims=("criterion", "layer", "head"))
_count = partial(Variable, equation="§4.2")
VARIABLES: Final = (
    *(
        Variable(f"contribution_{name}", long_name, "value norm", symbol, "§4.2", dims=("layer", "head"), estimated=True)
        for name, (long_name, symbol) in SIZES.items()
    ),
    _of_head("stability_left_out", "share of documents left out one by one that give the same label"),
    _of_head("stability_resampled", "share of resamples of the documents that give the same label"),
    _of_head("stability_sweep", "share of the sweep's settings that give the same label"),
    _count("sweep_heads", "heads of a regime under other thresholds", dims=("criterion", "sweep", "regime")),
    _count("told", "heads that sizes and alignment both classify"),
    _count("agreed", "those of them that both give the same regime"),
    _count("kappa", "Cohen's kappa of sizes and alignment, over the heads that both classify", symbol=r"\kappa", estimated=True),
    _of_head(
        "label",
        "regime of the head; codes in the attribute codes",
        more={"codes": [f"{code} {name}" for code, name in ((UNKNOWN, "cannot be told"), *enumerate(REGIMES))]},
    ),
    Variable("count", "heads of a regime, by layer", equation="Fig. 8", dims=("criterion", "regime", "layer")),
    _count("heads", "heads of a regime", dims=("criterion", "regime")),
    *(
        Variable(name, f"mean {name} of a regime's heads", "1", symbol, "Fig. 11", dims=("criterion", "regime", "n"), estimated=True)
        for name, symbol in SYMBOLS.items()
    ),
    *(
        Variable(f"typical_{dim}", f"index of the {dim} of a typical head of the regime, -1 for none", equation="Fig. 7", dims=("regime",))
        for dim in ("layer", "head")
    ),
)
