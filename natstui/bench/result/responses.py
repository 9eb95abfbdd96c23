"""Requests over streams: how many responses came back, and which requests have none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from natstui.bench.job.seen import union
from natstui.bench.result.accounting import ConsumerSpan, WorkerBook, still_held
from natstui.model.bench.result import Accounting


def with_responses(
    accounting: Accounting,
    books: Sequence[WorkerBook],
    consumers: Mapping[str, ConsumerSpan],
) -> Accounting:
    """Return the account with what came back; as it is where nobody asks over streams."""
    asking = [book for book in books if book.role.traits.awaits_responses]
    if not asking:
        return accounting
    return replace(
        accounting,
        responses_msgs=sum(book.reported.received_msgs for book in asking),
        unresponded_msgs=_unresponded(asking, accounting.stored_msgs, consumers),
    )


def _unresponded(
    asking: Sequence[WorkerBook], stored: int | None, consumers: Mapping[str, ConsumerSpan]
) -> int | None:
    """Return how many stored requests got no response; None when somebody did not say what came.

    What waits in the stream, or with a worker, is late and not forgotten.
    """
    if stored is None or any(book.seen is None for book in asking):
        return None
    came = union(book.seen for book in asking if book.seen is not None)
    held = max((still_held(span) for span in consumers.values()), default=0)
    return max(stored - sum(seen.seen_count for seen in came.values()) - held, 0)
