"""Texts of events: for the table of events, and for the details of a row."""

from __future__ import annotations

from itertools import islice

from natstui.clean import clean_line
from natstui.model.columns.view import View
from natstui.model.live.state import EventRecord
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    Advisory,
    Configured,
    Noted,
    Outcome,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap
from natstui.tui.kit.sections import Section, line

_BAD_EVENT_TYPES = {
    "max_deliver",
    "stream_quorum_lost",
    "consumer_quorum_lost",
    "server_out_of_space",
    "stream_rolled_back",
}
_WARNING_EVENT_TYPES = {"nak", "terminated", "stream_leader_elected", "consumer_leader_elected"}


def event_kind_text(event: EventRecord) -> str:
    """Return the kind of an event as text."""
    match event:
        case Advisory():
            return clean_line(event.type.replace("_", " "))
        case LinkChanged():
            return "connection"
        case Noted():
            return "note"
        case Outcome():
            return event.status
        case Unavailable():
            return "unavailable"
        case Restored():
            return "restored"
        case Configured():
            return "configuration"
        case Gap():
            return "gap"
        case ClockStepped():
            return "clock"


def event_asset_text(event: EventRecord) -> str:
    """Return the stream and consumer, or the request, an event is about, else an empty text."""
    if isinstance(event, Advisory):
        return clean_line(" › ".join(part for part in (event.stream, event.consumer) if part))
    if isinstance(event, Unavailable | Restored):
        return clean_line(event.what)
    return ""


def short_event_text(event: EventRecord) -> str:
    """Return a short text of an event, without the stream and consumer."""
    if not isinstance(event, Advisory):
        return event_text(event)
    text = event.text
    if event.consumer:
        asset = f"consumer {event.consumer} on {event.stream}"
        text = text.replace(f" of {asset}", "", 1).replace(asset, "consumer", 1)
    elif event.stream:
        text = text.replace(f"stream {event.stream} ", "stream ", 1)
    return clean_line(text.replace(" was ", " ", 1))


def event_text(event: EventRecord) -> str:
    """Return an event as one sentence."""
    match event:
        case Advisory() | Noted() | Outcome():
            return clean_line(event.text)
        case LinkChanged():
            return clean_line(event.state + (f": {event.reason}" if event.reason else ""))
        case Unavailable():
            return clean_line(event.reason)
        case Restored():
            return "can be read again"
        case Configured():
            streams = [stream.name for stream in event.streams]
            consumers = [f"{consumer.stream} › {consumer.name}" for consumer in event.consumers]
            return clean_line("changed: " + ", ".join((streams + consumers)[:20]))
        case Gap() | ClockStepped():
            return gap_text(event)


def gap_text(event: Gap | ClockStepped) -> str:
    """Return the reason of a gap in a recording, or a sentence with the size of a clock change."""
    if isinstance(event, Gap):
        return clean_line(event.reason)
    return f"the clock was changed by {event.step_us / 1e6:+.3f} s"


def event_style(event: EventRecord) -> str:
    """Return the name of the style, a key of `STYLES`, in which an event is shown."""
    match event:
        case Advisory():
            return (
                "bad"
                if event.type in _BAD_EVENT_TYPES
                else "warn"
                if event.type in _WARNING_EVENT_TYPES
                else ""
            )
        case LinkChanged():
            return {"connected": "ok", "connecting": "dim"}.get(event.state, "bad")
        case Unavailable():
            return "warn"
        case Outcome():
            return "dim" if event.status == "done" else "bad"
        case Noted():
            return "accent"
        case _:
            return ""


def latest_events_section(view: View, stream: str, consumer: str | None, count: int) -> Section:
    """Return the section with the newest `count` advisories of a stream or consumer, newest
    first.
    """
    matching_events = (
        event
        for event in reversed(view.state.recent_events)
        if isinstance(event, Advisory)
        and event.stream == stream
        and (consumer is None or event.consumer == consumer)
    )
    lines = (
        line(f"{view.age_text(event.at_us)} ago", short_event_text(event), event_style(event))
        for event in islice(matching_events, count)
    )
    return Section("LATEST EVENTS", tuple(lines))
