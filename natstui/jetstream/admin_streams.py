"""Purge, delete, delete one message, step down: what is done to a stream but configuring it."""

from __future__ import annotations

import json
from typing import Any

from natstui.errors import UsageError
from natstui.jetstream.admin import Changed, read_config
from natstui.jetstream.client import Client
from natstui.jetstream.writer import Config, Request, Writer
from natstui.model.manage import Change
from natstui.units import count_text, counted

_MOST_SUBJECTS = 50_000


async def delete_stream(writer: Writer, change: Change, undoes: str | None = None) -> Changed:
    """Delete a stream with its messages and consumers."""
    before = await read_config(writer, "stream", change.stream)
    await writer.write(change, Request(f"STREAM.DELETE.{change.stream}", None, {}, before), undoes)
    return Changed(f"stream {change.stream} deleted", before, None)


async def purge_stream(writer: Writer, change: Change) -> Changed:
    """Remove messages: all, of a subject (`filter`), before a sequence (`seq`), or but `keep`."""
    asked: Config = json.loads(change.body_json)
    body = {key: asked[key] for key in ("filter", "seq", "keep") if asked.get(key)}
    if "seq" in body and "keep" in body:
        raise UsageError("purge up to a sequence or keep some, not both")
    before = await read_config(writer, "stream", change.stream)
    request = Request(f"STREAM.PURGE.{change.stream}", body, body, before)
    reply = await writer.write(change, request)
    return Changed(
        f"{counted(reply['purged'], 'message')} of {change.stream} removed", before, before
    )


async def delete_message(writer: Writer, change: Change) -> Changed:
    """Delete the message with the sequence `seq`; `erase` also overwrites it."""
    asked: Config = json.loads(change.body_json)
    if not asked.get("seq"):
        raise UsageError("deleting a message needs its sequence")
    body = {"seq": asked["seq"], "no_erase": not asked.get("erase", False)}
    await writer.write(change, Request(f"STREAM.MSG.DELETE.{change.stream}", body, body))
    return Changed(f"message {asked['seq']} of {change.stream} deleted", None, None)


async def step_down_stream(writer: Writer, change: Change) -> Changed:
    """Let a replicated stream elect another leader."""
    await writer.write(change, Request(f"STREAM.LEADER.STEPDOWN.{change.stream}", None, {}))
    return Changed(f"the leader of {change.stream} steps down", None, None)


async def purge_preview(client: Client, stream: str, asked: dict[str, Any]) -> str:
    """Return how many messages a purge will remove, as `12`, `at most 12` or an estimate's why."""
    subject = asked.get("filter") or None
    state = await _state(client, stream, subject)
    total = state["messages"]
    if subject is not None:
        if state.get("num_subjects", 0) > _MOST_SUBJECTS:
            return f"an unknown part of {count_text(total)}"
        total = sum((state.get("subjects") or {}).values())
    if asked.get("keep"):
        return str(max(0, total - int(asked["keep"])))
    if not asked.get("seq"):
        return str(total)
    below = max(0, min(int(asked["seq"]), state["last_seq"] + 1) - state["first_seq"])
    exact = subject is None and not state.get("num_deleted")
    return str(below) if exact or not below else f"at most {min(below, total)}"


async def _state(client: Client, stream: str, subject: str | None) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(await client.request(f"STREAM.INFO.{stream}"))["state"]
    if subject is None or state.get("num_subjects", 0) > _MOST_SUBJECTS:
        return state
    counted = await client.request(f"STREAM.INFO.{stream}", {"subjects_filter": subject})
    with_subjects: dict[str, Any] = json.loads(counted)["state"]
    return with_subjects
