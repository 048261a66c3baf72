"""transformers' attention interface: a decoder runs as it is, and each layer's attention is what a
function of its queries, keys and values returns.

AttentionInterface calls `_attend` in each attention layer; the mask function stands in
AttentionMaskInterface under the same name, for a name that is not there gives a model no mask at
all, without a word. Imports torch and transformers only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, Final
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

from empirical.errors import InputError
from empirical.tap.attention import Scoring, layer_output
from empirical.tap.decoder import layers_of
from empirical.tap.placed import brought_to, device_of
from empirical.tap.refusals import refuse_ahead, refuse_layer, refuse_mask, shows_ahead

NAME = "geostat_tap"
"""The name under which both the attention and the mask function are registered."""
QUOTED: Final = 200
"""Letters of a model's own error that a message holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The attention of one layer, in one forward."""

    index: int
    """Number of the layer, from 0."""
    module: torch.nn.Module
    query: Tensor
    """(document, head, position, dimension)."""
    key: Tensor
    """(document, kv_head, position, dimension); head h reads kv_head h // (heads // kv_heads)."""
    value: Tensor
    """(document, kv_head, position, dimension), which may differ from the key's."""
    mask: Tensor | None
    """(document, 1, query, position) bool, True where a query sees a position; None: causal."""
    scoring: Scoring

    @property
    def seen(self) -> str:
        """The layer in messages."""
        return layer_name(self.index, self.module)

    def output(self) -> Tensor:
        """Return the layer's own output, (document, position, head, dimension)."""
        return layer_output(self.module, self.query, self.key, self.value, self.mask, self.scoring)


def layer_name(index: int, module: torch.nn.Module) -> str:
    """Name a layer in messages."""
    return f"layer {index} of {type(module).__name__}"


Attend = Callable[[Attention], Tensor]
"""From a layer's attention to its output, (document, position, head, dimension)."""


@dataclass(slots=True)
class Session:
    """One forward through the interface."""

    attend: Attend
    decoder: PreTrainedModel
    tokens: tuple[int, int]
    """Documents and positions of the forward."""
    padded: bool
    """Whether some document is shorter than the window."""
    first: int = 0
    """Number of the layer at which the forward begins."""
    read: bool = True
    """Whether masks are looked at for what shows a query a later position."""
    called: dict[torch.nn.Module, None] = field(default_factory=dict)
    """The attention modules that called so far, in their order."""
    masks: int = 0
    """How often the model asked for a mask."""
    causal: list[Tensor] = field(default_factory=list)
    """Masks that were seen to show no query a later position."""
    raised: Exception | None = None
    """What `attend` raised, which is none of the model's own errors."""


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
    """Run a decoder once, with `attend` as the attention of every layer, in order.

    The attention implementation is put back afterwards, also when `attend` raises. mask: of
    padding, as `checked_mask` returns it. first: the layer at which the forward begins
    (`from_layer`). position: that of the first of the tokens (`from_position`). read: whether the
    masks are read here, for which their device is waited for; else `attend` refuses those that show
    a later position.

    Returns:
        The last hidden states, (document, position, hidden), in the model's type; those of padded
        positions mean nothing.

    Raises:
        InputError: as `tap.tap` tells.
    """
    documents, positions = input_ids.shape
    padded = mask is not None
    session = Session(
        attend, decoder, (documents, positions), padded=padded, first=first, read=read
    )
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
    calls = [any(module in session.called for module in one.modules()) for one in layers[first:]]
    if not session.called or not all(calls):
        raise InputError(
            f"{decoder.config.model_type}: {first + sum(calls)} of {len(layers)} layers call the"
            " attention interface of transformers, so the weights of the others are unknown. Use a"
            " model all of whose layers are attention, and whose family supports"
            " AttentionInterface."
        )
    return hidden


def forward(
    decoder: PreTrainedModel, input_ids: Tensor, mask: Tensor | None, position: int = 0
) -> Tensor:
    """Return the decoder's last hidden states of tokens that stand from `position` on, without a
    cache.
    """
    ids, more = input_ids.to(device_of(decoder)), {}
    if position:
        count = ids.shape[1]
        more["position_ids"] = torch.arange(position, position + count, device=ids.device)[None]
    with as_it_is(decoder):
        output = decoder(
            input_ids=ids, attention_mask=mask, use_cache=False, return_dict=True, **more
        )
        return output.last_hidden_state


@contextmanager
def as_it_is(model: torch.nn.Module) -> Iterator[None]:
    """Run a model in its own types, as it is written and without gradients, whatever autocast,
    precision of products or compilation of its caller.

    Raises:
        InputError: the model itself raises something, which is quoted; what `attend` raises is
            passed on.
    """
    devices = [weight.device for weight in model.parameters()] + [brought_to(model)]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in sorted({"cpu"} | {device.type for device in devices if device is not None}):
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(whole_products())
        if "torch._dynamo" in sys.modules:  # something was compiled
            stack.enter_context(_WRITTEN.asked())
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # whatever a model raises, the user reads one line
            session = _session.get(None)
            if session is not None and error is session.raised:
                raise
            name = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
            text = " ".join(str(error).split())[:QUOTED].rstrip(".")
            raise InputError(
                f"{name}: its own forward ended in {type(error).__name__}: {text}. Give the model"
                " what it asks for, or use another."
            ) from error


class _Shared:
    """A state of the process that holds while any thread asks for it."""

    def __init__(self, state: Callable[[], AbstractContextManager[Any]]) -> None:
        self.state, self.lock, self.asking = state, Lock(), 0
        self.held = ExitStack()

    @contextmanager
    def asked(self) -> Iterator[None]:
        with self.lock:
            if not self.asking:
                self.held.enter_context(self.state())
            self.asking += 1
        try:
            yield
        finally:
            with self.lock:
                self.asking -= 1
                if not self.asking:
                    self.held.close()


@contextmanager
def _whole_products() -> Iterator[None]:
    """Multiply matrices of float32 in float32, whichever coarser type a caller allows for them.

    PyTorch has two sets of switches for that, an older one and one for each backend, and refuses to
    tell the older where they contradict each other.
    """
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:  # the caller set the others
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
            backend.fp32_precision = "none"  # follows what is set for all backends
            if backend.fp32_precision != precision:
                backend.fp32_precision = precision


_WRITTEN: Final = _Shared(lambda: torch.compiler.set_stance("force_eager"))
_WHOLE: Final = _Shared(_whole_products)


def whole_products() -> AbstractContextManager[None]:
    """Have all threads multiply float32 in float32, until the last that asks for it is done."""
    return _WHOLE.asked()


@contextmanager
def returning(module: torch.nn.Module, output: Any) -> Iterator[None]:
    """Let a module return what it returned before, without its hooks, which have done their part
    of that; and put it back.
    """
    held = vars(module)
    before = {name: held.get(name) for name in ("_forward_hooks", "_forward_pre_hooks", "forward")}
    held.update(_forward_hooks={}, _forward_pre_hooks={}, forward=lambda *given, **more: output)
    try:
        yield
    finally:
        held.update(before)
        if before["forward"] is None:  # else as where layers are spread over devices
            del held["forward"]


@contextmanager
def implementation(decoder: PreTrainedModel, name: str) -> Iterator[None]:
    """Run the decoder's attention under `name`, and put back what stood there. Another thread with
    the same decoder waits until then.

    Each module asks its own configuration by name in every forward. `set_attn_implementation` would
    also ask whether the family may take PyTorch's kernel, and refuses those that need what the tap
    itself does beside that kernel.
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
    """Return the decoder's lock: what another thread does with it waits."""
    with _LOCKS_ALONE:
        return _LOCKS.setdefault(decoder, RLock())


_LOCKS: Final[WeakKeyDictionary[PreTrainedModel, Any]] = WeakKeyDictionary()
_LOCKS_ALONE: Final = Lock()


def _mask(*args: object, **keywords: object) -> Tensor | None:
    """Make the mask as the fused kernel takes it: bool, or None where it is plainly causal; and
    count the request.
    """
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
    """Return one layer's output as the interface wants it; keywords are those of
    `refusals.KEYWORDS`, each of which may be missing.
    """
    session = _session.get()
    index = session.first + len(session.called)
    seen = layer_name(index, module)
    refuse_layer(seen, value, session.decoder, keywords, again=module in session.called)
    window, sinks = keywords.get("sliding_window"), keywords.get("s_aux")
    flag = keywords.get("is_causal")
    refuse_mask(
        seen,
        query,
        key,
        attention_mask,
        asked=session.masks > 0,
        tokens=session.tokens,
        padded=session.padded,
        window=window,
        causal=bool(getattr(module, "is_causal", True) if flag is None else flag),
    )
    unread = all(attention_mask is not one for one in session.causal)
    if session.read and attention_mask is not None and unread:
        refuse_ahead(seen, bool(shows_ahead(attention_mask)))
        session.causal.append(attention_mask)
    if sinks is not None and sinks.numel() != query.shape[1]:
        raise InputError(
            f"{seen}: has {sinks.numel()} learned sinks for {query.shape[1]} heads, expected one a"
            " head. Use another model."
        )
    session.called[module] = None

    scaling = keywords.get("scaling")
    factor = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    attention = Attention(
        index=index,
        module=module,
        query=query,
        key=key,
        value=value,
        mask=attention_mask,
        scoring=Scoring(factor, keywords.get("softcap"), sinks),
    )
    try:
        return session.attend(attention), None
    except Exception as error:
        session.raised = error
        raise
