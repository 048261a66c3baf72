"""What a capture is asked for: settings that check themselves, and what reads the command's options
and the keywords of `geostat.capture` into them. Imports torch, with the models whose words it
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from operator import index
from pathlib import Path
from typing import Any, Final

import numpy as np

from empirical.capture.cluster.places import place
from empirical.measure.convention import Convention
from empirical.measure.sizes import default_n
from empirical.sources import models, windows
from empirical.sources.paths import path_of
from empirical.sources.queries import Queries
from empirical.store.manifest_shape import DOCUMENTS
from geostat.datasets.tokens import HEAD_NAME
from geostat.errors import InputError, refuse_no_flags, refuse_unknown

NAMES: dict[str, tuple[str, ...]] = {
    "convention": tuple(Convention),
    "special_tokens": windows.SPECIAL_TOKENS,
    "device": models.DEVICES,
    "dtype": tuple(models.DTYPES),
    "measure": ("auto", "cpu", "device"),
}
"""Settings that are one of a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a capture is asked for. Defaults: the built-in model on the built-in text."""

    model: str | None = None
    revision: str | None = None
    text: tuple[Path, ...] = ()
    dataset: str | None = None
    split: str = "train"
    field: str = "text"
    documents: int = 8
    length: int = 1024
    n: str = "default"
    queries: str = "default"
    """Which queries of a window are analysed."""
    convention: str = "paper"
    special_tokens: str = "default"
    seed: int = 0
    batch: int = 1
    device: str = "auto"
    dtype: str = "float32"
    measure: str = "auto"
    """Where layers are measured."""
    cluster: Any = None
    """Workers that measure: local:K, tcp://HOST:PORT, or a client of Dask distributed; None where
    this process does.
    """
    heads: tuple[tuple[int, int], ...] = ()
    """Heads (layer, head) whose principal components are kept."""
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("documents", 1),
            ("length", windows.LEAST_LENGTH),
            ("batch", 1),
            ("seed", 0),
        ):
            given = getattr(self, name)
            value = whole(given)
            if value is None or value < least:
                seen = repr(given) if value is None else value
                raise InputError(
                    f"--{name} {seen}: expected at least {least}, a whole number. Use --{name}"
                    f" {least} or more."
                )
            object.__setattr__(self, name, value)
            most = DOCUMENTS if name == "documents" else MOST
            if name != "seed" and value > most:
                raise InputError(f"--{name} {value}: expected at most {most}. Use fewer.")
        refuse_no_flags(trust_remote_code=self.trust_remote_code, allow_pickle=self.allow_pickle)
        Queries.read(self.queries, self.length)
        if isinstance(self.cluster, str):
            place(self.cluster)
        for name, known in NAMES.items():
            value = getattr(self, name)
            refuse_unknown(value, known, f"--{name.replace('_', '-')} {value}:", verb="Use")
        if self.model is not None and not self.model.strip():
            raise InputError(
                "the model's name is empty, expected a Hugging Face id, a folder or a .gguf file."
                " Leave it out for the built-in one."
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
    def analysed(self) -> Queries:
        """Which queries of a window are analysed."""
        return Queries.read(self.queries, self.length)


def whole(given: Any) -> int | None:
    """Return a whole number as Python's, NumPy's included; None of anything else.

    >>> whole(np.int64(3)), whole(True), whole(3.0)
    (3, None, None)
    """
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None


MOST: Final = 2**31 - 1
"""Tokens of a window and documents at once, at most: what an index of 32 bits holds."""
CAPTURE: Final = ("documents", "count", "length", "out", "fresh", "null")
"""What `geostat.capture` takes beside a model and further settings."""
HELD: Final = ("client", "tokenizer", "hash_weights")
"""What it takes that no option of the command names: a client in place of `cluster`, and what
belongs to a model in memory.
"""


def settings_of(
    model: str | None,
    documents: str | Path | Iterable[str | Path],
    *,
    count: int,
    length: int,
    face: Callable[..., Any] | None = None,
    **further: Any,
) -> Settings:
    """Read the keywords of `geostat.capture`, or of the `face` that has them beside its own.

    Raises:
        InputError: if `documents` is a number, or a setting is refused.
        TypeError: for an unknown setting.
    """
    if whole(documents) is not None:
        raise InputError(
            f"documents={documents}: expected text files or folders. How many is count={documents}."
        )
    named = {"model", "text", "documents", "length"}
    known = [name for name in Settings.__dataclass_fields__ if name not in named]
    for name in further:
        if name not in known:
            own = [] if face is None else [*signature(face).parameters][1:-1]
            words = dict.fromkeys((*(own or CAPTURE), *known, *HELD))
            raise TypeError(
                f"{'capture' if face is None else face.__name__}() has no keyword {name!r},"
                f" expected one of {', '.join(words)}."
            )
    further["n"] = written(further.get("n", "default"))
    further["queries"] = str(further.get("queries", "default"))
    further["heads"] = named_heads(further.get("heads", ()))
    documents = (documents,) if isinstance(documents, str | Path) else documents
    text = tuple(Path(path) for path in documents)
    return Settings(model=model, text=text, documents=count, length=length, **further)


def written(n: Any) -> str:
    """Return sizes N, given as a text, a number or numbers, as the option has them.

    >>> written([1, 2, 4]), written("default")
    ('1,2,4', 'default')
    """
    if isinstance(n, str):
        return n
    return ",".join(map(str, n if isinstance(n, Iterable) else [n]))


def of_options(given: Mapping[str, Any]) -> Settings:
    """Read the options of a command that measures, by their names."""
    names = {field for field in Settings.__dataclass_fields__ if field in given} - {"text", "heads"}
    return Settings(
        **{name: given[name] for name in names},
        text=tuple(given["text"] or ()),
        heads=named_heads(given["head"] or []),
    )


def matching_paths(pattern: str | Path) -> list[Path]:
    """Read a file, a folder, or a pattern such as notes/*.txt, whose matches are sorted.

    Raises:
        InputError: if it is no pattern or matches nothing.
    """
    if not str(pattern):
        raise InputError(
            "a pattern is empty, expected a file, a folder or a pattern such as notes/*.txt."
            " Name one."
        )
    path = path_of(pattern)
    if path.exists():
        return [path]
    try:
        matches = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
    except (ValueError, NotImplementedError) as error:
        raise InputError(
            f"{pattern}: is no pattern ({error}), expected one such as notes/*.txt. Mend it."
        ) from error
    if not matches:
        raise InputError(
            f"{pattern}: no such file or folder. Name a text file, a folder, a .jsonl file or a"
            " pattern."
        )
    return matches


def capped(digits: str) -> int:
    """Return the number that decimal digits are, MOST of any that is larger: Python refuses to read
    thousands of digits.

    >>> capped("0040"), capped("9" * 5000) == MOST
    (40, True)
    """
    short = digits.lstrip("0") or "0"
    return min(int(short), MOST) if len(short) <= 10 else MOST


def sizes(text: str, positions: int) -> np.ndarray:
    """Read `--n`: `default`, `all`, or sizes such as 1,2,4-8; ascending, from 1 to the number of
    positions.

    Raises:
        InputError: for anything else.

    >>> sizes("1,2,4-6", 16).tolist()
    [1, 2, 4, 5, 6]
    """
    if text == "default":
        return np.asarray(default_n(positions), dtype=np.int64)
    if text == "all":
        return np.arange(1, positions + 1)
    result: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(
                f"--n {text}: {part.strip()!r} is not a size. Use default, all, or sizes such as"
                " 1,2,4-8."
            )
        low, high = capped(first), capped(last or first)
        if high > positions:
            raise InputError(
                f"--n {text}: {part.strip()} is above the {positions} tokens of a window. Use sizes"
                f" from 1 to {positions}."
            )
        if low > high:
            raise InputError(
                f"--n {text}: {part.strip()} holds no size, expected the smaller one first. Use"
                f" {last}-{first}."
            )
        result |= set(range(low, high + 1))
    if min(result) < 1:
        seen = f"{min(result)} to {max(result)}"
        raise InputError(
            f"--n {text}: sizes {seen}, expected 1 to {positions}, the tokens of a window. Use"
            " sizes in that range."
        )
    return np.array(sorted(result), dtype=np.int64)


def refuse_text_as_model(settings: Settings) -> None:
    """Refuse a model that is a text, as the second path behind one --text is.

    Raises:
        InputError: for a file that is no .gguf file, beside --text a folder without a model, or a
            home that is not known.
    """
    path = path_of(settings.model or ".", home=True)
    if settings.model is None or not path.exists():
        return
    endings = {file.suffix for file in path.iterdir()} if path.is_dir() else {path.suffix}
    if (
        ".gguf" in endings
        or any((path / name).exists() for name in ("config.json", "adapter_config.json"))
        or (path.is_dir() and not settings.text)
    ):
        return
    if not settings.text:
        raise InputError(
            f"{settings.model}: is no model, expected a .gguf file, a folder or a Hugging Face id."
            f" Name a text with --text {settings.model}."
        )
    texts = " ".join(f"--text {text}" for text in (*settings.text, settings.model))
    raise InputError(
        f"{settings.model}: stands where the model does and is none. Repeat --text for each text:"
        f" `{texts}`."
    )


def named_heads(names: Any) -> tuple[tuple[int, int], ...]:
    """Read a head or several into (layer, head): names such as L5H3, or such pairs.

    Raises:
        InputError: for a name of another form.

    >>> named_heads(["L5H3"])
    ((5, 3),)
    """
    heads = []
    for name in names if isinstance(names, list | tuple) else [names]:
        told = f"L{'H'.join(map(str, name))}" if isinstance(name, list | tuple) else str(name)
        match = HEAD_NAME.fullmatch(told)
        if match is None:
            raise InputError(
                f"--head {told}: expected a layer and a head, such as L5H3. Name it so."
            )
        heads.append((int(match[1]), int(match[2])))
    return tuple(heads)
