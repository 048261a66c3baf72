"""Damaged files as a user, an editor or a disk may leave them: TOML, JSONL, GGUF headers, JSON of a
run.
"""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from support.fuzz import anything, changed

KEYS = ("norms.cv", "norms", "cv", "similarity.exponential", "weights", "no.such", '"a b"', "a.b.c")
SIDES = ("at_most", "at_least", "within", "source", "x", '""', "at_most.x")
LITERALS = ("0.1", "-1", "1e400", "nan", "inf", "-inf", "1" + "0" * 400, "0x" + "f" * 400, "true")
LITERALS += ('"text"', "'''a\nb'''", "[]", "[1, [2]]", "{}", "{a = 1}", "1979-05-27", "07:32:00")
LITERALS += ('"""\n\n"""', '"\\u0000"', "[" * 2000 + "]" * 2000, "1_0", "0b1", "6e-999")


@st.composite
def toml(draw: st.DrawFn) -> bytes:
    """Return a file of tolerances: tables, keys and values, valid or partly changed."""
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        head = draw(st.sampled_from(KEYS))
        lines.append(draw(st.sampled_from((f"[{head}]", f"[[{head}]]", f"{head} = 1", head))))
        for _ in range(draw(st.integers(0, 3))):
            value = draw(st.one_of(st.sampled_from(LITERALS), st.floats().map(repr)))
            lines.append(f"{draw(st.sampled_from(SIDES))} = {value}")
    text = "\n".join(lines)
    text = draw(changed(text)) if draw(st.booleans()) else text
    data = text.encode("utf-8", "surrogateescape")
    return data if draw(st.integers(0, 9)) else data + draw(st.binary(max_size=8))


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), anything()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("text", "a", "")), inner, max_size=3),
    ),
    max_leaves=6,
)
"""Anything that JSON, as Python writes it, can be; NaN too."""


@st.composite
def jsonl(draw: st.DrawFn) -> bytes:
    """Return lines of JSON: valid, truncated, invalid, or not UTF-8."""
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 8))
        line = json.dumps({"text": draw(anything())} if kind < 3 else draw(JSON)).encode()
        if kind == 4:
            line = draw(changed(line.decode())).encode("utf-8", "surrogateescape")
        elif kind == 5:
            line = draw(st.binary(max_size=20))
        elif kind == 6:
            odd = (b'{"text": "\\ud800"}', b"[" * 5000, b"9" * 5000, b"\xef\xbb\xbf{}")
            line = draw(st.sampled_from(odd))
        lines.append(line)
    return draw(st.sampled_from((b"\n", b"\r\n", b"\r"))).join(lines)


@st.composite
def gguf(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return a valid GGUF header with parts changed, truncated or doubled, or a made-up one."""
    if not draw(st.integers(0, 5)):
        number = st.sampled_from((0, 1, 3, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
        head = struct.pack("<4sIQQ", b"GGUF", draw(number) & 0xFFFFFFFF, draw(number), draw(number))
        return head + draw(st.binary(max_size=200))
    data = bytearray(whole[: draw(st.sampled_from((len(whole), 4096, 1000, 100, 24, 8, 3)))])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, min(len(data), 1500) - 1)))
        extreme = st.sampled_from((b"\xff" * 8, b"\0" * 8))
        new = draw(st.one_of(st.binary(min_size=1, max_size=8), extreme))
        if draw(st.booleans()):
            data[at : at + len(new)] = new
        else:
            data[at:at] = new
    return bytes(data)


VALUES: tuple[Any, ...] = (None, True, 0, -1, 10**30, 1e308, "", "x", "../../x", [], {}, [[]])
VALUES += ({"a": {}}, ["x"], [None], "\u202e<script>", [1, 2, 3])
"""What stands where something else did."""


@st.composite
def edited(draw: st.DrawFn, whole: Any) -> Any:
    """Return JSON with one to three values replaced, or keys removed or added, at any depth."""
    result = json.loads(json.dumps(whole))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = result
        while isinstance(place, (dict, list)) and place:
            keys = list(place) if isinstance(place, dict) else list(range(min(len(place), 4)))
            key = draw(st.sampled_from(keys))
            inner = place[key]
            if not isinstance(inner, (dict, list)) or not inner or not draw(st.integers(0, 3)):
                kind = draw(st.integers(0, 5))
                if kind == 0:
                    del place[key]
                elif kind == 1 and isinstance(place, dict):
                    name = draw(st.sampled_from(("x", "", "zarr_format", "pending")))
                    place[name] = deepcopy(draw(st.sampled_from(VALUES)))
                else:
                    place[key] = deepcopy(draw(st.sampled_from(VALUES)))
                break
            place = inner
    return result
