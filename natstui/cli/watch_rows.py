"""What `natstui watch --json` prints: one object per line, one class per kind.

Every object has `schema`, `kind` and `name`. Units are in the names; times ending in `_at_us` are
UTC microseconds since 1970. What is not known is null, never 0.
"""

from __future__ import annotations

from natstui.cli.watch_rows_consumer import ConsumerRow
from natstui.cli.watch_rows_events import AdvisoryRow, RemovedRow, RestoredRow, UnavailableRow
from natstui.cli.watch_rows_server import AccountRow, ServerRow
from natstui.cli.watch_rows_stream import StreamRow

SCHEMA = 1
"""Grows when a field is renamed, removed, or changes its meaning; not when one is added."""

Row = (
    ServerRow
    | AccountRow
    | StreamRow
    | ConsumerRow
    | RemovedRow
    | UnavailableRow
    | RestoredRow
    | AdvisoryRow
)
