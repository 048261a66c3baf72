"""Runs of a comparison: opening and checks, reduction, shared documents, differing settings.

Imports the store.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.store.remote import called, url_of
from empirical.store.stored_run import StoredRun
from geostat.bounds.by_document import FITTED_GRAMS
from geostat.datasets.parts import PART, parts
from geostat.datasets.separability import MEASURED
from geostat.errors import InputError
from geostat.runs.files import store_path
from geostat.runs.groups import tree_of
from geostat.topics.verdicts import refuse_older

RUN_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Labels of runs in figures and headers, where a model's name is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedRun:
    """A run reduced to numbers for the comparison."""

    model: str
    path: Path | None
    attrs: dict[str, Any]
    sizes: dict[str, int]
    groups: dict[str, xr.Dataset]
    """Results, without /capture."""
    tokens: int
    """Largest number of tokens that a layer sees."""
    documents: tuple[str, ...]
    """Keys that identify the documents."""
    windows: tuple[str, ...]
    """Digest of each document's tokens."""
    digests: tuple[str | None, ...]
    """Digest of each document's measurement."""
    settings: dict[str, str]
    """Settings as text, by topic of SETTINGS."""


def bounds_of(groups: Mapping[str, xr.Dataset]) -> list[tuple[str, str]]:
    """Return every (edition, Gram) of a run's bounds."""
    envelope = groups["envelope"]
    return list(product(map(str, envelope["edition"].values), map(str, envelope["gram"].values)))


def document_keys(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return a key for each document: digest of its text, or its name; repeated keys are numbered.

    >>> document_keys([{"name": "a"}, {"name": "a"}])
    ('a', 'a 1')
    """
    occurrences: Counter[str] = Counter()
    keys = []
    for row in rows:
        key = str(row.get("text_sha256") or row.get("sha256") or row["name"])
        keys.append(f"{key} {occurrences[key]}" if occurrences[key] else key)
        occurrences[key] += 1
    return tuple(keys)


def names_of(models: Sequence[str], paths: Sequence[Path | None]) -> list[str]:
    """Name each run by its model; runs of one model get a unique suffix of their path or a number.

    >>> names_of(["m", "m"], [None, None])
    ['m (run 1)', 'm (run 2)']
    """
    result = list(models)
    for model in dict.fromkeys(models):
        indices = [index for index, name in enumerate(models) if name == model]
        if len(indices) > 1:
            suffixes = _suffixes([paths[index] for index in indices])
            for index, suffix in zip(indices, suffixes, strict=True):
                result[index] = f"{model} ({suffix})"
    return result


def _suffixes(paths: Sequence[Path | None]) -> list[str]:
    resolved = [path.resolve() for path in paths if path is not None]
    if len(resolved) < len(paths):
        return [f"run {number}" for number in range(1, len(paths) + 1)]
    parts = [path.parent.parts if path.name == "run.zarr" else path.parts for path in resolved]
    parts = parts if len(set(parts)) == len(parts) else [path.parts for path in resolved]
    for depth in range(1, max(map(len, parts)) + 1):
        suffixes = ["/".join(part[-depth:]) for part in parts]
        if len(set(suffixes)) == len(suffixes):
            return suffixes
    raise InputError(
        f"{resolved[0]}: was given twice, expected different runs. Name each run once."
    )


def shared(first: ReducedRun, second: ReducedRun) -> int:
    """Return the number of shared documents: the same text, even with different window ends."""
    return len(set(first.documents) & set(second.documents))


SETTINGS: Final = {
    "length": (
        "lengths",
        "sizes N are not rescaled, and a longer window has more tokens to separate",
    ),
    "documents": (
        "numbers of documents",
        "quantities of document means (CV of the averaged profile, misfit of cosines, correlations"
        " as measured, coverage) depend on this number; quantities within a document or corrected"
        " for document noise do not",
    ),
    "text": ("texts", "the text may cause a difference"),
    "sizes": ("sizes N", "a largest value is taken over the sizes of each run"),
    "bound_sizes": ("sizes N of the bounds", "coverage is a share over the sizes of each run"),
    "convention": (
        "conventions",
        "Precision, Recall and derived quantities are different statistics",
    ),
    "queries": ("analysed queries", "the numbers of a document are means over its queries"),
    "editions": (
        "editions and Grams of the bounds",
        "a bound that one run lacks has no difference",
    ),
    "special_tokens": ("special tokens", "the sink may be a different token"),
    "window": (
        "tokens that layers see",
        "heads that do not see the first token have no sink and are excluded where one is needed",
    ),
    "dtype": ("types of the weights", "rounding differs"),
    "tolerances": ("tolerances of the verdicts", "shares of heads refer to different claims"),
    "null": ("null baselines", "a run without one has no gain over it"),
    "version": ("versions of geostat", "the measurement may have changed between versions"),
}
"""Settings by topic: plural name, and the effect of a difference."""


def _settings(groups: Mapping[str, xr.Dataset], attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a run as text, by topic."""
    capture, corpus, model = groups["capture"], attrs.get("corpus"), attrs.get("model")
    positions, fewest = capture.sizes["position"], int(capture["tokens"].min())
    window = f"at least {fewest:,} of {positions:,}"
    if PART in attrs:
        window = ", ".join(f"{seen:,} in {layers} layers" for seen, layers in attrs[PART]["every"])
    elif fewest == positions:
        window = "the whole document"
    claims = json.loads(str(groups["verdicts"].attrs["claims"]))
    text = corpus.get("name") if isinstance(corpus, dict) else corpus
    version = [str(attrs.get("geostat_version")), str(attrs.get("git_commit") or "")[:12]]
    return {
        "length": f"{positions:,} tokens",
        "documents": f"{capture.sizes['document']}",
        "text": str(text or "unnamed text"),
        "sizes": _sizes(capture["n"].values),
        "bound_sizes": _sizes(groups["envelope"]["n_envelope"].values),
        "convention": str(attrs.get("convention")),
        "queries": str(attrs.get("queries", "last")),
        "editions": ", ".join(map(" ".join, bounds_of(groups))),
        "special_tokens": str(attrs.get("special_tokens")),
        "window": window,
        "dtype": str((model or {}).get("dtype")),
        "tolerances": ", ".join(f"{claim['key']} {claim['tolerance']:g}" for claim in claims),
        "null": "measured" if attrs["null_measured"] else "none",
        "version": " ".join(version).strip(),
    }


def _sizes(n: np.ndarray) -> str:
    return f"{n.size} from {n[0]} to {n[-1]}"


OF_EVERYTHING: Final = ("length", "text", "special_tokens", "dtype")
"""Topics on which every quantity depends."""
DIFFERENT_TOKENS: Final = (
    " tokenize their shared texts differently: windows of equal length cover different words, and"
    " the analysed last token differs."
)
"""Note on runs with equal texts and lengths but different tokenizers."""
SAME_MEASUREMENT: Final = " hold the same measurement, byte for byte."


def differing(first: ReducedRun, second: ReducedRun) -> set[str]:
    """Return the topics in which two runs differ."""
    result = {topic for topic in SETTINGS if first.settings[topic] != second.settings[topic]}
    same_texts = shared(first, second) == max(first.sizes["document"], second.sizes["document"])
    return result - {"text"} if same_texts else result


def notes(runs: Sequence[ReducedRun]) -> list[str]:
    """Return a note for every difference that limits the comparison, and on shared documents."""
    pairs = [
        (f"{a} and {b}", first, second)
        for (a, first), (b, second) in combinations(zip(RUN_LETTERS, runs, strict=False), 2)
    ]
    topics = {topic for _, first, second in pairs for topic in differing(first, second)}
    lines = [
        f"Layers of {letter} see different numbers of tokens ({run.settings['window']}): only"
        " layers that see the most tokens are compared."
        for letter, run in zip(RUN_LETTERS, runs, strict=False)
        if PART in run.attrs
    ]
    for topic, (name, effect) in SETTINGS.items():
        if topic in topics:
            values = [run.settings[topic] for run in runs]
            values = _without_common(values) if topic == "tolerances" else values
            by_run = "; ".join(
                f"{letter}: {value}" for letter, value in zip(RUN_LETTERS, values, strict=False)
            )
            lines.append(f"The {name} differ ({by_run}): {effect}.")
    different_tokens, same, by_pairing = [], [], defaultdict(list)
    for name, first, second in pairs:
        windows = dict(zip(first.documents, first.windows, strict=True))
        others = zip(second.documents, second.windows, strict=True)
        differs = any(windows.get(key, window) != window for key, window in others)
        if differs and first.sizes["position"] == second.sizes["position"]:
            different_tokens.append(name)
        if None not in first.digests and first.digests == second.digests != ():
            same.append(name)
        by_pairing[pairing(first, second)].append(name)
    predicates = [(different_tokens, DIFFERENT_TOKENS), (same, SAME_MEASUREMENT)]
    predicates += [(names, f": {pairing_}.") for pairing_, names in by_pairing.items()]
    return lines + [f"{', '.join(names)}{predicate}" for names, predicate in predicates if names]


def _without_common(lists: Sequence[str]) -> list[str]:
    """Remove the items that all lists have in common."""
    split = [items.split(", ") for items in lists]
    return [
        ", ".join(item for item in items if any(item not in other for other in split)) or "none"
        for items in split
    ]


def pairing(first: ReducedRun, second: ReducedRun) -> str:
    """Return how documents are paired in the standard error of a difference, as text."""
    number, counts = shared(first, second), (first.sizes["document"], second.sizes["document"])
    if number == counts[0] == counts[1]:
        return f"paired, all {number} documents shared"
    if number:
        return f"paired where documents are shared, {number} of {counts[0]} and {counts[1]}"
    return "unpaired, no document shared"


Source = str | Path | xr.DataTree
"""A run: its store, its folder, or a tree returned by `geostat.open`."""
NEEDED: Final = (
    "capture",
    "norms",
    "similarity",
    "weights",
    "envelope",
    "sink",
    "heads",
    "separable",
    "verdicts",
    "summary",
)
MAY_HOLD: Final = ("queries", "effective")
MOST_RUNS: Final = len(RUN_LETTERS)
"""Maximum number of runs: one for each letter."""


def opened(sources: Sequence[Source]) -> list[StoredRun | xr.DataTree]:
    """Open two or more confronted runs.

    Raises:
        InputError: if `sources` is not a list, for fewer than two runs or too many, a run given
            twice, a path without a run, or a run that is not confronted.
        StoreError: if a run is damaged.
    """
    if isinstance(sources, str | Path | xr.DataTree):
        raise InputError(
            f"compare({type(sources).__name__}): expected a list of runs. Put them in square"
            " brackets."
        )
    if not 2 <= len(sources) <= MOST_RUNS:
        seen = (
            "no run"
            if not sources
            else f"{name_of(sources[0])} alone"
            if len(sources) == 1
            else f"{len(sources)} runs"
        )
        raise InputError(
            f"{seen} was given to compare, expected 2 to {MOST_RUNS} runs. Name them one after"
            " another."
        )
    runs: list[StoredRun | xr.DataTree] = []
    for source in sources:
        run = (
            source if isinstance(source, xr.DataTree) else StoredRun.open(store_path(Path(source)))
        )
        groups = run.children if isinstance(run, xr.DataTree) else ("capture", *run.results)
        if missing := ", ".join(f"/{group}" for group in NEEDED if group not in groups):
            raise InputError(
                f"{name_of(run)}: holds no {missing}, expected a run confronted with the theory."
                " Run `geostat fit` and `geostat confront` on it first."
            )
        runs.append(run)
    keys = [run.path.resolve() if isinstance(run, StoredRun) else id(run) for run in runs]
    if twice := [source for index, source in enumerate(sources) if keys[index] in keys[:index]]:
        raise InputError(
            f"{name_of(twice[0])}: was given twice, expected different runs. Name each run once."
        )
    return runs


def name_of(source: Source | StoredRun) -> str:
    """Return the name of a run in messages: its URL or path."""
    if isinstance(source, xr.DataTree):
        return "a DataTree"
    return called(source.path) if isinstance(source, StoredRun) else url_of(source) or str(source)


def groups_of(run: StoredRun | xr.DataTree) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Return the groups of a run that the comparison needs, and its attributes.

    Only bounds of the paper's form and of the offset are compared. Those at each head's measured
    cosines do not test a head (docs/studies/bounds.md); those by rank need /amended.
    """
    names = (*NEEDED, *MAY_HOLD)
    if isinstance(run, StoredRun):
        tree, measured = run.tree(only=names), run.attributes["manifest"]["captured"]
    else:
        tree, measured = run, run.children
    groups = {name: tree[name].to_dataset() for name in names if name in tree.children}
    refuse_older(name_of(run), groups)
    effective = {name: groups.pop(name) for name in ("effective",) if name in groups}
    widest = parts(tree_of(groups, tree.attrs))[0]
    groups = {name: widest[name].to_dataset() for name in groups}
    for name in ("envelope", "summary"):
        groups[name] = groups[name].sel(gram=groups[name]["gram"].isin(FITTED_GRAMS))
    attrs = {str(name): value for name, value in widest.attrs.items()}
    return groups | effective, attrs | {"null_measured": "null" in measured}


def reduced(
    groups: Mapping[str, xr.Dataset], attrs: dict[str, Any], path: Path | None
) -> ReducedRun:
    """Return a run without its large arrays."""
    capture, model = groups["capture"], attrs.get("model")
    measured = (attrs.get("manifest") or {}).get("documents", [])
    rows = measured or [{"name": str(name)} for name in capture["document"].values]
    name = (model.get("id") or model.get("model")) if isinstance(model, dict) else model
    return ReducedRun(
        model=str(name or "unnamed model"),
        path=path,
        attrs=attrs,
        sizes={str(dim): size for dim, size in capture.sizes.items()},
        groups={
            key: data.drop_dims(("position", "document"), errors="ignore")
            for key, data in groups.items()
            if key not in MEASURED
        },
        tokens=int(capture["tokens"].max()),
        documents=document_keys(rows),
        windows=tuple(str(row.get("sha256")) for row in rows),
        digests=tuple(row.get("digest") for row in measured),
        settings=_settings(groups, attrs),
    )
