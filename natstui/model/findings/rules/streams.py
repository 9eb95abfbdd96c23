"""The rules about streams: for each kind of the catalogue, when it holds and what shows it."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.assets.monitor_keys import PREFIX
from natstui.model.assets.subjects import overlap
from natstui.model.findings.catalogue import streams as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Seen
from natstui.model.findings.rules.evidence import leader_flaps
from natstui.model.findings.rules.look import StreamLook, away
from natstui.model.findings.rules.metadata import stream_threshold, stream_warning
from natstui.model.findings.thresholds import (
    FULL_SOON_HELD_S,
    FULL_SOON_S,
    GIVEN_UP_KEPT_S,
    HOLES_FEWEST,
    HOLES_SHARE,
    PEER_LAG_MSGS,
    SILENT_UPSTREAM_S,
    SUBJECTS_MOST,
    SUBJECTS_OWN_FEWEST,
    SUBJECTS_OWN_SHARE,
    TREND_LEAST_S,
    UPSTREAM_LAG_MSGS,
)
from natstui.model.live.limits import Fill, bytes_are_full, is_near
from natstui.model.live.rates import stream_full_in_s
from natstui.units import bytes_text, counted, duration_text

Found = Seen | None


def unreachable(look: StreamLook, known: bool) -> Found:
    """Its leader does not answer."""
    gone = look.name in look.state.unreachable_streams
    return Seen(kinds.S_UNREACHABLE.sentence) if gone else None


def no_leader(look: StreamLook, known: bool) -> Found:
    """Nobody leads it."""
    if look.columns.leader[look.row] is not None or unreachable(look, known):
        return None
    return Seen(kinds.S_NO_LEADER.sentence)


def no_quorum(look: StreamLook, known: bool) -> Found:
    """So many replicas are away that nothing can be agreed on."""
    peers = look.columns.peers[look.row]
    gone = away(peers)
    if not peers or len(gone) <= len(peers) // 2:
        return None
    names = ", ".join(peer.name for peer in gone)
    return Seen(f"{len(gone)} of {counted(len(peers) + 1, 'replica')} away: {names}")


def peer_away(look: StreamLook, known: bool) -> Found:
    """A replica is away, and the others can go on."""
    gone = away(look.columns.peers[look.row])
    if not gone or no_quorum(look, known):
        return None
    return Seen(f"not heard of: {', '.join(peer.name for peer in gone)}")


def peer_lags(look: StreamLook, known: bool) -> Found:
    """A replica that is there is far behind."""
    peers = look.columns.peers[look.row]
    behind = [peer for peer in peers if peer.lag_msgs > PEER_LAG_MSGS and peer not in away(peers)]
    if not behind:
        return None
    return Seen(", ".join(f"{peer.name} is {peer.lag_msgs} entries behind" for peer in behind))


def lost(look: StreamLook, known: bool) -> Found:
    """The store lost messages."""
    count = look.columns.lost_msgs[look.row]
    return Seen(f"{counted(count, 'message')} lost by damage of the store") if count else None


def refusing(look: StreamLook, known: bool) -> Found:
    """A publisher gets an error instead of a confirmation."""
    config = look.config
    if config is None or config.discard != "new":
        return None
    stored, size = look.columns.stored_msgs[look.row], look.columns.stored_bytes[look.row]
    if config.max_msgs and stored >= config.max_msgs:
        return Seen(f"{stored} of {config.max_msgs} messages: new ones are refused")
    if bytes_are_full(Fill(stored, size, None, config.max_bytes), losing=False):
        text = f"{bytes_text(size)} of {bytes_text(config.max_bytes)}"
        return Seen(f"{text}: new messages are refused")
    return None


def _full_in_s(look: StreamLook, fill: Fill) -> float | None:
    """Return when the first limit is reached; None while the trend is too young to say."""
    values = look.past.values("stored_msgs", TREND_LEAST_S)
    if values[0][0] - values[-1][0] < TREND_LEAST_S * 1e6:
        return None
    return stream_full_in_s(look.state.stream_history, look.key, fill)


def near(look: StreamLook, known: bool) -> Found:
    """It is near a limit at which something is refused, or reaches it soon."""
    config = look.config
    if config is None or refusing(look, known):
        return None
    stored, size = look.columns.stored_msgs[look.row], look.columns.stored_bytes[look.row]
    consumers = look.columns.consumers_count[look.row]
    if is_near(consumers, config.max_consumers_count):
        return Seen(f"{consumers} of {config.max_consumers_count} consumers")
    if config.discard != "new":
        return None
    fill = Fill(stored, size, config.max_msgs, config.max_bytes)
    full_s = _full_in_s(look, fill)
    soon = full_s is not None and full_s < FULL_SOON_S
    when = f", full in {duration_text(full_s)}" if full_s is not None else ""
    levels = (
        (stored, config.max_msgs, f"{stored} of {config.max_msgs} messages"),
        (size, config.max_bytes, f"{bytes_text(size)} of {bytes_text(config.max_bytes or 0)}"),
    )
    for level, most, text in levels:
        if most and is_near(level, most):
            return Seen(text + when)
    if full_s is None or not soon:
        return None
    # The first messages of a stream, or a burst, are no trend.
    hold_s = min(FULL_SOON_HELD_S, full_s / 10)
    worst = max(levels, key=lambda it: it[0] / it[1] if it[1] else 0.0)
    return Seen(worst[2] + when, hold_s=hold_s)


def silent(look: StreamLook, known: bool) -> Found:
    """Nothing was heard of an origin or a source; a living one answers within a second."""
    found = [
        one
        for one in look.columns.upstreams[look.row]
        if one.active_ns is None or one.active_ns > SILENT_UPSTREAM_S * 1e9
    ]
    if not found:
        return None
    worst = max(found, key=lambda one: one.active_ns or 0)
    if worst.active_ns is None:
        return Seen(f"nothing was ever heard of {worst.name}", hold_s=SILENT_UPSTREAM_S)
    text = f"nothing heard of {worst.name} for {duration_text(worst.active_ns / 1e9)}"
    return Seen(f"{text}, its lag says {worst.lag_msgs}", look.at_us - worst.active_ns // 1000)


def source_error(look: StreamLook, known: bool) -> Found:
    """An origin or a source answers with an error."""
    for one in look.columns.upstreams[look.row]:
        if one.error:
            return Seen(f"{one.name}: {one.error}")
    return None


def source_lags(look: StreamLook, known: bool) -> Found:
    """It is far behind an origin or a source."""
    least = UPSTREAM_LAG_MSGS // 2 if known else UPSTREAM_LAG_MSGS
    behind = [one for one in look.columns.upstreams[look.row] if one.lag_msgs > least]
    if not behind:
        return None
    worst = max(behind, key=lambda one: one.lag_msgs)
    return Seen(f"{counted(worst.lag_msgs, 'message')} behind {worst.name}")


def unserved(look: StreamLook, known: bool) -> Found:
    """A work queue holds what nobody takes."""
    config, stored = look.config, look.columns.stored_msgs[look.row]
    if config is None or config.retention != "workqueue" or not stored:
        return None
    consumers = look.consumers()
    if consumers is None:
        return None
    if not consumers:
        return Seen(f"{counted(stored, 'message')}, and no consumer", hold_s=1.0)
    filters = [subject for one in consumers for subject in one.filter_subjects or (">",)]
    alone = [s for s in config.subjects if not any(overlap(s, each) for each in filters)]
    if not alone:
        return None
    return Seen(f"no consumer takes {', '.join(alone[:5])}", hold_s=1.0)


def no_interest(look: StreamLook, known: bool) -> Found:
    """What is published is dropped at once, because no consumer wants it."""
    config = look.config
    if config is None or config.retention != "interest" or config.mirror or config.sealed:
        return None
    if look.columns.consumers_count[look.row]:
        return None
    last_seq = look.columns.last_seq[look.row]
    return Seen(f"no consumer: of {counted(last_seq, 'message')} none is kept", hold_s=1.0)


def many_subjects(look: StreamLook, known: bool) -> Found:
    """It has very many subjects."""
    count = look.columns.subjects_count[look.row]
    return Seen(f"{count:,} subjects") if count > SUBJECTS_MOST else None


def own_subjects(look: StreamLook, known: bool) -> Found:
    """Nearly every message has its own subject, and nothing limits how many there will be."""
    columns, row, config = look.columns, look.row, look.config
    subjects, stored = columns.subjects_count[row], columns.stored_msgs[row]
    if config is None or config.max_msgs_per_subject or subjects > SUBJECTS_MOST:
        return None
    share = SUBJECTS_OWN_SHARE - (0.1 if known else 0.0)
    if subjects < SUBJECTS_OWN_FEWEST or subjects < share * stored:
        return None
    return Seen(f"{subjects:,} subjects for {stored:,} messages")


def holes(look: StreamLook, known: bool) -> Found:
    """Most of its sequences are deleted."""
    deleted, columns = look.columns.deleted_msgs[look.row], look.columns
    span = columns.last_seq[look.row] - columns.first_seq[look.row] + 1
    if deleted < HOLES_FEWEST or deleted < HOLES_SHARE * span:
        return None
    return Seen(
        f"{deleted:,} of {span:,} sequences are deleted", None, (columns.first_seq[look.row],)
    )


def rolled_back(look: StreamLook, known: bool) -> Found:
    """Its last sequence went back not long ago."""
    at_us = look.trouble.rolled_back_at_us if look.trouble else 0
    if not at_us or look.at_us - at_us > GIVEN_UP_KEPT_S * 1e6:
        return None
    return Seen(look.trouble.rolled_back_text if look.trouble else "", at_us)


StreamRule = tuple[Kind, Callable[[StreamLook, bool], Found]]
STREAM_RULES: tuple[StreamRule, ...] = (
    (kinds.S_UNREACHABLE, unreachable),
    (kinds.S_NO_LEADER, no_leader),
    (kinds.S_NO_QUORUM, no_quorum),
    (kinds.S_PEER_AWAY, peer_away),
    (kinds.S_PEER_LAGS, peer_lags),
    (kinds.S_LOST, lost),
    (kinds.S_REFUSING, refusing),
    (kinds.S_NEAR, near),
    (kinds.S_SILENT, silent),
    (kinds.S_SOURCE_ERROR, source_error),
    (kinds.S_SOURCE_LAGS, source_lags),
    (kinds.S_UNSERVED, unserved),
    (kinds.S_NO_INTEREST, no_interest),
    (kinds.S_SUBJECTS, many_subjects),
    (kinds.S_OWN_SUBJECTS, own_subjects),
    (kinds.S_HOLES, holes),
    (kinds.S_LEADER_FLAPS, leader_flaps),
    (kinds.S_ROLLED_BACK, rolled_back),
    (kinds.S_OWN_THRESHOLD, stream_threshold),
    (kinds.S_OWN_WARNING, stream_warning),
)
"""Every rule about one stream; `S_GONE` is found by comparing two moments."""


def refuses_or_drops(config: StreamConfiguration) -> bool:
    """Tell whether a stream may have a finding although its counters look well."""
    return (
        config.discard == "new"
        or config.retention != "limits"
        or config.max_consumers_count is not None
        or PREFIX in config.config_json
    )


def stream_conditions(look: StreamLook, known: frozenset[Kind]) -> list[tuple[Kind, Seen]]:
    """Return every condition that holds for a stream now."""
    found = []
    for kind, find in STREAM_RULES:
        seen = find(look, kind in known)
        if seen is not None:
            found.append((kind, seen))
    return found
