"""Generated reference pages: command line, claims, signatures and tolerances.

`python -m docs.scripts.pages docs/reference` writes command_line.md, claims.md, signatures.md and
tolerances.toml. A test compares them with the program.
"""

import inspect
import re
import sys
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

import geostat
from geostat.cli.app import app
from geostat.runs import plot
from geostat.runs.accessor import RunMethods
from geostat.topics.claims import CLAIMS, as_toml, read_tolerances
from geostat.topics.records import Tolerance

COMMAND = ".venv/bin/python -m docs.scripts.pages docs/reference"
SIGNS = {"at_most": "≤ {}", "at_least": "≥ {}", "within": "absolute value ≤ {}"}
UNITS = {"kv_head": "KV head", "head": "query head"}


def command_line() -> str:
    """Return every command with its arguments and options, from its `--help`."""
    command = typer.main.get_group(app)
    text: str = get_docs_for_click(obj=command, ctx=typer.Context(command), name="geostat")
    text = re.sub(r"`[^`\n]+`|--[a-z][a-z-]*", lambda match: f"`{match[0].strip('`')}`", text)
    for name, subcommand in command.commands.items():  # typer truncates these
        whole = " ".join((subcommand.help or "").split())
        text = re.sub(rf"^\* `{name}`: .*$", f"* `{name}`: {whole}", text, flags=re.MULTILINE)
    title, _, rest = text.partition("\n")
    first = f"Written by `{COMMAND}`. `geostat COMMAND --help` prints the same."
    return f"{title.replace('`geostat`', 'Command line')}\n\n{first}\n{rest.rstrip()}\n"


def claims() -> str:
    """Return a table of all claims: statement, unit, variable and tolerance."""
    tolerances = read_tolerances()
    rows = [
        f"| `{claim.key}` | {claim.says} | {UNITS[claim.of]} | `/{claim.group}/{claim.variable}` |"
        f" {_tolerance(claim.side, tolerances[claim.key], claim.units)}"
        f"{', and better than a constant' if claim.flat else ''} |"
        f" {tolerances[claim.key].source} |"
        for claim in CLAIMS
    ]
    return "\n".join(
        [
            "# Claims",
            "",
            f"Written by `{COMMAND}`. [Tolerances](tolerances.md) describes how to change a"
            " tolerance.",
            "",
            "| claim | statement | unit | variable | holds if | source of the tolerance |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "[What a verdict means](../explanation/verdicts.md) describes the rule.",
            "",
        ]
    )


def signatures() -> str:
    """Return the signature of each public function with the first sentence of its docstring."""
    parts = {
        "geostat": ("gs", [getattr(geostat, name) for name in geostat.__all__]),
        "Methods of a run": ("run.geostat", vars(RunMethods).values()),
        "geostat.plot": ("gs.plot", [getattr(plot, name) for name in plot.__all__]),
    }
    lines = [
        "# Signatures",
        "",
        f"Written by `{COMMAND}`. [Python](api.md) and `help(gs.fit)` describe the arguments.",
    ]
    for title, (prefix, functions) in parts.items():
        lines += ["", f"## {title}", ""]
        for function in functions:
            if inspect.isfunction(function) and not function.__name__.startswith("_"):
                first = re.split(r"(?<=\.)\s", " ".join((function.__doc__ or "").split()))[0]
                call = f"{prefix}.{function.__name__}{_arguments(function)}"
                lines.append(f"- `{call}`: {first}")
    return "\n".join([*lines, ""])


def _arguments(function: object) -> str:
    """Return the arguments of a function or method with their defaults, without types."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _tolerance(side: str, tolerance: Tolerance, unit: str) -> str:
    value = SIGNS[side].format(f"{tolerance.value:.2f}")
    return value if unit == "1" else f"{value} {unit}"


def main(folder: str) -> None:
    """Write the pages into a folder."""
    for name, page in PAGES.items():
        (Path(folder) / name).write_text(page(), encoding="utf-8")


PAGES = {
    "command_line.md": command_line,
    "claims.md": claims,
    "signatures.md": signatures,
    "tolerances.toml": as_toml,
}


if __name__ == "__main__":
    main(sys.argv[1])
