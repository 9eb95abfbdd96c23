"""Connections in words: the same on the screen and headless."""

from __future__ import annotations

from natstui.model.clients.connection import ClientConnection, Connections
from natstui.units import counted

_NAMED_COUNT = 12


def summary(seen: Connections, *, closed: bool) -> str:
    """Return one sentence on who answered, and what was cut off."""
    what = counted(len(seen.rows), "closed connection" if closed else "connection")
    # Nobody knows how many servers there are: by their names one sees which is missing.
    names = sorted(one.name for one in seen.servers)
    more = f" +{len(names) - _NAMED_COUNT}" if len(names) > _NAMED_COUNT else ""
    text = f"{what} on {counted(len(names), 'server')}: {', '.join(names[:_NAMED_COUNT])}{more}"
    slow = [(one.name, one.slow_consumers_count) for one in seen.servers]
    cut = [f"{name} {count}" for name, count in slow if count]
    if cut:
        text += f"; slow consumer events since the start: {', '.join(cut)}"
    if seen.left_out_count:
        text += f"; the busiest of {seen.left_out_count + len(seen.rows):,}"
    if seen.silent:
        text += f"; not complete, no further answer from {', '.join(seen.silent)}"
    return text


def kick_loss(one: ClientConnection) -> str:
    """Return what becomes of a client that is kicked."""
    ends = counted(one.subscriptions_count, "subscription")
    return (
        f"its {ends} end, messages it has not acknowledged are delivered again, and a client that "
        "reconnects comes back by itself"
    )


def kick_question(one: ClientConnection) -> str:
    """Return what is asked before a connection is closed: which one, and what becomes of it."""
    known = (one.user, one.address, one.library)
    who = ", ".join(word for word in known if word and word != one.called)
    named = f"{one.called} ({who})" if who else one.called
    return f"this will kick {named} from {one.server_name}: {kick_loss(one)}"
