"""Titles of the columns of consumers, for screen and command line."""

from __future__ import annotations

from collections.abc import Mapping

CONSUMER_TITLES: Mapping[str, str] = {
    "name": "CONSUMER",
    "stream": "STREAM",
    "status": "STATUS",
    "mode": "MODE",
    "life": "LIFE",
    "ack": "ACK",
    "pending": "PENDING",
    "ack_pending": "ACK PEND",
    "redelivered": "REDEL",
    "waiting": "WAITING",
    "delivered_rate": "DELIV/s",
    "acked_rate": "ACK/s",
    "lag": "LAG",
    "drain": "DRAIN",
    "trend": "PENDING 1m",
    "floor": "ACK FLOOR s/c",
    "delivered": "DELIVERED s/c",
    "activity": "ACTIVE",
}
"""Column of a table of consumers → its title."""
