"""The arguments and options that commands share, each with its help, and all those of a measurement. Imports typer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

Run = Annotated[Path, typer.Argument(help="A run's store, such as report/run.zarr, or the folder that holds it.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Tolerances = Annotated[Path | None, typer.Option(help="A TOML file of tolerances for the verdicts; see docs/verdicts.md.")]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", help='Exit with 3 unless a verdict is met, as in "norms.cv holds 0.9" (share of all heads). Repeatable.'),
]
Options = dict[str, tuple[Any, Any]]
"""Kind, with its help, and default of options by the name of their parameter."""


def option(kind: Any, help_: str, *names: str, **more: Any) -> Any:
    """Return the kind of an option with its help, and with its names where they are not the parameter's."""
    return Annotated[kind, typer.Option(*names, help=help_, **more)]


PRINTING: Final[Options] = {"quiet": (Quiet, False), "as_json": (Json, False)}
JUDGING: Final[Options] = {"tolerances": (Tolerances, None), "require": (Require, None)}
"""Options of verdicts."""

_MODEL = typer.Argument(help="Hub id, local directory or GGUF file; the built-in SmolLM2-135M-Instruct when left out.")
_TEXT = "File, folder or .jsonl; repeatable. Python's own documentation when left out."
_FRESH = "Measure again; the run at --out is thrown away once the first new document is complete."
MEASURING: Final[Options] = {
    "model": (Annotated[str | None, _MODEL], None),
    "text": (option(list[Path] | None, _TEXT, "--text"), None),
    "dataset": (option(str | None, "A hub dataset, streamed."), None),
    "split": (option(str, "Split of --dataset."), "train"),
    "field": (option(str, "Field of --dataset or .jsonl that holds the text."), "text"),
    "documents": (option(int, "How many documents to measure."), 8),
    "length": (option(int, "Tokens of a window."), 1024),
    "n": (option(str, "Sizes N of the selected set: default, all, or such as 1,2,4-8.", "--n"), "default"),
    "convention": (option(str, "paper or followup: how balls, ties and F are counted."), "paper"),
    "special_tokens": (option(str, "default (the tokenizer's choice) or none."), "default"),
    "seed": (option(int, "Seed of the null baselines."), 0),
    "batch": (option(int, "Windows per forward pass."), 1),
    "device": (option(str, "auto, cpu, cuda or mps."), "auto"),
    "dtype": (option(str, "Type of the model's weights; softmax and reductions are always float32."), "float32"),
    "revision": (option(str | None, "Commit, tag or branch of a hub model."), None),
    "head": (option(list[str] | None, "Keep principal components of a head such as L5H3; repeatable, at most 12.", "--head"), None),
    "null": (option(bool, "Measure the null baselines too.", "--null/--no-null"), True),
    "out": (option(Path, "Folder for the store, the report, figures and tables."), Path("report")),
    "resume": (option(bool, "Go on where an equal run stopped (also the default when the settings are equal).", "--resume"), False),
    "fresh": (option(bool, _FRESH, "--fresh"), False),
    "trust_remote_code": (option(bool, "Allow a hub model to bring its own code.", "--trust-remote-code"), False),
    "allow_pickle": (option(bool, "Allow weights stored as pickles, which can run code when read.", "--allow-pickle"), False),
    **PRINTING,
}
"""Every option of a measurement."""


def taking(options: Options) -> Callable[[Callable[[dict[str, Any]], None]], Callable[..., None]]:
    """Return a decorator: a command that takes these options and hands them to what it decorates, by name; its help is that one's."""

    def decorate(act: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            act(given)

        command.__doc__ = act.__doc__
        command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                for name, (kind, default) in options.items()
            ]
        )
        return command

    return decorate
