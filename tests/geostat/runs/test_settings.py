"""What a run is asked for: options read, and refused in one line with the remedy."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from empirical.measure.sizes import default_n
from empirical.sources.windows import LEAST_LENGTH
from geostat.cli.theory import statement
from geostat.datasets.tokens import head_indices
from geostat.errors import REFUSED, InputError
from geostat.runs import measurement, settings, stages
from geostat.runs.effective.asked import Asked
from geostat.runs.normaliser.normaliser import lengths_of
from geostat.runs.settings import Settings
from geostat.what_if.start import measured_of_head


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", [1]),
        ("3,1,2", [1, 2, 3]),
        (" 4 - 6 , 9".replace(" - ", "-"), [4, 5, 6, 9]),
        ("40", [40]),
        ("1-3,2-4", [1, 2, 3, 4]),
        ("all", range(1, 41)),
    ],
)
def test_sizes_are_read(text, expected):
    np.testing.assert_array_equal(settings.sizes(text, 40), list(expected))


def test_sizes_by_default_are_those_of_the_measurement():
    np.testing.assert_array_equal(settings.sizes("default", 1024), default_n(1024))


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "0-3",
        "41",
        "1,999999999999",
        "39-41",
        "",
        ",",
        "x",
        "-1",
        "1-",
        "1.5",
        "²",
        "5-3",
        "1,5-3",
        "1 2",
    ],
)
def test_sizes_out_of_range_are_refused_in_one_line_with_the_remedy(text):
    with pytest.raises(InputError) as caught:
        settings.sizes(text, 40)
    said = str(caught.value)
    assert said.startswith(f"--n {text}: ")
    assert ". Use " in said
    assert "\n" not in said
    if text in {"0", "41", "1,999999999999"}:
        assert "40" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"documents": 0}, "--documents 0: expected at least 1"),
        ({"length": 3}, "--length 3: expected at least 4"),
        ({"batch": 0}, "--batch 0"),
        ({"seed": -1}, "--seed -1: expected at least 0"),
        ({"text": (Path("a"),), "dataset": "b"}, "--text and --dataset were both given"),
        ({"documents": 2**63}, "--documents 9223372036854775808: expected at most 1048576"),
        ({"length": 10**30}, f"--length {10**30}: expected at most 2147483647"),
        ({"length": "40"}, "--length '40': expected at least 4, a whole number"),
        ({"documents": True}, "--documents True: expected at least 1, a whole number"),
        ({"trust_remote_code": "no"}, "trust_remote_code 'no': expected a truth value"),
        ({"documents": 2.5}, "--documents 2.5: expected at least 1, a whole number"),
        (
            {"model": " "},
            (
                "the model's name is empty, expected a Hugging Face id, a folder or a .gguf file."
                " Leave it out"
            ),
        ),
        ({"dataset": ""}, "--dataset is empty, expected the id of a hub dataset"),
        (
            {"dtype": "int3"},
            "--dtype int3: expected one of float32, bfloat16, float16. Use one of those.",
        ),
        (
            {"device": "abacus"},
            "--device abacus: expected one of auto, cpu, cuda, mps. Use one of those.",
        ),
        (
            {"special_tokens": "some"},
            "--special-tokens some: expected one of default, none. Use one of those.",
        ),
        (
            {"convention": "mine"},
            "--convention mine: expected one of paper, followup. Use one of those.",
        ),
    ],
)
def test_settings_out_of_range_are_refused(change, said):
    with pytest.raises(InputError) as caught:
        Settings(**change)
    assert said in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    asked = Settings(documents=np.int64(2), seed=np.uint8(3))
    assert [type(one) for one in (asked.documents, asked.seed)] == [int, int]


@pytest.mark.parametrize("flag", ["fresh", "null"])
def test_a_word_is_no_flag(tmp_path: Path, flag: str):
    with pytest.raises(InputError, match=f"^{flag} 'no': expected a truth value"):
        measurement.measure(Settings(), tmp_path, **{flag: "no"})


def test_the_least_length_is_the_same_for_windows_and_settings():
    assert Settings(length=LEAST_LENGTH).length == LEAST_LENGTH
    with pytest.raises(InputError, match=f"Use --length {LEAST_LENGTH} or more"):
        Settings(length=LEAST_LENGTH - 1)


def test_a_text_where_the_model_stands_is_told_how_texts_are_named(
    tmp_path: Path, model_folder: Path
):
    for name in ("a.txt", "b.txt", "model.gguf"):
        (tmp_path / name).write_text("text")
    (tmp_path / "folder").mkdir()
    one, two, folder = (tmp_path / name for name in ("a.txt", "b.txt", "folder"))
    refusals = [
        (
            Settings(model=str(two), text=(one,)),
            f"Repeat --text for each text: `--text {one} --text {two}`.",
        ),
        (
            Settings(model=str(folder), text=(one,)),
            f"Repeat --text for each text: `--text {one} --text {folder}`.",
        ),
        (Settings(model=str(two)), f"Name a text with --text {two}."),
    ]
    for asked, said in refusals:
        with pytest.raises(InputError) as caught:
            measurement.measure(asked, tmp_path / "out")
        assert str(caught.value).endswith(said)
    for model in (None, str(model_folder), str(tmp_path / "model.gguf"), "no/such"):
        settings.refuse_text_as_model(Settings(model=model, text=(one,)))
    settings.refuse_text_as_model(Settings(model=str(folder)))


def test_names_of_heads_editions_and_grids_are_read():
    assert settings.named_heads(["L5H3", "l0h12"]) == ((5, 3), (0, 12))
    with pytest.raises(InputError, match=r"--head 5.3: expected a layer and a head, such as L5H3"):
        settings.named_heads(["5.3"])
    assert stages.chosen_editions(None) == ("printed", "sharp")
    assert stages.chosen_editions(["sharp"]) == ("sharp",)
    with pytest.raises(InputError, match="--edition best: expected one of printed, sharp"):
        stages.chosen_editions(["sharp", "best"])
    assert (stages.envelope_points("default"), stages.envelope_points("all")) == (24, None)
    with pytest.raises(InputError, match="--n 3: expected default or all"):
        stages.envelope_points("3")


DIGITS = "9" * 5000
RUN = xr.DataTree.from_dict({"/capture": xr.Dataset()})


@pytest.mark.parametrize(
    "read",
    [
        lambda: settings.sizes(DIGITS, 40),
        lambda: settings.sizes(f"1-{DIGITS}", 40),
        lambda: settings.sizes(f"{DIGITS}-3", 40),
        lambda: settings.named_heads([f"L{DIGITS}H1"]),
        lambda: Settings(queries=f"last:{DIGITS}"),
        lambda: lengths_of(DIGITS, 40),
        lambda: Asked(heads=(f"L1H{DIGITS}",)).scopes(2, 2),
        lambda: Asked(layers=DIGITS).scopes(2, 2),
        lambda: Asked(target=f"last:{DIGITS}"),
        lambda: statement(f"erratum {DIGITS}"),
        lambda: statement(DIGITS, errata=True),
        lambda: statement(f"({DIGITS})"),
        lambda: head_indices(xr.Dataset(), f"L1H{DIGITS}"),
        lambda: measured_of_head(RUN, f"L1H{DIGITS}"),
    ],
)
def test_more_digits_than_python_reads_are_refused_in_a_line(read):
    with pytest.raises(REFUSED) as caught:
        read()
    assert "\n" not in str(caught.value)


def test_zeros_before_a_number_change_nothing():
    assert settings.sizes("0" * 5000 + "7", 40).tolist() == [7]
    assert lengths_of("0" * 5000 + "20", 40) == [20, 40]
