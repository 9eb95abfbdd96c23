"""The connections that receive the messages of a consumer, by their subscriptions."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.assets.subjects import has_wildcard
from natstui.model.clients.connection import ClientConnection, Subscription
from natstui.model.clients.requests import TappedRequests
from natstui.model.live.permissions import covers

_LEAFNODE_KIND = "Leafnode"
_MIN_LITERAL_TOKENS = 2
"""Minimum of literal tokens in the pattern of an inbox; a pattern with fewer matches all."""


class ConsumerDelivery(Struct, frozen=True):
    """The properties of a consumer by which its clients are found."""

    deliver_subject: str | None
    """Deliver subject of a push consumer; None for a pull consumer."""
    deliver_group: str | None
    waiting_count: int
    """Waiting pull requests in the server."""
    pins: tuple[str, ...]
    """Ids of its pinned clients."""


class FoundClients(Struct, frozen=True):
    """The clients of a consumer, or the publishers of a stream."""

    consumer: ConsumerDelivery | None
    """The consumer; None for a stream."""
    listeners: tuple[Listener, ...] = ()
    """Of a push consumer: the connections that receive its messages."""
    heard: TappedRequests | None = None
    """Of a pull consumer or a stream: the results of a tap."""


class PushDelivery(Struct, frozen=True):
    """A push consumer that delivers to a connection."""

    stream: str
    consumer: str
    queue: str | None
    delivered_msgs: int
    """Messages sent to the subscription."""


def push_consumers_of(
    connection: ClientConnection, consumers: Iterable[ConsumerConfiguration]
) -> list[PushDelivery]:
    """Return the push consumers that deliver to a connection's subscriptions."""
    push_deliveries = []
    for consumer in consumers:
        if consumer.deliver_subject is None:
            continue
        if listeners := listeners_of(
            [connection], consumer.deliver_subject, consumer.deliver_group
        ):
            subscription = listeners[0].by
            push_deliveries.append(
                PushDelivery(
                    consumer.stream,
                    consumer.name,
                    consumer.deliver_group,
                    subscription.delivered_msgs,
                )
            )
    return push_deliveries


class Listener(Struct, frozen=True):
    """A connection, with the subscription by which it receives the messages of a subject."""

    connection: ClientConnection
    by: Subscription


def listeners_of(
    connections: Iterable[ClientConnection], subject: str, queue: str | None = None
) -> list[Listener]:
    """Return the connections that receive `subject`; with `queue`, the members of that group.

    Without `queue`, only the subscriptions with the most literal tokens are included: wider ones
    only observe. A leafnode connection is included only if no client receives `subject`.
    """
    listeners = [
        Listener(connection, subscription)
        for connection in connections
        for subscription in connection.listening
        if subscription.queue == queue and covers(subscription.subject, subject)
    ]
    if queue is None:
        literal_tokens_by_pattern = {
            listener.by.subject: _literal_tokens_count(listener.by.subject, subject)
            for listener in listeners
        }
        max_literal_tokens = max(literal_tokens_by_pattern.values(), default=0)
        listeners = [
            listener
            for listener in listeners
            if max_literal_tokens
            and literal_tokens_by_pattern[listener.by.subject] == max_literal_tokens
        ]
    client_listeners = [
        listener for listener in listeners if listener.connection.kind != _LEAFNODE_KIND
    ]
    return client_listeners or listeners


def _literal_tokens_count(pattern: str, subject: str) -> int:
    """Return the number of literal tokens of a pattern that matches `subject`, one more if equal.

    Returns 0 if there are fewer than `_MIN_LITERAL_TOKENS`.
    """
    if pattern == subject:
        return len(subject.split(".")) + 1
    tokens = [token for token in pattern.split(".") if not has_wildcard(token)]
    return len(tokens) if len(tokens) >= _MIN_LITERAL_TOKENS else 0
