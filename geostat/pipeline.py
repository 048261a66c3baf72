"""The main job, stage by stage: capture → fit → confront → report. Every stage reads and writes the one store of a run.

Imports all three rooms. `geostat.cli` and the functions of `geostat` call this and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from empirical import corpus, models, texts
from empirical.capture import Observer, Progress, capture, machine
from empirical.observers import Baselines, Geometry
from empirical.selection import Convention, default_n
from empirical.store import Store
from geostat.envelope import EDITIONS, ENVELOPE_POINTS, MeasuredEnvelope, confront
from geostat.errors import InputError
from geostat.norms import fit_norms
from geostat.similarity import fit_similarity
from geostat.validity import summarise
from geostat.weights import fit_weights
from theory.results import Edition

STORE_NAME = "run.zarr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a capture is asked for. Defaults: the built-in model on the built-in text."""

    model: str | None = None
    revision: str | None = None
    text: tuple[Path, ...] = ()
    dataset: str | None = None
    split: str = "train"
    field: str = "text"
    documents: int = 8
    length: int = 1024
    n: str = "default"
    convention: str = "paper"
    special_tokens: str = "default"
    seed: int = 0
    batch: int = 1
    device: str = "auto"
    dtype: str = "float32"
    heads: tuple[tuple[int, int], ...] = ()
    """Heads (layer, head) whose principal components are kept."""
    trust_remote_code: bool = False
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        for name, least in (("documents", 1), ("length", 4), ("batch", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"--{name} {getattr(self, name)}: expected at least {least}. Use --{name} {least} or more.")
        if self.text and self.dataset:
            raise InputError("--text and --dataset were both given, expected one source of text. Drop one of them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """How a stage tells what it does: a line for each stage, progress within it. Silent by default."""

    stage: Callable[[str], None] = field(default=lambda text: None)
    captured: Callable[[Progress], None] = field(default=lambda progress: None)
    fraction: Callable[[str, float], None] = field(default=lambda stage, fraction: None)


QUIET = Console()


def sizes(text: str, positions: int) -> np.ndarray:
    """Read `--n`: `default`, `all`, or sizes such as 1,2,4-8; ascending, from 1 to the number of positions.

    Raises:
        InputError: for anything else.
    """
    if text == "default":
        return np.asarray(default_n(positions), dtype=np.int64)
    if text == "all":
        return np.arange(1, positions + 1)
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"--n {text}: {part.strip()!r} is not a size. Use default, all, or sizes such as 1,2,4-8.")
        if int(last or first) > positions:
            raise InputError(f"--n {text}: {part.strip()} is above the {positions} tokens of a window. Use sizes from 1 to {positions}.")
        found |= set(range(int(first), int(last or first) + 1))
    if not found or min(found) < 1 or max(found) > positions:
        seen = f"{min(found)} to {max(found)}" if found else "nothing"
        raise InputError(f"--n {text}: sizes {seen}, expected 1 to {positions}, the tokens of a window. Use sizes in that range.")
    return np.array(sorted(found), dtype=np.int64)


def store_path(out: Path) -> Path:
    """Where a run lies: `out` itself when it names a store, else run.zarr inside it."""
    return out if out.suffix == ".zarr" else out / STORE_NAME


def read_windows(settings: Settings, model: models.LoadedModel) -> corpus.Windows:
    """Cut the asked-for text into token windows."""
    if settings.dataset:
        documents = texts.from_hub(settings.dataset, split=settings.split, field=settings.field)
    elif settings.text:
        documents = texts.from_paths(settings.text, field=settings.field)
    else:
        documents = texts.builtin()
    return corpus.windows(
        documents,
        model.tokenizer,
        length=settings.length,
        count=settings.documents,
        special_tokens=settings.special_tokens,
    )


def measure(settings: Settings, out: Path, *, fresh: bool = False, null: bool = True, console: Console = QUIET) -> Store:
    """Capture the run that `settings` describe into `out`; an equal run that stopped early is completed.

    Raises:
        InputError: for bad settings, text or model, or a store of other settings (unless `fresh`).
        StoreError: if the store there is damaged (unless `fresh`).
    """
    n = sizes(settings.n, settings.length)
    convention = _convention(settings.convention)
    path = store_path(out)
    if path.exists() and not (path / "zarr.json").exists():
        raise InputError(f"{path}: stands there but is not a run of geostat. Choose another --out.")
    _refuse_unwritable(path.parent)
    with _timed(path, "capture"):
        console.stage("load the model")
        model = models.load(
            settings.model,
            revision=settings.revision,
            dtype=settings.dtype,
            device=settings.device,
            trust_remote_code=settings.trust_remote_code,
            allow_pickle=settings.allow_pickle,
        )
        console.stage("read the text")
        windows = read_windows(settings, model)
        if fresh and path.exists():  # not before the new run has its model and text
            shutil.rmtree(path)
        console.stage("capture")
        observers: list[Observer] = [Geometry(named=settings.heads), *([Baselines()] if null else []), MeasuredEnvelope()]
        return capture(
            model,
            windows,
            path,
            observers=observers,
            n=n,
            convention=convention,
            seed=settings.seed,
            batch=settings.batch,
            settings={"groups": [observer.group for observer in observers], "named_heads": [list(head) for head in settings.heads]},
            on_progress=console.captured,
        )


def _refuse_unwritable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, before a model is loaded for it."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there}: is a file, expected a folder to write in. Choose another folder with --out.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there}: cannot be written. Choose another folder with --out.")


def fit(store: Store, *, console: Console = QUIET) -> dict[str, xr.Dataset]:
    """Fit Assumptions 1-3 and keep /norms, /similarity and /weights in the store."""
    if not store.documents:
        raise InputError(f"{store.path}: holds no complete document. Run the same `geostat capture` again to go on with it.")
    captured = store.read("capture")
    found = {}
    with _timed(store.path, "fit"):
        for name, function in (("norms", fit_norms), ("similarity", fit_similarity), ("weights", fit_weights)):
            console.stage(f"fit {name}")
            found[name] = function(captured, progress=partial(console.fraction, f"fit {name}"))
            store.write(name, found[name])
    return found


def lay_over(
    store: Store, *, editions: Sequence[Edition] = EDITIONS, points: int | None = ENVELOPE_POINTS, console: Console = QUIET
) -> dict[str, xr.Dataset]:
    """Evaluate the bounds from the fits, lay them over the measured curves, and keep /envelope and /summary in the store."""
    missing = sorted({"norms", "similarity", "weights"} - set(store.results))
    if missing:
        raise InputError(f"{store.path}: has no fits yet ({', '.join(missing)} missing). Run `geostat fit {store.path}` first.")
    with _timed(store.path, "confront"):
        console.stage("confront")
        tree = store.tree()
        envelope = confront(tree, editions=editions, points=points, progress=partial(console.fraction, "confront"))
        store.write("envelope", envelope)
        summary = summarise(store.tree())
        store.write("summary", summary)
    return {"envelope": envelope, "summary": summary}


def write_report(store: Store, out: Path, *, console: Console = QUIET) -> Path:
    """Write report.html, figures and tables of a confronted run below `out`; returns the page's path."""
    from reports.page import write_page

    tree = _confronted(store)
    with _timed(store.path, "report"):
        console.stage("report")
        return write_page(tree, out, seconds=_seconds(store.path))


def run(settings: Settings, out: Path, *, fresh: bool = False, null: bool = True, console: Console = QUIET) -> Path:
    """The main job; returns the path of the report."""
    store = measure(settings, out, fresh=fresh, null=null, console=console)
    fit(store, console=console)
    lay_over(store, console=console)
    return write_report(store, out if out.suffix != ".zarr" else out.parent, console=console)


def write_tables(store: Store, out: Path) -> list[Path]:
    """Write the booktabs tables of a confronted run into `out`; returns their paths."""
    from reports.tables import write_tables as write

    return write(_confronted(store), out)


def write_figures(store: Store, out: Path) -> list[Path]:
    """Write the figures of a confronted run into `out` as PDF and PNG; returns their paths."""
    from reports.figures import write_figures as write

    return write(_confronted(store), out)


def _convention(name: str) -> Convention:
    if name not in set(Convention):
        raise InputError(f"--convention {name}: expected one of {', '.join(Convention)}. Name one of those.")
    return Convention(name)


def named_heads(names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Read head names such as L5H3 into (layer, head).

    Raises:
        InputError: for a name of another form.
    """
    heads = []
    for name in names:
        match = re.fullmatch(r"[Ll](\d+)[Hh](\d+)", name.strip())
        if match is None:
            raise InputError(f"--head {name}: expected a layer and a head, such as L5H3. Name it so.")
        heads.append((int(match[1]), int(match[2])))
    return tuple(heads)


def chosen_editions(names: Sequence[str] | None) -> tuple[Edition, ...]:
    """Read edition names; all when none is given."""
    for name in names or ():
        if name not in EDITIONS:
            raise InputError(f"--edition {name}: expected one of {', '.join(EDITIONS)}. Name one of those.")
    return tuple(edition for edition in EDITIONS if not names or edition in names)


def envelope_points(text: str) -> int | None:
    """Read `geostat confront --n`: default or all."""
    if text not in {"default", "all"}:
        raise InputError(f"--n {text}: expected default or all. Use one of those.")
    return ENVELOPE_POINTS if text == "default" else None


def _confronted(store: Store) -> xr.DataTree:
    if "summary" not in store.results:
        raise InputError(
            f"{store.path}: has not been confronted with the theory yet. Run `geostat fit` and `geostat confront` on it first."
        )
    return store.tree()


@contextmanager
def _timed(path: Path, stage: str) -> Iterator[None]:
    """Record wall time and machine beside the store; they differ between equal runs and must not be in it."""
    started = time.perf_counter()
    yield
    beside = path.with_suffix(".json")
    known = _beside(path)
    known["machine"] = machine()
    known.setdefault("seconds", {})[stage] = round(time.perf_counter() - started, 3)
    if beside.parent.exists():
        beside.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _beside(path: Path) -> dict[str, Any]:
    """What run.json says, or nothing where it is absent or damaged: it is a convenience, not a result."""
    try:
        known = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _seconds(path: Path) -> dict[str, float] | None:
    seconds = _beside(path).get("seconds")
    return {str(name): float(value) for name, value in seconds.items()} if isinstance(seconds, dict) else None
