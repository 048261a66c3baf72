"""Files of tensors: .npz and .safetensors with the weights and values of documents, as a source of
layers.

A file holds `alpha` and `values`, of one document or of several, and may hold `token_ids`,
`tokens`, `names` and `visible`. Imports the readers of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from empirical.errors import InputError
from empirical.sources.paths import path_of, shown
from empirical.sources.tensors.given import GivenTensors, given_tensors
from empirical.sources.tensors.labels import labels_of
from empirical.sources.tensors.npz_file import NpzFile
from empirical.sources.tensors.safetensors_file import SafetensorsFile
from empirical.sources.tensors.stream import ALPHA, VALUES, Pair, stream

KINDS: Final[dict[str, type[NpzFile] | type[SafetensorsFile]]] = {
    ".npz": NpzFile,
    ".safetensors": SafetensorsFile,
}
NEEDED: Final = ("alpha", "values")
BY_DOCUMENT: Final = ("token_ids", "tokens", "names")
OF_ALL: Final = "visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFile:
    """A file, how many documents of how many layers it holds, and what else it tells."""

    file: NpzFile | SafetensorsFile
    axes: int
    """Axes before those of a layer: 1 in a file of one document, which has no axis for it."""
    documents: int
    layers: int
    told: dict[str, np.ndarray]

    @classmethod
    def open(cls, path: Path) -> TensorFile:
        """Look at what a file holds; its weights and values are not read.

        Raises:
            InputError: it is not there, is damaged, or lacks an array.
        """
        if not path.is_file() or path.suffix.lower() not in KINDS:
            seen = "is no such file" if not path.is_file() else "is of another kind"
            raise InputError(
                f"{shown(path)}: {seen}, expected an .npz or a .safetensors file. Name one."
            )
        file = KINDS[path.suffix.lower()](path)
        held = file.names
        for name in NEEDED:
            if name not in held:
                raise InputError(
                    f"{shown(path)}: has no array {name}, only"
                    f" {', '.join(sorted(held)) or 'nothing'}. Save it under that name."
                )
        alpha, values = (file.shape(name) for name in NEEDED)
        axes = len(values) - 3
        if axes not in (1, 2) or len(alpha) - axes not in (2, 3) or alpha[:axes] != values[:axes]:
            raise InputError(
                f"{shown(path)}: alpha of shape {alpha} and values of shape {values}, expected"
                f" {ALPHA} and {VALUES}. Save them so; one document needs no first axis."
            )
        told: dict[str, np.ndarray] = {
            name: file.whole(name) for name in (*BY_DOCUMENT, OF_ALL) if name in held
        }
        documents = 1 if axes == 1 else values[0]
        for name in BY_DOCUMENT:
            if name in told and axes == 1:
                told[name] = told[name].reshape(1, -1) if name != "names" else told[name].ravel()
            dims = 1 if name == "names" else 2
            if name in told and (told[name].ndim != dims or len(told[name]) != documents):
                raise InputError(
                    f"{shown(path)}: {name} has shape {told[name].shape}, expected one entry for"
                    f" each of {documents} documents. Save it so."
                )
        return cls(file=file, axes=axes, documents=documents, layers=values[axes - 1], told=told)

    @property
    def names(self) -> list[str]:
        """Those that it tells, or its path, with a number where it holds several documents."""
        if "names" in self.told:
            return [*labels_of(self.told["names"], f"{shown(self.file.path)}: names")]
        path = shown(self.file.path)
        return [path] if self.axes == 1 else [f"{path}:{at}" for at in range(self.documents)]

    def read(self) -> Iterator[Iterator[Pair]]:
        """Read the documents, layer by layer."""
        alpha, values = (self.file.rows(name, self.axes) for name in NEEDED)
        pairs = zip(alpha, values, strict=True)
        for _ in range(self.documents):
            yield islice(pairs, self.layers)


def from_files(paths: Sequence[str | Path], **more: Any) -> GivenTensors:
    """Return the documents of files, in their order, as a source of layers; `more`: `queries` and
    `model`, as of `given_tensors`.

    Raises:
        InputError: a file is none, is damaged or lacks an array, files do not fit together; or what
            `given_tensors` refuses.
    """
    if not paths:
        raise InputError("No file was named, expected files of tensors. Name one.")
    files = [TensorFile.open(path_of(path)) for path in paths]
    first = files[0]
    for one in files:
        fits = one.layers == first.layers and one.told.keys() == first.told.keys()
        same = OF_ALL not in first.told or np.array_equal(
            one.told.get(OF_ALL, ()), first.told[OF_ALL]
        )
        if not fits or not same:
            raise InputError(
                f"{shown(one.file.path)}: holds {one.layers} layers and"
                f" {', '.join(sorted(one.told)) or 'no labels'}, not what"
                f" {shown(first.file.path)} does, expected the same layers, labels and visible"
                " tokens in each. Name files of one run."
            )
    read = stream(
        (document for one in files for document in one.read()),
        count=sum(one.documents for one in files),
        layers=first.layers,
    )
    labels: dict[str, Any] = {
        name: [row for one in files for row in one.told[name]]
        for name in ("token_ids", "tokens")
        if name in first.told
    }
    if OF_ALL in first.told:
        labels[OF_ALL] = first.told[OF_ALL]
    return given_tensors(
        read, names=[name for one in files for name in one.names], **labels, **more
    )
