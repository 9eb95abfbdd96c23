"""Prints received messages: as text, as JSON, or raw."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msgspec import to_builtins

from natstui.clean import clean_json, clean_line, clean_text
from natstui.jetstream.messages.publish import make_message
from natstui.model.records.messages import StoredMessage
from natstui.units import bytes_text, local_text

if TYPE_CHECKING:
    from nats.aio.msg import Msg

OutputFormat = Literal["text", "json", "raw", "headers", "subjects"]


_FORMAT_BY_FLAG: dict[str, OutputFormat] = {
    "as_json": "json", "raw": "raw", "subjects_only": "subjects", "headers_only": "headers",
}  # fmt: skip


def output_format(flags: Mapping[str, Any]) -> OutputFormat:
    """Return the output format of the first output flag that is set; `text` if none is set."""
    return next(
        (format_name for flag, format_name in _FORMAT_BY_FLAG.items() if flags.get(flag)), "text"
    )


@dataclass
class MessagePrinter:
    """Writes messages to stdout in one format, each at once, and counts them."""

    output_format: OutputFormat
    printed_count: int = 0

    def write(self, msg: Msg) -> None:
        """Write a message of nats-py; raises BrokenPipeError if stdout has no reader."""
        self.write_stored(make_message(msg, None), {"reply": msg.reply})

    def write_stored(self, message: StoredMessage, details: Mapping[str, Any]) -> None:
        """Write a stored message, followed by its `details` by name.

        The format `raw` writes only the payload and a line feed. Raises BrokenPipeError if stdout
        has no reader.
        """
        if self.output_format == "raw":
            sys.stdout.buffer.write(base64.b64decode(message.payload_base64) + b"\n")
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(self._format_message(message, details) + "\n")
            sys.stdout.flush()
        # What could not be written is not counted.
        self.printed_count += 1

    def _format_message(self, message: StoredMessage, details: Mapping[str, Any]) -> str:
        if self.output_format == "json":
            return clean_json(json.dumps({**to_builtins(message), **details}))
        if self.output_format == "subjects":
            return clean_line(message.subject)
        time_text = local_text(message.stored_at_us, digits=3)
        seq = message.stream_seq
        number = f"#{self.printed_count + 1}" if seq is None else f"seq {seq}"
        parts = [number, time_text, message.subject, bytes_text(message.payload_bytes)]
        detail_pairs = (
            (name.removesuffix("_count").replace("_", " "), details[name]) for name in details
        )
        parts += [f"{name} {value}" for name, value in detail_pairs if value != ""]
        lines = [clean_line("  ".join(parts))]
        lines += [clean_line(f"  {name}: {value}") for name, value in message.headers]
        if self.output_format != "headers" and message.payload_bytes:
            lines.append(payload_text(base64.b64decode(message.payload_base64)))
        return "\n".join([*lines, ""])


def payload_text(payload: bytes) -> str:
    r"""Return a payload as text without control characters; bytes that are not UTF-8 as `\xff`."""
    return clean_text(payload.decode("utf-8", "backslashreplace"))
