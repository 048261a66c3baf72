"""Which tokens, and which positions, have compressed value vectors without being the sink."""

from __future__ import annotations

from reports.run import Run
from reports.tables.cells import Cell, header, share, text, whole
from reports.tables.table import Table
from reports.text.number import count, percent

MOST = 12
"""Tokens that are listed."""


def compressed_tables(run: Run) -> list[Table]:
    """The table; none where the run did not look for compressed tokens."""
    if "compressed_token_id" not in run.norms:
        return []
    norms = run.norms
    rows: list[list[Cell]] = []
    for index in range(min(norms.sizes["compressed_token"], MOST)):
        at = norms.isel(compressed_token=index)
        part = float(at["compressed_token_share"])
        counts = [float(at[f"compressed_token_{name}"]) for name in ("id", "count", "occurrences")]
        rows.append([text("token"), *map(whole, counts), share(part, percent(part)), whole(float(at["compressed_token_heads"]))])
    for index in range(norms.sizes.get("secondary_sink", 0)):
        at = norms.isel(secondary_sink=index)
        part = float(at["secondary_sink_share"])
        counts = [float(at["secondary_sink_position"]), float(at["secondary_sink_documents"]), float(norms["documents"].sum())]
        rows.append([text("position"), *map(whole, counts), share(part, percent(part)), whole(float(at["secondary_sink_heads"]))])
    headers = header("what", "token id or position", "compressed", "of occurrences", "share", "value heads")
    sinks = int(norms.sizes.get("secondary_sink", 0))
    caption = (
        "A token is compressed where its norm is at most half the median content norm of its document. Counts are over documents and "
        f"{count(run.kv_heads, 'value head')}; value heads: of a token those that compress at least half of its occurrences, of a position those "
        f"whose secondary sink it is (compressed in most documents, and in more than luck explains: {count(sinks, 'such position')}). "
        "The tokens most often compressed; the model’s tokenizer says what an id stands for."
    )
    return [
        Table(name="compressed", title="Compressed tokens besides the sink", headers=headers, rows=rows, align="lrrrrr", caption=caption)
    ]
