"""Files of tensors hold what the arrays are; everything else is refused."""

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
from support.raising import refused
from support.tensors import DOCUMENTS, LAYERS, POSITIONS, arrays, read

from empirical.sources.tensor_files import NpzFile, from_files
from empirical.sources.tensors import GivenTensors
from empirical.tap.tap import TappedLayer

NAMES = ["first", "second", "thîrd"]
ALPHA, VALUES = arrays()
IDS = np.random.default_rng(1).integers(0, 99, (DOCUMENTS, POSITIONS))
PLAIN: dict[str, Any] = {"alpha": ALPHA, "values": VALUES}
WHOLE = PLAIN | {
    "token_ids": IDS,
    "tokens": np.array([[f"<{number}>" for number in row] for row in IDS]),
    "names": np.array(NAMES),
    "visible": np.array([POSITIONS, POSITIONS]),
}


def saved(path: Path, held: dict[str, Any], save: Callable[..., None] = np.savez) -> Path:
    """Write arrays, as the suffix says."""
    if path.suffix == ".npz":
        save(path, **held)
        return path
    texts = {name: held[name] for name in ("tokens", "names") if name in held}
    numbers = {name: torch.as_tensor(array) for name, array in held.items() if name not in texts}
    metadata = {name: json.dumps(array.tolist()) for name, array in texts.items()}
    save_file(numbers, path, metadata=metadata)
    return path


def everything(source: GivenTensors) -> list[TappedLayer]:
    return [layer for place in range(len(source.windows.names)) for layer in read(source, place)]


def one_each(folder: Path, suffix: str) -> list[Path]:
    """Write a file for each document."""
    files = []
    for place in range(DOCUMENTS):
        held = {name: array[place] for name, array in WHOLE.items() if name != "visible"}
        file = folder / f"{place}{suffix}"
        files.append(saved(file, held | {"visible": WHOLE["visible"]}))
    return files


KINDS: dict[str, Callable[[Path], list[Path]]] = {
    "npz": lambda folder: [saved(folder / "all.npz", WHOLE)],
    "compressed npz": lambda folder: [saved(folder / "all.npz", WHOLE, np.savez_compressed)],
    "safetensors": lambda folder: [saved(folder / "all.safetensors", WHOLE)],
    "an npz each": lambda folder: one_each(folder, ".npz"),
    "a safetensors each": lambda folder: one_each(folder, ".safetensors"),
}


@pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
def test_files_hold_what_was_written_into_them(write: Callable[[Path], list[Path]], tmp_path: Path):
    source = from_files(write(tmp_path))
    np.testing.assert_array_equal(source.windows.token_ids, IDS)
    assert list(source.windows.names) == NAMES
    assert source.visible == (POSITIONS, POSITIONS)
    assert source.texts == {int(number): f"<{number}>" for number in np.unique(IDS)}
    layers = everything(source)
    assert len(layers) == DOCUMENTS * LAYERS
    for place, layer in enumerate(layers):
        document, index = divmod(place, LAYERS)
        np.testing.assert_array_equal(layer.alpha[0, 0].numpy(), ALPHA[document, index])
        np.testing.assert_array_equal(layer.values[0].numpy(), VALUES[document, index])


def test_documents_without_names_are_called_after_their_files(tmp_path: Path):
    several = saved(tmp_path / "all.npz", PLAIN)
    assert from_files([several]).windows.names == tuple(f"{several}:{index}" for index in range(3))
    single = saved(tmp_path / "one.npz", {name: array[0] for name, array in PLAIN.items()})
    assert from_files([single]).windows.names == (str(single),)
    assert not from_files([single]).windows.known


def test_bfloat16_of_safetensors_is_widened(tmp_path: Path):
    numbers = {name: torch.tensor(array).bfloat16() for name, array in PLAIN.items()}
    save_file(numbers, tmp_path / "all.safetensors")
    source = from_files([tmp_path / "all.safetensors"])
    assert source.provenance()["dtype"] == "bfloat16"
    assert torch.equal(read(source, 0)[0].values[0], numbers["values"][0, 0].float())


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_is_read_a_layer_at_a_time(
    save: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sizes: list[int] = []
    read_member = zipfile.ZipExtFile.read

    def measured(self: zipfile.ZipExtFile, n: int) -> bytes:
        sizes.append(n)
        return read_member(self, n)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", measured)
    everything(from_files([saved(tmp_path / "all.npz", PLAIN, save)]))
    assert min(sizes) >= 0  # never all
    assert max(sizes) <= max(VALUES[0, 0].nbytes, 1024)


Make = Callable[[Path], Any]


def npz(**changed: Any) -> Make:
    """An archive with changed arrays."""
    return lambda folder: saved(folder / "a.npz", WHOLE | changed)


def safetensors(**changed: Any) -> Make:
    return lambda folder: saved(folder / "a.safetensors", WHOLE | changed)


def metadata(**texts: str) -> Make:
    numbers = {name: torch.tensor(array) for name, array in PLAIN.items()}
    return lambda folder: save_file(numbers, folder / "a.safetensors", metadata=texts)


def without(file: str, name: str) -> Make:
    held = {key: array for key, array in WHOLE.items() if key != name}
    return lambda folder: saved(folder / file, held)


def content(name: str, text: bytes) -> Make:
    return lambda folder: (folder / name).write_bytes(text)


def cut(make: Make) -> Make:
    def write(folder: Path) -> None:
        path = make(folder)
        os.truncate(path, int(path.stat().st_size * 0.7))

    return write


def flipped(folder: Path) -> None:
    """Change a byte of a value in the middle of the file."""
    path = npz()(folder)
    text = bytearray(path.read_bytes())
    text[text.index(VALUES[2, 1].tobytes()) + 5] ^= 1
    path.write_bytes(text)


def lying(folder: Path) -> None:
    """An archive of an array that says it is larger than it is."""
    path = npz()(folder)
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in held.items():
            archive.writestr(name, text.replace(b"(3, 2, 4, 20)", b"(9, 2, 4, 20)"))


def without_header(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("alpha.npy", b"nothing of NumPy")
        archive.writestr("values.npy", b"")


OBJECTS = np.array([{"a": 1}], dtype=object)
SHAPE = IDS.shape
NO_NPZ, NO_SAFETENSORS = "cannot be read as .npz", "cannot be read as .safetensors"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "is no such file, expected"),
        (lambda folder: (folder / "a.npz").mkdir(), "is no such file, expected"),
        (lambda folder: os.mkfifo(folder / "a.npz"), "is no such file, expected"),
        (lambda folder: os.symlink("/dev/zero", folder / "a.npz"), "is no such file, expected"),
        (content("a.pt", b"PK"), "is of another kind"),
        (without("a.npz", "alpha"), "has no array alpha, only"),
        (without("a.safetensors", "values"), "has no array values, only alpha"),
        (npz(alpha=OBJECTS), "alpha holds Python objects"),
        (npz(names=OBJECTS), "names holds Python objects"),
        (npz(alpha=np.zeros(ALPHA.shape, "V2")), "as .npz stores bfloat16"),
        (npz(alpha=np.ones(ALPHA.shape, int)), "holds int64, expected"),
        (npz(values=np.asfortranarray(VALUES)), "has Fortran order"),
        (npz(alpha=ALPHA[0, 0]), "alpha of shape (4, 20) and values of shape"),
        (npz(alpha=ALPHA[:2]), "alpha of shape (2, 2, 4, 20)"),
        (cut(npz()), NO_NPZ),
        (cut(safetensors()), NO_SAFETENSORS),
        (content("a.npz", b""), NO_NPZ),
        (content("a.npz", b"weights"), NO_NPZ),
        (content("a.safetensors", b""), NO_SAFETENSORS),
        (flipped, f"{NO_NPZ} (Bad CRC"),
        (lying, "alpha differs in size from its shape (9, 2, 4, 20)"),
        (without_header, NO_NPZ),
        (metadata(names="[1,"), "names of its metadata is no JSON of texts"),
        (metadata(names='"a"'), "names has shape (), expected one entry"),
        (metadata(names='["a", "b", "\\ud800"]'), "names: character 0 is half of one (\\ud800)"),
        (npz(names=np.array(NAMES[:2])), "names has shape (2,), expected one"),
        (npz(names=np.array(NAMES)[:, None]), "names has shape (3, 1), expected one"),
        (npz(names=np.array(["a", "b", "c\ud800"])), "names: character 1 is half of one (\\ud800)"),
        (npz(names=np.array([b"a", b"b", b"\xff"])), "names: are no texts ('utf-8'"),
        (npz(tokens=np.full(SHAPE, 2**31 - 1, np.uint32).view("U1")), "tokens: are no texts ("),
        (npz(token_ids=np.ones((2, 20), int)), "token_ids has shape (2, 20)"),
        (npz(token_ids=np.full(SHAPE, 2**64 - 1, np.uint64)), "the largest is 18446"),
        (safetensors(token_ids=torch.tensor(IDS).bfloat16()), NO_SAFETENSORS),
        (safetensors(token_ids=torch.tensor(IDS).to(torch.float8_e5m2)), NO_SAFETENSORS),
    ],
)
def test_what_is_no_such_file_is_refused(make: Make, said: str, tmp_path: Path):
    make(tmp_path)
    path = next(tmp_path.iterdir(), tmp_path / "a.npz")
    with refused(re.escape(said)):
        everything(from_files([path]))


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path):
    first = npz()(tmp_path)
    fewer = without("b.npz", "token_ids")(tmp_path)
    window = saved(tmp_path / "c.npz", WHOLE | {"visible": np.array([5, POSITIONS])})
    for paths, said in (
        ([first, fewer], "Name files of one run"),
        ([first, window], "Name files of one run"),
        ([first, first], "names: 6 names, 3 of them different"),
        ([], "No file was named"),
    ):
        with refused(said):
            from_files(paths)


def test_no_object_of_an_archive_is_unpickled(tmp_path: Path):
    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "harm",))

    np.savez(tmp_path / "a.npz", alpha=np.array([Harmful()], dtype=object))
    with refused("Python objects"):
        NpzFile(tmp_path / "a.npz").whole("alpha")
    assert not (tmp_path / "harm").exists()
