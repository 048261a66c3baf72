"""The `geostat` command: parses, calls one function, prints.

Exit codes: 0 done, 1 our own failure, 2 bad input or a full disk, 3 a required verdict not met, 4 a damaged store, 130 interrupted
(143 by SIGTERM, 129 by SIGHUP), 141 nobody reads the output any more (as in `geostat theory | head -1`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from geostat.cli import stops, streams
from geostat.cli.errors import Guarded
from geostat.cli.judging import judged_by, met
from geostat.cli.options import JUDGING, MEASURING, Json, Quiet, Require, Run, Tolerances, taking
from geostat.cli.whatif_options import WHATIF

app = typer.Typer(
    name="geostat",
    cls=Guarded,
    help="Measure the geometry of a model's attention heads, fit the theory's assumptions, and confront its bounds with the measurement.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("run")
@taking(MEASURING | JUDGING)
def run_command(given: dict[str, Any]) -> None:
    """Capture, fit, confront and report: the main job."""
    from geostat.runs import pipeline
    from geostat.runs.paths import store_path

    out, (held, required) = given["out"], judged_by(given["tolerances"], given["require"])
    page = pipeline.run(_settings(given), out, held_against=held, **_how_to_measure(given))
    store = store_path(out)
    _print({"report": str(page), "run": str(store), **_sentences(store)}, as_json=given["as_json"], quiet=given["quiet"])
    _hold_to(store, required, quiet=given["quiet"] or given["as_json"])


@app.command("capture")
@taking(MEASURING)
def capture_command(given: dict[str, Any]) -> None:
    """Only measure: write run.zarr."""
    from geostat.runs import pipeline

    store = pipeline.measure(_settings(given), given["out"], **_how_to_measure(given))
    _print({"run": str(store.path), "documents": len(store.documents)}, as_json=given["as_json"], quiet=given["quiet"])


@app.command("fit")
def fit_command(
    run: Run,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Throw away fits and all that was made of them, without a look at it: damaged results too.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit Assumptions 1-3 to a captured run."""
    from geostat.runs import pipeline

    store = _open(run, results=not fresh)
    pipeline.fit(store, console=_talk(quiet=quiet))
    _print({"run": str(store.path), "results": store.results}, as_json=as_json, quiet=quiet)


@app.command("confront")
def confront_command(
    run: Run,
    edition: Annotated[list[str] | None, typer.Option(help="Edition of the theory; repeatable. printed and sharp when left out.")] = None,
    n: Annotated[str, typer.Option("--n", help="default (about 24 log-spaced sizes) or all.")] = "default",
    swap: Annotated[
        bool, typer.Option("--swap", help="Also swap fitted ingredients of the bounds for measured ones (a minute or two).")
    ] = False,
    predict: Annotated[
        bool, typer.Option("--predict", help="Also predict every head's curves from its fits, and say how well (a few minutes).")
    ] = False,
    tolerances: Tolerances = None,
    require: Require = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate the bounds, lay them over the measured curves, and give the verdicts."""
    from geostat.runs import pipeline
    from geostat.runs.render import outdated
    from geostat.runs.settings import chosen_editions, envelope_points

    held, required = judged_by(tolerances, require)
    store = _open(run)
    asked = {"editions": chosen_editions(edition), "points": envelope_points(n), "held_against": held, "swap": swap}
    pipeline.confront(store, **asked, predict=predict, console=_talk(quiet=quiet))
    _print({"run": str(store.path), **_sentences(store.path)}, as_json=as_json, quiet=quiet)
    if not quiet and (line := outdated(store)):
        streams.say(line)
    _hold_to(store.path, required, quiet=quiet or as_json)


@app.command("report")
def report_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
    require: Require = None,
    quiet: Quiet = False,
) -> None:
    """Write the page, figures and tables of a confronted run."""
    from geostat.runs.render import write_report

    _, required = judged_by(None, require)
    store = _open(run)
    page = write_report(store, out or store.path.parent, console=_talk(quiet=quiet))
    _print({"report": str(page)}, as_json=False, quiet=quiet)
    _hold_to(store.path, required, quiet=quiet)


@app.command("tables")
def tables_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the tables of a confronted run as LaTeX and Markdown."""
    from geostat.runs.render import write_tables

    _write("tables", write_tables, run, out, quiet=quiet)


@app.command("figures")
def figures_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the figures of a confronted run as PDF and PNG."""
    from geostat.runs.render import write_figures

    _write("figures", write_figures, run, out, quiet=quiet)


@app.command("compare")
def compare_command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN…", help="Two or more runs: stores such as report/run.zarr, or the folders that hold them."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and tables.")] = Path("comparison"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Give the coverage of bounds without errors, which take as long as to confront each run again.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Lay several confronted runs side by side, with what the paper reports beside them."""
    from geostat.comparison import compare as comparison
    from geostat.runs.paths import refuse_unwritable
    from reports.comparison.page import write_comparison

    talk = _talk(quiet=quiet)
    refuse_unwritable(out)
    data = comparison.compare(runs, quick=quick, console=talk)
    talk.stage("write the comparison")
    page = write_comparison(data, out)
    result = comparison.as_json(data) if as_json else {"found": data.attrs["sentences"], "mind": data.attrs["notes"]}
    _print({"comparison": str(page), **result}, as_json=as_json, quiet=quiet)


@app.command("theory")
def theory_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="name", help="Such as 12, theorem 1, table 1, erratum 17 or a statement's name; all are listed when left out."
        ),
    ] = None,
    style: Annotated[str, typer.Option("--as", help="text, latex, python or json.")] = "text",
    errata: Annotated[bool, typer.Option("--errata", help="Print what is wrong in print, and what is true instead.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Lay every edition over simulated heads and count where it fails (minutes).")
    ] = False,
    test: Annotated[bool, typer.Option("--test", help="Put table 1 to the test by simulation (a minute), or table 2.")] = False,
    draws: Annotated[int, typer.Option(help="Simulated heads of each kind for --audit, of each point for --test.")] = 1000,
    every: Annotated[int, typer.Option(help="Take each so-many-th head for --audit.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the draws and the random heads of --audit.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes for --audit; its counts do not depend on them.")] = 1,
    out: Annotated[Path | None, typer.Option(help="File that --audit writes to, instead of the terminal.")] = None,
) -> None:
    """Print a statement of the theory: its expression, conditions and erratum."""
    from geostat.cli.theory import audited, statement, trial

    if audit:
        written = audited(draws=draws, every=every, seed=seed, workers=workers, console=_talk(quiet=False), out=out)
        if out is None:
            sys.stdout.write(written)
        return
    name = " ".join(words) if words else None
    if test:
        sys.stdout.write(trial(name, draws=draws, console=_talk(quiet=False)) + "\n")
        return
    sys.stdout.write(statement(name, style=style, errata=errata) + "\n")


@app.command("whatif")
@taking(WHATIF)
def whatif_command(given: dict[str, Any]) -> None:
    """Evaluate the bounds over a grid of parameters, find where one reaches a target, or tell how one responds to each parameter."""
    from geostat.what_if.answer import Asked, answer

    printing = {"as_json": given.pop("as_json"), "quiet": given.pop("quiet")}
    _print(answer(Asked(**given | {name: given[name] or () for name in ("sets", "bounds")})), **printing)


@app.command("doctor")
def doctor_command(
    run: Annotated[Path | None, typer.Argument(help="A run to verify, chunk by chunk.")] = None, as_json: Json = False
) -> None:
    """Say what this machine can run, and whether a run on disk is sound."""
    from geostat.cli.doctor import examine

    _print(examine(run), as_json=as_json, quiet=False)


def _hold_to(store: Path, required: list[Any], *, quiet: bool) -> None:
    if required:
        _print({"required": met(store, required)}, as_json=False, quiet=quiet)


def _talk(*, quiet: bool) -> Any:
    from geostat.cli.progress import talk

    return talk(quiet=quiet)


def _settings(given: dict[str, Any]) -> Any:
    from geostat.runs.settings import Settings, named_heads

    names = {field for field in Settings.__dataclass_fields__ if field in given} - {"text", "heads"}
    return Settings(**{name: given[name] for name in names}, text=tuple(given["text"] or ()), heads=named_heads(given["head"] or []))


def _how_to_measure(given: dict[str, Any]) -> dict[str, Any]:
    """How a measurement goes about it, apart from what it measures."""
    from geostat.errors import InputError

    if given["fresh"] and given["resume"]:
        raise InputError("--fresh and --resume were both given, expected one. --fresh throws the old run away, --resume completes it.")
    return {"fresh": given["fresh"], "null": given["null"], "console": _talk(quiet=given["quiet"])}


def _open(run: Path, *, results: bool = True) -> Any:
    from empirical.store.store import Store
    from geostat.runs.paths import store_path

    return Store.open(store_path(run), results=results)


def _write(what: str, write: Callable[[Any, Path], list[Path]], run: Path, out: Path | None, *, quiet: bool) -> None:
    store = _open(run)
    paths = write(store, out or store.path.parent / what)
    _print({what: [str(path) for path in paths]}, as_json=False, quiet=quiet)


def _sentences(path: Path) -> dict[str, Any]:
    from empirical.store.store import Store

    return {"verdict": Store.open(path).read("summary").attrs["sentences"]}


def _print(result: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result, indent=1, allow_nan=False) + "\n")
        return
    if quiet:
        return
    from empirical.sources.paths import shown  # a name that is not UTF-8 can be printed

    for name, value in result.items():
        lines = [f"{name}:", *(f"  {item}" for item in value)] if isinstance(value, list) else [f"{name}: {value}"]
        sys.stdout.write(shown("\n".join(lines)) + "\n")


def main() -> None:
    """Run the command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    streams.prepare()
    stops.heed()
    try:
        app()
    finally:
        streams.settle()
