"""How values of a bucket are written: for people, for programs, or as they are."""

from __future__ import annotations

import base64
import json
from typing import Any

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.text_table import cut
from natstui.jetstream.messages.keys import Entry
from natstui.units import bytes_text, local_text

_MOST_CELLS = 60
HEADS = ("REVISION", "KEY", "CREATED", "OPERATION", "SIZE", "VALUE")


def entry_object(entry: Entry) -> dict[str, Any]:
    """Return all that is known of a revision; `value` only where it is text."""
    told: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "created_at_us": entry.created_at_us,
        "operation": entry.operation,
        "value_base64": base64.b64encode(entry.value).decode(),
    }
    try:
        return told | {"value": entry.value.decode()}
    except UnicodeDecodeError:
        return told | {"value": None}


def print_object(entry: Entry) -> None:
    """Print a revision as a line of JSON."""
    click.echo(clean_json(json.dumps(entry_object(entry))))


def entry_row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of a revision, its value as a preview."""
    text = entry.value.decode("utf-8", "backslashreplace")
    size = bytes_text(len(entry.value)) if entry.operation == "PUT" else ""
    when = local_text(entry.created_at_us, "%Y-%m-%d %H:%M:%S")
    value = cut(clean_line(text), _MOST_CELLS)
    return str(entry.revision), entry.key, when, entry.operation, size, value


def entry_line(entry: Entry) -> str:
    """Return a revision on one line, as it comes."""
    revision, key, when, operation, _, value = entry_row(entry)
    return clean_line(f"{when}  {operation:<5}  {revision}  {key}  {value}").rstrip()
