"""Texts that explain a configuration: its behaviour, empty fields, typed values, and its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.consumer_fields import CONSUMER_FIELD_BY_PATH
from natstui.model.assets.differences import AssetKind, normalize_config
from natstui.model.assets.fields import (
    Config,
    Field,
    is_on,
    number_at,
    objects_at,
    read_field,
    strings_at,
    text_at,
)
from natstui.model.assets.stream_fields import STREAM_FIELD_BY_PATH
from natstui.model.assets.text import exact_bytes, format_field, parse_field
from natstui.units import bytes_text, counted, parse_duration_ns, parse_moment

FILE_MESSAGE_OVERHEAD_BYTES = 30
"""Overhead of a message in a file: length, sequence, time, subject length and checksum."""
FILE_HEADER_OVERHEAD_BYTES = 4
"""Additional overhead in a file of a message with headers."""
MEMORY_MESSAGE_OVERHEAD_BYTES = 16
_EMPTY_VALUES: tuple[object, ...] = (None, "", 0, -1, [], ())
_UNIT_SIZES_NS = (
    (86_400_000_000_000, "day"), (3_600_000_000_000, "hour"), (60_000_000_000, "minute"),
    (1_000_000_000, "second"), (1_000_000, "millisecond"), (1_000, "microsecond"),
    (1, "nanosecond"),
)  # fmt: skip


def empty_text(field: Field, server_config: Mapping[str, object]) -> str:
    """Return the effect of an empty field, as text.

    `server_config` is the configuration as the server would store it.
    """
    value = read_field(server_config, field)
    if field.absent_text and value in _EMPTY_VALUES:
        return field.absent_text
    return format_field(field, value)


def behaviour_text(kind: AssetKind, stream: str, config: Mapping[str, object]) -> str:
    """Return a sentence about the behaviour of a stream or consumer with a configuration."""
    server_config = normalize_config(kind, config)
    clauses = (
        _stream_clauses(server_config)
        if kind == "stream"
        else _consumer_clauses(stream, server_config)
    )
    text = "; ".join(clauses)
    return text[0].upper() + text[1:] + "."


def _limit_text(field: Field, config: Config) -> str:
    """Return a limit as text, a count with thousands separators; empty without a limit."""
    value = read_field(config, field)
    if not isinstance(value, int) or value <= 0:
        return ""
    return f"{value:,}" if field.kind == "count" else format_field(field, value)


def _stream_clauses(config: Config) -> Iterator[str]:
    if is_on(config, "sealed"):
        yield "keeps its messages for ever: nothing can be added or removed"
    else:
        yield from _origin_clauses(config)
        yield ", ".join(
            [" ".join(["keeps each message", *_age_clauses(config)]), *_size_clauses(config)]
        )
    replicas_count = number_at(config, "num_replicas")
    storage_text = "in the memory" if text_at(config, "storage") == "memory" else "on disk"
    yield (
        f"{storage_text} of {replicas_count} servers"
        if replicas_count > 1
        else f"{storage_text} of one server"
    )


def _origin_clauses(config: Config) -> Iterator[str]:
    mirror_names = [
        text_at(upstream, "name")
        for upstream in objects_at({"all": [config.get("mirror")]}, "all")
    ]
    if mirror_names:
        yield f"is a copy of {mirror_names[0] or '?'}"
        return
    subjects_text = ", ".join(strings_at(config, "subjects"))
    if subjects_text:
        yield f"stores {subjects_text}"
    sources_text = " and ".join(
        text_at(upstream, "name") or "?" for upstream in objects_at(config, "sources")
    )
    if sources_text:
        yield f"copies {sources_text}"


def _age_clauses(config: Config) -> Iterator[str]:
    """Yield clauses about the time when a message is deleted by acks or max age."""
    retention, max_age_text = (
        text_at(config, "retention"),
        _limit_text(STREAM_FIELD_BY_PATH["max_age"], config),
    )
    if retention == "workqueue":
        yield "until one consumer has acknowledged it"
    elif retention == "interest":
        yield "until every consumer whose filter matches has acknowledged it"
    if max_age_text:
        yield f"for {max_age_text}" if retention == "limits" else f"or is {max_age_text} old"
    elif retention == "limits" and not list(_size_clauses(config)):
        yield "for ever"


def _size_clauses(config: Config) -> Iterator[str]:
    """Yield clauses about size limits, and their effect."""
    discards_new = text_at(config, "discard") == "new"
    max_msgs = number_at(config, "max_msgs")
    limit_texts = [counted(f"{max_msgs:,}", "message")] if max_msgs > 0 else []
    max_bytes_text = _limit_text(STREAM_FIELD_BY_PATH["max_bytes"], config)
    limit_texts += [max_bytes_text] if max_bytes_text else []
    if limit_texts:
        effect_text = "new ones are refused" if discards_new else "the oldest are removed"
        yield f"at most {' and '.join(limit_texts)} in total, then {effect_text}"
    max_msgs_per_subject = number_at(config, "max_msgs_per_subject")
    if max_msgs_per_subject > 0:
        refuses_new_messages = discards_new and is_on(config, "discard_new_per_subject")
        kept_text = (
            "only the last"
            if max_msgs_per_subject == 1
            else f"only the last {max_msgs_per_subject:,}"
        )
        yield (
            f"at most {max_msgs_per_subject:,} of each subject, then refuses"
            if refuses_new_messages
            else (f"{kept_text} of each subject")
        )


_START_TEXT_BY_DELIVER_POLICY = {
    "all": "from the first message",
    "new": "from the next message",
    "last": "from the last message",
    "last_per_subject": "from the last message of each subject",
}


def _consumer_clauses(stream: str, config: Config) -> Iterator[str]:
    filters = ", ".join(strings_at(config, "filter_subjects"))
    subject, group = text_at(config, "deliver_subject"), text_at(config, "deliver_group")
    group_text = f", shared by the group {group}" if subject and group else ""
    yield (
        f"delivers {filters or 'everything'} of {stream} {_start_position_text(config)}, "
        f"to {subject or 'whoever pulls'}{group_text}"
    )
    yield from _ack_clauses(config)
    inactive_threshold_text = _limit_text(CONSUMER_FIELD_BY_PATH["inactive_threshold"], config)
    if inactive_threshold_text:
        deletion_text = "is" if text_at(config, "durable_name") else "is ephemeral:"
        verb = "subscribes" if subject else "pulls"
        yield f"{deletion_text} deleted when no client {verb} for {inactive_threshold_text}"


def _start_position_text(config: Config) -> str:
    policy = text_at(config, "deliver_policy")
    if policy == "by_start_sequence":
        return f"from sequence {number_at(config, 'opt_start_seq'):,} on"
    if policy == "by_start_time":
        return f"from {text_at(config, 'opt_start_time') or '?'} on"
    return _START_TEXT_BY_DELIVER_POLICY.get(policy, policy)


def _ack_clauses(config: Config) -> Iterator[str]:
    policy = text_at(config, "ack_policy")
    if policy == "none":
        yield "each once, acknowledged or not"
        return
    backoff_ns = config.get("backoff")
    ack_waits_ns = (
        backoff_ns if isinstance(backoff_ns, Sequence) and backoff_ns else [config.get("ack_wait")]
    )
    field = CONSUMER_FIELD_BY_PATH["ack_wait"]
    ack_waits_text = ", then ".join(
        format_field(field, ack_wait_ns) for ack_wait_ns in ack_waits_ns
    )
    max_deliver = number_at(config, "max_deliver")
    if max_deliver == 1:
        yield "each once, also when it is not acknowledged"
    else:
        deliveries_text = (
            f"at most {max_deliver:,} times in total"
            if max_deliver > 0
            else "until it is acknowledged"
        )
        yield f"each again after {ack_waits_text} without an acknowledgement, {deliveries_text}"
    max_ack_pending_text = _limit_text(CONSUMER_FIELD_BY_PATH["max_ack_pending"], config)
    if max_ack_pending_text:
        verb = "is" if max_ack_pending_text == "1" else "are"
        yield f"waits while {max_ack_pending_text} {verb} unacknowledged"
    if policy == "all":
        yield "an acknowledgement covers all earlier messages"


def stored_bytes(
    messages_count: int,
    payload_bytes: int,
    subject_bytes: int,
    header_bytes: int = 0,
    *,
    storage: str = "file",
) -> int:
    """Return the bytes of messages in one replica, as `state.bytes` counts them.

    The sizes are those of one message; `storage` is `file` or `memory`.
    """
    overhead_per_message_bytes = MEMORY_MESSAGE_OVERHEAD_BYTES
    if storage != "memory":
        overhead_per_message_bytes = FILE_MESSAGE_OVERHEAD_BYTES + (
            FILE_HEADER_OVERHEAD_BYTES if header_bytes else 0
        )
    return messages_count * (
        overhead_per_message_bytes + subject_bytes + payload_bytes + header_bytes
    )


def size_estimate_text(
    config: Mapping[str, object], messages_count: int, payload_bytes: int
) -> str:
    """Return the stored size of messages as text, with overhead and all replicas.

    `payload_bytes` is the size of one payload.
    """
    subject_bytes = max((len(text) for text in strings_at(config, "subjects")), default=10)
    replica_bytes = stored_bytes(
        messages_count, payload_bytes, subject_bytes, storage=text_at(config, "storage")
    )
    replicas_count = max(1, number_at(config, "num_replicas"))
    storage_text = "of memory" if text_at(config, "storage") == "memory" else "on disk"
    overhead_bytes = replica_bytes - messages_count * payload_bytes
    text = (
        f"{counted(f'{messages_count:,}', 'message')} of {exact_bytes(payload_bytes)} take "
        f"{bytes_text(replica_bytes)}"
    )
    replicas_text = (
        f" × {replicas_count} replicas = {bytes_text(replica_bytes * replicas_count)}"
        if replicas_count > 1
        else ""
    )
    return f"{text}{replicas_text} {storage_text}; {bytes_text(overhead_bytes)} of it is overhead"


def meaning_of(field: Field, text: str) -> str:
    """Return what a typed text means for a field, as text; empty if obvious or invalid."""
    if field.kind not in ("duration", "durations", "bytes", "count", "time"):
        return ""
    try:
        value = parse_field(field, text)
    except ValueError:
        return ""  # the form shows the error
    if isinstance(value, list):
        return ", ".join(exact_duration_text(duration_ns) for duration_ns in value)
    if isinstance(value, str):
        return "" if value == text.strip() else value
    if not isinstance(value, int) or value <= 0:
        return ""
    if field.kind == "duration":
        return exact_duration_text(value)
    is_plain_number = text.strip() == str(value)
    if field.kind == "bytes":
        return "" if is_plain_number and value < 1024 else counted(f"{value:,}", "byte")
    return "" if is_plain_number else f"{value:,}"


def duration_meaning(text: str) -> str:
    """Return a typed duration in full, as `1 day 3 hours`; empty for another text."""
    try:
        return exact_duration_text(parse_duration_ns(text))
    except ValueError:
        return ""


def time_meaning(text: str) -> str:
    """Return the local time of a text such as `10m ago` or an ISO time; empty for another text."""
    try:
        return parse_moment(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return ""


def exact_duration_text(duration_ns: int) -> str:
    """Return the exact duration as text: `1 day 3 hours`."""
    unit_texts = []
    for unit_ns, unit_noun in _UNIT_SIZES_NS:
        units_count, duration_ns = divmod(duration_ns, unit_ns)
        unit_texts += [counted(units_count, unit_noun)] if units_count else []
    return " ".join(unit_texts) or "0"
