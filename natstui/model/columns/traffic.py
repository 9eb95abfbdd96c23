"""The columns of traffic, for servers and for connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from natstui.model.columns.column import Column, column
from natstui.model.traffic import Traffic, TrafficCounters
from natstui.units import bytes_text, count_text, rate_text

RowT = TypeVar("RowT")
RATE_COLUMN_KEYS = frozenset(("in_s", "in_b", "out_s", "out_b"))
TOTAL_COLUMN_KEYS = frozenset(("in", "in_total", "out", "out_total"))


def rate_columns(
    traffic_of: Callable[[RowT], Traffic | None], received_help: str, sent_help: str
) -> tuple[Column[RowT], ...]:
    """Return the columns of received and sent messages and bytes per second.

    `received_help` and `sent_help` complete the help, as "received by the client."
    """

    def value(name: str) -> Callable[[RowT], float | None]:
        return lambda row: getattr(traffic_of(row), name, None)

    return (
        column(
            "in_s",
            "IN/S",
            f"Messages per second {received_help}",
            value("in_msgs_per_s"),
            rate_text,
            dims_unknown=False,
            priority=4,
        ),
        column(
            "in_b",
            "IN B/S",
            f"Bytes per second {received_help}",
            value("in_bytes_per_s"),
            bytes_text,
            dims_unknown=False,
            priority=13,
        ),
        column(
            "out_s",
            "OUT/S",
            f"Messages per second {sent_help}",
            value("out_msgs_per_s"),
            rate_text,
            dims_unknown=False,
            priority=4,
        ),
        column(
            "out_b",
            "OUT B/S",
            f"Bytes per second {sent_help}",
            value("out_bytes_per_s"),
            bytes_text,
            dims_unknown=False,
            priority=13,
        ),
    )


def total_columns(
    counters: Callable[[RowT], TrafficCounters], received_help: str, sent_help: str
) -> tuple[Column[RowT], ...]:
    """Return the columns of all received and sent messages and bytes.

    `received_help` and `sent_help` are those of `rate_columns`.
    """

    def value(name: str) -> Callable[[RowT], int | None]:
        return lambda row: getattr(counters(row), name)

    return (
        column("in", "IN", f"Messages {received_help}", value("in_msgs"), count_text, priority=12),
        column("in_total", "IN BYTES", f"Bytes {received_help}", value("in_bytes"), bytes_text),
        column("out", "OUT", f"Messages {sent_help}", value("out_msgs"), count_text, priority=13),
        column("out_total", "OUT BYTES", f"Bytes {sent_help}", value("out_bytes"), bytes_text),
    )
