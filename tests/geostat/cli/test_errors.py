"""Refusals of the command: one line with the remedy on stderr, an exit code, existing files kept.

What each option and file must be is tested where it is checked.
"""

import errno
import os
from functools import partial
from pathlib import Path

import pytest
from support.damage import damaged, first_file, flipped
from support.places import contents
from support.raising import raising
from support.spine import Finished, argv, capturing, geostat, refused

from empirical.store.lock import alone
from empirical.store.store import Store
from geostat.errors import InputError
from geostat.runs.options import FiguresOptions, TablesOptions


@pytest.mark.usefixtures("displayed", "read_once")
@pytest.mark.parametrize(
    ("line", "message"),
    [  # an error of each package
        ("run no/such/model", "no/such/model: no such file or folder"),
        ("capture {model} --n 0", "--n 0: sizes 0 to 0, expected 1 to 1024"),
        ("theory 99 --errata", "no erratum has number 99"),
        ("confront absent", "no such run. Make one with `geostat run"),
        ("tables {run} --only norm", "'norm' is no table of this run, expected some of "),
    ],
)
def test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_folder: Path,
    finished: Finished,
    line: str,
    message: str,
):
    monkeypatch.chdir(tmp_path)
    result = refused(geostat(*argv(line.format(model=model_folder, run=finished.out))))
    assert message in result
    assert result.endswith(".")
    assert not contents(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("capture --length long", "'--length'"),
        ("capture --lenght 9", "--lenght (Possible options: --length). See `geostat capture --hel"),
        ("--bogus", "No such option: --bogus. See `geostat --help`."),
        ("kapture", "No such command 'kapture'. Did you mean 'capture'? See `geostat --help`."),
        ("fit", "See `geostat fit --help`."),
        ("run --text a b c", "(c). Repeat --text for each text. See `geostat run --help`."),
        ("fit a b", "(b). See `geostat fit --help`."),
    ],
)
def test_an_unparsable_command_line_is_one_line(line: str, message: str):
    result = refused(geostat(*argv(line)))
    assert message in result
    assert result.endswith("--help`.")


@pytest.mark.parametrize("line", ["capture --text ''", "fit ''", "run --out '' --quiet"])
def test_an_empty_argument_does_not_name_the_current_folder(line: str):
    *_, after = argv(line.partition(" ''")[0])
    assert refused(geostat(*argv(line))).startswith(f"an empty word after {after}, expected")


TABLES, FIGURES = (partial(make, run=Path("run")) for make in (TablesOptions, FiguresOptions))
WIDTH = "expected 2.5 to 14 inches, as a number with in,"


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (TABLES, {"formats": "tex"}, "--format tex: expected one of latex, markdown, html,"),
        (TABLES, {"columns": 3}, "--columns 3: expected 1 or 2. Give the number of columns of"),
        (TABLES, {"standalone": True, "formats": "csv"}, "--format csv: expected latex among the"),
        (FIGURES, {"formats": "gif"}, "--format gif: expected one of pdf, png, svg."),
        *((FIGURES, {"width": width}, WIDTH) for width in ("3", "1.2.3in", "30cm0", "99cm")),
        (FIGURES, {"style": "poster"}, "--style poster: expected one of paper, slides."),
        (FIGURES, {"style": "slides", "width": "3.25in"}, "expected at least 8 inches for --style"),
    ],
)
def test_invalid_options_of_tables_and_figures_are_refused(make, change: dict, message: str):
    with pytest.raises(InputError) as caught:
        make(**change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--n 1,2", "was measured with n."),
        ("--special-tokens none", "special_tokens = default, this run has none"),
    ],
)
def test_a_store_of_other_settings_is_refused_and_kept(
    captured: Path, model_folder: Path, text_folder: Path, options: str, message: str
):
    before = contents(captured)
    capture = capturing(model_folder, text_folder, captured)
    result = refused(geostat(*capture, "--resume", *argv(options)))
    assert message in result
    assert "Use --fresh to measure again, or another --out." in result
    assert contents(captured) == before


def test_a_damaged_store_is_exit_code_4(
    two_documents: Store, model_folder: Path, text_folder: Path
):
    run = two_documents.path
    chunk = first_file(run / "capture" / "cosine_mean" / "c" / "0")
    remedy = "measure again with `--fresh` (of `geostat run` or `geostat capture`)"
    with damaged(chunk, flipped):
        assert remedy in refused(geostat("fit", run, "--quiet"), code=4)
    with damaged(chunk, Path.unlink):
        capture = capturing(model_folder, text_folder, run)
        assert remedy in refused(geostat(*capture), code=4)


@pytest.mark.parametrize("command", ["confront", "capture"])
def test_a_second_writer_is_refused_and_changes_nothing(
    two_documents: Store, model_folder: Path, text_folder: Path, command: str
):
    run = two_documents.path
    words = [command, run, "--quiet"]
    if command == "capture":
        words = capturing(model_folder, text_folder, run, documents=3)
    before = contents(run)
    with alone(run):
        line = refused(geostat(*words))
    assert (
        line == f"{run}: another geostat command is writing there, expected no other. Wait"
        " until it ends, or use another run or --out."
    )
    assert contents(run) == before


@pytest.mark.parametrize("command", ["report", "tables"])
def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, finished: Finished, command: str
):
    (tmp_path / "file").write_text("in the way")
    line = refused(geostat(command, finished.store, "--out", tmp_path / "file" / "out"))
    assert "is a file, expected a folder to write in" in line
    assert (tmp_path / "file").read_text() == "in the way"


UNWRITABLE = "a file: cannot be written"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, f"{UNWRITABLE} (No space left on device). Free some space, or choose"),
        (errno.EROFS, f"{UNWRITABLE} (Read-only file system). Choose another --out."),
        (errno.EACCES, "a file: cannot be opened (Permission denied). Check its permissions, or"),
    ],
)
def test_an_os_error_is_not_an_internal_error(
    captured: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
):
    error = OSError(code, os.strerror(code), "a file")
    monkeypatch.setattr("geostat.runs.pipeline.fit", raising(error))
    assert refused(geostat("fit", captured, "--quiet")).startswith(message)


def test_internal_errors_keep_their_traceback(captured: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("geostat.runs.pipeline.fit", raising(LookupError("of our own")))
    with pytest.raises(LookupError, match="of our own"):
        geostat("fit", captured)
