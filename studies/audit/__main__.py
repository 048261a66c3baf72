"""Audit of the bounds: violations and widths of every edition on simulated heads.

Run: python -m studies.audit FILE [--draws 1000] [--every 1] [--seed 0] [--workers 2] (minutes)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from studies.audit.document import all_samples, document


def main() -> None:
    """Write the audit to a file, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="path of the document")
    parser.add_argument(
        "--draws", type=int, default=1000, help="draws for each head and kind of directions"
    )
    parser.add_argument("--every", type=int, default=1, help="step through the heads (1: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    audits = all_samples(
        options.draws, seed=options.seed, every=options.every, workers=options.workers
    )
    options.file.write_text(document(audits, every=options.every), encoding="utf-8")


if __name__ == "__main__":
    main()
