"""Made-up run with two tested claims: one of KV heads, one on bounds."""

import json

import numpy as np
import xarray as xr
from support.reports_tree import run_tree

from geostat.display.tree import with_display

CLAIMS = [
    {"key": "norms.cv", "says": "norms are constant", "of": "kv_head", "side": "at_most"}
    | {"units": "1", "tolerance": 0.05, "source": "§3.1"}
    | {"estimate": "/norms/cv_token", "second_test": "/norms/other_p"},
    {"key": "bounds.sharp", "says": "curves lie within <sharp> bounds", "of": "head"}
    | {"side": "within", "units": "1", "tolerance": 0.01, "source": "a & b"}
    | {"estimate": "/envelope", "select": {"edition": "sharp", "gram": "offset"}},
]
ANSWERS = {
    "2": "holds trivially",
    "1": "holds",
    "-1": "fails",
    "0": "undetermined",
    "-2": "no estimate",
}
BOUNDS = {"0": "precision_lower", "1": "precision_upper", "2": "recall_lower", "3": "recall_upper"}
OF_KV_HEADS = np.array([[1, -1], [0, -2]])
OF_HEADS = np.array([[1, 1, -1, 0], [0, 0, 0, -1]])


def of_unit(answer: np.ndarray, *, errors: bool) -> dict[str, np.ndarray]:
    """Return the numbers of one claim, (layer, head or kv_head)."""
    estimate = 0.1 * np.arange(1, answer.size + 1).reshape(answer.shape)
    estimate = np.where(answer == -2, np.nan, estimate)
    se = 0.01 * estimate if errors else estimate * np.nan
    return {
        "answer": answer,
        "estimate": estimate,
        "se": se,
        "skew": 0.5 + 0 * se,
        "lower": estimate - 2 * se,
        "upper": estimate + 2 * se,
        "p_holds": estimate / 10 + 0 * se,
        "p_fails": 1e-6 * estimate + 0 * se,
        "p_holds_adjusted": estimate / 5 + 0 * se,
        "p_fails_adjusted": 0.5 + 0 * se,
    }


def verdicts(*, errors: bool = True) -> xr.Dataset:
    kv_heads, heads = (of_unit(answer, errors=errors) for answer in (OF_KV_HEADS, OF_HEADS))
    heads |= {
        "cell_bound": np.arange(8).reshape(2, 4) % 4,
        "cell_n": np.full((2, 4), 7),
        "cell_count": np.full((2, 4), 80),
        "cell_p_holds": 0.25 + 0 * heads["se"],
        "cell_p_fails": 0.75 + 0 * heads["se"],
    }
    data = {
        f"{name}_{of}": ((f"claim_{of}", "layer", of), values[None])
        for of, parts in (("kv_head", kv_heads), ("head", heads))
        for name, values in parts.items()
    }
    by_claim = {"tested": [3, 8], "holds": [1, 2], "fails": [1, 2], "undetermined": [1, 4]}
    by_claim |= {"holds_trivially": [0, 0]}
    by_claim |= {"true_share": [0.5, np.nan], "true_share_lower": [0.32, np.nan]}
    by_claim |= {"true_share_upper": [0.68, np.nan], "holds_adjusted": [0, 2]}
    by_claim |= {"fails_adjusted": [1, 0], "tolerance": [0.05, 0.01], "within": [0.0889, 1.0]}
    data |= {name: ("claim", values) for name, values in by_claim.items()}
    labels = {"claim": [claim["key"] for claim in CLAIMS]}
    labels |= {"claim_kv_head": ["norms.cv"], "claim_head": ["bounds.sharp"]}
    labels |= {"layer": [0, 1], "kv_head": [0, 1], "head": [0, 1, 2, 3]}
    words = {"claims": CLAIMS, "answers": ANSWERS, "bounds": BOUNDS}
    attrs = {name: json.dumps(value) for name, value in words.items()}
    return xr.Dataset(data, labels, attrs | {"false_discovery_rate": 0.05})


def judged(*, documents: int = 3) -> xr.DataTree:
    found = run_tree(documents=documents)
    found["verdicts"] = xr.DataTree(verdicts(errors=documents > 1))
    return with_display(found)
