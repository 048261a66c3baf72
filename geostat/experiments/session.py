"""Sessions of an experiment: capture, model, stored losses, interruption. Imports torch."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from empirical.errors import StoreError
from empirical.intervention.cut import Cut, intervened, intervened_after
from empirical.intervention.loss import next_token_losses, refuse_headless, refuse_other_logits
from empirical.intervention.rules import Rule
from empirical.sources.given import HeldModel
from empirical.sources.models import LoadedModel
from empirical.sources.texts import Corpus
from empirical.store import bundle, disk
from empirical.store.bundle import clear_away
from empirical.store.disk import sidecar_path
from empirical.store.journal import chained
from empirical.store.store import Store
from empirical.tap.decoder import decoder_of, layers_of
from empirical.tap.resumed import Below, Whole, below, reads_on, resumes, whole
from geostat.analyses.effective_size import PLAIN, Cell
from geostat.errors import InputError
from geostat.experiments.options import InterventionOptions, Scope
from geostat.runs import pipeline
from geostat.runs.console import QUIET, Console
from geostat.runs.files import timed
from geostat.runs.groups import ASSUMPTIONS
from geostat.runs.measurement import find_model, measure, refuse_text_as_model
from geostat.runs.options import MeasurementOptions

FloatArray = NDArray[np.float64]

FILE_BYTES: Final = 1 << 30
"""Maximum size of the file in bytes; a loss takes about 20."""
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


@dataclass(slots=True)
class Evaluations:
    """Losses by intervention, (document,), and mean sizes of sets selected by rules, in a file.

    Losses without intervention have the key `effective_size.PLAIN`.
    """

    path: Path
    of: Mapping[str, Any]
    """Identity of the measurement; a file with another identity is replaced."""
    losses: dict[Cell, FloatArray] = field(default_factory=dict)
    sizes: dict[Cell, FloatArray] = field(default_factory=dict)
    _begun: bool = False
    _chain: str = ""
    """Digest of the last line."""

    def read(self) -> None:
        """Read the losses of an interrupted command, up to the first damaged line."""
        try:
            content = bundle.content(self.path.parent, self.path.name, limit=FILE_BYTES)
        except (FileNotFoundError, StoreError):  # none, a link, or a file that no command wrote
            return
        rows = map(self._parsed, content.splitlines(True))
        if next(rows, None) != json.loads(json.dumps({"of": self.of})):
            return
        self._begun = True
        if not all(row is not None and self._add_row(row) for row in rows):
            self._rewrite()

    def add(self, cell: Cell, losses: FloatArray, sizes: FloatArray | None = None) -> None:
        """Store the losses of one intervention; they are on disk when this returns."""
        self._set(cell, losses, sizes)
        if not self._begun:
            self._rewrite()
            return
        with disk.writing(self.path), open(os.open(self.path, _APPEND), "ab") as file:
            file.write(self._line(self._row(cell)))
            file.flush()
            os.fsync(file.fileno())

    def forget(self) -> None:
        """Remove the file, after its losses are stored in the run."""
        self.path.unlink(missing_ok=True)
        self._begun = False

    def _set(self, cell: Cell, losses: FloatArray, sizes: Any) -> None:
        if not np.isfinite(losses).all():
            raise ValueError(f"{cell}: losses are not finite")
        self.losses[cell] = np.asarray(losses, dtype=np.float64)
        if sizes is not None:
            self.sizes[cell] = np.asarray(sizes, dtype=np.float64)

    def _add_row(self, row: Mapping[str, Any]) -> bool:
        """Add a row of the file; return whether it is valid."""
        with suppress(KeyError, TypeError, ValueError):
            cell, losses = Cell(*row["cell"]), np.array(row["losses"], np.float64)
            sizes = row.get("sizes")
            valid = losses.ndim == 1 and (sizes is None or np.shape(sizes) == losses.shape)
            if valid and all(isinstance(name, str) for name in cell[:3]) and type(cell.n) is int:
                self._set(cell, losses, sizes)
                return True
        return False

    def _row(self, cell: Cell) -> dict[str, Any]:
        row: dict[str, Any] = {"cell": list(cell), "losses": self.losses[cell].tolist()}
        if cell in self.sizes:
            row["sizes"] = self.sizes[cell].tolist()
        return row

    def _line(self, row: Mapping[str, Any]) -> bytes:
        """Return the line of a row, chained to the digest of the previous line."""
        start, end, self._chain = chained(json.dumps(row), self._chain)
        return f"{start}{end}\n".encode()

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        """Return the row of the next line; None if the line or its chain is invalid."""
        with suppress(ValueError):
            row = bundle.parsed(line)
            if isinstance(row, dict) and row.pop("chain", None) and self._line(row) == line:
                return row
        return None

    def _rewrite(self) -> None:
        self._chain = ""
        with disk.writing(self.path):
            rows = [{"of": self.of}, *map(self._row, self.losses)]
            disk.replace(self.path, b"".join(map(self._line, rows)))
        self._begun = True


Order = Callable[[int], Rule]
"""Rule by document index; random rules differ between documents."""
Cuts = Callable[[int], Cut | None]
"""Cut by layer; None for layers without intervention."""


def no_cut(layer: int) -> None:
    """Return no cut for any layer."""


KEPT_DOCUMENTS: Final = 64
"""Documents whose output of the lower layers is cached between interventions."""
KEPT_BYTES: Final = 2**31
"""Maximum size of cached forward passes, bytes."""
SAME: Final = {"float32": 1e-4}
SAME_OTHERWISE: Final = 0.01
"""Relative tolerance of a document's loss between machines, by dtype of the model."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A forward pass over a document without intervention."""

    whole: Whole
    losses: torch.Tensor
    """Loss of each target, (1, target), nats."""


@dataclass(slots=True)
class Losses:
    """Mean next-token losses of documents under interventions, each measured once.

    Outputs of the layers below an intervention are cached; measure interventions by ascending
    lowest layer. With N selected tokens the first N queries see at most N tokens, so they equal
    those without intervention and are not run again.
    """

    model: Any
    token_ids: np.ndarray
    targets: int | None
    known: Evaluations
    console: Console
    dtype: str = "float32"
    """Data type of the model."""
    plain_cell: Cell = PLAIN
    """Key of the losses without intervention."""
    _resumes: bool | None = None
    _starts: dict[int, Below] = field(default_factory=dict)
    _reads_on: bool | None = None
    _plain: dict[int, Plain] = field(default_factory=dict)
    _confirmed: set[int] = field(default_factory=set)
    """Documents whose stored loss without intervention is that of this model."""

    def plain(self) -> None:
        """Measure the losses without intervention.

        If they are stored, each document is measured again for comparison: the first at once, the
        others before their first intervention.

        Raises:
            InputError: if a stored loss differs from that of the model, or the logits of the model
                are not those of its head.
        """
        refuse_other_logits(self.model, torch.as_tensor(self.token_ids[:1], dtype=torch.long))
        if self.plain_cell not in self.known.losses:
            self._confirmed.update(range(len(self.token_ids)))
        self.of(self.plain_cell, lambda document: no_cut)
        before = self.known.losses[self.plain_cell]
        self._confirm(0)
        if not before.all():
            raise InputError(
                f"document {int(before.argmin())}: the model's next-token loss is 0, expected a"
                " positive loss, because rises are relative. Leave the document out."
            )

    def _confirm(self, place: int) -> None:
        """Refuse a model whose loss of a document differs from the stored one."""
        before = self.known.losses.get(self.plain_cell)
        if before is None or place in self._confirmed:
            return
        self._confirmed.add(place)
        loss = self._loss(place, no_cut, 0)
        within = SAME.get(self.dtype, SAME_OTHERWISE)
        if not math.isclose(loss, before[place], rel_tol=within):
            raise InputError(
                f"model: its next-token loss of document {place} is {loss:.6g}, but the stored loss"
                f" is {before[place]:.6g}, as of another head. Use --fresh to measure again, or"
                " another --out."
            )

    def at(self, cell: Cell, scope: Scope, orders: Sequence[Order]) -> None:
        """Measure the losses of an intervention, averaged over `orders`, unless they are stored;
        for a set rule also each document's mean number of selected tokens.
        """
        if cell in self.known.losses:
            return
        losses = np.empty((len(orders), len(self.token_ids)))
        sizes = np.empty_like(losses)
        for place in np.ndindex(losses.shape):
            counts: list[torch.Tensor] = []
            cuts = _by_layer(cell, scope, orders[place[0]](place[1]), counts)
            losses[place] = self._loss(place[1], cuts, min(scope.heads), cell.n)
            sizes[place] = float(torch.cat(counts).double().mean()) if counts else np.nan
        self.known.add(cell, losses.mean(axis=0), None if cell.n else sizes[0])

    def of(self, cell: Cell, cuts: Callable[[int], Cuts], first: int = 0) -> None:
        """Measure the losses of an intervention that depends on the document, unless they are
        stored; layers below `first` have no intervention.
        """
        if cell not in self.known.losses:
            documents = range(len(self.token_ids))
            losses = [self._loss(document, cuts(document), first) for document in documents]
            self.known.add(cell, np.array(losses))

    def _loss(self, place: int, cut_of: Cuts, first: int, same: int = 0) -> float:
        """Return the mean loss of one document, nats; its first `same` queries have no
        intervention.
        """
        self._confirm(place)
        ids = torch.as_tensor(self.token_ids[place][None], dtype=torch.long)
        plain = self._passed(place, ids) if same else None
        start = self._start(place, ids, first)
        if plain is None:
            hidden = intervened(self.model, ids, cut_of, start=start)
            losses = next_token_losses(self.model, hidden, ids, self.targets)
        else:
            losses = plain.losses.clone()
            count = min(losses.shape[1], ids.shape[1] - 1 - same)
            if count > 0:
                hidden = intervened_after(self.model, ids, cut_of, plain.whole, same, start)
                losses[:, -count:] = next_token_losses(self.model, hidden, ids[:, same:], count)
        loss = float(losses.cpu().double().mean())
        if not math.isfinite(loss):
            raise InputError(
                f"document {place}: the next-token loss is {loss}, expected a finite number. Try"
                " --dtype float32; if that does not help, the model's last layer, its head or a"
                " change of its logits returns NaN or infinity."
            )
        return loss

    def _passed(self, place: int, ids: torch.Tensor) -> Plain | None:
        """Return the cached forward pass over a document without intervention; None if the cache
        is full, or if the model cannot resume from a cached pass.
        """
        if place in self._plain or self._reads_on is False:
            return self._plain.get(place)
        decoder = decoder_of(self.model)
        passed = whole(decoder, ids)
        if self._reads_on is None:
            start = self._start(place, ids, len(layers_of(decoder)) - 1)
            self._reads_on = reads_on(decoder, ids, passed, start)
            if not self._reads_on:
                return None
        if sum(plain.whole.size for plain in self._plain.values()) + passed.size > KEPT_BYTES:
            self._reads_on = False
            return None
        losses = next_token_losses(self.model, passed.hidden, ids, self.targets)
        self._plain[place] = Plain(passed, losses)
        return self._plain[place]

    def _start(self, place: int, ids: torch.Tensor, first: int) -> Below | None:
        """Return the output of the layers below `first`; None if these layers must run again."""
        if first == 0:
            return None
        decoder = decoder_of(self.model)
        if self._resumes is None:
            self._resumes = resumes(decoder, ids, None)
        if not self._resumes:
            return None
        start = self._starts.pop(place, None)
        if start is None or start.layer != first:
            start = below(decoder, ids, None, first, start)
        if len(self._starts) < KEPT_DOCUMENTS:
            self._starts[place] = start
        return start


def _by_layer(cell: Cell, scope: Scope, rule: Rule, counts: list[torch.Tensor]) -> Cuts:
    """Return the cut by layer; set rules append the number of selected tokens to `counts`."""

    def cut(layer: int) -> Cut | None:
        if layer not in scope.heads:
            return None
        heads = scope.heads[layer]

        def on_sizes(sizes: torch.Tensor) -> None:
            counts.append((sizes if heads is None else sizes[:, list(heads)]).flatten().cpu())

        mode: Any = cell.mode
        noted = None if cell.n else on_sizes
        return Cut(rule=rule, mode=mode, n=cell.n or None, heads=heads, on_sizes=noted)

    return cut


Read = Callable[[xr.Dataset], tuple[Mapping[Cell, FloatArray], Mapping[Cell, FloatArray]]]
"""Function from a group of the run to its losses by intervention and its sizes of sets."""
Refuse = Callable[[int, int], object]
"""Function of layers and heads that refuses a misfit of options and model."""


def confronted(store: Store, console: Console) -> None:
    """Fit and confront a run, unless it has these results."""
    if set(ASSUMPTIONS) - set(store.results):
        pipeline.fit(store, console=console)
    if not {"heads", "envelope"} <= set(store.results):
        pipeline.confront(store, swap=False, console=console)


@contextmanager
def model_of_run(
    options: MeasurementOptions,
    group: str,
    model: HeldModel | None,
    documents: Corpus | None,
    *,
    refuse: Refuse = lambda layers, heads: None,
    prepare: Callable[[Store, Console], object] | None = None,
    console: Console = QUIET,
) -> Iterator[tuple[Store, LoadedModel]]:
    """Capture the run of `options`, unless it exists, `prepare` it, and yield its locked store and
    its model; the time of the block is that of the stage `group`.

    Raises:
        InputError, StoreError: as of `measure`; InputError as of `refuse`.
    """
    if model is None:
        refuse_text_as_model(options)
    source = model or find_model(options)
    if source.heads is not None:
        refuse(*source.heads)  # before anything is measured
    store = measure(options, model, documents, console=console)
    if options.fresh:
        for file in store.path.parent.glob(f"{escape(sidecar_path(store.path, group).name)}-*"):
            clear_away(file)
    if prepare is not None:
        prepare(store, console)
    with store.alone(), timed(store.path, group), source.loaded() as loaded:
        refuse(loaded.layers, loaded.heads)
        yield store, loaded


@contextmanager
def session(
    options: InterventionOptions,
    group: str,
    model: HeldModel | None = None,
    documents: Corpus | None = None,
    *,
    noun: str,
    read: Read,
    console: Console = QUIET,
    **run: Any,
) -> Iterator[tuple[Store, Losses]]:
    """Yield the locked store of a run and the losses of its model.

    Losses of earlier commands, in the run or in the file of an interrupted command, are reused. The
    file is removed after the block, which stores its results in the run.

    Args:
        options, model, documents, console: as of `model_of_run`.
        noun: plural name of the results in messages.
        read: reads the losses of the group.
        run: `refuse` and `prepare` of `model_of_run`.

    Raises:
        InputError: as of `model_of_run`; if the model has no head that predicts tokens.
        StoreError: as of `model_of_run`.
        KeyboardInterrupt: re-raised; the same command resumes.
    """
    if model is not None:
        refuse_headless(model.whole)
    with model_of_run(options, group, model, documents, console=console, **run) as (store, loaded):
        known = _known(store, group, noun, options, read)
        token_ids = store.read("capture")["token_id"].values
        with_head = loaded.model if model is None else model.whole
        losses = Losses(with_head, token_ids, options.targets, known, console, loaded.dtype)
        try:
            losses.plain()
            yield store, losses
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"interrupted: losses measured so far ({len(known.losses)}) are kept. Run the same"
                " command again to resume."
            ) from error
        known.forget()


def _known(
    store: Store, group: str, noun: str, options: InterventionOptions, read: Read
) -> Evaluations:
    """Return the losses measured before, from the run and from the file beside it."""
    identity = {
        "run": store.attributes["manifest"].get("run", ""),
        "model": store.attributes["model"],
        "documents": [row.get("sha256") or row["digest"] for row in store.documents],
        "targets": options.predicted,
        "seed": store.attributes["seed"],
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    known = Evaluations(sidecar_path(store.path, f"{group}-{digest}"), identity)
    if group in store.results:
        data = store.read(group)
        if data.attrs["targets"] != options.predicted:
            raise InputError(
                f"{store.path}: its {noun} are of --target {data.attrs['target']}, expected"
                f" {options.target}. Use another --out, or --fresh."
            )
        losses, sizes = read(data)
        known.losses |= {cell: row for cell, row in losses.items() if np.isfinite(row).all()}
        known.sizes |= sizes
    known.read()
    return known
