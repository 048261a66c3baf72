"""Files of tensors: what they hold is what the arrays are, and what is no such file is refused."""

import json
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from empirical.errors import InputError
from empirical.sources.tensors.files import from_files
from empirical.sources.tensors.given import GivenTensors
from empirical.sources.tensors.npz_file import NpzFile
from empirical.tap.tap import TappedLayer

DOCUMENTS, LAYERS, HEADS, KV_HEADS, POSITIONS, DIMENSION = 3, 2, 4, 2, 20, 3
NAMES = ["first", "second", "thîrd"]


def arrays() -> dict[str, Any]:
    chance = np.random.default_rng(0)
    ids = chance.integers(0, 99, (DOCUMENTS, POSITIONS))
    alpha = chance.dirichlet(np.ones(POSITIONS), size=(DOCUMENTS, LAYERS, HEADS))
    values = chance.normal(size=(DOCUMENTS, LAYERS, KV_HEADS, POSITIONS, DIMENSION))
    return {
        "alpha": alpha.astype(np.float32),
        "values": values.astype(np.float32),
        "token_ids": ids,
        "tokens": np.array([[f"<{one}>" for one in row] for row in ids]),
        "names": np.array(NAMES),
        "visible": np.array([POSITIONS, POSITIONS]),
    }


def saved(path: Path, held: dict[str, Any]) -> Path:
    """Write arrays, as the suffix says."""
    if path.suffix == ".npz":
        np.savez(path, **held)
        return path
    texts = {name: held[name] for name in ("tokens", "names") if name in held}
    numbers = {name: torch.tensor(array) for name, array in held.items() if name not in texts}
    metadata = {name: json.dumps(array.tolist()) for name, array in texts.items()}
    save_file(numbers, path, metadata=metadata)
    return path


def everything(source: GivenTensors) -> list[TappedLayer]:
    layers: list[TappedLayer] = []
    for document in range(len(source.windows.names)):
        source.hand_over(
            range(document, document + 1),
            np.empty((1, 0), np.int32),
            torch.tensor([[POSITIONS - 1]]),
            layers.append,
        )
    return layers


def kinds() -> dict[str, Callable[[Path], list[Path]]]:
    """How the same documents lie in files."""
    held = arrays()

    def compressed(folder: Path) -> list[Path]:
        np.savez_compressed(folder / "all.npz", **held)
        return [folder / "all.npz"]

    def one_each(suffix: str) -> Callable[[Path], list[Path]]:
        def write(folder: Path) -> list[Path]:
            return [
                saved(
                    folder / f"{place}{suffix}",
                    {
                        name: array if name == "visible" else array[place]
                        for name, array in held.items()
                    },
                )
                for place in range(DOCUMENTS)
            ]

        return write

    return {
        "npz": lambda folder: [saved(folder / "all.npz", held)],
        "compressed npz": compressed,
        "safetensors": lambda folder: [saved(folder / "all.safetensors", held)],
        "an npz each": one_each(".npz"),
        "a safetensors each": one_each(".safetensors"),
    }


@pytest.mark.parametrize("kind", kinds())
def test_files_hold_what_was_written_into_them(kind: str, tmp_path: Path):
    held = arrays()
    source = from_files(kinds()[kind](tmp_path))
    np.testing.assert_array_equal(source.windows.token_ids, held["token_ids"])
    assert list(source.windows.names) == NAMES
    assert source.visible == (POSITIONS, POSITIONS)
    assert source.texts == {int(one): f"<{one}>" for one in np.unique(held["token_ids"])}
    layers = everything(source)
    assert len(layers) == DOCUMENTS * LAYERS
    for place, one in enumerate(layers):
        document, index = divmod(place, LAYERS)
        np.testing.assert_array_equal(one.alpha[0, 0].numpy(), held["alpha"][document, index])
        np.testing.assert_array_equal(one.values[0].numpy(), held["values"][document, index])


def test_documents_without_names_are_called_after_their_files(tmp_path: Path):
    held = {name: arrays()[name] for name in ("alpha", "values")}
    several = saved(tmp_path / "all.npz", held)
    assert from_files([several]).windows.names == tuple(f"{several}:{at}" for at in range(3))
    single = saved(tmp_path / "one.npz", {name: array[0] for name, array in held.items()})
    assert from_files([single]).windows.names == (str(single),)
    assert not from_files([single]).windows.known


def test_bfloat16_of_safetensors_is_widened(tmp_path: Path):
    numbers = {name: torch.tensor(arrays()[name]).bfloat16() for name in ("alpha", "values")}
    save_file(numbers, tmp_path / "all.safetensors")
    source = from_files([tmp_path / "all.safetensors"])
    assert source.provenance()["dtype"] == "bfloat16"
    first = everything(source)[0]
    assert torch.equal(first.values[0], numbers["values"][0, 0].float())


@pytest.mark.parametrize("compress", [False, True])
def test_an_archive_is_read_a_layer_at_a_time(
    compress: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    held = {name: arrays()[name] for name in ("alpha", "values")}
    (np.savez_compressed if compress else np.savez)(tmp_path / "all.npz", **held)
    largest = 0
    read = zipfile.ZipExtFile.read

    def measured(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        nonlocal largest
        assert n is not None
        assert n >= 0  # never all
        largest = max(largest, n)
        return read(self, n)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", measured)
    everything(from_files([tmp_path / "all.npz"]))
    assert largest <= max(held["values"][0, 0].nbytes, 1024)


def without(name: str) -> dict[str, Any]:
    return {key: array for key, array in arrays().items() if key != name}


def cut(path: Path, share: float) -> Path:
    os.truncate(path, int(path.stat().st_size * share))
    return path


def flipped(path: Path) -> Path:
    """Change a byte of a value in the middle of the file."""
    text = bytearray(path.read_bytes())
    at = text.index(arrays()["values"][2, 1].tobytes()) + 5
    text[at] ^= 1
    path.write_bytes(text)
    return path


def lying(folder: Path) -> Path:
    """An archive of an array that says it is larger than it is."""
    path = saved(folder / "a.npz", arrays())
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in held.items():
            archive.writestr(name, text.replace(b"(3, 2, 4, 20)", b"(9, 2, 4, 20)"))
    return path


def without_header(folder: Path) -> Path:
    path = folder / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("alpha.npy", b"nothing of NumPy")
        archive.writestr("values.npy", b"")
    return path


def strange(folder: Path, name: str, text: bytes) -> Path:
    (folder / name).write_bytes(text)
    return folder / name


def odd(folder: Path, make: Callable[[Path], None]) -> Path:
    make(folder / "a.npz")
    return folder / "a.npz"


def odd_ids(dtype: torch.dtype) -> Callable[[Path], Path]:
    """A file whose token ids are no whole numbers."""

    def write(folder: Path) -> Path:
        held = {name: torch.tensor(arrays()[name]) for name in ("alpha", "values", "token_ids")}
        save_file(held | {"token_ids": held["token_ids"].to(dtype)}, folder / "a.safetensors")
        return folder / "a.safetensors"

    return write


def bad_files() -> dict[str, tuple[Callable[[Path], Path], str]]:
    """What is wrong with a file → how to make it, and what is said."""
    whole = arrays()

    def npz(**changed: Any) -> Callable[[Path], Path]:
        return lambda folder: saved(folder / "a.npz", whole | changed)

    def safe(**metadata: str) -> Callable[[Path], Path]:
        def write(folder: Path) -> Path:
            numbers = {name: torch.tensor(whole[name]) for name in ("alpha", "values")}
            save_file(numbers, folder / "a.safetensors", metadata=metadata)
            return folder / "a.safetensors"

        return write

    objects = np.array([{"a": 1}], dtype=object)
    half = np.zeros(whole["alpha"].shape, dtype="V2")
    return {
        "absent": (lambda folder: folder / "a.npz", "is no such file, expected"),
        "folder": (lambda folder: folder, "is no such file, expected"),
        "other kind": (lambda folder: strange(folder, "a.pt", b"PK"), "is of another kind"),
        "no alpha": (lambda f: saved(f / "a.npz", without("alpha")), "has no array alpha, only"),
        "no values": (
            lambda f: saved(f / "a.safetensors", without("values")),
            "has no array values, only alpha",
        ),
        "pickles": (npz(alpha=objects), "alpha holds Python objects"),
        "pickled names": (npz(names=objects), "names holds Python objects"),
        "bfloat16": (npz(alpha=half), "is how .npz keeps bfloat16"),
        "whole numbers": (npz(alpha=np.ones(whole["alpha"].shape, int)), "holds int64, expected"),
        "by column": (npz(values=np.asfortranarray(whole["values"])), "lies in Fortran order"),
        "dims": (npz(alpha=whole["alpha"][0, 0]), "alpha of shape (4, 20) and values of shape"),
        "documents": (npz(alpha=whole["alpha"][:2]), "alpha of shape (2, 2, 4, 20)"),
        "few names": (npz(names=np.array(NAMES[:2])), "names has shape (2,), expected one"),
        "few ids": (npz(token_ids=np.ones((2, 20), int)), "token_ids has shape (2, 20)"),
        "visible": (npz(visible=np.array([3])), "visible: [3], expected a number"),
        "one too many": (npz(values=whole["values"][:, :, :, 1:]), "alpha has 20 positions"),
        "cut npz": (lambda f: cut(saved(f / "a.npz", whole), 0.7), "cannot be read as .npz"),
        "cut safetensors": (
            lambda f: cut(saved(f / "a.safetensors", whole), 0.7),
            "cannot be read as .safetensors",
        ),
        "empty npz": (lambda f: strange(f, "a.npz", b""), "cannot be read as .npz"),
        "empty safetensors": (lambda f: strange(f, "a.safetensors", b""), "cannot be read as"),
        "text": (lambda f: strange(f, "a.npz", b"weights"), "cannot be read as .npz"),
        "flipped": (
            lambda f: flipped(saved(f / "a.npz", whole)),
            "cannot be read as .npz (Bad CRC",
        ),
        "lying": (lying, "alpha is not as large as its shape (9, 2, 4, 20) tells"),
        "no header": (without_header, "cannot be read as .npz"),
        "no JSON": (safe(names="[1,"), "names of its metadata is no JSON of texts"),
        "no list": (safe(names='"a"'), "names has shape (), expected one entry"),
        "nested names": (
            npz(names=np.array([[one] for one in NAMES])),
            "names has shape (3, 1), expected one",
        ),
        "half a character": (
            npz(names=np.array(["a", "b", "c\ud800"])),
            "a.npz: names: character 1 is half of one (\\ud800)",
        ),
        "half a character in JSON": (
            safe(names='["a", "b", "\\ud800"]'),
            "a.safetensors: names: character 0 is half of one (\\ud800)",
        ),
        "beyond Unicode": (
            npz(names=np.array([0x110000, 1, 2], np.uint32).view("U1")),
            "a.npz: names: are no texts (",
        ),
        "tokens beyond Unicode": (
            npz(tokens=np.full((3, 20), 0x7FFFFFFF, np.uint32).view("U1")),
            "tokens: are no texts (",
        ),
        "no UTF-8": (npz(names=np.array([b"a", b"b", b"\xff"])), "names: are no texts ('utf-8'"),
        "large ids": (npz(token_ids=np.full((3, 20), 2**31)), "the largest is 2147483648"),
        "vast ids": (npz(token_ids=np.full((3, 20), 2**64 - 1, np.uint64)), "the largest is 18446"),
        "negative ids": (npz(token_ids=np.full((3, 20), -1)), "expected whole numbers from 0"),
        "bfloat16 ids": (odd_ids(torch.bfloat16), "cannot be read as .safetensors"),
        "float8 ids": (odd_ids(torch.float8_e5m2), "cannot be read as .safetensors"),
        "float ids": (odd_ids(torch.float32), "token_ids: are float32 of shape (3, 20), expected"),
        "a pipe": (lambda f: odd(f, os.mkfifo), "is no such file, expected"),
        "a device": (lambda f: odd(f, lambda p: os.symlink("/dev/zero", p)), "is no such file"),
    }


@pytest.mark.parametrize("fault", bad_files())
def test_what_is_no_such_file_is_refused_in_a_line(fault: str, tmp_path: Path):
    make, said = bad_files()[fault]
    path = make(tmp_path)
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        everything(from_files([path]))
    assert "\n" not in str(caught.value)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path):
    first = saved(tmp_path / "a.npz", arrays())
    fewer = saved(tmp_path / "b.npz", without("token_ids"))
    window = saved(tmp_path / "c.npz", arrays() | {"visible": np.array([5, POSITIONS])})
    for other in (fewer, window):
        with pytest.raises(InputError, match=r"Name files of one run"):
            from_files([first, other])
    with pytest.raises(InputError, match=r"names: 6 names, 3 of them different"):
        from_files([first, first])
    with pytest.raises(InputError, match=r"No file was named"):
        from_files([])


def test_no_object_of_an_archive_is_unpickled(tmp_path: Path):
    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "harm",))

    np.savez(tmp_path / "a.npz", alpha=np.array([Harmful()], dtype=object))
    with pytest.raises(InputError, match="Python objects"):
        NpzFile(tmp_path / "a.npz").whole("alpha")
    assert not (tmp_path / "harm").exists()
