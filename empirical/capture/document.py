"""One document while it is measured: its layers go to the observers, its arrays into buffers.

A layer whose tensors are measured on the CPU is done when its call returns, but for observers that
ask for the thread beside: it goes on with them while the model does. A layer that is measured where
it lives leaves tensors there, which come to the host when the document is whole; an observer that
needs the CPU gets a copy in the thread beside. Which layer is measured how does not change what a
thread writes, so equal runs give equal numbers. Imports torch and this room's observers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Final

import numpy as np
import torch

from empirical.capture.layer_view import LayerView, refuse_unless, refuse_unsound, sound_rows
from empirical.capture.observers import Buffers, Observer
from empirical.capture.together import LAYERS, alike, together
from empirical.capture.waiting import Waiting
from empirical.store.layout import GroupPlan

AHEAD: Final = 2
"""Layers that may wait for the thread beside; more would fill the memory."""

CHECK: Final = ""
"""Stands for a group where what is kept is whether captured rows pass a check."""


class Document:
    """The buffers of one document, and what of it is still under way."""

    def __init__(
        self,
        name: str,
        observers: Sequence[Observer],
        plans: Mapping[str, GroupPlan],
        beside: Executor,
    ) -> None:
        self.name, self.observers, self.beside = name, observers, beside
        self.buffers = Buffers(plans)
        self.waiting: Waiting[tuple[str, int, str]] = Waiting()
        self.gathered: list[LayerView] = []
        self.pending: deque[Future[None]] = deque()

    def observe(self, view: LayerView) -> None:
        """Have a layer measured by every observer.

        Raises:
            InputError: if a captured row of a layer that was measured on the CPU holds NaN or
                infinity.
        """
        if not view.on_device:
            self._measure_on_host(view)
            return
        for what, rows in sound_rows(view).items():
            self.waiting.add((CHECK, view.layer, what), rows)
        if self.gathered and not alike(self.gathered[0], view):
            self._measure_gathered()
        self.gathered.append(view)
        if len(self.gathered) == LAYERS:
            self._measure_gathered()
        others = [one for one in self.observers if not hasattr(one, "on_device")]
        if others:
            copied = self.beside.submit(self._measure_copy, view, others, _now(view))
            self._await_but(copied)

    def whole(self) -> Buffers:
        """Wait for what is under way, bring the arrays to the host and return all of them.

        Raises:
            InputError: if a captured row holds NaN or infinity, or values that cannot be squared.
        """
        self._measure_gathered()
        while self.pending:
            self.pending.popleft().result()
        arrays = self.waiting.fetch()
        for (group, layer, what), array in arrays.items():
            if group == CHECK:
                refuse_unless(array, self.name, layer, what)
        for (group, layer, name), array in arrays.items():
            if group != CHECK:
                self.buffers.put(group, layer, {name: array})
        return self.buffers

    def _measure_on_host(self, view: LayerView) -> None:
        """Have a layer measured on the CPU; where the model has one core, all of it here."""
        refuse_unsound(view, self.name)
        cores = torch.get_num_threads()
        apart = [one for one in self.observers if cores > 1 and getattr(one, "beside", False)]
        later = self.beside.submit(self._measure, view, apart) if apart else None
        self._measure(view, [one for one in self.observers if one not in apart])
        if later is not None:
            self._await_but(later)

    def _await_but(self, latest: Future[None]) -> None:
        """Wait for layers in the thread beside until no more than `AHEAD` are under way."""
        self.pending.append(latest)
        while len(self.pending) > AHEAD:
            self.pending.popleft().result()

    def _measure_gathered(self) -> None:
        """Have the layers that are gathered measured where they live."""
        if not self.gathered:
            return
        layers = together(self.gathered)
        for observer in self.observers:
            if not hasattr(observer, "on_device"):
                continue
            for view, measured in zip(layers.views, observer.on_device(layers), strict=True):
                for name, one in measured.items():
                    if isinstance(one, np.ndarray):
                        self.buffers.put(observer.group, view.layer, {name: one})
                    else:
                        self.waiting.add((observer.group, view.layer, name), one)
        self.gathered = []

    def _measure_copy(
        self, view: LayerView, observers: Sequence[Observer], ready: torch.cuda.Event | None
    ) -> None:
        if ready is not None:
            ready.synchronize()
        copied = view.on_host()
        refuse_unsound(copied, self.name)
        self._measure(copied, observers)

    def _measure(self, view: LayerView, observers: Sequence[Observer]) -> None:
        for observer in observers:
            self.buffers.put(observer.group, view.layer, observer(view))


def _now(view: LayerView) -> torch.cuda.Event | None:
    """Mark what the device has been asked to do so far, on CUDA, where another thread would not
    wait for it.
    """
    if view.every.device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(view.every.device))
    return event
