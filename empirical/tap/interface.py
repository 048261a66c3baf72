"""Attention interface of transformers: runs a decoder unchanged, with each layer's attention
replaced by a function of its queries, keys and values.

AttentionInterface calls `_attend` in each attention layer. The mask function is registered in
AttentionMaskInterface under the same name: under an unknown name, transformers silently makes no
mask. Imports torch and transformers only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.masking_utils import sdpa_mask

from empirical.errors import LONGEST_QUOTE, InputError, message_of
from empirical.tap.attention import Scoring, layer_output
from empirical.tap.decoder import device_of, layers_of, offload_target
from empirical.tap.refusals import refuse_ahead, shows_ahead

NAME = "geostat_tap"
"""Name under which the attention function and the mask function are registered."""
KEYWORDS: Final = {"scaling", "dropout", "softcap", "s_aux", "sliding_window", "is_causal"}
"""Keywords of the attention function that are supported."""
SILENT_KEYWORDS: Final = """
position_ids use_cache cache_position output_attentions output_hidden_states return_dict
"""
"""Keywords that reach the attention function without effect in a forward pass without a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The attention of one layer in one forward pass."""

    index: int
    """Number of the layer, from 0."""
    module: torch.nn.Module
    query: Tensor
    """(document, head, position, dimension)."""
    key: Tensor
    """(document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads)."""
    value: Tensor
    """(document, kv_head, position, dimension); the dimension may differ from the key's."""
    mask: Tensor | None
    """(document, 1, query, position) bool, True where a query sees a position; None: causal."""
    scoring: Scoring

    @property
    def name(self) -> str:
        """Name of the layer in messages."""
        return f"layer {self.index} of {type(self.module).__name__}"

    def refuse(self, fault: str, remedy: str = "Use another model.") -> NoReturn:
        """Raise an InputError that names the layer."""
        raise InputError(f"{self.name}: {fault} {remedy}")

    def output(self) -> Tensor:
        """Return the layer's attention output, (document, position, head, dimension)."""
        return layer_output(self.module, self.query, self.key, self.value, self.mask, self.scoring)


Attend = Callable[[Attention], Tensor]
"""Function from a layer's attention to its output, (document, position, head, dimension)."""


@dataclass(slots=True)
class Session:
    """State of one forward pass through the interface."""

    attend: Attend
    decoder: PreTrainedModel
    tokens: tuple[int, int]
    """Numbers of documents and positions in the forward pass."""
    padded: bool
    """Whether any document is shorter than the window."""
    first: int = 0
    """Layer at which the forward pass begins."""
    read: bool = True
    """Whether masks are checked here for visible later positions."""
    called: dict[torch.nn.Module, None] = field(default_factory=dict)
    """Attention modules that were called so far, in order."""
    masks: int = 0
    """Number of masks that the model requested."""
    causal: list[Tensor] = field(default_factory=list)
    """Masks already checked to hide all later positions."""
    raised: Exception | None = None
    """Error raised by `attend`; it differs from errors of the model."""


_session: ContextVar[Session] = ContextVar("geostat_tap_session")


def run_decoder(
    decoder: PreTrainedModel,
    input_ids: Tensor,
    mask: Tensor | None,
    attend: Attend,
    first: int = 0,
    position: int = 0,
    *,
    read: bool = True,
) -> Tensor:
    """Run a decoder once, with `attend` as the attention of every layer, in order. The attention
    implementation is restored afterwards, even if `attend` raises. Errors are those of `tap.tap`.

    Args:
        decoder: the decoder, as `decoder_of` returns it.
        input_ids: (document, position) integers.
        mask: padding mask, as `checked_mask` returns it.
        attend: called once per layer.
        first: layer at which the forward pass begins (`resumed.run_from`).
        position: position of the first token (`resumed.run_after`).
        read: check the masks here, which waits for their device; otherwise `attend` must refuse
            masks that show a later position.

    Returns:
        The last hidden states, (document, position, hidden), in the model's dtype; those at padded
        positions are meaningless.
    """
    documents, positions = input_ids.shape
    tokens = (documents, positions)
    session = Session(attend, decoder, tokens, padded=mask is not None, first=first, read=read)
    if decoder._can_set_attn_implementation():
        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, _mask)
        with implementation(decoder, NAME):
            token = _session.set(session)
            try:
                hidden = forward(decoder, input_ids, mask, position)
            finally:
                _session.reset(token)
    layers = layers_of(decoder, session.called)
    called = session.called
    calls = [any(module in called for module in layer.modules()) for layer in layers[first:]]
    if not session.called or not all(calls):
        raise InputError(
            f"{decoder.config.model_type}: {first + sum(calls)} of {len(layers)} layers call the"
            " attention interface of transformers, expected all. Use a model whose layers all have"
            " attention, and whose family supports AttentionInterface."
        )
    return hidden


def forward(
    decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None, position: int = 0
) -> Tensor:
    """Return the decoder's last hidden states of tokens from `position` on, without a cache."""
    ids, kwargs = input_ids.to(device_of(decoder)), {}
    if position:
        count = ids.shape[1]
        kwargs["position_ids"] = torch.arange(position, position + count, device=ids.device)[None]
    with plain_mode(decoder):
        output = decoder(
            input_ids=ids, attention_mask=mask, use_cache=False, return_dict=True, **kwargs
        )
        return output.last_hidden_state


@contextmanager
def plain_mode(model: torch.nn.Module) -> Iterator[None]:
    """Run a model in its own dtypes, uncompiled and without gradients, whatever the caller's
    autocast, matmul precision or compilation. Its errors are quoted in an InputError; those of
    `attend` pass.
    """
    devices = [weight.device for weight in model.parameters()] + [offload_target(model)]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        kinds = {"cpu"} | {device.type for device in devices if device is not None}
        for device_type in sorted(kinds):
            if torch.amp.is_autocast_available(device_type):
                stack.enter_context(torch.autocast(device_type, enabled=False))
        stack.enter_context(whole_products())
        if "torch._dynamo" in sys.modules:  # the process has compiled something
            stack.enter_context(_UNCOMPILED.active())
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # the user sees one line, whatever the model raises
            session = _session.get(None)
            if session is not None and error is session.raised:
                raise
            name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
            text = message_of(error)[:LONGEST_QUOTE].rstrip(".")
            raise InputError(
                f"{name}: its forward pass raised {type(error).__name__}: {text}. Pass the inputs"
                " that it needs, or use another model."
            ) from error


class _Shared:
    """A process-wide state that lasts while any thread uses it."""

    def __init__(self, state: Callable[[], AbstractContextManager[Any]]) -> None:
        self.state, self.lock, self.users = state, Lock(), 0
        self.entered = ExitStack()

    @contextmanager
    def active(self) -> Iterator[None]:
        with self.lock:
            if not self.users:
                self.entered.enter_context(self.state())
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.entered.close()


@contextmanager
def _whole_products() -> Iterator[None]:
    """Multiply float32 matrices in float32, whatever coarser type the caller allows. PyTorch has an
    older global switch, which it refuses to report if it contradicts the one of a backend.
    """
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:  # the caller set the backend switches
        older = "highest"
    before = [backend.fp32_precision for backend in backends]
    try:
        if older != "highest":
            torch.set_float32_matmul_precision("highest")
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        if older != "highest":
            torch.set_float32_matmul_precision(older)
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = "none"  # follows the setting of all backends
            if backend.fp32_precision != precision:
                backend.fp32_precision = precision


_UNCOMPILED: Final = _Shared(lambda: torch.compiler.set_stance("force_eager"))
_FULL_PRECISION: Final = _Shared(_whole_products)


def whole_products() -> AbstractContextManager[None]:
    """Make all threads multiply float32 in float32, until the last user leaves the block."""
    return _FULL_PRECISION.active()


@contextmanager
def returning(module: torch.nn.Module, output: Any) -> Iterator[None]:
    """Make a module return `output` without its hooks, which have already acted on it."""
    attributes, names = vars(module), ("_forward_hooks", "_forward_pre_hooks", "forward")
    before = {name: attributes.get(name) for name in names}
    attributes.update(zip(names, ({}, {}, lambda *args, **kwargs: output), strict=True))
    try:
        yield
    finally:
        attributes.update(before)
        if before["forward"] is None:  # else accelerate replaced it, for several devices
            del attributes["forward"]


@contextmanager
def implementation(decoder: PreTrainedModel, name: str) -> Iterator[None]:
    """Run the decoder with the attention implementation `name`, and restore the previous one; other
    threads with the same decoder wait. Each module looks up its own configuration.

    `set_attn_implementation` would also check for PyTorch's kernel, and refuse families whose
    extras the tap itself computes.
    """
    configs = [
        module.config
        for module in decoder.modules()
        if isinstance(getattr(module, "config", None), PreTrainedConfig)
    ]
    with alone(decoder):
        before = [(config, config._attn_implementation) for config in configs]
        try:
            for config in configs:
                config._attn_implementation = name
            yield
        finally:
            for config, previous in before:
                config._attn_implementation = previous


def alone(decoder: PreTrainedModel) -> AbstractContextManager[Any]:
    """Return the decoder's lock, which makes other threads wait."""
    with _LOCKS_ALONE:
        return _LOCKS.setdefault(decoder, RLock())


_LOCKS: Final[WeakKeyDictionary[PreTrainedModel, Any]] = WeakKeyDictionary()
_LOCKS_ALONE: Final = Lock()


def _mask(*args: object, **keywords: object) -> Tensor | None:
    """Return the fused kernel's mask: bool, or None if plainly causal; count the request."""
    _session.get().masks += 1
    return sdpa_mask(*args, **keywords)


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """Return one layer's output, as the interface expects; `KEYWORDS` are optional."""
    session = _session.get()
    scaling = keywords.get("scaling")
    factor = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    layer = Attention(
        index=session.first + len(session.called),
        module=module,
        query=query,
        key=key,
        value=value,
        mask=attention_mask,
        scoring=Scoring(factor, keywords.get("softcap"), keywords.get("s_aux")),
    )
    _refuse_layer(layer, session, keywords)
    _refuse_mask(layer, session, keywords)
    session.called[module] = None
    try:
        return session.attend(layer), None
    except Exception as error:
        session.raised = error
        raise


def _refuse_layer(layer: Attention, session: Session, keywords: Mapping[str, Any]) -> None:
    """Refuse unsupported keywords, dropout, a dtype coarser than the decoder's, a second call."""
    known = KEYWORDS | set(SILENT_KEYWORDS.split())
    unknown = {name for name, value in keywords.items() if value is not None} - known
    if unknown:
        layer.refuse(f"passes {', '.join(sorted(unknown))}, which geostat does not support.")
    if layer.module in session.called:
        layer.refuse("attends more than once in a forward pass, expected one attention per layer.")
    if keywords.get("dropout"):
        layer.refuse(
            f"drops weights at random (dropout {keywords['dropout']}) outside training.",
            "Set its dropout to 0.",
        )
    dtype, expected = layer.value.dtype, session.decoder.dtype
    if torch.finfo(dtype).eps > torch.finfo(expected).eps:
        layer.refuse(
            f"computes in {dtype}, but the model's weights are {expected}, as under an autocast of"
            " its own.",
            "Convert the model instead, as with model.bfloat16().",
        )
    sinks, heads = layer.scoring.sinks, layer.query.shape[1]
    if sinks is not None and sinks.numel() != heads:
        layer.refuse(f"has {sinks.numel()} learned sinks for {heads} heads, expected one per head.")


def _refuse_mask(layer: Attention, session: Session, keywords: Mapping[str, Any]) -> None:
    """Refuse a layer whose mask may differ from what the model means."""
    mask, (documents, positions) = layer.mask, layer.query.shape[::2]
    if not session.masks:
        layer.refuse(
            "requested no mask from transformers' mask interface, so the visible positions are"
            " unknown."
        )
    if layer.key.shape[2] != positions:
        layer.refuse(
            f"reads {layer.key.shape[2]} keys for {positions} queries, expected self-attention."
        )
    if (documents, positions) != session.tokens:
        layer.refuse(
            f"has queries of {documents} documents at {positions} positions, expected those of the"
            f" text, {session.tokens[0]} at {session.tokens[1]}."
        )
    if mask is None:
        causal, window = keywords.get("is_causal"), keywords.get("sliding_window")
        if not (getattr(layer.module, "is_causal", True) if causal is None else causal):
            refuse_ahead(layer.name)
        if session.padded or (window is not None and window < positions):
            layer.refuse("got no mask, but there is padding or a sliding window.")
        return
    if mask.dtype != torch.bool or mask.shape[1:] != (1, positions, positions):
        layer.refuse(
            f"its mask is {mask.dtype} of shape {tuple(mask.shape)}, expected torch.bool of shape"
            f" (document, 1, {positions}, {positions})."
        )
    if session.read and all(mask is not known for known in session.causal):
        if bool(shows_ahead(mask)):
            refuse_ahead(layer.name)
        session.causal.append(mask)
