"""Variables of /norms: their records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from empirical.measure.sinks import COMPRESSED
from geostat.datasets.flags import flags
from geostat.datasets.variable import Variable
from geostat.fits.norms.trend import BANDWIDTH

DIMS: Final = ("layer", "kv_head")
CONSTANT_NORM, SINK = "Assumption 1.1", "Assumption 1.2"

FLAGS: Final[Mapping[str, str]] = {
    "no_norms": "no document has a finite content norm; everything is n/a",
    "one_document": (
        "one document carries the head; no errors over documents, and no split of the variance"
    ),
    "two_documents": "two documents carry the head; the split of the variance has no errors",
    "few_tokens": (
        "fewer than three content positions, or fewer than two that all documents share; no trend"
        " or no split"
    ),
    "holes": (
        "some documents lack some positions; the split uses the positions that all of them have"
    ),
    "zero_norms": "the mean norm is 0; ratios to it are n/a",
    "constant": "norms do not vary; their variance has no shares",
    "no_sink": (
        "a document does not show the sink's norm; if none does, λ and the share of smallest sinks"
        " are n/a"
    ),
    "none_compressed": (
        "no content token is compressed; the share of 0 lies at its bound and has no error"
    ),
}
"""Why a number is n/a or rests on less than it should, in the order of the bits."""

_SPLIT = "document jackknife of the method-of-moments estimate, cut to 0 and 1"
_OF_LOGARITHM = (
    "document jackknife, t(K-1), of the logarithm of the documents' mean square, cut to 0 and 1"
)
_ANOVA = r"two-way random effects, restricted likelihood, one norm to each document and position"

_plain = partial(Variable, dims=DIMS)
_estimate = partial(_plain, estimated=True)
_effect = partial(_estimate, judged=True)
_each = partial(Variable, dims=("document", *DIMS))
HEADS: Final = (
    _effect("C", "norm of a content token", "value norm", "C", CONSTANT_NORM),
    _effect("lam", "sink norm over content norm", "1", r"\lambda", SINK),
    _effect(
        "cv_token",
        "coefficient of variation of content norms within a document",
        "1",
        r"\mathrm{CV}_{\mathrm{token}}",
        CONSTANT_NORM,
    ),
    _effect(
        "cv_profile",
        "coefficient of variation of the mean content profile",
        "1",
        r"\mathrm{CV}_{\mathrm{profile}}",
        "Fig. 2",
        {
            "note": (
                "the kind that the paper's 0.02 to 0.03 is: averaging over K documents alone"
                " divides what is not a position's own by √K"
            )
        },
    ),
    _effect(
        "cv_position",
        "coefficient of variation over positions that no averaging over documents removes",
        "1",
        r"\mathrm{CV}_{\mathrm{position}}",
        "Fig. 2",
        {
            "interval": (
                "95% document jackknife of its square, t(K-1), cut at 0; standard error: its longer"
                " arm over t"
            ),
            "model": _ANOVA,
        },
    ),
    _effect(
        "trend",
        "relative change of the norm from the first content token to the last",
        "1",
        r"\Delta_{\mathrm{trend}}",
        CONSTANT_NORM,
        {"note": "least-squares slope of the mean profile times its length, over C"},
    ),
    *(
        _estimate(
            f"share_{source}",
            f"share of the variance of norms {words}",
            "1",
            rf"\sigma^2_{{\mathrm{{{source}}}}}/\sigma^2",
            CONSTANT_NORM,
            {"interval": f"95% {interval}", "model": _ANOVA},
        )
        for source, words, interval in (
            ("document", "between documents", _OF_LOGARITHM),
            ("position", "between positions", _SPLIT),
            ("residual", "within documents that no position accounts for", _SPLIT),
        )
    ),
    _estimate(
        "sink_smallest_share",
        "share of documents in which the sink has the smallest norm",
        "1",
        r"\Pr(\|v_0\|<\min_i\|v_i\|)",
        SINK,
        {"interval": "95% Wilson over documents; the standard error is half its width over 1.96"},
    ),
    _estimate(
        "compressed_share",
        "share of content tokens that are compressed",
        "1",
        r"\Pr(\|v_i\|\leq\frac12\,\mathrm{med}\|v\|)",
        SINK,
        {
            "rule": f"norm of at most {COMPRESSED} of the median content norm of its document",
            "interval": "95% document jackknife, t(K-1), cut to 0 and 1",
        },
    ),
    _plain(
        "rmse",
        "root mean squared residual of the mean content profile",
        "value norm",
        r"\mathrm{RMSE}",
        CONSTANT_NORM,
    ),
    _plain(
        "trend_se_hac",
        "standard error of the trend of the mean profile, robust to autocorrelation over positions",
        "1",
        r"\mathrm{se}_{\mathrm{HAC}}",
        CONSTANT_NORM,
        {"kernel": "Bartlett (Newey-West)", "bandwidth": BANDWIDTH},
    ),
    _plain("share_document_at_zero", "restricted likelihood finds no variance between documents"),
    _plain("share_position_at_zero", "restricted likelihood finds no variance between positions"),
    _plain(
        "secondary_sinks",
        "positions compressed in most documents, and in more than luck explains",
        equation=SINK,
    ),
    _plain("documents", "documents that carry the head", symbol="K"),
    _each(
        "cv_document",
        "coefficient of variation of content norms, by document",
        "1",
        r"\mathrm{CV}",
        CONSTANT_NORM,
    ),
    _each("lam_document", "sink norm over median content norm, by document", "1", r"\lambda", SINK),
    Variable(
        "compressed_documents",
        "documents in which a position is compressed",
        equation=SINK,
        dims=(*DIMS, "position"),
    ),
    flags("flags", "why a number is n/a or rests on less than it should", FLAGS, DIMS),
)
"""What each layer gives."""

_token = partial(Variable, equation=SINK, dims=("compressed_token",))
TOKENS: Final = (
    _token("compressed_token_id", "compressed tokens: token id"),
    _token(
        "compressed_token_count",
        "compressed tokens: compressed occurrences, summed over value heads",
    ),
    _token(
        "compressed_token_occurrences",
        "compressed tokens: occurrences with a norm, summed over value heads",
    ),
    _token("compressed_token_share", "compressed tokens: compressed share of the occurrences"),
    _token(
        "compressed_token_heads",
        "compressed tokens: value heads that compress at least half of its occurrences",
    ),
    _token(
        "compressed_token_share_by_head",
        "compressed tokens: compressed share of the occurrences",
        dims=("compressed_token", *DIMS),
    ),
)
_position = partial(Variable, equation=SINK, dims=("secondary_sink",))
POSITIONS: Final = (
    _position("secondary_sink_position", "secondary sinks: position"),
    _position(
        "secondary_sink_heads", "secondary sinks: value heads of which it is a secondary sink"
    ),
    _position("secondary_sink_tokens", "secondary sinks: different token ids at the position"),
)
"""Without token ids in the capture, all but the last."""
