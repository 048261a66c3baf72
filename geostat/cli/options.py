"""The arguments and options that commands share, each with its help, and all those of a measurement. Imports typer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

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
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Measure again; the run at --out is thrown away once the first new document is complete.")
]
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


Tolerances = Annotated[Path | None, typer.Option(help="A TOML file of tolerances for the verdicts; see docs/verdicts.md.")]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", help='Exit with 3 unless a verdict is met, as in "norms.cv holds 0.9" (share of all heads). Repeatable.'),
]

JUDGING: Final[dict[str, tuple[Any, Any]]] = {"tolerances": (Tolerances, None), "require": (Require, None)}
"""Options of verdicts, with their defaults."""

MEASURING: Final[dict[str, tuple[Any, Any]]] = {
    "model": (Model, None), "text": (Text, None), "dataset": (Dataset, None), "split": (Split, "train"), "field": (Field, "text"),
    "documents": (Documents, 8), "length": (Length, 1024), "n": (Sizes, "default"), "convention": (ConventionName, "paper"),
    "special_tokens": (SpecialTokens, "default"), "seed": (Seed, 0), "batch": (Batch, 1), "device": (Device, "auto"),
    "dtype": (Dtype, "float32"), "revision": (Revision, None), "head": (Heads, None), "null": (Null, True), "out": (Out, Path("report")),
    "resume": (Resume, False), "fresh": (Fresh, False), "trust_remote_code": (RemoteCode, False), "allow_pickle": (Pickle, False),
    "quiet": (Quiet, False), "as_json": (Json, False),
}  # fmt: skip
"""Every option of a measurement, with its default."""


def taking(options: Mapping[str, tuple[Any, Any]]) -> Callable[[Callable[[dict[str, Any]], None]], Callable[..., None]]:
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
