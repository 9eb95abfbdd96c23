"""Who holds a consumer: which connections get what it delivers, as subscriptions tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.assets.subjects import has_wildcard
from natstui.model.clients.connection import ClientConnection, Subscription
from natstui.model.clients.requests import TappedRequests
from natstui.model.live.permissions import covers

_LEAFNODE = "Leafnode"
_FEWEST_WORDS = 2
"""A pattern with fewer words of its own is no inbox: somebody looks at all inboxes."""


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


@dataclass(frozen=True, slots=True)
class Listener:
    """A connection, and the subscription by which it gets what is sent to a subject."""

    connection: ClientConnection
    by: Subscription


def listeners_of(
    connections: Iterable[ClientConnection], subject: str, queue: str | None = None
) -> list[Listener]:
    """Return who `subject` is meant for; with `queue`, the members of that group alone.

    Of subscriptions with wildcards, those with the most words of their own count: who subscribes
    to more than that looks on. A server behind a leafnode counts when no client is found.
    """
    found = [
        Listener(connection, by)
        for connection in connections
        for by in connection.listening
        if by.queue == queue and covers(by.subject, subject)
    ]
    if queue is None:
        words = {one.by.subject: _own_words(one.by.subject, subject) for one in found}
        most = max(words.values(), default=0)
        found = [one for one in found if most and words[one.by.subject] == most]
    clients = [one for one in found if one.connection.kind != _LEAFNODE]
    return clients or found


def _own_words(pattern: str, subject: str) -> int:
    """Return how many words of a pattern are no wildcard; 0 for one that fits to too much."""
    if pattern == subject:
        return len(subject.split(".")) + 1
    words = [word for word in pattern.split(".") if not has_wildcard(word)]
    return len(words) if len(words) >= _FEWEST_WORDS else 0
