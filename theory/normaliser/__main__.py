"""`python -m theory.normaliser FILE` tries every statement and writes the counts as Markdown."""

from __future__ import annotations

import argparse
from pathlib import Path

from theory.normaliser.document import document
from theory.normaliser.trial import tried


def main(arguments: list[str] | None = None) -> None:
    """Try and write."""
    parser = argparse.ArgumentParser(
        prog="python -m theory.normaliser",
        description="Try every statement of the normaliser and write the counts down as Markdown.",
    )
    parser.add_argument("out", type=Path)
    for name, default in (("rows", 2000), ("draws", 400), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args(arguments)
    if asked.rows < 1 or asked.draws < 2 or asked.seed < 0:
        parser.error("expected at least 1 row and 2 draws, and a seed of at least 0")
    tally = tried(asked.rows, seed=asked.seed, draws=asked.draws)
    written = document(tally, rows=asked.rows, seed=asked.seed, draws=asked.draws)
    asked.out.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
