"""The connections that receive the messages of a consumer, by their subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.assets.subjects import has_wildcard
from natstui.model.clients.connection import ClientConnection, Subscription
from natstui.model.clients.requests import TappedRequests
from natstui.model.live.permissions import covers

_LEAFNODE = "Leafnode"
_FEWEST_TOKENS = 2
"""Minimum of literal tokens in the pattern of an inbox: one with fewer matches all inboxes."""


@dataclass(frozen=True, slots=True)
class ConsumerToHold:
    """The fields of a consumer that identify its clients."""

    deliver_subject: str | None
    """Deliver subject of a push consumer; None for a pull consumer."""
    deliver_group: str | None
    waiting_count: int
    """Waiting pull requests in the server."""
    pins: tuple[str, ...]
    """Ids of its pinned clients."""


@dataclass(frozen=True, slots=True)
class ClientsFound:
    """The clients of a consumer, or the publishers of a stream."""

    consumer: ConsumerToHold | None
    """The consumer; None for a stream."""
    listeners: tuple[Listener, ...] = ()
    """Of a push consumer: the connections that receive its messages."""
    heard: TappedRequests | None = None
    """Of others: the results of a tap."""


@dataclass(frozen=True, slots=True)
class PushDelivery:
    """A push consumer that delivers to a connection."""

    stream: str
    consumer: str
    queue: str | None
    delivered_msgs: int
    """Messages sent to the subscription."""


def push_consumers_of(
    connection: ClientConnection, consumers: Iterable[ConsumerConfiguration]
) -> list[PushDelivery]:
    """Return the push consumers whose messages a connection subscribes to.

    Pull consumers are not included: subscriptions do not identify their clients.
    """
    deliveries = []
    for consumer in consumers:
        if consumer.deliver_subject is None:
            continue
        if by := listeners_of([connection], consumer.deliver_subject, consumer.deliver_group):
            subscription = by[0].by
            deliveries.append(
                PushDelivery(
                    consumer.stream,
                    consumer.name,
                    consumer.deliver_group,
                    subscription.delivered_msgs,
                )
            )
    return deliveries


@dataclass(frozen=True, slots=True)
class Listener:
    """A connection, with the subscription by which it receives the messages of a subject."""

    connection: ClientConnection
    by: Subscription


def listeners_of(
    connections: Iterable[ClientConnection], subject: str, queue: str | None = None
) -> list[Listener]:
    """Return the recipients of `subject`; with `queue`, only the members of that group.

    Of subscriptions with wildcards, those with the most literal tokens count: a wider subscription
    only observes. A server behind a leafnode counts if there is no client.
    """
    listeners = [
        Listener(connection, by)
        for connection in connections
        for by in connection.listening
        if by.queue == queue and covers(by.subject, subject)
    ]
    if queue is None:
        tokens_count = {
            listener.by.subject: _literal_tokens_count(listener.by.subject, subject)
            for listener in listeners
        }
        most_tokens = max(tokens_count.values(), default=0)
        listeners = [
            listener
            for listener in listeners
            if most_tokens and tokens_count[listener.by.subject] == most_tokens
        ]
    clients = [listener for listener in listeners if listener.connection.kind != _LEAFNODE]
    return clients or listeners


def _literal_tokens_count(pattern: str, subject: str) -> int:
    """Return the number of literal tokens of a pattern; 0 below `_FEWEST_TOKENS`."""
    if pattern == subject:
        return len(subject.split(".")) + 1
    tokens = [token for token in pattern.split(".") if not has_wildcard(token)]
    return len(tokens) if len(tokens) >= _FEWEST_TOKENS else 0
