"""The `geostat` command: parses, calls one function, prints.

Exit codes: 0 done, 1 our own failure, 2 bad input or a full disk, 3 a required verdict not met, 4 a
damaged store, 130 interrupted (143 by SIGTERM, 129 by SIGHUP), 141 nobody reads the output any more
(as in `geostat theory | head -1`).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from geostat.cli import normaliser as of_normaliser
from geostat.cli import options, output, process
from geostat.cli.ablate import ABLATE, ablate_command
from geostat.cli.effective import EFFECTIVE, effective_command
from geostat.cli.measuring import how_to_measure
from geostat.cli.options_of_studies import THEORY, WHATIF

PARTS: Final[dict[Literal["tables", "figures"], str]] = {
    "tables": "LaTeX and Markdown",
    "figures": "PDF and PNG",
}

app = typer.Typer(
    name="geostat",
    cls=process.Guarded,
    help=(
        "Measure the geometry of a model's attention heads, fit the theory's assumptions, and"
        " confront its bounds with the measurement."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def before(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=output.version
        ),
    ] = False,
) -> None:
    """What stands before a command's name."""


@app.command("run")
@options.taking(options.MEASURING | options.JUDGING)
def run_command(**given: Any) -> None:
    """Capture, fit, confront and report: the main job."""
    from geostat.runs import pipeline
    from geostat.runs.answers import answers
    from geostat.runs.files import store_path
    from geostat.runs.settings import of_options

    out, (tolerances, required) = given["out"], _judged_by(given["tolerances"], given["require"])
    page = pipeline.run(of_options(given), out, tolerances=tolerances, **how_to_measure(given))
    store = store_path(out)
    as_json = given["as_json"]
    output.write(
        answers(_open(store), everything=as_json) | {"run": str(store), "report": str(page)},
        as_json=as_json,
        quiet=given["quiet"],
    )
    _hold_to(store, required, quiet=given["quiet"] or given["as_json"])


@app.command("capture")
@options.taking(options.MEASURING)
def capture_command(**given: Any) -> None:
    """Only measure: write run.zarr."""
    from geostat.runs import measurement
    from geostat.runs.settings import of_options

    store = measurement.measure(of_options(given), given["out"], **how_to_measure(given))
    _write_captured(store, given)


@app.command("ingest")
@options.taking(options.INGESTING)
def ingest_command(**given: Any) -> None:
    """Measure weights and values that another program wrote into files: write run.zarr."""
    from geostat.runs import tensors

    asked = {name: given[name] for name in ("model", "queries", "n", "convention", "seed", "head")}
    store = tensors.ingest(given["files"], given["out"], **asked, **how_to_measure(given))
    _write_captured(store, given)


@app.command("fit")
@options.taking(options.FITTING)
def fit_command(run: Path, fresh: bool, cluster: str | None, quiet: bool, as_json: bool) -> None:
    """Fit Assumptions 1-3 to a captured run."""
    from geostat.runs import pipeline

    store = _to_write(run, results=not fresh)
    pipeline.fit(store, cluster=cluster, console=_talk(quiet=quiet))
    output.write({"run": str(store.path), "results": store.results}, as_json=as_json, quiet=quiet)


@app.command("confront")
@options.taking(options.CONFRONTING)
def confront_command(
    run: Path, edition: list[str] | None, n: str, quiet: bool, as_json: bool, **asked: Any
) -> None:
    """Evaluate the bounds, lay them over the measured curves, and give the verdicts."""
    from geostat.runs import pipeline, stages
    from geostat.runs.answers import answers
    from geostat.runs.render import outdated

    tolerances, required = _judged_by(asked.pop("tolerances"), asked.pop("require"))
    store = _to_write(run)
    editions, points = stages.chosen_editions(edition), stages.envelope_points(n)
    pipeline.confront(
        store,
        editions=editions,
        points=points,
        tolerances=tolerances,
        **asked,
        console=_talk(quiet=quiet),
    )
    output.write(
        answers(_open(store.path), everything=as_json) | {"run": str(store.path)},
        as_json=as_json,
        quiet=quiet,
    )
    if not quiet and (line := outdated(store)):
        process.say(line)
    _hold_to(store.path, required, quiet=quiet or as_json)


@app.command("report")
@options.taking(options.REPORTING)
def report_command(run: Path, out: Path | None, require: list[str] | None, quiet: bool) -> None:
    """Write the page, figures and tables of a confronted run."""
    from geostat.runs.render import write_report

    _, required = _judged_by(None, require)
    store = _open(run)
    page = write_report(store, out, console=_talk(quiet=quiet))
    output.write({"report": str(page)}, quiet=quiet)
    _hold_to(store.path, required, quiet=quiet)


def part_command(
    part: Literal["tables", "figures"], run: Path, out: Path | None, quiet: bool, **asked: Any
) -> None:
    """Write the tables, or the figures, of a confronted run."""
    from geostat.runs.render import write_part

    store = _open(run)
    paths = write_part(part, store, out, **asked)
    output.write({part: [str(path) for path in paths]}, quiet=quiet)


for part, kinds in PARTS.items():
    part_options = options.taking(options.rendering(part, **options.CHOOSING[part]))
    app.command(part, help=f"Write the {part} of a confronted run: {kinds}, unless told.")(
        part_options(partial(part_command, part))
    )


app.command("effective")(options.taking(EFFECTIVE)(effective_command))
app.command("ablate")(options.taking(ABLATE)(ablate_command))
app.command("normaliser")(options.taking(of_normaliser.OPTIONS)(of_normaliser.normaliser_command))


@app.command("compare")
@options.taking(options.COMPARING)
def compare_command(runs: list[Path], out: Path, quick: bool, quiet: bool, as_json: bool) -> None:
    """Lay several confronted runs side by side, with what the paper reports beside them."""
    from geostat.comparison import compare as comparison
    from geostat.errors import shown_whole
    from geostat.runs.files import refuse_unwritable
    from reports.comparison.page import write_comparison

    talk = _talk(quiet=quiet)
    refuse_unwritable(out)
    data = comparison.compare(runs, quick=quick, console=talk)
    talk.stage("write the comparison")
    with shown_whole("the comparison"):
        page = write_comparison(data, out)
        result = (
            comparison.as_json(data)
            if as_json
            else {"found": data.attrs["sentences"], "mind": data.attrs["notes"]}
        )
    output.write({"comparison": str(page), **result}, as_json=as_json, quiet=quiet)


@app.command("theory")
@options.taking(THEORY)
def theory_command(
    words: list[str] | None,
    style: str,
    errata: bool,
    test: bool,
    audit: bool,
    draws: int,
    out: Path | None,
    **auditing: int,
) -> None:
    """Print a statement of the theory: its expression, conditions and erratum."""
    from geostat.cli.theory import audited, statement, trial

    name = " ".join(words) if words else None
    if audit:
        written = audited(draws=draws, console=_talk(), out=out, **auditing)
        sys.stdout.write(written if out is None else "")
    elif test:
        sys.stdout.write(trial(name, draws=draws, console=_talk()) + "\n")
    else:
        sys.stdout.write(statement(name, style=style, errata=errata) + "\n")


@app.command("whatif")
@options.taking(WHATIF)
def whatif_command(as_json: bool, quiet: bool, **given: Any) -> None:
    """Evaluate the bounds over a grid of parameters, find where one reaches a target, or tell
    how one responds to each parameter.
    """
    from geostat.what_if.answer import Asked, answer

    output.write(
        answer(Asked(**given | {name: given[name] or () for name in ("sets", "bounds")})),
        as_json=as_json,
        quiet=quiet,
    )


@app.command("doctor")
@options.taking(options.DOCTOR)
def doctor_command(run: Path | None, repair: bool, as_json: bool, **allowed: bool) -> None:
    """Say what this machine can run, and whether a run on disk is sound; or repair it."""
    from geostat.cli import doctor

    done = doctor.repair(run, allowed, console=_talk(quiet=as_json)) if repair else {}
    output.write(done | doctor.examine(run), as_json=as_json)


def _write_captured(store: Any, given: dict[str, Any]) -> None:
    result = {"run": str(store.path), "documents": len(store.documents)}
    output.write(result, as_json=given["as_json"], quiet=given["quiet"])


def _judged_by(tolerances: Path | None, require: list[str] | None) -> tuple[Any, list[Any]]:
    """What the verdicts are held against, and what is required of them; read before any work is
    done.
    """
    from geostat.verdicts.requirements import requirement
    from geostat.verdicts.tolerances import read_tolerances

    return read_tolerances(tolerances), [requirement(text) for text in require or ()]


def _hold_to(store: Path, required: list[Any], *, quiet: bool) -> None:
    from geostat.verdicts.requirements import hold_to

    if required:
        output.write(
            {"required": hold_to(_open(store).tree(only=("verdicts",)), required)}, quiet=quiet
        )


def _talk(*, quiet: bool = False) -> Any:
    from geostat.cli.progress import talk

    return talk(quiet=quiet)


def _open(run: Path) -> Any:
    from empirical.store.stored_run import StoredRun
    from geostat.runs.files import store_path

    return StoredRun.open(store_path(run))


def _to_write(run: Path, *, results: bool = True) -> Any:
    from empirical.store.store import Store
    from geostat.runs.files import store_path

    return Store.open(store_path(run), results=results)


def main() -> None:
    """Run the command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["MPLBACKEND"] = "agg"  # files alone are drawn; another name may be of no backend
    process.prepare()
    process.heed()
    try:
        app()
    finally:
        process.settle()


if __name__ == "__main__":
    main()
