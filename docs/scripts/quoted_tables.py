"""Tables of the pages beside those of a report: a row's numbers must stand in one row there.

`python -m docs.scripts.quoted_tables report` prints each quoted table and the rows that differ, and
ends with 1 if there are any. A table is quoted where a comment before it names the report's table:
`<!-- from coverage -->`.
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
"""Lines of a table above its rows."""


@dataclass(frozen=True)
class Quotation:
    """A table of a page, and the report's table that it is from."""

    page: str
    table: str
    rows: tuple[str, ...]


def numbers(row: str) -> Counter[str]:
    """Return the numbers of a row, whatever their sign is written with."""
    return Counter(NUMBER.findall(row.replace("−", "-")))


def quotations(folder: Path = DOCS) -> list[Quotation]:
    """Return the quoted tables of all pages."""
    return [
        Quotation(page.name, table, tuple(text.splitlines()[HEAD:]))
        for page in sorted(folder.rglob("*.md"))
        for table, text in QUOTATION.findall(page.read_text(encoding="utf-8"))
    ]


def differing(quoted: Quotation, report: str) -> list[str]:
    """Return the rows whose numbers no row of the report's table has."""
    there = [numbers(line) for line in report.splitlines() if line.startswith("|")]
    return [row for row in quoted.rows if not any(numbers(row) <= one for one in there)]


def main(report: str) -> int:
    """Print a line a quoted table; return how many rows differ."""
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
