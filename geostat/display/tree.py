"""A run with /display, /head_curves and the paper's figures: all that the page shows and the other
groups do not hold. Imports xarray.

Nothing of it is stored: it is derived when a run is rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import xarray as xr

from geostat import paper
from geostat.bounds.predictive.check import FAR
from geostat.datasets.parts import PART, parts
from geostat.datasets.queries import over_queries, queries_in_words
from geostat.datasets.tokens import most_tokens
from geostat.display.assumptions import FORMS, norm_curves, similarity_curves, weight_curves
from geostat.display.contributions import contributions
from geostat.display.experiments import (
    form_counts,
    predictive_quartiles,
    regime_summary,
    separable_side,
    sink_signs,
    typical_curves,
)
from geostat.display.head_curves import head_curves
from geostat.display.separability import bands, coverage, example, head_scores
from geostat.display.sphere import sphere

Groups = dict[str, xr.Dataset]

NEEDED: Final = ("capture", "norms", "similarity", "weights", "envelope", "summary")
PAPER: Final[dict[str, Any]] = {
    "paper_cv_range": paper.CV_RANGE,
    "paper_mae": paper.MAE,
    "paper_correlation_sizes": paper.CORRELATION_SIZES,
    "paper_correlations": paper.CORRELATIONS,
    "paper_effective": paper.EFFECTIVE,
    "paper_normaliser": paper.NORMALISER,
}


def with_display(tree: xr.DataTree) -> xr.DataTree:
    """Return a confronted run with what is derived to be shown: /display, /example, /head_curves
    and those of `PICTURES` that it has the groups for; and variables added to the groups that they
    are made of.

    Of a run whose layers see different numbers T of tokens, the parts stand below one another, each
    under its T, as a run of its own (`geostat.datasets.parts`). A run that lacks a group that every
    report needs is returned as it is: the renderer says what is missing.
    """
    if any(name not in tree.children for name in NEEDED):
        return tree
    apart = parts(tree)
    if len(apart) > 1:
        whole = xr.DataTree.from_dict(
            {f"/{part.attrs[PART]['tokens']}": with_display(part) for part in apart}
        )
        whole.attrs = dict(tree.attrs)
        return whole
    groups = {
        name: node.to_dataset()
        for name, node in tree.children.items()
        if name not in ("display", "example", "head_curves", *PICTURES)
    }
    groups |= {
        name: groups[name].assign(derive(groups))
        for name, derive in DERIVED.items()
        if name in groups
    }
    groups |= {
        "display": _pooled(groups),
        "example": example(),
        "head_curves": head_curves(groups),
    }
    pictures = {name: derive(groups) for name, derive in PICTURES.items()}
    groups |= {name: picture for name, picture in pictures.items() if picture is not None}
    whole = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    whole.attrs = dict(tree.attrs)
    return whole


def _pooled(groups: Groups) -> xr.Dataset:
    """Heads and documents pooled into curves, and in the attributes the paper's figures."""
    capture = over_queries(groups)
    cosines, similarity_head = similarity_curves(capture, groups["similarity"])
    weights, weights_head = weight_curves(capture, groups["weights"])
    scores, small_size = head_scores(capture)
    result = scores.assign(norm_curves(capture, groups["norms"]) | cosines | weights)
    heads: dict[str, Any] = {
        "similarity_head": similarity_head,
        "weights_head": weights_head,
        "small_size": small_size,
        "queries": queries_in_words(groups.get("queries"), capture.sizes["position"]),
    }
    return result.assign_coords(form=list(FORMS)).assign_attrs(PAPER | heads)


def _norms(groups: Groups) -> xr.Dataset:
    """In how many documents, over all value heads, a position is compressed that is a secondary
    sink, and the share of all.
    """
    norms = groups["norms"]
    if not norms.sizes.get("secondary_sink"):
        return xr.Dataset()
    times = (
        norms["compressed_documents"]
        .isel(position=norms["secondary_sink_position"].astype(int))
        .sum(("layer", "kv_head"))
    )
    documents = norms["documents"].sum()
    return xr.Dataset(
        {
            "secondary_sink_documents": times,
            "secondary_sink_share": times / documents.where(documents > 0),
        }
    )


DERIVED: Final[dict[str, Callable[[Groups], xr.Dataset]]] = {
    "summary": lambda groups: bands(
        groups["summary"], groups["capture"].sizes["document"], most_tokens(groups["capture"])
    ),
    "envelope": lambda groups: coverage(groups["envelope"], groups["capture"]["tokens"].values),
    "norms": _norms,
    "similarity": lambda groups: form_counts(groups["similarity"], "", "gram"),
    "weights": lambda groups: form_counts(groups["weights"], "rival_", "rival"),
    "sink": lambda groups: sink_signs(groups["sink"]),
    "separable": lambda groups: separable_side(groups["separable"]),
    "heads": lambda groups: regime_summary(groups["heads"], most_tokens(groups["capture"])).merge(
        typical_curves(groups["capture"], groups["heads"])
    ),
    "predictive": lambda groups: predictive_quartiles(groups["predictive"]).assign(far=FAR),
}
"""What is derived from a run's groups and added to each."""
PICTURES: Final[dict[str, Callable[[Groups], xr.Dataset | None]]] = {
    "sphere": sphere,
    "contributions": contributions,
}
"""Groups that one figure each is drawn from, which not every run can have."""
