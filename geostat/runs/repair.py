"""Repair of a run: damaged documents are measured again and damaged results computed again.

The repair uses the options of the commands that made the run. Only measuring imports torch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.store.disk import sidecar_path
from empirical.store.integrity import unlike
from empirical.store.journal import read_rows
from empirical.store.lock import alone
from empirical.store.manifest import FIT_AGAIN, FRESH, read_root
from empirical.store.remote import send_all_next
from empirical.store.repair import Measured, Repair
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
from geostat.datasets.separability import MEASURED
from geostat.errors import InputError
from geostat.options import Options, VerdictOptions
from geostat.runs import stages
from geostat.runs.console import QUIET, Console, compilation_reported
from geostat.runs.experiments import EXPERIMENTS
from geostat.runs.groups import CONFRONTED, FITTED, measured
from geostat.runs.options import (
    CaptureOptions,
    ConfrontOptions,
    IngestOptions,
    RunOptions,
)
from geostat.topics.claims import read_tolerances

if TYPE_CHECKING:
    from empirical.sources.windows import Windows


def repair(
    path: Path, *, capture: Options | None, confront: Options | None, console: Console = QUIET
) -> list[str]:
    """Restore every damaged file of a run, bit for bit.

    Args:
        path: the store.
        capture, confront: options of the commands that made these stages; None if unknown.

    Returns:
        A line for each repair.

    Raises:
        InputError: if there is no run, another process writes to it, its text or model is missing,
            or the disk refuses.
        StoreError: if the run cannot be repaired.
        KeyboardInterrupt: passed on; the next repair resumes.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    read_root(path)
    with alone(path), ExitStack() as sources:
        remeasured = Remeasured(path, capture, console, sources)
        try:
            done = Repair(path, remeasured).captured()
            with compilation_reported(console):
                done += _results(path, confront, console)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"interrupted: nothing of {path} is lost. Run the same command again to resume."
            ) from error
        except StoreError:
            remeasured.forget()
            raise
        remeasured.forget()
        send_all_next(path)  # damage at the URL is not visible in the working copy
    return done


@dataclass
class Remeasured:
    """Documents of a run, measured again with the options of its capture."""

    path: Path
    capture: Options | None
    console: Console
    sources: ExitStack
    _last: Measured | None = None

    @property
    def _scratch(self) -> Path:
        return sidecar_path(self.path, "repair")

    def forget(self) -> None:
        """Remove the scratch store."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return the row of every document."""
        _, windows, _ = self._read
        documents = range(len(windows.names))
        if self._in_order:  # digests of tensors are known after reading
            return list(self.measured(documents).rows)
        return [windows.row(document) for document in documents]

    def measured(self, documents: Sequence[int]) -> Measured:
        """Measure documents and their batches into a scratch store next to the run.

        The scratch store of an interrupted repair is resumed.
        """
        from geostat.runs.measurement import captured

        source, windows, settings = self._read
        total = len(windows.names)
        if max(documents) >= total:
            raise InputError(
                f"{self.path}: holds more documents than the {total} of its command, so they cannot"
                f" be measured again. Measure the run again with {FRESH}."
            )
        if self._last is not None and self._last.places.keys() >= {*documents}:
            return self._last
        batch = total if self._in_order else settings.batch
        batches = {document // batch for document in documents}
        selected = [document for document in range(total) if document // batch in batches]
        if settings.batch > 1:  # a resumed store would regroup the batches
            self.forget()
        measure = partial(
            captured,
            *(source, windows.some(selected), self._scratch, settings, []),
            console=self.console,
        )
        resumed = self._scratch.exists()
        try:
            store = measure()
        except (MeasurementError, StoreError):
            if not resumed:
                raise
            self.forget()  # the scratch store belongs to a repair of other documents
            store = measure()
        self._refuse_other(store)
        store.extend(total)
        indices = {document: index for index, document in enumerate(selected)}
        self._last = Measured(store.path, store.documents, indices)
        return self._last

    @property
    def _in_order(self) -> bool:
        """Whether documents can only be read once and in order."""
        return isinstance(self.capture, IngestOptions)

    @cached_property
    def _read(self) -> tuple[Any, Windows, CaptureOptions]:
        """Source of the layers (a model or tensor files), windows and settings."""
        from empirical.capture.identity import asked_for, refuse_other
        from geostat.runs.measurement import capture_keywords, read, refuse_text_as_model
        from geostat.runs.tensors import tensors_from_files

        options = self.capture
        if not isinstance(options, CaptureOptions | IngestOptions):
            raise StoreError(
                f"{self.path}: damaged, and run.json names no command that measured it, as for"
                " models or tensors in memory, so it cannot be repaired. Restore it from a copy, or"
                f" measure it again, with {FRESH} or fresh=True."
            )
        options = replace(options, fresh=False)  # the scratch store is resumed
        attributes = read_root(self.path)
        manifest = attributes["manifest"]
        manifest["documents"] = []
        with suppress(StoreError):  # damaged rows are not compared
            manifest["documents"] = read_rows(
                self.path, manifest["rows"], more=True, run=manifest.get("run", "")
            )
        run = StoredRun(self.path, attributes)
        try:
            if isinstance(options, IngestOptions):
                tensors, settings = tensors_from_files(options)
                refuse_other(run, {}, tensors.windows)
                return tensors, tensors.windows, settings
            settings = replace(options, cluster=None)  # in this process, on the same device
            refuse_text_as_model(settings)
            model, windows = read(settings, console=self.console)
            refuse_other(run, asked_for(windows, **capture_keywords(settings)), windows)
            return self.sources.enter_context(model.loaded()), windows, settings
        except (InputError, MeasurementError) as error:
            raise InputError(
                f"{self.path}: damaged, and its model or text cannot be read again: {error} Paths"
                " are those of the command in run.json: repair the run in the folder where that"
                " command ran."
            ) from error

    def _refuse_other(self, store: Store) -> None:
        """Refuse documents whose measurement differs from that of the run."""
        from empirical.capture.identity import differing

        recorded = dict(store.attributes)
        for not_compared in ("manifest", "parity", "skipped"):
            recorded.pop(not_compared, None)
        for name, old, new in differing(read_root(self.path), recorded):
            raise StoreError(
                f"{self.path}: was measured with {name} = {old}, but the repair has {new}, so it"
                f" cannot be repaired here. Restore it from a copy, or measure it again with"
                f" {FRESH}."
            )


def _results(path: Path, confront: Options | None, console: Console) -> list[str]:
    """Compute damaged result groups again, fits first."""
    stored = read_root(path)["manifest"]["results"]
    damaged = {name for name, files in stored.items() if any(unlike(path, files, ""))}
    intact = set(stored) - damaged
    done: list[str] = []
    for groups in (FITTED, CONFRONTED):
        if not (names := damaged & set(groups)):
            continue
        store = Store.open(path, results=intact)
        results = (
            stages.fitted(measured(store.tree(only=MEASURED)), console=console)
            if groups is FITTED
            else _confronted(store, confront, set(stored), console)
        )
        differing = names - set(results) or store.restore(
            {name: results[name] for name in sorted(names)}
        )
        if differing:
            raise StoreError(
                f"{path}: computed again, /{', /'.join(sorted(differing))} differs from what was"
                " written, perhaps because of other options or library versions."
                f" {FIT_AGAIN.format(path=path)}"
            )
        intact |= names
        done += [f"{path / name}: computed again" for name in sorted(names)]
    measured_by = {experiment.group: experiment.command for experiment in EXPERIMENTS}
    for group, command in ({"control": "run"} | measured_by).items():
        if group in damaged:
            Store.open(path, results=intact).put({}, drops=(group,))
            done.append(
                f"{path / group}: removed. Run the same `geostat {command}` again to measure it."
            )
    return done


def _confronted(
    store: Store, confront: Options | None, groups: set[str], console: Console
) -> dict[str, xr.Dataset]:
    """Confront with the options of the command; if unknown, with those that the groups imply."""
    kwargs = confront.keywords() if isinstance(confront, ConfrontOptions) else {}
    if not isinstance(confront, RunOptions):
        kwargs |= {
            "swap": "ingredients" in groups,
            "predict": bool({"predictive", "fitted"} & set(groups)),
        }
    path = confront.tolerances if isinstance(confront, VerdictOptions) else None
    return stages.confronted(
        store.tree(), tolerances=read_tolerances(path), console=console, **kwargs
    )
