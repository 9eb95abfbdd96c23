"""Thresholds in the metadata of streams and consumers (`io.nats.monitor.*`): keys and values.

`nats server check` and Synadia Insights read them too; values are texts in the format of Go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from natstui.units import parse_duration_ns

PREFIX = "io.nats.monitor."

KeyKind = Literal["count", "integer", "duration", "switch"]
"""A `count` has no sign; the NATS CLI accepts one before an `integer`."""


class MonitorKey(Struct, frozen=True):
    """A threshold: its key without the prefix, and its meaning."""

    name: str
    label: str
    kind: KeyKind
    help: str

    @property
    def key(self) -> str:
        """Return the key in the metadata."""
        return PREFIX + self.name


_ENABLED_KEY = MonitorKey(
    "enabled", "Watched by audits", "switch",
    "yes: tools such as nats audit check the thresholds below.",
)  # fmt: skip

STREAM_KEYS = (
    _ENABLED_KEY,
    MonitorKey(
        "lag-critical", "Source lag", "count",
        "Critical when the stream is this many messages behind its origin or a source.",
    ),
    MonitorKey(
        "seen-critical", "Source silent", "duration",
        "Critical after this time without contact to the origin or a source.",
    ),
    MonitorKey(
        "min-sources", "Fewest sources", "integer", "Critical with fewer sources than this."
    ),
    MonitorKey("max-sources", "Most sources", "integer", "Critical with more sources than this."),
    MonitorKey(
        "peer-expect", "Replicas expected", "integer",
        "Critical when the number of replicas, leader included, differs from this.",
    ),
    MonitorKey(
        "peer-lag-critical", "Replica lag", "count",
        "Critical when a replica is more than this many operations behind.",
    ),
    MonitorKey(
        "peer-seen-critical", "Replica silent", "duration",
        "Critical when the leader had no contact with a replica for longer than this.",
    ),
    MonitorKey(
        "msgs-warn", "Few messages, warning", "count",
        "Warning at this many messages or fewer: for streams that should never be empty.",
    ),
    MonitorKey(
        "msgs-critical", "Few messages, critical", "count",
        "Critical at this many messages or fewer.",
    ),
    MonitorKey(
        "subjects-warn", "Subjects, warning", "integer",
        "Warning at this many subjects or more (at this many or fewer if critical is below it).",
    ),
    MonitorKey(
        "subjects-critical", "Subjects, critical", "integer",
        "Critical at this many subjects or more (at this many or fewer if warning is above it).",
    ),
)  # fmt: skip

CONSUMER_KEYS = (
    _ENABLED_KEY,
    MonitorKey(
        "outstanding-ack-critical", "Ack pending", "integer",
        "Critical at this many delivered and unacknowledged messages or more.",
    ),
    MonitorKey(
        "waiting-critical", "Waiting pulls", "integer", "Critical at this many open pulls or more."
    ),
    MonitorKey(
        "unprocessed-critical", "Pending", "integer",
        "Critical at this many pending messages or more.",
    ),
    MonitorKey(
        "redelivery-critical", "Redelivered", "integer",
        "Critical at this many redelivered messages or more.",
    ),
    MonitorKey(
        "last-delivery-critical", "Last delivery", "duration",
        "Critical after this time without a delivery, even if nothing is pending.",
    ),
    MonitorKey(
        "last-ack-critical", "Last acknowledgement", "duration",
        "Critical after this time without an acknowledgement, even if nothing is pending.",
    ),
    MonitorKey(
        "pinned", "Pinned client", "switch", "yes: critical while no client is pinned."
    ),
)  # fmt: skip


_MONITOR_KEY_BY_KEY = {key.key: key for key in (*STREAM_KEYS, *CONSUMER_KEYS)}


def parse_threshold(key: MonitorKey, text: str) -> int:
    """Return a threshold as a number, in ns if it is a duration, 0 or 1 if it is a switch.

    Raises ValueError with a sentence.
    """
    try:
        return _VALUE_PARSER_BY_KIND[key.kind](text)
    except ValueError:
        raise ValueError(f"{key.key}={text!r} is no {_VALUE_TEXT_BY_KIND[key.kind]}") from None


def check_threshold(key: str, text: str) -> str:
    """Return the text of the threshold `key` unchanged; raises ValueError if it is invalid."""
    parse_threshold(_MONITOR_KEY_BY_KEY[key], text)
    return text


def without_thresholds(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the metadata without thresholds."""
    return {key: value for key, value in metadata.items() if not key.startswith(PREFIX)}


def thresholds_of(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the thresholds in metadata by their keys there; their values are not checked."""
    return {key: value for key, value in metadata.items() if key.startswith(PREFIX)}


def _parse_unsigned_integer(text: str) -> int:
    # As the NATS CLI reads it: digits and nothing around them.
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**64:
        raise ValueError
    return int(text)


def _parse_integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    value = int(text) if digits.isascii() and digits.isdigit() else 2**63
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _parse_switch(text: str) -> int:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return 1
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return 0
    raise ValueError


_VALUE_PARSER_BY_KIND: dict[KeyKind, Callable[[str], int]] = {
    "count": _parse_unsigned_integer,
    "integer": _parse_integer,
    "duration": parse_duration_ns,
    "switch": _parse_switch,
}
_VALUE_TEXT_BY_KIND: dict[KeyKind, str] = {
    "count": "whole number without a sign",
    "integer": "whole number",
    "duration": "duration such as 90s or 1d",
    "switch": "true or false",
}
