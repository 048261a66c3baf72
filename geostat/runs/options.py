"""Options of the commands that measure, fit, confront and render.

Each dataclass checks its values and raises a one-line InputError. Creating measurement options
imports torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from geostat.errors import InputError, refuse_no_flags, refuse_unknown
from geostat.options import (
    MOST,
    REQUIRED,
    Options,
    PrintOptions,
    VerdictOptions,
    like,
    named_heads,
    option,
    whole_number,
    with_commas,
)

INCHES: Final = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Units of a figure width, in inches; pt is a TeX point."""
NARROWEST, LEAST_SLIDE, WIDEST = 2.5, 8.0, 14.0
"""Smallest figure width, smallest slide width and largest width, in inches."""
CLUSTER: Final = (
    "Use several processes: local:K on this machine, or tcp://HOST:PORT, a Dask scheduler."
    " Results are identical."
)


@dataclass(frozen=True, kw_only=True)
class OutputOptions(PrintOptions):
    """Destination of a measurement, and what happens to an existing run there."""

    null: bool = option(True, "Measure the null baselines.", "--null/--no-null")
    out: Path = option(
        Path("report"), "Folder for the store and the report; a capture also accepts a URL."
    )
    resume: bool = option(
        False,
        "Resume an interrupted run with equal settings (the default).",
        keyword="",
    )
    fresh: bool = option(
        False,
        "Measure again; the run at --out is deleted once the first new document is complete.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_no_flags(fresh=self.fresh, null=self.null)
        if self.fresh and self.resume:
            raise InputError(
                "--fresh and --resume were both given, expected one. --fresh replaces the old run,"
                " --resume completes it."
            )
        self._set(out=Path(self.out))


@dataclass(frozen=True, kw_only=True)
class MeasurementOptions(OutputOptions):
    """Options of commands that measure; by default the built-in model and text."""

    model: str | None = option(
        None,
        "Hub id, local directory or GGUF file; by default the built-in SmolLM2-135M-Instruct.",
        positional=True,
    )
    text: tuple[Path, ...] = option(
        (),
        "File, folder or .jsonl; repeatable. builtin (the default): ten kinds of text of Python and"
        " of installed packages in turn; builtin:topics: only the language reference.",
        keyword="documents",
    )
    dataset: str | None = option(None, "Hub dataset, streamed.")
    split: str = option("train", "Split of --dataset.")
    field: str = option("text", "Field of --dataset or .jsonl that holds the text.")
    documents: int = option(8, "Number of documents to measure.", keyword="count")
    length: int = option(1024, "Tokens per document window.")
    n: str = option(
        "default", "Sizes N of the selected set: default, all, or a list such as 1,2,4-8."
    )
    queries: str = option(
        "default",
        "Analysed queries of a window: last, last:Q, spread:Q (over the second half), every:K"
        " (every K-th position, ending at the last); default is last:16.",
    )
    convention: str = option("paper", "Convention for balls, ties and F: paper or followup.")
    special_tokens: str = option(
        "default", "Special tokens: default (the tokenizer's choice) or none."
    )
    seed: int = option(0, "Seed of the null baselines.")
    batch: int = option(1, "Windows per forward pass.")
    device: str = option("auto", "Device of the model: auto, cpu, cuda or mps.")
    dtype: str = option(
        "float32", "Data type of the model weights; softmax and reductions use float32."
    )
    measure: str = option(
        "auto",
        "Where layers are measured: cpu (compiled loops), device (torch, on the layer's device) or"
        " auto (device unless it is the CPU).",
    )
    revision: str | None = option(None, "Commit, tag or branch of a hub model.")
    trust_remote_code: bool = option(False, "Allow a hub model to run its own code.")
    allow_pickle: bool = option(False, "Allow pickled weights, which can run code when loaded.")
    cluster: ClassVar[Any] = None
    components: ClassVar[tuple[tuple[int, int], ...]] = ()
    """Heads (layer, head) whose principal components are stored."""

    def __post_init__(self) -> None:
        from empirical.measure.selection import Convention
        from empirical.sources import models, windows
        from empirical.store.manifest import DOCUMENTS

        super().__post_init__()
        self._set(
            n=with_commas(self.n), queries=str(self.queries), text=tuple(map(Path, self.text))
        )
        for name, least, most in (
            ("documents", 1, DOCUMENTS),
            ("length", windows.LEAST_LENGTH, MOST),
            ("batch", 1, MOST),
            ("seed", 0, None),
        ):
            raw = getattr(self, name)
            value = whole_number(raw)
            if value is None or value < least:
                seen = repr(raw) if value is None else value
                raise InputError(
                    f"--{name} {seen}: expected at least {least}, a whole number. Use --{name}"
                    f" {least} or more."
                )
            if most is not None and value > most:
                raise InputError(f"--{name} {value}: expected at most {most}. Use fewer.")
            self._set(**{name: value})
        refuse_no_flags(trust_remote_code=self.trust_remote_code, allow_pickle=self.allow_pickle)
        _ = self.analysed
        for name, known in (
            ("convention", tuple(Convention)),
            ("special_tokens", windows.SPECIAL_TOKENS),
            ("device", models.DEVICES),
            ("dtype", tuple(models.DTYPES)),
            ("measure", ("auto", "cpu", "device")),
        ):
            value = getattr(self, name)
            refuse_unknown(value, known, f"--{name.replace('_', '-')} {value}:", verb="Use")
        if self.model is not None and not self.model.strip():
            raise InputError(
                "the model's name is empty, expected a Hugging Face id, a folder or a .gguf file."
                " Leave it out for the built-in model."
            )
        if self.dataset is not None and not self.dataset.strip():
            raise InputError(
                "--dataset is empty, expected the id of a hub dataset. Name one, or leave --dataset"
                " out."
            )
        if self.text and self.dataset:
            raise InputError(
                "--text and --dataset were both given, expected one source of text. Drop one of"
                " them."
            )

    @property
    def loading(self) -> dict[str, Any]:
        """Options that control how the model is loaded."""
        names = ("revision", "dtype", "device", "trust_remote_code", "allow_pickle")
        return {name: getattr(self, name) for name in names}

    @property
    def analysed(self) -> Any:
        """Analysed queries of a window (`empirical.sources.queries.Queries`)."""
        from empirical.sources.queries import Queries

        return Queries.read(self.queries, self.length)


@dataclass(frozen=True, kw_only=True)
class CaptureOptions(MeasurementOptions):
    """Options of `geostat capture`."""

    cluster: Any = option(None, CLUSTER, keyword="client")  # type: ignore[misc]
    heads: tuple[Any, ...] = option(
        (),
        "Store principal components of a head such as L5H3; repeatable, at most 12.",
        "--head",
    )

    def __post_init__(self) -> None:
        from empirical.capture.cluster.tasks import place

        super().__post_init__()
        self._set(heads=named_heads(self.heads))
        if isinstance(self.cluster, str):
            place(self.cluster)

    @property
    def components(self) -> tuple[tuple[int, int], ...]:  # type: ignore[override]
        """Heads (layer, head) whose principal components are stored."""
        return self.heads


@dataclass(frozen=True, kw_only=True)
class RunOptions(CaptureOptions, VerdictOptions):
    """Options of `geostat run`."""

    control: str = option(
        "untrained",
        "Control: untrained (the architecture with initial random weights, on the first documents)"
        " or none.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unknown(self.control, ("untrained", "none"), f"--control {self.control}:")


@dataclass(frozen=True, kw_only=True)
class IngestOptions(OutputOptions):
    """Options of `geostat ingest`."""

    files: tuple[Path, ...] = option(
        REQUIRED,
        ".npz or .safetensors files with arrays alpha and values, one file per document or one for"
        " all; see docs/how_to/tensors_from_elsewhere.md.",
        positional=True,
        metavar="FILE…",
    )
    model: str | None = option(None, "Description of the model that produced the tensors.")
    queries: str = option("", "Queries of the rows of weights: last:Q (the default) or every:K.")
    n: str = like(MeasurementOptions, "n")
    convention: str = like(MeasurementOptions, "convention")
    seed: int = like(MeasurementOptions, "seed")
    heads: tuple[Any, ...] = like(CaptureOptions, "heads")


@dataclass(frozen=True, kw_only=True)
class StoredRunOptions(Options):
    """A run on disk or at a URL."""

    run: Path = option(
        REQUIRED,
        "Store of a run, such as report/run.zarr, its folder or its URL.",
        positional=True,
    )


@dataclass(frozen=True, kw_only=True)
class FitOptions(StoredRunOptions, PrintOptions):
    """Options of `geostat fit`."""

    fresh: bool = option(
        False,
        "Replace fits and all results computed from them without reading them, even if damaged.",
    )
    cluster: str | None = option(None, CLUSTER, keyword="client")


@dataclass(frozen=True, kw_only=True)
class ConfrontOptions(StoredRunOptions, VerdictOptions, PrintOptions):
    """Options of `geostat confront`."""

    edition: tuple[str, ...] = option(
        (),
        "Edition of the theory: printed or sharp; repeatable. Default: both.",
        keyword="editions",
    )
    n: str = option("default", "Sizes N of the bounds: default (about 24 log-spaced) or all.")
    swap: bool = option(
        True,
        "Compute the cost of each assumption and the sensitivity to each parameter (half a"
        " minute).",
        "--swap/--no-swap",
    )
    predict: bool = option(
        False,
        "Predict the curves of every head from its fits, and by rank from the other documents, and"
        " report the errors (several minutes).",
    )
    cluster: str | None = option(None, CLUSTER, keyword="client")

    def keywords(self) -> dict[str, Any]:
        """Return the options that `geostat.confront` takes, as its keywords.

        Raises:
            InputError: for an unknown edition or unknown sizes.
        """
        from geostat.bounds.by_document import EDITIONS, ENVELOPE_POINTS

        for name in self.edition:
            refuse_unknown(name, EDITIONS, f"--edition {name}:", verb="Name")
        if self.n not in {"default", "all"}:
            raise InputError(f"--n {self.n}: expected default or all. Use one of those.")
        return {
            "editions": tuple(name for name in EDITIONS if name in (self.edition or EDITIONS)),
            "points": ENVELOPE_POINTS if self.n == "default" else None,
            "swap": self.swap,
            "predict": self.predict,
        }


@dataclass(frozen=True, kw_only=True)
class PlanOptions(StoredRunOptions, PrintOptions):
    """Options of `geostat plan`."""

    quantity: str | None = option(
        None,
        "Quantity: C, lam, cv_token, rho0, beta, mae, offset, p_sink, growth, misfit, precision or"
        " recall. Default: an overview of all.",
    )
    width: str | None = option(
        None,
        "Wanted half-width of the 95% interval of the median head, in the quantity's unit, or a"
        " percentage of its mean such as 10%.",
    )
    claim: str | None = option(
        None, "Plan the verdicts of a claim instead, such as norms.cv, for undetermined heads."
    )
    power: float = option(
        0.8, "Probability with which an undetermined head is decided, for --claim."
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(StoredRunOptions):
    """Options of `geostat report`."""

    out: Path | None = option(None, "Folder for the report.")
    require: tuple[str, ...] = like(VerdictOptions, "require")
    quiet: bool = like(PrintOptions, "quiet")


@dataclass(frozen=True, kw_only=True)
class PartOptions(StoredRunOptions):
    """Options shared by `geostat tables` and `geostat figures`."""

    FORMATS: ClassVar[tuple[str, ...]]
    """Available formats; the first two are the default."""
    out: Path | None = None
    only: str = ""
    formats: str = ""
    quiet: bool = like(PrintOptions, "quiet")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.kinds:
            refuse_unknown(name, self.FORMATS, f"--format {name}:")

    @property
    def names(self) -> list[str]:
        """Names of the tables or figures to write; empty for all."""
        return list(filter(None, map(str.strip, self.only.split(","))))

    @property
    def kinds(self) -> list[str]:
        """Formats to write."""
        formats = filter(None, map(str.strip, self.formats.split(",")))
        return list(formats) or list(self.FORMATS[:2])


@dataclass(frozen=True, kw_only=True)
class TablesOptions(PartOptions):
    """Options of `geostat tables`."""

    FORMATS = ("latex", "markdown", "html", "csv", "json")
    out: Path | None = option(None, "Folder for the tables.")
    only: str = option("", "Write only these tables, separated by commas, such as verdicts,norms.")
    formats: str = option(
        "",
        "File formats, separated by commas: latex, markdown, html, csv, json.",
        "--format",
    )
    columns: int = option(1, "Number of columns of the LaTeX page: 1 or 2.")
    standalone: bool = option(
        False, "Write tables.tex as well, a complete LaTeX document with these tables."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns not in (1, 2):
            raise InputError(
                f"--columns {self.columns}: expected 1 or 2. Give the number of columns of your"
                " paper."
            )
        if self.standalone and "latex" not in self.kinds:
            raise InputError(
                f"--standalone --format {self.formats}: expected latex among the formats. Add it,"
                " or leave --standalone out."
            )


@dataclass(frozen=True, kw_only=True)
class FiguresOptions(PartOptions):
    """Options of `geostat figures`."""

    FORMATS = ("pdf", "png", "svg")
    out: Path | None = option(None, "Folder for the figures.")
    only: str = option(
        "",
        "Write only these figures, separated by commas: names such as claims, or figure numbers of"
        " the paper such as 5,8.",
    )
    formats: str = option("", "File formats, separated by commas: pdf, png, svg.", "--format")
    width: str = option(
        "",
        "Width, such as 3.25in or 8.5cm; below 5 inches panels are stacked. Default: 7.4in, or 10in"
        " for slides.",
    )
    style: str = option(
        "",
        "Style: paper (the default) or slides (14-point type, heavier lines, slide shape).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.style:
            refuse_unknown(self.style, ("paper", "slides"), f"--style {self.style}:")
        if self.style == "slides" and self.inches is not None and self.inches < LEAST_SLIDE:
            raise InputError(
                f"--width {self.width}: expected at least {LEAST_SLIDE:g} inches for --style"
                " slides, which uses 14-point type. Use --width 10in, or --style paper."
            )
        _ = self.inches

    @property
    def inches(self) -> float | None:
        """Width of a figure in inches; None for the default."""
        if not self.width:
            return None
        match = re.fullmatch(rf"\s*([0-9.]+)\s*({'|'.join(INCHES)})\s*", self.width)
        try:
            width = float(match[1]) * INCHES[match[2]] if match else 0.0
        except ValueError:
            width = 0.0
        if not NARROWEST <= width <= WIDEST:
            raise InputError(
                f"--width {self.width}: expected {NARROWEST:g} to {WIDEST:g} inches, as a number"
                " with in, cm, mm or pt. Use for example --width 3.25in."
            )
        return width
