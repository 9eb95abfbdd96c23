"""The fields of a message to send, and the command they mean."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.errors import UsageError
from natstui.model.config_field import Field
from natstui.model.config_text import parsed
from natstui.model.send import PublishMessage, RequestReply

PUBLISH_FIELDS = (
    Field("subject", "Subject", "subject", "", "Where to."),
    Field("payload", "Payload", "text", "", "As text; a message sent again keeps its bytes."),
    Field("headers", "Headers", "metadata", "", "Pairs key=value, separated by commas."),
    Field("message_id", "Nats-Msg-Id", "text", "", "A second one with this is a duplicate."),
    Field("ttl", "Nats-TTL", "text", "", "How long it is kept, where message TTL is allowed."),
    Field("last_seq", "Expect last seq", "count", "", "Refused unless the stream ends there."),
    Field("subject_seq", "Expect subject seq", "count", "", "The same for the subject."),
    Field(
        "kind", "Wait for", "choice", "", "A stream's acknowledgement, or a reply.",
        default="stream", choices=("stream", "request"),
    ),
)  # fmt: skip

_FIELD = {field.path: field for field in PUBLISH_FIELDS}


def command_of(
    number: int, texts: Mapping[str, str], payload_base64: str, confirmed: str | None
) -> PublishMessage | RequestReply:
    """Return the command; raises UsageError with a sentence."""
    try:
        values = {path: parsed(_FIELD[path], text) for path, text in texts.items() if text}
    except ValueError as error:
        raise UsageError(str(error)) from error
    subject = values.get("subject")
    if not isinstance(subject, str):
        raise UsageError("Subject: write where to publish")
    pairs = values.get("headers")
    headers = tuple((str(k), str(v)) for k, v in pairs.items()) if isinstance(pairs, dict) else ()
    if texts.get("kind") == "request":
        return RequestReply(number, subject, payload_base64, headers, confirmed=confirmed)
    return PublishMessage(
        number,
        subject,
        payload_base64,
        headers,
        texts.get("message_id") or None,
        texts.get("ttl") or None,
        _whole(values.get("last_seq")),
        _whole(values.get("subject_seq")),
        confirmed,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
