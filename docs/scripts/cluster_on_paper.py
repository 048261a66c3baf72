"""Projected cost of a run of a 70-billion-parameter model on a million documents.

GPU and core hours, bytes, files, the writing process and the statistics are multiplied out from
measured constants, each with its source. No run of this size was made.
"""

from dataclasses import dataclass
from typing import Final

from empirical.store.shards import DOCUMENTS as SHARD

DOCUMENTS: Final = 1_000_000
TOKENS: Final = 1024

PARAMETERS: Final = 70.6e9
LAYERS, HEADS, DIMENSION = 80, 64, 128
"""Shape of Llama 3.1 70B, from its config.json. It has 8 KV heads per layer."""

OWN_HEADS: Final = 270
"""Heads of the built-in model, on which the constants of one machine were measured."""
OWN_DOCUMENTS: Final = 8

DOCUMENT_MB, ARRAYS = 10.86, 60
"""Packed size and arrays of one 1,024-token document, built-in model. `benchmarks.cluster`."""
WRITER_MS: Final = 28.0
"""Writer time for such a document if it arrives packed, shards included, two idle cores.
`benchmarks.cluster --writer`.
"""
SHARED_MS: Final = 1.6
"""Writer CPU time for such a document if workers write documents and shards to a shared disk.
The writer moves files and compares digests, so this does not grow with the heads. Same command.
"""
ENVELOPE_S: Final = 2.49
"""Measured envelopes of such a document, one thread. `benchmarks.cluster --writer`."""
FIT_S, CONFRONT_S = 25.2, 45.5
"""`seconds` in run.json of the built-in run: 8 documents, two cores."""

LEAST_US: Final = {"geometry": 381, "baselines": 282, "16 queries": 2420}
"""Lower bound in µs on an H100's time for a layer of 32 heads, from the bytes that are moved.
`benchmarks.device`; counted, not timed.
"""
LAYER_HEADS: Final = 32
FLOP_S: Final = 0.6 * 989e12
"""60% of an H100's peak in bfloat16, as in benchmarks/README.md."""
ROW_BYTES: Final = 315
"""Mean length of a line of documents.jsonl in the built-in run."""


@dataclass(frozen=True, slots=True)
class Need:
    """One row of the table: a quantity for one document and for all."""

    quantity: str
    document: str
    run: str


def needs() -> list[Need]:
    """Return the rows of the table."""
    heads = LAYERS * HEADS
    # 2 FLOP a parameter and token; scores and their weighted sum, each 2 FLOP a pair and dimension,
    # over half of the pairs.
    flop = 2 * PARAMETERS * TOKENS + 4 * heads * DIMENSION * TOKENS**2 / 2
    forward = flop / FLOP_S
    measured = sum(LEAST_US.values()) * 1e-6 / LAYER_HEADS * heads
    megabytes = DOCUMENT_MB / OWN_HEADS * heads
    envelope = ENVELOPE_S / OWN_HEADS * heads
    writer = WRITER_MS * 1e-3 / DOCUMENT_MB * megabytes
    shards = -(-DOCUMENTS // SHARD)
    statistics = (FIT_S + CONFRONT_S) * 2 / (OWN_DOCUMENTS * OWN_HEADS) * heads

    shared = f"{SHARED_MS * 1e-3 * DOCUMENTS / 3600:.1f}"

    def hours(seconds: float) -> str:
        return f"{seconds * DOCUMENTS / 3600:,.0f}"

    return [
        Need("weights in bfloat16, per worker", "", f"{2 * PARAMETERS / 1e9:.0f} GB"),
        Need("forward", f"{forward:.2f} GPU s", f"{hours(forward)} GPU hours"),
        Need(
            "measurements on the GPU, at least",
            f"{measured:.2f} GPU s",
            f"{hours(measured)} GPU hours",
        ),
        Need("measured envelopes", f"{envelope:.0f} core s", f"{hours(envelope)} core hours"),
        Need("store", f"{megabytes:.0f} MB", f"{megabytes * DOCUMENTS / 1e6:,.0f} TB"),
        Need("chunks", f"{ARRAYS}", f"{ARRAYS * DOCUMENTS:,}"),
        Need("files (shards)", f"{ARRAYS / SHARD:.2f}", f"{ARRAYS * shards:,}"),
        Need("average size of a shard", "", f"{megabytes * SHARD / ARRAYS:.0f} MB"),
        Need(
            "lines of documents.jsonl", f"{ROW_BYTES} B", f"{ROW_BYTES * DOCUMENTS / 1e6:,.0f} MB"
        ),
        Need(
            "token windows in the writer's memory",
            f"{4 * TOKENS:,} B",
            f"{4e-9 * TOKENS * DOCUMENTS:.1f} GB",
        ),
        Need(
            "writer, shared disk",
            f"{SHARED_MS} core ms",
            f"{shared} core hours",
        ),
        Need("writer, documents sent to it", f"{writer:.2f} s", f"{hours(writer)} hours"),
        Need("envelope cores that saturate that writer", "", f"{envelope / writer:.0f}"),
        Need("envelope cores per GPU", "", f"{envelope / (forward + measured):.0f}"),
        Need(
            "GPUs that saturate that writer, without envelopes",
            "",
            f"{(forward + measured) / writer:.1f}",
        ),
        Need(
            "fits and bounds, current code",
            f"{statistics:.0f} core s",
            f"{hours(statistics)} core hours",
        ),
    ]


def main() -> None:
    """Print the table in Markdown."""
    print(f"| quantity | per document | {DOCUMENTS:,} documents |")
    print("|---|---|---|")
    for need in needs():
        print(f"| {need.quantity} | {need.document} | {need.run} |")


if __name__ == "__main__":
    main()
