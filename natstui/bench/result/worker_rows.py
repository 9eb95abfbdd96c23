"""The workers of a result as rows of text, a small table for each role. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from natstui.model.bench.counts import Counts
from natstui.model.bench.result import WorkerResult
from natstui.units import UNKNOWN, count_text, rate_text

_AMOUNTS = (
    ("sent", "sent_msgs"),
    ("acked", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
    ("again", "redelivered_msgs"),
)
_LEAST_CELLS = 8


def worker_rows(
    workers: Sequence[WorkerResult], ms_text: Callable[[float | None], str]
) -> Iterator[str]:
    """Yield, for each role, its name, what its columns are, and a row for each of its workers."""
    for role in dict.fromkeys(one.role for one in workers):
        own = [one for one in workers if one.role == role]
        columns = [column for column in _columns(own, ms_text) if any(column[1:])]
        yield f"{role} ({own[0].pattern})"
        for cells in zip(*columns, strict=True):
            row = zip(cells, columns, strict=True)
            yield "".join(_padded(cell, column[0]) for cell, column in row).rstrip()


def _padded(cell: str, head: str) -> str:
    return cell.rjust(max(len(head) + 2, _LEAST_CELLS) if head else 2)


def _columns(
    own: Sequence[WorkerResult], ms_text: Callable[[float | None], str]
) -> Iterator[tuple[str, ...]]:
    """Yield head and cells of each column; one without any text is left out."""
    yield ("", *(str(one.worker_id) for one in own))
    for head, name in _AMOUNTS:
        yield (head, *_amounts([one.counts for one in own], name))
    done = [one.counts.sent_msgs or one.counts.received_msgs for one in own]
    whole = sum(done) if len(own) > 1 else 0
    yield ("share", *(f"{each / whole:.0%}" if whole else "" for each in done))
    yield ("msgs/s", *(rate_text(one.rate_per_s) for one in own))
    timed_by = next((one.latency for one in own if one.latency is not None), None)
    timed = [one if timed_by and one.latency == timed_by else None for one in own]
    yield (f"{timed_by} p50", *(ms_text(one.p50_ns) if one else "" for one in timed))
    yield ("p99 ms", *(ms_text(one.p99_ns) if one else "" for one in timed))
    most = [one.most_in_flight_msgs for one in own]
    yield ("in flight", *("" if each is None else count_text(each) for each in most))
    cpu = [one.cpu_ratio for one in own]
    yield ("CPU", *(UNKNOWN if each is None else f"{each:.0%}" for each in cpu))
    yield ("ended", *("" if one.ended == "done" else one.ended for one in own))


def _amounts(counts: Sequence[Counts], name: str) -> list[str]:
    amounts: list[int] = [getattr(one, name) for one in counts]
    return [count_text(amount) if any(amounts) else "" for amount in amounts]
