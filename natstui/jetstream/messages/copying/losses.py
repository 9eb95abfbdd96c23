"""Describes the messages that a copy deletes at its target, because of the target's limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from natstui.errors import PermissionDenied
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.storing import (
    check_domain,
    consumer_filters,
    describe_bucket_changes,
)
from natstui.jetstream.connection.subject_counts import read_subject_counts
from natstui.jetstream.messages.copying.copy import CopyCounts, CopyPace, MessageCopy, count_copy
from natstui.model.assets.buckets import bucket_change_text
from natstui.model.assets.fields import strings_at, text_at
from natstui.model.assets.limits_loss import (
    MAX_MESSAGE_OVERHEAD_BYTES,
    SHORT_MAX_AGE_S,
    LimitedStream,
    PlannedMessages,
    RemovedMessages,
    max_age_s,
    stored_filters,
)
from natstui.model.assets.subjects import contains, has_wildcard, overlap
from natstui.units import counted, duration_text

_ASSUMED_HEADERS_BYTES = 256
"""Maximum size of a copy's headers: those of the message, and those that the copy adds."""
_BUCKET_SUBJECTS = ("$KV.>", "$O.>")
_MAP_PLACEHOLDER_PATTERN = re.compile(r"\$\d+|\{\{[^}]*\}\}")


async def describe_copy_loss(source: Client, target: Client, copy: MessageCopy) -> str | None:
    """Return clauses about the messages that a copy deletes at its target; None if there are none.

    If a stream of the target may drop messages, the messages to copy are counted first. If the
    limits may not be read, the clause says so. Raises what `count_copy` raises, and ActionRefusal
    if a stream of another domain would store the copies as well.
    """
    subjects = await _read_target_filters(source, copy)
    for subject in subjects:
        await check_domain(target, subject)
    try:
        limited_infos = [
            info
            async for info in _read_target_streams(target, copy.target.stream, subjects)
            if _may_drop(info, copy.pace)
        ]
    except PermissionDenied:
        target_text = copy.target.stream or "the target"
        return (
            f"messages of {target_text} may be removed: you have no permission to read its limits"
        )
    if not limited_infos:
        return None
    # A pipe can be read only once.
    is_pipe = copy.from_file is not None and not copy.from_file.is_file()
    counts = None if is_pipe else await count_copy(source, target, copy)
    loss_clauses = [
        await _describe_stream_loss(target, info, counts, copy.pace) for info in limited_infos
    ]
    return " and ".join(filter(None, loss_clauses)) or None


async def describe_changed_keys(source: Client, target: Client, copy: MessageCopy) -> str | None:
    """Return a sentence about the keys and objects that a copy changes in buckets of its target;
    None if there are none.

    If the subjects are unknown, the messages are read first. Raises the request errors.
    """
    subjects = await _read_target_filters(source, copy)
    are_subjects_known = all(subject.split(".")[0] not in ("*", ">") for subject in subjects)
    if are_subjects_known or not await describe_bucket_changes(target, _BUCKET_SUBJECTS):
        return await describe_bucket_changes(target, subjects)
    if copy.from_file is not None and not copy.from_file.is_file():
        # A pipe can be read only once.
        return await describe_bucket_changes(target, (*subjects, *_BUCKET_SUBJECTS))
    counts = await count_copy(source, target, copy)
    subjects = [subject for subject in counts.subjects if bucket_change_text(subject)]
    if len(subjects) > 1:
        subjects = [f"{'.'.join(subject.split('.')[:2])}.>" for subject in subjects]
    return await describe_bucket_changes(target, subjects)


def _may_drop(info: StreamRow, pace: CopyPace) -> bool:
    """Return whether a stream may drop copies, or other messages because of the copies."""
    config = info.read_config()
    age_s = max_age_s(config)
    return (
        LimitedStream(config, info.state).drops_messages
        or text_at(config, "retention") == "interest"
        or 0 < age_s <= SHORT_MAX_AGE_S
        or (age_s > 0 and pace.msgs_per_s is not None)
    )


async def _read_target_streams(
    target: Client, stream: str | None, subjects: list[str]
) -> AsyncIterator[StreamRow]:
    """Yield the INFO of each stream that may store copies."""
    if stream is not None:
        yield await target.stream_info(stream)
        return
    seen_names = set[str]()
    for subject in subjects:
        async for info in target.stream_rows({"subject": subject}):
            if info.name not in seen_names:
                seen_names.add(info.name)
                yield info


async def _read_target_filters(source: Client, copy: MessageCopy) -> list[str]:
    """Return filters that together match the subjects of all copies."""
    target_filters = [
        _MAP_PLACEHOLDER_PATTERN.sub("*", target) for _, target in copy.target.subject_maps
    ]
    # Messages that no mapping matches keep their subject.
    source_filters = await _read_source_filters(source, copy) or (">",)
    mapped_filters = [source_pattern for source_pattern, _ in copy.target.subject_maps]
    unmapped_filters = [
        source_filter
        for source_filter in source_filters
        if not any(contains(mapped_filter, source_filter) for mapped_filter in mapped_filters)
    ]
    return [*target_filters, *unmapped_filters]


async def _read_source_filters(source: Client, copy: MessageCopy) -> Sequence[str]:
    """Return filters that together match the subjects of all messages to copy; none if unknown."""
    if copy.selection is None or copy.selection.subjects:
        return () if copy.selection is None else copy.selection.subjects
    config = (await source.stream_info(copy.selection.request.stream)).read_config()
    # Messages of a mirror or source, or with a transformed subject, have other subjects.
    has_own_subjects = not any(
        config.get(key) for key in ("mirror", "sources", "subject_transform")
    )
    return strings_at(config, "subjects") if has_own_subjects else ()


async def _describe_stream_loss(
    target: Client, info: StreamRow, counts: CopyCounts | None, pace: CopyPace
) -> str | None:
    """Return a clause about what one stream drops because of the copies; None if nothing.

    Without `counts`, it is about the maximum that the stream may drop.
    """
    config, state = info.read_config(), info.state
    planned_messages = PlannedMessages(None)
    if counts is not None:
        filters = config.get("subjects") or ()
        added_msgs_by_subject = {
            subject: count
            for subject, count in counts.subjects.items()
            if any(overlap(subject, subject_filter) for subject_filter in filters)
        }
        if not added_msgs_by_subject:
            return None
        msgs = sum(added_msgs_by_subject.values())
        stored_bytes = counts.payload_bytes + msgs * (
            MAX_MESSAGE_OVERHEAD_BYTES + _ASSUMED_HEADERS_BYTES
        )
        planned_messages = PlannedMessages(
            msgs, stored_bytes, _count_by_stored_subject(config, added_msgs_by_subject)
        )
    parts = [_expiry_text(config, planned_messages, pace)]
    if text_at(config, "retention") == "interest":
        parts.append(
            await _interest_text(target, config["name"], planned_messages.by_subject_msgs)
        )
    if LimitedStream(config, state).drops_messages:
        subject_counts = await read_subject_counts(target, config["name"], ">")
        limited_stream = LimitedStream(
            config, state, subject_counts.msgs_by_subject, subject_counts.is_last
        )
        parts.append(_removed_text(config["name"], limited_stream.count_removed(planned_messages)))
    return " and ".join(filter(None, parts)) or None


def _count_by_stored_subject(
    config: dict[str, Any], added_msgs_by_subject: Mapping[str, int]
) -> Mapping[str, int] | None:
    """Return the number of copies by the subject under which a stream stores them, after its
    subject transform; None if these subjects are unknown.
    """
    msgs_by_stored_subject = Counter[str]()
    for subject, count in added_msgs_by_subject.items():
        (stored_subject,) = stored_filters(config, [subject])
        if has_wildcard(stored_subject):
            return None
        msgs_by_stored_subject[stored_subject] += count
    return msgs_by_stored_subject


def _expiry_text(
    config: dict[str, Any], planned_messages: PlannedMessages, pace: CopyPace
) -> str | None:
    """Return a clause that copies expire during the copy or soon after it; None if they do not."""
    age_s = max_age_s(config)
    duration_s = (planned_messages.added_msgs or 0) / pace.msgs_per_s if pace.msgs_per_s else 0.0
    if not age_s or age_s > max(SHORT_MAX_AGE_S, duration_s):
        return None
    return f"copies in {config['name']} expire after {duration_text(age_s)}, its max age"


async def _interest_text(
    target: Client, stream: str, added_msgs_by_subject: Mapping[str, int] | None
) -> str | None:
    """Return a clause about how many copies a stream with interest retention does not store, as no
    consumer filter matches them; None if it stores all.
    """
    reason = "it has interest retention, and"
    try:
        filters = await consumer_filters(target, stream)
    except PermissionDenied:
        return (
            f"{stream} may not store copies: {reason} you have no permission to read its consumers"
        )
    if added_msgs_by_subject is None:
        not_stored_text = None if filters else "all copies"
    else:
        msgs = sum(
            count for subject, count in added_msgs_by_subject.items()
            if not any(contains(subject_filter, subject) for subject_filter in filters)
        )  # fmt: skip
        not_stored_text = counted(f"{msgs:,}", "copy") if msgs else None
    if not_stored_text is None:
        return None
    return f"{not_stored_text} not stored by {stream}: {reason} no consumer of these subjects"


def _removed_text(stream: str, removed_messages: RemovedMessages) -> str | None:
    parts = []
    if removed_messages.existing_msgs:
        parts.append(
            f"up to {counted(f'{removed_messages.existing_msgs:,}', 'message')} of {stream}"
        )
    if removed_messages.published_msgs:
        parts.append(
            f"up to {counted(f'{removed_messages.published_msgs:,}', 'copy')} in {stream}"
        )
    return f"{' and '.join(parts)} are removed by its limits" if parts else None
