"""The `geostat` command: parses, calls one function, prints. Exit codes: 0 done, 1 our own failure, 2 bad input, 4 a damaged store, 130 interrupted."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console as Terminal
from typer.core import TyperGroup

REFUSED_BY_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
"""What a disk that is full or may not be written says."""


class Guarded(TyperGroup):
    """Turns what a command refuses into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        from empirical.errors import InputError as MeasurementError
        from empirical.errors import StoreError
        from geostat.errors import InputError
        from reports.errors import InputError as ReportError
        from theory.errors import InputError as TheoryError

        try:
            return super().invoke(ctx)
        except (InputError, MeasurementError, TheoryError, ReportError) as error:
            _fail(str(error), 2)
        except StoreError as error:
            _fail(str(error), 4)
        except KeyboardInterrupt as error:
            _fail(str(error) or "interrupted. What was complete is kept: run the same command again to go on.", 130)
        except OSError as error:
            if error.errno not in REFUSED_BY_DISK:
                raise
            _fail(f"{error.filename or 'a file'}: cannot be written ({error.strerror}). Free some space, or choose another --out.", 2)


def _fail(line: str, code: int) -> NoReturn:
    sys.stderr.write(f"geostat: {' '.join(line.split())}\n")
    sys.exit(code)


app = typer.Typer(
    name="geostat",
    cls=Guarded,
    help="Measure the geometry of a model's attention heads, fit the theory's assumptions, and confront its bounds with the measurement.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str | None, typer.Argument(help="Hub id, local directory or GGUF file; the built-in SmolLM2-135M-Instruct when left out.")
]
Run = Annotated[Path, typer.Argument(help="A run's store, such as report/run.zarr, or the folder that holds it.")]
Text = Annotated[
    list[Path] | None, typer.Option("--text", help="File, folder or .jsonl; repeatable. Python's own documentation when left out.")
]
Out = Annotated[Path, typer.Option(help="Folder for the store, the report, figures and tables.")]
Documents = Annotated[int, typer.Option(help="How many documents to measure.")]
Length = Annotated[int, typer.Option(help="Tokens of a window.")]
Sizes = Annotated[str, typer.Option("--n", help="Sizes N of the selected set: default, all, or such as 1,2,4-8.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an equal run stopped (also the default when the settings are equal).")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Throw away what stands at --out and measure again.")]
Dataset = Annotated[str | None, typer.Option(help="A hub dataset, streamed.")]
Split = Annotated[str, typer.Option(help="Split of --dataset.")]
Field = Annotated[str, typer.Option(help="Field of --dataset or .jsonl that holds the text.")]
Revision = Annotated[str | None, typer.Option(help="Commit, tag or branch of a hub model.")]
ConventionName = Annotated[str, typer.Option("--convention", help="paper or followup: how balls, ties and F are counted.")]
SpecialTokens = Annotated[str, typer.Option("--special-tokens", help="default (the tokenizer's choice) or none.")]
Seed = Annotated[int, typer.Option(help="Seed of the null baselines.")]
Batch = Annotated[int, typer.Option(help="Windows per forward pass.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Dtype = Annotated[str, typer.Option(help="Type of the model's weights; softmax and reductions are always float32.")]
Heads = Annotated[
    list[str] | None, typer.Option("--head", help="Keep principal components of a head such as L5H3; repeatable, at most 12.")
]
Null = Annotated[bool, typer.Option("--null/--no-null", help="Measure the null baselines too.")]
RemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Allow a hub model to bring its own code.")]
Pickle = Annotated[bool, typer.Option("--allow-pickle", help="Allow weights stored as pickles, which can run code when read.")]


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

    store = _open(run)
    pipeline.lay_over(store, editions=pipeline.chosen_editions(edition), points=pipeline.envelope_points(n), console=_talk(quiet=quiet))
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
) -> None:
    """Print a statement of the theory: its expression, conditions and erratum."""
    from geostat.statements import statement

    sys.stdout.write(statement(name, style=style, errata=errata) + "\n")


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
    from geostat import pipeline

    names = {field for field in pipeline.Settings.__dataclass_fields__ if field in given} - {"text", "heads"}
    return pipeline.Settings(
        **{name: given[name] for name in names}, text=tuple(given["text"] or ()), heads=pipeline.named_heads(given["head"] or [])
    )


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
