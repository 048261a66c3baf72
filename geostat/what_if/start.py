"""Inputs of a what-if study: fitted parameters of a head, measured or given Grams, and `--set`.

Source: arXiv 2602.01893, Assumptions 1-3. Imports numpy, xarray and theory.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.errors import boundary
from empirical.sources.paths import read_whole
from geostat.datasets.tokens import index_of, kv_head_of_head
from geostat.errors import InputError, refuse_unknown
from theory.errors import InputError as TooMany
from theory.head.gram import LagGram
from theory.what_if.parameters import PARAMETERS, Decay

SUFFIXES: Final = (".npy", ".npz", ".csv", ".tsv", ".txt")
"""Suffixes of a file of cosines."""
MAGIC: Final = (b"\x93NUM", b"PK\x03\x04")
"""First bytes of .npy and .npz files."""
SEPARATORS: Final = str.maketrans(",;\t", "   ")


def from_head(run: xr.DataTree, head: str, *, gram: Decay = "exponential") -> dict[str, float]:
    """Return the fitted parameters of one head by name: norms, similarity, weights as printed.

    p_base is omitted because Σα = 1 determines it. The fitted p_base refers to mean log weights,
    which are several times smaller than mean weights; the sink would be too heavy.

    Args:
        run: a fitted run.
        head: name of the head, such as "L5H3".
        gram: "exponential" or "offset" reads that fit; "measured" reads no similarity, because
            `measured_of_head` replaces it.

    Raises:
        InputError: if the run is not fitted, the head is unknown, or a parameter has no fit.
    """
    needed = ("capture", "norms", "similarity", "weights")
    if missing := [name for name in needed if name not in run.children]:
        raise InputError(
            f"the run holds no /{missing[0]}, expected a fitted run. Run `geostat fit` on it first."
        )
    if gram not in ("exponential", "offset", "measured"):
        raise InputError(
            f"gram is {gram!r}, expected exponential or offset, which runs have fits of. Give the"
            " similarity with --set."
        )
    captured = run["capture"].to_dataset()
    indices, kv_head = _indices(captured, head)
    norms = run["norms"].to_dataset().isel(kv_head)
    weights = run["weights"].to_dataset().isel(indices)
    result: dict[str, Any] = {
        "L": float(captured["tokens"].values[indices["layer"]] - 1),
        "d": float(captured.attrs["dimension"]),
        "C": norms["C"],
        "lam": norms["lam"],
        "p_sink": weights["p_sink"],
        "eta": weights["eta"],
        "omega": weights["omega"],
        "T1": weights["t1"],
        "T2": weights["t2"],
    }
    if gram != "measured":
        similarity = run["similarity"].to_dataset().sel(gram=gram).isel(kv_head)
        result |= {"beta": similarity["beta"], "rho0": similarity["rho0"]}
        result |= {"c": similarity["offset"]} if gram == "offset" else {}
    values = {name: float(value) for name, value in result.items()}
    if unknown := [
        name for name, value in values.items() if not np.isfinite(value) and name != "omega"
    ]:
        raise InputError(
            f"{head}: {', '.join(unknown)} could not be fitted, expected fits of all parameters."
            " Choose another head."
        )
    if values["T1"] == values["T2"] or not np.isfinite(values["omega"]):
        values["omega"] = PARAMETERS["omega"].default or 0.0  # no oscillation: ω has no effect
    return values


def measured_of_head(run: xr.DataTree, head: str) -> np.ndarray:
    """Return the measured mean cosines of one head, (T, T) with the sink first, unitless.

    Content tokens have the mean cosine at their lag; the sink has the mean cosine at each position.
    Both are means over documents. The matrix need not be positive semidefinite: project it
    (`theory.project`).

    Raises:
        InputError: if the head is unknown, or a cosine was not measured (the sink is not visible,
            or a value is zero).
    """
    if "capture" not in run.children:
        raise InputError(
            "the run holds no /capture, expected a captured run. Run `geostat capture` first."
        )
    captured = run["capture"].to_dataset()
    _, kv_head = _indices(captured, head)
    tokens = int(captured["tokens"].values[kv_head["layer"]])
    by_lag, with_sink = (
        captured[name].isel(kv_head).mean("document", skipna=True).values.astype(np.float64)
        for name in ("cosine_mean", "sink_cosine")
    )
    by_lag, with_sink = by_lag[: max(0, tokens - 2)], with_sink[-tokens:][1:]
    finite = np.isfinite(by_lag).all() and np.isfinite(with_sink).all()
    if tokens < 3 or by_lag.size < tokens - 2 or not finite:
        raise InputError(
            f"{head}: not every cosine was measured (is the sink visible?), expected all of them."
            " Choose another head."
        )
    gram = LagGram(np.clip(np.concatenate([[1.0], by_lag]), -1, 1)).matrix(tokens)
    gram[0, 1:] = gram[1:, 0] = np.clip(with_sink, -1, 1)
    return np.asarray(gram)


def _indices(captured: xr.Dataset, head: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the indices of a head and of its KV head."""
    match = re.fullmatch(r"L(\d{1,9})H(\d{1,9})", head.strip())
    if match is None:
        raise InputError(f"--head {head}: expected a layer and a head, such as L5H3.")
    indices = {
        "layer": index_of(captured, "layer", int(match[1])),
        "head": index_of(captured, "head", int(match[2])),
    }
    kv_head = int(kv_head_of_head(captured)[indices["head"]])
    return indices, {"layer": indices["layer"], "kv_head": kv_head}


def is_file(gram: str) -> bool:
    """Return whether `--gram` names a file rather than a form of the similarity.

    >>> is_file("cosines.npy"), is_file("offset")
    (True, False)
    """
    return gram.lower().endswith(SUFFIXES) or "/" in gram or Path(gram).is_file()


def read_gram(path: Path) -> np.ndarray:
    """Read cosines from a file: (T, T) with the sink first, or one row or column by lag 0, 1, ….

    A .npz file holds one array, or an array named gram. Text files separate values by commas,
    semicolons, tabs or spaces; # starts a comment. The values are not checked.

    Raises:
        InputError: if the file does not exist, or holds no such array.
    """
    if path.is_dir() or not path.exists():
        raise InputError(
            f"--gram {path}: no such file, expected a .npy, .npz or .csv file, or one of"
            " exponential, offset, stretched, power, measured. Check the name."
        )
    with boundary(
        f"--gram {path}: cannot be read",
        "expected a square array of numbers, or cosines by lag. Leave out headers and save it"
        " again.",
    ):
        data = read_whole(path)
        array = _numpy(data) if path.suffix.lower() in (".npy", ".npz") else _text(data)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _numpy(data: bytes) -> np.ndarray:
    if not data.startswith(MAGIC):
        raise ValueError("it is not a NumPy file")
    result = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(result, np.ndarray):
        return result
    names = list(result.files)
    if not names:
        raise ValueError("it holds no array")
    if len(names) > 1 and "gram" not in names:
        raise ValueError(f"it holds the arrays {', '.join(names)}, none of them called gram")
    return np.asarray(result["gram" if "gram" in names else names[0]])


def _text(data: bytes) -> np.ndarray:
    text = data.decode("utf-8-sig")
    lines = [line.translate(SEPARATORS) for line in text.splitlines()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
        array = np.loadtxt(lines, dtype=np.float64, ndmin=2)
    if not array.size:
        raise ValueError("it is empty")
    return array


MOST_IN_RANGE: Final = 10_000
"""Maximum number of values of a range; figures and tables cannot show more."""
MOST_TOKENS: Final = 100_000_000
"""Maximum number of tokens of a document in a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Values of one parameter: absolute, multiples of the base value, or shares of L."""

    name: str
    values: tuple[float, ...]
    relative: bool = False
    in_lengths: bool = False

    def of(self, base: Mapping[str, float | str]) -> np.ndarray:
        """Return absolute values; shares of L stay text such as "0.5L"."""
        if self.in_lengths:
            return np.array([f"{value!r}L" for value in self.values])
        values = np.array(self.values, dtype=np.float64)
        if self.relative:
            start = base.get(self.name, PARAMETERS[self.name].default)
            if start is None or isinstance(start, str):
                raise InputError(
                    f"{self.name}: has no base value to multiply. Give it with --set"
                    f" {self.name}=VALUE."
                )
            values = values * start
            values = np.unique(np.round(values)) if PARAMETERS[self.name].whole else values
        return values


def parse(text: str) -> Setting:
    """Parse `name=value`, `name=v1,v2,…` or `name=from:to:count[:log]`.

    A prefix x multiplies the base value (beta=x2). A suffix L gives T1 and T2 as shares of L
    (T1=0.5L).

    Raises:
        InputError: for an unknown name, values that are not numbers, or too many values.

    >>> parse("N=2:5:4").values
    (2.0, 3.0, 4.0, 5.0)
    """
    name, equals, rest = text.partition("=")
    name, rest = name.strip(), rest.strip()
    refuse_unknown(name, PARAMETERS, f"--set {text}: {name!r} is not a parameter", verb="Use")
    in_lengths = PARAMETERS[name].share is not None and bool(re.search(r"L\s*(,|:|$)", rest))
    relative = rest.startswith("x")
    plain = re.sub(r"(^|[:,])\s*x", r"\1", rest) if relative else rest
    if in_lengths:
        plain = re.sub(r"L\s*(?=,|:|$)", "", plain)
        parts = rest.split(":")[:2] if ":" in rest else rest.split(",")
        if relative or any(part.strip()[-1:] not in ("L", "") for part in parts):
            raise InputError(
                f"--set {text}: some values are shares of L, expected all, as in {name}=0.3L,0.5L"
                f" or {name}=0.1L:0.5L:5. Add the L."
            )
    try:
        values: tuple[float, ...] = (
            _range(plain) if ":" in plain else tuple(float(part) for part in plain.split(","))
        )
    except TooMany:
        raise
    except (ValueError, OverflowError):
        values = ()
    if not equals or not values or not np.isfinite(values).all():
        raise InputError(
            f"--set {text}: expected {name}=VALUE, {name}=V1,V2,… or {name}=FROM:TO:COUNT[:log],"
            " all of them finite numbers."
        )
    if name == "L" and not relative and max(values) > MOST_TOKENS:
        raise InputError(
            f"--set {text}: expected at most {MOST_TOKENS:,} tokens, whose weights fit in memory."
            " Use a smaller L."
        )
    if ":" in plain and PARAMETERS[name].whole and not relative and not in_lengths:
        values = tuple(np.unique(np.round(values)).tolist())
    return Setting(name=name, values=values, relative=relative, in_lengths=in_lengths)


def _range(text: str) -> tuple[float, ...]:
    first, last, count, *spacing = text.split(":")
    start, stop, number = float(first), float(last), int(count)
    if spacing not in ([], ["log"]) or number < 1 or not np.isfinite([start, stop]).all():
        raise ValueError(text)
    if spacing and not (start > 0 and stop > 0):
        raise ValueError(text)
    if number > MOST_IN_RANGE:
        raise TooMany(
            f"--set: a range of {number:,} values, expected at most {MOST_IN_RANGE:,}. Give a"
            " smaller COUNT."
        )
    return tuple((np.geomspace if spacing else np.linspace)(start, stop, number).tolist())
