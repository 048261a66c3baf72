""".safetensors files, mapped into memory: a layer is read when it is asked for.

Texts stand as JSON in the file's metadata, for the format holds numbers only. Imports safetensors,
with torch, which has bfloat16.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from empirical.errors import boundary
from empirical.sources.paths import shown


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """Tensors of a file, and texts of its metadata."""

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
        """Read a tensor, or a text of the metadata as an array."""
        with self._open() as file:
            if name in file.keys():  # noqa: SIM118 - the file is no mapping
                return np.asarray(file.get_tensor(name))
            text = (file.metadata() or {})[name]
        with boundary(
            f"{shown(self.path)}: {name} of its metadata is no JSON of texts",
            "expected a list of as many as there are. Write it with json.dumps.",
        ):
            return np.array(json.loads(text), dtype=str)

    def rows(self, name: str, axes: int) -> Iterator[torch.Tensor]:
        """Read a tensor entry by entry along its first `axes` axes."""
        with self._open() as file:
            part = file.get_slice(name)
            for place in itertools.product(*map(range, part.get_shape()[:axes])):
                yield part[place]

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Open the file, and say of what cannot be read why, in one line."""
        with (
            boundary(
                f"{shown(self.path)}: cannot be read as .safetensors",
                "expected a whole file that safetensors wrote. Write it again, labels as int32.",
            ),
            safe_open(self.path, framework="pt") as file,
        ):
            yield file
