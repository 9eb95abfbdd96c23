"""Run a few queries at a time: most are small, and Spark plans each of them on one core."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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


def in_parallel_after(
    work: Callable[[T], object],
    items: Sequence[T],
    name: Callable[[T], str],
    needs: Callable[[T], Collection[str]],
) -> None:
    """Work on each item as soon as those that it needs are done; after an error no more starts.

    Those that have the longest way behind them come first: the last ones would be alone.
    """
    left = sorted(items, key=_ways(items, name, needs), reverse=True)
    done: set[str] = set()
    under_way: dict[Future[object], T] = {}
    pool = ThreadPoolExecutor(AT_A_TIME_COUNT)
    try:
        while left or under_way:
            ready = [item for item in left if done.issuperset(needs(item))]
            for item in ready[: AT_A_TIME_COUNT - len(under_way)]:
                under_way[pool.submit(work, item)] = item
                left.remove(item)
            for ended in wait(under_way, return_when=FIRST_COMPLETED).done:
                ended.result()
                done.add(name(under_way.pop(ended)))
    finally:
        pool.shutdown(cancel_futures=True)


def _ways(
    items: Sequence[T], name: Callable[[T], str], needs: Callable[[T], Collection[str]]
) -> Callable[[T], int]:
    """Return how many have to follow an item, one after another."""

    def way(item: T) -> int:
        after = (way(one) for one in items if name(item) in needs(one))
        return 1 + max(after, default=0)

    return way
