"""Header of a report: main facts, warnings, parity check, and the complete provenance of a run.

Provenance is foreign: names may be missing or new, and texts may contain markup. The template
escapes them; this module does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from reports.run import Run
from reports.text.number import MISSING, count, rounded
from reports.text.printable import printable
from reports.topics.kinds import kinds

STAGES = ("capture", "fit", "confront", "effective", "ablation", "normaliser", "report")
"""Order of a run's stages."""
MOST_ITEMS = 12
"""Longest list that is printed in full; for a longer one, its length and its ends are printed."""


def header(run: Run, seconds: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """Return the main facts of the report: model, text, documents, tokens, time if known."""
    model, corpus = (run.attrs.get(name) for name in ("model", "corpus"))
    facts = [
        ("Model", model_name(run)),
        ("Architecture", _architecture(run, model if isinstance(model, Mapping) else {})),
        *_weights(model),
        ("Text", _named(corpus, ("name", "source", "corpus", "path")) or MISSING),
        *_sampled(run, corpus),
        ("Documents", f"{run.documents:,}"),
        ("Tokens per document", f"{run.positions:,}"),
        ("Total tokens", f"{run.documents * run.positions:,}"),
        *_visible(run),
        *_position_0(run),
    ]
    known = {
        stage: float(value)
        for stage, value in (seconds or {}).items()
        if math.isfinite(float(value))
    }
    if known:
        order = [stage for stage in STAGES if stage in known]
        order += sorted(known.keys() - order)
        parts = ", ".join(f"{stage} {duration(known[stage])}" for stage in order)
        total = duration(sum(known.values()))
        facts.append(("Time", f"{total} ({parts})" if len(known) > 1 else total))
    return facts


def documents(run: Run) -> str:
    """Return the number and length of the documents, and their kinds of text if there are several.

    Standard errors over documents then include differences between kinds.
    """
    several = f" of {len(of_kinds)} kinds" if len(of_kinds := kinds(run)) > 1 else ""
    return f"{run.counted('document')}{several}, {run.positions:,} tokens each"


def _weights(model: Any) -> list[tuple[str, str]]:
    """Return how the weights were quantised, if the run records it."""
    words = _named(model, ("quantization",)) if isinstance(model, Mapping) else ""
    return [("Weights", words)] if words else []


def _visible(run: Run) -> list[tuple[str, str]]:
    """Return the number of tokens visible to the last query, if layers differ."""
    parts = run.attrs.get("part", {}).get("every", ())
    visible = ", ".join(f"{tokens:,} in {count(layers, 'layer')}" for tokens, layers in parts)
    return [("Tokens visible to the last query", visible)] if visible else []


def _position_0(run: Run) -> list[tuple[str, str]]:
    """Return the token at position 0, if known, and the number of heads that see it."""
    part, facts = run.attrs.get("part", {}), []
    with_bos = -1 if run.sinks_found is None else int(run.sinks_found["first_is_bos"])
    if with_bos == 0:
        facts.append(("Position 0", "a token of the text, not a beginning-of-text token"))
    elif with_bos > 0:
        documents = count(run.documents, "document")
        facts.append(("Position 0", f"the beginning-of-text token in {with_bos} of {documents}"))
    if part:
        seeing = sum(layers for tokens, layers in part["every"] if tokens == run.positions)
        heads = run.capture.sizes["head"]
        facts.append(("Heads that see position 0", f"{seeing * heads} of {part['of'] * heads}"))
    return facts


def _sampled(run: Run, corpus: Any) -> list[tuple[str, str]]:
    """Return population and kinds of the documents, and the SHA-256 of their joined digests."""
    rows = run.attrs.get("manifest", {}).get("documents", [])
    digests = [str(row["text_sha256"]) for row in rows if row.get("text_sha256")]
    facts = [
        ("Population", _named(corpus, ("population",)) if isinstance(corpus, Mapping) else ""),
        ("Kinds of text", ", ".join(kinds(run))),
        ("SHA-256 of the texts", sha256("".join(digests).encode()).hexdigest() if digests else ""),
    ]
    return [(name, value) for name, value in facts if value]


FEW = 8
"""Number of documents below which the page warns; intervals and verdicts were validated by
simulation with eight (docs/studies/intervals.md).
"""


def warnings(run: Run) -> list[str]:
    """Return warnings: no parity check, a selected part of a run, few documents, or documents
    shorter than the sliding window.
    """
    is_unchecked = unchecked(run.attrs)
    lines = [UNCHECKED] if is_unchecked else []
    remedy = "Use more documents." if is_unchecked else "Measure more with --documents."
    if selection := run.attrs.get("selection"):
        labels = "; ".join(f"{dim} {', '.join(map(str, selection[dim]))}" for dim in selection)
        lines.append(
            f"A selection of a run: {labels}. The results do not describe the whole model."
        )
    if run.documents == 1:
        lines.append(
            "One document: numbers have no standard error or interval, and the results do not"
            f" generalise to other texts. {remedy}"
        )
    elif run.documents < FEW:
        lines.append(
            f"{run.documents} documents, fewer than {FEW}: intervals are wide (Student’s t with"
            f" {count(run.documents - 1, 'degree')} of freedom), and their coverage has not been"
            f" simulated for so few documents. {remedy}"
        )
    model = run.attrs.get("model")
    window = model.get("sliding_window") if isinstance(model, Mapping) else None
    if isinstance(window, int) and run.positions <= window:
        lines.append(
            f"The model’s sliding window has {window:,} tokens and a document {run.positions:,}:"
            " sliding-window layers see the whole document, like all other layers."
        )
    return lines


def model_name(run: Run) -> str:
    """Return the name of the model in the run."""
    return _named(run.attrs.get("model"), ("id", "model", "name")) or "unnamed model"


def duration(seconds: float) -> str:
    """Format a duration: `8.3 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


def entries(attrs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the sorted provenance as pairs (name, value), with nested names joined by arrows."""
    flat = _flattened({name: attrs[name] for name in attrs if name != "part"}, ())
    return [(printable(name), printable(value)) for name, value in flat]


PARITY = (
    ("weights", "attention weights α, largest |Δα|"),
    ("log_weights", "their logarithms, largest |Δ log α|"),
    ("hidden", "last hidden states, largest relative difference"),
    ("invisible", "largest weight on a position that the token cannot see"),
)
"""Results of the parity check: name in the store and label."""


UNCHECKED = (
    "Not parity-checked: weights and values come from another program as tensors, and were not"
    " compared with the model’s."
)


def unchecked(attrs: Mapping[str, Any]) -> bool:
    """Return whether the run records that there was no model to compare with."""
    checks = attrs.get("parity")
    return isinstance(checks, Mapping) and checks.get("checked") is False


def parity(attrs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the largest differences of the parity check as pairs (label, value), if any."""
    return [
        (row["words"], str(row["value"]) if row["name"] == "layer" else _two(row["value"]))
        for row in parity_numbers(attrs)
    ]


def parity_numbers(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the largest differences of the parity check as numbers; None if not finite."""
    checks = attrs.get("parity")
    if not isinstance(checks, Mapping):
        return []
    rows: list[dict[str, Any]] = [
        {"name": name, "words": words, "value": float(checks[name])}
        for name, words in PARITY
        if isinstance(checks.get(name), (int, float))
    ]
    if "layer" in checks:
        words = "layer of the largest |Δα|"
        rows.append({"name": "layer", "words": words, "value": int(checks["layer"])})
    return [row | {"value": row["value"] if math.isfinite(row["value"]) else None} for row in rows]


def _two(value: float | None) -> str:
    return MISSING if value is None else rounded(value, digits=2).plain


def _architecture(run: Run, model: Mapping[str, Any]) -> str:
    sizes = run.capture.sizes
    parts = [str(model["family"])] if model.get("family") else []
    heads, kv_heads = count(sizes["head"], "head"), count(sizes["kv_head"], "KV head")
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
