"""The arguments and options that commands share, each with its help. Imports typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
