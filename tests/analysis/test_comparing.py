"""Which differences between two sessions are told: pure functions, fed with generated series.

The series are as polls make them: neighbours resemble each other, something drifts slowly below
the noise, backlogs come and go, and a consumer that is too slow gets further and further behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from natstui.analysis.gold.comparison import statistics
from natstui.analysis.gold.comparison.verdicts import (
    ACK_TIME,
    NO_CHANGE,
    PENDING,
    REPEATED,
    THROUGHPUT,
    UNKNOWN,
    MetricSummary,
    compare,
)
from natstui.analysis.gold.comparison.verdicts import PUBLISHED as PUBLISHED_RATE
from tests.analysis.oracle_comparison import series_of

BLOCKS, BLOCK_S = 84, 10
"""A quarter of an hour."""
PUBLISHED = 100.0
Values = dict[str, Any]


def drifting(rng: np.random.Generator, memory: float, spread: float, n: int = BLOCKS) -> Any:
    """Values around 0 of which each resembles the one before."""
    values, now = np.empty(n), rng.normal(0, spread)
    for place in range(n):
        now = memory * now + rng.normal(0, spread * (1 - memory**2) ** 0.5)
        values[place] = now
    return values


def served(
    rng: np.random.Generator, capacity: float, published: float = PUBLISHED, drift: float = 0.01
) -> Values:
    """A queue second by second: what a consumer of this capacity takes, and what is left."""
    slow = 1 + drifting(rng, 0.97, drift) + drifting(rng, 0.5, 0.03)
    comes = rng.poisson(np.repeat(slow * published, BLOCK_S))
    takes = rng.poisson(capacity, BLOCKS * BLOCK_S)
    pending, left, moved = 0, np.empty(len(comes)), np.empty(len(comes))
    for second, (more, most) in enumerate(zip(comes, takes, strict=True)):
        moved[second] = min(pending + more, most)
        pending += more - moved[second]
        left[second] = pending
    throughput, waiting = by_block(moved), left.reshape(-1, BLOCK_S).min(axis=1)
    return {
        THROUGHPUT: throughput,
        PENDING: by_block(left),
        PUBLISHED_RATE: by_block(comes),
        "waiting": float((waiting > throughput).mean()),
    }


def by_block(seconds: Any) -> Any:
    return seconds.reshape(-1, BLOCK_S).mean(axis=1)


def ack_times(rng: np.random.Generator, mean_us: float) -> Any:
    """Means of about 32 sampled acknowledgements each."""
    sampled = rng.lognormal(0, 0.5, (BLOCKS, 32)).mean(axis=1) / np.exp(0.125)
    return mean_us * sampled * np.exp(drifting(rng, 0.8, 0.03))


def repeats(rng: np.random.Generator) -> Any:
    """Shares of deliveries: now and then a handful."""
    return rng.poisson(np.where(rng.random(BLOCKS) < 0.05, 30, 0.2)) / (PUBLISHED * BLOCK_S)


def reduced(
    session: str, consumer: str, values: Values, at_us: int = 0
) -> Iterable[MetricSummary]:
    for metric, series in values.items():
        if metric == "waiting":
            continue
        whose = None if metric == PUBLISHED_RATE else consumer
        waiting = values["waiting"] if metric == THROUGHPUT else None
        told = statistics.SeriesStatistics(**series_of([float(value) for value in series]))
        yield MetricSummary(session, metric, f"S-{consumer}", whose, at_us, waiting, told)


def quiet(rng: np.random.Generator, load: float = 0.9) -> Values:
    """A consumer that keeps up, more or less easily."""
    more = {ACK_TIME: ack_times(rng, 5_000), REPEATED: repeats(rng)}
    return served(rng, PUBLISHED / load, drift=0.03) | more


Told = dict[tuple[str, str | None], tuple[Any, ...]]


def compared(before: dict[str, Values], after: dict[str, Values]) -> Told:
    """Return the rows about what became slower or faster, by metric and consumer."""
    both = [*all_reduced("b-earlier", before, 0), *all_reduced("a-later", after, 7)]
    rows = compare(both, ())
    assert {row[0] for row in rows} <= {"b-earlier"}
    return {(row[2], row[4]): row for row in rows if row[-1] in ("slower", "faster")}


def all_reduced(session: str, consumers: dict[str, Values], at_us: int) -> Iterable[MetricSummary]:
    for name, values in consumers.items():
        yield from reduced(session, name, values, at_us)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs_count", "most_count"), [(8, 0), pytest.param(40, 2, marks=pytest.mark.long)]
)
def test_of_equal_pairs_hardly_any_is_told_to_differ(pairs_count: int, most_count: int) -> None:
    rng = np.random.default_rng(7)
    loads = (0.5, 0.8, 0.9, 0.95, 0.98, 1.0)

    def session() -> dict[str, Values]:
        return {f"c{n}": quiet(rng, loads[n % len(loads)]) for n in range(12)}

    told = [compared(session(), session()) for _ in range(pairs_count)]
    assert sum(map(bool, told)) <= most_count, [row for one in told for row in one.values()]


SLOWER: dict[str, Callable[[np.random.Generator], tuple[Values, Values]]] = {
    "alone": lambda rng: (served(rng, 130), served(rng, 80)),
    "with backlog": lambda rng: (served(rng, 100, 300), served(rng, 80, 300)),
    "draining": lambda rng: (drained(rng, 100), drained(rng, 80)),
}


def drained(rng: np.random.Generator, capacity: float) -> Values:
    """A backlog of a day that nothing is added to."""
    moved = by_block(rng.poisson(capacity, BLOCKS * BLOCK_S))
    left = 1_000_000 - np.cumsum(moved * BLOCK_S)
    return {THROUGHPUT: moved, PENDING: left, "waiting": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOWER)
@pytest.mark.parametrize(
    ("others", "seeds_count"), [(0, 20), (20, 2), pytest.param(20, 20, marks=pytest.mark.long)]
)
def test_a_consumer_that_is_a_fifth_slower_is_named_with_its_interval(
    case: str, others: int, seeds_count: int
) -> None:
    found = 0
    for seed in range(seeds_count):
        rng = np.random.default_rng(seed)
        before, after = SLOWER[case](rng)
        more = [{f"c{n}": quiet(rng) for n in range(others)} for _ in range(2)]
        told = compared({"x": before, **more[0]}, {"x": after, **more[1]})
        row = told.get((THROUGHPUT, "x"))
        if row is not None and row[-1] == "slower":
            low, high = row[8], row[9]
            found += low < -0.2 < high and low > -0.3 and high < -0.1
        assert {consumer for _, consumer in told} <= {"x"}
    assert found >= 0.95 * seeds_count


def test_acknowledgements_of_6_instead_of_5_ms_are_named() -> None:
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times = [{"x": {ACK_TIME: ack_times(rng, mean)}} for mean in (5_000, 6_000)]
        row = compared(*times).get((ACK_TIME, "x"))
        found += row is not None and row[-1] == "slower" and row[8] < 0.2 < row[9]
    assert found >= 19


def test_pending_that_was_0_and_grows_is_a_change_and_not_unknown() -> None:
    rng = np.random.default_rng(1)
    growing = np.arange(BLOCKS) * 200 + rng.normal(0, 30, BLOCKS)
    row = compared({"x": {PENDING: np.zeros(BLOCKS)}}, {"x": {PENDING: growing}})[PENDING, "x"]
    assert (row[5], round(row[6], -2), row[7], row[-1]) == (0.0, 8_300, None, "slower")
    assert row[11].startswith("pending 8,") and row[11].endswith(" instead of 0 messages")
    low, high = row[12].removeprefix("pending between ").removesuffix(" messages more").split(
        " and "
    )  # fmt: skip
    assert 7_000 < float(low.replace(",", "")) < 8_300 < float(high.replace(",", "")) < 9_600


def test_what_was_not_published_makes_no_consumer_slower() -> None:
    rng = np.random.default_rng(1)
    before, after = served(rng, 200), served(rng, 200, PUBLISHED * 0.7)
    rows = compare([*reduced("a", "x", before), *reduced("b", "x", after, 1)], ())
    assert {row[2]: row[-1] for row in rows} == {THROUGHPUT: "less", PUBLISHED_RATE: "less"}


def test_the_earliest_session_is_the_baseline_whatever_it_is_called() -> None:
    rng = np.random.default_rng(1)
    one, other = served(rng, 130), served(rng, 80)
    rows = compare([*reduced("a", "x", other, 9), *reduced("z", "x", one, 3)], ())
    assert {(row[0], row[1]) for row in rows} == {("z", "a")}


def test_too_few_values_are_no_verdict() -> None:
    few = [
        MetricSummary(
            name,
            "api round trip (µs)",
            None,
            None,
            0,
            None,
            statistics.SeriesStatistics(3, mean, 1.0),
        )
        for name, mean in (("a", 900.0), ("b", 1900.0))
    ]
    assert [row[-1] for row in compare(few, ())] == [UNKNOWN]


def test_the_same_values_are_no_change() -> None:
    told = statistics.SeriesStatistics(**series_of([5.0] * 30))
    rows = [MetricSummary(name, "m", None, None, 0, None, told) for name in "ab"]
    assert [row[-1] for row in compare(rows, ())] == [NO_CHANGE]


def test_students_t_is_that_of_the_tables() -> None:
    assert statistics.t_quantile(0.975, 10) == pytest.approx(2.2281, abs=1e-4)
    assert statistics.t_quantile(0.995, 30) == pytest.approx(2.7500, abs=1e-4)
    assert statistics.two_sided_p(1.959964, 1e7) == pytest.approx(0.05, abs=1e-5)
    assert statistics.correct_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_a_difference_beyond_all_numbers_is_certain_and_none_is_no_difference() -> None:
    # The share of a distribution below its least and below its greatest value.
    assert [statistics.incomplete_beta(2.0, 0.5, x) for x in (0.0, 1.0)] == [0.0, 1.0]
    assert statistics.two_sided_p(0.0, 10) == 1.0
    assert statistics.two_sided_p(1e200, 10) == 0.0
