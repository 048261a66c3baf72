"""Source of the layers that are measured: a model under the tap, or whatever else hands over the
weights and values of its layers.

Imports torch, and the tap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from empirical.sources.fingerprint import fingerprint_of_text
from empirical.sources.models import LoadedModel
from empirical.tap.decoder import decoder_of
from empirical.tap.parity import parity
from empirical.tap.placed import brought_to, device_of
from empirical.tap.tap import TappedLayer, tap

PARITY_TOKENS: Final = 1024
"""The parity check materialises eager weights, so it reads at most this many tokens of one
document.
"""


class Described(Protocol):
    """What is known of where layers come from, before any is handed over."""

    @property
    def sizes(self) -> Mapping[str, Any]:
        """How many `layers`, `heads` and `kv_heads` there are, and the `dimension` of values."""

    @property
    def devices(self) -> Collection[str]:
        """Types of the devices on which layers live, such as "cpu"."""

    def provenance(self) -> dict[str, Any]:
        """What a run records of the model, in plain types."""

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare with the model's own weights on one document, (1, position), at the positions
        `queries`, (1, query), before anything is measured; what a run records of it. An InputError
        where they differ.
        """

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Pass over the documents that a run holds already, by their rows; an InputError if they
        are others.
        """


class Source(Described, Protocol):
    """Where the layers of documents come from. Documents are asked for in order, each once."""

    def hand_over(
        self,
        documents: range,
        token_ids: NDArray[np.int32],
        queries: torch.Tensor,
        on_layer: Callable[[TappedLayer], None],
    ) -> None:
        """Hand each layer of some documents to `on_layer`, in order; `token_ids`: theirs,
        (document, position); `queries`: positions of the analysed ones, (document, query).
        """

    def digest(self) -> str:
        """The digest by which draws of the layer at hand are seeded, where the document's tokens,
        which else give it, are not known.
        """

    def row(self, document: int) -> dict[str, Any]:
        """What a run records of a document, once it was handed over, beside its window's row."""


@dataclass(frozen=True, slots=True)
class Tapped:
    """A model under the tap."""

    model: LoadedModel
    first: NDArray[np.int32] | None = None
    """Tokens of the run's first document, (1, position), by which a model that the caller holds is
    told, too.
    """

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Those of the model."""
        names = ("layers", "heads", "kv_heads", "dimension")
        return {name: getattr(self.model, name) for name in names}

    @property
    def devices(self) -> Collection[str]:
        """Those of its parameters, or where they are brought."""
        model = self.model.model
        there = {parameter.device.type for parameter in model.parameters()}
        if "meta" in there and (device := brought_to(decoder_of(model))) is not None:
            there = there - {"meta"} | {device.type}
        return there

    def provenance(self) -> dict[str, Any]:
        """Which model it is; one that the caller holds runs over the first document for that."""
        told = dict(self.model.provenance())
        if self.first is not None and self.model.held and "fingerprint" in told:
            ids = torch.as_tensor(self.first.astype(np.int64))
            told["fingerprint"] = told["fingerprint"] | fingerprint_of_text(self.model.model, ids)
        return told

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare the tap with the eager implementation."""
        device = device_of(decoder_of(self.model.model))
        ids = torch.as_tensor(token_ids[:, :PARITY_TOKENS].astype(np.int64), device=device)
        held = queries[:, queries[0] < ids.shape[1]]
        checked = parity(self.model.model, ids, queries=held if held.numel() else None)
        checked.judge(self.model.dtype)
        return dataclasses.asdict(checked)

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Do nothing: their tokens tell whether they are the same."""

    def hand_over(
        self,
        documents: range,
        token_ids: NDArray[np.int32],
        queries: torch.Tensor,
        on_layer: Callable[[TappedLayer], None],
    ) -> None:
        """Run the model once."""
        # The tap looks at the token ids, which a device would be waited for.
        ids = torch.as_tensor(token_ids.astype(np.int64))
        tap(self.model.model, ids, on_layer, queries=queries)

    def digest(self) -> str:
        """Nothing: tokens are known."""
        return ""

    def row(self, document: int) -> dict[str, Any]:
        """Nothing beside the window's row."""
        return {}
