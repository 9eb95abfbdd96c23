"""The lines above the tables of what is listened to."""

from __future__ import annotations

from natstui.model.live.state import State
from natstui.model.records.listening import Listened, SubjectsLook
from natstui.units import bytes_text, counted, duration_text, rate_text

_ORDERS = {
    "msgs_per_s": "MSGS/S", "bytes_per_s": "B/S", "msgs": "MSGS", "bytes": "BYTES",
    "subject": "SUBJECT",
}  # fmt: skip
_SIDE_EFFECT = (
    "while it listens, a request that nobody answers times out instead of failing at once"
)


def whole_text(subjects: tuple[str, ...], listened: Listened) -> str:
    """Return what came altogether."""
    about = "about " if listened.other_subjects_count else ""
    count = listened.subjects_count + listened.other_subjects_count
    return "  ·  ".join(
        [
            f"sub {', '.join(subjects)}",
            f"{rate_text(listened.msgs_per_s)} msgs/s",
            f"{bytes_text(listened.bytes_per_s)}/s",
            f"{listened.came_msgs:,} msgs, {bytes_text(listened.came_bytes)}",
            f"{about}{counted(f'{count:,}', 'subject')}",
            f"in {duration_text(listened.elapsed_s)}",
        ]
    )


def look_text(listened: Listened, *, held: bool) -> str:
    """Return how it is shown, and what is not."""
    look = listened.look
    count = counted(f"{listened.wanted_subjects_count:,}", "subject")
    arrow = "▼" if look.reverse else "▲"
    parts = [
        *(["HELD"] if held else []),
        f"{'tree of ' if look.as_tree else ''}{count} by {_ORDERS[look.by]} {arrow}",
        *([f"/{look.pattern}"] if look.pattern else []),
    ]
    if listened.unwanted_msgs:
        what = "others" if look.pattern else "internal"
        parts.append(f"{listened.unwanted_msgs:,} msgs of {what} not shown")
    return "  ·  ".join(parts)


def gap_text(listened: Listened) -> str:
    """Return that some are missing, if some are."""
    if not listened.interruptions_count:
        return ""
    why = f" ({listened.interrupted_by})" if listened.interrupted_by else ""
    lost = counted(listened.interruptions_count, "time")
    return f"its connection was lost {lost}{why}: what came meanwhile is missing, uncounted"


def newest_text(listened: Listened) -> str:
    """Return which messages are listed."""
    look = listened.look
    shown = len(listened.heard)
    is_all = not look.pattern and not listened.unwanted_msgs
    of = f" of {listened.came_msgs:,}" if is_all and shown < listened.came_msgs else ""
    if not shown:
        return "messages  ·  none yet"
    return f"messages  ·  the newest {shown:,}{of}, newest first"


def waiting_text(subjects: tuple[str, ...], look: SubjectsLook, listened: Listened | None) -> str:
    """Return why no subject is listed."""
    if listened is not None and listened.unwanted_msgs:
        if look.pattern:
            return f"no subject matches /{look.pattern}; escape clears the filter"
        return "only internal subjects came: i shows them"
    return f"nothing came on {', '.join(subjects)} yet; {_SIDE_EFFECT}"


def taken_from(state: State, subjects: tuple[str, ...]) -> list[str]:
    """Return the push consumers that would deliver to whoever listens to these subjects.

    A subject with a wildcard wakes none, and a group only its members (measured).
    """
    return [
        f"{consumer_configuration.stream} > {consumer_configuration.name}"
        for consumer_configuration in state.consumer_configurations.values()
        if consumer_configuration.deliver_subject in subjects
        and not consumer_configuration.deliver_group
    ]
