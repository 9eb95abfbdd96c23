"""Connections in words: the same on the screen and headless."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.clients.connection import ClientConnection, Connections
from natstui.model.clients.requests import TappedRequests
from natstui.units import bytes_text, counted, duration_text

_NAMED_COUNT = 12
IDLE = "an idle client is listed only once its pull expires"
_ANONYMOUS = "no reply subject (plain publishes have none): the client cannot be identified"


def summary(seen: Connections, *, closed: bool) -> str:
    """Return one sentence on who answered, and what was cut off."""
    what = counted(len(seen.rows), "closed connection" if closed else "connection")
    # Nobody knows how many servers there are: by their names one sees which is missing.
    names = sorted(server.name for server in seen.servers)
    more = f" +{len(names) - _NAMED_COUNT}" if len(names) > _NAMED_COUNT else ""
    text = f"{what} on {counted(len(names), 'server')}: {', '.join(names[:_NAMED_COUNT])}{more}"
    slow = [(server.name, server.slow_consumers_count) for server in seen.servers]
    cut = [f"{name} {count}" for name, count in slow if count]
    if cut:
        text += f"; slow consumer events since the start: {', '.join(cut)}"
    if seen.left_out_count:
        text += f"; the busiest of {seen.left_out_count + len(seen.rows):,}"
    if seen.silent:
        text += f"; incomplete, no further reply from {', '.join(seen.silent)}"
    return text


def kick_loss(one: ClientConnection) -> str:
    """Return what becomes of a client that is kicked."""
    ends = counted(one.subscriptions_count, "subscription")
    return (
        f"its {ends} end, its unacknowledged messages are redelivered, and the client may "
        "reconnect by itself"
    )


def kick_question(one: ClientConnection) -> str:
    """Return what is asked before a connection is closed: which one, and what becomes of it."""
    known = (one.user, one.address, one.library)
    who = ", ".join(word for word in known if word and word != one.called)
    named = f"{one.called} ({who})" if who else one.called
    return f"this will kick {named} from {one.server_name}: {kick_loss(one)}"


def idle_text(heard: TappedRequests) -> str:
    """Return when a client that gets nothing shows that it is there."""
    waits = [asker.longest_wait_s for asker in heard.askers if asker.longest_wait_s is not None]
    said = f"{IDLE}, here within {duration_text(max(waits))}" if waits else IDLE
    return f"{said}; {delivered_text(heard)}" if heard.askers else said


def delivered_text(heard: TappedRequests) -> str:
    """Return what the number of delivered messages is of clients that pull."""
    counts = "delivered counts all messages to a client, also 'no messages' replies"
    if any(asker.delivered_msgs is None for asker in heard.askers):
        return f"{counts}; unknown for clients that disconnected or use a new inbox for each pull"
    return counts


def anonymous_text(heard: TappedRequests) -> str:
    """Return how many messages nobody can be found for."""
    return f"{counted(f'{heard.anonymous_msgs:,}', 'message')} {_ANONYMOUS}"


def cost_text(heard: TappedRequests, what: str) -> str:
    """Return how long a tap read, what it could not tell, and what it cost."""
    parts = []
    if heard.gone_msgs:
        parts.append(
            f"{counted(f'{heard.gone_msgs:,}', what)} of unknown clients: their inbox was "
            "closed or belongs to another account"
        )
    parts.append(
        f"{heard.ended}; it cost {counted(f'{heard.read_msgs:,}', 'message')}, "
        f"{bytes_text(heard.read_bytes)}, and {counted(heard.questions_count, 'request')} "
        "to the servers"
    )
    return clean_line("; ".join(parts))
