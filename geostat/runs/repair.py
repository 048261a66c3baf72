"""Repair of a run: documents that damage hits are measured again, and damaged results made again,
as the commands did that made them. Only what measures imports torch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import xarray as xr

from empirical.errors import InputError as MeasurementError
from empirical.errors import StoreError
from empirical.store.integrity import unlike
from empirical.store.lock import alone
from empirical.store.manifest import FIT_AGAIN, FRESH, beside, read_root
from empirical.store.repair import Measured, Repair
from empirical.store.rows import read_rows
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
from geostat.datasets.queries import MEASURED
from geostat.errors import InputError
from geostat.runs import stages
from geostat.runs.console import QUIET, Console, compilation_told
from geostat.runs.groups import CONFRONTED, FITTED, measured
from geostat.verdicts.tolerances import read_tolerances

if TYPE_CHECKING:
    from empirical.sources.windows import Windows
    from geostat.runs.settings import Settings

Given = tuple[str, Mapping[str, Any]]
"""A command's name, and its options by the names of their parameters."""

MEASURED_LATER: Final = {"effective": "effective", "ablation": "ablate", "normaliser": "normaliser"}
"""Groups that a command of their own measures, and its name."""
INGESTED: Final = ("model", "queries", "head", "n", "convention", "seed")
"""Options of `geostat ingest` that tell what is measured."""


def repair(
    path: Path, *, capture: Given | None, confront: Given | None, console: Console = QUIET
) -> list[str]:
    """Put back every damaged file of the run at `path`, bit for bit; returns what was done, a line
    a thing.

    capture, confront: the commands that made these stages; None where they are not known.

    Raises:
        InputError: there is no run, another process writes to it, its text or model is not there
            any more, or the disk refuses.
        StoreError: it cannot be repaired.
        KeyboardInterrupt: passed on; a repair goes on where it was stopped.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    read_root(path)
    with alone(path), ExitStack() as opened:
        again = Remeasured(path, capture, console, opened)
        try:
            done = Repair(path, again).captured()
            with compilation_told(console):
                done += _results(path, confront, console)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"interrupted: nothing of {path} is lost. Run the same command again to go on."
            ) from error
        except StoreError:
            again.forget()
            raise
        again.forget()
    return done


@dataclass(slots=True)
class Remeasured:
    """Documents of a run as its capture measured them."""

    path: Path
    capture: Given | None
    console: Console
    opened: ExitStack
    _source: Any = None
    _windows: Windows | None = None
    _settings: Settings | None = None
    _last: Measured | None = None
    _scratch: Path = field(init=False)

    def __post_init__(self) -> None:
        self._scratch = beside(self.path, "repair")

    def forget(self) -> None:
        """Remove what was measured again."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def rows(self) -> list[dict[str, Any]]:
        """What a run records of every document, but its digest."""
        windows, _ = self._read()
        if self._in_order:  # the digests of tensors are known once they are read
            rows = self.measured(range(len(windows.names))).rows
            return [{name: row[name] for name in row if name != "digest"} for row in rows]
        return [windows.row(document) for document in range(len(windows.names))]

    def measured(self, documents: Sequence[int]) -> Measured:
        """Measure documents, with those of their batches, into a store beside the run. What an
        interrupted repair left there is gone on with.
        """
        from geostat.runs.measurement import captured

        windows, settings = self._read()
        total = len(windows.names)
        if max(documents) >= total:
            raise InputError(
                f"{self.path}: holds more documents than the {total} that its command asks for, so"
                f" they cannot be measured again. Measure the run again with {FRESH}."
            )
        if self._in_order and self._last is not None:
            return self._last
        batches = {document // settings.batch for document in documents}
        places = [one for one in range(total) if self._in_order or one // settings.batch in batches]
        if settings.batch > 1:  # those that are left of a batch would be measured in another one
            self.forget()
        _, given = self._known()
        store = None
        while store is None:
            before = self._scratch.exists()
            try:
                how: dict[str, Any] = {"null": given["null"], "fresh": False}
                store = captured(
                    *(self._source, windows.some(places), self._scratch, settings, []),
                    **how,
                    console=self.console,
                )
            except (MeasurementError, StoreError):
                if not before:
                    raise
                self.forget()  # it was left by a repair of other documents
        self._refuse_other(store)
        store.extend(total)
        found = {place: at for at, place in enumerate(places)}
        self._last = Measured(store.path, store.documents, found)
        return self._last

    @property
    def _in_order(self) -> bool:
        """Whether documents can only be read one after the other, once."""
        return self._known()[0] == "ingest"

    def _known(self) -> Given:
        if self.capture is None:
            raise StoreError(
                f"{self.path}: damaged, and no command is known that measured it (run.json beside"
                " it names none), as of models or tensors in memory, so it cannot be repaired."
                f" Restore it from a copy, or measure it again, with {FRESH} or fresh=True."
            )
        return self.capture

    def _read(self) -> tuple[Windows, Settings]:
        """Find text and model, or the tensors' files, once."""
        if self._windows is None or self._settings is None:
            try:
                lent, windows, settings = _found(*self._known(), console=self.console)
                self._refuse_others_text(windows, settings)
                self._source = self.opened.enter_context(lent)
            except (InputError, MeasurementError) as error:
                raise InputError(
                    f"{self.path}: damaged, and what it was measured of cannot be read again:"
                    f" {error} Paths are those of its command, which run.json beside it names:"
                    " repair it in the folder where that ran."
                ) from error
            self._windows, self._settings = windows, settings
        return self._windows, self._settings

    def _held(self) -> StoredRun:
        """The run, with the rows of its documents as far as these are sound."""
        attributes = read_root(self.path)
        try:
            rows = read_rows(
                self.path,
                (held := attributes["manifest"])["rows"],
                more=True,
                run=held.get("run", ""),
            )
        except StoreError:
            rows = []
        attributes["manifest"]["documents"] = rows
        return StoredRun(self.path, attributes)

    def _refuse_others_text(self, windows: Windows, settings: Settings) -> None:
        from empirical.capture.identity import asked_for, refuse_other
        from geostat.runs.measurement import options_of

        asked = {} if self._in_order else asked_for(windows, **options_of(settings))
        refuse_other(self._held(), asked, windows)

    def _refuse_other(self, store: Store) -> None:
        """Refuse documents that were measured otherwise than those of the run."""
        from empirical.capture.identity import differing

        known = {"manifest", "parity", "skipped"}
        told = {name: value for name, value in store.attributes.items() if name not in known}
        for name, old, new in differing(read_root(self.path), told):
            raise StoreError(
                f"{self.path}: was measured with {name} = {old}, a repair has {new}, so it cannot"
                f" be repaired here. Restore it from a copy, or measure it again with {FRESH}."
            )


def _found(
    command: str, given: Mapping[str, Any], *, console: Console
) -> tuple[AbstractContextManager[Any], Windows, Settings]:
    """Find what a command measures: the source of its layers, its windows and its settings."""
    from geostat.runs.measurement import read
    from geostat.runs.settings import of_options, refuse_text_as_model
    from geostat.runs.tensors import of_files

    if command == "ingest":
        tensors, settings = of_files(given["files"], **{name: given[name] for name in INGESTED})
        return nullcontext(tensors), tensors.windows, settings
    settings = replace(of_options(given), cluster=None)  # here, on the device that was asked for
    refuse_text_as_model(settings)
    source, windows = read(settings, console=console)
    return source.lent(), windows, settings


def _results(path: Path, confront: Given | None, console: Console) -> list[str]:
    """Make damaged result groups again, those of fits first."""
    held = read_root(path)["manifest"]["results"]
    damaged = {name for name, files in held.items() if any(unlike(path, files, ""))}
    sound = set(held) - damaged
    done: list[str] = []
    for groups in (FITTED, CONFRONTED):
        if not (names := damaged & set(groups)):
            continue
        store = Store.open(path, results=sound)
        made = (
            stages.fitted(measured(store.tree(only=MEASURED)), console=console)
            if groups is FITTED
            else _confronted(store, confront, set(held), console)
        )
        other = names - set(made) or store.restore({name: made[name] for name in sorted(names)})
        if other:
            raise StoreError(
                f"{path}: made again, /{', /'.join(sorted(other))} is not what was written, as of"
                f" other options or versions of libraries. {FIT_AGAIN.format(path=path)}"
            )
        sound |= names
        done += [f"{path / name}: made again" for name in sorted(names)]
    for group in sorted(MEASURED_LATER.keys() & damaged):
        Store.open(path, results=sound).put({}, drops=(group,))
        done.append(
            f"{path / group}: taken out. Run the same `geostat {MEASURED_LATER[group]}` again to"
            " measure it."
        )
    return done


def _confronted(
    store: Store, confront: Given | None, held: set[str], console: Console
) -> dict[str, xr.Dataset]:
    """Confront as the command did; where none is known, as what is there tells."""
    command, given = confront or ("", {})
    tolerances = read_tolerances(given.get("tolerances"))
    if command == "run":
        return stages.confronted(store.tree(), tolerances=tolerances, console=console)
    return stages.confronted(
        store.tree(),
        editions=stages.chosen_editions(given.get("edition")),
        points=stages.envelope_points(given.get("n", "default")),
        tolerances=tolerances,
        swap="ingredients" in held,
        predict="predictive" in held,
        console=console,
    )
