"""Display groups of a run: /display, /head_curves and the numbers that the paper reports.

They are computed when a run is rendered, and never stored. Imports xarray.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import xarray as xr

from geostat import paper
from geostat.bounds.predictive.check import FAR
from geostat.datasets.parts import PART, parts, tree_of
from geostat.datasets.separability import over_queries, queries_in_words
from geostat.datasets.tokens import most_tokens
from geostat.display.head_curves import (
    DRAWN_FORMS,
    head_curves,
    median_head,
    norm_curves,
    similarity_curves,
    weight_curves,
)
from geostat.display.pictures import contributions, sphere
from geostat.display.results import (
    bands,
    coverage,
    example,
    form_summary,
    head_scores,
    predictive_quartiles,
    regime_summary,
    separable_side,
    sink_signs,
    typical_curves,
)

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
    """Return a confronted run with its display groups and display variables.

    The groups are those of `GROUPS` that the run supports. `DERIVED` adds variables to existing
    groups.

    If layers see different numbers T of tokens, the result holds one run for each T, under /T
    (`geostat.datasets.parts`). A run without a group of `NEEDED` is returned unchanged; the
    renderer reports the missing group.
    """
    if any(name not in tree.children for name in NEEDED):
        return tree
    parts_ = parts(tree)
    if len(parts_) > 1:
        by_tokens = {part.attrs[PART]["tokens"]: with_display(part) for part in parts_}
        return tree_of(by_tokens, tree.attrs)
    groups = {name: node.to_dataset() for name, node in tree.children.items() if name not in GROUPS}
    groups |= {
        name: groups[name].assign(derive(groups))
        for name, derive in DERIVED.items()
        if name in groups
    }
    derived = {name: derive(groups) for name, derive in GROUPS.items()}
    groups |= {name: data for name, data in derived.items() if data is not None}
    return tree_of(groups, tree.attrs)


def _pooled(groups: Groups) -> xr.Dataset:
    """Return curves pooled over heads and documents, with reported numbers as attributes."""
    capture = over_queries(groups)
    cosines, similarity_head = similarity_curves(capture, groups["similarity"])
    weights, weights_head = weight_curves(capture, groups["weights"])
    scores, small_size = head_scores(capture)
    result = scores.assign(norm_curves(capture, groups["norms"]) | cosines | weights)
    heads: dict[str, Any] = {
        "norms_head": median_head(groups["norms"]["cv_token"].transpose("layer", "kv_head").values),
        "similarity_head": similarity_head,
        "weights_head": weights_head,
        "small_size": small_size,
        "queries": queries_in_words(groups.get("queries"), capture.sizes["position"]),
    }
    return result.assign_coords(form=list(DRAWN_FORMS)).assign_attrs(PAPER | heads)


def _norms(groups: Groups) -> xr.Dataset:
    """Return in how many documents (summed over KV heads) each secondary sink is compressed.

    The second variable is the share of all documents.
    """
    norms = groups["norms"]
    if not norms.sizes.get("secondary_sink"):
        return xr.Dataset()
    compressed = (
        norms["compressed_documents"]
        .isel(position=norms["secondary_sink_position"].astype(int))
        .sum(("layer", "kv_head"))
    )
    documents = norms["documents"].sum()
    return xr.Dataset(
        {
            "secondary_sink_documents": compressed,
            "secondary_sink_share": compressed / documents.where(documents > 0),
        }
    )


def _similarity(groups: Groups) -> xr.Dataset:
    """Return counts of heads by preferred form, and the labels of forms."""
    from geostat.fits.similarity.forms import FORM  # imports lmfit, like the next one

    labels = {name: (form.label, form.formula) for name, form in FORM.items()}
    return form_summary(groups["similarity"], "", "gram", labels)


def _weights(groups: Groups) -> xr.Dataset:
    """Return counts of heads by preferred form, and the labels of forms."""
    from geostat.fits.weights.rivals import LABELS

    return form_summary(groups["weights"], "rival_", "rival", LABELS)


DERIVED: Final[dict[str, Callable[[Groups], xr.Dataset]]] = {
    "summary": lambda groups: bands(
        groups["summary"], groups["capture"].sizes["document"], most_tokens(groups["capture"])
    ),
    "envelope": lambda groups: coverage(groups["envelope"], groups["capture"]["tokens"].values),
    "norms": _norms,
    "similarity": _similarity,
    "weights": _weights,
    "sink": lambda groups: sink_signs(groups["sink"]),
    "separable": lambda groups: separable_side(groups["separable"]),
    "heads": lambda groups: regime_summary(groups["heads"], most_tokens(groups["capture"])).merge(
        typical_curves(groups["capture"], groups["heads"])
    ),
    "predictive": lambda groups: predictive_quartiles(groups["predictive"]).assign(far=FAR),
}
"""Functions that derive display variables, by the group to which they are added."""
GROUPS: Final[dict[str, Callable[[Groups], xr.Dataset | None]]] = {
    "display": _pooled,
    "example": lambda groups: example(),
    "head_curves": head_curves,
    "sphere": sphere,
    "contributions": contributions,
}
"""Functions that derive a group; None if the run lacks the data."""
