"""Messages and state that a change deletes for good, counted before the change, with texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from natstui.model.assets.defaults import normalize_consumer, normalize_stream
from natstui.model.assets.fields import is_on, number_at, read, strings_at, text_at
from natstui.units import bytes_text, counted, duration_text

NONE_NEEDED_TEXT = "no message that only it needs is there now"
_GROWTH_TEXT = "for each message published until you confirm, one more"


class Loss(Struct, frozen=True):
    """The losses of a change, one clause each; empty if nothing is lost."""

    lines: tuple[str, ...] = ()
    """Losses that no undo restores."""
    most_msgs: int | None = 0
    """Maximum of deleted messages; None if unknown."""
    grows_until_confirmed: bool = False
    """Whether messages published until the confirmation add to the losses."""
    lines_restored_by_undo: tuple[str, ...] = ()
    """Losses that an undo of the change restores, such as replicas of a stream."""

    def __add__(self, other: Loss) -> Loss:
        """Return the losses of both changes together."""
        counts = self.most_msgs, other.most_msgs
        return Loss(
            (*self.lines, *other.lines),
            None if None in counts else sum(filter(None, counts)),
            self.grows_until_confirmed or other.grows_until_confirmed,
            (*self.lines_restored_by_undo, *other.lines_restored_by_undo),
        )

    @property
    def text(self) -> str:
        """Return the clauses of the losses that no undo restores, joined by `; `."""
        return "; ".join(self.lines)

    @property
    def shown_lines(self) -> tuple[str, ...]:
        """Return all clauses; if the losses grow, also a clause that new messages add to them."""
        growth_lines = (_GROWTH_TEXT,) if self.grows_until_confirmed else ()
        return (*self.lines, *self.lines_restored_by_undo, *growth_lines)


NO_LOSS = Loss()


class StoredMessages(Struct, frozen=True):
    """The current messages of a stream that an edit may delete; None: unknown."""

    total_msgs: int
    total_bytes: int
    expired_msgs: int | None = 0
    """Messages older than the new max age; an upper bound if messages between are deleted."""
    has_gaps: bool = False
    excess_msgs: int | None = 0
    """Messages above the new limit per subject, summed over subjects."""
    deletes_excess_later: bool = False
    """Whether this server deletes `excess_msgs` later, not with the edit."""
    unneeded_msgs: int | None = 0
    """Messages that no consumer needs any more; an upper bound."""
    consumers_without_threshold_count: int = 0
    """Consumers without an inactive threshold of their own."""
    needed_without_threshold_msgs: int = 0
    """Messages that only those consumers keep in an interest stream; an upper bound."""
    expiring_msgs: int | None = 0
    """Messages with a TTL that had no effect until now."""


_ABOUT_ACCURACY = "about "


def removed_messages_text(count: int | None, stored: StoredMessages, accuracy: str = "") -> str:
    """Return the clause about removed messages, as `990 of 1,000 messages (about 120 KB) are …`.

    `count` is None if unknown; `accuracy` (`about ` or `at most `) is written before the count.
    """
    total_text = counted(f"{stored.total_msgs:,}", "message")
    if count is None:
        return f"an unknown number of {total_text} is removed for good"
    if count == 0:
        return "no message is removed"
    size_text = f" (about {bytes_text(stored.total_bytes * count // max(1, stored.total_msgs))})"
    verb = "is" if count == 1 else "are"
    share_text = f"{count:,} of {total_text}"
    if count == stored.total_msgs:
        share_text = "its only message" if count == 1 else f"all {total_text}"
    text = f"{accuracy}{share_text}{size_text} {verb} removed for good"
    # The oldest are removed first, and only the mean size is known.
    is_mean_size = accuracy == _ABOUT_ACCURACY and count < stored.total_msgs
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
        *_mirror_loss_texts(old_config, new_config),
        *_deleted_consumers_texts(old_config, new_config, stored),
    )
    replica_lines = tuple(_replica_loss_texts(old_config, new_config))
    most_msgs = stored.total_msgs if accuracy == _ABOUT_ACCURACY else count
    loss = Loss((*lines, *further_lines), most_msgs, lines_restored_by_undo=replica_lines)
    return loss + _ttl_loss(stored)


def _ttl_loss(stored: StoredMessages) -> Loss:
    """Return the loss of stored messages with a TTL, by an edit that makes TTLs effective."""
    if not stored.expiring_msgs:
        text = "messages of another stream with a TTL (not counted) are removed when the TTL ends"
        return Loss() if stored.expiring_msgs == 0 else Loss((text,), None)
    count_text = counted(f"{stored.expiring_msgs:,}", "message")
    verb = "is" if stored.expiring_msgs == 1 else "are"
    end_text = "when the TTL ends, or now if it has ended"
    text = f"{count_text} with a TTL {verb} removed for good {end_text}"
    return Loss((text,), stored.expiring_msgs)


def _removed_later_text(new_config: Mapping[str, object]) -> str:
    """Return a clause that says when messages above the limit per subject are deleted."""
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


_EFFECTIVE_TTL_HEADER = re.compile(rb"^nats-ttl:(?!\s*never\s*$)", re.IGNORECASE | re.MULTILINE)


def has_ttl(headers_block: bytes) -> bool:
    """Return whether the headers of a message, as stored, have a TTL that is not `never`."""
    return _EFFECTIVE_TTL_HEADER.search(headers_block) is not None


def sets_interest_retention(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit changes the retention to interest."""
    old_retention, new_retention = text_at(before, "retention"), text_at(after, "retention")
    return new_retention == "interest" and old_retention != "interest"


def _is_lowered(before: Mapping[str, object], after: Mapping[str, object], path: str) -> bool:
    old_limit, new_limit = number_at(before, path), number_at(after, path)
    return new_limit > 0 and (old_limit <= 0 or new_limit < old_limit)


class _Removal(NamedTuple):
    """The messages that a limit removes; `msgs` None: an unknown number."""

    msgs: int | None
    accuracy: str
    """Empty if exact, else `about ` or `at most `."""
    kind: str
    """`oldest`, `of a subject` or `unneeded`."""


def _count_removed_messages(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> tuple[int | None, str]:
    """Return the number of messages that an edit deletes, None if unknown, and its accuracy.

    The accuracy is empty, `about ` or `at most `.
    """
    removals = list(_removals_by_limit(old_config, new_config, stored))
    if any(count is None for count, _, _ in removals):
        return None, ""
    nonzero_removals = [(count, accuracy, kind) for count, accuracy, kind in removals if count]
    if not nonzero_removals:
        return 0, ""
    # All limits remove the oldest first; messages of a full subject may be among them.
    removed_oldest_msgs = max(
        (count for count, _, kind in nonzero_removals if kind == "oldest"), default=0
    )
    removed_other_msgs = sum(count for count, _, kind in nonzero_removals if kind != "oldest")
    most_msgs = min(stored.total_msgs, removed_oldest_msgs + removed_other_msgs)
    are_kinds_mixed = (
        bool(removed_oldest_msgs and removed_other_msgs)
        or sum(kind != "oldest" for _, _, kind in nonzero_removals) > 1
    )
    if are_kinds_mixed and any(accuracy == _ABOUT_ACCURACY for _, accuracy, _ in nonzero_removals):
        most_msgs = stored.total_msgs
    return most_msgs, "at most " if are_kinds_mixed else next(
        (accuracy for count, accuracy, _ in nonzero_removals if count == most_msgs), ""
    )


def _removals_by_limit(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> Iterator[_Removal]:
    """Yield the messages that each limit of the new configuration removes."""
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
            yield _Removal(max(0, stored.total_msgs - max_msgs), "", "oldest")
        if 0 < max_bytes < stored.total_bytes:
            excess_bytes_times_msgs = (stored.total_bytes - max_bytes) * stored.total_msgs
            yield _Removal(
                -(-excess_bytes_times_msgs // stored.total_bytes), _ABOUT_ACCURACY, "oldest"
            )
    if lowers_max_age(old_config, new_config):
        yield _Removal(stored.expired_msgs, "at most " if stored.has_gaps else "", "oldest")
    if lowers_msgs_per_subject(old_config, new_config):
        yield _Removal(stored.excess_msgs, "", "of a subject")
    if sets_interest_retention(old_config, new_config):
        yield _Removal(stored.unneeded_msgs, "at most ", "unneeded")


_LOSS_BY_IRREVERSIBLE_OPTION = {
    "sealed": "it stays sealed for ever",
    "deny_delete": "the messages of the stream can never be deleted",
    "deny_purge": "the stream can never be purged",
}


def _irreversible_texts(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    for path, text in _LOSS_BY_IRREVERSIBLE_OPTION.items():
        # For a sealed stream the server denies both by itself.
        is_implied_by_seal = path != "sealed" and is_on(new_config, "sealed")
        if is_on(new_config, path) and not is_on(old_config, path) and not is_implied_by_seal:
            yield f"{text}: this cannot be undone"


def _mirror_loss_texts(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    if read(old_config, "mirror") and not read(new_config, "mirror"):
        origin = text_at(old_config, "mirror.name")
        yield f"it stops mirroring {origin}, and cannot become its mirror again"


def replicas_of(config: Mapping[str, object]) -> int:
    """Return the number of replicas of a stream; 1 if absent."""
    return max(1, int(number_at(config, "num_replicas")))


def removed_replicas_count(before: Mapping[str, object], after: Mapping[str, object]) -> int:
    """Return the number of replicas that an edit removes."""
    return max(0, replicas_of(before) - replicas_of(after))


def _replica_loss_texts(
    old_config: Mapping[str, object], new_config: Mapping[str, object]
) -> Iterator[str]:
    count = removed_replicas_count(old_config, new_config)
    if count > 0:
        new_replicas_count = replicas_of(new_config)
        removed_text = f"{count} of {replicas_of(old_config)} copies"
        verb = "is" if count == 1 else "are"
        if new_replicas_count == 1:
            yield f"{removed_text} {verb} removed: one server then has the only copy"
        else:
            yield f"{removed_text} {verb} removed, {new_replicas_count} are left"


def _deleted_consumers_texts(
    old_config: Mapping[str, object], new_config: Mapping[str, object], stored: StoredMessages
) -> Iterator[str]:
    path = "consumer_limits.inactive_threshold"
    if _is_lowered(old_config, new_config, path) and stored.consumers_without_threshold_count:
        threshold_text = duration_text(number_at(new_config, path) / 1e9)
        consumers_text = counted(stored.consumers_without_threshold_count, "consumer")
        text = (
            f"{consumers_text} without a threshold may be deleted once unused for {threshold_text}"
        )
        if needed_msgs := stored.needed_without_threshold_msgs:
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
    has_interest_retention = text_at(stream, "retention") == "interest"
    lines, most_msgs, grows_until_confirmed = [], 0, False
    if _is_lowered(old_config, new_config, "inactive_threshold"):
        threshold_text = duration_text(number_at(new_config, "inactive_threshold") / 1e9)
        lines.append(f"the consumer is deleted once it is unused for {threshold_text}")
        most_msgs = needed_msgs if has_interest_retention else 0
        grows_until_confirmed = has_interest_retention
        if grows_until_confirmed and not needed_msgs:
            lines.append(NONE_NEEDED_TEXT)
    if ack_pending_msgs and _is_lowered(old_config, new_config, "max_deliver"):
        max_deliver_count = number_at(new_config, "max_deliver")
        lines.append(
            f"of {counted(ack_pending_msgs, 'message')} waiting for an ack, and of messages "
            "delivered until you confirm, each that was delivered "
            f"{counted(max_deliver_count, 'time')} or more is dropped after max deliver"
        )
    if has_interest_retention and filters_of(old_config) != filters_of(new_config):
        most_msgs = needed_msgs
    if most_msgs:
        lines.append(
            f"at most {counted(most_msgs, 'message')} that no other consumer needs are removed "
            "for good"
        )
    return Loss(tuple(lines), most_msgs, grows_until_confirmed)


def filters_of(config: Mapping[str, object]) -> tuple[str, ...]:
    """Return the sorted filter subjects of a consumer; empty for all subjects."""
    filters = strings_at(config, "filter_subjects")
    single_filter = read(config, "filter_subject")
    return tuple(sorted(filters)) or ((str(single_filter),) if single_filter else ())
