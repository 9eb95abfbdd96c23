"""Statuses of consumers and streams without a finding, as `working` and `unknown`."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.findings.catalogue.kind import Level


class Status(Struct, frozen=True, eq=False):
    """The status of a consumer or a stream without an open finding."""

    severity_level: int
    """Number for sorting by severity; the worst status has the highest."""
    level: Level
    word: str
    sentence: str
    """The meaning of the label."""


CATCHING_UP = Status(
    3, "ok", "catching up", "the backlog shrinks: messages are delivered faster than they arrive"
)
WORKING = Status(2, "ok", "working", "messages are delivered and acknowledged")
UNACKED = Status(
    2, "idle", "waiting for acks", "messages were delivered, and none was acknowledged lately"
)
REPLAYING = Status(
    1, "ok", "replaying", "messages are delivered at the pace at which they were published"
)
NO_DELIVERY = Status(2, "idle", "no delivery yet", "messages are pending, none was delivered yet")
UP_TO_DATE = Status(1, "ok", "up to date", "nothing pending, nothing waiting for an ack")
IDLE = Status(0, "idle", "idle", "nothing pending, nothing waiting for an ack")
SOURCING = Status(
    2, "ok", "sourcing", "the server uses this consumer to copy messages to another stream"
)
UNUSED = Status(0, "idle", "unused", "no client uses the consumer: the server will delete it")
UNEXPLAINED = Status(2, "unknown", "unknown", "the recording does not contain the cause")

STORING = Status(1, "ok", "storing", "messages are stored")
QUIET = Status(0, "idle", "quiet", "no message was stored between the two newest polls")
