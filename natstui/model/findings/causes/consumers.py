"""The causes of findings about a consumer, in order of precedence."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.catalogue import consumers as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import CONSUMERS_PILING_UP
from natstui.model.findings.causes.cause import Cause, diagnose, rank_causes
from natstui.model.findings.causes.metadata import find_consumer_threshold
from natstui.model.findings.causes.risky_settings import (
    find_expiry,
    find_original_pace,
    find_rate_limit,
    find_start_beyond_end,
    find_unmatched_filter,
)
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.memory import Purge
from natstui.model.findings.facts.row import replicas_count, unreachable_replicas
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Symptom, entity_of_key
from natstui.model.findings.thresholds import (
    ACK_FLOOR_BLOCKED_S,
    ALL_NAKD_END_SHARE,
    ALL_NAKD_SHARE,
    DROPPED_MSGS_REPORTED_S,
    INELIGIBLE_PULLS_S,
    LAGGING_WINDOW_S,
    LATE_ACK_WAIT_SHARE,
    LEADER_CHANGES_WINDOW_S,
    LOST_MSGS_REPORTED_S,
    MAX_FETCH_LOOP_PAUSE_S,
    MAX_LAG_S,
    MAX_PULL_GAP_IF_UNKNOWN_S,
    MIN_ACK_SAMPLES,
    MIN_ACKED_BEHIND_FLOOR,
    MIN_BACKLOG_GROWTH_PER_S,
    MIN_BACKLOG_MSGS,
    MIN_LEADER_CHANGES,
    MIN_NAKS,
    MIN_POISON_POLLS,
    MIN_REDELIVERIES,
    MIN_REPORTED_BACKOFF_WAIT_S,
    MIN_TERMS,
    MIN_TIME_TO_DRAIN_S,
    MOSTLY_REDELIVERIES_SHARE,
    NAKS_WINDOW_S,
    NEAR_LIMIT_SHARE,
    NEVER_ACKED_AFTER_S,
    NEW_CONSUMER_MAX_AGE_S,
    NO_PULLS_AFTER_S,
    NO_SUBSCRIBER_S,
    PILE_UP_WINDOW_S,
    POISON_DELIVERIES,
    PULLS_STALLED_S,
    PUSH_STALLED_S,
    REDELIVERED_ACKS_SHARE,
    REDELIVERIES_SHARE,
)
from natstui.model.live.ack_times import window_text
from natstui.model.live.advisory_counts import NOTHING_COUNTED, MessageCounts
from natstui.model.live.age import next_message_age_s
from natstui.model.live.rates import TREND_WINDOW_S
from natstui.units import counted, duration_text

Facts = ConsumerFacts
HAS_PENDING, HAS_UNACKED, HAS_REDELIVERED, HAS_ADVISORIES = 1, 2, 4, 8
"""Flags of a consumer; a cause may require one of them."""
_US_PER_S = 1_000_000
_MAX_NAMED_MESSAGES = 5
"""Limit of message sequences in a sentence."""
_MAX_CLIENT_PAUSE_S = 15.0
"""Maximum pause of a client in seconds: a longer one is reported as missing pulls."""
_MIN_POLLS = 6
"""Minimum polls in the window, two for each third."""
_PAUSE_SEARCH_S = 45.0
"""Time span in which the longest pause is searched."""

_UsAndValuePairs = list[tuple[int, int]]
"""Pairs of sample time (µs of the steady clock) and value, newest first."""


# Contact: the leader and the replicas.


def _is_refused_by_server(f: Facts) -> bool:
    """Return whether a server refuses to run the consumer or its stream.

    The reason of the server is a finding of its own.
    """
    return f.name in f.state.offline or (f.name[0], "") in f.state.offline


def find_unreachable_leader(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the leader of the consumer, or of its stream, does not reply."""
    state = f.state
    if _is_refused_by_server(f):
        return None
    is_unreachable = (
        f.name in state.unreachable_consumers or f.name[0] in state.unreachable_streams
    )
    return Symptom(kinds.UNREACHABLE.sentence) if is_unreachable else None


def find_missing_leader(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if no server leads the consumer."""
    if f.columns.leader[f.row] is not None or _is_refused_by_server(f):
        return None
    return Symptom(kinds.NO_LEADER.sentence)


def find_lost_quorum(f: Facts | StreamFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the leader has no contact with half of its replicas or more."""
    peers, leader = f.columns.peers[f.row], f.columns.leader[f.row]
    unreachable, replicas_total = unreachable_replicas(peers), replicas_count(leader, peers)
    if not peers or replicas_total - len(unreachable) > replicas_total // 2:
        return None
    names = ", ".join(peer.name for peer in unreachable)
    return Symptom(f"{len(unreachable)} of {counted(replicas_total, 'replica')} away: {names}")


def find_offline_replicas(f: Facts | StreamFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the leader has no contact with some replicas."""
    unreachable = unreachable_replicas(f.columns.peers[f.row])
    if not unreachable:
        return None
    return Symptom(f"no contact with {', '.join(peer.name for peer in unreachable)}")


def find_leader_changes(f: Facts | StreamFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if leaders were elected often, except because of server restarts."""
    if f.advisories is None:
        return None
    window_start_us = f.at_us - round(LEADER_CHANGES_WINDOW_S * 1e6)
    recent_elections_us = [
        at_us
        for at_us in f.advisories.elected_at_us
        if at_us >= window_start_us and not f.state.servers.explains_election(at_us)
    ]
    if len(recent_elections_us) < MIN_LEADER_CHANGES:
        return None
    return Symptom(
        f"{len(recent_elections_us)} elections in {LEADER_CHANGES_WINDOW_S / 60:.0f} min",
        recent_elections_us[0],
    )


# Redelivery: naks, repeats, missing acks.


def find_pause(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the consumer is paused."""
    return Symptom(kinds.PAUSED.sentence) if f.columns.paused[f.row] else None


def find_all_nakd(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients nak'd nearly all recent deliveries, of several messages."""
    naks, count = f.naks, f.recent_naks_count
    # A nak'd message stays ack pending until it is acked or dropped.
    if not f.unacked or count < MIN_NAKS or len(naks.messages) < 2:
        return None
    nak_share = f.nak_share
    if nak_share < (ALL_NAKD_END_SHARE if is_finding_open else ALL_NAKD_SHARE):
        return None
    text = (
        f"{counted(count, 'nak')} in {NAKS_WINDOW_S:.0f} s, {100 * nak_share:.0f} % of deliveries"
    )
    since_us = naks.recent[0][0] * 1_000_000 if len(naks.recent) < 2 else _find_run_start_us(naks)
    numbers = {"naks_count": count, "share": nak_share, "total_count": naks.total_count}
    return Symptom(
        f"{text}; of messages {_format_sequences(naks.sequences)}",
        since_us,
        naks.sequences,
        numbers,
    )


def find_poison_message(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if one message is delivered repeatedly and never acked."""
    repeated_messages = [
        message
        for message in f.naks.most_frequent()
        if message.deliveries_count >= POISON_DELIVERIES and message.stream_seq > f.ack_floor
    ]
    if repeated_messages and f.unacked:
        worst_message = max(repeated_messages, key=lambda message: message.deliveries_count)
        deliveries_count = worst_message.deliveries_count
        text = f"message {worst_message.stream_seq} was delivered {deliveries_count} times"
        other_messages_text = (
            f", {counted(len(repeated_messages) - 1, 'other')} as well"
            if len(repeated_messages) > 1
            else ""
        )
        other_repeated_seqs = (
            message.stream_seq for message in repeated_messages if message is not worst_message
        )
        return Symptom(
            text + other_messages_text,
            None if is_finding_open else _find_run_start_us(f.naks),
            (worst_message.stream_seq, *other_repeated_seqs),
            {"deliveries_count": deliveries_count},
        )
    return _find_repeated_message(f, is_finding_open)


def _find_repeated_message(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if one message is redelivered in every poll and blocks the ack floor.

    This needs no advisories of naks.
    """
    if f.redelivered != 1 or not f.unacked:
        return None
    repeats_count = f.one_message_repeats
    if f.one_message_polls < MIN_POISON_POLLS or repeats_count < POISON_DELIVERIES:
        return None
    # The counters may be of other messages that were acked since: this one must come again and
    # again while it is watched, as soon as that was possible.
    ack_wait_s = f.longest_ack_wait_s or 0.0
    if f.watched_s > 2 * ack_wait_s + 3 and not is_finding_open:
        if f.one_message_s < 3 * ack_wait_s or f.watched_repeats < MIN_POISON_POLLS:
            return None
        if f.naks_count >= f.watched_repeats:
            return None
    floor_seq = f.ack_floor + 1
    floor_advisories = [message for message in f.naks.messages if message.stream_seq == floor_seq]
    if floor_advisories and floor_advisories[0].deliveries_count < POISON_DELIVERIES:
        return None
    text = f"a message, probably {floor_seq}, was redelivered at least {repeats_count} times"
    return Symptom(text, None, (floor_seq,), {"deliveries_count": repeats_count})


def find_missing_acks(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if messages are redelivered, and no ack came within ack wait."""
    ack_wait_s, acked_ago_s = f.longest_ack_wait_s, f.acked_ago_s
    if ack_wait_s is None or f.is_delivery_stopped or not f.unacked or not f.redelivered:
        return None
    if f.floor_moved_msgs is None:
        # One poll does not show that no acks come: the server's clock may differ.
        return None
    without_ack_s = (f.at_us - f.last_ack_us) / 1e6
    # Deliveries must continue: without them no acks are expected.
    is_delivering = (
        (f.deliveries or 0) > 0 if f.quiet_s is None else f.quiet_s <= 3 * ack_wait_s + 5
    )
    if without_ack_s <= max(ack_wait_s, NEVER_ACKED_AFTER_S) or not is_delivering:
        return None
    if f.naks_count or (f.advisories and f.advisories.terms.recent_count(f.at_us, NAKS_WINDOW_S)):
        return None
    if f.was_never_acked:
        last_ack_text = "no message was ever acked"
    elif acked_ago_s is None:
        last_ack_text = "last ack unknown"
    else:
        last_ack_text = f"last ack {duration_text(acked_ago_s)} ago"
    text = f"{f.redelivered} redelivered, {f.unacked} ack pending, {last_ack_text}"
    return Symptom(text, f.unacked_since_us, f.first_unacked_seqs)


def find_max_ack_pending_reached(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if ack pending stays at its limit longer than three acks take."""
    limit = f.max_ack_pending
    if not limit or f.unacked < limit or f.is_delivery_stopped:
        return None
    acked_msgs = f.history.growth("ack_floor_consumer_seq", TREND_WINDOW_S)
    if acked_msgs is None:
        # One poll does not show that no acks come: the server's clock may differ.
        return None
    time_of_three_acks_s = 3 * TREND_WINDOW_S / acked_msgs if acked_msgs > 0 else 0.0
    if f.held_s < time_of_three_acks_s:
        return None
    text = f"{f.unacked} of {limit} ack pending: delivery has stopped until an ack comes"
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs)


def find_blocked_ack_floor(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if one unacked message blocks the ack floor; later ones are acked."""
    if not f.unacked or f.is_delivery_stopped or f.max_ack_pending is None:
        return None
    behind_msgs, delivered_msgs = f.acked_behind_floor_msgs, f.deliveries or 0
    if (
        behind_msgs is None
        or behind_msgs < MIN_ACKED_BEHIND_FLOOR
        or f.unacked > max(3, behind_msgs // 5)
    ):
        return None
    if delivered_msgs <= 0 and not is_finding_open:
        return None
    # A message that a client lost is redelivered soon after ack wait.
    max_redelivery_delay_s = (f.longest_ack_wait_s or 0.0) + 5
    min_blocked_s = (
        max_redelivery_delay_s
        if ACK_FLOOR_BLOCKED_S < max_redelivery_delay_s < 2 * ACK_FLOOR_BLOCKED_S
        else ACK_FLOOR_BLOCKED_S
    )
    # Acks that a restart of a server lost come again after ack wait, at the next pull.
    if f.state.servers.explains_election(f.at_us - round(f.floor_blocked_s * 1e6)):
        min_blocked_s = max(min_blocked_s, (f.longest_ack_wait_s or 0.0) + f.allowed_gap_s)
    if f.floor_blocked_s < min_blocked_s and not is_finding_open:
        return None
    text = f"message {f.ack_floor + 1} is not acked, {behind_msgs} after it are"
    return Symptom(text, None, (f.ack_floor + 1,))


def find_late_acks(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients ack only after ack wait, when messages are redelivered."""
    symptom = _find_late_ack_samples(f)
    if symptom is not None:
        return symptom
    repeat_share, repeats_count = f.repeat_share, f.repeats or 0
    if (
        repeat_share is None
        or f.naks_count
        or f.longest_ack_wait_s is None
        or f.is_delivery_stopped
    ):
        return None
    acked_msgs = f.floor_moved_msgs or 0
    if not is_finding_open and min(repeats_count, f.repeat_polls) < MIN_REDELIVERIES:
        return None
    if (
        repeat_share < (REDELIVERIES_SHARE / 2 if is_finding_open else REDELIVERIES_SHARE)
        or not acked_msgs
    ):
        return None
    ack_wait_text = duration_text(f.longest_ack_wait_s)
    text = f"{repeats_count} of {f.deliveries} deliveries are repeats, none was nak'd; "
    text += f"ack wait is {ack_wait_text}"
    return Symptom(text, None, ())


def _find_late_ack_samples(f: Facts) -> Symptom | None:
    """Return the evidence if sampled acks take about as long as ack wait, or follow a redelivery.

    A sample counts from the last delivery, so an ack after ack wait seems quick. Then only a
    redelivery without a nak shows that the ack was late.
    """
    ack_wait_ns = f.config.ack_wait_ns if f.config else None
    if f.advisories is None or not ack_wait_ns:
        return None
    window = f.advisories.acks.until(f.at_us)
    count = window.times.total_count
    p99_ns = window.times.percentile_ns(PERCENTILES["p99"])
    if count < MIN_ACK_SAMPLES or p99_ns is None:
        return None
    has_naks = f.advisories.naks.last_at_us >= f.at_us - round(window.window_s * 1e6)
    is_redelivered = not has_naks and window.repeated_count >= REDELIVERED_ACKS_SHARE * count
    is_near_ack_wait = p99_ns >= NEAR_LIMIT_SHARE * ack_wait_ns
    is_comparable_to_ack_wait = p99_ns >= LATE_ACK_WAIT_SHARE * ack_wait_ns
    if not is_near_ack_wait and not (is_redelivered and is_comparable_to_ack_wait):
        return None
    text = f"acked after {window_text(window)}; ack wait is {duration_text(ack_wait_ns / 1e9)}"
    if is_redelivered:
        text += f", and {counted(window.repeated_count, 'message')} came again"
    return Symptom(
        text, None, (), {"p99_s": p99_ns / 1e9, "repeated_count": window.repeated_count}
    )


def find_redeliveries(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if most deliveries are repeats, without a known reason."""
    repeat_share, repeats_count = f.repeat_share, f.repeats or 0
    if repeat_share is None or not f.redelivered or f.is_delivery_stopped:
        return None
    if repeat_share < (
        MOSTLY_REDELIVERIES_SHARE / 2 if is_finding_open else MOSTLY_REDELIVERIES_SHARE
    ):
        return None
    if not is_finding_open and min(repeats_count, f.repeat_polls) < MIN_REDELIVERIES:
        return None
    text = f"{repeats_count} of {f.deliveries} deliveries are repeats"
    return Symptom(
        f"{text}; {f.redelivered} not acked, {f.pending} pending", None, f.first_unacked_seqs
    )


def find_naks(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients nak some messages."""
    count = f.recent_naks_count
    if count < (1 if is_finding_open else MIN_NAKS):
        return None
    sequences_text = _format_sequences(f.naks.sequences)
    text = f"{counted(count, 'nak')} in {NAKS_WINDOW_S:.0f} s; of messages {sequences_text}"
    return Symptom(text, _find_run_start_us(f.naks), f.naks.sequences)


def find_backoff_wait(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if messages wait for the next step of the backoff."""
    backoff = f.settings.get("backoff")
    ack_wait_s = f.longest_ack_wait_s
    if not isinstance(backoff, list) or not f.unacked or f.is_delivery_stopped:
        return None
    if ack_wait_s is None or not MIN_REPORTED_BACKOFF_WAIT_S <= f.held_s < ack_wait_s:
        return None
    return Symptom(
        f"{counted(f.unacked, 'message')} ack pending for {_unacked_time_text(f)}; the "
        f"next delivery comes within {duration_text(ack_wait_s)}", f.idle_since_us,
        f.first_unacked_seqs,
    )  # fmt: skip


def _unacked_time_text(f: Facts) -> str:
    """Return the time since the last delivery or ack as text.

    It begins with `at least` if the server does not know it, after a restart.
    """
    text = duration_text(f.held_s)
    return text if f.has_known_activity else f"at least {text}"


def _is_past_ack_wait(f: Facts, is_finding_open: bool) -> bool:
    """Return whether messages are ack pending for longer than every ack wait."""
    ack_wait_s = f.longest_ack_wait_s
    if not f.unacked or ack_wait_s is None or f.is_delivery_stopped:
        return False
    if is_finding_open and not f.has_known_activity:
        # The server was restarted since, and has neither delivered nor received an ack.
        return True
    # One poll does not show that no acks come: the server's clock may differ.
    return f.floor_moved_msgs is not None and f.held_s > ack_wait_s


def find_unacked_without_pull(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if messages are unacked for longer than ack wait, and no client pulls.

    Messages are redelivered only to a pull.
    """
    if (
        not _is_past_ack_wait(f, is_finding_open)
        or not _has_no_recent_pull(f)
        or f.config is None
        or not f.config.durable
    ):
        return None
    text = f"{counted(f.unacked, 'message')} not acked for {_unacked_time_text(f)}"
    text += "; no pull is open, and messages are redelivered only to a pull"
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs)


def find_closed_client(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a client's connection ended within ack wait of unacked messages.

    A client that processes a batch neither pulls nor acks, so a pull consumer is reported only if
    a connection ended after the last delivery.
    """
    ack_wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    config = f.config
    if config is None or not config.durable or ack_wait_s is None or delivered_at_us is None:
        return None
    if f.is_delivery_stopped or f.held_s > ack_wait_s:
        return None
    client = _find_ended_client(f, delivered_at_us)
    if is_finding_open:
        # The next client receives them only after ack wait.
        is_client_disconnected = f.held_s > MAX_FETCH_LOOP_PAUSE_S
    elif config.pull:
        pull_gap_s = f.pull_gap_s
        is_client_disconnected = client is not None and pull_gap_s is not None
        is_client_disconnected = (
            is_client_disconnected and min(pull_gap_s or 0.0, f.held_s) > f.allowed_gap_s
        )
    else:
        is_client_disconnected = not f.has_client and f.held_s > NO_SUBSCRIBER_S
    if not is_client_disconnected:
        return None
    client_text = f"client {client}" if client else "their client"
    text = f"{f.unacked} ack pending, unchanged for {duration_text(f.held_s)}; the connection of"
    remaining_text = duration_text(max(0.0, ack_wait_s - f.held_s))
    text += f" {client_text} ended; ack wait is over in {remaining_text}"
    report_after_s = None if is_finding_open or config.pull else NO_SUBSCRIBER_S
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs, report_after_s=report_after_s)


def _find_ended_client(f: Facts, delivered_at_us: int) -> str | None:
    """Return the client whose connection may have received the last delivery and ended after it.

    The connection began before the delivery, and was in use then or later. None without one.
    """
    clients = f.state.clients
    if clients is None:
        return None
    min_active_at_us = delivered_at_us - round(MAX_FETCH_LOOP_PAUSE_S * 1e6)
    for connection in reversed(clients.ended):
        was_open_at_delivery = (
            connection.started_at_us <= delivered_at_us <= connection.stopped_at_us
        )
        if was_open_at_delivery and connection.active_at_us >= min_active_at_us:
            return connection.client
    return None


def _has_no_recent_pull(f: Facts) -> bool:
    """Return whether no client has pulled for longer than `MAX_FETCH_LOOP_PAUSE_S`."""
    if f.config is None or not f.config.pull or f.has_client:
        return False
    pull_gap_s = f.pull_gap_s
    return pull_gap_s is None or pull_gap_s > MAX_FETCH_LOOP_PAUSE_S


def find_overdue_acks(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if messages stay unacked beyond ack wait, though clients receive."""
    if not _is_past_ack_wait(f, is_finding_open) or _has_no_recent_pull(f):
        return None
    first_seqs, last_seq = f.first_unacked_seqs, f.columns.delivered_stream_seq[f.row]
    range_text = f" from {first_seqs[0]} to {last_seq}" if first_seqs else ""
    ack_wait_text = duration_text(f.longest_ack_wait_s or 0.0)
    text = f"{counted(f.unacked, 'message')}{range_text} ack pending for {_unacked_time_text(f)}"
    return Symptom(f"{text}, longer than ack wait ({ack_wait_text})", f.idle_since_us, first_seqs,
                   {"held_s": f.held_s, "msgs": f.unacked})  # fmt: skip


# Delivery: nothing is delivered, although messages are pending.


def _has_waiting_messages(f: Facts) -> bool:
    """Return whether messages are pending, and neither a pause nor a limit stops delivery."""
    return bool(f.pending) and not f.is_delivery_stopped and not f.is_at_max_ack_pending


def _is_unbound(f: Facts) -> bool:
    """Return whether messages are pending at a push consumer without a subscriber."""
    return (
        f.config is not None
        and not f.config.pull
        and not f.has_client
        and _has_waiting_messages(f)
    )


def _count_clients_by_group(f: Facts) -> Mapping[str, int]:
    """Return queue group → number of subscribers of the deliver subject; empty if unknown."""
    clients, subject = f.state.clients, f.config.deliver_subject if f.config else None
    if clients is None or clients.groups_count is None or subject is None:
        return {}
    return clients.groups_count.get(subject, {})


def _find_wrong_queue_group(f: Facts, clients_by_group: Mapping[str, int]) -> Symptom | None:
    """Return the evidence if `clients_by_group` has clients, and none is in the deliver group."""
    config = f.config
    if not clients_by_group or config is None or not config.deliver_group or not _is_unbound(f):
        return None
    if config.deliver_group in _count_clients_by_group(f):
        return None
    clients_text = counted(sum(clients_by_group.values()), "client")
    names = ", ".join(sorted(name for name in clients_by_group if name))
    group_text = f"in queue group {names}" if names else "without a queue group"
    text = (
        f"{f.pending} pending; subscribed to {config.deliver_subject} {group_text}: {clients_text}"
    )
    return Symptom(f"{text}; the deliver group is {config.deliver_group}", f.waiting_since_us)


def find_other_queue_group(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients subscribe in a queue group that is not the deliver group."""
    return _find_wrong_queue_group(
        f, {name: count for name, count in _count_clients_by_group(f).items() if name}
    )


def find_missing_queue_group(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients subscribe without a queue group despite a deliver group."""
    return _find_wrong_queue_group(
        f, {name: count for name, count in _count_clients_by_group(f).items() if not name}
    )


def find_missing_subscriber(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if no client subscribes to the deliver subject."""
    if f.config is None or not _is_unbound(f):
        return None
    group_text = f" in queue group {f.config.deliver_group}" if f.config.deliver_group else ""
    return Symptom(
        f"{f.pending} pending, no client subscribes to {f.config.deliver_subject}{group_text}"
    )


def _has_no_open_pull(f: Facts) -> bool:
    """Return whether messages are pending at a pull consumer without an open pull request."""
    return f.config is not None and f.config.pull and not f.has_client and _has_waiting_messages(f)


def _no_pull_text(f: Facts) -> str:
    kept_text, kept_msgs = "", f.kept_alone_msgs
    if kept_msgs and f.stream is not None:
        kept_text = (
            f"; only this consumer keeps {kept_msgs} of {counted(f.stream.stored_msgs, 'message')}"
        )
    if f.was_never_delivered:
        delivery_text = "no pull ever received a message"
    elif f.quiet_s is None:
        delivery_text = "the server does not know when the last delivery was"
    else:
        delivery_text = f"last delivery {duration_text(f.quiet_s)} ago"
    return f"{f.pending} pending, no pull request is open, {delivery_text}{kept_text}"


def find_new_without_pulls(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if no client pulls from a new consumer."""
    if not _has_no_open_pull(f) or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    if not f.was_never_delivered or f.age_s > NEW_CONSUMER_MAX_AGE_S:
        return None
    return Symptom(f"{_no_pull_text(f)}; it is {duration_text(f.age_s)} old", f.waiting_since_us)


def _may_client_still_process(f: Facts) -> bool:
    """Return whether a client may still process messages: ack wait is not over."""
    ack_wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    if not f.unacked or ack_wait_s is None or f.held_s > ack_wait_s:
        return False
    # A server that was restarted does not know when it delivered them.
    return delivered_at_us is None or _find_ended_client(f, delivered_at_us) is None


def _is_pull_overdue(f: Facts) -> bool:
    """Return whether no client has pulled for longer than the consumer's clients usually pause."""
    pull_gap_s, allowed_gap_s = f.pull_gap_s, f.allowed_gap_s
    if pull_gap_s is None:
        # No client was ever seen.
        return f.waiting_s > NO_PULLS_AFTER_S
    if _may_client_still_process(f):
        # The first long job of a client is longer than its pauses were.
        allowed_gap_s = max(allowed_gap_s, MAX_PULL_GAP_IF_UNKNOWN_S)
    return min(f.waiting_s, pull_gap_s) > allowed_gap_s


def find_overdue_pulls(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients whose usual pause is known stopped pulling and processing."""
    if not _has_no_open_pull(f) or f.longest_pull_gap_s is None or not _is_pull_overdue(f):
        return None
    if _may_client_still_process(f):
        return None
    return Symptom(_no_pull_text(f), f.waiting_since_us)


def find_missing_pulls(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if no client pulls, but clients may still process messages, or their
    usual pause is unknown.
    """
    if not _has_no_open_pull(f) or not _is_pull_overdue(f):
        return None
    text = _no_pull_text(f)
    if _may_client_still_process(f):
        text += f"; a client may still process {counted(f.unacked, 'message')}"
    return _symptom_of_three_polls(f, is_finding_open, text)


def _symptom_of_three_polls(f: Facts, is_finding_open: bool, text: str) -> Symptom:
    """Return evidence with `text`, which is reported only after its condition held for 3 polls."""
    return Symptom(text, f.waiting_since_us, report_after_s=None if is_finding_open else 2.0)


_UNIT_BY_PULL_LIMIT = {
    "max_batch": "messages",
    "max_bytes": "bytes",
    "max_expires": "ns of waiting",
}


def find_refused_pulls(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if nothing was ever delivered, and the settings may refuse the pulls."""
    if not _has_no_open_pull(f) or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    if not f.was_never_delivered:
        return None
    # A pull that was open was not refused.
    if (f.unanswered_pulls_s or 0.0) > 0:
        return None
    limits = [(name, f.settings.get(name)) for name in _UNIT_BY_PULL_LIMIT]
    limit_texts = [
        duration_text(value / 1e9)
        if name == "max_expires"
        else f"{value} {_UNIT_BY_PULL_LIMIT[name]}"
        for name, value in limits
        if isinstance(value, int) and value > 0
    ]
    refused_texts = [f"for more than {', '.join(limit_texts)}"] if limit_texts else []
    groups = f.settings.get("priority_groups")
    if isinstance(groups, list) and groups:
        refused_texts.append(f"without group {', '.join(map(str, groups))}")
    if not refused_texts:
        return None
    text = f"{f.pending} pending, no pull request is open; pulls {' and '.join(refused_texts)}"
    return Symptom(f"{text} are refused", f.waiting_since_us)


def _has_recent_pulls(f: Facts) -> bool:
    """Return whether clients have pulled since messages are pending, even if no pull is open."""
    if f.config is None or not f.config.pull or not f.has_seen_client:
        return False
    unanswered_pulls_s, pull_gap_s = f.unanswered_pulls_s, f.pull_gap_s
    if unanswered_pulls_s is None or unanswered_pulls_s <= MAX_FETCH_LOOP_PAUSE_S:
        return False
    return pull_gap_s is not None and pull_gap_s <= f.allowed_gap_s


def _is_delivery_stalled(f: Facts, min_waiting_s: float) -> bool:
    """Return whether clients pull or are bound, messages are pending for longer than
    `min_waiting_s`, and nothing is delivered.
    """
    if (
        not (f.has_client or _has_recent_pulls(f))
        or not _has_waiting_messages(f)
        or f.waiting_s <= min_waiting_s
    ):
        return False
    if f.deliveries is None:
        # One poll does not show that nothing is delivered: the server's clock may differ.
        return False
    return f.settings.get("replay_policy") != "original" and not f.settings.get("rate_limit_bps")


def find_idle_pinned_client(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the pinned client does not pull, while others wait."""
    if (
        f.config is None
        or f.config.priority_policy != "pinned_client"
        or not _is_delivery_stalled(f, INELIGIBLE_PULLS_S)
    ):
        return None
    pinned_client = f.columns.pinned_client[f.row]
    timeout_ns = f.settings.get("priority_timeout")
    timeout_text = (
        f", the pin moves after {duration_text(timeout_ns / 1e9)}"
        if isinstance(timeout_ns, int) and timeout_ns > 0
        else ""
    )
    pinned_text = (
        f"client {pinned_client} is pinned and does not pull"
        if pinned_client
        else "no client is pinned"
    )
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'other pull')} open, {pinned_text}"
    return _symptom_of_three_polls(
        f, is_finding_open, f"{text} for {duration_text(f.waiting_s)}{timeout_text}"
    )


def find_ineligible_pulls(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the priority policy makes all open pull requests ineligible."""
    policy = f.config.priority_policy if f.config else None
    if policy not in ("overflow", "prioritized") or not _is_delivery_stalled(
        f, INELIGIBLE_PULLS_S
    ):
        return None
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'open pull')}, none eligible:"
    reason = "the min pending or min ack pending of the pulls is not reached"
    if policy != "overflow":
        reason = "their priority excludes them"
    return _symptom_of_three_polls(f, is_finding_open, f"{text} {reason}")


def find_double_processing(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if several clients without a queue group each get every message."""
    config = f.config
    if config is None or config.deliver_group or not config.durable:
        return None
    count = _count_clients_by_group(f).get("", 0)
    if count < 2:
        return None
    return Symptom(f"{count} clients subscribe to {config.deliver_subject} without a queue group")


def find_flow_control_stall(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the subscriber does not reply to flow control."""
    if f.config is None or f.config.pull or not f.settings.get("flow_control"):
        return None
    if not _is_delivery_stalled(f, PUSH_STALLED_S):
        return None
    return Symptom(_undelivered_to_subscriber_text(f), f.waiting_since_us, f.first_unacked_seqs)


def _undelivered_to_subscriber_text(f: Facts) -> str:
    waiting_text = duration_text(f.waiting_s)
    return f"{f.pending} pending, a client is subscribed, nothing delivered for {waiting_text}"


def find_pull_stall(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if clients pulled while messages were pending, and received none."""
    if (
        f.config is None
        or not f.config.pull
        or not _has_waiting_messages(f)
        or f.waiting_s <= PULLS_STALLED_S
    ):
        return None
    # With a priority policy, a pull without messages need not be too small.
    if f.settings.get("replay_policy") == "original" or f.config.priority_policy:
        return None
    if not _has_recent_pulls(f):
        return None
    text = f"{f.pending} pending, clients pull, nothing delivered for {duration_text(f.waiting_s)}"
    return _symptom_of_three_polls(f, is_finding_open, text)


def find_push_stall(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a subscriber is bound, messages are pending, none is delivered."""
    if f.config is None or f.config.pull or f.settings.get("flow_control"):
        return None
    if not _is_delivery_stalled(f, PULLS_STALLED_S):
        return None
    return _symptom_of_three_polls(f, is_finding_open, _undelivered_to_subscriber_text(f))


def find_old_next_message(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the age of the next message is above the threshold."""
    age_s = next_message_age_s(f.state, f.row)
    if not f.pending or age_s is None or age_s <= MAX_LAG_S or f.is_delivery_stopped:
        return None
    since_us = f.at_us - round((age_s - MAX_LAG_S) * 1e6)
    return Symptom(f"the next message has been waiting for {duration_text(age_s)}", since_us)


# Findings beside the topics above.


def find_near_ack_limit(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if ack pending is near its limit."""
    limit = f.max_ack_pending
    if not limit or limit < 10 or not NEAR_LIMIT_SHARE * limit <= f.unacked < limit:
        return None
    return Symptom(f"{f.unacked} of {limit} ack pending")


def find_dropped_messages(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if messages were dropped after max deliver."""
    dropped_msgs = f.dropped_msgs
    dropped_counts = f.dropped_counts
    if not dropped_msgs or f.config is None:
        return None
    if (
        f.config.max_deliver_count == 1
        and (f.at_us - dropped_counts.last_at_us) / 1e6 > DROPPED_MSGS_REPORTED_S
    ):
        return None
    stream = f.stream
    kept_text = ""
    if stream is not None and stream.config is not None and stream.config.retention != "limits":
        kept_text = " and stay in the stream"
    sequences_text = (
        f": {_format_sequences(dropped_counts.sequences)}" if dropped_counts.sequences else ""
    )
    count = max(
        dropped_msgs,
        dropped_counts.total_count if dropped_counts.total_count and f.redelivered else 0,
    )
    # An ack pending message may have been delivered only once: then it is not redelivered.
    is_count_exact = f.config.max_deliver_count == 1 or not f.unacked or count >= f.redelivered
    text = f"{counted(count, 'message')} dropped after {f.config.max_deliver_count} deliveries"
    text = text if is_count_exact else f"at least {text}"
    since_us = dropped_counts.first_at_us if dropped_counts.total_count else None
    return Symptom(
        text + kept_text + sequences_text,
        since_us,
        dropped_counts.sequences,
        {"given_up_msgs": count},
    )


def find_terminated_messages(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the client terminates messages."""
    terminations = f.advisories.terms if f.advisories else NOTHING_COUNTED
    count = terminations.recent_count(f.at_us, NAKS_WINDOW_S)
    if count < (1 if is_finding_open else MIN_TERMS):
        return None
    count_text = counted(terminations.total_count, "message")
    text = f"{count_text} terminated, {count} in {NAKS_WINDOW_S:.0f} s"
    sequences = terminations.sequences
    return Symptom(
        f"{text}: {_format_sequences(sequences)}",
        _find_run_start_us(terminations),
        sequences,
        {"count": count},
    )


def find_lost_messages(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream removed messages before the consumer received them."""
    loss = f.loss
    if loss is None or loss.is_purge:
        return _find_loss_after_delivered_seq(f) if loss is None else None
    return _make_loss_symptom(f, loss.lost_msgs, (loss.first_seq, loss.last_seq), loss.since_at_us)


def _find_loss_after_delivered_seq(f: Facts) -> Symptom | None:
    """Return the evidence if the stream removed messages after the last one delivered."""
    stream, delivered_seq = f.stream, f.columns.delivered_stream_seq[f.row]
    # With filters, the removed messages may not match.
    if f.is_filtered or not delivered_seq or not f.pending:
        return None
    if stream is None or not stream.has_removing_limit:
        return None
    if stream.config is None or stream.config.retention != "limits":
        return None
    if not stream.removing_limit:
        # No limit is reached: a user removed them.
        return None
    from_seq = max(delivered_seq + 1, stream.first_seq_after_purge)
    last_lost_seq = stream.columns.first_seq[stream.row] - 1
    if last_lost_seq < from_seq:
        return None
    return _make_loss_symptom(f, last_lost_seq - from_seq + 1, (from_seq, last_lost_seq), None)


def _make_loss_symptom(
    f: Facts, lost_msgs: int, first_and_last_seq: tuple[int, int], since_us: int | None
) -> Symptom:
    config = f.stream.config if f.stream else None
    is_count_exact = not f.is_filtered and config is not None and config.retention == "limits"
    text = f"{'' if is_count_exact else 'at least '}{counted(lost_msgs, 'message')} removed"
    text = f"{text} before delivery, from {first_and_last_seq[0]} to {first_and_last_seq[1]}"
    if f.lost_per_min is not None:
        text += f", {f.lost_per_min:,.0f} a minute"
    limit_text = f.stream.removing_limit_text if f.stream else None
    text += f"; {limit_text}" if limit_text else ""
    reached_limit = f.stream.removing_limit if f.stream else {}
    return Symptom(text, since_us, first_and_last_seq, {"lost_msgs": lost_msgs, **reached_limit})


def find_lost_before_ack(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream removed messages that were delivered and not acked."""
    removal_counts = f.advisories.removed if f.advisories else NOTHING_COUNTED
    removed_ago_us = f.at_us - removal_counts.last_at_us
    if not removal_counts.total_count or removed_ago_us > LOST_MSGS_REPORTED_S * 1e6:
        return None
    if f.stream is None or not f.stream.has_removing_limit:
        return None
    lost_messages = _without_purged_messages(removal_counts, f.stream.purge)
    if not lost_messages.msgs:
        # A user removed them.
        return None
    if not is_finding_open and not _are_removed_by_limit(f.stream, lost_messages.sequences):
        return None
    text = f"{counted(lost_messages.msgs, 'message')} removed before their ack"
    text = text if lost_messages.is_exact else f"at least {text}"
    if lost_messages.sequences:
        text += f": {_format_sequences(lost_messages.sequences)}"
    return Symptom(text, lost_messages.since_at_us, lost_messages.sequences,
                   {"lost_msgs": lost_messages.msgs, **f.stream.removing_limit})  # fmt: skip


class _RemovedMessages(NamedTuple):
    """The unacked messages that were removed since the latest purge by a user."""

    msgs: int
    is_exact: bool
    """Whether `msgs` is the number, and not a minimum."""
    since_at_us: int
    sequences: tuple[int, ...]


def _without_purged_messages(
    removal_counts: MessageCounts, purge: Purge | None
) -> _RemovedMessages:
    """Return the messages counted in `removal_counts` without those that a user purged."""
    messages = removal_counts.most_frequent()
    if purge is None or (
        removal_counts.first_at_us >= purge.at_us
        and all(message.stream_seq >= purge.first_seq for message in messages)
    ):
        return _RemovedMessages(
            removal_counts.total_count, True, removal_counts.first_at_us, removal_counts.sequences
        )
    kept_messages = [message for message in messages if message.stream_seq >= purge.first_seq]
    # The counts of a message may include those of purged ones that it replaced.
    min_msgs = sum(message.said_count - message.error_count for message in kept_messages)
    max_msgs = sum(message.said_count for message in kept_messages)
    counts_after_purge = [
        (second, count)
        for second, count in removal_counts.recent
        if second * _US_PER_S > purge.at_us
    ]
    msgs_after_purge = sum(count for _, count in counts_after_purge)
    msgs = max(min_msgs, min(msgs_after_purge, max_msgs))
    since_at_us = counts_after_purge[0][0] * _US_PER_S if counts_after_purge else purge.at_us
    has_counts_before_purge = len(counts_after_purge) < len(removal_counts.recent)
    return _RemovedMessages(
        msgs,
        msgs == max_msgs or (has_counts_before_purge and msgs == msgs_after_purge),
        since_at_us,
        tuple(message.stream_seq for message in kept_messages),
    )


def _are_removed_by_limit(stream: StreamFacts, sequences: tuple[int, ...]) -> bool:
    """Return whether a limit is reached that may have removed the messages `sequences`."""
    first_seq = stream.columns.first_seq[stream.row]
    return bool(stream.removing_limit) and (not sequences or min(sequences) < first_seq)


def find_ahead_of_stream(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the consumer is beyond the end of its stream.

    Then the stream was rolled back, or the consumer was reset.
    """
    ahead_msgs = f.ahead_of_stream_msgs
    if not ahead_msgs:
        return None
    delivered_seq = f.columns.delivered_stream_seq[f.row]
    position_text = f"delivered up to sequence {delivered_seq}"
    if not f.columns.delivered_consumer_seq[f.row]:
        position_text = f"delivery begins at sequence {delivered_seq + 1}"
    return Symptom(f"{position_text}, the stream ends at {delivered_seq - ahead_msgs}")


def find_max_waiting_reached(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if open pull requests are at max waiting: further ones are refused."""
    limit = f.config.max_waiting_pulls_count if f.config else None
    count = f.columns.waiting_pulls_count[f.row]
    if not limit or count < limit:
        return None
    return Symptom(f"{count} of {limit} pull requests are open: further ones are refused")


def _format_sequences(sequences: tuple[int, ...]) -> str:
    """Return sequences for people: `3, 5 and 12 more`."""
    named_seqs_text = ", ".join(str(seq) for seq in sequences[:_MAX_NAMED_MESSAGES])
    return named_seqs_text + (
        f" and {len(sequences) - _MAX_NAMED_MESSAGES} more"
        if len(sequences) > _MAX_NAMED_MESSAGES
        else ""
    )


def _find_run_start_us(counts: MessageCounts) -> int:
    """Return the start of the newest run of advisories without a long pause, in µs UTC."""
    start_s = counts.recent[-1][0]
    for advisory_s, _ in reversed(counts.recent):
        if start_s - advisory_s > NAKS_WINDOW_S:
            break
        start_s = advisory_s
    return max(start_s * 1_000_000, counts.first_at_us)


_FLOW_FACTS = ("pending_msgs", "ack_pending_msgs", "open_pulls", "waiting_s", "quiet_s")
_PULL_FACTS = (
    "kept_alone_msgs",
    *_FLOW_FACTS,
    "pull_gap_s",
    "longest_pull_gap_s",
    "allowed_gap_s",
    "age_s",
)
_REPEAT_FACTS = (
    "redelivered_msgs", "deliveries", "repeats", "repeat_share", "repeat_polls", "naks_count",
    "floor_moved_msgs", "acked_ago_s", "longest_ack_wait_s",
)  # fmt: skip
_ACK_PENDING_FACTS = ("ack_pending_msgs", "held_s", "longest_ack_wait_s", "open_pulls")


# Backlog: one that grows, over a window that is longer than the effect of bursts.


def find_growing_backlog(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence of a backlog whose minimum grows in each third of a window.

    Each third is longer than the pause of a client between two fetches, so that it includes a
    moment after a fetch, when a client that keeps up has no backlog. A single burst raises only
    one third. The finding ends when the newest third is not above the previous one.
    """
    if f.pending < MIN_BACKLOG_MSGS or f.columns.paused[f.row]:
        return None
    # Most backlogs neither grow nor take long; the checks below read a minute of polls.
    if not is_finding_open and not (_has_backlog_grown(f) and _takes_long_to_deliver(f)):
        return None
    if not _receives_messages(f):
        return None
    thirds = _split_into_thirds(f, is_finding_open)
    if thirds is None:
        return None
    third_minima = [min((value, -us) for us, value in third) for third in thirds]
    (latest_msgs, latest_us), (middle_msgs, middle_us), (earliest_msgs, earliest_us) = third_minima
    newest_growth_per_s = (latest_msgs - middle_msgs) / (middle_us - latest_us) * 1e6
    growths_per_s = (
        newest_growth_per_s,
        (middle_msgs - earliest_msgs) / (earliest_us - middle_us) * 1e6,
    )
    delivery_s = _estimate_delivery_s(f, -earliest_us)
    if is_finding_open:
        is_growing = newest_growth_per_s > 0 and delivery_s >= MIN_TIME_TO_DRAIN_S / 2
    else:
        is_growing = (
            min(growths_per_s) >= MIN_BACKLOG_GROWTH_PER_S / 2
            and sum(growths_per_s) / 2 >= MIN_BACKLOG_GROWTH_PER_S
            and delivery_s >= MIN_TIME_TO_DRAIN_S
            and latest_msgs - earliest_msgs > _largest_backlog_rise_msgs(thirds)
        )
    if not is_growing:
        return None
    since_us = f.at_us - (f.mono_us + earliest_us)
    text = f"{f.pending} pending, {newest_growth_per_s:+.1f}/s"
    return Symptom(text, since_us, (), {"pending_msgs": f.pending, "per_s": newest_growth_per_s})


def _receives_messages(f: Facts) -> bool:
    """Return whether clients receive messages; if not, another cause explains the backlog."""
    return f.has_client is not False or bool(
        f.history.growth("delivered_consumer_seq", _MAX_CLIENT_PAUSE_S)
    )


def _split_into_thirds(f: Facts, is_finding_open: bool) -> list[_UsAndValuePairs] | None:
    """Return the backlog in three thirds of the window, newest first; None with too few polls."""
    third_s = max(
        LAGGING_WINDOW_S / 3,
        min(_longest_delivery_pause_s(f, is_finding_open), _MAX_CLIENT_PAUSE_S),
    )
    values = f.history.values("pending_msgs", 3 * third_s, min_count=_MIN_POLLS)
    newest_us, span_us = values[0][0], 3 * third_s * 1e6
    if len(values) < _MIN_POLLS or newest_us - values[-1][0] < 0.8 * span_us:
        return None
    span_us = newest_us - values[-1][0]
    # Delayed polls do not show the backlog between them, and clients may be delayed too.
    longest_gap_us = max(later_us - us for (later_us, _), (us, _) in pairwise(values))
    if not is_finding_open and 3 * longest_gap_us > span_us:
        return None
    thirds: list[_UsAndValuePairs] = [[], [], []]
    for us, value in values:
        thirds[min(2, int(3 * (newest_us - us) / span_us))].append((us, value))
    return thirds if all(thirds) else None


def _longest_delivery_pause_s(f: Facts, is_finding_open: bool) -> float:
    """Return the longest time (s) in which messages were pending and none was delivered.

    The current pause counts only before the finding is open: it may be a client's first pause.
    """
    delivered_seq_values = f.history.values("delivered_consumer_seq", _PAUSE_SEARCH_S)
    pending_values = f.history.values("pending_msgs", _PAUSE_SEARCH_S)
    polls = [
        (us, seq, pending_msgs)
        for (us, seq), (_, pending_msgs) in zip(delivered_seq_values, pending_values, strict=True)
    ]
    longest_pause_us, pause_us, longest_gap_us = 0, 0, 0
    for (us, seq, pending_msgs), (later_us, later_seq, _) in pairwise(reversed(polls)):
        longest_gap_us = max(longest_gap_us, later_us - us)
        if later_seq == seq and pending_msgs:
            pause_us += later_us - us
        else:
            longest_pause_us, pause_us = max(longest_pause_us, pause_us), 0
    longest_pause_us = longest_pause_us if is_finding_open else max(longest_pause_us, pause_us)
    # The pause may have begun one poll earlier, and ended one poll later.
    return (longest_pause_us + 2 * longest_gap_us) / 1e6 if longest_pause_us else 0.0


def _estimate_delivery_s(f: Facts, from_us: int) -> float:
    """Return the seconds to deliver the backlog at the rate since `from_us`; inf at rate 0."""
    values = f.history.values("delivered_consumer_seq", (f.mono_us - from_us) / 1e6)
    delivered_msgs, span_us = values[0][1] - values[-1][1], values[0][0] - values[-1][0]
    return f.pending * span_us / delivered_msgs / 1e6 if delivered_msgs > 0 else float("inf")


def _largest_backlog_rise_msgs(thirds: list[_UsAndValuePairs]) -> int:
    """Return the largest rise of the backlog between two polls: the error of its minimum."""
    backlogs = [value for third in thirds for _, value in third]
    return max(later_msgs - earlier_msgs for later_msgs, earlier_msgs in pairwise(backlogs))


def _has_backlog_grown(f: Facts) -> bool:
    """Return whether the backlog has grown since the previous poll."""
    values = f.history.values("pending_msgs", LAGGING_WINDOW_S / 3)
    min_sampled_us = values[0][0] - LAGGING_WINDOW_S / 3 * 1e6
    recent_msgs = [value for us, value in values if us >= min_sampled_us]
    return len(recent_msgs) < 2 or recent_msgs[0] > recent_msgs[-1]


def _takes_long_to_deliver(f: Facts) -> bool:
    """Return whether delivering the backlog may take at least half of `MIN_TIME_TO_DRAIN_S`."""
    window_start_us = f.mono_us - round(LAGGING_WINDOW_S * 1e6)
    return 2 * _estimate_delivery_s(f, window_start_us) >= MIN_TIME_TO_DRAIN_S


CONSUMER_CAUSES: tuple[Cause[ConsumerFacts], ...] = (
    Cause(kinds.UNREACHABLE, find_unreachable_leader, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.NO_QUORUM, find_lost_quorum, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.NO_LEADER, find_missing_leader, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.REPLICA_OFFLINE, find_offline_replicas, (), ("contact",)),
    Cause(kinds.PAUSED, find_pause, ("pending_msgs",), ("delivery", "redelivery")),
    Cause(kinds.ALL_NAKD, find_all_nakd, ("recent_naks_count", "nak_share", "ack_pending_msgs"),
          ("redelivery", "delivery"), HAS_ADVISORIES),
    Cause(kinds.POISON, find_poison_message,
          ("one_message_polls", "one_message_s", "one_message_repeats", "watched_repeats",
           "redelivered_msgs"), ("redelivery", "delivery"), HAS_REDELIVERED | HAS_ADVISORIES),
    Cause(kinds.NEVER_ACKED, find_missing_acks, _REPEAT_FACTS, ("redelivery", "delivery"),
          HAS_REDELIVERED),
    Cause(kinds.MAX_ACK_PENDING_REACHED, find_max_ack_pending_reached, _ACK_PENDING_FACTS,
          ("delivery", "redelivery"), HAS_UNACKED),
    Cause(kinds.FLOOR_BLOCKED, find_blocked_ack_floor,
          ("floor_blocked_s", "acked_behind_floor_msgs", "deliveries"),
          ("redelivery",), HAS_UNACKED),
    Cause(kinds.ACKED_AFTER_ACK_WAIT, find_late_acks, _REPEAT_FACTS, ("redelivery",),
          HAS_REDELIVERED | HAS_ADVISORIES),
    Cause(kinds.REDELIVERING, find_redeliveries, _REPEAT_FACTS, ("redelivery", "delivery"),
          HAS_REDELIVERED),
    Cause(kinds.SOME_NAKS, find_naks, ("recent_naks_count", "repeats", "deliveries"),
          ("redelivery",), HAS_ADVISORIES),
    Cause(kinds.ORIGINAL_PACE, find_original_pace, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.RATE_LIMIT_REACHED, find_rate_limit, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.PINNED_IDLE, find_idle_pinned_client, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NO_ELIGIBLE_PULL, find_ineligible_pulls, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.PULL_STALLED, find_pull_stall, (*_PULL_FACTS, "unanswered_pulls_s"),
          ("delivery",), HAS_PENDING),
    Cause(kinds.PULLS_REFUSED, find_refused_pulls, _PULL_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.OTHER_QUEUE_GROUP, find_other_queue_group, _FLOW_FACTS, ("delivery",),
          HAS_PENDING),
    Cause(kinds.WITHOUT_QUEUE_GROUP, find_missing_queue_group, _FLOW_FACTS, ("delivery",),
          HAS_PENDING),
    Cause(kinds.NO_SUBSCRIBER, find_missing_subscriber, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NOT_PULLED_YET, find_new_without_pulls, _PULL_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NO_PULLS, find_overdue_pulls, _PULL_FACTS, ("delivery", "redelivery"),
          HAS_PENDING),
    Cause(kinds.NO_PULLS_PACE_UNKNOWN, find_missing_pulls, _PULL_FACTS,
          ("delivery", "redelivery"), HAS_PENDING),
    Cause(kinds.CLIENT_CLOSED_WITH_UNACKED, find_closed_client, _ACK_PENDING_FACTS,
          ("redelivery",), HAS_UNACKED),
    Cause(kinds.UNACKED_WITHOUT_PULL, find_unacked_without_pull, _ACK_PENDING_FACTS,
          ("delivery", "redelivery"), HAS_UNACKED),
    Cause(kinds.FLOW_STALL, find_flow_control_stall, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.PUSH_STALLED, find_push_stall, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NOT_ACKED_WITHIN_ACK_WAIT, find_overdue_acks, _ACK_PENDING_FACTS, ("redelivery",),
          HAS_UNACKED),
    Cause(kinds.WAITS_FOR_BACKOFF, find_backoff_wait, _ACK_PENDING_FACTS, ("redelivery",),
          HAS_UNACKED),
    Cause(kinds.LAGGING, find_growing_backlog, ("pending_msgs", "deliveries"), ("delivery",),
          HAS_PENDING),
    Cause(kinds.NEXT_MESSAGE_OLD, find_old_next_message, ("pending_msgs",), ("delivery",),
          HAS_PENDING),
    Cause(kinds.LOST_BEFORE_DELIVERY, find_lost_messages, ("lost_msgs", "lost_per_min")),
    Cause(kinds.LOST_BEFORE_ACK, find_lost_before_ack, (), (), HAS_ADVISORIES),
    Cause(kinds.AHEAD_OF_STREAM, find_ahead_of_stream, ("ahead_of_stream_msgs",)),
    Cause(kinds.MAX_DELIVER_REACHED, find_dropped_messages, ("dropped_msgs", "redelivered_msgs"),
          (),
          HAS_REDELIVERED | HAS_ADVISORIES),
    Cause(kinds.TERMINATED, find_terminated_messages, (), (), HAS_ADVISORIES),
    Cause(kinds.LEADER_CHANGES_OFTEN, find_leader_changes, (), (), HAS_ADVISORIES),
    Cause(kinds.MAX_WAITING_REACHED, find_max_waiting_reached, ("open_pulls",)),
    Cause(kinds.PROCESSED_TWICE, find_double_processing),
    Cause(kinds.FILTER_MATCHES_NOTHING, find_unmatched_filter, ("pending_msgs", "age_s")),
    Cause(kinds.START_BEYOND_END, find_start_beyond_end, ()),
    Cause(kinds.EXPIRES_SOON, find_expiry, ("held_s", "pull_gap_s")),
    Cause(kinds.CONSUMER_PAST_THRESHOLD, find_consumer_threshold, ()),
    Cause(kinds.NEAR_MAX_ACK_PENDING, find_near_ack_limit, ("ack_pending_msgs",), (), HAS_UNACKED),
)  # fmt: skip
"""All causes of a consumer in order of precedence.

Not `CONSUMER_DELETED`, which compares two polls.
"""
CONSUMER_ORDER = rank_causes(CONSUMER_CAUSES)
_CAUSES_OF_UNUSED_CONSUMERS = tuple(
    cause for cause in CONSUMER_CAUSES if "contact" in cause.topics
)
"""Causes that are checked for a consumer without a client."""


def _is_leaked(f: Facts) -> bool:
    """Return whether the consumer has no client, and is one of the consumers that pile up."""
    stream = f.stream
    if stream is None or f.has_client or (f.quiet_s is not None and f.quiet_s < NO_PULLS_AFTER_S):
        return False
    conditions = f.state.findings.conditions.get(entity_of_key(stream.key), ())
    piling_up_finding = next(
        (
            condition.finding
            for condition in conditions
            if condition.finding.kind is CONSUMERS_PILING_UP and condition.is_raised
        ),
        None,
    )
    if piling_up_finding is None:
        return False
    return f.columns.created_at_us[f.row] >= piling_up_finding.since_us - round(
        PILE_UP_WINDOW_S * 1e6
    )


def consumer_causes(f: ConsumerFacts, open_kinds: frozenset[Kind]) -> list[tuple[Kind, Symptom]]:
    """Return the kind and evidence of each cause that holds for a consumer now."""
    flags = HAS_PENDING if f.pending else 0
    flags |= HAS_UNACKED if f.unacked else 0
    flags |= HAS_REDELIVERED if f.redelivered else 0
    flags |= HAS_ADVISORIES if f.advisories is not None else 0
    is_unused = f.is_sourcing or f.is_unused or _is_leaked(f)
    causes = _CAUSES_OF_UNUSED_CONSUMERS if is_unused else CONSUMER_CAUSES
    return diagnose(causes, f, flags, open_kinds)
