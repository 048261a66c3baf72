"""Records of the variables of /norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from empirical.measure.sinks import COMPRESSED
from geostat.datasets.flags import flags
from geostat.fits.norms.trend import BANDWIDTH
from geostat.fits.table import table

DIMS: Final = ("layer", "kv_head")

FLAGS: Final[Mapping[str, str]] = {
    "no_norms": "no document has a finite content norm; all numbers are n/a",
    "one_document": ("one document carries the head; no standard errors, no variance split"),
    "two_documents": "two documents carry the head; the variance split has no standard errors",
    "few_tokens": (
        "fewer than three content positions, or fewer than two that all documents share; no trend"
        " or no variance split"
    ),
    "holes": ("some documents lack some positions; the variance split uses the shared positions"),
    "zero_norms": "the mean norm is 0; ratios to the mean are n/a",
    "constant": "norms are constant; shares of variance are n/a",
    "no_sink": (
        "the sink's norm is missing in a document; if missing in all, λ and the share of smallest"
        " sinks are n/a"
    ),
    "none_compressed": (
        "no content token is compressed; the share 0 lies at its bound and has no standard error"
    ),
}
"""Reasons why a number is n/a or based on less data, in the order of the bits."""

HEADS: Final = (
    *table(
        r"""
    C | value norm | C | norm of a content token | tested
    lam | 1 | \lambda | sink norm over content norm | tested | Assumption 1.2
    cv_token | 1 | \mathrm{CV}_{\mathrm{token}} | coefficient of variation of content norms within a
        document | tested
    cv_profile | 1 | \mathrm{CV}_{\mathrm{profile}} | coefficient of variation of the mean content
        profile | tested | Fig. 2 | note: comparable with the paper's 0.02 to 0.03; averaging over K
        documents divides the variation that is not due to position by √K
    cv_position | 1 | \mathrm{CV}_{\mathrm{position}} | coefficient of variation over positions that
        remains after averaging over documents | tested | Fig. 2 | interval: 95% document jackknife
        of the square, t(K-1), clipped at 0; standard error: the longer arm over t | model: two-way
        random effects, restricted likelihood, one norm per document and position
    trend | 1 | \Delta_{\mathrm{trend}} | relative change of the norm from the first content token
        to the last | tested | note: least-squares slope of the mean profile times the profile's
        length, over C
    share_document | 1 | \sigma^2_{\mathrm{document}}/\sigma^2 | share of the variance of norms
        between documents | estimated | interval: 95% document jackknife, t(K-1), of the log of the
        documents' mean square, clipped to [0, 1] | model: two-way random effects, restricted
        likelihood, one norm per document and position
    share_position | 1 | \sigma^2_{\mathrm{position}}/\sigma^2 | share of the variance of norms
        between positions | estimated | interval: 95% document jackknife of the method-of-moments
        estimate, clipped to [0, 1] | model: two-way random effects, restricted likelihood, one norm
        per document and position
    share_residual | 1 | \sigma^2_{\mathrm{residual}}/\sigma^2 | share of the variance of norms
        within documents not explained by position | estimated | interval: 95% document jackknife of
        the method-of-moments estimate, clipped to [0, 1] | model: two-way random effects,
        restricted likelihood, one norm per document and position
    sink_smallest_share | 1 | \Pr(\|v_0\|<\min_i\|v_i\|) | share of documents in which the sink has
        the smallest norm | estimated | Assumption 1.2 | interval: 95% Wilson over documents; the
        standard error is half its width over 1.96
    compressed_share | 1 | \Pr(\|v_i\|\leq\frac12\,\mathrm{med}\|v\|) | share of content tokens that
        are compressed | estimated | Assumption 1.2
    rmse | value norm | \mathrm{RMSE} | root mean squared residual of the mean content profile
    trend_se_hac | 1 | \mathrm{se}_{\mathrm{HAC}} | standard error of the trend of the mean profile,
        robust to autocorrelation over positions | kernel: Bartlett (Newey-West)
    share_document_at_zero | 1 | - | restricted likelihood estimates no variance between documents |
        none
    share_position_at_zero | 1 | - | restricted likelihood estimates no variance between positions |
        none
    secondary_sinks | 1 | - | positions compressed in most documents, more often than by chance |
        Assumption 1.2
    documents | 1 | K | documents that carry the head | none
    cv_document | 1 | \mathrm{CV} | coefficient of variation of content norms, by document |
        dims: document layer kv_head
    lam_document | 1 | \lambda | sink norm over median content norm, by document | Assumption 1.2 |
        dims: document layer kv_head
    compressed_documents | 1 | - | documents in which a position is compressed | Assumption 1.2 |
        dims: layer kv_head position
""",
        equation="Assumption 1.1",
        dims=DIMS,
        more={
            "compressed_share": {
                "rule": f"norm of at most {COMPRESSED} of the median content norm of its document",
                "interval": "95% document jackknife, t(K-1), clipped to [0, 1]",
            },
            "trend_se_hac": {"bandwidth": BANDWIDTH},
        },
    ).values(),
    flags("flags", "why a number is n/a or based on less data", FLAGS, DIMS),
)
"""Numbers of each layer."""

TOKENS: Final = tuple(
    table(
        """
    compressed_token_id | 1 | - | compressed tokens: token id
    compressed_token_count | 1 | - | compressed tokens: compressed occurrences, summed over KV heads
    compressed_token_occurrences | 1 | - | compressed tokens: occurrences with a norm, summed over
        KV heads
    compressed_token_share | 1 | - | compressed tokens: compressed share of the occurrences
    compressed_token_heads | 1 | - | compressed tokens: KV heads that compress at least half of its
        occurrences
    compressed_token_share_by_head | 1 | - | compressed tokens: compressed share of the occurrences
        | dims: compressed_token layer kv_head
""",
        equation="Assumption 1.2",
        dims=("compressed_token",),
    ).values()
)
POSITIONS: Final = tuple(
    table(
        """
    secondary_sink_position | 1 | - | secondary sinks: position
    secondary_sink_heads | 1 | - | secondary sinks: number of KV heads with a secondary sink at the
        position
    secondary_sink_tokens | 1 | - | secondary sinks: number of distinct token ids at the position
""",
        equation="Assumption 1.2",
        dims=("secondary_sink",),
    ).values()
)
"""Secondary sinks; the last variable needs token ids in the capture."""
