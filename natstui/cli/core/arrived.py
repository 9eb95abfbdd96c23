"""A message that arrived, for people, for programs, or as it is."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from natstui.clean import clean_json, clean_line, clean_text
from natstui.jetstream.messages.publish import arrived
from natstui.model.records.messages import StoredMessage
from natstui.units import bytes_text, local_text

if TYPE_CHECKING:
    from nats.aio.msg import Msg

Form = Literal["text", "json", "raw", "headers", "subjects"]


_FORMS: dict[str, Form] = {
    "as_json": "json", "raw": "raw", "subjects_only": "subjects", "headers_only": "headers",
}  # fmt: skip


def form_of(words: Mapping[str, Any]) -> Form:
    """Return how messages are written, by the flags of a command; of several the first."""
    return next((form for word, form in _FORMS.items() if words.get(word)), "text")


@dataclass
class Printer:
    """Writes messages to standard output, each at once."""

    form: Form
    printed_count: int = 0

    def write(self, msg: Msg) -> None:
        """Write one message; raises BrokenPipeError when nobody reads any more."""
        self.show(arrived(msg, None), {"reply": msg.reply})

    def show(self, message: StoredMessage, more: Mapping[str, Any]) -> None:
        """Write one message and what else is known of it."""
        self.printed_count += 1
        if self.form == "raw":
            sys.stdout.buffer.write(base64.b64decode(message.payload_base64) + b"\n")
            sys.stdout.buffer.flush()
            return
        sys.stdout.write(self._text(message, more) + "\n")
        sys.stdout.flush()

    def _text(self, message: StoredMessage, more: Mapping[str, Any]) -> str:
        if self.form == "json":
            return clean_json(json.dumps({**dataclasses.asdict(message), **more}))
        if self.form == "subjects":
            return clean_line(message.subject)
        at = local_text(message.stored_at_us, digits=3)
        seq = message.stream_seq
        number = f"#{self.printed_count}" if seq is None else f"seq {seq}"
        parts = [number, at, message.subject, bytes_text(message.payload_bytes)]
        words = ((name.removesuffix("_count").replace("_", " "), more[name]) for name in more)
        parts += [f"{name} {value}" for name, value in words if value != ""]
        lines = [clean_line("  ".join(parts))]
        lines += [clean_line(f"  {name}: {value}") for name, value in message.headers]
        if self.form != "headers" and message.payload_bytes:
            lines.append(payload_text(base64.b64decode(message.payload_base64)))
        return "\n".join([*lines, ""])


def payload_text(payload: bytes) -> str:
    r"""Return a payload as harmless text; what is not UTF-8 as `\xff`."""
    return clean_text(payload.decode("utf-8", "backslashreplace"))
