"""Which consumers a connection holds, as far as its subscriptions tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.matching import Listener, listeners_of
from natstui.model.clients.requests import TappedRequests


@dataclass(frozen=True, slots=True)
class ConsumerToHold:
    """What a consumer says of those who hold it."""

    deliver_subject: str | None
    """Where a push consumer delivers; None is a pull consumer."""
    deliver_group: str | None
    waiting_count: int
    """Pull requests that wait in the server."""
    pins: tuple[str, ...]
    """Ids of its pinned clients."""


@dataclass(frozen=True, slots=True)
class ClientsFound:
    """Who holds a consumer, or who publishes to a stream."""

    consumer: ConsumerToHold | None
    """None of a stream."""
    listeners: tuple[Listener, ...] = ()
    """Of a push consumer: who gets what it delivers."""
    heard: TappedRequests | None = None
    """Of others: what a tap has read."""


@dataclass(frozen=True, slots=True)
class PushDelivery:
    """A push consumer that delivers to a connection."""

    stream: str
    consumer: str
    queue: str | None
    delivered_msgs: int
    """What was sent to its subscription."""


def push_consumers_of(
    one: ClientConnection, consumers: Iterable[ConsumerConfiguration]
) -> list[PushDelivery]:
    """Return the push consumers whose messages a connection subscribes to.

    Who pulls is not told by subscriptions: a consumer of these is nowhere in the result.
    """
    found = []
    for consumer in consumers:
        if consumer.deliver_subject is None:
            continue
        if by := listeners_of([one], consumer.deliver_subject, consumer.deliver_group):
            held = by[0].by
            found.append(
                PushDelivery(
                    consumer.stream, consumer.name, consumer.deliver_group, held.delivered_msgs
                )
            )
    return found
