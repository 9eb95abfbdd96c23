"""Queries at a time: each begins as soon as what it needs is there, and none after an error."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from natstui.analysis.spark.parallel import AT_A_TIME_COUNT, in_parallel_after

NEEDS = {"e": ("d",), "alone": (), "d": ("b", "c"), "c": ("a",), "b": ("a",), "a": ()}


def needs(item: str) -> Collection[str]:
    return NEEDS[item]


def test_each_comes_after_what_it_needs_and_the_longest_way_is_begun_first() -> None:
    begun: list[str] = []
    done: list[str] = []
    together = threading.Barrier(2, timeout=30.0)

    def work(item: str) -> None:
        begun.append(item)
        assert set(needs(item)) <= set(done)
        if item in ("b", "c"):
            together.wait()
        done.append(item)

    in_parallel_after(work, list(NEEDS), str, needs)
    assert begun[0] == "a" and sorted(done) == sorted(NEEDS)


def test_after_an_error_nothing_more_is_begun() -> None:
    begun: list[str] = []

    def work(item: str) -> None:
        begun.append(item)
        raise OSError(item)

    with pytest.raises(OSError):
        in_parallel_after(work, [*"abcdefgh"], str, lambda item: ())
    assert len(begun) <= AT_A_TIME_COUNT
