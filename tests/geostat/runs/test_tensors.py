"""Runs of tensors from elsewhere: the numbers of a capture of the same model, bit for bit; resume;
what the page says of them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import FAMILIES, OTHERS, tiny
from support.places import contents
from support.spine import LENGTH, geostat, refused
from transformers import PreTrainedModel

import geostat as gs
from empirical.store.store import Store
from empirical.tap.tap import TappedLayer, tap
from geostat.errors import InputError

LAYERS = 2
SIZES = "1,2,5-7,20"
QUICK = [("gpt_oss", "last:3")]
"""Grouped queries, learned sinks and windows, several queries."""
ALL = [(family, "last") for family in (*FAMILIES, *OTHERS)] + [("llama", "every:8")]


def tapped(
    model: PreTrainedModel, token_ids: np.ndarray, queries: list[int]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """What the tap hands over, as arrays (document, layer, …), and the visible tokens."""
    weights, states, visible = [], [], []
    for row in token_ids:
        layers: list[TappedLayer] = []
        at = torch.tensor([queries])
        tap(model, torch.as_tensor(row[None]), layers.append, queries=at)
        weights.append(np.stack([one.alpha[0].numpy() for one in layers]))
        states.append(np.stack([one.values[0].numpy() for one in layers]))
        visible = [int(one.visible[0, -1].sum()) for one in layers]
    return np.stack(weights), np.stack(states), visible


def tokens(documents: int = 2) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 90, (documents, LENGTH))


def arrays(documents: int = 2, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    alpha = chance.dirichlet(np.full(LENGTH, 0.3), size=(documents, LAYERS, 4))
    values = chance.normal(size=(documents, LAYERS, 2, LENGTH, 8))
    return alpha.astype(np.float32), values.astype(np.float32)


@pytest.mark.parametrize(
    ("family", "queries"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.slow) for one in ALL)]
)
def test_tapped_tensors_give_a_captures_numbers_bit_for_bit(
    family: str, queries: str, tmp_path: Path
):
    model, ids = tiny(family), tokens()
    captured = gs.capture(
        model, documents=ids, length=LENGTH, n=SIZES, queries=queries, out=tmp_path / "captured"
    )
    rows = {"last": [39], "last:3": [37, 38, 39], "every:8": [15, 23, 31, 39]}[queries]
    alpha, values, visible = tapped(model.get_decoder(), ids, rows)
    if len(rows) == 1:
        alpha = alpha[:, :, 0]
    given = gs.from_tensors(
        alpha,
        values,
        token_ids=ids,
        visible=visible,
        queries=None if queries == "last:3" else queries,
        n=SIZES,
        out=tmp_path / "given",
    )
    assert set(given.children) == set(captured.children) >= {"capture", "null", "sinks"}
    for name in captured.children:
        expected = captured[name].to_dataset().drop_attrs()
        xr.testing.assert_identical(given[name].to_dataset().drop_attrs(), expected)
    assert given.attrs["queries"] == captured.attrs["queries"]
    assert given.attrs["parity"] == {"checked": False}


def test_files_and_iterators_give_the_store_of_the_arrays(tmp_path: Path):
    alpha, values = arrays()
    names = ["first", "second"]
    asked: dict[str, Any] = {"n": "1,2,9", "null": False, "names": names}
    gs.from_tensors(alpha, values, out=tmp_path / "arrays", **asked)

    def layers(document: int) -> Iterator[Any]:
        yield from zip(alpha[document], torch.tensor(values[document]), strict=True)

    documents = (layers(document) for document in range(2))
    gs.from_tensors(documents, count=2, layers=LAYERS, out=tmp_path / "iterators", **asked)
    np.savez(tmp_path / "held.npz", alpha=alpha, values=values, names=np.array(names))
    words = ("--n", "1,2,9", "--no-null", "--quiet", "--out", tmp_path / "files")
    assert geostat("ingest", tmp_path / "held.npz", *words).code == 0
    expected = contents(tmp_path / "arrays" / "run.zarr")
    assert contents(tmp_path / "iterators" / "run.zarr") == expected
    assert contents(tmp_path / "files" / "run.zarr") == expected


def test_layers_may_come_in_memory_that_is_used_again(tmp_path: Path):
    alpha, values = map(torch.as_tensor, arrays())
    asked: dict[str, Any] = {"n": "1,2,9", "count": 2, "layers": LAYERS}

    def layers(document: int) -> Iterator[Any]:
        weights, states = torch.empty_like(alpha[0, 0]), torch.empty_like(values[0, 0])
        for layer in range(LAYERS):
            yield weights.copy_(alpha[document, layer]), states.copy_(values[document, layer])
            weights.fill_(-1)
            states.fill_(torch.nan)

    gs.from_tensors(alpha, values, out=tmp_path / "arrays", **asked)
    gs.from_tensors(map(layers, range(2)), out=tmp_path / "used", **asked)
    expected = contents(tmp_path / "arrays" / "run.zarr")
    assert contents(tmp_path / "used" / "run.zarr") == expected


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped_and_compares_what_it_holds(tmp_path: Path):
    alpha, values = arrays(3)
    asked: dict[str, Any] = {"n": "1,2,9", "null": False}

    def broken() -> Iterator[Any]:
        yield alpha[0], values[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="1 of 3 documents are kept"):
        gs.from_tensors(broken(), count=3, out=tmp_path / "cut", **asked)
    other = alpha.copy()
    other[0, 1, 2] = other[0, 1, 2, ::-1]
    with pytest.raises(InputError, match="its tensors are not those of 'document 0', which this"):
        gs.from_tensors(other, values, out=tmp_path / "cut", **asked)
    gs.from_tensors(alpha, values, out=tmp_path / "cut", **asked)
    gs.from_tensors(alpha, values, out=tmp_path / "whole", **asked)
    expected = contents(tmp_path / "whole" / "run.zarr")
    assert contents(tmp_path / "cut" / "run.zarr") == expected
    with pytest.raises(InputError, match=r"was measured with model\.id"):
        gs.from_tensors(alpha, values, model="another", out=tmp_path / "cut", **asked)
    known = {"token_ids": tokens(3), "out": tmp_path / "known", **asked}
    gs.from_tensors(alpha, values, **known)
    with pytest.raises(InputError, match="its tensors are not those of"):  # the tokens are the same
        gs.from_tensors(other, values, **known)


def test_a_fault_in_a_later_document_keeps_those_before_it(tmp_path: Path):
    alpha, values = arrays(3)
    alpha[2, 1, 3, 7] = np.nan
    with pytest.raises(InputError, match="document 'document 2', layer 1, head 3: alpha hold NaN"):
        gs.from_tensors(alpha, values, n="1,2,9", null=False, out=tmp_path)
    assert len(Store.open(tmp_path / "run.zarr").documents) == 2


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"n": "0"}, InputError, "n 0: sizes 0 to 0, expected 1 to 40"),
        ({"n": "41"}, InputError, "is above the 40 tokens"),
        ({"n": [1, 41]}, InputError, "41 is above the 40 tokens"),
        ({"n": 0}, InputError, "n 0: sizes 0 to 0, expected 1 to 40"),
        ({"heads": ((3, 0),)}, InputError, "L3H0: no such head; layers run 0 to 1"),
        ({"convention": "other"}, InputError, "convention other: expected one of"),
        ({"length": 40}, TypeError, "from_tensors() has no keyword 'length', expected one of n,"),
        ({"count": 3}, InputError, "alpha: 2 and 3 documents are told of"),
        ({"names": ["a"]}, InputError, "alpha: 1 and 2 documents are told of"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(tmp_path: Path, asked: dict, error: type, said: str):
    with pytest.raises(error, match=re.escape(said)) as caught:
        gs.from_tensors(*arrays(), out=tmp_path / "out", **asked)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_in_one_line(tmp_path: Path):
    (tmp_path / "a.npz").write_bytes(b"PK")
    line = refused_by_ingest("ingest", tmp_path / "a.npz", "--out", tmp_path / "out")
    assert line.startswith(f"{tmp_path}/a.npz: cannot be read as .npz (")
    line = refused_by_ingest("ingest", tmp_path / "a.npz", "--fresh", "--resume")
    assert line.startswith("--fresh and --resume were both given")
    assert not (tmp_path / "out").exists()


def refused_by_ingest(*words: Any) -> str:
    said = geostat(*words)
    lines = said.stderr.splitlines(keepends=True)
    kept = "".join(line for line in lines if line != "geostat: look at the files\n")
    return refused(type(said)(said.code, said.stdout, kept))


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_a_run_without_tokens_is_reported_and_says_that_nobody_checked_it(tmp_path: Path):
    alpha, values = arrays(3)
    values[:, :, :, 20] *= 0.1  # a token that is short and much attended, away from position 0
    alpha[..., 20] += 0.4
    alpha /= alpha.sum(axis=-1, keepdims=True)
    run = gs.from_tensors(alpha, values, model="my own <b>code</b>", n="1,2,8,20", out=tmp_path)
    assert "token_id" not in run["capture"]
    assert int((run["sinks"]["sink_position"] == 20).sum()) > 0
    fits = gs.fit(run)
    assert "compressed_token_id" not in fits["norms"]
    env = gs.confront(run, fits, points=3, swap=False)
    assert "token_id" not in env["sinks_found"]
    assert int(env["sinks_found"]["first_is_bos"]) == -1
    page = gs.report(run, fits, env, out=tmp_path).read_text(encoding="utf-8")
    assert page.count("Not parity-checked: weights and values were made by another program") == 2
    assert "The run keeps no parity check" not in page
    assert "my own &lt;b&gt;code&lt;/b&gt;" in page
    assert "Tokens that act as sinks" not in page
    assert "Sinks by what they do" in page
    assert "Not parity-checked" in (tmp_path / "report.json").read_text(encoding="utf-8")
