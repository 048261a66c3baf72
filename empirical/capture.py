"""Drives a measurement: windows go through the tap, observers turn each layer into numbers, documents are appended to a store.

Only one layer's tensors live at a time, so memory does not grow with the number of layers. Observers are functions of one layer of one document; a user
adds a measurement by writing one. Imports torch through the tap, and the store.
"""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from empirical.corpus import Windows
from empirical.errors import InputError
from empirical.models import LoadedModel
from empirical.parity import parity
from empirical.provenance import differing, provenance
from empirical.schema import Coordinate
from empirical.selection import Convention
from empirical.store import GroupPlan, Store
from empirical.tap import TappedLayer, tap

PARITY_TOKENS = 1024
"""The parity check materialises eager weights, so it reads at most this many tokens of one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """The lengths of a run: what an observer needs to lay out its arrays."""

    layers: int
    heads: int
    kv_heads: int
    positions: int
    dimension: int
    n: np.ndarray
    convention: Convention
    seed: int
    visible: tuple[int, ...] = ()
    """Visible tokens T of each layer."""

    def coordinates(self, *names: str) -> dict[str, Coordinate]:
        """The axes that every group shares, those of them that `names` asks for, with the labels that hang on them."""
        counts = {"layer": self.layers, "head": self.heads, "kv_head": self.kv_heads, "position": self.positions}
        found = {name: Coordinate(dims=(name,), values=np.arange(counts[name]), long_name=name) for name in names if name in counts}
        if "n" in names:
            found["n"] = Coordinate(dims=("n",), values=np.asarray(self.n, dtype=np.int64), long_name="selected tokens N")
        if "layer" in names:
            tokens = np.asarray(self.visible, dtype=np.int64)
            found["tokens"] = Coordinate(dims=("layer",), values=tokens, long_name="visible tokens T", units="tokens")
            found["sink_visible"] = Coordinate(dims=("layer",), values=tokens == self.positions, long_name="position 0 is visible")
        if "head" in names:
            group = self.heads // self.kv_heads
            found["kv_head_of_head"] = Coordinate(dims=("head",), values=np.arange(self.heads) // group, long_name="kv_head of a head")
        return found

    def sizes(self) -> dict[str, int]:
        """Lengths of the shared dimensions."""
        return {"layer": self.layers, "head": self.heads, "kv_head": self.kv_heads, "position": self.positions, "n": len(self.n)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerView:
    """One layer of one document: its visible tokens, nothing else."""

    layer: int
    document: int
    seed: tuple[int, ...]
    alpha: torch.Tensor
    """(head, token) float32, attention row of the last query."""
    values: torch.Tensor
    """(kv_head, token, dimension) float32."""
    first: int
    """Position of the first visible token; 0 when the sink is visible."""
    shape: RunShape

    @property
    def sink(self) -> bool:
        """Whether the first token is the sink."""
        return self.first == 0


class Observer(Protocol):
    """A measurement of one layer: the group it fills, how that is laid out, and the function itself."""

    @property
    def group(self) -> str:
        """Name of the group."""

    def plan(self, shape: RunShape) -> GroupPlan:
        """Variables, coordinates and sizes of the group."""

    def __call__(self, view: LayerView) -> Mapping[str, np.ndarray]:
        """Named arrays, each with its variable's dimensions after `layer`; `position` may be shorter (the visible suffix), `lag` too (the first)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a capture is. `tokens` counts what was measured in this process, a layer as its share; layers count within the batch under way."""

    documents: int
    total: int
    layer: int
    layers: int
    tokens: float
    tokens_left: float
    seconds: float


@dataclass(slots=True)
class _Buffers:
    """The arrays of one document while it is measured, filled layer by layer."""

    plans: Mapping[str, GroupPlan]
    arrays: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, plan in self.plans.items():
            self.arrays[group] = {
                name: np.full(plan.shape(variable), variable.fill, dtype=variable.dtype) for name, variable in plan.variables.items()
            }

    def put(self, group: str, layer: int, measured: Mapping[str, np.ndarray]) -> None:
        """Place one layer's arrays: `position` right-aligned (the visible suffix), every other dimension left-aligned."""
        for name, value in measured.items():
            variable = self.plans[group].variables[name]
            if not variable.layered:
                np.copyto(self.arrays[group][name], value, where=~np.isnan(value))
                continue
            target = self.arrays[group][name][layer]
            where = tuple(
                slice(full - part, full) if dim == "position" else slice(0, part)
                for dim, full, part in zip(variable.dims[1:], target.shape, value.shape, strict=True)
            )
            if name == "attention_weight":
                target[...] = 0.0
            target[where] = value


def capture(
    model: LoadedModel,
    windows: Windows,
    path: Path,
    *,
    observers: Sequence[Observer],
    n: np.ndarray,
    convention: Convention = Convention.PAPER,
    seed: int = 0,
    batch: int = 1,
    settings: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Store:
    """Measure every window with every observer and append it to the store at `path`, going on where an equal run stopped.

    Args:
        model: what `empirical.models.load` returned.
        windows: token windows of equal length, shape (document, position).
        path: where the Zarr store lies or will lie.
        observers: one per group of the store.
        n: sizes N of the selected set, ascending, at most the number of positions.
        convention: how ties and balls are counted (recorded).
        seed: seed of the null baselines (recorded).
        batch: windows per forward pass (recorded: it can move the last bits).
        settings: further provenance that makes two runs equal or not.
        on_progress: called after each layer and document.

    Returns:
        The store, complete, opened.

    Raises:
        InputError: if a store of other settings stands at `path`, a captured row holds NaN or infinity, or the disk is full.
        StoreError: if the store at `path` is damaged.
        KeyboardInterrupt: passed on after the documents that were complete are safe.
    """
    recorded = provenance(model, windows, n=n, convention=convention, seed=seed, batch=batch, settings=settings or {})
    with _alone(path):
        return _complete(
            model, windows, path, observers, recorded, RunPlan(n=n, convention=convention, seed=seed, batch=batch), on_progress
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """How a capture was asked to measure."""

    n: np.ndarray
    convention: Convention
    seed: int
    batch: int


def _complete(
    model: LoadedModel,
    windows: Windows,
    path: Path,
    observers: Sequence[Observer],
    recorded: Mapping[str, Any],
    plan: RunPlan,
    on_progress: Callable[[Progress], None] | None,
) -> Store:
    """Check what stands at `path` and the tap itself, then measure what is missing."""
    store = Store.open(path) if path.exists() else None
    if store is not None:
        _refuse_other(store, recorded, windows)
        store.verify()
        store.extend(len(windows.names))
    checked = None
    if store is None or "parity" not in store.attributes:
        ids = torch.as_tensor(windows.token_ids[:1, :PARITY_TOKENS].astype(np.int64), device=model.model.device)
        checked = parity(model.model, ids)
        checked.judge(model.dtype)
    run = _Run(model=model, windows=windows, path=path, observers=observers, recorded=recorded, batch=plan.batch, on_progress=on_progress)
    run.shape = RunShape(
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        positions=windows.token_ids.shape[1],
        dimension=model.dimension,
        n=np.asarray(plan.n, dtype=np.int64),
        convention=plan.convention,
        seed=plan.seed,
    )
    run.store = store
    run.measure()
    assert run.store is not None
    if checked is not None:
        run.store.note(parity=dataclasses.asdict(checked))
    if run.store.attributes.get("skipped") != windows.skipped:
        run.store.note(skipped=windows.skipped)
    return run.store


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the store for this process; the lock goes with the process, however that ends. Without file locks (Windows) nothing is held."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with open(lock, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{path}: another capture is writing there. Wait for it, or choose another --out.") from error
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            if made:
                with suppress(OSError):  # a run that was refused leaves no empty folder
                    path.parent.rmdir()


def _refuse_other(store: Store, recorded: Mapping[str, Any], windows: Windows) -> None:
    """Refuse to mix two runs in one store."""
    unlike = differing(store.attributes, recorded)
    if unlike:
        name, old, new = unlike[0]
        raise InputError(
            f"{store.path}: was measured with {name} = {old}, this run has {new}. Use --fresh to measure again, or another --out."
        )
    if len(store.documents) > len(windows.names):
        raise InputError(
            f"{store.path}: holds {len(store.documents)} documents, this run asks for {len(windows.names)}. "
            f"Use --documents {len(store.documents)} or more, --fresh, or another --out."
        )
    for row, name, digest in zip(store.documents, windows.names, windows.sha256, strict=False):
        if row["sha256"] != digest:
            raise InputError(
                f"{store.path}: holds document {row['name']!r} where this run reads {name!r} with other tokens. Use --fresh, or another --out."
            )


@dataclass(slots=True, kw_only=True)
class _Run:
    """The state of one capture: which documents are done, the one being measured, and the one being written behind it."""

    model: LoadedModel
    windows: Windows
    path: Path
    observers: Sequence[Observer]
    recorded: Mapping[str, Any]
    batch: int
    on_progress: Callable[[Progress], None] | None
    store: Store | None = None
    shape: RunShape = field(init=False)
    started: float = field(default_factory=time.perf_counter)
    tokens: int = 0
    pending: Future[None] | None = None

    def measure(self) -> None:
        """Measure what is missing; a document is written while the next one is measured."""
        total = len(self.windows.names)
        done = len(self.store.documents) if self.store else 0
        self._report(done, 0)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="geostat-store") as writer:
            try:
                for start in range(done, total, self.batch):
                    documents = range(start, min(start + self.batch, total))
                    buffers = self._measure_batch(documents)
                    self._settle()
                    self.pending = writer.submit(self._append, documents, buffers)
                    self._report(documents.stop, 0)
            except KeyboardInterrupt as error:
                self._settle()
                kept = len(self.store.documents) if self.store else 0
                raise KeyboardInterrupt(
                    f"interrupted: {kept} of {total} documents are kept in {self.path}. Run the same command again with --resume to go on."
                ) from error
            finally:
                self._settle()

    def _settle(self) -> None:
        """Wait for the document that is being written, and pass on what went wrong with it."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def _append(self, documents: range, buffers: Sequence[_Buffers]) -> None:
        if self.store is None:
            plans = {observer.group: observer.plan(self.shape) for observer in self.observers}
            self.store = Store.create(self.path, provenance=self.recorded, plan=plans, documents=len(self.windows.names))
        for document, buffer in zip(documents, buffers, strict=True):
            self.store.append(self.windows.row(document), buffer.arrays)

    def _measure_batch(self, documents: range) -> list[_Buffers]:
        ids = self.windows.token_ids[documents.start : documents.stop]
        buffers: list[_Buffers] = []
        visible: list[int] = []

        def on_layer(tapped: TappedLayer) -> None:
            first = int(tapped.visible[0].to(torch.int8).argmax())
            visible.append(self.shape.positions - first)
            for slot, document in enumerate(documents):
                view = self._view(tapped, slot, document, first)
                _refuse_non_finite(view, self.windows.names[document])
                if len(buffers) <= slot:
                    buffers.append(_Buffers({observer.group: observer.plan(self.shape) for observer in self.observers}))
                for observer in self.observers:
                    buffers[slot].put(observer.group, view.layer, observer(view))
            self._report(documents.start, tapped.index + 1)

        tap(self.model.model, torch.as_tensor(ids.astype(np.int64), device=self.model.model.device), on_layer)
        self.shape = dataclasses.replace(self.shape, visible=tuple(visible))
        for slot in range(len(documents)):
            for arrays in buffers[slot].arrays.values():
                if "token_id" in arrays:
                    arrays["token_id"][...] = ids[slot]
        self.tokens += ids.size
        return buffers

    def _view(self, tapped: TappedLayer, slot: int, document: int, first: int) -> LayerView:
        return LayerView(
            layer=tapped.index,
            document=document,
            seed=(self.shape.seed, int(self.windows.sha256[document][:8], 16), tapped.index),
            alpha=tapped.weights[slot, :, first:].float().cpu(),
            values=tapped.values[slot, :, first:].float().cpu(),
            first=first,
            shape=self.shape,
        )

    def _report(self, documents: int, layer: int) -> None:
        if self.on_progress is None:
            return
        total, positions = self.windows.token_ids.shape
        part = min(self.batch, total - documents) * positions * layer / self.model.layers
        self.on_progress(
            Progress(
                documents=documents,
                total=total,
                layer=layer,
                layers=self.model.layers,
                tokens=self.tokens + part,
                tokens_left=(total - documents) * positions - part,
                seconds=time.perf_counter() - self.started,
            )
        )


def _refuse_non_finite(view: LayerView, name: str) -> None:
    """Refuse NaN or infinity in what was captured, naming document, layer and head."""
    for what, tensor in (("head", view.alpha), ("kv_head", view.values)):
        rows = tensor.numpy().reshape(len(tensor), -1)
        finite = np.isfinite(rows.min(axis=1)) & np.isfinite(rows.max(axis=1))
        if not finite.all():
            head = int(np.flatnonzero(~finite)[0])
            raise InputError(
                f"document {name!r}, layer {view.layer}, {what} {head}: NaN or infinity in the captured row. "
                "Try --dtype float32; if it stays, the model's weights are damaged."
            )


def machine() -> dict[str, Any]:
    """What may differ between equal runs: host, processor, threads. Goes to run.json beside the store."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
    }
