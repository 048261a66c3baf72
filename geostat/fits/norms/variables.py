"""Names, dims and meanings of what Assumption 1 leaves in a run. Imports numpy, xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.flags import flag_variable
from geostat.datasets.words import EFFECTS, described, described_parameter, sink_flag
from geostat.fits.norms.compressed import COMPRESSED, TokenLists
from geostat.fits.norms.trend import BANDWIDTH
from geostat.statistics.jackknife import interval_of

DIMS: Final = ("layer", "kv_head")
CONSTANT_NORM, SINK = "Assumption 1.1", "Assumption 1.2"

FLAGS: Final[Mapping[str, str]] = {
    "no_norms": "no document has a finite content norm; everything is n/a",
    "one_document": "one document carries the head; no errors over documents, and no split of the variance",
    "two_documents": "two documents carry the head; the split of the variance has no errors",
    "few_tokens": "fewer than three content positions, or fewer than two that all documents share; no trend or no split",
    "holes": "some documents lack some positions; the split uses the positions that all of them have",
    "zero_norms": "the mean norm is 0; ratios to it are n/a",
    "constant": "norms do not vary; their variance has no shares",
    "no_sink": "a document does not show the sink's norm; if none does, λ and the share of smallest sinks are n/a",
    "none_compressed": "no content token is compressed; the share of 0 lies at its bound and has no error",
}
"""Why a number is n/a or rests on less than it should, in the order of the bits."""

_SPLIT = "document jackknife of the method-of-moments estimate, cut to 0 and 1"
_ANOVA = r"two-way random effects, restricted likelihood, one norm to each document and position"
_SHARE = {"interval": f"95% {_SPLIT}", "model": _ANOVA, "equation": CONSTANT_NORM}

PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "C": {"long_name": "norm of a content token", "units": "value norm", "symbol": "C", "equation": CONSTANT_NORM},
    "lam": {"long_name": "sink norm over content norm", "symbol": r"\lambda", "equation": SINK},
    "cv_token": {
        "long_name": "coefficient of variation of content norms within a document", "symbol": r"\mathrm{CV}_{\mathrm{token}}",
        "equation": CONSTANT_NORM,
    },
    "cv_profile": {
        "long_name": "coefficient of variation of the mean content profile", "symbol": r"\mathrm{CV}_{\mathrm{profile}}", "equation": "Fig. 2",
        "note": "the kind that the paper's 0.02 to 0.03 is: averaging over K documents alone divides what is not a position's own by √K",
    },
    "cv_position": {
        "long_name": "coefficient of variation over positions that no averaging over documents removes", "symbol": r"\mathrm{CV}_{\mathrm{position}}",
        "equation": "Fig. 2", "interval": "95% document jackknife of its square, t(K-1), cut at 0; standard error: its longer arm over t", "model": _ANOVA,
    },
    "trend": {
        "long_name": "relative change of the norm from the first content token to the last", "symbol": r"\Delta_{\mathrm{trend}}",
        "equation": CONSTANT_NORM, "note": "least-squares slope of the mean profile times its length, over C",
    },
    "share_document": _SHARE | {
        "long_name": "share of the variance of norms between documents", "symbol": r"\sigma^2_{\mathrm{document}}/\sigma^2",
        "interval": "95% document jackknife, t(K-1), of the logarithm of the documents' mean square, cut to 0 and 1",
    },
    "share_position": _SHARE | {"long_name": "share of the variance of norms between positions", "symbol": r"\sigma^2_{\mathrm{position}}/\sigma^2"},
    "share_residual": _SHARE | {
        "long_name": "share of the variance of norms within documents that no position accounts for", "symbol": r"\sigma^2_{\mathrm{residual}}/\sigma^2",
    },
    "sink_smallest_share": {
        "long_name": "share of documents in which the sink has the smallest norm", "symbol": r"\Pr(\|v_0\|<\min_i\|v_i\|)", "equation": SINK,
        "interval": "95% Wilson over documents; the standard error is half its width over 1.96",
    },
    "compressed_share": {
        "long_name": "share of content tokens that are compressed", "symbol": r"\Pr(\|v_i\|\leq\frac12\,\mathrm{med}\|v\|)", "equation": SINK,
        "rule": f"norm of at most {COMPRESSED} of the median content norm of its document", "interval": "95% document jackknife, t(K-1), cut to 0 and 1",
    },
}  # fmt: skip
"""Everything with x_se, x_lower and x_upper, over (layer, kv_head); unitless unless said."""

PLAIN: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]]] = {
    "rmse": (DIMS, {"long_name": "root mean squared residual of the mean content profile", "units": "value norm", "symbol": r"\mathrm{RMSE}",
                    "equation": CONSTANT_NORM}),
    "trend_se_hac": (DIMS, {"long_name": "standard error of the trend of the mean profile, robust to autocorrelation over positions",
                            "symbol": r"\mathrm{se}_{\mathrm{HAC}}", "equation": CONSTANT_NORM, "kernel": "Bartlett (Newey-West)",
                            "bandwidth": BANDWIDTH}),
    "share_document_at_zero": (DIMS, {"long_name": "restricted likelihood finds no variance between documents"}),
    "share_position_at_zero": (DIMS, {"long_name": "restricted likelihood finds no variance between positions"}),
    "secondary_sinks": (DIMS, {"long_name": "positions compressed in most documents, and in more than luck explains", "equation": SINK}),
    "documents": (DIMS, {"long_name": "documents that carry the head", "symbol": "K"}),
    "cv_document": (("document", *DIMS), {"long_name": "coefficient of variation of content norms, by document", "symbol": r"\mathrm{CV}",
                                          "equation": CONSTANT_NORM}),
    "lam_document": (("document", *DIMS), {"long_name": "sink norm over median content norm, by document", "symbol": r"\lambda", "equation": SINK}),
    "compressed_documents": ((*DIMS, "position"), {"long_name": "documents in which a position is compressed", "equation": SINK}),
}  # fmt: skip

TOKEN_LIST: Final[Mapping[str, str]] = {
    "id": "token id",
    "count": "compressed occurrences, summed over value heads",
    "occurrences": "occurrences with a norm, summed over value heads",
    "share": "compressed share of the occurrences",
    "heads": "value heads that compress at least half of its occurrences",
    "share_by_head": "compressed share of the occurrences",
}
POSITION_LIST: Final[Mapping[str, str]] = {
    "position": "position",
    "heads": "value heads of which it is a secondary sink",
    "tokens": "different token ids at the position",
}


def norms_dataset(capture: xr.Dataset, layers: Sequence[Mapping[str, np.ndarray]], lists: TokenLists) -> xr.Dataset:
    """Return the results of all layers as one dataset.

    Args:
        capture: the /capture dataset that was fitted.
        layers: what `norms.fit_layer` found in each layer, with compressed_documents (kv_head, position).
        lists: what was compressed in all of them.
    """

    def stacked(name: str, axis: int = 0) -> np.ndarray:
        return np.stack([found[name] for found in layers], axis=axis)

    out: dict[str, xr.Variable] = {}
    for name, words in PARAMETERS.items():
        limits = interval_of(name, {key: stacked(key) for key in layers[0] if key.startswith(f"{name}_")})
        out |= described_parameter(name, DIMS, stacked(name), limits, judged=name in EFFECTS, **{"units": "1", **words})
    for name, (dims, words) in PLAIN.items():
        values = stacked(name, dims.index("layer"))
        out[name] = described(dims, values, **{"units": "1", "symbol": "", "equation": "", **words})
    out["flags"] = flag_variable(DIMS, stacked("flags"), FLAGS, long_name="why a number is n/a or rests on less than it should")
    out["sink_visible"] = sink_flag(capture)
    out |= _lists(capture, lists)
    coords = {d: capture[d].variable for d in ("document", *DIMS, "position") if d in capture.coords}
    return xr.Dataset(out, coords=coords)


def _lists(capture: xr.Dataset, lists: TokenLists) -> dict[str, xr.Variable]:
    """The list of compressed tokens, if the capture knows its tokens, and that of secondary sinks."""
    words = {"units": "1", "symbol": "", "equation": SINK}
    out = {}
    if "token_id" in capture:
        for name, values in lists.tokens().items():
            dims = ("compressed_token", *DIMS) if name == "share_by_head" else ("compressed_token",)
            out[f"compressed_token_{name}"] = described(dims, values, long_name=f"compressed tokens: {TOKEN_LIST[name]}", **words)
    for name, values in lists.positions().items():
        if name != "tokens" or "token_id" in capture:
            out[f"secondary_sink_{name}"] = described(
                ("secondary_sink",), values, long_name=f"secondary sinks: {POSITION_LIST[name]}", **words
            )
    return out
