"""Options of a run: parsing, and one-line refusals with a remedy."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from empirical.measure.selection import default_n
from empirical.sources.windows import LEAST_LENGTH
from geostat.cli.theory import statement
from geostat.datasets.tokens import head_indices
from geostat.errors import INPUT_ERRORS, InputError
from geostat.experiments.effective.options import EffectiveOptions
from geostat.experiments.normaliser.measure import lengths_of
from geostat.options import named_heads
from geostat.runs import measurement
from geostat.runs.options import CaptureOptions, ConfrontOptions
from geostat.what_if.answer import measured_of_head


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", [1]),
        ("3,1,2", [1, 2, 3]),
        (" 4-6 , 9", [4, 5, 6, 9]),
        ("40", [40]),
        ("1-3,2-4", [1, 2, 3, 4]),
        ("0" * 5000 + "7", [7]),
        ("all", range(1, 41)),
        ("default", default_n(40)),
    ],
    ids=lambda value: value[-9:] if isinstance(value, str) else "",
)
def test_sizes_are_parsed(text, expected):
    np.testing.assert_array_equal(measurement.sizes(text, 40), list(expected))


def test_leading_zeros_of_lengths_are_ignored():
    assert lengths_of("0" * 5000 + "20", 40) == [20, 40]


@pytest.mark.parametrize(
    "text",
    [
        *("0", "0-3", "41", "1,999999999999", "39-41", "", ",", "x", "-1", "1-", "1.5", "²"),
        *("5-3", "1,5-3", "1 2"),
    ],
)
def test_sizes_out_of_range_are_refused_in_one_line_with_the_remedy(text):
    with pytest.raises(InputError) as caught:
        measurement.sizes(text, 40)
    message = str(caught.value)
    assert message.startswith(f"--n {text}: ")
    assert ". Use " in message
    assert "\n" not in message
    if text in {"0", "41", "1,999999999999"}:
        assert "40" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": 0}, "--documents 0: expected at least 1"),
        ({"documents": 2**63}, "--documents 9223372036854775808: expected at most 1048576"),
        ({"documents": True}, "--documents True: expected at least 1, a whole number"),
        ({"documents": 2.5}, "--documents 2.5: expected at least 1, a whole number"),
        ({"length": LEAST_LENGTH - 1}, f"--length 3: expected at least {LEAST_LENGTH}"),
        ({"length": 10**30}, f"--length {10**30}: expected at most 2147483647"),
        ({"length": "40"}, "--length '40': expected at least 4, a whole number"),
        ({"batch": 0}, "--batch 0"),
        ({"seed": -1}, "--seed -1: expected at least 0"),
        ({"model": " "}, "the model's name is empty, expected a Hugging Face id, a folder or a"),
        ({"dataset": ""}, "--dataset is empty, expected the id of a hub dataset"),
        ({"text": (Path("a"),), "dataset": "b"}, "--text and --dataset were both given"),
        ({"dtype": "int3"}, "--dtype int3: expected one of float32, bfloat16, float16. Use one"),
        ({"device": "abacus"}, "--device abacus: expected one of auto, cpu, cuda, mps. Use one"),
        ({"measure": "gpu"}, "--measure gpu: expected one of auto, cpu, device. Use one"),
        ({"special_tokens": "some"}, "--special-tokens some: expected one of default, none."),
        ({"convention": "mine"}, "--convention mine: expected one of paper, followup. Use one"),
        ({"trust_remote_code": "no"}, "trust_remote_code 'no': expected a truth value"),
        ({"fresh": True, "resume": True}, "--fresh and --resume were both given, expected one"),
        ({"fresh": "no"}, "fresh 'no': expected a truth value"),
        ({"null": "no"}, "null 'no': expected a truth value"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str):
    with pytest.raises(InputError) as caught:
        CaptureOptions(**change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numpy_integers_and_the_shortest_window_are_accepted():
    options = CaptureOptions(documents=np.int64(2), seed=np.uint8(3), length=LEAST_LENGTH)
    assert [type(value) for value in (options.documents, options.seed)] == [int, int]


def test_a_text_in_place_of_the_model_is_refused_with_the_text_option(
    tmp_path: Path, model_folder: Path
):
    one, two, gguf, folder = (tmp_path / name for name in ("a.txt", "b.txt", "m.gguf", "folder"))
    for file in (one, two, gguf):
        file.write_text("text")
    folder.mkdir()
    repeat = f"Repeat --text for each text: `--text {one} --text "
    for settings, remedy in (
        (CaptureOptions(model=str(two), text=(one,)), f"{repeat}{two}`."),
        (CaptureOptions(model=str(folder), text=(one,)), f"{repeat}{folder}`."),
        (CaptureOptions(model=str(two)), f"Name a text with --text {two}."),
    ):
        with pytest.raises(InputError) as caught:
            measurement.measure(replace(settings, out=tmp_path / "out"))
        assert str(caught.value).endswith(remedy)
    for model in (None, str(model_folder), str(gguf), "no/such"):
        measurement.refuse_text_as_model(CaptureOptions(model=model, text=(one,)))
    measurement.refuse_text_as_model(CaptureOptions(model=str(folder)))


def test_heads_are_parsed():
    assert named_heads(["L5H3", "l0h12"]) == ((5, 3), (0, 12))
    with pytest.raises(InputError, match=r"--head 5.3: expected a layer and a head, such as L5H3"):
        named_heads(["5.3"])


confronting = partial(ConfrontOptions, run=Path("run.zarr"))


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({}, "editions", ("printed", "sharp")),
        ({"edition": ("sharp",)}, "editions", ("sharp",)),
        ({}, "points", 24),
        ({"n": "all"}, "points", None),
    ],
)
def test_editions_and_grids_are_keywords_of_a_confrontation(options, name, value):
    assert confronting(**options).keywords()[name] == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edition": ("sharp", "best")}, "--edition best: expected one of printed, sharp"),
        ({"n": "3"}, "--n 3: expected default or all"),
    ],
)
def test_unknown_editions_and_grids_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        confronting(**options).keywords()


DIGITS = "9" * 5000
RUN = xr.DataTree.from_dict({"/capture": xr.Dataset()})


@pytest.mark.parametrize(
    "read",
    [
        lambda: measurement.sizes(DIGITS, 40),
        lambda: measurement.sizes(f"1-{DIGITS}", 40),
        lambda: measurement.sizes(f"{DIGITS}-3", 40),
        lambda: named_heads([f"L{DIGITS}H1"]),
        lambda: CaptureOptions(queries=f"last:{DIGITS}"),
        lambda: lengths_of(DIGITS, 40),
        lambda: EffectiveOptions(heads=(f"L1H{DIGITS}",)).scopes(2, 2),
        lambda: EffectiveOptions(layers=DIGITS).scopes(2, 2),
        lambda: EffectiveOptions(target=f"last:{DIGITS}"),
        lambda: statement(f"erratum {DIGITS}"),
        lambda: statement(DIGITS, errata=True),
        lambda: statement(f"({DIGITS})"),
        lambda: head_indices(xr.Dataset(), f"L1H{DIGITS}"),
        lambda: measured_of_head(RUN, f"L1H{DIGITS}"),
    ],
)
def test_more_digits_than_python_reads_are_refused_in_a_line(read):
    with pytest.raises(INPUT_ERRORS) as caught:
        read()
    assert "\n" not in str(caught.value)
