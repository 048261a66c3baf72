"""The built-in texts: ten kinds, which share nothing, the same on every machine."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest
from support.families import builtin_model
from support.raising import refused

from empirical.sources import builtin, installed
from empirical.sources.builtin import (
    CODE,
    DESCRIBED,
    KINDS,
    all_kinds,
    named,
    topics,
)
from empirical.sources.installed import COMMENTED
from empirical.sources.windows import windows

PARAGRAPH = 100
"""Characters from which on a paragraph that stands in two documents is no accident."""


def test_topics_match_the_reference_sorted_by_name_without_repeats():
    from pydoc_data.topics import topics as every

    documents = list(topics())
    names = [document.name for document in documents]
    assert names == sorted(names)
    assert {document.text for document in documents} == set(every.values())
    assert len({document.text for document in documents}) == len(documents) > 50
    assert all(every[document.name] == document.text for document in documents)
    assert documents == list(topics())


@pytest.mark.slow
def test_documents_of_two_kinds_share_no_paragraph_and_of_one_only_headers_and_pages():
    where: dict[str, set[str]] = {}
    for document in all_kinds():
        for paragraph in {" ".join(part.split()) for part in document.text.split("\n\n")}:
            if len(paragraph) > PARAGRAPH:
                where.setdefault(paragraph, set()).add(document.name)
    shared = [
        {name.partition("/")[0] for name in names} for names in where.values() if len(names) > 1
    ]
    assert shared
    assert all(kinds in ({"headers"}, {"pages"}) for kinds in shared)


def test_no_module_gives_two_kinds_and_all_are_of_the_standard_library():
    described, code = set(DESCRIBED.split()), set(CODE.split())
    commented = set(COMMENTED.split())
    assert not described & code
    assert not commented & (described | code)
    assert described | code <= sys.stdlib_module_names


@pytest.mark.slow
def test_no_text_names_this_machine():
    places = {str(Path.home()), sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")}
    for document in all_kinds():
        assert not any(place in document.text for place in places if len(place) > 5), document.name


@pytest.mark.slow
@pytest.mark.builtin
def test_kinds_take_turns_and_no_window_repeats_few_tokens():
    found = windows(all_kinds(), builtin_model().tokenizer, length=1024, count=20)
    assert found.kinds == tuple(KINDS) * 2
    assert len(KINDS) == 10
    assert found.names[0].startswith("topics/")
    distinct = [len(set(row)) / len(row) for row in found.token_ids.tolist()]
    assert min(distinct) > 0.19


def test_texts_of_packages_stand_in_their_files():
    texts = {kind: make() for kind, make in installed.KINDS.items()}
    assert all(len(of_kind) >= 3 for of_kind in texts.values())
    assert texts["licences"]["GPL"].startswith("GNU GENERAL PUBLIC LICENSE")
    assert "#" not in texts["comments"]["heapq"][:200]
    assert texts == {kind: make() for kind, make in installed.KINDS.items()}


def test_absent_packages_leave_the_other_kinds(monkeypatch: pytest.MonkeyPatch):
    def absent(name: str) -> None:
        raise installed.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    monkeypatch.setattr(installed, "distribution", absent)
    empty = {kind for kind, make in installed.KINDS.items() if not make()}
    assert empty == {"mathematics", "datasets", "readmes", "headers", "pages"}
    assert set(installed.KINDS["licences"]()) <= {"Python"}
    assert {document.kind for document in all_kinds()} == set(KINDS) - empty


def test_a_built_in_text_is_found_by_name():
    assert named("builtin:topics").name.startswith("pydoc_data.topics of Python 3.")
    assert [kind.name for kind in named("builtin").strata] == [
        named(f"builtin:{kind}").name.replace("pydoc_data.", "") for kind in KINDS
    ]
    assert {document.kind for document in named("builtin:code")} == {"code"}
    with refused(
        "^--text builtin:poems: no such built-in text, expected one of builtin, builtin:topics, .*"
        " Use one of those, or a file's whole path.$"
    ):
        named("builtin:poems")


def test_a_python_without_sources_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(builtin.sysconfig, "get_path", lambda name: str(tmp_path))
    with refused(rf"^{tmp_path}/calendar.py: cannot be read \(No such file or .*builtin:topics"):
        list(named("builtin:code"))
