"""A made-up run with two claims judged: one of value heads, one on bounds."""

import json

import numpy as np
import xarray as xr
from support.reports_tree import run_tree

from geostat.display.tree import with_display

CLAIMS = [
    {
        "key": "norms.cv",
        "says": "norms are constant",
        "of": "kv_head",
        "side": "at_most",
        "units": "1",
        "tolerance": 0.05,
        "source": "§3.1",
        "estimate": "/norms/cv_token",
        "second_test": "/norms/other_p",
    },
    {
        "key": "bounds.sharp",
        "says": "curves lie within <sharp> bounds",
        "of": "head",
        "side": "within",
        "units": "1",
        "tolerance": 0.01,
        "source": "a & b",
        "estimate": "/envelope",
        "select": {"edition": "sharp", "gram": "offset"},
    },
]
ANSWERS = {"1": "holds", "-1": "fails", "0": "undetermined", "-2": "no estimate"}
BOUNDS = {"0": "precision_lower", "1": "precision_upper", "2": "recall_lower", "3": "recall_upper"}


def verdicts(*, errors: bool = True) -> xr.Dataset:
    data = {}
    for claim, answer in zip(
        CLAIMS,
        (np.array([[1, -1], [0, -2]]), np.array([[1, 1, -1, 0], [0, 0, 0, -1]])),
        strict=True,
    ):
        of = claim["of"]
        dims = (f"claim_{of}", "layer", of)
        estimate = np.where(
            answer == -2, np.nan, 0.1 * np.arange(1, answer.size + 1).reshape(answer.shape)
        )
        se = 0.01 * estimate if errors else estimate * np.nan
        parts = {
            "answer": answer,
            "estimate": estimate,
            "se": se,
            "skew": 0.5 + 0 * se,
            "lower": estimate - 2 * se,
            "upper": estimate + 2 * se,
        }
        parts |= {"p_holds": estimate / 10 + 0 * se, "p_fails": 1e-6 * estimate + 0 * se}
        parts |= {"p_holds_adjusted": estimate / 5 + 0 * se, "p_fails_adjusted": 0.5 + 0 * se}
        if of == "head":
            parts |= {
                "cell_bound": np.arange(8).reshape(2, 4) % 4,
                "cell_n": np.full((2, 4), 7),
                "cell_count": np.full((2, 4), 80),
            }
            parts |= {"cell_p_holds": 0.25 + 0 * se, "cell_p_fails": 0.75 + 0 * se}
        data |= {f"{name}_{of}": (dims, values[None]) for name, values in parts.items()}
    counts = {"tested": [3, 8], "holds": [1, 2], "fails": [1, 2], "undetermined": [1, 4]}
    data |= {name: (("claim",), np.array(values)) for name, values in counts.items()}
    data |= {
        "true_share": (("claim",), [0.5, np.nan]),
        "true_share_lower": (("claim",), [0.32, np.nan]),
        "true_share_upper": (("claim",), [0.68, np.nan]),
        "holds_adjusted": (("claim",), [0, 2]),
        "fails_adjusted": (("claim",), [1, 0]),
        "tolerance": (("claim",), [0.05, 0.01]),
        "within": (("claim",), [0.0889, 1.0]),
    }
    coords = {
        "claim": [claim["key"] for claim in CLAIMS],
        "claim_kv_head": ["norms.cv"],
        "claim_head": ["bounds.sharp"],
    }
    coords |= {"layer": [0, 1], "kv_head": [0, 1], "head": [0, 1, 2, 3]}
    return xr.Dataset(
        data,
        coords=coords,
        attrs={
            "claims": json.dumps(CLAIMS),
            "answers": json.dumps(ANSWERS),
            "bounds": json.dumps(BOUNDS),
            "false_discovery_rate": 0.05,
        },
    )


def judged(*, documents: int = 3) -> xr.DataTree:
    found = run_tree(documents=documents)
    found["verdicts"] = xr.DataTree(verdicts(errors=documents > 1))
    return with_display(found)
