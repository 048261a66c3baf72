"""Protections taken out one by one: each fault of docs/reliability.md is to fail its test then.

`PYTHONPATH=tests .venv/bin/python -m support.unprotected` does that in a copy of the project,
prints a table, and ends with exit code 1 where a test passed without what it guards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "report")
LONGEST = 300.0
"""Seconds that a test may take; one that takes longer hangs, which is a failure, too."""
FAILED = 1
"""Exit code of pytest where tests ran and failed; others tell that none ran."""


@dataclass(frozen=True, slots=True)
class Protection:
    """What guards against a fault: a text in a file, and what stands there without it."""

    fault: str
    file: str
    text: str
    without: str
    test: str
    """File and name of the test that is to fail."""
    choice: str = ""
    """Which of its cases, by pytest's -k."""


STORE, CLI = "tests/empirical/store", "tests/geostat/cli"
LOCK, DISK = "empirical/store/lock.py", "empirical/store/disk.py"
INTEGRITY, STORED = "empirical/store/integrity.py", "empirical/store/stored_run.py"
BUNDLE, PROCESS = "empirical/store/bundle.py", "geostat/cli/process.py"

PROTECTIONS = (
    Protection(
        "killed while results move",
        STORED,
        '            if "pending" in attributes["manifest"]:',
        '            if "pending" in attributes:',
        f"{STORE}/test_damage.py::test_a_killed_move_is_finished_by_who_opens_the_run_next",
    ),
    Protection(
        "killed between two moves",
        LOCK,
        "os.replace(aside, path)",
        "pass",
        f"{STORE}/test_lock.py::test_a_process_killed_between_the_two_moves_loses_nothing",
    ),
    Protection(
        "killed while it settles",
        LOCK,
        "            settle(path)",
        "            pass",
        f"{STORE}/test_journal.py::test_a_process_killed_while_it_settles_ends_like_one_that_was_not",
    ),
    Protection(
        "power lost before a file is on the disk",
        DISK,
        "        os.fsync(descriptor)",
        "        pass",
        f"{STORE}/test_disk.py::test_to_flush_is_to_wait_for_the_disk",
    ),
    Protection(
        "disk full, disk failing",
        DISK,
        "        raise InputError(text) from error",
        "        raise",
        f"{STORE}/test_disk.py::test_a_full_disk_is_one_line_and_keeps_the_documents",
    ),
    Protection(
        "a disk that fails while a file is replaced",
        DISK,
        '        with open(draft, "xb") as file:',
        '        path.write_bytes(b"")\n        with open(draft, "xb") as file:',
        f"{STORE}/test_every_step.py::test_a_step_that_fails_loses_nothing_whichever_it_is",
        "lasting",
    ),
    Protection(
        "a first document that fails",
        "empirical/store/store.py",
        "                shutil.rmtree(self._folder, ignore_errors=True)\n            raise",
        "                pass\n            raise",
        f"{STORE}/test_disk.py::test_a_fresh_store_that_fails_leaves_the_old_one_and_nothing_else",
    ),
    Protection(
        "two writers",
        LOCK,
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        f"{STORE}/test_lock.py::test_a_run_has_one_writer_at_a_time_under_all_its_names",
    ),
    Protection(
        "read while another writes",
        STORED,
        "                if self._alone or mark_of(self.path) == self._seen:\n"
        "                    return result",
        "                return result",
        f"{STORE}/test_damage.py::test_a_reader_who_read_while_another_wrote_reads_again",
    ),
    Protection(
        "a file flipped, cut, emptied",
        INTEGRITY,
        "                if digest(path, name) == wanted:",
        "                if digest(path, name):",
        f"{STORE}/test_damage.py::test_every_damaged_file_is_found_and_named",
    ),
    Protection(
        "a file removed",
        INTEGRITY,
        "            why = MISSING\n",
        "            continue\n",
        f"{STORE}/test_damage.py::test_every_damaged_file_is_found_and_named",
    ),
    Protection(
        "a chunk of another document",
        INTEGRITY,
        'total.hexdigest() != settled[document]["digest"]',
        "False",
        f"{STORE}/test_damage.py::test_a_chunk_in_the_place_of_another_is_found",
    ),
    Protection(
        "a file in a group that nobody wrote",
        INTEGRITY,
        "        known_there = file.as_posix() in known or file.parent in apart",
        "        known_there = True",
        f"{STORE}/test_damage.py::test_a_file_that_does_not_belong_to_the_run_is_found",
    ),
    Protection(
        "an edited manifest",
        BUNDLE,
        'part and not part.startswith(".")',
        "part",
        f"{STORE}/test_damage.py::test_an_edited_manifest_is_damaged_even_if_it_states_its_digest",
    ),
    Protection(
        "a link in somebody else's run",
        BUNDLE,
        'getattr(os, "O_NOFOLLOW", 0)',
        "0",
        f"{STORE}/test_foreign.py::test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched",
        "link",
    ),
    Protection(
        "a pipe in somebody else's run",
        BUNDLE,
        'getattr(os, "O_NONBLOCK", 0)',
        "0",
        f"{STORE}/test_foreign.py::test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched",
        "mkfifo",
    ),
    Protection(
        "a file without end in somebody else's run",
        BUNDLE,
        "        if status.st_size > limit:",
        "        if status is None:",
        f"{STORE}/test_foreign.py::test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched",
        "sparse",
    ),
    Protection(
        "moves that began elsewhere",
        LOCK,
        "    return pending is not None and not can_finish(path, pending)",
        "    return False",
        f"{STORE}/test_damage.py"
        "::test_moves_that_did_not_begin_on_this_machine_are_never_carried_out",
    ),
    Protection(
        "a file that calls a run a working copy",
        "empirical/store/remote/origin.py",
        " or not path.resolve().is_relative_to(copies().resolve())",
        "",
        f"{STORE}/test_foreign.py::test_what_names_a_run_a_working_copy_sends_and_removes_nothing",
    ),
    Protection(
        "codecs of somebody else's choice",
        "empirical/store/manifest_shape.py",
        '        and one["name"] in CODECS',
        "",
        f"{STORE}/test_foreign.py::test_no_codec_but_geostats_own_reaches_zarr",
    ),
    Protection(
        "a document of another run in the journal",
        "empirical/store/journal.py",
        "    if before is not None and link(before, row) != chain_of(name):",
        "    if before is None:",
        f"{STORE}/test_foreign.py::test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched",
        "another",
    ),
    Protection(
        "a machine that refuses is no damage",
        STORED,
        "            check(self.path, self.attributes, results=self._results)\n            reason",
        "            raise StoreError(str(error)) from error\n            reason",
        f"{STORE}/test_disk.py"
        "::test_what_a_library_raises_while_bytes_are_sound_is_not_called_damage",
    ),
    Protection(
        "a repair that comes out otherwise",
        "empirical/store/repair.py",
        "                raise StoreError(OTHER.format(what=self.path / FILE))",
        "                pass",
        f"{STORE}/test_repair.py::test_documents_that_come_out_otherwise_change_nothing",
    ),
    Protection(
        "a damaged run: exit code 4",
        PROCESS,
        "4 if isinstance(error, StoreError) else 2",
        "2",
        f"{CLI}/test_errors.py::test_a_damaged_store_is_exit_code_4",
    ),
    Protection(
        "bad input: one line",
        PROCESS,
        "(InputError, MeasurementError, TheoryError, ReportError, Unmet, StoreError)",
        "(Unmet, StoreError)",
        f"{CLI}/test_errors.py::test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing",
    ),
    Protection(
        "NaN in a captured row",
        "empirical/capture/layer_view.py",
        "    if not sound.all():",
        "    if sound is None:",
        f"{CLI}/test_errors.py::test_a_captured_row_with_nan_is_refused",
    ),
    Protection(
        "SIGTERM",
        PROCESS,
        "            signal.signal(number, _stop)",
        "            pass",
        f"{CLI}/test_stops.py::test_a_stopped_stage_says_so_in_a_line_and_can_be_done_again",
    ),
    Protection(
        "a second interrupt",
        PROCESS,
        "        signal.signal(number, signal.SIG_IGN)",
        "        pass",
        f"{CLI}/test_surroundings.py::test_a_second_interrupt_changes_nothing",
    ),
    Protection(
        "a reader that has gone",
        PROCESS,
        "        sys.exit(141)",
        "        raise",
        f"{CLI}/test_streams.py::test_a_reader_that_has_gone_ends_the_command_quietly",
    ),
    Protection(
        "an output that is full",
        PROCESS,
        "        _fail(_refused_by_disk(error), 2)",
        "        raise",
        f"{CLI}/test_streams.py::test_an_output_that_is_full_is_refused_in_a_line",
    ),
    Protection(
        "a closed stream",
        PROCESS,
        "            stream is None\n",
        "            stream == 0\n",
        f"{CLI}/test_streams.py::test_a_closed_stream_is_as_good_as_none",
    ),
    Protection(
        "the C locale",
        PROCESS,
        '            stream.reconfigure(errors="backslashreplace")',
        "            pass",
        f"{CLI}/test_streams.py::test_a_letter_that_the_output_lacks_is_written_as_its_code",
    ),
    Protection(
        "no folder for compiled kernels",
        "theory/compiled.py",
        "    except RuntimeError:\n        return False",
        "    except RuntimeError:\n        raise",
        f"{CLI}/test_unprivileged.py::test_kernels_are_compiled_where_nothing_can_be_kept",
        "theory",
    ),
    Protection(
        "a name that moves a terminal",
        PROCESS,
        "{shortened(printable(line))}",
        "{line}",
        f"{CLI}/test_surroundings.py::test_no_name_moves_or_colours_a_terminal",
    ),
    Protection(
        "killed while it writes a page or a table",
        "reports/files.py",
        "            left.unlink()",
        "            pass",
        "tests/reports/test_files.py::"
        "test_drafts_of_killed_processes_go_and_those_being_written_stay",
    ),
    Protection(
        "two that write a page or a table",
        "reports/files.py",
        "flock(file, LOCK_EX | LOCK_NB)",
        "pass",
        "tests/reports/test_files.py::"
        "test_drafts_of_killed_processes_go_and_those_being_written_stay",
    ),
    Protection(
        "results whose moves a disk breaks off",
        "empirical/store/store.py",
        "                    finish(self.path)\n                self._reread",
        "                    pass\n                self._reread",
        f"{STORE}/test_damage.py::"
        "test_moves_that_stand_in_the_root_are_finished_though_a_step_failed",
    ),
    Protection(
        "a name with a script in a page",
        "reports/page/page.py",
        "        autoescape=True,",
        "        autoescape=False,",
        "tests/reports/page/test_page.py::test_foreign_text_is_escaped",
    ),
    Protection(
        "a name with a command in a table",
        "reports/text/latex.py",
        "        _LATEX_TEXT.get(one, one if _LATEX_LETTERS.match(one) else "
        'f"[U+{ord(one):04X}]")\n',
        "        one\n",
        "tests/reports/tables/test_tables.py::test_foreign_text_is_escaped_in_every_form",
    ),
    Protection(
        "a worker that dies",
        "empirical/capture/cluster/awaited.py",
        "        except KilledWorker as error:",
        "        except ZeroDivisionError as error:",
        "tests/empirical/capture/cluster/test_clustered.py::"
        "test_a_document_of_which_workers_die_is_named",
    ),
    Protection(
        "a worker that dies as it is told what to do",
        "empirical/capture/cluster/held.py",
        "            if not left:",
        "            if True:",
        "tests/empirical/capture/cluster/test_clustered.py::"
        "test_a_worker_that_dies_as_it_is_told_what_to_do_is_no_fault",
    ),
    Protection(
        "a worker that does not share the disk",
        "empirical/store/handed.py",
        "or not self.shared():",
        "or not self.folder.exists():",
        f"{STORE}/test_handed.py::test_who_does_not_share_the_disk_sends_what_it_made",
    ),
    Protection(
        "a document that changes before it is settled",
        "empirical/store/settling.py",
        '                if document_digest(chunks) != row["digest"]:',
        '                if not row["digest"]:',
        f"{STORE}/test_handed.py::"
        "test_a_document_that_changes_before_it_is_settled_is_found_as_it_is_copied",
    ),
    Protection(
        "documents of workers, and the command killed",
        LOCK,
        'for what in ("draft", handed.FOLDER):',
        'for what in ("draft",):',
        f"{STORE}/test_handed.py::test_what_a_killed_command_left_is_swept_away",
    ),
)


def fails(protection: Protection, copy: Path) -> bool:
    """Whether the test fails in a copy of the project that lacks the protection."""
    file = copy / protection.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(protection.text, protection.without), encoding="utf-8")
    rooms = os.pathsep.join(map(str, (copy, copy / "tests")))
    choice = ["-k", protection.choice] if protection.choice else []
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
                *(protection.test, "-m", "slow or not slow", *choice),
            ],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": rooms},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(whole, encoding="utf-8")
    if done.returncode not in {0, FAILED}:
        print(done.stdout[-2000:], file=sys.stderr)
    return done.returncode == FAILED


def main() -> None:
    """Print the table."""
    passed = 0
    print("| without what guards against | in | its test |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "geostat"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for protection in PROTECTIONS:
            failed = fails(protection, copy)
            passed += not failed
            name = protection.test.rpartition("::")[2]
            said = "fails" if failed else "**passes**"
            print(f"| {protection.fault} | `{protection.file}` | `{name}` {said} |", flush=True)
    sys.exit(1 if passed else 0)


if __name__ == "__main__":
    main()
