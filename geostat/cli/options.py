"""Command-line parameters from option dataclasses; options of `compare`, `theory` and `doctor`.

Imports typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from geostat.options import REQUIRED, Option, Options, PrintOptions, like, option, options_of
from geostat.runs.options import MeasurementOptions


@dataclass(frozen=True, kw_only=True)
class CompareOptions(PrintOptions):
    """Options of `geostat compare`."""

    runs: tuple[Path, ...] = option(
        REQUIRED,
        "Two or more runs: stores such as report/run.zarr, or their folders.",
        positional=True,
        metavar="RUN RUN…",
    )
    out: Path = option(Path("comparison"), "Folder for the page, figures and tables.")
    quick: bool = option(
        False,
        "Omit standard errors of coverage, which take as long as confronting each run again.",
    )


@dataclass(frozen=True, kw_only=True)
class TheoryOptions(Options):
    """Options of `geostat theory`."""

    words: tuple[str, ...] = option(
        (),
        "Statement, such as 12, theorem 1, table 1, erratum 17 or a name; default: list all.",
        positional=True,
        metavar="name",
    )
    style: str = option("text", "Output format: text, latex, python or json.", "--as")
    errata: bool = option(False, "Print errata of the paper and their corrections.")


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(Options):
    """Options of `geostat doctor`."""

    run: Path | None = option(None, "Run to verify, chunk by chunk.", positional=True)
    repair: bool = option(
        False,
        "Measure damaged documents and compute damaged results again, with the options that made"
        " the run; intact files stay unchanged.",
    )
    trust_remote_code: bool = like(MeasurementOptions, "trust_remote_code")
    allow_pickle: bool = like(MeasurementOptions, "allow_pickle")
    as_json: bool = like(PrintOptions, "as_json")


class OptionsCommand(TyperCommand):
    """A command whose options are the fields of a dataclass.

    Its parameters are made on first use: `geostat --help` lists the commands without them.
    """

    record: ClassVar[type[Options]]
    function: ClassVar[Callable[[Any], object]]

    @cached_property
    def _parameters(self) -> list[Any]:
        hints = get_type_hints(self.record)
        parameters = [
            _parameter(declared, option_, hints[declared.name])
            for declared, option_ in options_of(self.record)
        ]

        def command(**arguments: Any) -> None: ...

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app = typer.Typer(add_completion=False)
        app.command()(command)
        return get_command(app).params

    @property
    def params(self) -> list[Any]:
        """Parameters of the command line."""
        return self._parameters

    @params.setter
    def params(self, found: list[Any]) -> None:
        """Ignore the parameters of the registered function, which has none."""

    def invoke(self, ctx: Any) -> None:
        """Call the function with the options of the parsed command line."""
        arguments = dict(ctx.params)
        for declared, _ in options_of(self.record):
            if str(declared.type).startswith("tuple"):  # repeatable
                default = () if declared.default is MISSING else declared.default
                arguments[declared.name] = tuple(arguments[declared.name] or default)
        type(self).function(self.record(**arguments))


Function = TypeVar("Function", bound=Callable[[Any], object])


def command(
    app: typer.Typer, name: str, record: type[Options], help_: str | None = None
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function of a command's options to an app.

    help_: help text; by default the function's docstring.
    """

    def add(function: Function) -> Function:
        members = {"record": record, "function": staticmethod(function)}
        class_ = cast("type[OptionsCommand]", type(name, (OptionsCommand,), members))
        app.command(name, help=help_ or function.__doc__, cls=class_)(lambda: None)
        return function

    return add


def _parameter(declared: Field[Any], option_: Option, hint: Any) -> inspect.Parameter:
    """Return an option as a parameter that typer reads."""
    annotation: Any = hint
    default = declared.default
    if hint is Any:
        annotation = str if isinstance(default, str) else str | None
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        annotation = list[Path] if inner is Path else list[str]
        if default is not MISSING:
            annotation, default = annotation | None, None
    parameter = (
        typer.Argument(help=option_.help, metavar=option_.metavar)
        if option_.positional
        else typer.Option(option_.flag, help=option_.help, metavar=option_.metavar)
    )
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[annotation, parameter],
    )
