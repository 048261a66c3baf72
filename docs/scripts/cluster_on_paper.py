"""What a run of a model of 70 billion parameters on a million documents needs, on paper: hours of
GPUs and cores, bytes, files, the one writer, and the statistics, from constants that were measured.

Nothing of this size was run. Each constant has its source; all else is multiplied out here.
"""

from dataclasses import dataclass
from typing import Final

from empirical.store.shards import DOCUMENTS as SHARD

DOCUMENTS: Final = 1_000_000
TOKENS: Final = 1024

PARAMETERS: Final = 70.6e9
LAYERS, HEADS, DIMENSION = 80, 64, 128
"""Shape of Llama 3.1 70B, as its config.json tells; it has 8 value heads a layer."""

OWN_HEADS: Final = 270
"""Heads of the built-in model, of which the constants of one machine are."""
OWN_DOCUMENTS: Final = 8

DOCUMENT_MB, ARRAYS = 10.86, 60
"""A document of the built-in model, 1,024 tokens, packed; its arrays. `benchmarks.cluster`."""
WRITER_MS: Final = 28.0
"""Time of the writer for such a document that arrives packed, shards included, alone on two cores.
`benchmarks.cluster --writer`.
"""
SHARED_MS: Final = 1.6
"""Processor's time of the writer for one that a worker wrote on its disk, where workers write the
shards, too. It moves files and compares digests, so it does not grow with the heads. The same
command.
"""
ENVELOPE_S: Final = 2.49
"""Measured envelopes of such a document, one thread. `benchmarks.cluster --writer`."""
FIT_S, CONFRONT_S = 25.2, 45.5
"""`seconds` in run.json of the built-in run: 8 documents, two cores."""

LEAST_US: Final = {"geometry": 381, "baselines": 282, "16 queries": 2420}
"""Least time of an H100 for the measurements of a layer of 32 heads, by the bytes that they move.
`benchmarks.device`, counted, not timed.
"""
LAYER_HEADS: Final = 32
FLOP_S: Final = 0.6 * 989e12
"""60% of an H100's peak in bfloat16, as in benchmarks/README.md."""
ROW_BYTES: Final = 315
"""A line of documents.jsonl, in the built-in run."""


@dataclass(frozen=True, slots=True)
class Need:
    """What is needed, for one document and for all."""

    what: str
    document: str
    run: str


def needs() -> list[Need]:
    """Multiply it out."""
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
        Need("weights in bfloat16, a worker", "", f"{2 * PARAMETERS / 1e9:.0f} GB"),
        Need("forward", f"{forward:.2f} GPU s", f"{hours(forward)} GPU hours"),
        Need(
            "measured on the GPU, at least", f"{measured:.2f} GPU s", f"{hours(measured)} GPU hours"
        ),
        Need("measured envelopes", f"{envelope:.0f} core s", f"{hours(envelope)} core hours"),
        Need("store", f"{megabytes:.0f} MB", f"{megabytes * DOCUMENTS / 1e6:,.0f} TB"),
        Need("chunks", f"{ARRAYS}", f"{ARRAYS * DOCUMENTS:,}"),
        Need("files (shards)", f"{ARRAYS / SHARD:.2f}", f"{ARRAYS * shards:,}"),
        Need("a shard of a mean array", "", f"{megabytes * SHARD / ARRAYS:.0f} MB"),
        Need(
            "lines of documents.jsonl", f"{ROW_BYTES} B", f"{ROW_BYTES * DOCUMENTS / 1e6:,.0f} MB"
        ),
        Need(
            "windows in the writer's memory",
            f"{4 * TOKENS:,} B",
            f"{4e-9 * TOKENS * DOCUMENTS:.1f} GB",
        ),
        Need(
            "the writer, of a disk that workers share",
            f"{SHARED_MS} core ms",
            f"{shared} core hours",
        ),
        Need("the writer, of documents sent to it", f"{writer:.2f} s", f"{hours(writer)} hours"),
        Need("cores, at envelopes, that keep it busy", "", f"{envelope / writer:.0f}"),
        Need("cores, at envelopes, for one GPU", "", f"{envelope / (forward + measured):.0f}"),
        Need(
            "GPUs that keep it busy, were envelopes free",
            "",
            f"{(forward + measured) / writer:.1f}",
        ),
        Need(
            "fits and bounds, if as now",
            f"{statistics:.0f} core s",
            f"{hours(statistics)} core hours",
        ),
    ]


def main() -> None:
    """Print a table."""
    print(f"| what | a document | {DOCUMENTS:,} documents |")
    print("|---|---|---|")
    for need in needs():
        print(f"| {need.what} | {need.document} | {need.run} |")


if __name__ == "__main__":
    main()
