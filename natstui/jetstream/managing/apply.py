"""Every change of a stream or consumer; a change without an answer is read again."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

from natstui.errors import (
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    RequestFailed,
    UsageError,
)
from natstui.jetstream.connection.writer import Config, Request, Writer
from natstui.jetstream.managing.balancing import step_down
from natstui.jetstream.managing.configure import (
    ChangeResult,
    create,
    current_target,
    edit,
    read_config,
    target_with_loss,
)
from natstui.jetstream.managing.replicas import remove_peer_stream
from natstui.model.assets.differences import AssetKind, differences, not_taken
from natstui.model.assets.fields import SERVER_OF_LEVEL
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.managing import (
    Action,
    Change,
    Confirmation,
)
from natstui.units import counted, parse_moment


async def delete_stream(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Delete a stream with its messages and consumers."""
    found = await target_with_loss(writer, change)
    verb = f"STREAM.DELETE.{change.stream}"
    request = Request(verb, None, {}, found)
    await writer.write(change, request, undoes)
    return ChangeResult(f"stream {change.stream} deleted", found.config, None)


async def purge_stream(writer: Writer, change: Change) -> ChangeResult:
    """Remove messages: all, or those that the arguments name."""
    asked: Config = json.loads(change.body_json)
    names = [field.path for field in CATALOGUE["purge_stream"].arguments]
    body = {name: asked[name] for name in names if asked.get(name)}
    if "seq" in body and "keep" in body:
        raise UsageError("purge up to a sequence or keep some, not both")
    if change.previewed_last_seq is not None and "keep" not in body:
        # What was published since the confirmation stays.
        body["seq"] = min(body.get("seq", sys.maxsize), change.previewed_last_seq + 1)
        change = replace(change, body_json=json.dumps(body))
    found = await target_with_loss(writer, change)
    verb = f"STREAM.PURGE.{change.stream}"
    request = Request(verb, body, body, found)
    reply = await writer.write(change, request)
    text = f"{counted(reply['purged'], 'message')} of {change.stream} removed"
    return ChangeResult(text, found.config, found.config)


async def delete_message(writer: Writer, change: Change) -> ChangeResult:
    """Delete the message with the sequence `seq`; `erase` also overwrites it."""
    asked: Config = json.loads(change.body_json)
    if not asked.get("seq"):
        raise UsageError("deleting a message needs its sequence")
    body = {"seq": asked["seq"], "no_erase": not asked.get("erase", False)}
    found = await target_with_loss(writer, change)
    verb = f"STREAM.MSG.DELETE.{change.stream}"
    await writer.write(change, Request(verb, body, body, found))
    return ChangeResult(f"message {asked['seq']} of {change.stream} deleted", None, None)


async def step_down_leader(writer: Writer, change: Change) -> ChangeResult:
    """Let a replicated stream or consumer elect another leader."""
    if change.created_at_us is not None:
        await current_target(writer, change)
    return ChangeResult(await step_down(writer, change), None, None)


_PAUSE_LEVEL, _UNPIN_LEVEL, _RESET_LEVEL = 1, 1, 4


async def delete_consumer(
    writer: Writer, change: Change, undoes: str | None = None
) -> ChangeResult:
    """Delete a consumer and what it knows of deliveries."""
    found = await target_with_loss(writer, change)
    await writer.write(change, Request(_verb("DELETE", change), None, {}, found), undoes)
    return ChangeResult(f"{_what(change)} deleted", found.config, None)


async def pause_consumer(writer: Writer, change: Change) -> ChangeResult:
    """Deliver nothing before the moment `pause_until`: a time, or a duration from now."""
    _need(writer, _PAUSE_LEVEL, "pausing")
    asked: Config = json.loads(change.body_json)
    until = moment_of(str(asked.get("pause_until") or ""))
    found = await target_with_loss(writer, change)
    body = {"pause_until": until}
    reply = await writer.write(change, Request(_verb("PAUSE", change), body, body, found))
    what = _what(change)
    if reply["paused"]:
        until_now = str(reply.get("pause_until") or "")
        missing = not_taken("consumer", body, {"pause_until": until_now})
        text = f"{what} paused until {until_now}"
        return ChangeResult(text, found.config, found.config, missing)
    if datetime.fromisoformat(until) <= datetime.now(UTC):
        return ChangeResult(f"{what} is not paused: {until} is past", found.config, found.config)
    unfinished = f"the server replied that it is not paused, though {until} is not past"
    return ChangeResult(f"{what} is not paused", found.config, found.config, (), unfinished)


async def resume_consumer(
    writer: Writer, change: Change, undoes: str | None = None
) -> ChangeResult:
    """Deliver again."""
    _need(writer, _PAUSE_LEVEL, "pausing")
    found = await target_with_loss(writer, change)
    reply = await writer.write(change, Request(_verb("PAUSE", change), {}, {}, found), undoes)
    if reply["paused"]:
        unfinished = f"the server replied that it is paused until {reply.get('pause_until')}"
        text = f"{_what(change)} is not resumed"
        return ChangeResult(text, found.config, found.config, (), unfinished)
    return ChangeResult(f"{_what(change)} resumed", found.config, found.config)


async def reset_consumer(writer: Writer, change: Change) -> ChangeResult:
    """Deliver again from the ack floor, or from the sequence `seq`."""
    _need(writer, _RESET_LEVEL, "resetting")
    asked: Config = json.loads(change.body_json)
    body = {"seq": asked["seq"]} if asked.get("seq") else {}
    found = await target_with_loss(writer, change)
    await writer.write(change, Request(_verb("RESET", change), body, body, found))
    where = f"sequence {asked['seq']}" if body else "its ack floor"
    return ChangeResult(f"{_what(change)} delivers again from {where}", found.config, found.config)


async def unpin_consumer(writer: Writer, change: Change) -> ChangeResult:
    """Take the pin of the priority group `group` from its client."""
    _need(writer, _UNPIN_LEVEL, "unpinning")
    asked: Config = json.loads(change.body_json)
    body = {"group": str(asked.get("group") or "")}
    found = await target_with_loss(writer, change)
    await writer.write(change, Request(_verb("UNPIN", change), body, body, found))
    return ChangeResult(
        f"group {body['group']!r} of {_what(change)} unpinned", found.config, found.config
    )


def moment_of(text: str, now: datetime | None = None) -> str:
    """Return the moment that `1h30m` from now or a written time means; raises UsageError."""
    try:
        if "-" in text and datetime.fromisoformat(text).tzinfo:
            return text
        bare = "-" not in text and not text.strip().endswith("ago") and text[:3] != "in "
        moment = parse_moment(f"in {text}" if bare else text, now)
    except ValueError as error:
        raise UsageError(f"{text!r} is neither a time nor a duration: {error}") from error
    return moment.isoformat().replace("+00:00", "Z")


def _verb(verb: str, change: Change) -> str:
    return f"CONSUMER.{verb}.{change.stream}.{change.consumer}"


def _what(change: Change) -> str:
    return f"consumer {change.consumer} on {change.stream}"


def _need(writer: Writer, level: int, what: str) -> None:
    """Raise RequestFailed for an older server, which would not answer at all."""
    present = writer.client.api_level
    if present is not None and present < level:
        raise RequestFailed(f"{what} a consumer needs server {SERVER_OF_LEVEL[level]} or newer")


async def read_back(writer: Writer, change: Change) -> str:
    """Return what the server shows now, as the end of a sentence; our errors become words."""
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
    return "whether it was done is unknown"


async def _configured(writer: Writer, change: Change, kind: AssetKind, name: str) -> str:
    try:
        current = await read_config(writer, kind, change.stream, change.consumer or "")
    except NotFound:
        return f"{name} does not exist"
    if change.action.startswith("delete"):
        return f"{name} is still there"
    same = not differences(kind, json.loads(change.body_json), current)
    return f"{name} is as requested" if same else f"{name} is not as requested"


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


_UNDOABLE: dict[Action, Callable[[Writer, Change, str | None], Awaitable[ChangeResult]]] = {
    "create_stream": create,
    "create_consumer": create,
    "edit_stream": edit,
    "edit_consumer": edit,
    "delete_stream": delete_stream,
    "delete_consumer": delete_consumer,
    "resume_consumer": resume_consumer,
}

_FINAL: dict[Action, Callable[[Writer, Change], Awaitable[ChangeResult]]] = {
    "purge_stream": purge_stream,
    "delete_message": delete_message,
    "step_down_stream": step_down_leader,
    "pause_consumer": pause_consumer,
    "reset_consumer": reset_consumer,
    "unpin_consumer": unpin_consumer,
    "step_down_consumer": step_down_leader,
    "remove_peer_stream": remove_peer_stream,
}


async def apply(writer: Writer, change: Change, *, undoes: str | None = None) -> ChangeResult:
    """Do a change, which may take back the journal's entry `undoes`.

    Raises UsageError for what is invalid, Refused, NotFound, EditConflict and the other request
    errors; nothing was written unless the journal says so. When no answer says whether it was
    done, OutcomeUnknown tells what the server shows now.
    """
    try:
        if change.action in _FINAL:
            return await _FINAL[change.action](writer, change)
        return await _UNDOABLE[change.action](writer, change, undoes)
    except OutcomeUnknown as error:
        raise OutcomeUnknown(f"{error}; {await read_back(writer, change)}") from error


async def preview(writer: Writer, change: Change) -> Confirmation:
    """Return what a change would do now, counted; raises what the change itself would."""
    created = change.action.startswith("create")
    return writer.confirmation(change, None if created else await target_with_loss(writer, change))
