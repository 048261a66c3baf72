"""LaTeX as pdflatex sets it: what it says of a document, and what it complains of."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SECONDS = 600
needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no LaTeX is installed (pdflatex)"
)
AGAIN = ("Column widths have changed", "Table widths have changed", "Label(s) may have changed")
"""Warnings that another pass answers."""


def compiled(folder: Path, latex: str, *, passes: int = 1) -> str:
    """The log of the last pass; TimeoutExpired where LaTeX does not end by itself."""
    (folder / "all.tex").write_text(latex, encoding="utf-8")
    for _ in range(passes):
        subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "all.tex"],
            cwd=folder,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    return (folder / "all.log").read_text(encoding="latin-1")


def complaints(log: str, *, last: bool = False) -> list[str]:
    """Errors, warnings and boxes that stand out; of a pass before the last none that the next
    answers.
    """
    found = re.findall(r"^(?:! .*|.*Warning: .*|Overfull .*)$", log, re.MULTILINE)
    return [line for line in found if last or not any(words in line for words in AGAIN)]


def pages(log: str) -> int:
    """Pages of the document; 0 where none was written."""
    match = re.search(r"Output written on all.pdf \((\d+) page", log)
    return int(match[1]) if match else 0
