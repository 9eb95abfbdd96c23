"""The rules that speak from announcements: naks, terms, messages given up, elections."""

from __future__ import annotations

from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.finding import Seen
from natstui.model.findings.rules.look import ConsumerLook, StreamLook
from natstui.model.findings.thresholds import (
    ACKS_AGAIN_SHARE,
    ACKS_FEWEST,
    ACKS_LATE_SHARE,
    GIVEN_UP_KEPT_S,
    LEADERS_FEWEST,
    LEADERS_WINDOW_S,
    NAKED_LEAVE_SHARE,
    NAKED_SHARE,
    NAKS_FEWEST,
    NEAR_SHARE,
    POISON_DELIVERIES,
    RECENT_S,
    TERMS_FEWEST,
)
from natstui.model.live.ack_times import window_text
from natstui.model.live.message_counts import MessageCounts
from natstui.units import counted, duration_text

Found = Seen | None
_NAMED = 5
"""So many messages are named in a sentence."""


def _named(sequences: tuple[int, ...]) -> str:
    """Return sequences for people: `3, 5 and 12 more`."""
    names = ", ".join(str(seq) for seq in sequences[:_NAMED])
    return names + (f" and {len(sequences) - _NAMED} more" if len(sequences) > _NAMED else "")


def _floor(look: ConsumerLook) -> int:
    return look.columns.ack_floor_stream_seq[look.row]


def all_naked(look: ConsumerLook, known: bool) -> Found:
    """Nearly every delivery of the last seconds was refused, of several messages."""
    naks = look.trouble.naks if look.trouble else MessageCounts()
    count = naks.recent_count(look.at_us, RECENT_S)
    # What was refused is outstanding until it is settled: with nothing outstanding it is over.
    if not look.unacked or count < NAKS_FEWEST or len(naks.messages) < 2:
        return None
    settled = look.past.grown("ack_floor_consumer_seq", RECENT_S)
    delivered = look.past.grown("delivered_consumer_seq", RECENT_S) or 0
    share = min(1.0, count / max(1, delivered, count if settled == 0 else 0))
    if share < (NAKED_LEAVE_SHARE if known else NAKED_SHARE):
        return None
    sequences = naks.sequences
    text = f"{counted(count, 'nak')} in {RECENT_S:.0f} s, {100 * share:.0f} % of deliveries"
    return Seen(
        f"{text}; of messages {_named(sequences)}",
        naks.recent[0][0] * 1_000_000 if len(naks.recent) < 2 else _began_us(naks),
        sequences,
        {"naks_count": count, "share": share, "total_count": naks.total_count},
    )


def _began_us(counts: MessageCounts) -> int:
    """Return when the newest run of seconds without a long pause began."""
    began = counts.recent[-1][0]
    for second, _ in reversed(counts.recent):
        if began - second > RECENT_S:
            break
        began = second
    return max(began * 1_000_000, counts.first_at_us)


def poison(look: ConsumerLook, known: bool) -> Found:
    """One message is delivered again and again, as naks or the counters tell."""
    naks = look.trouble.naks if look.trouble else MessageCounts()
    loops = [
        one
        for one in naks.worst()
        if one.deliveries_count >= POISON_DELIVERIES and one.stream_seq > _floor(look)
    ]
    if loops:
        worst = max(loops, key=lambda one: one.deliveries_count)
        text = f"message {worst.stream_seq} was delivered {worst.deliveries_count} times"
        others = f", {counted(len(loops) - 1, 'other')} as well" if len(loops) > 1 else ""
        sequences = (worst.stream_seq, *(one.stream_seq for one in loops if one is not worst))
        return Seen(
            text + others,
            None if known else _began_us(naks),
            sequences,
            {"deliveries_count": worst.deliveries_count},
        )
    return _repeated(look)


def _repeated(look: ConsumerLook) -> Found:
    """Tell of the one message that is delivered again and again without naks.

    Deliveries since the ack floor, less one for each sequence delivered since: at least so many
    are repetitions.
    """
    columns, row = look.columns, look.row
    if look.redelivered != 1 or not look.unacked:
        return None
    deliveries = columns.delivered_consumer_seq[row] - columns.ack_floor_consumer_seq[row]
    distinct = columns.delivered_stream_seq[row] - columns.ack_floor_stream_seq[row]
    repeats = deliveries - distinct
    if repeats < POISON_DELIVERIES:
        return None
    first = _floor(look) + 1
    text = f"a message, probably {first}, was delivered again at least {repeats} times"
    return Seen(text, None, (first,), {"deliveries_count": repeats})


def gave_up(look: ConsumerLook, known: bool) -> Found:
    """Messages reached max deliver."""
    config = look.config
    given_up = look.trouble.give_ups if look.trouble else MessageCounts()
    if given_up.total_count:
        age_s = (look.at_us - given_up.last_at_us) / 1e6
        tells = config is None or config.max_deliver_count != 1
        if (tells and look.redelivered) or (not tells and age_s < GIVEN_UP_KEPT_S):
            sequences = given_up.sequences
            text = f"{counted(given_up.total_count, 'message')} given up: {_named(sequences)}"
            numbers = {"given_up_msgs": given_up.total_count}
            return Seen(text, given_up.first_at_us, sequences, numbers)
        return None
    # What was given up before we listened stays in num_redelivered, and in nothing else.
    if config is None or not config.max_deliver_count or not look.redelivered:
        return None
    # Told when nothing is on its way; what comes then does not make them less given up.
    settled = not look.unacked and _floor(look) >= look.columns.delivered_stream_seq[look.row]
    if not settled and not known:
        return None
    text = f"{counted(look.redelivered, 'message')} given up before natstui listened"
    return Seen(text, None, (), {"given_up_msgs": look.redelivered})


def terminated(look: ConsumerLook, known: bool) -> Found:
    """The client terminates messages."""
    terms = look.trouble.terms if look.trouble else MessageCounts()
    count = terms.recent_count(look.at_us, RECENT_S)
    if count < (1 if known else TERMS_FEWEST):
        return None
    text = f"{counted(terms.total_count, 'message')} terminated, {count} in {RECENT_S:.0f} s"
    sequences = terms.sequences
    return Seen(f"{text}: {_named(sequences)}", _began_us(terms), sequences, {"count": count})


def backoff_spent(look: ConsumerLook, known: bool) -> Found:
    """A message was refused at the last step of the backoff or later, and is not settled."""
    backoff = look.settings.get("backoff")
    if look.trouble is None or not isinstance(backoff, list) or not backoff:
        return None
    spent = [
        one.stream_seq
        for one in look.trouble.naks.worst()
        if one.deliveries_count >= len(backoff) and one.stream_seq > _floor(look)
    ]
    if not spent or not look.unacked:
        return None
    text = f"{counted(len(spent), 'message')} after {counted(len(backoff), 'step')} of backoff"
    return Seen(f"{text}: {_named(tuple(spent))}", None, tuple(spent))


def ack_wait_short(look: ConsumerLook, known: bool) -> Found:
    """Sampled acknowledgements take about as long as ack wait, or come after a redelivery.

    A sample counts from the last delivery, so what is acknowledged after ack wait looks quick:
    that it was delivered again, and nobody refused it, shows it then.
    """
    wait_ns = look.config.ack_wait_ns if look.config else None
    if look.trouble is None or not wait_ns:
        return None
    window = look.trouble.acks.until(look.at_us)
    count = window.times.total_count
    p99_ns = window.times.percentile_ns(PERCENTILES["p99"])
    if count < ACKS_FEWEST or p99_ns is None:
        return None
    refused = look.trouble.naks.last_at_us >= look.at_us - round(window.window_s * 1e6)
    again = not refused and window.repeated_count >= ACKS_AGAIN_SHARE * count
    near = p99_ns >= NEAR_SHARE * wait_ns
    if not near and not (again and p99_ns >= ACKS_LATE_SHARE * wait_ns):
        return None
    text = f"acknowledged after {window_text(window)}; ack wait is {duration_text(wait_ns / 1e9)}"
    if again:
        text += f", and {counted(window.repeated_count, 'message')} came again"
    return Seen(text, None, (), {"p99_s": p99_ns / 1e9, "repeated_count": window.repeated_count})


def leader_flaps(look: ConsumerLook | StreamLook, known: bool) -> Found:
    """Leaders were elected again and again."""
    if look.trouble is None:
        return None
    from_us = look.at_us - round(LEADERS_WINDOW_S * 1e6)
    recent = [at_us for at_us in look.trouble.elected_at_us if at_us >= from_us]
    if len(recent) < LEADERS_FEWEST:
        return None
    return Seen(f"{len(recent)} elections in {LEADERS_WINDOW_S / 60:.0f} min", recent[0])
