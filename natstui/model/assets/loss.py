"""What a change removes for good: counted before it is done, and described in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from natstui.model.assets.defaults import normal_consumer, normal_stream
from natstui.model.assets.fields import is_on, number_at, read, strings_at, text_at
from natstui.units import bytes_text, counted, duration_text

_PUBLISHED = "for each message published until you confirm, one more"


@dataclass(frozen=True, slots=True)
class Loss:
    """What is removed for good, one clause each; empty when nothing is."""

    lines: tuple[str, ...] = ()
    most_msgs: int | None = 0
    """The most messages that are removed; None when it is unknown."""
    grows: bool = False
    """Whether what is published until it is confirmed adds to it."""

    @property
    def text(self) -> str:
        """Return the clauses as one part of a sentence."""
        return "; ".join(self.lines)

    @property
    def shown_lines(self) -> tuple[str, ...]:
        """Return the clauses for who has to confirm it."""
        return (*self.lines, _PUBLISHED) if self.grows else self.lines


NOTHING = Loss()


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """What a stream holds now, as far as an edit may remove it. None is not known."""

    held_msgs: int
    held_bytes: int
    older_msgs: int | None = 0
    """Stored before what the new maximum age allows; an upper bound when messages are missing."""
    has_gaps: bool = False
    excess_msgs: int | None = 0
    """More than the new limit per subject, summed over the subjects."""
    thins_later: bool = False
    """Whether this server removes them later, not with the edit."""
    settled_msgs: int | None = 0
    """No consumer wants them any more; an upper bound."""
    unlimited_consumers_count: int = 0
    """Consumers without an inactive threshold of their own."""


def messages_gone(count: int | None, held: StoredMessages, sure: str = "") -> str:
    """Return the clause about messages, as `990 of 1,000 messages (about 120 KB) are …`."""
    all_of_them = counted(f"{held.held_msgs:,}", "message")
    if count is None:
        return f"an unknown number of {all_of_them} is removed for good"
    if count == 0:
        return "no message is removed"
    size = f" (about {bytes_text(held.held_bytes * count // max(1, held.held_msgs))})"
    verb = "is" if count == 1 else "are"
    part = f"{count:,} of {all_of_them}"
    if count == held.held_msgs:
        part = "its only message" if count == 1 else f"all {all_of_them}"
    return f"{sure}{part}{size} {verb} removed for good"


def stream_edit_loss(
    before: Mapping[str, object], after: Mapping[str, object], held: StoredMessages
) -> Loss:
    """Return what an edit of a stream removes."""
    old, new = normal_stream(before), normal_stream(after)
    count, sure = _messages(old, new, held)
    gone = count is None or count > 0
    lines = [messages_gone(count, held, sure)] if gone else []
    if held.thins_later and held.excess_msgs != 0:
        lines.append(_later(new))
    further = (
        *_kept_for_ever(old, new),
        *_mirror_to_go(old, new),
        *_copies_to_go(old, new),
        *_consumers_to_go(old, new, held),
    )
    return Loss((*lines, *further), count)


def _later(new: Mapping[str, object]) -> str:
    """Return when a server removes what is over a first limit per subject, which it keeps now."""
    text = "messages above the limit per subject are removed later: "
    if is_on(new, "discard_new_per_subject"):
        return text + "when the server restarts"
    return text + "with the next message of the subject, or when the server restarts"


def ages(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit makes messages too old that were not."""
    return _lowered(before, after, "max_age")


def thins(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit lowers how many messages of a subject are kept."""
    return _lowered(before, after, "max_msgs_per_subject")


def limits_subjects_first(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit limits the messages of a subject for the first time."""
    return thins(before, after) and number_at(before, "max_msgs_per_subject") <= 0


def settles(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Return whether an edit keeps only what a consumer still wants."""
    old, new = text_at(before, "retention"), text_at(after, "retention")
    return new == "interest" and old != "interest"


def _lowered(before: Mapping[str, object], after: Mapping[str, object], path: str) -> bool:
    old, new = number_at(before, path), number_at(after, path)
    return new > 0 and (old <= 0 or new < old)


def _messages(
    old: Mapping[str, object], new: Mapping[str, object], held: StoredMessages
) -> tuple[int | None, str]:
    """Return how many messages are removed, and how exact that is: exact, `about` or `at most`."""
    found = list(_reasons(old, new, held))
    if any(count is None for count, _, _ in found):
        return None, ""
    real = [(count, sure, kind) for count, sure, kind in found if count]
    if not real:
        return 0, ""
    # The oldest go first, whatever limit asks for it; what a subject loses may be among them.
    oldest = max((count for count, _, kind in real if kind == "oldest"), default=0)
    other = sum(count for count, _, kind in real if kind != "oldest")
    most = min(held.held_msgs, oldest + other)
    mixed = bool(oldest and other) or sum(kind != "oldest" for _, _, kind in real) > 1
    return most, "at most " if mixed else next((s for c, s, _ in real if c == most), "")


def _reasons(
    old: Mapping[str, object], new: Mapping[str, object], held: StoredMessages
) -> Iterator[tuple[int | None, str, str]]:
    """Yield count, exactness and which messages, for each limit that removes some."""
    limited = ("discard", "max_msgs", "max_bytes")
    # What discards new messages keeps the old ones, also above a limit.
    if text_at(new, "discard") != "new" and any(old.get(p) != new.get(p) for p in limited):
        most_msgs, most_bytes = number_at(new, "max_msgs"), number_at(new, "max_bytes")
        if most_msgs > 0:
            yield max(0, held.held_msgs - most_msgs), "", "oldest"
        if 0 < most_bytes < held.held_bytes:
            over = (held.held_bytes - most_bytes) * held.held_msgs
            yield -(-over // held.held_bytes), "about ", "oldest"
    if ages(old, new):
        yield held.older_msgs, "at most " if held.has_gaps else "", "oldest"
    if thins(old, new):
        yield held.excess_msgs, "", "of a subject"
    if settles(old, new):
        yield held.settled_msgs, "at most ", "settled"


_FOR_EVER = {
    "sealed": "the stream stays sealed for ever",
    "deny_delete": "the messages of the stream can never be deleted",
    "deny_purge": "the stream can never be purged",
}


def _kept_for_ever(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    for path, text in _FOR_EVER.items():
        # The server denies both by itself for what is sealed.
        implied = path != "sealed" and is_on(new, "sealed")
        if is_on(new, path) and not is_on(old, path) and not implied:
            yield f"{text}: this cannot be undone"


def _mirror_to_go(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    if read(old, "mirror") and not read(new, "mirror"):
        origin = text_at(old, "mirror.name")
        yield f"it stops mirroring {origin}, and cannot become its mirror again"


def _copies_to_go(old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    before, after = (max(1, int(number_at(config, "num_replicas"))) for config in (old, new))
    if after < before:
        gone = f"{before - after} of {before} copies"
        verb = "is" if before - after == 1 else "are"
        if after == 1:
            yield f"{gone} {verb} removed: one server then has the only copy"
        else:
            yield f"{gone} {verb} removed, {after} are left"


def _consumers_to_go(
    old: Mapping[str, object], new: Mapping[str, object], held: StoredMessages
) -> Iterator[str]:
    path = "consumer_limits.inactive_threshold"
    if _lowered(old, new, path) and held.unlimited_consumers_count:
        after = duration_text(number_at(new, path) / 1e9)
        several = counted(held.unlimited_consumers_count, "consumer")
        yield f"{several} without a threshold may be deleted once unused for {after}"


def consumer_edit_loss(
    before: Mapping[str, object],
    after: Mapping[str, object],
    stream: Mapping[str, object],
    wanted_msgs: int,
) -> Loss:
    """Return what an edit of a consumer removes.

    `wanted_msgs` are those it has not settled: a stream that keeps what is wanted drops them.
    """
    old, new = normal_consumer(before), normal_consumer(after)
    interest = text_at(stream, "retention") == "interest"
    lines, most = [], 0
    if _lowered(old, new, "inactive_threshold"):
        unused = duration_text(number_at(new, "inactive_threshold") / 1e9)
        lines.append(f"the consumer is deleted once it is unused for {unused}")
        most = wanted_msgs if interest else 0
    if interest and _filters(old) != _filters(new):
        most = wanted_msgs
    if most:
        lines.append(
            f"at most {counted(most, 'message')} that no other consumer needs are removed for good"
        )
    return Loss(tuple(lines), most)


def _filters(config: Mapping[str, object]) -> tuple[str, ...]:
    several = strings_at(config, "filter_subjects")
    single = read(config, "filter_subject")
    return tuple(sorted(several)) or ((str(single),) if single else ())
