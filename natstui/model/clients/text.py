"""Texts about connections: the same on the screen and on the command line."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.clients.connection import ClientConnection, Connections
from natstui.model.clients.requests import TappedRequests
from natstui.units import bytes_text, counted, duration_text

_MAX_NAMED_SERVERS = 12
IDLE_NOTE = "an idle client is listed only once its pull expires"
_ANONYMOUS_REASON = "no reply subject (plain publishes have none): the client cannot be identified"


def connections_summary(connections: Connections, *, closed: bool) -> str:
    """Return a sentence about the number of connections, their servers, and missing rows.

    `closed` is whether the connections are closed ones.
    """
    connections_text = counted(
        len(connections.rows), "closed connection" if closed else "connection"
    )
    # The number of servers is unknown, so their names show which is missing.
    server_names = sorted(server.name for server in connections.servers)
    more_servers_text = (
        f" +{len(server_names) - _MAX_NAMED_SERVERS}"
        if len(server_names) > _MAX_NAMED_SERVERS
        else ""
    )
    text = (
        f"{connections_text} on {counted(len(server_names), 'server')}: "
        f"{', '.join(server_names[:_MAX_NAMED_SERVERS])}{more_servers_text}"
    )
    slow_consumers_by_server = [
        (server.name, server.slow_consumers_count) for server in connections.servers
    ]
    slow_consumer_texts = [f"{name} {count}" for name, count in slow_consumers_by_server if count]
    if slow_consumer_texts:
        text += f"; slow consumer events since the start: {', '.join(slow_consumer_texts)}"
    if connections.left_out_count:
        text += f"; the busiest of {connections.left_out_count + len(connections.rows):,}"
    if connections.silent:
        text += f"; incomplete, no further reply from {', '.join(connections.silent)}"
    return text


def kick_loss_text(connection: ClientConnection) -> str:
    """Return what kicking a client does to its subscriptions and messages, as text."""
    subscriptions_text = counted(connection.subscriptions_count, "subscription")
    return (
        f"its {subscriptions_text} end, its unacknowledged messages are redelivered, and the "
        "client may reconnect by itself"
    )


def kick_prompt(connection: ClientConnection) -> str:
    """Return the text to confirm before a client is kicked: its name, and the effect."""
    identities = (connection.user, connection.address, connection.library)
    identity_text = ", ".join(
        identity for identity in identities if identity and identity != connection.display_name
    )
    name_text = (
        f"{connection.display_name} ({identity_text})"
        if identity_text
        else connection.display_name
    )
    return (
        f"this will kick {name_text} from {connection.server_name}: {kick_loss_text(connection)}"
    )


def idle_text(tap: TappedRequests) -> str:
    """Return the note that an idle client is listed only once its pull request expires.

    If clients were found, also the note of `delivered_text`.
    """
    longest_waits_s = [
        requester.longest_wait_s
        for requester in tap.requesters
        if requester.longest_wait_s is not None
    ]
    text = (
        f"{IDLE_NOTE}, here within {duration_text(max(longest_waits_s))}"
        if longest_waits_s
        else IDLE_NOTE
    )
    return f"{text}; {delivered_text(tap)}" if tap.requesters else text


def delivered_text(tap: TappedRequests) -> str:
    """Return the note that explains the column of delivered messages of pull clients."""
    note = "delivered counts all messages to a client, also 'no messages' replies"
    if any(requester.delivered_msgs is None for requester in tap.requesters):
        return f"{note}; unknown for clients that disconnected or use a new inbox for each pull"
    return note


def anonymous_text(tap: TappedRequests) -> str:
    """Return the number of messages whose client is unknown, with the reason, as text."""
    return f"{counted(f'{tap.anonymous_msgs:,}', 'message')} {_ANONYMOUS_REASON}"


def tap_summary_text(tap: TappedRequests, noun: str) -> str:
    """Return the summary of a tap: requests of unknown clients, why it ended, and its cost.

    `noun` is the word for a tapped request: `pull` or `message`.
    """
    clauses = []
    if tap.gone_msgs:
        clauses.append(
            f"{counted(f'{tap.gone_msgs:,}', noun)} of unknown clients: their inbox was "
            "closed or belongs to another account"
        )
    clauses.append(
        f"{tap.ended}; it cost {counted(f'{tap.read_msgs:,}', 'message')}, "
        f"{bytes_text(tap.read_bytes)}, and {counted(tap.questions_count, 'request')} "
        "to the servers"
    )
    return clean_line("; ".join(clauses))
