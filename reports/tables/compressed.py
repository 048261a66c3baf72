"""Which tokens, and which positions, have compressed value vectors without being the sink."""

from __future__ import annotations

import numpy as np

from reports.run import Run
from reports.tables.cells import Cell, Table, mixed, share, text, whole
from reports.text.number import count, percent

MOST = 12
"""Tokens that are listed."""


def compressed_tables(run: Run) -> list[Table]:
    """The table; none where the run did not look for compressed tokens."""
    if "compressed_token_id" not in run.norms:
        return []
    found = run.norms
    rows: list[list[Cell]] = []
    for place in range(min(found.sizes["compressed_token"], MOST)):
        at = found.isel(compressed_token=place)
        part = float(at["compressed_token_share"])
        rows.append([
            text("token"), whole(float(at["compressed_token_id"])), whole(float(at["compressed_token_count"])),
            whole(float(at["compressed_token_occurrences"])), share(part, percent(part)), whole(float(at["compressed_token_heads"])),
        ])  # fmt: skip
    for place in range(found.sizes.get("secondary_sink", 0)):
        at = found.isel(secondary_sink=place)
        position = int(at["secondary_sink_position"])
        times = np.asarray(found["compressed_documents"].isel(position=position).values)
        seen = float(np.asarray(found["documents"].values).sum())
        part = float(times.sum()) / seen if seen else float("nan")
        rows.append([
            text("position"), whole(float(position)), whole(float(times.sum())), whole(seen), share(part, percent(part)),
            whole(float(at["secondary_sink_heads"])),
        ])  # fmt: skip
    headers = [mixed(word) for word in ("what", "token id or position", "compressed", "of occurrences", "share", "value heads")]
    sinks = int(found.sizes.get("secondary_sink", 0))
    caption = (
        "A token is compressed where its norm is at most half the median content norm of its document. Counts are over documents and "
        f"{count(run.kv_heads, 'value head')}; value heads: of a token those that compress at least half of its occurrences, of a position those "
        f"whose secondary sink it is (compressed in most documents, and in more than luck explains: {count(sinks, 'such position')}). "
        "The tokens most often compressed; the model’s tokenizer says what an id stands for."
    )
    return [
        Table(name="compressed", title="Compressed tokens besides the sink", headers=headers, rows=rows, align="lrrrrr", caption=caption)
    ]
