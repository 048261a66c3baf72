"""Check of the tables that pages quote from a report: the numbers of a row must be in one row
there.

`python -m docs.scripts.quoted_tables report` prints each quoted table and the rows that differ, and
exits with 1 if a row differs. A comment before a quoted table names the report's table: `<!-- from
coverage -->`.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[1]
QUOTATION: Final = re.compile(r"<!-- from (\w+) -->\n\n((?:\|.*\n)+)")
NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
HEAD: Final = 2
"""Number of header lines of a table."""


@dataclass(frozen=True)
class Quotation:
    """A quoted table of a page, and the name of the report's table."""

    page: str
    table: str
    rows: tuple[str, ...]


def numbers(row: str) -> Counter[str]:
    """Return the numbers of a row; both minus signs are read."""
    return Counter(NUMBER.findall(row.replace("−", "-")))


def quotations(folder: Path = DOCS) -> list[Quotation]:
    """Return the quoted tables of all pages."""
    return [
        Quotation(page.name, table, tuple(text.splitlines()[HEAD:]))
        for page in sorted(folder.rglob("*.md"))
        for table, text in QUOTATION.findall(page.read_text(encoding="utf-8"))
    ]


def differing(quoted: Quotation, report: str) -> list[str]:
    """Return the rows whose numbers are in no row of the report's table."""
    of_report = [numbers(line) for line in report.splitlines() if line.startswith("|")]
    return [row for row in quoted.rows if not any(numbers(row) <= line for line in of_report)]


def main(report: str) -> int:
    """Print a line per quoted table; return the number of rows that differ."""
    count = 0
    for quoted in quotations():
        table = Path(report) / "tables" / f"{quoted.table}.md"
        rows = differing(quoted, table.read_text(encoding="utf-8"))
        print(f"{quoted.page}: {len(quoted.rows)} rows from {quoted.table}, {len(rows)} differ")
        print(*rows, sep="\n", end="\n" * bool(rows))
        count += len(rows)
    return count


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1])))
