"""`python -m theory.errata FILE` writes the errata as Markdown."""

import sys
from pathlib import Path

from theory.errata.record import markdown

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
