"""A Gram from a file: NumPy's .npy and .npz, or numbers as text. Imports numpy."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from geostat.errors import InputError

SUFFIXES: Final = (".npy", ".npz", ".csv", ".tsv", ".txt")
"""What a file of cosines may end in."""


MAGIC: Final = (b"\x93NUM", b"PK\x03\x04")
"""How an .npy and an .npz begin."""


def is_file(word: str) -> bool:
    """Say whether `--gram word` names a file rather than a form of the similarity.

    >>> is_file("cosines.npy"), is_file("offset")
    (True, False)
    """
    return word.lower().endswith(SUFFIXES) or "/" in word or Path(word).is_file()


def read_gram(path: Path) -> np.ndarray:
    """Read the cosines in a file: (T, T) with the sink first, or those at lags 0, 1, … in one row or column; not checked any further.

    A .npz holds one array, or one that is called gram. In text, values stand between commas, semicolons, tabs or spaces; # opens a comment.

    Raises:
        InputError: if there is no such file, or it holds no such array.
    """
    if not path.is_file():
        raise InputError(
            f"--gram {path}: no such file, expected a .npy, .npz or .csv file, or one of exponential, offset, stretched, power, measured. Check the name."
        )
    try:
        array = _numpy(path) if path.suffix.lower() in (".npy", ".npz") else _text(path)
    except (ValueError, EOFError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        why = " ".join(str(error).split(";")[0].split()).rstrip(".")
        raise InputError(
            f"--gram {path}: {why}, expected a square array of numbers, or cosines by lag. Leave out headers and save it again."
        ) from None
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _numpy(path: Path) -> np.ndarray:
    with open(path, "rb") as file:
        if not file.read(4).startswith(MAGIC):
            raise ValueError("it is no file of NumPy's")
        file.seek(0)
        result = np.load(file, allow_pickle=False)
        if isinstance(result, np.ndarray):
            return result
        names = list(result.files)
        name = "gram" if "gram" in names else names[0] if len(names) == 1 else None
        if name is None:
            raise ValueError(f"it holds the arrays {', '.join(names)}, none of them called gram" if names else "it holds no array")
        return np.asarray(result[name])


def _text(path: Path) -> np.ndarray:
    text = path.read_text(encoding="utf-8-sig")
    lines = [line.translate(SEPARATORS) for line in text.splitlines()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file, which is refused below
        array = np.loadtxt(lines, dtype=np.float64, ndmin=2)
    if not array.size:
        raise ValueError("it is empty")
    return array


SEPARATORS: Final = str.maketrans(",;\t", "   ")
