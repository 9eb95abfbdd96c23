"""Messages and state that a change deletes for good, counted before the change, with texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from natstui.model.assets.defaults import normalize_consumer, normalize_stream
from natstui.model.assets.fields import is_on, number_at, read, strings_at, text_at
from natstui.units import bytes_text, counted, duration_text

NONE_NEEDED_TEXT = "no message that only it needs is there now"
_GROWTH_TEXT = "for each message published until you confirm, one more"


@dataclass(frozen=True, slots=True)
class Loss:
    """The losses of a change, one clause each; empty without any."""

    lines: tuple[str, ...] = ()
    """Losses that no undo restores."""
    most_msgs: int | None = 0
    """Maximum of deleted messages; None if unknown."""
    grows: bool = False
    """Whether messages published until the confirmation add to the losses."""
    lines_until_undone: tuple[str, ...] = ()
    """Losses that an undo of the change restores, such as replicas of a stream."""

    def __add__(self, other: Loss) -> Loss:
        """Return the losses of both changes together."""
        counts = self.most_msgs, other.most_msgs
        return Loss(
            (*self.lines, *other.lines),
            None if None in counts else sum(filter(None, counts)),
            self.grows or other.grows,
            (*self.lines_until_undone, *other.lines_until_undone),
        )

    @property
    def text(self) -> str:
        """Return the clauses of the losses that no undo restores, joined by `; `."""
        return "; ".join(self.lines)

    @property
    def shown_lines(self) -> tuple[str, ...]:
        """Return all clauses; if the losses grow, also a clause that new messages add to them."""
        published = (_GROWTH_TEXT,) if self.grows else ()
        return (*self.lines, *self.lines_until_undone, *published)


NOTHING = Loss()


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The current messages of a stream that an edit may delete; None: unknown."""

    total_msgs: int
    total_bytes: int
    older_msgs: int | None = 0
    """Messages older than the new max age; an upper bound if messages between are deleted."""
    has_gaps: bool = False
    excess_msgs: int | None = 0
    """Messages above the new limit per subject, summed over subjects."""
    deletes_excess_later: bool = False
    """Whether this server deletes `excess_msgs` later, not with the edit."""
    unneeded_msgs: int | None = 0
    """Messages that no consumer needs any more; an upper bound."""
    unlimited_consumers_count: int = 0
    """Consumers without an inactive threshold of their own."""
    unlimited_needed_msgs: int = 0
    """Messages that only those consumers keep in an interest stream; an upper bound."""
    expiring_msgs: int | None = 0
    """Messages with a TTL that had no effect until now."""


_ABOUT = "about "


def removed_messages_text(count: int | None, stored: StoredMessages, accuracy: str = "") -> str:
    """Return the clause about removed messages, as `990 of 1,000 messages (about 120 KB) are …`.

    `count` None: unknown; `accuracy` (`about ` or `at most `) precedes the count.
    """
    total_text = counted(f"{stored.total_msgs:,}", "message")
    if count is None:
        return f"an unknown number of {total_text} is removed for good"
    if count == 0:
        return "no message is removed"
    size = f" (about {bytes_text(stored.total_bytes * count // max(1, stored.total_msgs))})"
    verb = "is" if count == 1 else "are"
    part = f"{count:,} of {total_text}"
    if count == stored.total_msgs:
        part = "its only message" if count == 1 else f"all {total_text}"
    text = f"{accuracy}{part}{size} {verb} removed for good"
    # The oldest are removed first, and only the mean size is known.
    is_mean_size = accuracy == _ABOUT and count < stored.total_msgs
    return f"{text}, up to all of them where the oldest are smaller" if is_mean_size else text


def stream_edit_loss(
    before: Mapping[str, object], after: Mapping[str, object], stored: StoredMessages
) -> Loss:
    """Return the losses by an edit of a stream, including irreversible settings.

    `stored` are the messages that the new limits may delete.
    """
    old_config, new_config = normalize_stream(before), normalize_stream(after)
    count, accuracy = _count_removed_messages(old_config, new_config, stored)
    loses_messages = count is None or count > 0
    lines = [removed_messages_text(count, stored, accuracy)] if loses_messages else []
    if stored.deletes_excess_later and stored.excess_msgs != 0:
        lines.append(_removed_later_text(new_config))
    further_lines = (
        *_irreversible_texts(old_config, new_config),
        *_mirror_loss(old_config, new_config),
        *_consumer_loss(old_config, new_config, stored),
    )
    copies = tuple(_replica_loss(old_config, new_config))
    most_msgs = stored.total_msgs if accuracy == _ABOUT else count
    loss = Loss((*lines, *further_lines), most_msgs, lines_until_undone=copies)
    return loss + _ttl_loss(stored)


def _ttl_loss(stored: StoredMessages) -> Loss:
    """Return the loss of messages whose TTL has an effect only after the edit."""
    if not stored.expiring_msgs:
        text = "messages of another stream with a TTL (not counted) are removed when the TTL ends"
        return Loss() if stored.expiring_msgs == 0 else Loss((text,), None)
    count_text = counted(f"{stored.expiring_msgs:,}", "message")
    verb = "is" if stored.expiring_msgs == 1 else "are"
    end_text = "when the TTL ends, or now if it has ended"
    text = f"{count_text} with a TTL {verb} removed for good {end_text}"
    return Loss((text,), stored.expiring_msgs)


def _removed_later_text(new_config: Mapping[str, object]) -> str:
    """Return a clause about the time when messages above the limit per subject are deleted."""
    text = "messages above the limit per subject are removed later: "
    if is_on(new_config, "discard_new_per_subject"):
        return text + "when the server restarts"
    return text + "with the next message of the subject, or when the server restarts"


def lowers_max_age(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit sets or lowers the max age."""
    return _is_lowered(before, after, "max_age")


def lowers_msgs_per_subject(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit sets or lowers the limit of messages per subject."""
    return _is_lowered(before, after, "max_msgs_per_subject")


def adds_limit_per_subject(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit limits the messages per subject of a stream without such a limit."""
    return (
        lowers_msgs_per_subject(before, after) and number_at(before, "max_msgs_per_subject") <= 0
    )


def enables_message_ttl(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit switches message TTL on."""
    return is_on(after, "allow_msg_ttl") and not is_on(before, "allow_msg_ttl")


_TTL = re.compile(rb"^nats-ttl:(?!\s*never\s*$)", re.IGNORECASE | re.MULTILINE)


def has_ttl(header: bytes) -> bool:
    """Return whether a block of headers has a TTL that is not `never`."""
    return _TTL.search(header) is not None


def becomes_interest(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit changes the retention to interest."""
    old_config, new_config = text_at(before, "retention"), text_at(after, "retention")
    return new_config == "interest" and old_config != "interest"


def _is_lowered(before: Mapping[str, object], after: Mapping[str, object], path: str) -> bool:
    old_config, new_config = number_at(before, path), number_at(after, path)
    return new_config > 0 and (old_config <= 0 or new_config < old_config)


def _count_removed_messages(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> tuple[int | None, str]:
    """Return the number of deleted messages, and its accuracy: empty, `about ` or `at most `."""
    removals = list(_removals_by_limit(old_config, new_config, stored))
    if any(count is None for count, _, _ in removals):
        return None, ""
    effective_removals = [(count, accuracy, kind) for count, accuracy, kind in removals if count]
    if not effective_removals:
        return 0, ""
    # All limits remove the oldest first; messages of a full subject may be among them.
    oldest = max((count for count, _, kind in effective_removals if kind == "oldest"), default=0)
    other = sum(count for count, _, kind in effective_removals if kind != "oldest")
    most_msgs = min(stored.total_msgs, oldest + other)
    is_mixed = (
        bool(oldest and other) or sum(kind != "oldest" for _, _, kind in effective_removals) > 1
    )
    if is_mixed and any(accuracy == _ABOUT for _, accuracy, _ in effective_removals):
        most_msgs = stored.total_msgs
    return most_msgs, "at most " if is_mixed else next(
        (accuracy for count, accuracy, _ in effective_removals if count == most_msgs), ""
    )


def _removals_by_limit(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> Iterator[tuple[int | None, str, str]]:
    """Yield count, accuracy and kind (`oldest`, …) of the removals by each limit."""
    limiting_fields = ("discard", "max_msgs", "max_bytes")
    # With discard new, old messages stay even above a limit.
    if text_at(new_config, "discard") != "new" and any(
        old_config.get(path) != new_config.get(path) for path in limiting_fields
    ):
        max_msgs, max_bytes = (
            number_at(new_config, "max_msgs"),
            number_at(new_config, "max_bytes"),
        )
        if max_msgs > 0:
            yield max(0, stored.total_msgs - max_msgs), "", "oldest"
        if 0 < max_bytes < stored.total_bytes:
            excess = (stored.total_bytes - max_bytes) * stored.total_msgs
            yield -(-excess // stored.total_bytes), _ABOUT, "oldest"
    if lowers_max_age(old_config, new_config):
        yield stored.older_msgs, "at most " if stored.has_gaps else "", "oldest"
    if lowers_msgs_per_subject(old_config, new_config):
        yield stored.excess_msgs, "", "of a subject"
    if becomes_interest(old_config, new_config):
        yield stored.unneeded_msgs, "at most ", "unneeded"


_IRREVERSIBLE = {
    "sealed": "it stays sealed for ever",
    "deny_delete": "the messages of the stream can never be deleted",
    "deny_purge": "the stream can never be purged",
}


def _irreversible_texts(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    for path, text in _IRREVERSIBLE.items():
        # For a sealed stream the server denies both by itself.
        is_implied = path != "sealed" and is_on(new_config, "sealed")
        if is_on(new_config, path) and not is_on(old_config, path) and not is_implied:
            yield f"{text}: this cannot be undone"


def _mirror_loss(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    if read(old_config, "mirror") and not read(new_config, "mirror"):
        origin = text_at(old_config, "mirror.name")
        yield f"it stops mirroring {origin}, and cannot become its mirror again"


def replicas_of(config: Mapping[str, object]) -> int:
    """Return the number of replicas of a stream; 1 if absent."""
    return max(1, int(number_at(config, "num_replicas")))


def removed_copies_count(before: Mapping[str, object], after: Mapping[str, object]) -> int:
    """Return the number of replicas that an edit removes."""
    return max(0, replicas_of(before) - replicas_of(after))


def _replica_loss(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    count = removed_copies_count(old_config, new_config)
    if count > 0:
        replicas_after = replicas_of(new_config)
        removed_text = f"{count} of {replicas_of(old_config)} copies"
        verb = "is" if count == 1 else "are"
        if replicas_after == 1:
            yield f"{removed_text} {verb} removed: one server then has the only copy"
        else:
            yield f"{removed_text} {verb} removed, {replicas_after} are left"


def _consumer_loss(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> Iterator[str]:
    path = "consumer_limits.inactive_threshold"
    if _is_lowered(old_config, new_config, path) and stored.unlimited_consumers_count:
        unused_text = duration_text(number_at(new_config, path) / 1e9)
        consumers_text = counted(stored.unlimited_consumers_count, "consumer")
        text = f"{consumers_text} without a threshold may be deleted once unused for {unused_text}"
        if needed_msgs := stored.unlimited_needed_msgs:
            text += f", with up to {counted(f'{needed_msgs:,}', 'message')} that only they need"
        yield text


def consumer_edit_loss(
    before: Mapping[str, object],
    after: Mapping[str, object],
    stream: Mapping[str, object],
    needed_msgs: int,
    ack_pending_msgs: int = 0,
) -> Loss:
    """Return the losses by an edit of a consumer.

    `stream` is the configuration of its stream; `needed_msgs` are the messages that may be needed
    by this consumer only, which interest retention deletes; `ack_pending_msgs` are ack pending.
    """
    old_config, new_config = normalize_consumer(before), normalize_consumer(after)
    is_interest = text_at(stream, "retention") == "interest"
    lines, most_msgs, grows = [], 0, False
    if _is_lowered(old_config, new_config, "inactive_threshold"):
        unused_text = duration_text(number_at(new_config, "inactive_threshold") / 1e9)
        lines.append(f"the consumer is deleted once it is unused for {unused_text}")
        most_msgs = needed_msgs if is_interest else 0
        grows = is_interest
        if grows and not needed_msgs:
            lines.append(NONE_NEEDED_TEXT)
    if ack_pending_msgs and _is_lowered(old_config, new_config, "max_deliver"):
        max_deliver = number_at(new_config, "max_deliver")
        lines.append(
            f"of {counted(ack_pending_msgs, 'message')} waiting for an ack, and of messages "
            "delivered until you confirm, each that was delivered "
            f"{counted(max_deliver, 'time')} or more is dropped after max deliver"
        )
    if is_interest and filters_of(old_config) != filters_of(new_config):
        most_msgs = needed_msgs
    if most_msgs:
        lines.append(
            f"at most {counted(most_msgs, 'message')} that no other consumer needs are removed "
            "for good"
        )
    return Loss(tuple(lines), most_msgs, grows)


def filters_of(config: Mapping[str, object]) -> tuple[str, ...]:
    """Return the sorted filter subjects of a consumer; empty for all subjects."""
    filters = strings_at(config, "filter_subjects")
    single = read(config, "filter_subject")
    return tuple(sorted(filters)) or ((str(single),) if single else ())
