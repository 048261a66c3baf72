"""Tensor files: .npz and .safetensors with the attention weights and values of documents.

A file holds `alpha` and `values` of one or several documents, and may hold `token_ids`, `tokens`,
`names` and `visible`. One layer is in memory at a time: .npz archives are read sequentially,
compressed or not, without loading a pickle; .safetensors files are memory-mapped, with texts as
JSON in the metadata. Imports numpy, torch and safetensors.

Source: numpy.lib.format, the .npy format within an .npz archive.
"""

from __future__ import annotations

import json
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import torch
from numpy.lib import format as npy
from safetensors import safe_open

from empirical.errors import InputError, boundary
from empirical.sources.paths import opened, path_of, shown
from empirical.sources.tensors import (
    ALPHA,
    VALUES,
    GivenTensors,
    Pair,
    given_tensors,
    labels_of,
    stream,
)

HEADERS: Final[dict[tuple[int, int], Callable[..., Any]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
"""Header reader of an array, by format version."""
WHOLE: Final = "expected a complete file from np.savez. Write it again."


@dataclass(frozen=True, slots=True)
class NpzFile:
    """Arrays of an .npz archive."""

    path: Path

    @property
    def names(self) -> set[str]:
        """Names of the arrays."""
        with self._archive() as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        with self._member(name) as (_, _, shape):
            return shape

    def whole(self, name: str) -> np.ndarray:
        """Read an array."""
        with self._member(name) as (stream, dtype, shape):
            return self._read(name, stream, dtype, shape)

    def rows(self, name: str, axes: int) -> Iterator[np.ndarray]:
        """Read an array entry by entry along its first `axes` axes."""
        with self._member(name) as (stream, dtype, shape):
            for _ in range(math.prod(shape[:axes])):
                yield self._read(name, stream, dtype, shape[axes:])

    def _read(
        self, name: str, stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> np.ndarray:
        wanted = math.prod(shape) * dtype.itemsize
        data = stream.read(wanted)
        if len(data) < wanted:
            raise self._damaged(f"{name} is truncated")
        return np.frombuffer(data, dtype).reshape(shape)

    @contextmanager
    def _member(self, name: str) -> Iterator[tuple[IO[bytes], np.dtype[Any], tuple[int, ...]]]:
        """Open an array after its header, which gives its type and shape."""
        with self._archive() as archive, archive.open(f"{name}.npy") as stream:
            version = npy.read_magic(stream)
            if version not in HEADERS:
                raise self._damaged(f"{name} is of version {version} of the format")
            shape, by_column, dtype = HEADERS[version](stream)
            if dtype.hasobject:
                raise InputError(
                    f"{shown(self.path)}: {name} holds Python objects, which run code when read,"
                    " expected numbers or text. Save an array of those."
                )
            if dtype.kind == "V":
                raise InputError(
                    f"{shown(self.path)}: {name} holds {dtype}, as .npz stores bfloat16, expected a"
                    " NumPy dtype. Save float32, or a .safetensors file."
                )
            if by_column and len(shape) > 1:
                raise InputError(
                    f"{shown(self.path)}: {name} has Fortran order, expected C order. Save it after"
                    " np.ascontiguousarray."
                )
            size = archive.getinfo(f"{name}.npy").file_size - stream.tell()
            if min(shape, default=0) < 0 or size != math.prod(shape) * dtype.itemsize:
                raise self._damaged(f"{name} differs in size from its shape {shape}")
            yield stream, dtype, shape

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        """Open the archive; turn read errors into one line."""
        with (
            boundary(f"{shown(self.path)}: cannot be read as .npz", WHOLE),
            opened(self.path, most=sys.maxsize) as file,
            zipfile.ZipFile(file) as archive,
        ):
            yield archive

    def _damaged(self, fault: str) -> InputError:
        return InputError(f"{shown(self.path)}: cannot be read as .npz ({fault}), {WHOLE}")


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """Tensors of a .safetensors file, and texts in its metadata."""

    path: Path

    @property
    def names(self) -> set[str]:
        """Names of the tensors and texts."""
        with self._open() as file:
            return {*file.keys(), *(file.metadata() or {})}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        with self._open() as file:
            return tuple(file.get_slice(name).get_shape())

    def whole(self, name: str) -> np.ndarray:
        """Read a tensor, or a metadata text as an array."""
        with self._open() as file:
            if name in file.keys():  # noqa: SIM118 - the file is no mapping
                return np.asarray(file.get_tensor(name))
            text = (file.metadata() or {})[name]
        with boundary(
            f"{shown(self.path)}: {name} of its metadata is no JSON of texts",
            "expected a list with one for each token or document. Write it with json.dumps.",
        ):
            return np.array(json.loads(text), dtype=str)

    def rows(self, name: str, axes: int) -> Iterator[torch.Tensor]:
        """Read a tensor entry by entry along its first `axes` axes."""
        with self._open() as file:
            part = file.get_slice(name)
            for place in product(*map(range, part.get_shape()[:axes])):
                yield part[place]

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Open the file; turn read errors into one line."""
        with (
            boundary(
                f"{shown(self.path)}: cannot be read as .safetensors",
                "expected a complete file from safetensors. Write it again, with labels as int32.",
            ),
            safe_open(self.path, framework="pt") as file,
        ):
            yield file


KINDS: Final[dict[str, type[NpzFile] | type[SafetensorsFile]]] = {
    ".npz": NpzFile,
    ".safetensors": SafetensorsFile,
}
NEEDED: Final = ("alpha", "values")
BY_DOCUMENT: Final = {"token_ids": 2, "tokens": 2, "names": 1}
"""Labels with one entry per document, and their number of dimensions."""
OF_ALL: Final = "visible"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFile:
    """A tensor file, its numbers of documents and layers, and its labels."""

    file: NpzFile | SafetensorsFile
    axes: int
    """Axes before those of a layer: 2, or 1 in a file of one document without that axis."""
    documents: int
    layers: int
    labels: dict[str, np.ndarray]

    @classmethod
    def open(cls, path: Path) -> TensorFile:
        """Read the shapes and labels of a file, not weights and values; an InputError if it does
        not exist, is damaged, or lacks an array.
        """
        if not path.is_file() or path.suffix.lower() not in KINDS:
            seen = "is of another kind" if path.is_file() else "is no such file"
            raise InputError(
                f"{shown(path)}: {seen}, expected an .npz or a .safetensors file. Name one."
            )
        file = KINDS[path.suffix.lower()](path)
        available = file.names
        for name in NEEDED:
            if name not in available:
                raise InputError(
                    f"{shown(path)}: has no array {name}, only"
                    f" {', '.join(sorted(available)) or 'nothing'}. Save it under that name."
                )
        alpha, values = (file.shape(name) for name in NEEDED)
        axes = len(values) - 3
        if axes not in (1, 2) or len(alpha) - axes not in (2, 3) or alpha[:axes] != values[:axes]:
            raise InputError(
                f"{shown(path)}: alpha of shape {alpha} and values of shape {values}, expected"
                f" {ALPHA} and {VALUES}. Save such arrays; one document needs no first axis."
            )
        labels: dict[str, np.ndarray] = {
            name: file.whole(name) for name in (*BY_DOCUMENT, OF_ALL) if name in available
        }
        documents = 1 if axes == 1 else values[0]
        for name, dims in BY_DOCUMENT.items():
            if name not in labels:
                continue
            if axes == 1:
                labels[name] = labels[name].reshape((1, -1) if dims == 2 else -1)
            if labels[name].ndim != dims or len(labels[name]) != documents:
                raise InputError(
                    f"{shown(path)}: {name} has shape {labels[name].shape}, expected one entry for"
                    f" each of {documents} documents. Save such an array."
                )
        return cls(
            file=file, axes=axes, documents=documents, layers=values[axes - 1], labels=labels
        )

    @property
    def names(self) -> list[str]:
        """Names in the file, or its path, numbered if it holds several documents."""
        path = shown(self.file.path)
        if "names" in self.labels:
            return [*labels_of(self.labels["names"], f"{path}: names")]
        return [path] if self.axes == 1 else [f"{path}:{index}" for index in range(self.documents)]

    def read(self) -> Iterator[Iterator[Pair]]:
        """Yield the documents, each as an iterator of layers."""
        alpha, values = (self.file.rows(name, self.axes) for name in NEEDED)
        pairs = zip(alpha, values, strict=True)
        for _ in range(self.documents):
            yield islice(pairs, self.layers)


def from_files(paths: Sequence[str | Path], **options: Any) -> GivenTensors:
    """Return the documents of files, in order, as a source of layers. `options`: `queries` and
    `model`, as of `given_tensors`. An InputError if a file is damaged or lacks an array, the files
    do not fit together, or `given_tensors` refuses them.
    """
    if not paths:
        raise InputError("No file was named, expected tensor files. Name one.")
    files = [TensorFile.open(path_of(path)) for path in paths]
    first = files[0]
    for file in files:
        if (
            file.layers != first.layers
            or file.labels.keys() != first.labels.keys()
            or not np.array_equal(file.labels.get(OF_ALL, ()), first.labels.get(OF_ALL, ()))
        ):
            raise InputError(
                f"{shown(file.file.path)}: holds {file.layers} layers and"
                f" {', '.join(sorted(file.labels)) or 'no labels'}, unlike"
                f" {shown(first.file.path)}, expected the same layers, labels and visible tokens in"
                " each. Name files of one run."
            )
    documents = stream(
        (document for file in files for document in file.read()),
        count=sum(file.documents for file in files),
        layers=first.layers,
    )
    for name in first.labels.keys() & {"token_ids", "tokens"}:
        options[name] = [row for file in files for row in file.labels[name]]
    if OF_ALL in first.labels:
        options[OF_ALL] = first.labels[OF_ALL]
    return given_tensors(
        documents, names=[name for file in files for name in file.names], **options
    )
