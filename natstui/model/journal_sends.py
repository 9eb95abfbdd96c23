"""What the journal says of messages that were published, taken and answered."""

from __future__ import annotations

import json
import shlex

from natstui.model.config_field import Config, number_at, text_at
from natstui.model.manage import JournalEntry


def is_sent(entry: JournalEntry) -> bool:
    """Tell whether an entry is about a message, and not about a stream or consumer."""
    return entry.action in ("publish", "request", "pull", "answer")


def sent_text(entry: JournalEntry) -> str:
    """Return what was sent or taken, as `publish 5 bytes to w.a, stored as 3 in W`."""
    asked: Config = json.loads(entry.request_json)
    after: Config = json.loads(entry.after_json or "{}")
    place = f"{entry.consumer} on {entry.stream}" if entry.stream else f"{entry.consumer}"
    match entry.action:
        case "pull":
            return f"pull message {after.get('stream_seq') or '?'} from {place}"
        case "answer":
            said = text_at(asked, "answer").replace("_", " ")
            return f"{said} message {asked.get('stream_seq') or '?'} of {place}"
        case action:
            sent = f"{action} {number_at(asked, 'payload_bytes'):,} bytes to"
            return f"{sent} {text_at(asked, 'subject')}{_stored(after)}"


def _stored(after: Config) -> str:
    if not after.get("stored_seq"):
        return ""
    said = "a duplicate of" if after.get("duplicate") else "stored as"
    return f", {said} {after['stored_seq']} in {after.get('stream')}"


def headers_of(asked: Config) -> dict[str, str]:
    """Return the headers the journal kept: most with their names only."""
    headers = asked.get("headers")
    return {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}


def sent_command(entry: JournalEntry) -> str:
    """Return the `nats` command that does the same; it reads a payload from its stdin."""
    asked: Config = json.loads(entry.request_json)
    subject = text_at(asked, "subject")
    match entry.action:
        case "pull":
            words = ["consumer", "next", entry.stream, entry.consumer or "", "--no-ack"]
        case "answer":
            # Only a request waits until the server confirms it.
            verb = "request" if asked.get("answer") == "double_ack" else "publish"
            words = [verb, subject, "--", text_at(asked, "payload")]
        case action:
            flags = [f"--header={name}:{text}" for name, text in headers_of(asked).items()]
            words = [action, *flags, subject, *([] if asked.get("payload_bytes") else [""])]
            words += ["--force-stdin"] if action == "publish" and asked["payload_bytes"] else []
    return shlex.join(["nats", *words])
