"""Options of commands, each declared once.

The options of a command are the fields of one frozen dataclass, declared with `option`. They define
the command line, the keywords in Python and the reference page; `__post_init__` checks the values.
To add an option, add a field.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from operator import index
from pathlib import Path
from typing import Any, Final, TypeVar

from geostat.errors import KEYWORDS, InputError, in_python

Function = TypeVar("Function", bound=Callable[..., Any])
INDENT: Final[dict[str, Any]] = {
    "initial_indent": " " * 8,
    "subsequent_indent": " " * 12,
    "break_on_hyphens": False,
}
"""Indentation of an argument in a docstring."""
HEAD_NAME: Final = re.compile(r"\s*[Ll](\d{1,9})[Hh](\d{1,9})\s*")
REQUIRED: Final = MISSING
"""Default of a required option."""


@dataclass(frozen=True, slots=True)
class Option:
    """Help text and names of an option."""

    help: str
    flag: str = ""
    """Name on the command line; by default the field's name."""
    keyword: str | None = None
    """Name in Python; by default the field's name. Empty if Python has no such keyword."""
    metavar: str | None = None
    """Placeholder of the value."""
    positional: bool = False
    """Whether the command line takes the value without a flag."""


def option(default: Any, help_: str, flag: str = "", **names: Any) -> Any:
    """Return a dataclass field that declares an option; `names` as in `Option`."""
    return field(default=default, metadata={"option": Option(help_, flag, **names)})


def like(record: type[Options], name: str, default: Any = ...) -> Any:
    """Return a copy of a field of another record, optionally with another default."""
    declared = record.__dataclass_fields__[name]
    value = declared.default if default is ... else default
    return field(default=value, metadata=declared.metadata)


def options_of(record: type[Options]) -> Iterator[tuple[Field[Any], Option]]:
    """Yield the options of a command, with their names: specific options before shared ones."""
    known = {declared.name: declared for declared in fields(record)}
    order = [name for base in record.__mro__ for name in vars(base).get("__annotations__", ())]
    for name in sorted(dict.fromkeys(order), key=lambda name: name != "model"):
        if name in known:
            yield known[name], _named(name, known[name])


def _named(name: str, declared: Field[Any]) -> Option:
    """Return the option of a field, with its flag and keyword."""
    option_: Option = declared.metadata["option"]
    return replace(
        option_,
        flag=option_.flag or f"--{name.replace('_', '-')}",
        keyword=name if option_.keyword is None else option_.keyword,
    )


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command, checked when an instance is created."""

    def __init_subclass__(cls, *, in_python: bool = True) -> None:
        """Record the keywords of the options, with which errors in Python replace their flags.

        in_python: whether functions in Python take these options.
        """
        for name, declared in vars(cls).items():
            if in_python and isinstance(declared, Field) and "option" in declared.metadata:
                named = _named(name, declared)
                if named.keyword and not named.positional:
                    value = "=True" if declared.default is False else ""
                    flag = named.flag.partition("/")[0].removeprefix("--")
                    KEYWORDS[flag] = named.keyword + value

    def __post_init__(self) -> None:
        """Check the fields; subclasses extend the check and call this method."""

    def _set(self, **values: Any) -> None:
        """Set parsed values of fields of the frozen instance."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class PrintOptions(Options):
    """Options that control what a command prints."""

    quiet: bool = option(False, "Print only errors.", keyword="")
    as_json: bool = option(False, "Print the result as JSON.", "--json", keyword="")


@dataclass(frozen=True, kw_only=True)
class VerdictOptions(Options):
    """Tolerances of the verdicts, and required verdicts."""

    tolerances: Path | None = option(
        None, "TOML file with tolerances for the verdicts; see docs/reference/tolerances.md."
    )
    require: tuple[str, ...] = option(
        (),
        'Exit with code 3 unless a verdict is met, such as "norms.cv holds 90%" (of all heads).'
        " Repeatable.",
        keyword="",
    )


def options_from_keywords(
    record: type[Options],
    kwargs: Mapping[str, Any],
    function: str,
    other_keywords: Iterable[str] = (),
) -> dict[str, Any]:
    """Translate keywords of a Python function into fields of the command's options.

    other_keywords: keywords of the function that are not options; error messages list them.

    Raises:
        TypeError: for an unknown keyword.
    """
    names = {
        option_.keyword: declared.name
        for declared, option_ in options_of(record)
        if option_.keyword
    }
    for name in kwargs:
        if name not in names:
            known = ", ".join(dict.fromkeys((*names, *other_keywords)))
            raise TypeError(f"{function}() has no keyword {name!r}, expected one of {known}.")
    return {names[name]: value for name, value in kwargs.items()}


def takes(record: type[Options], **defaults: Any) -> Callable[[Function], Function]:
    """Return a decorator for a function with `**options`.

    The decorated function's signature lists the options of `record`, and their help texts replace
    `{options}` in its docstring.

    defaults: defaults of this function that differ from those of the command.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        explicit = [*signature.parameters.values()][:-1]
        names = {parameter.name for parameter in explicit}
        parameters, lines = [], []
        for declared, option_ in options_of(record):
            if (keyword := option_.keyword) and keyword not in names:
                default = defaults.get(keyword, declared.default)
                default = str(default) if isinstance(default, Path) else default
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(inspect.Parameter(keyword, kind, default=default))
                text = f"{keyword}: {in_python(option_.help)}"
                lines.append(textwrap.fill(text, 100, **INDENT))
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*explicit, *parameters]
        )
        function.__doc__ = (function.__doc__ or "").replace("        {options}", "\n".join(lines))
        return function

    return decorate


def whole_number(value: Any) -> int | None:
    """Return a Python or NumPy integer as an int, and None for anything else.

    >>> whole_number(3), whole_number(True), whole_number(3.0)
    (3, None, None)
    """
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


MOST: Final = 2**31 - 1
"""Largest 32-bit index."""


def capped(digits: str) -> int:
    """Return decimal digits as an int, at most MOST.

    Python refuses to parse thousands of digits.

    >>> capped("0040"), capped("9" * 5000) == MOST
    (40, True)
    """
    short = digits.lstrip("0") or "0"
    return min(int(short), MOST) if len(short) <= 10 else MOST


def with_commas(values: object) -> str:
    """Return one or several values in the notation of the command line.

    >>> with_commas([1, 8]), with_commas(0.05), with_commas("recent")
    ('1,8', '0.05', 'recent')
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    return ",".join(map(str, values))


def names_in(values: str | Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated names in one or several texts.

    >>> names_in(["L5H3,L7H0", "L1H1"]), names_in("")
    (('L5H3', 'L7H0', 'L1H1'), ())
    """
    text = with_commas(values)
    return tuple(text.split(",")) if text else ()


def named_heads(names: Any) -> tuple[tuple[int, int], ...]:
    """Parse one or several heads, names such as L5H3 or pairs, into (layer, head) pairs.

    Raises:
        InputError: if a name has another form.

    >>> named_heads(["L5H3"])
    ((5, 3),)
    """
    heads = []
    for name in names if isinstance(names, list | tuple) else [names]:
        text = f"L{'H'.join(map(str, name))}" if isinstance(name, list | tuple) else str(name)
        match = HEAD_NAME.fullmatch(text)
        if match is None:
            raise InputError(
                f"--head {text}: expected a layer and a head, such as L5H3. Use that form."
            )
        heads.append((int(match[1]), int(match[2])))
    return tuple(heads)
