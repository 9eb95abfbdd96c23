"""Changes streams and consumers; without a reply, the current state is read again."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from natstui.clock import steady_s
from natstui.errors import (
    ActionRefusal,
    ConnectionLost,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.decode.streams import read_streams
from natstui.jetstream.connection.writer import (
    Asset,
    Config,
    MissingConfirmation,
    Writer,
    WriteRequest,
    add_state_if_unknown,
)
from natstui.jetstream.managing.balancing import step_down
from natstui.jetstream.managing.configure import (
    ChangeResult,
    EditConflict,
    check_asset_not_recreated,
    check_consumer_named,
    create,
    edit,
    make_reread_error,
    read_asset,
    read_target,
    read_target_with_loss,
    recreated_text,
)
from natstui.jetstream.managing.losses import count_loss_of_new
from natstui.jetstream.managing.replicas import remove_peer_stream
from natstui.model.assets.differences import (
    AssetKind,
    find_unapplied_settings,
    has_requested_values,
)
from natstui.model.assets.fields import SERVER_VERSION_BY_API_LEVEL
from natstui.model.assets.limits_loss import removes_messages_by_itself
from natstui.model.records.actions import CATALOGUE, change_text
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.managing import (
    Action,
    Change,
)
from natstui.units import counted, parse_moment, was_or_were
from natstui.values import replace


async def delete_stream(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Delete a stream with its messages and consumers, and wait until it does not exist.

    `undoes` is the journal's entry that this undoes, if any.
    """
    target = await read_target_with_loss(writer, change)
    target = replace(target, others_created_at_us=await _read_other_streams(writer, change.stream))
    verb = f"STREAM.DELETE.{change.stream}"
    request = WriteRequest(verb, None, {}, target)
    await writer.write(change, request, undoes)
    result = ChangeResult(f"stream {change.stream} deleted", target.config, None)
    return await _wait_until_deleted(writer, change, target, result)


_MAX_OTHER_STREAMS_COUNT = 8


async def _read_other_streams(writer: Writer, name: str) -> dict[str, int]:
    """Return the creation times (UTC µs) of the oldest other streams on the first page of the
    list.

    Memory streams are left out, as they do not survive a restart. Empty if the list cannot be
    read.
    """
    try:
        reply = await writer.client.request("STREAM.LIST", {"offset": 0})
    except (PermissionDenied, RequestTimedOut):
        return {}
    created_at_us = {
        row.name: row.created_at_us
        for row in read_streams(reply).all_rows
        if row.name != name and row.read_config().get("storage") != "memory"
    }
    oldest_names = sorted(created_at_us, key=lambda stream: created_at_us[stream])
    return {stream: created_at_us[stream] for stream in oldest_names[:_MAX_OTHER_STREAMS_COUNT]}


async def purge_stream(writer: Writer, change: Change) -> ChangeResult:
    """Purge a stream: all messages, or those that the arguments select."""
    body = _purge_body(change)
    if change.previewed_last_seq is not None and "keep" not in body:
        # Messages published since the confirmation are kept.
        body["seq"] = min(body.get("seq", sys.maxsize), change.previewed_last_seq + 1)
        change = replace(change, body_json=json.dumps(body))
    target = await read_target_with_loss(writer, change)
    sent_body = body
    if body.get("seq") == 1:
        # Servers before 2.14 treat sequence 1 as none, and would remove all.
        sent_body = {name: body[name] for name in body if name != "seq"} | {"keep": sys.maxsize}
    verb = f"STREAM.PURGE.{change.stream}"
    request = WriteRequest(verb, sent_body, body, target)
    reply = await writer.write(change, request)
    purged_msgs: int = reply["purged"]
    text = f"{counted(purged_msgs, 'message')} of {change.stream} removed"
    try:
        current = await read_asset(writer, "stream", change.stream)
    except (RequestFailed, ConnectionLost) as error:
        raise make_reread_error(text, error) from error
    if current.created_at_us != target.created_at_us:
        unfinished_text = recreated_text("stream", change.stream)
    else:
        unfinished_text = _describe_purge_mismatch(purged_msgs, target, current)
    return ChangeResult(text, target.config, target.config, unfinished=unfinished_text)


def _purge_body(change: Change) -> Config:
    """Return the arguments set for a purge; raises UsageError if both `seq` and `keep` are set."""
    arguments: Config = json.loads(change.body_json)
    names = [field.path for field in CATALOGUE["purge_stream"].arguments]
    body = {name: arguments[name] for name in names if arguments.get(name)}
    if "seq" in body and "keep" in body:
        raise UsageError("purge up to a sequence or keep some, not both")
    return body


def _describe_purge_mismatch(purged_msgs: int, before: Asset, current: Asset) -> str:
    """Return a text if another number of messages was removed than counted or replied; else empty.

    More may be removed if limits or consumers remove messages as well.
    """
    before_msgs, after_msgs = before.stream_info.state.messages, current.stream_info.state.messages
    published_msgs = current.stream_info.state.last_seq - before.stream_info.state.last_seq
    removed_msgs = before_msgs + published_msgs - after_msgs
    counted_msgs = before.loss.most_msgs
    are_fewer_replied = purged_msgs < removed_msgs
    if purged_msgs == removed_msgs or (
        are_fewer_replied and removes_messages_by_itself(current.config)
    ):
        if counted_msgs is None or purged_msgs <= counted_msgs + published_msgs:
            return ""
        return f"these are more than the {counted_msgs:,} that were counted before"
    return (
        f"the server replied that {counted(f'{purged_msgs:,}', 'message')} "
        f"{was_or_were(purged_msgs)} removed, but "
        f"{removed_msgs:,} of {before_msgs:,} are removed: {after_msgs:,} are left"
    )


async def delete_message(writer: Writer, change: Change) -> ChangeResult:
    """Delete the message with the sequence `seq`; `erase` also overwrites it."""
    arguments: Config = json.loads(change.body_json)
    body = {"seq": arguments["seq"], "no_erase": not arguments.get("erase", False)}
    target = await read_target_with_loss(writer, change)
    verb = f"STREAM.MSG.DELETE.{change.stream}"
    await writer.write(change, WriteRequest(verb, body, body, target))
    text = f"message {arguments['seq']} of {change.stream} deleted"
    result = await _check_target_not_recreated(
        writer, change, target, ChangeResult(text, None, None)
    )
    if result.unfinished or await _is_message_deleted(writer, change, text):
        return result
    return replace(result, unfinished=_NOT_DELETED_TEXT)


async def _is_message_deleted(writer: Writer, change: Change, text: str) -> bool:
    """Return whether the message of a deletion does not exist, or may not be read.

    Raises RequestFailed with the `text` of the deletion if it cannot be read now.
    """
    body = {"seq": json.loads(change.body_json)["seq"]}
    try:
        await writer.client.request(f"STREAM.MSG.GET.{change.stream}", body)
    except (NotFound, PermissionDenied):
        return True
    except (RequestFailed, ConnectionLost) as error:
        raise make_reread_error(text, error) from error
    return False


async def step_down_leader(writer: Writer, change: Change) -> ChangeResult:
    """Step down the leader of a replicated stream or consumer."""
    if change.created_at_us is not None:
        await read_target(writer, change)
    return ChangeResult(await step_down(writer, change), None, None)


async def delete_consumer(
    writer: Writer, change: Change, undoes: str | None = None
) -> ChangeResult:
    """Delete a consumer with its delivery state.

    `undoes` is the journal's entry that this undoes, if any.
    """
    target = await read_target_with_loss(writer, change)
    await writer.write(
        change, WriteRequest(_consumer_verb("DELETE", change), None, {}, target), undoes
    )
    result = ChangeResult(f"{_consumer_text(change)} deleted", target.config, None)
    result = await _wait_until_deleted(writer, change, target, result)
    if target.stream_created_at_us is None:
        return result  # no permission to read the stream
    stream = change.stream
    return await check_asset_not_recreated(
        writer, ("stream", stream, ""), "stream", stream, target.stream_created_at_us, result
    )


async def pause_consumer(
    writer: Writer, change: Change, undoes: str | None = None
) -> ChangeResult:
    """Pause a consumer until the change's `pause_until`: a time, or a duration from now.

    `undoes` is the journal's entry that this undoes, if any.
    """
    arguments: Config = json.loads(change.body_json)
    until = parse_time(str(arguments.get("pause_until") or ""))
    target = await read_target_with_loss(writer, change)
    _check_pause(change, target)
    body = {"pause_until": until}
    request = WriteRequest(_consumer_verb("PAUSE", change), body, body, target)
    reply = await writer.write(change, request, undoes)
    result = _pause_result(change, target, until, reply)
    return await _check_target_not_recreated(writer, change, target, result)


def _pause_result(change: Change, target: Asset, until: str, reply: Config) -> ChangeResult:
    """Return the result of pausing a consumer, from the server's reply."""
    target_text = _consumer_text(change)
    if reply["paused"]:
        replied_until = str(reply.get("pause_until") or "")
        unapplied_settings = find_unapplied_settings(
            "consumer", {"pause_until": until}, {"pause_until": replied_until}
        )
        text = f"{target_text} paused until {replied_until}"
        return ChangeResult(text, target.config, target.config, unapplied_settings)
    if datetime.fromisoformat(until) <= datetime.now(UTC):
        return ChangeResult(
            f"{target_text} is not paused: {until} is past", target.config, target.config
        )
    problem = f"the server replied that it is not paused, though {until} is not past"
    return ChangeResult(f"{target_text} is not paused", target.config, target.config, (), problem)


async def resume_consumer(
    writer: Writer, change: Change, undoes: str | None = None
) -> ChangeResult:
    """Resume a paused consumer; `undoes` is the journal's entry that this undoes, if any."""
    target = await read_target_with_loss(writer, change)
    _check_pause(change, target)
    reply = await writer.write(
        change, WriteRequest(_consumer_verb("PAUSE", change), {}, {}, target), undoes
    )
    if reply["paused"]:
        problem = f"the server replied that it is paused until {reply.get('pause_until')}"
        text = f"{_consumer_text(change)} is not resumed"
        return ChangeResult(text, target.config, target.config, (), problem)
    result = ChangeResult(f"{_consumer_text(change)} resumed", target.config, target.config)
    return await _check_target_not_recreated(writer, change, target, result)


def _check_pause(change: Change, target: Asset) -> None:
    """Raise EditConflict if the consumer's pause is not the one that the user saw."""
    seen_config: Config = json.loads(change.seen_json or "{}")
    if find_unapplied_settings("consumer", seen_config, target.config):
        raise EditConflict(f"consumer {change.consumer}", seen_config, target.config)


async def reset_consumer(writer: Writer, change: Change) -> ChangeResult:
    """Reset a consumer: it delivers again from its ack floor, or from the sequence `seq`."""
    arguments: Config = json.loads(change.body_json)
    body = {"seq": arguments["seq"]} if arguments.get("seq") else {}
    target = await read_target_with_loss(writer, change)
    reply = await writer.write(
        change, WriteRequest(_consumer_verb("RESET", change), body, body, target)
    )
    position_text = f"sequence {arguments['seq']}" if body else "its ack floor"
    text = f"{_consumer_text(change)} delivers again from {position_text}"
    reset_seq = reply.get("reset_seq")
    problem = ""
    if body and reset_seq != body["seq"]:
        problem = f"the server replied that it delivers again from sequence {reset_seq}"
    result = ChangeResult(text, target.config, target.config, unfinished=problem)
    return await _check_target_not_recreated(writer, change, target, result)


async def unpin_consumer(writer: Writer, change: Change) -> ChangeResult:
    """Unpin the client of the priority group `group`."""
    arguments: Config = json.loads(change.body_json)
    body = {"group": str(arguments.get("group") or "")}
    target = await read_target_with_loss(writer, change)
    await writer.write(change, WriteRequest(_consumer_verb("UNPIN", change), body, body, target))
    text = f"group {body['group']!r} of {_consumer_text(change)} unpinned"
    result = ChangeResult(text, target.config, target.config)
    return await _check_target_not_recreated(writer, change, target, result)


_NOT_DELETED_TEXT = "the server replied that it was deleted, but it is still there"
_DELETE_TIMEOUT_S = 2.0
_CHECK_INTERVAL_S = 0.1


async def _wait_until_deleted(
    writer: Writer, change: Change, before: Asset, result: ChangeResult
) -> ChangeResult:
    """Return the result of a deletion once it is done, unfinished if it is not done within 2 s.

    Raises RequestFailed if the stream or consumer cannot be read again.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    until_s = steady_s() + _DELETE_TIMEOUT_S
    while True:
        try:
            current = await read_asset(writer, kind, change.stream, change.consumer or "")
        except NotFound:
            return result
        except (RequestFailed, ConnectionLost) as error:
            raise make_reread_error(result.text, error) from error
        if current.created_at_us != before.created_at_us:
            return result  # recreated since by somebody else
        if steady_s() > until_s:
            return replace(result, unfinished=_NOT_DELETED_TEXT)
        await asyncio.sleep(_CHECK_INTERVAL_S)


async def _check_target_not_recreated(
    writer: Writer, change: Change, before: Asset, result: ChangeResult
) -> ChangeResult:
    """Return the result of a change, unfinished if the stream or consumer was recreated.

    Raises RequestFailed if it cannot be read again.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    kind_stream_and_consumer, name = (kind, change.stream, change.consumer or ""), change.consumer
    return await check_asset_not_recreated(
        writer, kind_stream_and_consumer, kind, name or change.stream, before.created_at_us, result
    )


def parse_time(text: str, now: datetime | None = None) -> str:
    """Return the time of a text in RFC 3339; raises UsageError if it is invalid.

    The text is a time, or a duration from now such as `1h30m`.
    """
    try:
        if "-" in text and datetime.fromisoformat(text).tzinfo:
            return text
        is_plain_duration = (
            "-" not in text and not text.strip().endswith("ago") and text[:3] != "in "
        )
        time = parse_moment(f"in {text}" if is_plain_duration else text, now)
    except ValueError as error:
        raise UsageError(f"{text!r} is neither a time nor a duration: {error}") from error
    return time.isoformat().replace("+00:00", "Z")


def _consumer_verb(verb: str, change: Change) -> str:
    return f"CONSUMER.{verb}.{change.stream}.{change.consumer}"


def _consumer_text(change: Change) -> str:
    return f"consumer {change.consumer} on {change.stream}"


_LEVEL_AND_VERB_BY_ACTION: dict[Action, tuple[int, str]] = {
    "pause_consumer": (1, "pausing"),
    "resume_consumer": (1, "pausing"),
    "unpin_consumer": (1, "unpinning"),
    "reset_consumer": (4, "resetting"),
}
"""Action → the API level that it needs, and a word for the action."""


def _check_change(writer: Writer, change: Change) -> None:
    """Check a change without reading its stream, before anything is shown or sent.

    Raises ActionRefusal without a consumer to change, UsageError for invalid arguments, and
    RequestFailed for an older server, which would not reply at all.
    """
    check_consumer_named(change)
    needed_api_level, verb_text = _LEVEL_AND_VERB_BY_ACTION.get(change.action, (0, ""))
    server_api_level = writer.client.api_level
    if server_api_level is not None and server_api_level < needed_api_level:
        version = SERVER_VERSION_BY_API_LEVEL[needed_api_level]
        raise RequestFailed(f"{verb_text} a consumer needs server {version} or newer")
    arguments: Config = json.loads(change.body_json)
    if change.action == "purge_stream":
        _purge_body(change)
    elif change.action == "delete_message" and not arguments.get("seq"):
        raise UsageError("deleting a message needs its sequence")
    elif change.action == "pause_consumer":
        parse_time(str(arguments.get("pause_until") or ""))


async def _describe_state(writer: Writer, change: Change) -> str:
    """Return a clause with the current state of the target; raises the request errors."""
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    name = f"{kind} {change.consumer or change.stream}"
    try:
        current = await read_asset(writer, kind, change.stream, change.consumer or "")
    except NotFound:
        return f"{name} does not exist"
    verb = change.action.partition("_")[0]
    if verb != "create" and change.created_at_us not in (None, current.created_at_us):
        return f"{name} is another one: it was created in the meantime"
    if change.action == "delete_message":
        return await _describe_message_state(writer, change)
    if verb in ("create", "edit"):
        is_state_as_requested = has_requested_values(
            kind, json.loads(change.body_json), current.config
        )
        return (
            f"{name} is as requested" if is_state_as_requested else f"{name} is not as requested"
        )
    if verb == "delete":
        return f"{name} is still there"
    if change.action == "purge_stream":
        return f"{name} has {counted(current.stream_info.state.messages, 'message')}"
    if verb in ("pause", "resume"):
        return f"{name} is {'paused' if current.consumer_info.paused else 'not paused'}"
    return "whether it was done is unknown"


async def _describe_message_state(writer: Writer, change: Change) -> str:
    seq = json.loads(change.body_json).get("seq")
    try:
        await writer.client.request(f"STREAM.MSG.GET.{change.stream}", {"seq": seq})
    except NotFound:
        return f"message {seq} is not there any more"
    return f"message {seq} is still there"


_FUNCTIONS_WITH_UNDO: dict[
    Action, Callable[[Writer, Change, str | None], Awaitable[ChangeResult]]
] = {
    "create_stream": create,
    "create_consumer": create,
    "edit_stream": edit,
    "edit_consumer": edit,
    "delete_stream": delete_stream,
    "delete_consumer": delete_consumer,
    "pause_consumer": pause_consumer,
    "resume_consumer": resume_consumer,
}

_FUNCTIONS_WITHOUT_UNDO: dict[Action, Callable[[Writer, Change], Awaitable[ChangeResult]]] = {
    "purge_stream": purge_stream,
    "delete_message": delete_message,
    "step_down_stream": step_down_leader,
    "reset_consumer": reset_consumer,
    "unpin_consumer": unpin_consumer,
    "step_down_consumer": step_down_leader,
    "remove_peer_stream": remove_peer_stream,
}


async def apply(writer: Writer, change: Change, *, undoes: str | None = None) -> ChangeResult:
    """Apply a change, which may undo the journal's entry `undoes`; return its result.

    Raises UsageError for invalid input, ActionRefusal, NotFound, EditConflict and the other
    request errors; nothing was written unless the journal has it. If no reply shows whether the
    change was done, OutcomeUnknown has the current state on the server.
    """
    _check_change(writer, change)
    if change.action == "create_consumer" and not change.consumer:
        return await _create_with_new_name(writer, change, undoes)
    if change.action in _FUNCTIONS_WITHOUT_UNDO:
        work = _FUNCTIONS_WITHOUT_UNDO[change.action](writer, change)
    else:
        work = _FUNCTIONS_WITH_UNDO[change.action](writer, change, undoes)
    return await add_state_if_unknown(work, lambda: _describe_state(writer, change))


async def _create_with_new_name(
    writer: Writer, change: Change, undoes: str | None
) -> ChangeResult:
    """Create a consumer with a random name, because the change does not name it.

    A name chosen by the server would not be in the journal, and could not be undone. As the new
    name is another one each time, the name to confirm is that of the stream, as in the preview;
    raises ActionRefusal for another name.
    """
    if change.confirmed not in (None, change.stream):
        raise ActionRefusal(f"not confirmed: {change.confirmed!r} is not {change.stream!r}")
    name = uuid.uuid4().hex[:8]
    config = json.loads(change.body_json) | {"name": name}
    confirmed_name = None if change.confirmed is None else name
    named_change = replace(
        change, consumer=name, body_json=json.dumps(config), confirmed=confirmed_name
    )
    try:
        return await apply(writer, named_change, undoes=undoes)
    except MissingConfirmation as error:
        confirmation = replace(
            error.confirmation,
            name=change.stream,
            question=error.confirmation.question.replace(
                change_text(change.action, change.stream, name),
                change_text(change.action, change.stream, None),
            ),
        )
        text = str(error).replace(repr(name), repr(change.stream))
        raise MissingConfirmation(text, confirmation) from None


async def preview(writer: Writer, change: Change) -> Confirmation:
    """Return the confirmation of a change with its counted losses; raises what `apply` raises."""
    _check_change(writer, change)
    if change.action.startswith("create"):
        return writer.make_confirmation(
            change, None, await count_loss_of_new(writer.client, change)
        )
    return writer.make_confirmation(change, await read_target_with_loss(writer, change))
