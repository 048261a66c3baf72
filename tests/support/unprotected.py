"""Protections removed one by one: each fault of docs/reliability.md must then fail its test.

`PYTHONPATH=tests .venv/bin/python -m support.unprotected` does that in a copy of the project,
prints a table, and ends with exit code 1 if a test passed without its protection.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "report")
LONGEST = 300.0
"""Seconds that a test may take; a slower one hangs, which counts as a failure."""
FAILED = 1
"""Exit code of pytest if tests ran and failed; other codes mean that none ran."""


@dataclass(frozen=True, slots=True)
class Protection:
    """A protection against a fault: text in a file, and its replacement without the protection."""

    fault: str
    file: str
    text: str
    without: str
    test: str
    """File and name of the test that must fail."""
    choice: str
    """Selection of its cases, by pytest's -k."""


FAULTS = r"""
empirical/store/stored_run.py tests/empirical/store/test_damage.py
process killed while results are moved:
    test_a_killed_move_is_finished_by_the_next_writer_that_opens_the_run
-            if "pending" in attributes["manifest"]:
+            if "pending" in attributes:

empirical/store/lock.py tests/empirical/store/test_lock.py
process killed between two moves: test_a_process_killed_between_the_two_moves_loses_nothing
-os.replace(aside, path)
+pass

empirical/store/lock.py tests/empirical/store/test_journal.py
killed while settling: test_a_process_killed_while_settling_loses_nothing
-            settle(path)
+            pass

empirical/store/disk.py tests/empirical/store/test_disk.py
power loss before a file is flushed to disk: test_flushing_waits_for_the_disk
-        os.fsync(descriptor)
+        pass
full or failing disk: test_a_full_disk_is_one_line_and_keeps_the_documents
-        raise InputError(text) from error
+        raise

empirical/store/disk.py tests/empirical/store/test_every_step.py
disk failure while a file is replaced: test_any_failing_step_loses_nothing -k lasting
-        with open(draft, "xb") as file:
+        path.write_bytes(b"")
+        with open(draft, "xb") as file:

empirical/store/store.py tests/empirical/store/test_disk.py
failure of the first document: test_a_fresh_store_that_fails_leaves_the_old_one_and_nothing_else
-                shutil.rmtree(self._folder, ignore_errors=True)
-            raise
+                pass
+            raise

empirical/store/disk.py tests/empirical/store/test_lock.py
two concurrent writers: test_a_run_has_one_writer_at_a_time_under_all_its_names
-fcntl.LOCK_EX | fcntl.LOCK_NB
+fcntl.LOCK_SH | fcntl.LOCK_NB

empirical/store/stored_run.py tests/empirical/store/test_damage.py
read during a write: test_a_read_during_a_write_is_repeated
-                if self._is_still(self._seen):
-                    return result
+                return result

empirical/store/integrity.py tests/empirical/store/test_damage.py
file with flipped bytes, truncated or emptied: test_every_damaged_file_is_found_and_named
-                if digest(path, name) == wanted:
+                if digest(path, name):
removed file: test_every_damaged_file_is_found_and_named
-            why = MISSING
+            continue
chunk of another document: test_a_swapped_chunk_is_found
-digest_of_chunks != settled[document]["digest"]
+False
a foreign file in a group: test_a_foreign_file_is_found
-        known_there = below(file, path) in known or file.parent == path / FOLDER
+        known_there = True

empirical/store/bundle.py tests/empirical/store/test_damage.py
edited manifest: test_an_edited_manifest_is_damaged_even_if_it_states_its_digest
-part and not part.startswith(".")
+part

empirical/store/bundle.py tests/empirical/store/test_foreign.py
symbolic link in a foreign run:
    test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched -k link
-getattr(os, "O_NOFOLLOW", 0)
+0
named pipe in a foreign run:
    test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched -k mkfifo
-getattr(os, "O_NONBLOCK", 0)
+0
endless file in a foreign run:
    test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched -k sparse
-        if status.st_size > limit:
+        if status is None:

empirical/store/lock.py tests/empirical/store/test_damage.py
pending moves from another machine: test_moves_that_began_elsewhere_are_never_carried_out
-    return pending is not None and not can_finish(path, pending)
+    return False

empirical/store/remote.py tests/empirical/store/test_foreign.py
forged working copy of a remote run: test_a_foreign_origin_file_sends_and_removes_nothing
- or not path.resolve().is_relative_to(copies().resolve())
+

empirical/store/manifest.py tests/empirical/store/test_foreign.py
foreign codecs: test_no_codec_but_geostats_own_reaches_zarr
- and codec["name"] in CODECS
+

empirical/store/journal.py tests/empirical/store/test_foreign.py
document of another run in the journal:
    test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched -k another
-    if before is not None and link(before, row) != chain_of(name):
+    if before is None:

empirical/store/stored_run.py tests/empirical/store/test_disk.py
a library error on intact files: test_a_library_error_on_intact_files_is_not_reported_as_damage
-            check(self.path, self.attributes, results=self._results)
-            reason
+            raise StoreError(str(error)) from error
+            reason

empirical/store/repair.py tests/empirical/store/test_repair.py
a repair that gives other bytes: test_differing_new_measurements_change_nothing
-            raise StoreError(OTHER.format(what=self.path / journal.FILE))
+            pass

geostat/cli/process.py tests/geostat/cli/test_errors.py
damaged run: exit code 4: test_a_damaged_store_is_exit_code_4
-4 if isinstance(error, StoreError) else 2
+2
bad input: one line: test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing
-(*INPUT_ERRORS, UnmetRequirement, StoreError)
+(UnmetRequirement, StoreError)

empirical/capture/layer_view.py tests/geostat/cli/test_odd_paths.py
NaN in a captured row: test_damaged_weights_are_one_line_before_anything_is_stored -k queries
-    if not sound.all():
+    if sound is None:

geostat/cli/process.py tests/geostat/cli/test_stops.py
SIGTERM: test_a_stopped_stage_is_one_line_and_can_be_repeated
-            signal.signal(number, _stop)
+            pass
second interrupt: test_a_second_interrupt_is_ignored
-        signal.signal(number, signal.SIG_IGN)
+        pass

geostat/cli/process.py tests/geostat/cli/test_streams.py
closed pipe: test_a_closed_pipe_ends_the_command_silently
-        sys.exit(141)
+        raise
full output device: test_a_full_output_device_is_one_line
-        _fail(_os_error_message(error), 2)
+        raise
closed stream: test_a_closed_stream_is_ignored
-        if stream is None:
+        if stream == 0:
C locale: test_characters_outside_the_encoding_are_escaped
-            stream.reconfigure(errors="backslashreplace")
+            pass

theory/compiled.py tests/geostat/cli/test_unprivileged.py
no writable folder for compiled kernels: test_kernels_are_compiled_without_a_cache_folder -k theory
-    except RuntimeError:
-        return False
+    except RuntimeError:
+        raise

geostat/cli/process.py tests/geostat/cli/test_surroundings.py
control characters in a name: test_control_characters_in_names_are_escaped
-{shortened(printable(line))}
+{line}

reports/files.py tests/reports/test_files.py
process killed while writing a page or a table:
    test_drafts_of_killed_processes_go_and_those_being_written_stay
-            stale.unlink()
+            pass
two processes writing a page or a table:
    test_drafts_of_killed_processes_go_and_those_being_written_stay
-flock(file, LOCK_EX | LOCK_NB)
+pass

empirical/store/store.py tests/empirical/store/test_damage.py
disk failure while results are moved: test_recorded_moves_are_finished_after_a_failed_step
-                    manifest.finish(self.path)
-                self._reread
+                    pass
+                self._reread

reports/page/page.py tests/reports/page/test_page.py
script in a name on the page: test_foreign_text_is_escaped
-        autoescape=True,
+        autoescape=False,

reports/text/latex.py tests/reports/tables/test_tables.py
LaTeX command in a name in a table: test_foreign_text_is_escaped_in_every_form
-            character, character if _LATEX_LETTERS.match(character) else
+            character, character if True else

empirical/capture/cluster/tasks.py tests/empirical/capture/cluster/test_clustered.py
death of a worker: test_a_document_that_kills_workers_is_named
-        except KilledWorker as error:
+        except ZeroDivisionError as error:

empirical/capture/cluster/plugins.py tests/empirical/capture/cluster/test_clustered.py
a worker lost during plugin registration: test_a_worker_lost_during_plugin_registration_is_no_error
-            if not left:
+            if True:

empirical/store/journal.py tests/empirical/store/test_handed.py
worker without access to the disk of the run:
    test_a_worker_without_the_shared_disk_sends_its_document
-or not self.shared():
+or not self.folder.exists():

empirical/store/shards.py tests/empirical/store/test_handed.py
document changed before it is settled: test_a_document_changed_before_settling_is_found
-                if journal.document_digest(chunks) != row["digest"]:
+                if not row["digest"]:

empirical/store/lock.py tests/empirical/store/test_handed.py
command killed with unsettled documents of workers: test_leftovers_of_a_killed_command_are_removed
-for what in ("draft", HANDED):
+for what in ("draft",):
"""
"""Product file and test file; then for each fault its test, and the lines with and without the
protection.
"""
FAULT = re.compile(
    r"^([^-+\n].*):\s+(test_\w+)(?: -k (\w+))?\n((?:-.*\n)+)((?:\+.*\n)+)", re.MULTILINE
)


def unmarked(lines: str) -> str:
    """Return lines without their first characters."""
    return "\n".join(line[1:] for line in lines.splitlines())


PROTECTIONS = tuple(
    Protection(fault, file, unmarked(text), unmarked(without), f"{tests}::{test}", choice)
    for group in FAULTS.strip().split("\n\n")
    for file, tests in [group.split("\n")[0].split()]
    for fault, test, choice, text, without in FAULT.findall(f"{group}\n")
)


def fails(protection: Protection, copy: Path) -> bool:
    """Return whether the test fails in a copy of the project without the protection."""
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
