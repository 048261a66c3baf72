"""Pages of the reference that are written from the program: its command line and its claims.

`python -m docs.scripts.pages docs/reference` writes command_line.md and claims.md; a test holds
both to what the program says.
"""

import re
import sys
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

from geostat.cli.app import app
from geostat.verdicts.claims import CLAIMS
from geostat.verdicts.tolerances import Tolerance, read_tolerances

COMMAND = ".venv/bin/python -m docs.scripts.pages docs/reference"
SIGNS = {"at_most": "≤ {}", "at_least": "≥ {}", "within": "size ≤ {}"}
UNITS = {"kv_head": "value head", "head": "query head"}


def command_line() -> str:
    """Return every command with its arguments and options, as `--help` has them."""
    command = typer.main.get_group(app)
    text: str = get_docs_for_click(obj=command, ctx=typer.Context(command), name="geostat")
    text = re.sub(r"`[^`\n]+`|--[a-z][a-z-]*", lambda found: f"`{found[0].strip('`')}`", text)
    for name, one in command.commands.items():  # typer cuts these short
        whole = " ".join((one.help or "").split())
        text = re.sub(rf"^\* `{name}`: .*$", f"* `{name}`: {whole}", text, flags=re.MULTILINE)
    title, _, rest = text.partition("\n")
    first = f"Written by `{COMMAND}`. The same is printed by `geostat COMMAND --help`."
    return f"{title.replace('`geostat`', 'Command line')}\n\n{first}\n{rest.rstrip()}\n"


def claims() -> str:
    """Return a table with a row a claim: what it says, of what, its number and its tolerance."""
    tolerances = read_tolerances()
    rows = [
        f"| `{claim.key}` | {claim.says} | {UNITS[claim.of]} | `/{claim.group}/{claim.variable}` |"
        f" {_tolerance(claim.side, tolerances[claim.key], claim.units)} |"
        f" {tolerances[claim.key].source} |"
        for claim in CLAIMS
    ]
    return "\n".join(
        [
            "# Claims",
            "",
            f"Written by `{COMMAND}`. [Tolerances](tolerances.md) tells how to change a number.",
            "",
            "| claim | says | of each | number | holds where it is | the tolerance comes from |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "[What a verdict means](../explanation/verdicts.md) has the rule.",
            "",
        ]
    )


def _tolerance(side: str, tolerance: Tolerance, unit: str) -> str:
    value = SIGNS[side].format(f"{tolerance.value:.2f}")
    return value if unit == "1" else f"{value} {unit}"


def main(folder: str) -> None:
    """Write both pages into a folder."""
    for name, text in (("command_line.md", command_line()), ("claims.md", claims())):
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
