"""What was measured, for a reader's eyes: the header's few facts, and everything else of a run's
provenance in two columns.

Provenance is foreign: any name may be missing or new, any text may hold markup. Nothing here is
escaped; the template does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from reports.run import Run
from reports.tables.kinds import kinds
from reports.text.number import MISSING, count, rounded
from reports.text.printable import printable

STAGES = ("capture", "fit", "confront", "effective", "ablation", "normaliser", "report")
"""The order in which a run's stages are named."""
MOST_ITEMS = 12
"""Items of a list that are written out; of a longer one the number and the ends are."""


def header(run: Run, seconds: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """The facts that head the report: model, text, documents, tokens, time where it is known."""
    model, corpus = (run.attrs.get(name) for name in ("model", "corpus"))
    facts = [
        ("Model", model_name(run)),
        ("Architecture", _architecture(run, model if isinstance(model, Mapping) else {})),
        ("Text", _named(corpus, ("name", "source", "corpus", "path")) or MISSING),
        *_sampled(run, corpus),
        ("Documents", f"{run.documents:,}"),
        ("Tokens a document", f"{run.positions:,}"),
        ("Tokens in all", f"{run.documents * run.positions:,}"),
        *_seen(run),
        *_position_0(run),
    ]
    known = {
        stage: float(value)
        for stage, value in (seconds or {}).items()
        if math.isfinite(float(value))
    }
    if known:
        order = sorted(
            known,
            key=lambda stage: (STAGES.index(stage) if stage in STAGES else len(STAGES), stage),
        )
        parts = ", ".join(f"{stage} {duration(known[stage])}" for stage in order)
        facts.append(
            ("Time", duration(sum(known.values())) + (f" ({parts})" if len(known) > 1 else ""))
        )
    return facts


def _seen(run: Run) -> list[tuple[str, str]]:
    """How many tokens the last query sees, where layers differ in it."""
    every = run.attrs.get("part", {}).get("every", ())
    seen = ", ".join(f"{tokens:,} in {count(layers, 'layer')}" for tokens, layers in every)
    return [("Tokens that the last query sees", seen)] if seen else []


def _position_0(run: Run) -> list[tuple[str, str]]:
    """What stands at position 0, where the run tells, and how many heads see it."""
    part, facts = run.attrs.get("part", {}), []
    found = -1 if run.sinks_found is None else int(run.sinks_found["first_is_bos"])
    if found == 0:
        facts.append(("Position 0", "a token of the text, no beginning-of-text token"))
    elif found > 0:
        of = count(run.documents, "document")
        facts.append(("Position 0", f"the beginning-of-text token in {found} of {of}"))
    if part:
        seeing = sum(layers for tokens, layers in part["every"] if tokens == run.positions)
        heads = run.capture.sizes["head"]
        facts.append(("Heads that see position 0", f"{seeing * heads} of {part['of'] * heads}"))
    return facts


def _sampled(run: Run, corpus: Any) -> list[tuple[str, str]]:
    """Of which population the documents are, of which kinds, and the sha256 of all their texts: of
    the documents' own sha256, as hexadecimal digits, one after the other.
    """
    rows = run.attrs.get("manifest", {}).get("documents", [])
    digests = [str(row["text_sha256"]) for row in rows if row.get("text_sha256")]
    facts = [
        ("Population", _named(corpus, ("population",)) if isinstance(corpus, Mapping) else ""),
        ("Kinds of text", ", ".join(kinds(run))),
        ("SHA-256 of the texts", sha256("".join(digests).encode()).hexdigest() if digests else ""),
    ]
    return [(name, value) for name, value in facts if value]


FEW = 8
"""Documents below which the page warns: what intervals and verdicts are worth was simulated with
eight (docs/studies/intervals.md).
"""


def warnings(run: Run) -> list[str]:
    """What a reader must know before any number: that nobody compared what was measured with the
    model, that documents are few, or shorter than the model's sliding window.
    """
    given = unchecked(run.attrs)
    said = [UNCHECKED] if given else []
    more = "Give more documents." if given else "Measure more with --documents."
    if left := run.attrs.get("selection"):
        labels = "; ".join(f"{dim} {', '.join(map(str, left[dim]))}" for dim in left)
        said.append(f"A part of a run: {labels}. Nothing here speaks of the whole model.")
    if run.documents == 1:
        said.append(
            "One document: no number has a standard error or an interval, and nothing here speaks"
            f" of other texts. {more}"
        )
    elif run.documents < FEW:
        said.append(
            f"{run.documents} documents, fewer than {FEW}: intervals are wide (Student’s t with"
            f" {count(run.documents - 1, 'degree')} of freedom), and how often they hold was not"
            f" simulated for so few. {more}"
        )
    model = run.attrs.get("model")
    window = model.get("sliding_window") if isinstance(model, Mapping) else None
    if isinstance(window, int) and run.positions <= window:
        said.append(
            f"The model’s sliding window has {window:,} tokens, a document {run.positions:,}: it"
            " never closes, so sliding layers see all of a document, as the others do."
        )
    return said


def model_name(run: Run) -> str:
    """What the run calls its model."""
    return _named(run.attrs.get("model"), ("id", "model", "name")) or "unnamed model"


def duration(seconds: float) -> str:
    """A time for people: `8.3 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


def entries(attrs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything of the provenance as (name, value), nested names joined by arrows, in the order
    of names.
    """
    told = _flattened({name: attrs[name] for name in attrs if name != "part"}, ())
    return [(printable(name), printable(value)) for name, value in told]


PARITY = (
    ("weights", "attention weights α, largest |Δα|"),
    ("log_weights", "their logarithms, largest |Δ log α|"),
    ("hidden", "last hidden states, largest relative difference"),
    ("invisible", "largest weight on a position that the token cannot see"),
)
"""What the parity check keeps, by name in the store and in words."""


UNCHECKED = (
    "Not parity-checked: weights and values were made by another program and given as tensors, and"
    " nobody compared them with the model’s own."
)


def unchecked(attrs: Mapping[str, Any]) -> bool:
    """Whether the run says that there was no model to compare with."""
    kept = attrs.get("parity")
    return isinstance(kept, Mapping) and kept.get("checked") is False


def parity(attrs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parity check's largest differences as (what, value); empty where none was kept."""
    return [
        (row["words"], str(row["value"]) if row["name"] == "layer" else _two(row["value"]))
        for row in parity_numbers(attrs)
    ]


def parity_numbers(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same as numbers, each with its name in the store; a difference that is not finite is
    None.
    """
    kept = attrs.get("parity")
    if not isinstance(kept, Mapping):
        return []
    rows: list[dict[str, Any]] = [
        {"name": name, "words": words, "value": float(kept[name])}
        for name, words in PARITY
        if isinstance(kept.get(name), (int, float))
    ]
    if "layer" in kept:
        words = "layer of the largest |Δα|"
        rows.append({"name": "layer", "words": words, "value": int(kept["layer"])})
    return [row | {"value": row["value"] if math.isfinite(row["value"]) else None} for row in rows]


def _two(value: float | None) -> str:
    return MISSING if value is None else rounded(value, digits=2).plain


def _architecture(run: Run, model: Mapping[str, Any]) -> str:
    sizes = run.capture.sizes
    parts = [str(model["family"])] if model.get("family") else []
    heads, kv_heads = count(sizes["head"], "head"), count(sizes["kv_head"], "value head")
    parts += [
        f"{count(run.attrs.get('part', {}).get('of', sizes['layer']), 'layer')} of {heads}"
        + ("" if sizes["head"] == sizes["kv_head"] else f" ({kv_heads})")
    ]
    parts += [f"head size {run.dimension}"] if run.dimension else []
    return ", ".join(parts)


def _named(value: Any, keys: Sequence[str]) -> str:
    if isinstance(value, Mapping):
        return next((str(value[key]) for key in keys if value.get(key)), "")
    return "" if value is None else str(value)


def _flattened(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _flattened(value[key], (*path, str(key)))
    elif (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(item, Mapping) for item in value)
    ):
        for index, item in enumerate(value):
            yield from _flattened(item, (*path, str(item.get("name", index))))
    else:
        yield " › ".join(path), _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        items = [_shown(item) for item in value]
        if len(items) > MOST_ITEMS:
            return f"{len(items)} values, {items[0]} … {items[-1]}"
        return ", ".join(items) or "none"
    if value is None or value == "":
        return MISSING
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else MISSING
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
