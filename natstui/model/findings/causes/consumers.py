"""The causes of findings about a consumer, in order of precedence."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.catalogue import consumers as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import CONSUMERS_PILING_UP
from natstui.model.findings.causes.cause import Cause, diagnose, order_of
from natstui.model.findings.causes.lagging import find_growing_backlog
from natstui.model.findings.causes.metadata import find_consumer_threshold
from natstui.model.findings.causes.settings import (
    find_expiry,
    find_original_pace,
    find_rate_limit,
    find_start_beyond_end,
    find_unmatched_filter,
)
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.row import replicas_count, unreachable_replicas
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Symptom, entity_of_key
from natstui.model.findings.thresholds import (
    ALL_NAKD_END_SHARE,
    ALL_NAKD_SHARE,
    BACKOFF_WAITS_S,
    DROPPED_KEPT_S,
    FETCH_LOOP_S,
    FLOOR_BLOCKED_S,
    FLOW_STALL_S,
    INELIGIBLE_S,
    LATE_ACKS_SHARE,
    LEADER_CHANGES_WINDOW_S,
    LOST_KEPT_S,
    MAX_LAG_S,
    MIN_ACK_SAMPLES,
    MIN_ACKED_BEHIND_FLOOR,
    MIN_LEADER_CHANGES,
    MIN_NAKS,
    MIN_ONE_MESSAGE_POLLS,
    MIN_REPEATS,
    MIN_TERMS,
    NEAR_SHARE,
    NEVER_ACKED_S,
    NEW_CONSUMER_S,
    NO_PULLS_AFTER_S,
    NO_SUBSCRIBER_S,
    PILE_UP_S,
    POISON_DELIVERIES,
    RECENT_S,
    REDELIVERED_ACKS_SHARE,
    REDELIVERING_SHARE,
    REPEATS_SHARE,
    STALLED_S,
    UNKNOWN_PACE_S,
)
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import next_message_age_s
from natstui.model.live.message_counts import NOTHING_COUNTED, MessageCounts
from natstui.model.live.rates import TREND_S
from natstui.units import counted, duration_text

Facts = ConsumerFacts
HAS_PENDING, HAS_UNACKED, HAS_REDELIVERED, HAS_ADVISORIES = 1, 2, 4, 8
"""Flags of a consumer; a cause may require one of them."""
_MAX_NAMED_MESSAGES = 5
"""Limit of message sequences in a sentence."""


# Contact: the leader and the replicas.


def find_unreachable_leader(f: Facts, is_open: bool) -> Symptom | None:
    """The leader of the consumer, or of its stream, does not reply."""
    state = f.state
    if f.name in state.offline or (f.name[0], "") in state.offline:
        # The reason of the server is a finding of its own.
        return None
    is_unreachable = (
        f.name in state.unreachable_consumers or f.name[0] in state.unreachable_streams
    )
    return Symptom(kinds.UNREACHABLE.sentence) if is_unreachable else None


def find_missing_leader(f: Facts, is_open: bool) -> Symptom | None:
    """No server leads the consumer."""
    if f.columns.leader[f.row] is not None or f.name in f.state.offline:
        return None
    return Symptom(kinds.NO_LEADER.sentence)


def find_lost_quorum(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """The leader has no contact with half of its replicas or more."""
    peers, leader = f.columns.peers[f.row], f.columns.leader[f.row]
    unreachable, replicas_total = unreachable_replicas(peers), replicas_count(leader, peers)
    if not peers or replicas_total - len(unreachable) > replicas_total // 2:
        return None
    names = ", ".join(peer.name for peer in unreachable)
    return Symptom(f"{len(unreachable)} of {counted(replicas_total, 'replica')} away: {names}")


def find_offline_replicas(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """The leader has no contact with some replicas."""
    unreachable = unreachable_replicas(f.columns.peers[f.row])
    if not unreachable:
        return None
    return Symptom(f"no contact with {', '.join(peer.name for peer in unreachable)}")


def find_leader_changes(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """Leaders were elected repeatedly, not only because of restarts of servers."""
    if f.advisories is None:
        return None
    from_us = f.at_us - round(LEADER_CHANGES_WINDOW_S * 1e6)
    recent = [
        at_us
        for at_us in f.advisories.elected_at_us
        if at_us >= from_us and not f.state.servers.explains_election(at_us)
    ]
    if len(recent) < MIN_LEADER_CHANGES:
        return None
    return Symptom(f"{len(recent)} elections in {LEADER_CHANGES_WINDOW_S / 60:.0f} min", recent[0])


# Redelivery: naks, repeats, missing acks.


def find_pause(f: Facts, is_open: bool) -> Symptom | None:
    """The consumer is paused."""
    return Symptom(kinds.PAUSED.sentence) if f.columns.paused[f.row] else None


def find_all_nakd(f: Facts, is_open: bool) -> Symptom | None:
    """Clients nak'd nearly all recent deliveries, of at least two messages."""
    naks, count = f.naks, f.recent_naks_count
    # A nak'd message stays ack pending until it is acked or dropped.
    if not f.unacked or count < MIN_NAKS or len(naks.messages) < 2:
        return None
    share = f.nak_share
    if share < (ALL_NAKD_END_SHARE if is_open else ALL_NAKD_SHARE):
        return None
    text = f"{counted(count, 'nak')} in {RECENT_S:.0f} s, {100 * share:.0f} % of deliveries"
    since_us = naks.recent[0][0] * 1_000_000 if len(naks.recent) < 2 else _find_run_start_us(naks)
    numbers = {"naks_count": count, "share": share, "total_count": naks.total_count}
    return Symptom(
        f"{text}; of messages {_format_sequences(naks.sequences)}",
        since_us,
        naks.sequences,
        numbers,
    )


def find_poison_message(f: Facts, is_open: bool) -> Symptom | None:
    """One message is delivered repeatedly and never acked."""
    looping = [
        message
        for message in f.naks.most_frequent()
        if message.deliveries_count >= POISON_DELIVERIES and message.stream_seq > f.ack_floor
    ]
    if looping and f.unacked:
        worst = max(looping, key=lambda message: message.deliveries_count)
        text = f"message {worst.stream_seq} was delivered {worst.deliveries_count} times"
        others_text = f", {counted(len(looping) - 1, 'other')} as well" if len(looping) > 1 else ""
        other_seqs = (message.stream_seq for message in looping if message is not worst)
        return Symptom(
            text + others_text,
            None if is_open else _find_run_start_us(f.naks),
            (worst.stream_seq, *other_seqs),
            {"deliveries_count": worst.deliveries_count},
        )
    return _find_repeated_message(f, is_open)


def _find_repeated_message(f: Facts, is_open: bool) -> Symptom | None:
    """Find the only message that is redelivered in every poll while the ack floor stays.

    For consumers without advisories of naks.
    """
    if f.redelivered != 1 or not f.unacked:
        return None
    repeats = f.one_message_repeats
    if f.one_message_polls < MIN_ONE_MESSAGE_POLLS or repeats < POISON_DELIVERIES:
        return None
    # The counters may be of other messages that were acked since: this one must come again and
    # again while it is watched, as soon as that was possible.
    wait_s = f.longest_ack_wait_s or 0.0
    if f.watched_s > 2 * wait_s + 3 and not is_open:
        if f.one_message_s < 3 * wait_s or f.watched_repeats < MIN_ONE_MESSAGE_POLLS:
            return None
        if f.naks_count >= f.watched_repeats:
            return None
    first = f.ack_floor + 1
    first_advisories = [message for message in f.naks.messages if message.stream_seq == first]
    if first_advisories and first_advisories[0].deliveries_count < POISON_DELIVERIES:
        return None
    text = f"a message, probably {first}, was redelivered at least {repeats} times"
    return Symptom(text, None, (first,), {"deliveries_count": repeats})


def find_missing_acks(f: Facts, is_open: bool) -> Symptom | None:
    """Messages are redelivered, and no ack arrives for longer than ack wait."""
    wait_s, acked_s = f.longest_ack_wait_s, f.acked_ago_s
    if wait_s is None or f.is_delivery_stopped or not f.unacked or not f.redelivered:
        return None
    if f.floor_moved_msgs is None:
        # One poll does not show that no acks come: the server's clock may differ.
        return None
    without_ack_s = (f.at_us - f.last_ack_us) / 1e6
    # Deliveries must continue: without them no acks are expected.
    is_delivering = (f.deliveries or 0) > 0 if f.quiet_s is None else f.quiet_s <= 3 * wait_s + 5
    if without_ack_s <= max(wait_s, NEVER_ACKED_S) or not is_delivering:
        return None
    if f.naks_count or (f.advisories and f.advisories.terms.recent_count(f.at_us, RECENT_S)):
        return None
    if f.was_never_acked:
        last_ack_text = "no message was ever acked"
    elif acked_s is None:
        last_ack_text = "last ack unknown"
    else:
        last_ack_text = f"last ack {duration_text(acked_s)} ago"
    text = f"{f.redelivered} redelivered, {f.unacked} ack pending, {last_ack_text}"
    return Symptom(text, f.unacked_since_us, f.first_unacked_seqs)


def find_max_ack_pending_reached(f: Facts, is_open: bool) -> Symptom | None:
    """Ack pending is at its limit, for longer than three acks usually take."""
    limit = f.max_ack_pending
    if not limit or f.unacked < limit or f.is_delivery_stopped:
        return None
    acked_msgs = f.history.growth("ack_floor_consumer_seq", TREND_S)
    if acked_msgs is None:
        # One poll does not show that no acks come: the server's clock may differ.
        return None
    usual_wait_s = 3 * TREND_S / acked_msgs if acked_msgs > 0 else 0.0
    if f.held_s < usual_wait_s:
        return None
    text = f"{f.unacked} of {limit} ack pending: delivery has stopped until an ack comes"
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs)


def find_blocked_ack_floor(f: Facts, is_open: bool) -> Symptom | None:
    """One unacked message blocks the ack floor, while later messages are acked."""
    if not f.unacked or f.is_delivery_stopped or f.max_ack_pending is None:
        return None
    behind, delivered = f.acked_behind_floor_msgs, f.deliveries or 0
    if behind is None or behind < MIN_ACKED_BEHIND_FLOOR or f.unacked > max(3, behind // 5):
        return None
    if delivered <= 0 and not is_open:
        return None
    # A message that a client lost is redelivered soon after ack wait.
    redelivery_s = (f.longest_ack_wait_s or 0.0) + 5
    min_blocked_s = (
        redelivery_s if FLOOR_BLOCKED_S < redelivery_s < 2 * FLOOR_BLOCKED_S else FLOOR_BLOCKED_S
    )
    # Acks that a restart of a server lost come again after ack wait, at the next pull.
    if f.state.servers.explains_election(f.at_us - round(f.floor_blocked_s * 1e6)):
        min_blocked_s = max(min_blocked_s, (f.longest_ack_wait_s or 0.0) + f.allowed_gap_s)
    if f.floor_blocked_s < min_blocked_s and not is_open:
        return None
    text = f"message {f.ack_floor + 1} is not acked, {behind} after it are"
    return Symptom(text, None, (f.ack_floor + 1,))


def find_late_acks(f: Facts, is_open: bool) -> Symptom | None:
    """Clients ack after ack wait, so messages are redelivered while they are processed."""
    symptom = _find_late_ack_samples(f)
    if symptom is not None:
        return symptom
    share, repeats = f.repeat_share, f.repeats or 0
    if share is None or f.naks_count or f.longest_ack_wait_s is None or f.is_delivery_stopped:
        return None
    acked_msgs = f.floor_moved_msgs or 0
    if not is_open and (repeats < MIN_REPEATS or f.repeat_polls < MIN_REPEATS):
        return None
    if share < (REPEATS_SHARE / 2 if is_open else REPEATS_SHARE) or not acked_msgs:
        return None
    wait = duration_text(f.longest_ack_wait_s)
    text = (
        f"{repeats} of {f.deliveries} deliveries are repeats, none was nak'd; ack wait is {wait}"
    )
    return Symptom(text, None, ())


def _find_late_ack_samples(f: Facts) -> Symptom | None:
    """Sampled acks take about as long as ack wait, or arrive after a redelivery.

    A sample counts from the last delivery, so an ack after ack wait seems quick. Then only a
    redelivery without a nak shows that it was late.
    """
    wait_ns = f.config.ack_wait_ns if f.config else None
    if f.advisories is None or not wait_ns:
        return None
    window = f.advisories.acks.until(f.at_us)
    count = window.times.total_count
    p99_ns = window.times.percentile_ns(PERCENTILES["p99"])
    if count < MIN_ACK_SAMPLES or p99_ns is None:
        return None
    nakd = f.advisories.naks.last_at_us >= f.at_us - round(window.window_s * 1e6)
    is_redelivered = not nakd and window.repeated_count >= REDELIVERED_ACKS_SHARE * count
    is_near_ack_wait = p99_ns >= NEAR_SHARE * wait_ns
    if not is_near_ack_wait and not (is_redelivered and p99_ns >= LATE_ACKS_SHARE * wait_ns):
        return None
    text = f"acked after {window_text(window)}; ack wait is {duration_text(wait_ns / 1e9)}"
    if is_redelivered:
        text += f", and {counted(window.repeated_count, 'message')} came again"
    return Symptom(
        text, None, (), {"p99_s": p99_ns / 1e9, "repeated_count": window.repeated_count}
    )


def find_redeliveries(f: Facts, is_open: bool) -> Symptom | None:
    """Most deliveries are repeats, without a known reason."""
    share, repeats = f.repeat_share, f.repeats or 0
    if share is None or not f.redelivered or f.is_delivery_stopped:
        return None
    if share < (REDELIVERING_SHARE / 2 if is_open else REDELIVERING_SHARE):
        return None
    if not is_open and (repeats < MIN_REPEATS or f.repeat_polls < MIN_REPEATS):
        return None
    text = f"{repeats} of {f.deliveries} deliveries are repeats"
    return Symptom(
        f"{text}; {f.redelivered} not acked, {f.pending} pending", None, f.first_unacked_seqs
    )


def find_naks(f: Facts, is_open: bool) -> Symptom | None:
    """Clients nak some messages."""
    count = f.recent_naks_count
    if count < (1 if is_open else MIN_NAKS):
        return None
    sequences_text = _format_sequences(f.naks.sequences)
    text = f"{counted(count, 'nak')} in {RECENT_S:.0f} s; of messages {sequences_text}"
    return Symptom(text, _find_run_start_us(f.naks), f.naks.sequences)


def find_backoff_wait(f: Facts, is_open: bool) -> Symptom | None:
    """Messages wait for the next step of the backoff."""
    backoff = f.settings.get("backoff")
    wait_s = f.longest_ack_wait_s
    if not isinstance(backoff, list) or not f.unacked or wait_s is None or f.is_delivery_stopped:
        return None
    if not BACKOFF_WAITS_S <= f.held_s < wait_s:
        return None
    return Symptom(
        f"{counted(f.unacked, 'message')} ack pending for {_held_text(f)}; the "
        f"next delivery comes within {duration_text(wait_s)}", f.idle_since_us,
        f.first_unacked_seqs,
    )  # fmt: skip


def _held_text(f: Facts) -> str:
    """Return the time since the last delivery or ack, which a restarted server does not know."""
    text = duration_text(f.held_s)
    return text if f.has_known_activity else f"at least {text}"


def _is_past_ack_wait(f: Facts, is_open: bool) -> bool:
    """Return whether messages are ack pending for longer than every ack wait."""
    wait_s = f.longest_ack_wait_s
    if not f.unacked or wait_s is None or f.is_delivery_stopped:
        return False
    if is_open and not f.has_known_activity:
        # The server was restarted since, and has neither delivered nor received an ack.
        return True
    # One poll does not show that no acks come: the server's clock may differ.
    return f.floor_moved_msgs is not None and f.held_s > wait_s


def find_unacked_without_pull(f: Facts, is_open: bool) -> Symptom | None:
    """Unacked messages are redelivered only to a pull, and no client pulls."""
    if (
        not _is_past_ack_wait(f, is_open)
        or not _has_no_recent_pull(f)
        or f.config is None
        or not f.config.durable
    ):
        return None
    text = f"{counted(f.unacked, 'message')} not acked for {_held_text(f)}"
    text += "; no pull is open, and messages are redelivered only to a pull"
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs)


def find_closed_client(f: Facts, is_open: bool) -> Symptom | None:
    """A client's connection ended while messages were ack pending, and ack wait is not over.

    A client that processes a batch neither pulls nor acks, so a pull consumer is reported only if
    a connection ended after the last delivery.
    """
    wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    config = f.config
    if config is None or not config.durable or wait_s is None or delivered_at_us is None:
        return None
    if f.is_delivery_stopped or f.held_s > wait_s:
        return None
    client = _find_ended_client(f, delivered_at_us)
    if is_open:
        # The next client receives them only after ack wait.
        is_dead = f.held_s > FETCH_LOOP_S
    elif config.pull:
        gap_s = f.pull_gap_s
        is_dead = client is not None and gap_s is not None
        is_dead = is_dead and min(gap_s or 0.0, f.held_s) > f.allowed_gap_s
    else:
        is_dead = not f.has_client and f.held_s > NO_SUBSCRIBER_S
    if not is_dead:
        return None
    client_text = f"client {client}" if client else "their client"
    text = f"{f.unacked} ack pending, unchanged for {duration_text(f.held_s)}; the connection of"
    text += (
        f" {client_text} ended; ack wait is over in {duration_text(max(0.0, wait_s - f.held_s))}"
    )
    hold_s = None if is_open or config.pull else NO_SUBSCRIBER_S
    return Symptom(text, f.idle_since_us, f.first_unacked_seqs, hold_s=hold_s)


def _find_ended_client(f: Facts, delivered_at_us: int) -> str | None:
    """Return the client whose connection may have received the last delivery and ended after it.

    The connection began before the delivery, and was in use then or later. None without one.
    """
    clients = f.state.clients
    if clients is None:
        return None
    from_us = delivered_at_us - round(FETCH_LOOP_S * 1e6)
    for connection in reversed(clients.ended):
        was_open = connection.started_at_us <= delivered_at_us <= connection.stopped_at_us
        if was_open and connection.active_at_us >= from_us:
            return connection.client
    return None


def _has_no_recent_pull(f: Facts) -> bool:
    """Return whether no client of a pull consumer pulled for longer than a fetch loop pauses."""
    if f.config is None or not f.config.pull or f.has_client:
        return False
    gap_s = f.pull_gap_s
    return gap_s is None or gap_s > FETCH_LOOP_S


def find_overdue_acks(f: Facts, is_open: bool) -> Symptom | None:
    """Messages are ack pending for longer than every ack wait, though clients receive."""
    if not _is_past_ack_wait(f, is_open) or _has_no_recent_pull(f):
        return None
    first, last = f.first_unacked_seqs, f.columns.delivered_stream_seq[f.row]
    range_text = f" from {first[0]} to {last}" if first else ""
    wait = duration_text(f.longest_ack_wait_s or 0.0)
    text = f"{counted(f.unacked, 'message')}{range_text} ack pending for {_held_text(f)}"
    return Symptom(f"{text}, longer than ack wait ({wait})", f.idle_since_us, first,
                   {"held_s": f.held_s, "msgs": f.unacked})  # fmt: skip


# Delivery: nothing is delivered, although messages are pending.


def _has_waiting_messages(f: Facts) -> bool:
    """Return whether messages are pending, and neither a pause nor a limit stops delivery."""
    return bool(f.pending) and not f.is_delivery_stopped and not f.is_at_limit


def _is_unbound(f: Facts) -> bool:
    """Return whether messages are pending at a push consumer without a subscriber."""
    return (
        f.config is not None
        and not f.config.pull
        and not f.has_client
        and _has_waiting_messages(f)
    )


def _count_clients_by_group(f: Facts) -> Mapping[str, int]:
    """Return the number of subscribers of the deliver subject for each queue group, if known."""
    clients, subject = f.state.clients, f.config.deliver_subject if f.config else None
    if clients is None or clients.groups_count is None or subject is None:
        return {}
    return clients.groups_count.get(subject, {})


def _find_wrong_group(f: Facts, groups: Mapping[str, int]) -> Symptom | None:
    """Return the evidence if clients subscribe in `groups`, and none in the deliver group."""
    config = f.config
    if not groups or config is None or not config.deliver_group or not _is_unbound(f):
        return None
    if config.deliver_group in _count_clients_by_group(f):
        return None
    clients = counted(sum(groups.values()), "client")
    names = ", ".join(sorted(name for name in groups if name))
    group_text = f"in queue group {names}" if names else "without a queue group"
    text = f"{f.pending} pending; subscribed to {config.deliver_subject} {group_text}: {clients}"
    return Symptom(f"{text}; the deliver group is {config.deliver_group}", f.waiting_since_us)


def find_other_queue_group(f: Facts, is_open: bool) -> Symptom | None:
    """Clients subscribe in a queue group that is not the deliver group."""
    return _find_wrong_group(
        f, {name: count for name, count in _count_clients_by_group(f).items() if name}
    )


def find_missing_queue_group(f: Facts, is_open: bool) -> Symptom | None:
    """Clients subscribe without a queue group, although the consumer has a deliver group."""
    return _find_wrong_group(
        f, {name: c for name, c in _count_clients_by_group(f).items() if not name}
    )


def find_missing_subscriber(f: Facts, is_open: bool) -> Symptom | None:
    """No client subscribes to the deliver subject."""
    if f.config is None or not _is_unbound(f):
        return None
    group_text = f" in queue group {f.config.deliver_group}" if f.config.deliver_group else ""
    return Symptom(
        f"{f.pending} pending, no client subscribes to {f.config.deliver_subject}{group_text}"
    )


def _has_no_open_pull(f: Facts) -> bool:
    """Return whether messages are pending at a pull consumer without an open pull request."""
    return f.config is not None and f.config.pull and not f.has_client and _has_waiting_messages(f)


def _quiet_text(f: Facts) -> str:
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
        delivery_text = f"last delivery {f.quiet_s:.0f} s ago"
    return f"{f.pending} pending, no pull request is open, {delivery_text}{kept_text}"


def find_new_without_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """No client pulls from a new consumer."""
    if not _has_no_open_pull(f) or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    if not f.was_never_delivered or f.age_s > NEW_CONSUMER_S:
        return None
    return Symptom(f"{_quiet_text(f)}; it is {duration_text(f.age_s)} old", f.waiting_since_us)


def _may_still_process(f: Facts) -> bool:
    """Return whether a client may still process messages: ack wait is not over."""
    wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    if not f.unacked or wait_s is None or f.held_s > wait_s:
        return False
    # A server that was restarted does not know when it delivered them.
    return delivered_at_us is None or _find_ended_client(f, delivered_at_us) is None


def _is_overdue(f: Facts) -> bool:
    """Return whether no client pulled for longer than the clients usually pause."""
    gap_s, allowed_s = f.pull_gap_s, f.allowed_gap_s
    if gap_s is None:
        # No client was ever seen.
        return f.waiting_s > NO_PULLS_AFTER_S
    if _may_still_process(f):
        # The first long job of a client is longer than its pauses were.
        allowed_s = max(allowed_s, UNKNOWN_PACE_S)
    return min(f.waiting_s, gap_s) > allowed_s


def find_overdue_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """Clients whose pace is known have stopped pulling, and process no messages."""
    if not _has_no_open_pull(f) or f.longest_pull_gap_s is None or not _is_overdue(f):
        return None
    if _may_still_process(f):
        return None
    return Symptom(_quiet_text(f), f.waiting_since_us)


def find_missing_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """No client pulls, and the pace of the clients is unknown or they may still process."""
    if not _has_no_open_pull(f) or not _is_overdue(f):
        return None
    text = _quiet_text(f)
    if _may_still_process(f):
        text += f"; a client may still process {counted(f.unacked, 'message')}"
    return _symptom_of_three_polls(f, is_open, text)


def _symptom_of_three_polls(f: Facts, is_open: bool, text: str) -> Symptom:
    """Return the evidence of a condition that must hold for three polls before its report."""
    return Symptom(text, f.waiting_since_us, hold_s=None if is_open else 2.0)


_PULL_LIMITS = {"max_batch": "messages", "max_bytes": "bytes", "max_expires": "ns of waiting"}


def find_refused_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """Nothing was ever delivered, and the consumer has settings that refuse some pulls."""
    if not _has_no_open_pull(f) or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    if not f.was_never_delivered:
        return None
    # A pull that was open was not refused.
    if (f.unanswered_pulls_s or 0.0) > 0:
        return None
    limits = [(name, f.settings.get(name)) for name in _PULL_LIMITS]
    texts = [
        duration_text(value / 1e9) if name == "max_expires" else f"{value} {_PULL_LIMITS[name]}"
        for name, value in limits
        if isinstance(value, int) and value > 0
    ]
    refused_texts = [f"for more than {', '.join(texts)}"] if texts else []
    groups = f.settings.get("priority_groups")
    if isinstance(groups, list) and groups:
        refused_texts.append(f"without group {', '.join(map(str, groups))}")
    if not refused_texts:
        return None
    text = f"{f.pending} pending, no pull request is open; pulls {' and '.join(refused_texts)}"
    return Symptom(f"{text} are refused", f.waiting_since_us)


def _has_recent_pulls(f: Facts) -> bool:
    """Return whether clients have pulled since messages are pending, even if no pull is open."""
    if f.config is None or not f.config.pull:
        return False
    unanswered_s, gap_s = f.unanswered_pulls_s, f.pull_gap_s
    if unanswered_s is None or unanswered_s <= FETCH_LOOP_S or gap_s is None:
        return False
    return gap_s <= f.allowed_gap_s


def _is_stalled(f: Facts, after_s: float) -> bool:
    """Return whether clients pull or are bound, messages are pending, and nothing is delivered."""
    if (
        not (f.has_client or _has_recent_pulls(f))
        or not _has_waiting_messages(f)
        or f.waiting_s <= after_s
    ):
        return False
    if f.deliveries is None:
        # One poll does not show that nothing is delivered: the server's clock may differ.
        return False
    return f.settings.get("replay_policy") != "original" and not f.settings.get("rate_limit_bps")


def find_idle_pinned_client(f: Facts, is_open: bool) -> Symptom | None:
    """The pinned client does not pull, while others wait."""
    if (
        f.config is None
        or f.config.priority_policy != "pinned_client"
        or not _is_stalled(f, INELIGIBLE_S)
    ):
        return None
    pinned = f.columns.pinned_client[f.row]
    timeout = f.settings.get("priority_timeout")
    limit = (
        f", the pin moves after {duration_text(timeout / 1e9)}"
        if isinstance(timeout, int) and timeout > 0
        else ""
    )
    pinned_text = (
        f"client {pinned} is pinned and does not pull" if pinned else "no client is pinned"
    )
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'other pull')} open, {pinned_text}"
    return _symptom_of_three_polls(f, is_open, f"{text} for {f.waiting_s:.0f} s{limit}")


def find_ineligible_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """The priority policy allows none of the open pull requests a message."""
    policy = f.config.priority_policy if f.config else None
    if policy not in ("overflow", "prioritized") or not _is_stalled(f, INELIGIBLE_S):
        return None
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'open pull')}, none eligible:"
    reason = "the min pending or min ack pending of the pulls is not reached"
    if policy != "overflow":
        reason = "their priority excludes them"
    return _symptom_of_three_polls(f, is_open, f"{text} {reason}")


def find_double_processing(f: Facts, is_open: bool) -> Symptom | None:
    """Several clients subscribe without a queue group, so each receives every message."""
    config = f.config
    if config is None or config.deliver_group or not config.durable:
        return None
    count = _count_clients_by_group(f).get("", 0)
    if count < 2:
        return None
    return Symptom(f"{count} clients subscribe to {config.deliver_subject} without a queue group")


def find_flow_control_stall(f: Facts, is_open: bool) -> Symptom | None:
    """The subscriber does not reply to flow control."""
    if f.config is None or f.config.pull or not f.settings.get("flow_control"):
        return None
    if not _is_stalled(f, FLOW_STALL_S):
        return None
    text = f"{f.pending} pending, a client is subscribed, nothing delivered for"
    return Symptom(f"{text} {f.waiting_s:.0f} s", f.waiting_since_us, f.first_unacked_seqs)


def find_pull_stall(f: Facts, is_open: bool) -> Symptom | None:
    """Clients have pulled since messages are pending, and none was delivered."""
    if (
        f.config is None
        or not f.config.pull
        or not _has_waiting_messages(f)
        or f.waiting_s <= STALLED_S
    ):
        return None
    # With a priority policy, a pull without messages need not be too small.
    if f.settings.get("replay_policy") == "original" or f.config.priority_policy:
        return None
    if not _has_recent_pulls(f):
        return None
    text = f"{f.pending} pending, clients pull, nothing delivered for {f.waiting_s:.0f} s"
    return _symptom_of_three_polls(f, is_open, text)


def find_push_stall(f: Facts, is_open: bool) -> Symptom | None:
    """A subscriber is bound, messages are pending, and none is delivered."""
    if f.config is None or f.config.pull or f.settings.get("flow_control"):
        return None
    if not _is_stalled(f, STALLED_S):
        return None
    text = f"{f.pending} pending, a client is subscribed, nothing delivered for"
    return _symptom_of_three_polls(f, is_open, f"{text} {f.waiting_s:.0f} s")


def find_old_next_message(f: Facts, is_open: bool) -> Symptom | None:
    """The age of the next message is above the threshold."""
    waits_s = next_message_age_s(f.state, f.row)
    if not f.pending or waits_s is None or waits_s <= MAX_LAG_S or f.is_delivery_stopped:
        return None
    since_us = f.at_us - round((waits_s - MAX_LAG_S) * 1e6)
    return Symptom(f"the next message has been waiting for {duration_text(waits_s)}", since_us)


# Findings beside the topics above.


def find_near_ack_limit(f: Facts, is_open: bool) -> Symptom | None:
    """Ack pending is near its limit."""
    limit = f.max_ack_pending
    if not limit or limit < 10 or not NEAR_SHARE * limit <= f.unacked < limit:
        return None
    return Symptom(f"{f.unacked} of {limit} ack pending")


def find_dropped_messages(f: Facts, is_open: bool) -> Symptom | None:
    """Messages were dropped after max deliver."""
    dropped = f.dropped_msgs
    dropped_counts = f.advisories.give_ups if f.advisories else NOTHING_COUNTED
    if not dropped or f.config is None:
        return None
    if (
        f.config.max_deliver_count == 1
        and (f.at_us - dropped_counts.last_at_us) / 1e6 > DROPPED_KEPT_S
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
        dropped, dropped_counts.total_count if dropped_counts.total_count and f.redelivered else 0
    )
    # An ack pending message may have been delivered only once: then it is not redelivered.
    is_all = f.config.max_deliver_count == 1 or not f.unacked or count >= f.redelivered
    text = f"{counted(count, 'message')} dropped after {f.config.max_deliver_count} deliveries"
    text = text if is_all else f"at least {text}"
    since_us = dropped_counts.first_at_us if dropped_counts.total_count else None
    return Symptom(
        text + kept_text + sequences_text,
        since_us,
        dropped_counts.sequences,
        {"given_up_msgs": count},
    )


def find_terminated_messages(f: Facts, is_open: bool) -> Symptom | None:
    """The client terminates messages."""
    terms = f.advisories.terms if f.advisories else NOTHING_COUNTED
    count = terms.recent_count(f.at_us, RECENT_S)
    if count < (1 if is_open else MIN_TERMS):
        return None
    text = f"{counted(terms.total_count, 'message')} terminated, {count} in {RECENT_S:.0f} s"
    sequences = terms.sequences
    return Symptom(
        f"{text}: {_format_sequences(sequences)}",
        _find_run_start_us(terms),
        sequences,
        {"count": count},
    )


def find_lost_messages(f: Facts, is_open: bool) -> Symptom | None:
    """The stream removed messages before the consumer received them."""
    loss = f.loss
    if loss is None or loss.purged:
        return _find_earlier_loss(f) if loss is None else None
    return _make_loss_symptom(f, loss.lost_msgs, (loss.first_seq, loss.last_seq), loss.since_at_us)


def _find_earlier_loss(f: Facts) -> Symptom | None:
    """Find removed messages between the consumer's position and the stream's first message."""
    stream, delivered = f.stream, f.columns.delivered_stream_seq[f.row]
    # With filters, the removed messages may not match.
    if f.is_filtered or not delivered or not f.pending:
        return None
    if stream is None or not stream.has_removing_limit:
        return None
    if stream.config is None or stream.config.retention != "limits":
        return None
    if not stream.removing_limit:
        # No limit is reached: a user removed them.
        return None
    first_seq = stream.columns.first_seq[stream.row]
    if first_seq - 1 - delivered <= 0:
        return None
    return _make_loss_symptom(f, first_seq - 1 - delivered, (delivered + 1, first_seq - 1), None)


def _make_loss_symptom(
    f: Facts, count: int, sequences: tuple[int, int], since_us: int | None
) -> Symptom:
    config = f.stream.config if f.stream else None
    is_exact = not f.is_filtered and config is not None and config.retention == "limits"
    text = f"{'' if is_exact else 'at least '}{counted(count, 'message')} removed before delivery,"
    text = f"{text} from {sequences[0]} to {sequences[1]}"
    if f.lost_per_min is not None:
        text += f", {f.lost_per_min:,.0f} a minute"
    limit = f.stream.removing_limit_text if f.stream else None
    text += f"; {limit}" if limit else ""
    reached = f.stream.removing_limit if f.stream else {}
    return Symptom(text, since_us, sequences, {"lost_msgs": count, **reached})


def find_lost_before_ack(f: Facts, is_open: bool) -> Symptom | None:
    """The stream removed messages that were delivered and not acked."""
    removed = f.advisories.removed if f.advisories else NOTHING_COUNTED
    if not removed.total_count or f.at_us - removed.last_at_us > LOST_KEPT_S * 1e6:
        return None
    if f.stream is None or not f.stream.has_removing_limit:
        return None
    if not is_open and not _are_removed_by_limit(f.stream, removed):
        return None
    text = f"{counted(removed.total_count, 'message')} removed before their ack"
    return Symptom(f"{text}: {_format_sequences(removed.sequences)}", removed.first_at_us,
                   removed.sequences,
                   {"lost_msgs": removed.total_count, **f.stream.removing_limit})  # fmt: skip


def _are_removed_by_limit(stream: StreamFacts, removed: MessageCounts) -> bool:
    """Return whether a limit may have removed messages: one was before the stream's first one."""
    first_seq, sequences = stream.columns.first_seq[stream.row], removed.sequences
    return bool(stream.removing_limit) and (not sequences or min(sequences) < first_seq)


def find_ahead_of_stream(f: Facts, is_open: bool) -> Symptom | None:
    """The consumer is beyond the end of its stream, which was rolled back, or it was reset."""
    ahead = f.ahead_of_stream_msgs
    if not ahead:
        return None
    delivered = f.columns.delivered_stream_seq[f.row]
    position_text = f"delivered up to sequence {delivered}"
    if not f.columns.delivered_consumer_seq[f.row]:
        position_text = f"delivery begins at sequence {delivered + 1}"
    return Symptom(f"{position_text}, the stream ends at {delivered - ahead}")


def find_max_waiting_reached(f: Facts, is_open: bool) -> Symptom | None:
    """Open pull requests are at max waiting, so further ones are refused."""
    limit = f.config.max_waiting_pulls_count if f.config else None
    count = f.columns.waiting_pulls_count[f.row]
    if not limit or count < limit:
        return None
    return Symptom(f"{count} of {limit} pull requests are open: further ones are refused")


def _format_sequences(sequences: tuple[int, ...]) -> str:
    """Return sequences for people: `3, 5 and 12 more`."""
    names = ", ".join(str(seq) for seq in sequences[:_MAX_NAMED_MESSAGES])
    return names + (
        f" and {len(sequences) - _MAX_NAMED_MESSAGES} more"
        if len(sequences) > _MAX_NAMED_MESSAGES
        else ""
    )


def _find_run_start_us(counts: MessageCounts) -> int:
    """Return the start of the newest run of advisories without a long pause, UTC."""
    began = counts.recent[-1][0]
    for second, _ in reversed(counts.recent):
        if began - second > RECENT_S:
            break
        began = second
    return max(began * 1_000_000, counts.first_at_us)


_FLOW_FACTS = ("pending_msgs", "ack_pending_msgs", "open_pulls", "waiting_s", "quiet_s")
_PACE_FACTS = (
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
    Cause(kinds.PULL_STALLED, find_pull_stall, (*_PACE_FACTS, "unanswered_pulls_s"),
          ("delivery",), HAS_PENDING),
    Cause(kinds.PULLS_REFUSED, find_refused_pulls, _PACE_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.OTHER_QUEUE_GROUP, find_other_queue_group, _FLOW_FACTS, ("delivery",),
          HAS_PENDING),
    Cause(kinds.WITHOUT_QUEUE_GROUP, find_missing_queue_group, _FLOW_FACTS, ("delivery",),
          HAS_PENDING),
    Cause(kinds.NO_SUBSCRIBER, find_missing_subscriber, _FLOW_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NOT_PULLED_YET, find_new_without_pulls, _PACE_FACTS, ("delivery",), HAS_PENDING),
    Cause(kinds.NO_PULLS, find_overdue_pulls, _PACE_FACTS, ("delivery", "redelivery"),
          HAS_PENDING),
    Cause(kinds.NO_PULLS_PACE_UNKNOWN, find_missing_pulls, _PACE_FACTS,
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
CONSUMER_ORDER = order_of(CONSUMER_CAUSES)
_CAUSES_OF_UNUSED = tuple(cause for cause in CONSUMER_CAUSES if "contact" in cause.topics)
"""Causes that are checked for a consumer without a client."""


def _is_leaked(f: Facts) -> bool:
    """Return whether the consumer has no client and piles up with others in its stream."""
    stream = f.stream
    if stream is None or f.has_client or (f.quiet_s is not None and f.quiet_s < NO_PULLS_AFTER_S):
        return False
    watched = f.state.findings.conditions.get(entity_of_key(stream.key), ())
    pile_up = next(
        (w.finding for w in watched if w.finding.kind is CONSUMERS_PILING_UP and w.raised), None
    )
    if pile_up is None:
        return False
    return f.columns.created_at_us[f.row] >= pile_up.since_us - round(PILE_UP_S * 1e6)


def consumer_causes(f: ConsumerFacts, open_kinds: frozenset[Kind]) -> list[tuple[Kind, Symptom]]:
    """Return the kind and evidence of each cause that holds for a consumer now."""
    flags = HAS_PENDING if f.pending else 0
    flags |= HAS_UNACKED if f.unacked else 0
    flags |= HAS_REDELIVERED if f.redelivered else 0
    flags |= HAS_ADVISORIES if f.advisories is not None else 0
    is_unused = f.is_sourcing or f.is_unused or _is_leaked(f)
    causes = _CAUSES_OF_UNUSED if is_unused else CONSUMER_CAUSES
    return diagnose(causes, f, flags, open_kinds)
