"""Run a few queries at a time: most are small, and Spark plans each of them on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_A_TIME_COUNT = 3

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return the result of `work` for each item, in order; after an error nothing more starts."""
    pool = ThreadPoolExecutor(AT_A_TIME_COUNT)
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(cancel_futures=True)
