"""The `geostat` command: parses, calls one function, prints. Exit codes: 0 done, 1 our own failure, 2 bad input, 4 a damaged store, 130 interrupted."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console as Terminal

from geostat.guard import Guarded
from geostat.options import (
    Batch,
    ConventionName,
    Dataset,
    Device,
    Documents,
    Dtype,
    Field,
    Fresh,
    Heads,
    Json,
    Length,
    Model,
    Null,
    Out,
    Pickle,
    Quiet,
    RemoteCode,
    Resume,
    Revision,
    Run,
    Seed,
    Sizes,
    SpecialTokens,
    Split,
    Text,
)

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
def run_command(
    model: Model = None,
    text: Text = None,
    dataset: Dataset = None,
    split: Split = "train",
    field: Field = "text",
    documents: Documents = 8,
    length: Length = 1024,
    n: Sizes = "default",
    convention: ConventionName = "paper",
    special_tokens: SpecialTokens = "default",
    seed: Seed = 0,
    batch: Batch = 1,
    device: Device = "auto",
    dtype: Dtype = "float32",
    revision: Revision = None,
    head: Heads = None,
    null: Null = True,
    out: Out = Path("report"),
    resume: Resume = False,
    fresh: Fresh = False,
    trust_remote_code: RemoteCode = False,
    allow_pickle: Pickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Capture, fit, confront and report: the main job."""
    from geostat import pipeline

    settings = _settings(locals())
    console = _talk(quiet=quiet)
    page = pipeline.run(settings, out, fresh=_fresh(fresh, resume), null=null, console=console)
    _print(
        {"report": str(page), "run": str(pipeline.store_path(out)), **_sentences(pipeline.store_path(out))}, as_json=as_json, quiet=quiet
    )


@app.command("capture")
def capture_command(
    model: Model = None,
    text: Text = None,
    dataset: Dataset = None,
    split: Split = "train",
    field: Field = "text",
    documents: Documents = 8,
    length: Length = 1024,
    n: Sizes = "default",
    convention: ConventionName = "paper",
    special_tokens: SpecialTokens = "default",
    seed: Seed = 0,
    batch: Batch = 1,
    device: Device = "auto",
    dtype: Dtype = "float32",
    revision: Revision = None,
    head: Heads = None,
    null: Null = True,
    out: Out = Path("report"),
    resume: Resume = False,
    fresh: Fresh = False,
    trust_remote_code: RemoteCode = False,
    allow_pickle: Pickle = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Only measure: write run.zarr."""
    from geostat import pipeline

    settings = _settings(locals())
    store = pipeline.measure(settings, out, fresh=_fresh(fresh, resume), null=null, console=_talk(quiet=quiet))
    _print({"run": str(store.path), "documents": len(store.documents)}, as_json=as_json, quiet=quiet)


@app.command("fit")
def fit_command(run: Run, quiet: Quiet = False, as_json: Json = False) -> None:
    """Fit Assumptions 1-3 to a captured run."""
    from geostat import pipeline

    store = _open(run)
    pipeline.fit(store, console=_talk(quiet=quiet))
    _print({"run": str(store.path), "results": store.results}, as_json=as_json, quiet=quiet)


@app.command("confront")
def confront_command(
    run: Run,
    edition: Annotated[list[str] | None, typer.Option(help="Edition of the theory; repeatable. printed and sharp when left out.")] = None,
    n: Annotated[str, typer.Option("--n", help="default (about 24 log-spaced sizes) or all.")] = "default",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate the bounds and lay them over the measured curves."""
    from geostat import pipeline
    from geostat.settings import chosen_editions, envelope_points

    store = _open(run)
    pipeline.lay_over(store, editions=chosen_editions(edition), points=envelope_points(n), console=_talk(quiet=quiet))
    _print({"run": str(store.path), **_sentences(store.path)}, as_json=as_json, quiet=quiet)


@app.command("report")
def report_command(run: Run, out: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None, quiet: Quiet = False) -> None:
    """Write the page, figures and tables of a confronted run."""
    from geostat import pipeline

    store = _open(run)
    page = pipeline.write_report(store, out or store.path.parent, console=_talk(quiet=quiet))
    _print({"report": str(page)}, as_json=False, quiet=quiet)


@app.command("tables")
def tables_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the tables of a confronted run as LaTeX and Markdown."""
    from geostat import pipeline

    store = _open(run)
    _print(
        {"tables": [str(path) for path in pipeline.write_tables(store, out or store.path.parent / "tables")]}, as_json=False, quiet=quiet
    )


@app.command("figures")
def figures_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write the figures of a confronted run as PDF and PNG."""
    from geostat import pipeline

    store = _open(run)
    _print(
        {"figures": [str(path) for path in pipeline.write_figures(store, out or store.path.parent / "figures")]}, as_json=False, quiet=quiet
    )


@app.command("theory")
def theory_command(
    name: Annotated[str | None, typer.Argument(help="Name or equation number of a statement; all are listed when left out.")] = None,
    style: Annotated[str, typer.Option("--as", help="text, latex, python or json.")] = "text",
    errata: Annotated[bool, typer.Option("--errata", help="Print what is wrong in print, and what is true instead.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Lay every edition over simulated heads and count where it fails (minutes).")
    ] = False,
    draws: Annotated[int, typer.Option(help="Simulated heads of each kind for --audit.")] = 1000,
    every: Annotated[int, typer.Option(help="Take each so-many-th head of the grid for --audit.")] = 1,
) -> None:
    """Print a statement of the theory: its expression, conditions and erratum."""
    from geostat.statements import audited, statement

    if audit:
        sys.stdout.write(audited(draws=draws, every=every, console=_talk(quiet=False)) + "\n")
        return
    sys.stdout.write(statement(name, style=style, errata=errata) + "\n")


@app.command("whatif")
def whatif_command(
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=VALUE, name=V1,V2 or name=FROM:TO:COUNT[:log]; x before values multiplies (beta=x2). Repeatable."),
    ] = None,
    edition: Annotated[str, typer.Option(help="printed, repaired, sharp, conditional or predicted.")] = "printed",
    gram: Annotated[str, typer.Option(help="exponential, offset, stretched or power.")] = "exponential",
    bound: Annotated[
        list[str] | None, typer.Option("--bound", help="Such as recall_lower; repeatable. The lower ones when left out.")
    ] = None,
    run: Annotated[Path | None, typer.Option("--from", help="A fitted run to start from, with --head.")] = None,
    head: Annotated[str | None, typer.Option(help="The head to start from, such as L5H3.")] = None,
    find: Annotated[str | None, typer.Option(help="Find the N, d, beta=LOW:HIGH, … at which a bound reaches --target.")] = None,
    target: Annotated[float | None, typer.Option(help="What the bound is to reach, for --find.")] = None,
    project: Annotated[
        bool, typer.Option("--project", help="Move an impossible rho0 to its edge and flag the point, not leave it out.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for dataset, figure and table.")] = Path("whatif"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Evaluate the bounds over a grid of parameters, or find where one reaches a target."""
    from geostat.studies import Asked, answer

    asked = Asked(
        sets=tuple(sets or ()),
        edition=edition,
        gram=gram,
        bounds=tuple(bound or ()),
        run=run,
        head=head,
        find=find,
        target=target,
        project=project,
        out=out,
    )
    _print(answer(asked), as_json=as_json, quiet=quiet)


@app.command("doctor")
def doctor_command(
    run: Annotated[Path | None, typer.Argument(help="A run to verify, chunk by chunk.")] = None, as_json: Json = False
) -> None:
    """Say what this machine can run, and whether a run on disk is sound."""
    from geostat.doctor import examine

    _print(examine(run), as_json=as_json, quiet=False)


def _talk(*, quiet: bool) -> Any:
    from geostat.terminal import talk

    return talk(quiet=quiet)


def _settings(given: dict[str, Any]) -> Any:
    from geostat.settings import Settings, named_heads

    names = {field for field in Settings.__dataclass_fields__ if field in given} - {"text", "heads"}
    return Settings(**{name: given[name] for name in names}, text=tuple(given["text"] or ()), heads=named_heads(given["head"] or []))


def _fresh(fresh: bool, resume: bool) -> bool:
    from geostat.errors import InputError

    if fresh and resume:
        raise InputError("--fresh and --resume were both given, expected one. --fresh throws the old run away, --resume completes it.")
    return fresh


def _open(run: Path) -> Any:
    from empirical.store import Store
    from geostat.pipeline import store_path

    return Store.open(store_path(run))


def _sentences(path: Path) -> dict[str, Any]:
    from empirical.store import Store

    return {"verdict": Store.open(path).read("summary").attrs["sentences"]}


def _print(result: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result, indent=1, allow_nan=False) + "\n")
        return
    if quiet:
        return
    terminal = Terminal(markup=False, emoji=False, highlight=False, soft_wrap=True)
    for name, value in result.items():
        if isinstance(value, list):
            terminal.print(f"{name}:")
            for item in value:
                terminal.print(f"  {item}")
        else:
            terminal.print(f"{name}: {value}")


def main() -> None:
    """Run the command."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    app()
