"""Whether the values of a result can be those of a run: a saved file may be damaged. Pure.

Each sentence names the field, so that the file can be read there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from natstui.model.bench.counts import Counts, total_counts
from natstui.model.bench.latency import LatencyCounts, is_histogram
from natstui.model.bench.result import Accounting, BenchmarkResult
from natstui.model.bench.timeline import Timeline
from natstui.units import is_possible_time

_Wholes = tuple[tuple[str, tuple[str, ...]], ...]
_COUNT_WHOLES: _Wholes = (
    ("duplicate_msgs", ("received_msgs",)),
    ("out_of_order_msgs", ("received_msgs",)),
    ("steady_sent_msgs", ("sent_msgs",)),
    ("steady_acked_msgs", ("acked_msgs", "duplicate_acked_msgs")),
    ("steady_received_msgs", ("received_msgs",)),
    ("steady_received_bytes", ("received_bytes",)),
)
"""Counts of workers → the counts that they are a part of."""
_ACCOUNTING_WHOLES: _Wholes = (
    ("duplicate_msgs", ("received_msgs",)),
    ("lost_msgs", ("expected_msgs",)),
    ("unread_msgs", ("delivered_msgs",)),
    ("unresponded_msgs", ("stored_msgs",)),
)
"""Counts of an account → the counts that they are a part of."""
_SUMS = (
    "acked_msgs",
    "duplicate_acked_msgs",
    "refused_msgs",
    "unanswered_msgs",
    "missed_msgs",
    "out_of_order_msgs",
    "retried_msgs",
    "foreign_msgs",
)
"""Counts of an account that are sums over all workers."""
_PARTIAL_SUMS = ("sent_msgs", "received_msgs")
"""Counts of an account that are sums over some workers."""
_ROUNDING_RATIO = 1e-9


def impossible_values(value: object, field: str) -> Iterator[str]:
    """Yield a sentence for each value that no run has; `field` is where the value is."""
    if isinstance(value, LatencyCounts):
        if not is_histogram(value):
            yield f"{field} is no histogram"
        return
    if isinstance(value, tuple):
        for number, part_value in enumerate(value):
            yield from impossible_values(part_value, f"{field}[{number}]")
    elif is_dataclass(value):
        for part in fields(value):
            yield from impossible_values(getattr(value, part.name), f"{field}.{part.name}")
    elif isinstance(value, int | float) and value < 0:
        yield f"{field} is {value}, which is negative"
    match value:
        case Counts():
            yield from _above_wholes(value, _COUNT_WHOLES, field)
        case Accounting():
            yield from _impossible_accounting(value, field)
        case BenchmarkResult():
            yield from _contradictions(value, field)
        case Timeline():
            times_us = (value.began_at_us, value.ended_at_us)
            if not all(map(is_possible_time, times_us)) or times_us[0] > times_us[1]:
                yield f"{field} has times that are not possible"
            if value.slice_us == 0:
                yield f"{field}.slice_us is 0"


def _impossible_accounting(accounting: Accounting, field: str) -> Iterator[str]:
    yield from _above_wholes(accounting, _ACCOUNTING_WHOLES, field)
    if accounting.closes == bool(accounting.missing):
        yield f"{field}.closes is {str(accounting.closes).lower()}, which its missing contradicts"
    # Where the last reports of a worker are missing, the sums do not close and it saw more.
    if accounting.closes:
        yield from _above_wholes(accounting, (("distinct_msgs", ("received_msgs",)),), field)


def _contradictions(result: BenchmarkResult, field: str) -> Iterator[str]:
    """Yield a sentence for each part of a result that contradicts another part."""
    accounting, counts = result.accounting, result.counts
    if counts != total_counts(worker.counts for worker in result.workers):
        yield f"{field}.counts is not the sum of the workers"
    for name in (*_SUMS, *_PARTIAL_SUMS):
        msgs, workers_msgs = getattr(accounting, name), getattr(counts, name)
        if msgs > workers_msgs or (name in _SUMS and msgs != workers_msgs):
            yield f"{field}.accounting.{name} is {msgs}, but that of all workers is {workers_msgs}"
    if result.verdict == "ok" and accounting.complaints:
        yield f"{field}.verdict is ok, but {accounting.complaints[0]}"
    if (result.fairness_ratio or 0) > 1 + _ROUNDING_RATIO:
        yield f"{field}.fairness_ratio is {result.fairness_ratio}, which is above 1"


def _above_wholes(counts: Counts | Accounting, wholes: _Wholes, field: str) -> Iterator[str]:
    """Yield a sentence for each count that is more than the counts it is a part of."""
    for name, whole_names in wholes:
        part_msgs = getattr(counts, name)
        whole_counts = [getattr(counts, whole_name) for whole_name in whole_names]
        if part_msgs is not None and None not in whole_counts and part_msgs > sum(whole_counts):
            whole_text = f"{' + '.join(whole_names)}, which is {sum(whole_counts)}"
            yield f"{field}.{name} is {part_msgs}, more than {whole_text}"
