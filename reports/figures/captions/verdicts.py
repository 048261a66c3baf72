"""What stands under the figure of the claims by layer. Imports nothing that draws."""

from __future__ import annotations

import json

from reports.figures.captions.caption import Caption
from reports.run import Run


def claims(run: Run) -> Caption:
    """Caption of the claims by layer: which hold, and which fail, in most heads."""
    data = run.needed("verdicts")
    told = json.loads(str(data.attrs["claims"]))
    text = (
        "Each claim in each layer: the share of its heads (of claims on norms and similarity, of"
        " its value heads) in which it holds, in green from below, and in which it fails, in"
        f" orange from above. {run.counted('head')}, {run.counted('value head')},"
        f" {run.counted('document')}. A claim holds where the 95% interval of a head’s estimate"
        " lies within the tolerance, and fails where it lies outside; grey is undetermined or"
        " without an estimate. A claim on bounds joins each bound on Precision and Recall at every"
        " N: it holds where all do and fails where one does, so few documents seldom settle it in"
        " a head, however many single values lie inside."
    )
    answers: dict[str, list[str]] = {"fails": [], "holds": []}
    for claim in told:
        at = data.sel(claim=claim["key"])
        of = run.heads if claim["of"] == "head" else run.kv_heads
        for answer, names in answers.items():
            if 2 * int(at[answer]) > of:
                names.append(str(claim.get("short") or claim["key"]))
    words = {"fails": "Fail in most heads", "holds": "Hold in most heads"}
    finding = " ".join(
        f"{words[answer]}: {'; '.join(names)}." for answer, names in answers.items() if names
    )
    grey = [
        str(claim.get("short") or claim["key"])
        for claim in told
        for at in [data.sel(claim=claim["key"])]
        if not int(at["holds"]) + int(at["fails"])
    ]
    if grey:
        finding += f" Settled in no head, neither way: {'; '.join(grey)}."
    return Caption(text, finding.strip() or "No claim holds, and none fails, in most heads.")
