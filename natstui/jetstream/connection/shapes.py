"""The documented shapes of JetStream API replies, checked before a reply is used.

A reply with another shape raises one error here, instead of failing where its fields are used.
Unknown fields are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any

import msgspec

from natstui.clean import clean_line
from natstui.errors import OutcomeUnknown, RequestFailed
from natstui.jetstream.connection.decode.asset import AnyCount, Time
from natstui.jetstream.connection.decode.consumers import ConsumerShape
from natstui.jetstream.connection.decode.streams import StreamShape, StreamStateShape
from natstui.jetstream.connection.replies import read
from natstui.model.assets.fields import Field, FieldKind
from natstui.model.assets.subjects import contains

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Upstream(msgspec.Struct):
    name: str
    opt_start_seq: AnyCount = 0
    opt_start_time: str | None = None
    filter_subject: str = ""
    external: dict[str, str] | None = None
    subject_transforms: list[dict[str, str]] | None = None


_TYPES_BY_KIND: dict[FieldKind, Any] = {
    "text": str, "subject": str, "choice": str, "time": str | None, "switch": bool,
    "subjects": list[str] | None, "words": list[str] | None,
    "count": int, "bytes": _Int64, "duration": _Int64, "durations": list[_Int64] | None,
    "metadata": dict[str, str] | None, "source": _Upstream | None,
    "sources": list[_Upstream] | None,
}  # fmt: skip


def _make_struct(name: str, fields: Iterable[Field], needs_name: bool) -> type[msgspec.Struct]:
    """Return the struct type of a configuration: fields are optional, except a needed name."""
    types_by_key, type_by_key_by_group = dict[str, Any](), dict[str, dict[str, Any]]()
    for field in fields:
        if field.kind == "threshold":
            continue
        group, _, key = field.path.partition(".")
        field_types = type_by_key_by_group.setdefault(group, {}) if key else types_by_key
        field_types[key or group] = _TYPES_BY_KIND[field.kind]
    for group, group_types in type_by_key_by_group.items():
        group_fields = [(key, key_type, None) for key, key_type in group_types.items()]
        types_by_key[group] = msgspec.defstruct(group, group_fields) | None
    required_fields = [("name", types_by_key.pop("name"))] if needs_name else []
    return msgspec.defstruct(
        name, [*required_fields, *((key, types_by_key[key], None) for key in types_by_key)]
    )


class _StoredMessage(msgspec.Struct):
    subject: str
    seq: AnyCount
    time: Time
    hdrs: bytes = b""
    data: bytes | None = None


class _MessageReply(msgspec.Struct):
    message: _StoredMessage


class _NamesPage(msgspec.Struct):
    streams: list[str] | None = None
    consumers: list[str] | None = None
    total: AnyCount = 0


class _SuccessReply(msgspec.Struct):
    success: bool | None = None


class _PurgeReply(_SuccessReply):
    purged: AnyCount | None = None


class _PauseReply(msgspec.Struct):
    paused: bool | None = None
    pause_until: Time | None = None


class _ResetReply(msgspec.Struct):
    reset_seq: AnyCount | None = None


class _TypedReply(msgspec.Struct):
    """A reply of which only the field `type` is checked."""

    type: str = ""


class _RestoreReply(msgspec.Struct):
    deliver_subject: str


class _AnyReply(msgspec.Struct):
    """A reply with any fields."""


@cache
def _reply_types_by_verb() -> dict[str, Any]:
    # Imported here: only requests for streams or consumers need the tables of options.
    from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
    from natstui.model.assets.stream_fields import STREAM_FIELDS

    config_field = ("config", _make_struct("StreamConfig", STREAM_FIELDS, needs_name=True))
    snapshot_type = msgspec.defstruct("Snapshot", [config_field, ("state", StreamStateShape)])
    stream_type = msgspec.defstruct("Stream", [config_field], bases=(StreamShape,), kw_only=True)
    # A single filter has no row in the table of options: forms and flags write the list.
    filter_field = Field("filter_subject", "Filter", "subject", "Consumer", "")
    consumer_config = _make_struct(
        "ConsumerConfig", (*CONSUMER_FIELDS, filter_field), needs_name=False
    )
    consumer_type = msgspec.defstruct(
        "Consumer", [("config", consumer_config)], bases=(ConsumerShape,), kw_only=True
    )
    # Rows that the server could not reach, and rows that it refuses to run with the reason.
    list_end_fields = [
        ("missing", list[str] | None, None),
        ("offline", dict[str, str] | None, None),
        ("total", AnyCount, 0),
    ]
    stream_list_type = msgspec.defstruct(
        "Streams",
        [("streams", list[stream_type] | None, None), *list_end_fields],  # type: ignore[valid-type]
    )
    consumer_list_type = msgspec.defstruct(
        "Consumers",
        [("consumers", list[consumer_type] | None, None), *list_end_fields],  # type: ignore[valid-type]
    )
    return {
        "STREAM.INFO": stream_type, "STREAM.CREATE": stream_type, "STREAM.UPDATE": stream_type,
        "STREAM.LIST": stream_list_type, "CONSUMER.LIST": consumer_list_type,
        "CONSUMER.INFO": consumer_type, "CONSUMER.CREATE": consumer_type,
        "CONSUMER.DURABLE": consumer_type,
        "STREAM.NAMES": _NamesPage, "CONSUMER.NAMES": _NamesPage, "STREAM.MSG.GET": _MessageReply,
        "STREAM.SNAPSHOT": snapshot_type, "STREAM.RESTORE": _RestoreReply,
        "STREAM.PURGE": _PurgeReply, "STREAM.DELETE": _SuccessReply,
        "CONSUMER.DELETE": _SuccessReply, "STREAM.MSG.DELETE": _SuccessReply,
        "STREAM.LEADER": _SuccessReply, "CONSUMER.LEADER": _SuccessReply,
        "META.LEADER": _SuccessReply, "STREAM.PEER": _SuccessReply,
        "SERVER.REMOVE": _SuccessReply, "CONSUMER.PAUSE": _PauseReply,
        "CONSUMER.RESET": _ResetReply, "CONSUMER.UNPIN": _TypedReply,
    }  # fmt: skip


_VERB_WITHOUT_NAMES_PATTERN = re.compile(r"(?:STREAM\.MSG|STREAM|CONSUMER|META|SERVER)\.[A-Z]+")


def check_shape(verb: str, data: bytes, body: Mapping[str, Any] | None = None) -> None:
    """Raise RequestFailed if a reply to `verb` is no JSON of the documented shape.

    It is also raised for a message that `body` does not request, and for an INFO of another stream
    or consumer. Raises OutcomeUnknown for a reply to a change that does not show whether it was
    done, or that is about another stream or consumer.
    """
    match = _VERB_WITHOUT_NAMES_PATTERN.match(verb)
    reply_type = _reply_types_by_verb().get(match[0] if match else "", _AnyReply)
    reply: Any = read(verb, data, reply_type)
    match reply:
        case _SuccessReply(success=False):
            raise RequestFailed(f"{verb}: the server did not do it, and gave no reason")
        case (
            _SuccessReply(success=None)
            | _PurgeReply(purged=None)
            | _PauseReply(paused=None)
            | _ResetReply(reset_seq=None)
            | _TypedReply(type="")
        ):
            raise OutcomeUnknown(f"{verb}: the server's reply does not say whether it was done")
        case _MessageReply():
            _check_message(verb, reply.message, body or {})
    # Unknown fields are decoded too, so that no number or nesting in them fails later.
    read(verb, data, Any)
    if match and match[0] in _WRITE_VERBS and body:
        _check_name(verb, reply, body)
    if match and match[0] == "STREAM.INFO":
        check_read_name(verb, reply.config.name)
    if match and match[0] == "CONSUMER.INFO":
        check_read_name(verb, f"{reply.stream_name}.{reply.name}")


def check_read_name(verb: str, replied_name: str) -> None:
    """Raise RequestFailed if a reply is about another stream or consumer than requested."""
    if verb.split(".", 2)[2] != replied_name:
        raise RequestFailed(f"{verb}: the server's reply is about {clean_line(replied_name)!r}")


_WRITE_VERBS = ("STREAM.CREATE", "STREAM.UPDATE", "CONSUMER.CREATE", "CONSUMER.DURABLE")


def _check_name(verb: str, reply: Any, request_body: Mapping[str, Any]) -> None:
    """Raise OutcomeUnknown if a reply is about another stream or consumer than the request."""
    if verb.startswith("STREAM"):
        names = [(request_body.get("name"), reply.config.name)]
    else:
        config = request_body.get("config") or {}
        name = config.get("name") or config.get("durable_name")
        names = [(request_body.get("stream_name"), reply.stream_name), (name, reply.name)]
    for name, replied_name in names:
        if name and name != replied_name:
            raise OutcomeUnknown(
                f"{verb}: the server's reply is about {clean_line(replied_name)!r}, "
                f"not about {name!r}"
            )


def _check_message(verb: str, message: _StoredMessage, request_body: Mapping[str, Any]) -> None:
    next_subject, last_subject = request_body.get("next_by_subj"), request_body.get("last_by_subj")
    subject_filter = next_subject or last_subject
    if subject_filter and not contains(subject_filter, message.subject):
        raise RequestFailed(f"{verb}: the server replied with a message of another subject")
    seq = request_body.get("seq")
    if seq and (message.seq < seq if next_subject else message.seq != seq):
        raise RequestFailed(
            f"{verb}: the server replied with message {message.seq}, not with {seq}"
        )
