"""Unusual models, tokenizers and documents: one line, and nothing written."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from support.families import letters, tiny
from support.spine import LENGTH, capturing, geostat, refused

import geostat as gs
from empirical.sources.given import documents
from geostat.errors import LONGEST, InputError
from geostat.runs.in_memory import options_and_inputs
from geostat.runs.options import CaptureOptions

TEXT = "some text about heads and tokens, and more of it than a window holds"
ASKED: dict[str, Any] = {"length": LENGTH, "n": "1,2,9", "null": False}


def test_a_token_outside_the_vocabulary_is_refused_before_measuring(tmp_path: Path):
    """The tokenizer of the model has more tokens than its embedding."""
    grown, texts = tmp_path / "model", tmp_path / "texts"
    tokenizer = letters(bos=True)
    tokenizer.add_tokens([f"<e{number}>" for number in range(100)])
    tiny("llama").save_pretrained(grown)
    tokenizer.save_pretrained(grown)
    texts.mkdir()
    documents = [TEXT, f"another <e99> {TEXT}"]
    for name, text in zip("ab", documents, strict=True):
        (texts / f"{name}.txt").write_text(text)
    line = refused(geostat(*capturing(grown, texts, tmp_path / "out")))
    assert re.search(
        r"b.txt: holds token 128 at position 9, but the model's embedding has 97 tokens of its"
        r" tokenizer's 129\. Leave the document out, or resize the embedding",
        line,
    )
    reloaded = transformers.AutoTokenizer.from_pretrained(grown)
    ids = [[5] * 39 + [96], [6] * 39 + [97]]
    for kwargs, message in (
        ({"tokenizer": reloaded, "documents": documents}, "holds token 128 at position 9"),
        ({"documents": ids}, "holds token 97 at position 39, but .* 97"),
    ):
        with pytest.raises(InputError, match=f"^document 1: {message}"):
            gs.capture(tiny("llama"), out=tmp_path / "out", **kwargs, **ASKED)
    assert not (tmp_path / "out").exists()


def test_an_adapter_folder_is_identified(tmp_path: Path):
    folder, text = tmp_path / "tuned", tmp_path / "a.txt"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/base"}')
    text.write_text(TEXT)
    line = refused(geostat(*capturing(folder, text, tmp_path / "out")))
    assert "tuned: holds a peft adapter (adapter_config.json)" in line


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_are_cut_by_their_mask_or_refused(tmp_path: Path, side: str):
    tokenizer, texts = letters(), ["abcdef" * 9, "ghij" * 12]
    tokenizer.pad_token = "?"
    batch = tokenizer(texts, padding=True, padding_side=side)
    expected = [tuple(tokenizer(text)["input_ids"]) for text in texts]
    assert [document.token_ids for document in documents(batch)] == expected
    ids = torch.tensor(batch["input_ids"])
    if side == "right":
        ids[1, LENGTH - 6 :] = 0  # in the window
    with pytest.raises(InputError, match=r"^document 1: (6|20) pad tokens \(id 0\) at its"):
        gs.capture(tiny("llama"), tokenizer=tokenizer, documents=ids, out=tmp_path / "out", **ASKED)
    assert not (tmp_path / "out").exists()


def test_texts_without_spaces_of_a_processor_s_tokenizer_are_read():
    class Processor:
        tokenizer = letters(bos=True)

    read = partial(options_and_inputs, CaptureOptions, "capture", tiny("llama"))
    _, model, texts = read(["abcd" * 20], tokenizer=Processor())
    assert model.tokenizer is Processor.tokenizer
    assert [document.text for document in texts.read()] == ["abcd" * 20]


@pytest.mark.parametrize("text", ["", " \n", "\u200b\u200b", "\ufeff", "\u200e \u00ad"])
def test_an_invisible_text_is_empty(tmp_path: Path, text: str):
    kwargs = {"tokenizer": letters(), "documents": [TEXT, text], "out": tmp_path}
    with pytest.raises(InputError, match="document 1: is an empty text"):
        gs.capture(tiny("llama"), **kwargs, **ASKED)


def test_a_long_message_is_shortened_and_keeps_its_remedy(tmp_path: Path, model_folder: Path):
    file = tmp_path / "wide.jsonl"
    file.write_text(json.dumps({f"key {number}": "" for number in range(2_000)}))
    line = refused(geostat(*capturing(model_folder, file, tmp_path / "out", documents=1)))
    assert f"{file}:1: has no field 'text', only key 0, key 1" in line
    assert line.endswith("key 1999. Use --field.")
    assert len(line) <= LONGEST
    with pytest.raises(InputError, match=r"key 1999. Use field.$") as caught:
        gs.capture(str(model_folder), documents=file, count=1, out=tmp_path, **ASKED)
    assert len(str(caught.value)) <= LONGEST
