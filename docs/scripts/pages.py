"""Pages of the reference that are written from the program: its command line, its claims and the
signatures of its functions.

`python -m docs.scripts.pages docs/reference` writes command_line.md, claims.md and signatures.md; a
test holds them to what the program says.
"""

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

import typer
from typer.cli import get_docs_for_click

import geostat
from geostat.cli.app import app
from geostat.runs import plot
from geostat.runs.methods.accessor import RunMethods
from geostat.runs.settings import CAPTURE, Settings
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


def signatures() -> str:
    """Return how each public function is called, with the first sentence of its docstring."""
    parts = {
        "geostat": ("gs", [getattr(geostat, name) for name in geostat.__all__]),
        "Methods of a run": ("run.geostat", vars(RunMethods).values()),
        "geostat.plot": ("gs.plot", [getattr(plot, name) for name in plot.__all__]),
    }
    lines = [
        "# Signatures",
        "",
        f"Written by `{COMMAND}`. [Python](api.md) and `help(gs.fit)` tell what arguments are.",
        "",
        f"Further settings of `gs.capture`: `{_settings()}`.",
    ]
    for title, (place, found) in parts.items():
        lines += ["", f"## {title}", ""]
        for one in found:
            if inspect.isfunction(one) and not one.__name__.startswith("_"):
                first = re.split(r"(?<=\.)\s", " ".join((one.__doc__ or "").split()))[0]
                lines.append(f"- `{place}.{one.__name__}{_arguments(one)}`: {first}")
    return "\n".join([*lines, ""])


def _settings() -> str:
    """The settings of a capture that stand under no name of its own, with their defaults."""
    return ", ".join(
        f"{one.name}={one.default!r}"
        for one in fields(Settings)
        if one.name not in {"model", "text", *CAPTURE}
    )


def _arguments(function: object) -> str:
    """The arguments of a function or method with their defaults, without types."""
    asked = inspect.signature(function)  # type: ignore[arg-type]
    bare = [
        one.replace(annotation=inspect.Parameter.empty)
        for one in asked.parameters.values()
        if one.name != "self"
    ]
    return str(asked.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _tolerance(side: str, tolerance: Tolerance, unit: str) -> str:
    value = SIGNS[side].format(f"{tolerance.value:.2f}")
    return value if unit == "1" else f"{value} {unit}"


def main(folder: str) -> None:
    """Write the pages into a folder."""
    for name, made in PAGES.items():
        (Path(folder) / name).write_text(made(), encoding="utf-8")


PAGES = {"command_line.md": command_line, "claims.md": claims, "signatures.md": signatures}


if __name__ == "__main__":
    main(sys.argv[1])
