"""Losses of a model's documents under interventions, each measured once. Imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import torch

from empirical.intervention.cut import Cut, intervened, intervened_after
from empirical.intervention.loss import next_token_losses, refuse_other_logits
from empirical.intervention.rules import Rule
from empirical.tap.decoder import decoder_of, layers_of
from empirical.tap.from_layer import Below, below, resumes
from empirical.tap.from_position import Whole, reads_on, whole
from geostat.errors import InputError
from geostat.experiments.effective_size import PLAIN, Cell
from geostat.runs.console import Console
from geostat.runs.effective.asked import Scope
from geostat.runs.effective.evaluations import Evaluations, FloatArray

Order = Callable[[int], Rule]
"""The rule of a document, by its number: a random one differs between documents."""
Cuts = Callable[[int], Cut | None]
"""The cut of each layer, None where it stays as it is."""
KEPT: Final = 64
"""Documents of which what the lower layers return is kept from one intervention to the next."""
KEPT_BYTES: Final = 2**31
"""Of the passes that are kept of documents, so that first queries are not run again."""
SAME: Final = {"float32": 1e-4}
SAME_OTHERWISE: Final = 0.01
"""Share by which the loss of one document may differ between machines, by type of the model."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The model's own pass over a document."""

    whole: Whole
    losses: torch.Tensor
    """Of each target, (1, target), in nats."""


@dataclass(slots=True)
class Losses:
    """Mean next-token losses of a model's documents under interventions, each measured once.

    Layers below the first that is intervened on are run once for all interventions that begin at
    that layer, so those are best asked for one after the other, from the bottom. Of N tokens kept,
    the first N queries are not run again: they see no more, so they are the model's own.
    """

    model: Any
    token_ids: np.ndarray
    targets: int | None
    known: Evaluations
    console: Console
    dtype: str = "float32"
    """Of the model."""
    own: Cell = PLAIN
    """What the loss of these windows with nothing cut stands under."""
    _resumes: bool | None = None
    _starts: dict[int, Below] = field(default_factory=dict)
    _reads_on: bool | None = None
    _plain: dict[int, Plain] = field(default_factory=dict)
    _confirmed: set[int] = field(default_factory=set)
    """Documents whose plain loss is that of this model."""

    def plain(self) -> None:
        """Measure the losses of the model as it is. Where they are known, the first document is
        measured again to compare, and every other before its first intervention.

        Raises:
            InputError: a model of this type has another loss than stands there, or its own forward
                gives other logits than its head.
        """
        refuse_other_logits(self.model, torch.as_tensor(self.token_ids[:1], dtype=torch.long))
        if self.own not in self.known.losses:
            self._confirmed.update(range(len(self.token_ids)))
        self.at(self.own, None)
        before = self.known.losses[self.own]
        self._confirm(0)
        if not before.all():
            raise InputError(
                f"document {int(before.argmin())}: the model's next-token loss is 0, expected one"
                " of which shares can be taken. Leave the document out."
            )

    def _confirm(self, place: int) -> None:
        """Refuse a model that has another loss of a document than stands there."""
        before = self.known.losses.get(self.own)
        if before is None or place in self._confirmed:
            return
        self._confirmed.add(place)
        loss = self._loss(place, lambda layer: None, 0)
        within = SAME.get(self.dtype, SAME_OTHERWISE)
        if not math.isclose(loss, before[place], rel_tol=within):
            raise InputError(
                f"model: its next-token loss of document {place} is {loss:.6g}, but losses that"
                f" stand there are of one with {before[place]:.6g}, as of another head. Use --fresh"
                " to measure again, or another --out."
            )

    def at(self, cell: Cell, scope: Scope | None, orders: Sequence[Order] | None = None) -> None:
        """Measure the losses of an intervention, the mean over `orders`, unless they are known."""
        if cell in self.known.losses:
            return
        every: list[Order | None] = [None] if orders is None else list(orders)
        found = [self._documents(cell, scope, order) for order in every]
        losses = np.mean([loss for loss, _ in found], axis=0)
        sizes = found[0][1] if cell.n == 0 and scope is not None else None
        self.known.add(cell, losses, sizes)

    def of(self, cell: Cell, cuts: Callable[[int], Cuts], first: int = 0) -> None:
        """Measure the losses of an intervention that is told by document, unless they are known;
        no layer below `first` is cut.
        """
        if cell not in self.known.losses:
            every = range(len(self.token_ids))
            self.known.add(cell, np.array([self._loss(at, cuts(at), first) for at in every]))

    def _documents(
        self, cell: Cell, scope: Scope | None, order: Order | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return each document's loss under an intervention, and the mean number of tokens kept."""
        losses, sizes = [], []
        for place in range(len(self.token_ids)):
            cut = None if order is None else _cut(cell, order(place))
            kept: list[torch.Tensor] = []
            first = 0 if scope is None else min(scope.heads)
            losses.append(self._loss(place, _by_layer(cut, scope, kept), first, cell.n))
            sizes.append(float(torch.cat(kept).double().mean()) if kept else np.nan)
        return np.array(losses), np.array(sizes)

    def _loss(self, place: int, cut_of: Cuts, first: int, same: int = 0) -> float:
        """Return the mean loss of one document, in nats; its first `same` queries are the model's
        own.
        """
        self._confirm(place)
        ids = torch.as_tensor(self.token_ids[place][None], dtype=torch.long)
        plain = self._passed(place, ids) if same else None
        start = self._start(place, ids, first)
        if plain is None:
            hidden = intervened(self.model, ids, cut_of, start=start)
            each = next_token_losses(self.model, hidden, ids, self.targets)
        else:
            each = plain.losses.clone()
            count = min(each.shape[1], ids.shape[1] - 1 - same)
            if count > 0:
                hidden = intervened_after(self.model, ids, cut_of, plain.whole, same, start)
                each[:, -count:] = next_token_losses(self.model, hidden, ids[:, same:], count)
        loss = float(each.cpu().double().mean())
        if not math.isfinite(loss):
            raise InputError(
                f"document {place}: the next-token loss is {loss}, expected a number. Try --dtype"
                " float32; if it stays, the model's last layer or head, or something that changes"
                " its logits, returns NaN or infinity."
            )
        return loss

    def _passed(self, place: int, ids: torch.Tensor) -> Plain | None:
        """Return the model's own pass over a document, None where the first queries are to be run:
        there is no room to keep it, or this model does not read on from it.
        """
        if place in self._plain or self._reads_on is False:
            return self._plain.get(place)
        decoder = decoder_of(self.model)
        found = whole(decoder, ids)
        if self._reads_on is None:
            start = self._start(place, ids, len(layers_of(decoder)) - 1)
            self._reads_on = reads_on(decoder, ids, found, start)
            if not self._reads_on:
                return None
        if sum(one.whole.size for one in self._plain.values()) + found.size > KEPT_BYTES:
            self._reads_on = False
            return None
        losses = next_token_losses(self.model, found.hidden, ids, self.targets)
        self._plain[place] = Plain(found, losses)
        return self._plain[place]

    def _start(self, place: int, ids: torch.Tensor, first: int) -> Below | None:
        """Return what the layers below `first` return for a document; None: they are to be run."""
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
        if len(self._starts) < KEPT:
            self._starts[place] = start
        return start


def _cut(cell: Cell, rule: Rule) -> Cut:
    return Cut(rule=rule, mode=cell.mode, n=cell.n or None)  # type: ignore[arg-type]


def _by_layer(cut: Cut | None, scope: Scope | None, kept: list[torch.Tensor]) -> Cuts:
    """Return the cut of each layer, which notes how many tokens a set rule keeps."""
    if cut is None or scope is None:
        return lambda layer: None

    def note(own: Any) -> Any:
        def on_sizes(sizes: torch.Tensor) -> None:
            kept.append((sizes if own is None else sizes[:, list(own)]).flatten().cpu())

        return on_sizes

    return lambda layer: (
        replace(
            cut,
            heads=scope.heads[layer],
            on_sizes=note(scope.heads[layer]) if cut.n is None else None,
        )
        if layer in scope.heads
        else None
    )
