"""The analysed queries of a window, and the refusals of others."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from support.raising import refused

from empirical.sources.queries import LEAST_SEEN, Queries

DIGESTS = [hashlib.sha256(bytes([index])).hexdigest() for index in range(200)]


def test_the_last_queries_are_the_last():
    assert Queries.read("last", 64).positions(64, DIGESTS[:2]).tolist() == [[63], [63]]
    assert Queries.read("last:3", 64).positions(64, DIGESTS[:1]).tolist() == [[61, 62, 63]]


def test_spread_queries_are_one_a_stratum_of_the_second_half_and_the_last():
    positions = Queries.read("spread:5", 64).positions(64, DIGESTS)
    assert positions.shape == (200, 5)
    assert (positions[:, -1] == 63).all()
    edges = np.linspace(32, 63, 5).round()
    for stratum in range(4):
        drawn = positions[:, stratum]
        assert drawn.min() == edges[stratum]
        assert drawn.max() == edges[stratum + 1] - 1


def test_spread_queries_depend_on_the_windows_digest_alone():
    every = Queries.read("spread:8", 256).positions(256, DIGESTS)
    assert (every[7:9] == Queries.read("spread:8", 256).positions(256, DIGESTS[7:9])).all()
    assert len({tuple(row) for row in every.tolist()}) > 190


@pytest.mark.parametrize("length", [5, 16, 17, 100, 1024])
@pytest.mark.parametrize("step", [1, 7, 64, 2000])
def test_every_so_many_th_query_is_analysed_that_sees_enough_and_the_last(length: int, step: int):
    queries = Queries.read(f"every:{step}", length)
    (row,) = queries.positions(length, DIGESTS[:1]).tolist()
    enough = range(LEAST_SEEN - 1, length)
    expected = [index for index in enough if (length - 1 - index) % step == 0]
    assert row == (expected or [length - 1])
    assert len(row) == queries.count
    assert str(queries) == (f"every:{step}" if len(row) > 1 else "last")
    assert Queries.read(str(queries), length) == (queries if len(row) > 1 else Queries())


def test_by_default_as_many_of_the_last_sixteen_are_analysed_as_see_enough():
    said = [str(Queries.read("default", length)) for length in (4, 16, 17, 30, 31, 1024)]
    assert said == ["last", "last", "last:2", "last:15", "last:16", "last:16"]
    first = Queries.read("default", 30).positions(30, DIGESTS[:1]).min()
    assert first + 1 == LEAST_SEEN


NO_QUERIES = ["", "0", "8", "last:0", "spread:0", "spread", "first:2", "last:-1", "last:2.5"]


@pytest.mark.parametrize("text", [*NO_QUERIES, "last:00", "every", "every:0", "every:-8"])
def test_what_names_no_queries_is_refused(text: str):
    with refused(r"expected last, .*every:K .*Use for example"):
        Queries.read(text, 1024)


@pytest.mark.parametrize(
    ("text", "length", "room"),
    [
        ("last:50", 64, "--queries last:49,"),
        ("last:10", 20, "--queries last:5,"),
        ("last:1010", 1024, "--queries last:1009,"),
        ("spread:33", 64, "--queries spread:32,"),
        ("last:2", 16, "Use --queries last or a longer"),
        ("spread:2", 28, "Use --queries last or a longer"),
    ],
)
def test_more_queries_than_there_is_room_for_are_refused(text: str, length: int, room: str):
    with refused(f"--queries {text}: a window of {length} tokens .*{room}"):
        Queries.read(text, length)


@pytest.mark.parametrize(
    ("text", "length"), [("last:49", 64), ("last:1009", 1024), ("spread:32", 64)]
)
def test_the_remedies_are_accepted(text: str, length: int):
    queries = Queries.read(text, length)
    positions = queries.positions(length, DIGESTS[:3])
    assert positions.shape == (3, queries.count)
    assert (np.diff(positions) > 0).all()
    assert positions.min() + 1 >= LEAST_SEEN
