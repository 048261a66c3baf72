"""Comparability of runs: what is held of each, what it is called, which documents two of them
share, and which settings differ and hamper the comparison. Imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART
from geostat.errors import InputError

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What runs are called in figures and headers, where a model's name has no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is kept of a run once its heads have been reduced to numbers."""

    model: str
    path: Path | None
    attrs: dict[str, Any]
    sizes: dict[str, int]
    groups: dict[str, xr.Dataset]
    """Results, without /capture."""
    n: np.ndarray
    tokens: np.ndarray
    """Visible tokens of each layer."""
    null: bool
    documents: tuple[str, ...]
    """What tells its documents apart."""
    windows: tuple[str, ...]
    """Digest of each document's tokens."""

    @property
    def text(self) -> str:
        """Name of the text."""
        corpus = self.attrs.get("corpus")
        return str(
            (corpus.get("name") if isinstance(corpus, dict) else corpus) or "a text without name"
        )

    @property
    def digests(self) -> list[Any]:
        """Digest of what was measured of each document."""
        manifest = self.attrs.get("manifest") or {}
        return [row.get("digest") for row in manifest.get("documents", [])]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every (edition, Gram) that was laid over its curves."""
        envelope = self.groups["envelope"]
        return [
            (str(edition), str(gram))
            for edition in envelope["edition"].values
            for gram in envelope["gram"].values
        ]


def document_keys(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Tell documents apart by the digest of their text, or what else a manifest's rows hold; texts
    that stand there twice are numbered.

    >>> document_keys([{"name": "a"}, {"name": "a"}])
    ('a', 'a 1')
    """
    seen: Counter[str] = Counter()
    keys = []
    for row in rows:
        key = str(row.get("text_sha256") or row.get("sha256") or row["name"])
        keys.append(f"{key} {seen[key]}" if seen[key] else key)
        seen[key] += 1
    return tuple(keys)


def names_of(models: Sequence[str], paths: Sequence[Path | None]) -> list[str]:
    """Name each run by its model; runs of one model also by the shortest end of their paths that
    tells them apart, or by their place.

    >>> names_of(["m", "m"], [None, None])
    ['m (run 1)', 'm (run 2)']
    """
    result = list(models)
    for model in dict.fromkeys(models):
        of = [index for index, name in enumerate(models) if name == model]
        if len(of) > 1:
            for index, end in zip(of, _ends([paths[index] for index in of]), strict=True):
                result[index] = f"{model} ({end})"
    return result


def _ends(paths: Sequence[Path | None]) -> list[str]:
    known = [path.resolve() for path in paths if path is not None]
    if len(known) < len(paths):
        return [f"run {number}" for number in range(1, len(paths) + 1)]
    parts = [path.parent.parts if path.name == "run.zarr" else path.parts for path in known]
    parts = parts if len(set(parts)) == len(parts) else [path.parts for path in known]
    for depth in range(1, max(map(len, parts)) + 1):
        ends = ["/".join(part[-depth:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    raise InputError(
        f"{known[0]}: stands in the comparison twice, expected runs that differ. Name each run"
        " once."
    )


def shared(first: Held, second: Held) -> int:
    """How many documents two runs share: the same text, wherever a window of it ends."""
    return len(set(first.documents) & set(second.documents))


def _sizes(n: np.ndarray) -> str:
    return f"{n.size} from {n[0]} to {n[-1]}"


def _window(held: Held) -> str:
    if PART in held.attrs:
        every = held.attrs[PART]["every"]
        return ", ".join(f"{tokens:,} in {layers} layers" for tokens, layers in every)
    least, most = int(held.tokens.min()), held.sizes["position"]
    return "all of a document" if least == most else f"from {least:,} of {most:,} on"


def _tolerances(held: Held) -> str:
    claims = json.loads(str(held.groups["verdicts"].attrs["claims"]))
    return ", ".join(f"{claim['key']} {claim['tolerance']:g}" for claim in claims)


SETTINGS: Final[dict[str, tuple[str, Callable[[Held], str], str]]] = {
    "length": (
        "lengths",
        lambda held: f"{held.sizes['position']:,} tokens",
        "N are compared as they are, and a longer window has more tokens to tell apart",
    ),
    "documents": (
        "numbers of documents",
        lambda held: f"{held.sizes['document']}",
        (
            "quantities of document means (the CV of the averaged profile, the misfit of cosines,"
            " correlations as measured, coverage) change with that number alone; those within a"
            " document or free of the documents' noise do not"
        ),
    ),
    "text": ("texts", lambda held: held.text, "a difference may be the text's"),
    "sizes": (
        "sizes N",
        lambda held: _sizes(held.n),
        "a largest value is sought among each run's own sizes",
    ),
    "bound_sizes": (
        "sizes N of the bounds",
        lambda held: _sizes(held.groups["envelope"]["n_envelope"].values),
        "coverage is a share over each run's own sizes",
    ),
    "convention": (
        "conventions",
        lambda held: str(held.attrs.get("convention")),
        "Precision, Recall and all that is made of them are other statistics",
    ),
    "queries": (
        "analysed queries",
        lambda held: str(held.attrs.get("queries", "last")),
        "a document's numbers are means over them",
    ),
    "editions": (
        "editions and Grams of the bounds",
        lambda held: ", ".join(" ".join(pair) for pair in held.pairs),
        "what one run lacks has no difference",
    ),
    "special_tokens": (
        "special tokens",
        lambda held: str(held.attrs.get("special_tokens")),
        "the sink may be another token",
    ),
    "window": (
        "tokens that layers see",
        _window,
        "heads that do not see the first token have no sink and are left out where one is needed",
    ),
    "dtype": (
        "types of the weights",
        lambda held: str((held.attrs.get("model") or {}).get("dtype")),
        "rounding differs",
    ),
    "tolerances": (
        "tolerances of the verdicts",
        _tolerances,
        "their shares answer different claims",
    ),
    "null": (
        "null baselines",
        lambda held: "measured" if held.null else "none",
        "a run without one has no gain over it",
    ),
    "version": (
        "versions of geostat",
        lambda held: " ".join(
            [str(held.attrs.get("geostat_version")), str(held.attrs.get("git_commit") or "")[:12]]
        ).strip(),
        "what is measured may have changed in between",
    ),
}
"""Settings by topic: what they are called, how a run's is said, and what their differing does to
a comparison.
"""
OF_EVERYTHING: Final = ("length", "text", "special_tokens", "dtype")
"""Topics that every quantity depends on."""
CUT_OTHERWISE: Final = (
    " cut the texts they share into other tokens: as many tokens are not the same words, and their"
    " last token, whose attention is measured, is another."
)
"""Of equal texts and lengths but other tokens: another tokenizer."""
SAME_MEASUREMENT: Final = " hold the same measurement, byte for byte."


def differing(first: Held, second: Held) -> set[str]:
    """Topics in which two runs differ."""
    result = {topic for topic, (_, say, _) in SETTINGS.items() if say(first) != say(second)}
    return (
        result - {"text"}
        if shared(first, second) == max(first.sizes["document"], second.sizes["document"])
        else result
    )


def notes(runs: Sequence[Held]) -> list[str]:
    """A line for every difference that hampers the comparison, and on which documents are
    shared.
    """
    pairs = [
        (f"{a} and {b}", one, other)
        for (a, one), (b, other) in combinations(zip(LETTERS, runs, strict=False), 2)
    ]
    differ = {topic for _, one, other in pairs for topic in differing(one, other)}
    lines = [
        f"Layers of {letter} see different numbers of tokens ({_window(held)}): only those that see"
        " most are compared."
        for letter, held in zip(LETTERS, runs, strict=False)
        if PART in held.attrs
    ]
    for topic, (what, say, matters) in SETTINGS.items():
        if topic in differ:
            values = [say(held) for held in runs]
            values = _without_common(values) if topic == "tolerances" else values
            by_run = "; ".join(
                f"{letter}: {words}" for letter, words in zip(LETTERS, values, strict=False)
            )
            lines.append(f"The {what} differ ({by_run}): {matters}.")
    cut_otherwise, same, by_pairing = [], [], defaultdict(list)
    for name, one, other in pairs:
        windows = dict(zip(one.documents, one.windows, strict=True))
        of_other = zip(other.documents, other.windows, strict=True)
        cut = any(windows.get(key, window) != window for key, window in of_other)
        if cut and one.sizes["position"] == other.sizes["position"]:
            cut_otherwise.append(name)
        if None not in one.digests and one.digests == other.digests != []:
            same.append(name)
        by_pairing[pairing(one, other)].append(name)
    said = [(cut_otherwise, CUT_OTHERWISE), (same, SAME_MEASUREMENT)]
    said += [(names, f": {how}.") for how, names in by_pairing.items()]
    return lines + [f"{', '.join(names)}{words}" for names, words in said if names]


def _without_common(lists: Sequence[str]) -> list[str]:
    """Leave out of lists what stands in all of them."""
    parts = [one.split(", ") for one in lists]
    return [
        ", ".join(part for part in one if any(part not in other for other in parts)) or "none"
        for one in parts
    ]


def pairing(first: Held, second: Held) -> str:
    """How a difference between two runs gets its standard error, in words."""
    number, counts = shared(first, second), (first.sizes["document"], second.sizes["document"])
    if number == counts[0] == counts[1]:
        return f"paired, all {number} documents shared"
    if number:
        return f"paired where documents are shared, {number} of {counts[0]} and {counts[1]}"
    return "unpaired, no document shared"
