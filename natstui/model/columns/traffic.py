"""The columns of traffic, the same of servers and of connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from natstui.model.columns.column import Column, column
from natstui.model.traffic import Traffic, TrafficCounters
from natstui.units import bytes_text, count_text, rate_text

R = TypeVar("R")


def rate_columns(
    traffic_of: Callable[[R], Traffic | None], gets: str, sends: str
) -> tuple[Column[R], ...]:
    """Return the columns of what came in and went out a second.

    `gets` and `sends` say who does, as "that it sends".
    """

    def value(name: str) -> Callable[[R], float | None]:
        return lambda row: getattr(traffic_of(row), name, None)

    return (
        column(
            "in_s",
            "IN/S",
            f"Messages per second {gets}",
            value("in_msgs_per_s"),
            rate_text,
            dims_unknown=False,
        ),
        column(
            "in_b",
            "IN B/S",
            f"Bytes per second {gets}",
            value("in_bytes_per_s"),
            bytes_text,
            dims_unknown=False,
        ),
        column(
            "out_s",
            "OUT/S",
            f"Messages per second {sends}",
            value("out_msgs_per_s"),
            rate_text,
            dims_unknown=False,
        ),
        column(
            "out_b",
            "OUT B/S",
            f"Bytes per second {sends}",
            value("out_bytes_per_s"),
            bytes_text,
            dims_unknown=False,
        ),
    )


def total_columns(
    counters: Callable[[R], TrafficCounters], gets: str, sends: str
) -> tuple[Column[R], ...]:
    """Return the columns of all that came in and went out; `gets` and `sends` as for rates."""

    def value(name: str) -> Callable[[R], int | None]:
        return lambda row: getattr(counters(row), name)

    return (
        column("in", "IN", f"Messages {gets}", value("in_msgs"), count_text),
        column("in_total", "IN BYTES", f"Bytes {gets}", value("in_bytes"), bytes_text),
        column("out", "OUT", f"Messages {sends}", value("out_msgs"), count_text),
        column("out_total", "OUT BYTES", f"Bytes {sends}", value("out_bytes"), bytes_text),
    )
