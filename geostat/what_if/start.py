"""Where a what-if study starts: the fitted parameters of one head of a run, and the Gram that was
measured of it or stands in a file.

Source: arXiv 2602.01893, Assumptions 1-3. Imports numpy, xarray and the theory room.
"""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.errors import boundary
from empirical.sources.paths import read_whole
from geostat.datasets.tokens import index_of, value_heads
from geostat.errors import InputError
from theory.head.gram import LagGram
from theory.what_if.parameters import PARAMETERS, Decay

SUFFIXES: Final = (".npy", ".npz", ".csv", ".tsv", ".txt")
"""What a file of cosines may end in."""
MAGIC: Final = (b"\x93NUM", b"PK\x03\x04")
"""How an .npy and an .npz begin."""
SEPARATORS: Final = str.maketrans(",;\t", "   ")


def from_head(run: xr.DataTree, head: str, *, gram: Decay = "exponential") -> dict[str, float]:
    """Return the fitted parameters of one head: norms, similarity and the printed form of the
    weights, by name.

    p_base is left out: it follows from the others and Σα = 1. The fitted one belongs to a mean of
    log weights, beside which the sink's mean weight would be several times too heavy.

    `gram` is "exponential" or "offset", whose fit is taken; "measured": no similarity, as
    `measured_of_head` stands in for it. `head` is such as "L5H3".

    Raises:
        InputError: if the run is not fitted, the head is unknown, or a parameter of it could not be
            fitted.
    """
    missing = [
        name for name in ("capture", "norms", "similarity", "weights") if name not in run.children
    ]
    if missing:
        raise InputError(
            f"the run holds no /{missing[0]}, expected a fitted run. Run `geostat fit` on it first."
        )
    if gram not in ("exponential", "offset", "measured"):
        raise InputError(
            f"gram is {gram!r}, but runs hold fits of the exponential and the offset only. Give the"
            " similarity with --set."
        )
    captured = run["capture"].to_dataset()
    at, kv_head = _indices(captured, head)
    norms, weights = run["norms"].to_dataset().isel(kv_head), run["weights"].to_dataset().isel(at)
    result: dict[str, Any] = {
        "L": float(captured["tokens"].values[at["layer"]] - 1),
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
        result |= {"beta": similarity["beta"], "rho0": similarity["rho0"]} | (
            {"c": similarity["offset"]} if gram == "offset" else {}
        )
    values = {name: float(value) for name, value in result.items()}
    unknown = [name for name, value in values.items() if not np.isfinite(value) and name != "omega"]
    if unknown:
        raise InputError(
            f"{head}: {', '.join(unknown)} could not be fitted, so no study starts there. Choose"
            " another head."
        )
    if values["T1"] == values["T2"] or not np.isfinite(values["omega"]):
        values["omega"] = PARAMETERS["omega"].default or 0.0  # no oscillation: ω is without effect
    return values


def measured_of_head(run: xr.DataTree, head: str) -> np.ndarray:
    """Return the cosines that were measured of one head: the mean by lag between content tokens and
    the mean with the sink by position.

    Both are means over documents, (T, T) with the sink first, unitless. No vectors need have them:
    project them (`theory.project`).

    Raises:
        InputError: if the head is unknown, or a cosine was not measured (the sink is out of sight,
            or a value is zero).
    """
    if "capture" not in run.children:
        raise InputError(
            "the run holds no /capture, expected a captured run. Run `geostat capture` first."
        )
    captured = run["capture"].to_dataset()
    _, kv_head = _indices(captured, head)
    tokens = int(captured["tokens"].values[kv_head["layer"]])
    by_lag = (
        captured["cosine_mean"]
        .isel(kv_head)
        .mean("document", skipna=True)
        .values[: max(0, tokens - 2)]
        .astype(np.float64)
    )
    with_sink = (
        captured["sink_cosine"]
        .isel(kv_head)
        .mean("document", skipna=True)
        .values[-tokens:][1:]
        .astype(np.float64)
    )
    if (
        tokens < 3
        or by_lag.size < tokens - 2
        or not (np.isfinite(by_lag).all() and np.isfinite(with_sink).all())
    ):
        raise InputError(
            f"{head}: not every cosine was measured (is the sink visible?), so no study starts"
            " there. Choose another head."
        )
    gram = LagGram(np.clip(np.concatenate([[1.0], by_lag]), -1, 1)).matrix(tokens)
    gram[0, 1:] = gram[1:, 0] = np.clip(with_sink, -1, 1)
    return np.asarray(gram)


def _indices(captured: xr.Dataset, head: str) -> tuple[dict[str, int], dict[str, int]]:
    """Indices of a head of a capture, and of the value head it uses."""
    named = re.fullmatch(r"L(\d{1,9})H(\d{1,9})", head.strip())
    if named is None:
        raise InputError(f"--head {head}: expected a layer and a head, such as L5H3.")
    at = {
        "layer": index_of(captured, "layer", int(named[1])),
        "head": index_of(captured, "head", int(named[2])),
    }
    return at, {
        "layer": at["layer"],
        "kv_head": int(value_heads(captured)[at["head"]]),
    }


def is_file(word: str) -> bool:
    """Say whether `--gram word` names a file rather than a form of the similarity.

    >>> is_file("cosines.npy"), is_file("offset")
    (True, False)
    """
    return word.lower().endswith(SUFFIXES) or "/" in word or Path(word).is_file()


def read_gram(path: Path) -> np.ndarray:
    """Read the cosines in a file: (T, T) with the sink first, or those at lags 0, 1, … in one row
    or column; not checked any further.

    A .npz holds one array, or one that is called gram. In text, values stand between commas,
    semicolons, tabs or spaces; # opens a comment.

    Raises:
        InputError: if there is no such file, or it holds no such array.
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
        raise ValueError("it is no file of NumPy's")
    result = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(result, np.ndarray):
        return result
    names = list(result.files)
    name = "gram" if "gram" in names else names[0] if len(names) == 1 else None
    if name is None:
        raise ValueError(
            f"it holds the arrays {', '.join(names)}, none of them called gram"
            if names
            else "it holds no array"
        )
    return np.asarray(result[name])


def _text(data: bytes) -> np.ndarray:
    text = data.decode("utf-8-sig")
    lines = [line.translate(SEPARATORS) for line in text.splitlines()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file, which is refused below
        array = np.loadtxt(lines, dtype=np.float64, ndmin=2)
    if not array.size:
        raise ValueError("it is empty")
    return array
