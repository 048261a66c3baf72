"""`python -m theory.audit FILE` audits every edition and writes it down as Markdown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from theory.audit.document import document
from theory.audit.summary import all_samples
from theory.errors import InputError


def main(arguments: list[str] | None = None) -> None:
    """Write the document; progress goes to standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m theory.audit",
        description="Audit every edition and write it down as Markdown.",
    )
    parser.add_argument("out", type=Path)
    for name, default in (("draws", 1000), ("seed", 0), ("every", 1), ("workers", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args(arguments)

    def progress(share: float) -> None:
        sys.stderr.write(f"\raudit {share:.0%}")

    try:
        result = all_samples(
            asked.draws,
            seed=asked.seed,
            every=asked.every,
            workers=asked.workers,
            progress=progress,
        )
    except InputError as problem:
        parser.error(str(problem))
    sys.stderr.write("\n")
    asked.out.write_text(document(result, every=asked.every), encoding="utf-8")


if __name__ == "__main__":
    main()
