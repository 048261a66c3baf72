"""The arguments and options that commands share, each with its help, and all those of a
measurement. Imports typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

Options = dict[str, tuple[Any, Any]]
"""Kind, with its help, and default of options by the name of their parameter."""


def option(kind: Any, help_: str, *names: str, **more: Any) -> Any:
    """Return the kind of an option with its help, and with its names where they are not the
    parameter's.
    """
    return Annotated[kind, typer.Option(*names, help=help_, **more)]


REQUIRED: Final = inspect.Parameter.empty
_RUN = (
    Annotated[
        Path,
        typer.Argument(help="A run's store, such as report/run.zarr, its folder, or its URL."),
    ],
    REQUIRED,
)
_QUIET = (option(bool, "Print nothing but errors.", "--quiet"), False)
_JSON = (option(bool, "Print the result as JSON.", "--json"), False)
_CLUSTER = (
    option(
        str | None,
        "Work on several processes: local:K on this machine, or tcp://HOST:PORT, a Dask scheduler"
        " with workers. The numbers are the same.",
    ),
    None,
)
_REQUIRE = (
    'Exit with 3 unless a verdict is met, as in "norms.cv holds 90%" (of all heads). Repeatable.'
)
PRINTING: Final[Options] = {"quiet": _QUIET, "as_json": _JSON}
JUDGING: Final[Options] = {
    "tolerances": (
        option(
            Path | None,
            "A TOML file of tolerances for the verdicts; see docs/reference/tolerances.md.",
        ),
        None,
    ),
    "require": (option(list[str] | None, _REQUIRE, "--require"), None),
}
"""Options of verdicts."""

_REFIT = "Throw away fits and all that was made of them, without a look at it: damaged results too."
FITTING: Final[Options] = {
    "run": _RUN,
    "fresh": (option(bool, _REFIT, "--fresh"), False),
    "cluster": _CLUSTER,
    **PRINTING,
}
CONFRONTING: Final[Options] = {
    "run": _RUN,
    "edition": (
        option(
            list[str] | None, "Edition of the theory; repeatable. printed and sharp when left out."
        ),
        None,
    ),
    "n": (option(str, "default (about 24 log-spaced sizes) or all.", "--n"), "default"),
    "swap": (
        option(
            bool,
            "Tell which assumption costs the bounds most, and what one parameter moves (half a"
            " minute).",
            "--swap/--no-swap",
        ),
        True,
    ),
    "predict": (
        option(
            bool,
            "Also predict every head's curves from its fits, and say how well (a few minutes).",
            "--predict",
        ),
        False,
    ),
    "cluster": _CLUSTER,
    **JUDGING,
    **PRINTING,
}


def rendering(what: str, **more: Any) -> Options:
    """Return the options of a command that writes a report, or a part of it."""
    return {
        "run": _RUN,
        "out": (option(Path | None, f"Folder for the {what}."), None),
        **more,
        "quiet": _QUIET,
    }


_ONLY = "Write these alone: names{}, with commas between."
_FORMAT = "Kinds of files, with commas between: {}."
CHOOSING: Final[dict[str, Options]] = {
    "tables": {
        "only": (option(str, _ONLY.format(" such as verdicts,norms")), ""),
        "formats": (
            option(str, _FORMAT.format("latex, markdown, html, csv, json"), "--format"),
            "",
        ),
        "columns": (option(int, "Columns of the paper that LaTeX is for: 1 or 2."), 1),
        "standalone": (
            option(
                bool,
                "Also write tables.tex, a LaTeX document of these tables that compiles by itself.",
                "--standalone",
            ),
            False,
        ),
    },
    "figures": {
        "only": (
            option(str, _ONLY.format(" such as claims, or the paper's numbers such as 5,8")),
            "",
        ),
        "formats": (option(str, _FORMAT.format("pdf, png, svg"), "--format"), ""),
        "width": (
            option(
                str,
                "How wide, as in 3.25in or 8.5cm; below 5 inches panels stand below one another"
                " and type fits a column. When left out 7.4in, or 10in for slides.",
            ),
            "",
        ),
        "style": (
            option(
                str,
                "paper, or slides: type of 14 points and more, heavier lines, the shape of a slide."
                " paper when left out.",
            ),
            "",
        ),
    },
}
REPORTING: Final = rendering("report", require=JUDGING["require"])
_RUNS = typer.Argument(
    metavar="RUN RUN…",
    help="Two or more runs: stores such as report/run.zarr, or the folders that hold them.",
)
_QUICK = (
    "Give the coverage of bounds without errors, which take as long as to confront each run again."
)
COMPARING: Final[Options] = {
    "runs": (Annotated[list[Path], _RUNS], REQUIRED),
    "out": (option(Path, "Folder for the page, figures and tables."), Path("comparison")),
    "quick": (option(bool, _QUICK, "--quick"), False),
    **PRINTING,
}
_MODEL = typer.Argument(
    help="Hub id, local directory or GGUF file; the built-in SmolLM2-135M-Instruct when left out."
)
_TEXT = (
    "File, folder or .jsonl; repeatable. Or builtin, several kinds of Python's own texts, also when"
    " left out; builtin:topics, its language reference alone."
)
_FRESH = "Measure again; the run at --out is thrown away once the first new document is complete."
MEASURING: Final[Options] = {
    "model": (Annotated[str | None, _MODEL], None),
    "text": (option(list[Path] | None, _TEXT, "--text"), None),
    "dataset": (option(str | None, "A hub dataset, streamed."), None),
    "split": (option(str, "Split of --dataset."), "train"),
    "field": (option(str, "Field of --dataset or .jsonl that holds the text."), "text"),
    "documents": (option(int, "How many documents to measure."), 8),
    "length": (option(int, "Tokens of a window."), 1024),
    "n": (
        option(str, "Sizes N of the selected set: default, all, or such as 1,2,4-8.", "--n"),
        "default",
    ),
    "queries": (
        option(
            str,
            "Analysed queries of a window: last, last:Q, spread:Q (over its second half), every:K"
            " (each K-th position up to the last); default: last:16.",
        ),
        "default",
    ),
    "convention": (option(str, "paper or followup: how balls, ties and F are counted."), "paper"),
    "special_tokens": (option(str, "default (the tokenizer's choice) or none."), "default"),
    "seed": (option(int, "Seed of the null baselines."), 0),
    "batch": (option(int, "Windows per forward pass."), 1),
    "device": (option(str, "auto, cpu, cuda or mps."), "auto"),
    "dtype": (
        option(str, "Type of the model's weights; softmax and reductions are always float32."),
        "float32",
    ),
    "measure": (
        option(
            str,
            "Where layers are measured: cpu, by compiled loops; device, by torch where each lives;"
            " auto, so unless that is the CPU.",
        ),
        "auto",
    ),
    "cluster": _CLUSTER,
    "revision": (option(str | None, "Commit, tag or branch of a hub model."), None),
    "head": (
        option(
            list[str] | None,
            "Keep principal components of a head such as L5H3; repeatable, at most 12.",
            "--head",
        ),
        None,
    ),
    "null": (option(bool, "Measure the null baselines too.", "--null/--no-null"), True),
    "out": (option(Path, "Folder of store and report; for a capture, a URL, too."), Path("report")),
    "resume": (
        option(
            bool,
            "Go on where an equal run stopped (also the default when the settings are equal).",
            "--resume",
        ),
        False,
    ),
    "fresh": (option(bool, _FRESH, "--fresh"), False),
    "trust_remote_code": (
        option(bool, "Allow a hub model to bring its own code.", "--trust-remote-code"),
        False,
    ),
    "allow_pickle": (
        option(
            bool, "Allow weights stored as pickles, which can run code when read.", "--allow-pickle"
        ),
        False,
    ),
    **PRINTING,
}
"""Every option of a measurement."""


_REPAIR = (
    "Measure the documents again that damage hits, and make damaged results again, as the commands"
    " did that made the run; no sound file is touched."
)
DOCTOR: Final[Options] = {
    "run": (Annotated[Path | None, typer.Argument(help="A run to verify, chunk by chunk.")], None),
    "repair": (option(bool, _REPAIR, "--repair"), False),
    **{name: MEASURING[name] for name in ("trust_remote_code", "allow_pickle")},
    "as_json": _JSON,
}

_FILES = typer.Argument(
    metavar="FILE…",
    help=(
        ".npz or .safetensors files with the arrays alpha and values, of all documents or of one"
        " each; see docs/how_to/tensors_from_elsewhere.md."
    ),
)
INGESTING: Final[Options] = {
    "files": (Annotated[list[Path], _FILES], REQUIRED),
    "model": (option(str | None, "What made the tensors, in words."), None),
    "queries": (
        option(
            str,
            "Which queries several rows of weights are of: last:Q, also when left out; every:K.",
        ),
        "",
    ),
    **{
        name: MEASURING[name]
        for name in ("n", "convention", "seed", "head", "null", "out", "resume", "fresh")
    },
    **PRINTING,
}


def taking(options: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: what it decorates becomes a command that takes these options, by name;
    its help is the docstring.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY

    def decorate(act: Callable[..., None]) -> Callable[..., None]:
        parameters = [
            inspect.Parameter(name, keyword, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
        act.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        act.__annotations__ = {name: kind for name, (kind, _) in options.items()}
        return act

    return decorate
