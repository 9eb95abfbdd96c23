"""Texts that explain a configuration: its behaviour, empty fields, typed values, and its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.consumer_fields import CONSUMER_FIELD
from natstui.model.assets.differences import AssetKind, normalize
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
from natstui.model.assets.stream_fields import STREAM_FIELD
from natstui.model.assets.text import exact_bytes, format_field, parse_field
from natstui.units import bytes_text, counted, parse_duration_ns, parse_moment

FILE_MESSAGE_OVERHEAD_BYTES = 30
"""Overhead of a message in a file: length, sequence, time, subject length and checksum."""
FILE_HEADER_OVERHEAD_BYTES = 4
"""Additional overhead in a file of a message with headers."""
MEMORY_MESSAGE_OVERHEAD_BYTES = 16
_EMPTY_VALUES: tuple[object, ...] = (None, "", 0, -1, [], ())
_UNITS_NS = (
    (86_400_000_000_000, "day"), (3_600_000_000_000, "hour"), (60_000_000_000, "minute"),
    (1_000_000_000, "second"), (1_000_000, "millisecond"), (1_000, "microsecond"),
    (1, "nanosecond"),
)  # fmt: skip


def empty_text(field: Field, completed: Mapping[str, object]) -> str:
    """Return the effect of an empty field; `completed` is the configuration of the server."""
    value = read_field(completed, field)
    if field.absent and value in _EMPTY_VALUES:
        return field.absent
    return format_field(field, value)


def behaviour_text(kind: AssetKind, stream: str, config: Mapping[str, object]) -> str:
    """Return a sentence about the behaviour of a stream or consumer with a configuration."""
    completed = normalize(kind, config)
    parts = (
        _stream_clauses(completed) if kind == "stream" else _consumer_clauses(stream, completed)
    )
    text = "; ".join(parts)
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
    replicas = number_at(config, "num_replicas")
    storage_text = "in the memory" if text_at(config, "storage") == "memory" else "on disk"
    yield (
        f"{storage_text} of {replicas} servers"
        if replicas > 1
        else f"{storage_text} of one server"
    )


def _origin_clauses(config: Config) -> Iterator[str]:
    mirrors = [
        text_at(upstream, "name")
        for upstream in objects_at({"all": [config.get("mirror")]}, "all")
    ]
    if mirrors:
        yield f"is a copy of {mirrors[0] or '?'}"
        return
    subjects = ", ".join(strings_at(config, "subjects"))
    if subjects:
        yield f"stores {subjects}"
    sources = " and ".join(
        text_at(upstream, "name") or "?" for upstream in objects_at(config, "sources")
    )
    if sources:
        yield f"copies {sources}"


def _age_clauses(config: Config) -> Iterator[str]:
    """Yield clauses about the time when a message is deleted by acks or max age."""
    retention, max_age = text_at(config, "retention"), _limit_text(STREAM_FIELD["max_age"], config)
    if retention == "workqueue":
        yield "until one consumer has acknowledged it"
    elif retention == "interest":
        yield "until every consumer whose filter matches has acknowledged it"
    if max_age:
        yield f"for {max_age}" if retention == "limits" else f"or is {max_age} old"
    elif retention == "limits" and not list(_size_clauses(config)):
        yield "for ever"


def _size_clauses(config: Config) -> Iterator[str]:
    """Yield clauses about size limits, and their effect."""
    refuses = text_at(config, "discard") == "new"
    count = number_at(config, "max_msgs")
    limits = [counted(f"{count:,}", "message")] if count > 0 else []
    size = _limit_text(STREAM_FIELD["max_bytes"], config)
    limits += [size] if size else []
    if limits:
        effect_text = "new ones are refused" if refuses else "the oldest are removed"
        yield f"at most {' and '.join(limits)} in total, then {effect_text}"
    subject_msgs = number_at(config, "max_msgs_per_subject")
    if subject_msgs > 0:
        is_refusing = refuses and is_on(config, "discard_new_per_subject")
        last_text = "only the last" if subject_msgs == 1 else f"only the last {subject_msgs:,}"
        yield (
            f"at most {subject_msgs:,} of each subject, then refuses"
            if is_refusing
            else (f"{last_text} of each subject")
        )


_START_TEXTS = {
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
        f"delivers {filters or 'everything'} of {stream} {_start_text(config)}, "
        f"to {subject or 'whoever pulls'}{group_text}"
    )
    yield from _ack_clauses(config)
    inactive_text = _limit_text(CONSUMER_FIELD["inactive_threshold"], config)
    if inactive_text:
        state_text = "is" if text_at(config, "durable_name") else "is ephemeral:"
        verb = "subscribes" if subject else "pulls"
        yield f"{state_text} deleted when no client {verb} for {inactive_text}"


def _start_text(config: Config) -> str:
    policy = text_at(config, "deliver_policy")
    if policy == "by_start_sequence":
        return f"from sequence {number_at(config, 'opt_start_seq'):,} on"
    if policy == "by_start_time":
        return f"from {text_at(config, 'opt_start_time') or '?'} on"
    return _START_TEXTS.get(policy, policy)


def _ack_clauses(config: Config) -> Iterator[str]:
    policy = text_at(config, "ack_policy")
    if policy == "none":
        yield "each once, acknowledged or not"
        return
    pauses = config.get("backoff")
    waits_ns = pauses if isinstance(pauses, Sequence) and pauses else [config.get("ack_wait")]
    field = CONSUMER_FIELD["ack_wait"]
    waits_text = ", then ".join(format_field(field, wait) for wait in waits_ns)
    max_deliver = number_at(config, "max_deliver")
    if max_deliver == 1:
        yield "each once, also when it is not acknowledged"
    else:
        times = (
            f"at most {max_deliver:,} times in total"
            if max_deliver > 0
            else "until it is acknowledged"
        )
        yield f"each again after {waits_text} without an acknowledgement, {times}"
    pending_text = _limit_text(CONSUMER_FIELD["max_ack_pending"], config)
    if pending_text:
        verb = "is" if pending_text == "1" else "are"
        yield f"waits while {pending_text} {verb} unacknowledged"
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
    fixed_bytes = MEMORY_MESSAGE_OVERHEAD_BYTES
    if storage != "memory":
        fixed_bytes = FILE_MESSAGE_OVERHEAD_BYTES + (
            FILE_HEADER_OVERHEAD_BYTES if header_bytes else 0
        )
    return messages_count * (fixed_bytes + subject_bytes + payload_bytes + header_bytes)


def size_estimate_text(
    config: Mapping[str, object], messages_count: int, payload_bytes: int
) -> str:
    """Return the size of messages as text, with overhead and all replicas.

    `payload_bytes` is the size of one payload.
    """
    subject_bytes = max((len(text) for text in strings_at(config, "subjects")), default=10)
    replica_bytes = stored_bytes(
        messages_count, payload_bytes, subject_bytes, storage=text_at(config, "storage")
    )
    replicas = max(1, number_at(config, "num_replicas"))
    storage_text = "of memory" if text_at(config, "storage") == "memory" else "on disk"
    overhead_bytes = replica_bytes - messages_count * payload_bytes
    text = (
        f"{counted(f'{messages_count:,}', 'message')} of {exact_bytes(payload_bytes)} take "
        f"{bytes_text(replica_bytes)}"
    )
    times = (
        f" × {replicas} replicas = {bytes_text(replica_bytes * replicas)}" if replicas > 1 else ""
    )
    return f"{text}{times} {storage_text}; {bytes_text(overhead_bytes)} of it is overhead"


def meaning_of(field: Field, text: str) -> str:
    """Return the meaning of a typed text for a field; empty if obvious or invalid."""
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
    is_plain = text.strip() == str(value)
    if field.kind == "bytes":
        return "" if is_plain and value < 1024 else counted(f"{value:,}", "byte")
    return "" if is_plain else f"{value:,}"


def duration_meaning(text: str) -> str:
    """Return the meaning of a duration; empty for another text."""
    try:
        return exact_duration_text(parse_duration_ns(text))
    except ValueError:
        return ""


def time_meaning(text: str) -> str:
    """Return the local time of `10m ago` or of a written time; empty for another text."""
    try:
        return parse_moment(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return ""


def exact_duration_text(duration_ns: int) -> str:
    """Return the exact duration as text: `1 day 3 hours`."""
    parts = []
    for size_ns, noun in _UNITS_NS:
        amount, duration_ns = divmod(duration_ns, size_ns)
        parts += [counted(amount, noun)] if amount else []
    return " ".join(parts) or "0"
