"""The `geostat` command: each subcommand parses options, calls one function and prints.

Exit codes: 0 done, 1 internal error, 2 bad input or a full disk, 3 a required verdict not met, 4 a
damaged store, 130 interrupted (143 by SIGTERM, 129 by SIGHUP), 141 output pipe closed (as in
`geostat theory | head -1`).
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from geostat.cli import process
from geostat.cli.options import CompareOptions, DoctorOptions, TheoryOptions, command
from geostat.runs.experiments import EXPERIMENTS, Experiment
from geostat.runs.options import (
    CaptureOptions,
    ConfrontOptions,
    FiguresOptions,
    FitOptions,
    IngestOptions,
    MeasurementOptions,
    PlanOptions,
    ReportOptions,
    RunOptions,
    TablesOptions,
)
from geostat.what_if.options import WhatIfOptions

app = typer.Typer(
    name="geostat",
    cls=process.ErrorReportingGroup,
    help=(
        "Measure the geometry of a model's attention heads, fit the theory's assumptions, and"
        " compare its bounds with the measurement."
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        from importlib.metadata import version

        sys.stdout.write(f"geostat {version('attention-geostat')}\n")
        raise typer.Exit


@app.callback()
def global_options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Parse options before the name of the command."""


@command(app, "run", RunOptions)
def run_command(options: RunOptions) -> None:
    """Run the whole pipeline: capture, fit, confront, report."""
    from geostat.runs import pipeline
    from geostat.runs.answers import answers
    from geostat.runs.files import store_path

    tolerances, required = _requirements(options)
    page = pipeline.run(options, tolerances=tolerances, console=_console(options))
    store = store_path(options.out)
    result = answers(_open(store), everything=options.as_json)
    _write(result | {"run": str(store), "report": str(page)}, options)
    _enforce(store, required, options)


@command(app, "capture", CaptureOptions)
def capture_command(options: CaptureOptions) -> None:
    """Measure a model and write run.zarr."""
    from geostat.runs import measurement

    store = measurement.measure(options, console=_console(options))
    _write({"run": str(store.path), "documents": len(store.documents)}, options)


@command(app, "ingest", IngestOptions)
def ingest_command(options: IngestOptions) -> None:
    """Measure attention weights and values of another program and write run.zarr."""
    from geostat.runs import tensors

    store = tensors.ingest(options, console=_console(options))
    _write({"run": str(store.path), "documents": len(store.documents)}, options)


@command(app, "fit", FitOptions)
def fit_command(options: FitOptions) -> None:
    """Fit Assumptions 1-3 to a captured run."""
    from geostat.runs import pipeline

    store = _open_for_writing(options.run, results=not options.fresh)
    pipeline.fit(store, cluster=options.cluster, console=_console(options))
    _write({"run": str(store.path), "results": store.results}, options)


@command(app, "confront", ConfrontOptions)
def confront_command(options: ConfrontOptions) -> None:
    """Compare the bounds with the measured curves and give the verdicts."""
    from geostat.runs import pipeline
    from geostat.runs.answers import answers
    from geostat.runs.render import outdated

    tolerances, required = _requirements(options)
    store = _open_for_writing(options.run)
    pipeline.confront(
        store,
        **options.keywords(),
        tolerances=tolerances,
        cluster=options.cluster,
        console=_console(options),
    )
    result = answers(_open(store.path), everything=options.as_json)
    _write(result | {"run": str(store.path)}, options)
    if not options.quiet and (message := outdated(store)):
        process.print_message(message)
    _enforce(store.path, required, options)


@command(app, "report", ReportOptions)
def report_command(options: ReportOptions) -> None:
    """Write the page, figures and tables of a confronted run."""
    from geostat.runs.render import write_report

    _, required = _requirements(options)
    store = _open(options.run)
    page = write_report(store, options.out, console=_console(options))
    _write({"report": str(page)}, options)
    _enforce(store.path, required, options)


@command(app, "tables", TablesOptions)
def tables_command(options: TablesOptions) -> None:
    """Write the tables of a confronted run: LaTeX and Markdown by default."""
    from geostat.runs.render import write_tables

    paths = write_tables(_open(options.run), options)
    _write({"tables": [str(path) for path in paths]}, options)


@command(app, "figures", FiguresOptions)
def figures_command(options: FiguresOptions) -> None:
    """Write the figures of a confronted run: PDF and PNG by default."""
    from geostat.runs.render import write_figures

    paths = write_figures(_open(options.run), options)
    _write({"figures": [str(path) for path in paths]}, options)


def experiment_command(experiment: Experiment, options: MeasurementOptions) -> None:
    """Measure an experiment and print its summary."""
    store = experiment.module("measure").measure(options, console=_console(options))
    dataset = store.read(experiment.group)
    result = experiment.module("dataset").summary(dataset, everything=options.as_json)
    _write(result | {"run": str(store.path)}, options)


for experiment in EXPERIMENTS:
    options = experiment.options
    command(app, experiment.command, options, options.__doc__)(
        partial(experiment_command, experiment)
    )


@command(app, "compare", CompareOptions)
def compare_command(options: CompareOptions) -> None:
    """Compare several confronted runs with each other and with the paper."""
    from geostat.comparison import compare as comparison
    from geostat.errors import shown_whole
    from geostat.runs.files import refuse_unwritable
    from reports.comparison import write_comparison

    console = _console(options)
    refuse_unwritable(options.out)
    data = comparison.compare(options.runs, quick=options.quick, console=console)
    console.stage("write the comparison")
    with shown_whole("the comparison"):
        page = write_comparison(data, options.out)
        result = (
            comparison.as_json(data)
            if options.as_json
            else {"found": data.attrs["sentences"], "notes": data.attrs["notes"]}
        )
    _write({"comparison": str(page), **result}, options)


@command(app, "plan", PlanOptions)
def plan_command(options: PlanOptions) -> None:
    """Print how many kinds of text, documents and queries an interval or a verdict needs."""
    from geostat.errors import shown_whole
    from geostat.runs.files import seconds_of
    from geostat.runs.planning import as_json, plan

    store = _open(options.run)
    with shown_whole(store.path):
        names = ("quantity", "width", "claim", "power")
        found = plan(store.tree(), **{name: getattr(options, name) for name in names})
    seconds = (seconds_of(store.path) or {}).get("capture")
    _write(as_json(found, seconds and seconds / len(store.documents)), options)


@command(app, "theory", TheoryOptions)
def theory_command(options: TheoryOptions) -> None:
    """Print a statement of the theory with its conditions and erratum."""
    from geostat.cli.theory import statement

    name = " ".join(options.words) or None
    sys.stdout.write(statement(name, style=options.style, errata=options.errata) + "\n")


@command(app, "whatif", WhatIfOptions)
def whatif_command(options: WhatIfOptions) -> None:
    """Evaluate bounds over a grid of parameters, solve for a target, or compute elasticities."""
    from geostat.what_if.answer import answer

    _write(answer(options), options)


@command(app, "doctor", DoctorOptions)
def doctor_command(options: DoctorOptions) -> None:
    """Check this machine, and verify or repair a run."""
    from geostat.cli import doctor

    repaired = doctor.repair(options, console=_console(options)) if options.repair else {}
    _write(repaired | doctor.examine(options.run), options)


def _write(result: dict[str, Any], options: Any) -> None:
    """Print the result of a command, as JSON or as names with values, lines or tables.

    A run at a URL is printed as its URL, not as its working copy.
    """
    if "run" in result and Path(str(result["run"])).suffix == ".zarr":
        from empirical.store.remote import called

        result = result | {"run": called(Path(str(result["run"])))}
    if getattr(options, "as_json", False):
        from reports.text.printable import printable_data

        sys.stdout.write(json.dumps(printable_data(result), indent=1, allow_nan=False) + "\n")
    elif not getattr(options, "quiet", False):
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from empirical.sources.paths import shown  # makes names printable that are not UTF-8
    from geostat.errors import printable

    for name, value in result.items():
        is_list = isinstance(value, list)
        is_table = is_list and value and isinstance(value[0], dict)
        items = _columns(value) if is_table else value if is_list else [value]
        lines = [printable(shown(str(item))) for item in items]
        text = "".join(f"\n  {line}" for line in lines) if is_list else f" {lines[0]}"
        sys.stdout.write(f"{name}:{text}\n")


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows as lines of aligned columns; missing values are n/a."""
    cells = [list(rows[0])] + [
        ["n/a" if value is None else f"{value}" for value in row.values()] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in cells]


def _requirements(options: Any) -> tuple[Any, list[Any]]:
    """Return tolerances and required verdicts, parsed before any computation."""
    from geostat.topics.claims import read_tolerances, requirement

    tolerances = read_tolerances(getattr(options, "tolerances", None))
    return tolerances, [requirement(text) for text in options.require]


def _enforce(store: Path, required: list[Any], options: Any) -> None:
    from geostat.topics.claims import enforce_requirements

    if required:
        lines = enforce_requirements(_open(store).tree(only=("verdicts",)), required)
        if not (options.quiet or getattr(options, "as_json", False)):
            _print({"required": lines})


def _console(options: Any) -> Any:
    from geostat.cli.progress import progress_console

    return progress_console(quiet=getattr(options, "quiet", getattr(options, "as_json", False)))


def _open(run: Path) -> Any:
    from empirical.store.stored_run import StoredRun
    from geostat.runs.files import store_path

    return StoredRun.open(store_path(run))


def _open_for_writing(run: Path, *, results: bool = True) -> Any:
    from empirical.store.store import Store
    from geostat.runs.files import store_path

    return Store.open(store_path(run), results=results)


def main() -> None:
    """Run the command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ["MPLBACKEND"] = "agg"  # figures go to files; the variable may name a missing backend
    process.prepare_streams()
    process.install_signal_handlers()
    try:
        app()
    finally:
        process.flush_streams()


if __name__ == "__main__":
    main()
