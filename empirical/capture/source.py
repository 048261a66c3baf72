"""Sources of layers: a model under the tap, or anything else that provides the attention weights
and values of its layers.

Imports torch and the tap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from empirical.sources.identity import fingerprint_of_text
from empirical.sources.models import LoadedModel
from empirical.tap.decoder import decoder_of, device_of, offload_target
from empirical.tap.parity import parity
from empirical.tap.tap import TappedLayer, tap

PARITY_TOKENS: Final = 1024
"""Most tokens of one document that the parity check reads, because it materialises eager weights.
"""


class Described(Protocol):
    """Description of a source, available before any layer."""

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Numbers of `layers`, `heads` and `kv_heads`, and the `dimension` of values."""

    @property
    def devices(self) -> Collection[str]:
        """Types of the devices of the layers, such as "cpu"."""

    def provenance(self) -> dict[str, Any]:
        """Return a run's record of the model, in plain types."""

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare with the model's own weights on one document, (1, position), at the positions
        `queries`, (1, query), before the measurement. Return a run's record of the comparison.

        Raises:
            InputError: the weights differ.
        """

    def resume(self, held: Sequence[Mapping[str, Any]]) -> None:
        """Skip the documents that a run holds, by their rows; an InputError if they differ. Not
        needed if their tokens identify them.
        """
        return None


class Source(Described, Protocol):
    """A source of the layers of documents. Documents are requested in order, each once."""

    def hand_over(
        self,
        documents: range,
        token_ids: NDArray[np.int32],
        queries: torch.Tensor,
        on_layer: Callable[[TappedLayer], None],
    ) -> None:
        """Pass each layer of some documents to `on_layer`, in order. `token_ids`: (document,
        position) of these documents; `queries`: positions of their analysed queries, (document,
        query).
        """

    def digest(self) -> str:
        """Return the digest that seeds random draws in the current layer if tokens are unknown."""
        return ""

    def row(self, document: int) -> dict[str, Any]:
        """Return a run's further record of a document after `hand_over`."""
        return {}


@dataclass(frozen=True, slots=True)
class Tapped(Source):
    """A model under the tap."""

    model: LoadedModel
    first: NDArray[np.int32] | None = None
    """Tokens of the run's first document, (1, position), which extend the fingerprint of a model
    that the caller holds.
    """

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Sizes of the model."""
        names = ("layers", "heads", "kv_heads", "dimension")
        return {name: getattr(self.model, name) for name in names}

    @property
    def devices(self) -> Collection[str]:
        """Devices of its parameters, or the device to which offloaded ones are moved."""
        model = self.model.model
        types = {parameter.device.type for parameter in model.parameters()}
        if "meta" in types and (device := offload_target(decoder_of(model))) is not None:
            types = types - {"meta"} | {device.type}
        return types

    def provenance(self) -> dict[str, Any]:
        """Return the model's identity. A model that the caller holds is also run on the first
        document.
        """
        recorded = dict(self.model.provenance())
        if self.first is not None and self.model.held and "fingerprint" in recorded:
            ids = torch.as_tensor(self.first.astype(np.int64))
            recorded["fingerprint"] = recorded["fingerprint"] | fingerprint_of_text(
                self.model.model, ids
            )
        return recorded

    def check(self, token_ids: NDArray[np.int32], queries: torch.Tensor) -> dict[str, Any]:
        """Compare the tap with the eager implementation."""
        device = device_of(decoder_of(self.model.model))
        ids = torch.as_tensor(token_ids[:, :PARITY_TOKENS].astype(np.int64), device=device)
        in_range = queries[:, queries[0] < ids.shape[1]]
        checked = parity(self.model.model, ids, queries=in_range if in_range.numel() else None)
        checked.judge(self.model.dtype)
        return dataclasses.asdict(checked)

    def hand_over(
        self,
        documents: range,
        token_ids: NDArray[np.int32],
        queries: torch.Tensor,
        on_layer: Callable[[TappedLayer], None],
    ) -> None:
        """Run the model once."""
        # On the CPU: the tap reads token ids, which would wait for a device.
        ids = torch.as_tensor(token_ids.astype(np.int64))
        tap(self.model.model, ids, on_layer, queries=queries)
