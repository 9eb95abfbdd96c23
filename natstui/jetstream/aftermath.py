"""What became of a change that was sent and never answered: read again, and said."""

from __future__ import annotations

import json

from natstui.errors import NatstuiError, NotFound
from natstui.jetstream.admin import read_config
from natstui.jetstream.writer import Config, Writer
from natstui.model.config_change import AssetKind, differences
from natstui.model.manage import Change
from natstui.units import counted


async def aftermath(writer: Writer, change: Change) -> str:
    """Return what the server shows now, as the end of a sentence; raises nothing of ours."""
    try:
        return f"read again, {await _shown(writer, change)}"
    except NatstuiError as error:
        return f"and it cannot be read again now ({error})"


async def _shown(writer: Writer, change: Change) -> str:
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    name = f"{kind} {change.consumer or change.stream}"
    verb = change.action.partition("_")[0]
    if verb in ("create", "edit", "delete") and change.action != "delete_message":
        return await _configured(writer, change, kind, name)
    if change.action == "purge_stream":
        state = await _info(writer, f"STREAM.INFO.{change.stream}", "state")
        return f"{name} holds {counted(state['messages'], 'message')}"
    if change.action in ("pause_consumer", "resume_consumer"):
        info = await _info(writer, f"CONSUMER.INFO.{change.stream}.{change.consumer}")
        return f"{name} is {'paused' if info.get('paused') else 'not paused'}"
    if change.action == "delete_message":
        return await _message(writer, change)
    return "nothing shows whether it was done"


async def _configured(writer: Writer, change: Change, kind: AssetKind, name: str) -> str:
    try:
        current = await read_config(writer, kind, change.stream, change.consumer or "")
    except NotFound:
        return f"{name} does not exist"
    if change.action.startswith("delete"):
        return f"{name} is still there"
    same = not differences(kind, json.loads(change.body_json), current)
    return f"{name} is as it was asked for" if same else f"{name} is not as it was asked for"


async def _message(writer: Writer, change: Change) -> str:
    seq = json.loads(change.body_json).get("seq")
    try:
        await writer.client.request(f"STREAM.MSG.GET.{change.stream}", {"seq": seq})
    except NotFound:
        return f"message {seq} is not there any more"
    return f"message {seq} is still there"


async def _info(writer: Writer, verb: str, part: str | None = None) -> Config:
    info: Config = json.loads(await writer.client.request(verb))
    if part is None:
        return info
    found: Config = info[part]
    return found
