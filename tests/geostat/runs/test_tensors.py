"""Runs from tensors of another program: equal to a capture bit for bit, resumable, reported."""

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
from support.spine import LENGTH, geostat
from transformers import PreTrainedModel

import geostat as gs
from empirical.store.store import Store
from empirical.tap.tap import TappedLayer, tap
from geostat.errors import InputError

LAYERS = 2
FEW: dict[str, Any] = {"n": "1,2,9", "null": False}
QUICK = [("gpt_oss", "last:3")]
"""Models with grouped queries, learned sinks and sliding windows."""
ALL = [(family, "last") for family in (*FAMILIES, *OTHERS)] + [("llama", "every:8")]


def tapped(
    model: PreTrainedModel, token_ids: np.ndarray, queries: list[int]
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return tapped arrays (document, layer, …) and the number of visible tokens."""
    weights, states, visible = [], [], []
    for row in token_ids:
        layers: list[TappedLayer] = []
        tap(model, torch.as_tensor(row[None]), layers.append, queries=torch.tensor([queries]))
        weights.append(np.stack([layer.alpha[0].numpy() for layer in layers]))
        states.append(np.stack([layer.values[0].numpy() for layer in layers]))
        visible = [int(layer.visible[0, -1].sum()) for layer in layers]
    return np.stack(weights), np.stack(states), visible


def tokens(documents: int = 2) -> np.ndarray:
    return np.random.default_rng(0).integers(3, 90, (documents, LENGTH))


def arrays(documents: int = 2) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    alpha = chance.dirichlet(np.full(LENGTH, 0.3), size=(documents, LAYERS, 4))
    values = chance.normal(size=(documents, LAYERS, 2, LENGTH, 8))
    return alpha.astype(np.float32), values.astype(np.float32)


@pytest.mark.parametrize(
    ("family", "queries"), [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in ALL)]
)
def test_tapped_tensors_equal_a_capture_bit_for_bit(family: str, queries: str, tmp_path: Path):
    model, ids, n = tiny(family), tokens(1), "1,2,5-7,20"
    captured = gs.capture(
        model, documents=ids, length=LENGTH, n=n, queries=queries, out=tmp_path / "captured"
    )
    rows = {"last": [39], "last:3": [37, 38, 39], "every:8": [15, 23, 31, 39]}[queries]
    alpha, values, visible = tapped(model.get_decoder(), ids, rows)
    run = gs.from_tensors(
        alpha[:, :, 0] if len(rows) == 1 else alpha,
        values,
        token_ids=ids,
        visible=visible,
        queries=None if queries == "last:3" else queries,
        n=n,
        out=tmp_path / "tensors",
    )
    assert set(run.children) == set(captured.children) >= {"capture", "null", "sinks"}
    for name in captured.children:
        expected = captured[name].to_dataset().drop_attrs()
        xr.testing.assert_identical(run[name].to_dataset().drop_attrs(), expected)
    assert run.attrs["queries"] == captured.attrs["queries"]
    assert run.attrs["parity"] == {"checked": False}


def assert_equal_stores(first: Path, second: Path) -> None:
    assert contents(first / "run.zarr") == contents(second / "run.zarr")


def test_files_and_iterators_that_reuse_a_buffer_write_the_store_of_the_arrays(tmp_path: Path):
    alpha, values = arrays()
    names = ["first", "second"]
    gs.from_tensors(alpha, values, out=tmp_path / "arrays", names=names, **FEW)

    def layers(document: int) -> Iterator[Any]:
        weights, states = np.empty_like(alpha[0, 0]), torch.empty(values[0, 0].shape)
        for layer in range(LAYERS):
            weights[:] = alpha[document, layer]
            yield weights, states.copy_(torch.tensor(values[document, layer]))
            weights.fill(-1)
            states.fill_(torch.nan)

    iterators = {"count": 2, "layers": LAYERS, "names": names, "out": tmp_path / "iterators"}
    gs.from_tensors(map(layers, range(2)), **iterators, **FEW)
    np.savez(tmp_path / "held.npz", alpha=alpha, values=values, names=np.array(names))
    words = ("--n", "1,2,9", "--no-null", "--quiet", "--out", tmp_path / "files")
    assert geostat("ingest", tmp_path / "held.npz", *words).code == 0
    for name in ("iterators", "files"):
        assert_equal_stores(tmp_path / name, tmp_path / "arrays")


@pytest.mark.slow
def test_an_interrupted_run_is_resumed_and_its_documents_compared(tmp_path: Path):
    alpha, values = arrays(3)
    cut, whole = tmp_path / "cut", tmp_path / "whole"

    def broken() -> Iterator[Any]:
        yield alpha[0], values[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="1 of 3 documents are kept"):
        gs.from_tensors(broken(), count=3, out=cut, **FEW)
    other = alpha.copy()
    other[0, 1, 2] = other[0, 1, 2, ::-1]
    differing = "its tensors differ from those of"
    with pytest.raises(InputError, match=f"{differing} 'document 0', which this"):
        gs.from_tensors(other, values, out=cut, **FEW)
    for out in (cut, whole):
        gs.from_tensors(alpha, values, out=out, **FEW)
    assert_equal_stores(cut, whole)
    with pytest.raises(InputError, match=r"was measured with model\.id"):
        gs.from_tensors(alpha, values, model="another", out=cut, **FEW)
    known = {"token_ids": tokens(3), "out": tmp_path / "known", **FEW}
    gs.from_tensors(alpha, values, **known)
    with pytest.raises(InputError, match=differing):  # the tokens are the same
        gs.from_tensors(other, values, **known)


def test_an_invalid_document_keeps_the_earlier_ones(tmp_path: Path):
    alpha, values = arrays(3)
    alpha[2, 1, 3, 7] = np.nan
    with pytest.raises(InputError, match="document 'document 2', layer 1, head 3: alpha hold NaN"):
        gs.from_tensors(alpha, values, out=tmp_path, **FEW)
    assert len(Store.open(tmp_path / "run.zarr").documents) == 2


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"n": "0"}, InputError, "n 0: sizes 0 to 0, expected 1 to 40"),
        ({"n": [1, 41]}, InputError, "41 is above the 40 tokens"),
        ({"n": 0}, InputError, "n 0: sizes 0 to 0, expected 1 to 40"),
        ({"heads": ((3, 0),)}, InputError, "L3H0: no such head; layers run 0 to 1"),
        ({"length": 40}, TypeError, "from_tensors() has no keyword 'length', expected one of n,"),
        ({"count": 3}, InputError, "alpha: 2 and 3 documents are given"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path: Path, kwargs: dict, error: type, message: str):
    with pytest.raises(error, match=re.escape(message)) as caught:
        gs.from_tensors(*arrays(), out=tmp_path / "out", **kwargs)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_a_run_without_tokens_reports_that_the_tensors_are_unchecked(tmp_path: Path):
    alpha, values = arrays(3)
    values[:, :, :, 20] *= 0.1  # a sink away from position 0: small norm, large weight
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
    assert page.count("Not parity-checked: weights and values come from another program") == 2
    for words, shown in (
        ("The run has no parity check", False),
        ("my own &lt;b&gt;code&lt;/b&gt;", True),
        ("Tokens that are functional sinks", False),
        ("Functional sinks", True),
    ):
        assert (words in page) == shown, words
    assert "Not parity-checked" in (tmp_path / "report.json").read_text(encoding="utf-8")
