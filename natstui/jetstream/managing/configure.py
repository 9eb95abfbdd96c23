"""Creates and edits streams and consumers, as raw JSON: read, change, write, read back."""

from __future__ import annotations

import asyncio
import json

from msgspec import Struct

from natstui.errors import (
    ActionRefusal,
    Conflict,
    ConnectionLost,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    UsageError,
)
from natstui.jetstream.connection.decode.asset import created_at_us_in
from natstui.jetstream.connection.storing import has_lost_newest, lost_newest_text, newest_message
from natstui.jetstream.connection.writer import (
    Asset,
    Config,
    Writer,
    WriteRequest,
    describe_use_by_others,
)
from natstui.jetstream.managing.losses import (
    ACTIONS_SHOWING_LOSS_GROWTH,
    count_loss,
    count_loss_of_new,
)
from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.differences import (
    AssetKind,
    Difference,
    differences,
    fields_of,
    find_unapplied_settings,
    normalize_config,
    unapplied_text,
)
from natstui.model.assets.rules import Problem, drop_newer_fields
from natstui.model.assets.stream_rules import stream_problems
from natstui.model.records.actions import ACTIONS_ON_CONSUMER, IRREVERSIBLE_ACTIONS
from natstui.model.records.managing import Change
from natstui.units import counted
from natstui.values import replace

REREAD_EDIT_AFTER_S = 0.25
"""Time after which our edit is read again: another edit, based on the old configuration, may
follow it.
"""


class EditConflict(Conflict):
    """A stream or consumer was changed between reading and writing; `seen` and `current` are the
    two versions.
    """

    def __init__(self, name: str, seen_config: Config, current: Config) -> None:
        super().__init__(f"{name} was changed by somebody else meanwhile: nothing was written")
        self.seen = seen_config
        self.current = current


class ChangeResult(Struct, frozen=True):
    """The result of a change of the server."""

    text: str
    """One sentence for the user."""
    before: Config | None
    after: Config | None
    unapplied_settings: tuple[Difference, ...] = ()
    """Values that are not as requested: `before` is the request, `after` the server's value."""
    unfinished: str = ""
    """The part of the change that is not done yet, or could not be done."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer that was created; None if the reply has none."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Return a text for each value that is not as requested, and for an unfinished part."""
        mismatches = tuple(map(unapplied_text, self.unapplied_settings))
        return (*mismatches, self.unfinished) if self.unfinished else mismatches

    @property
    def sentence(self) -> str:
        """Return the text of the result with all shortfalls."""
        return "; ".join((self.text, *self.shortfalls))


async def read_asset(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> Asset:
    """Return a stream or consumer from the server; raises NotFound and the request errors."""
    info = (
        await writer.client.stream_info(stream)
        if kind == "stream"
        else await writer.client.consumer_info(stream, consumer)
    )
    return Asset(info.read_config(), info.created_at_us, info)


async def read_config(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> Config:
    """Return the configuration of a stream or consumer; raises NotFound and the request errors."""
    return (await read_asset(writer, kind, stream, consumer)).config


def recreated_text(kind: str, name: str) -> str:
    """Return a sentence saying that a stream or consumer was recreated during a change.

    The server changes the stream or consumer that has the name when the request arrives.
    """
    return f"the {kind} {name} of now is another one: it was recreated meanwhile"


async def check_stream_not_recreated(
    writer: Writer, kind: str, name: str, before: Asset, result: ChangeResult
) -> ChangeResult:
    """Return the result of a change in a stream, marked unfinished if the stream was recreated.

    `kind` and `name` are for the text. Raises RequestFailed if the stream cannot be read again.
    """
    stream = before.config["name"]
    return await check_asset_not_recreated(
        writer, ("stream", stream, ""), kind, name, before.created_at_us, result
    )


async def check_asset_not_recreated(
    writer: Writer,
    kind_stream_and_consumer: tuple[AssetKind, str, str],
    kind: str,
    name: str,
    created_at_us: int,
    result: ChangeResult,
) -> ChangeResult:
    """Return the result of a change, marked unfinished if its stream or consumer was recreated.

    `created_at_us` is the creation time before the change; `kind` and `name` are for the text.
    Raises RequestFailed if the asset cannot be read again.
    """
    try:
        current = await read_asset(writer, *kind_stream_and_consumer)
    except (RequestFailed, ConnectionLost) as error:
        raise make_reread_error("; ".join((result.text, *result.shortfalls)), error) from error
    if current.created_at_us == created_at_us:
        return result
    problems = (*result.shortfalls, recreated_text(kind, name))
    return replace(result, unfinished="; ".join(problems))


def make_reread_error(text: str, error: NatstuiError) -> RequestFailed:
    """Return the error for a confirmed change whose result cannot be read again."""
    reason = error.reason if isinstance(error, ConnectionLost) else str(error)
    return RequestFailed(f"{text}, as the server replied; it could not be read again: {reason}")


def check_consumer_named(change: Change) -> None:
    """Raise ActionRefusal if a change of a consumer does not name the consumer."""
    if change.consumer is None and change.action in ACTIONS_ON_CONSUMER:
        raise ActionRefusal(f"no consumer of {change.stream} was named: nothing was changed")


async def read_target(writer: Writer, change: Change) -> Asset:
    """Return the stream or consumer of a change, in its current state.

    Raises Conflict if it was recreated since the user confirmed, and ActionRefusal if the consumer
    is not named, or a confirmed change has no creation time.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    target_text = f"{kind} {change.consumer or change.stream}"
    check_consumer_named(change)
    lacks_creation_time = change.confirmed is not None and change.created_at_us is None
    if lacks_creation_time and change.action in IRREVERSIBLE_ACTIONS:
        raise ActionRefusal(f"the creation time of {target_text} is missing: nothing was changed")
    asset = await read_asset(writer, kind, change.stream, change.consumer or "")
    if change.created_at_us not in (None, asset.created_at_us):
        raise Conflict(f"{target_text} was recreated before you confirmed: nothing was changed")
    return asset


async def read_target_with_loss(writer: Writer, change: Change) -> Asset:
    """Return the target of a change with its counted losses; raises what `read_target` and
    `add_loss` raise.
    """
    return await add_loss(writer, change, await read_target(writer, change))


async def add_loss(writer: Writer, change: Change, asset: Asset) -> Asset:
    """Return the stream or consumer with the counted losses of a change.

    Raises Conflict if the loss has grown since the preview by more than was published since, or if
    the stream has lost its newest messages.
    """
    stream = await _read_stream(writer, change.stream) if change.consumer else asset
    last_seq, last_at_us = newest_message(stream.stream_info.state) if stream else (None, None)
    previewed_newest_seq_and_us = change.previewed_last_seq or 0, change.previewed_last_at_us or 0
    if stream and await has_lost_newest(
        writer.client, change.stream, stream.stream_info.state, *previewed_newest_seq_and_us
    ):
        raise Conflict(f"{lost_newest_text(change.stream)}: nothing was changed")
    loss, previewed_msgs = await count_loss(writer.client, change, asset), change.previewed_msgs
    if (
        previewed_msgs is not None
        and loss.most_msgs is not None
        and loss.most_msgs > previewed_msgs
    ):
        current, previewed_seq = (
            await _read_stream(writer, change.stream),
            change.previewed_last_seq,
        )
        is_growth_shown = previewed_msgs > 0 or change.action in ACTIONS_SHOWING_LOSS_GROWTH
        published_msgs = 0
        if is_growth_shown and current and previewed_seq is not None:
            published_msgs = current.stream_info.state.last_seq - previewed_seq
        if loss.most_msgs > previewed_msgs + published_msgs:
            previewed_text = counted(previewed_msgs, "message")
            raise Conflict(
                f"{loss.text}, but it was {previewed_text} when you confirmed: nothing was changed"
            )
    return replace(
        asset,
        loss=loss,
        stream_created_at_us=stream.created_at_us if stream and change.consumer else None,
        stream_last_seq=last_seq,
        stream_last_at_us=last_at_us,
    )


async def _read_stream(writer: Writer, name: str) -> Asset | None:
    """Return a stream in its current state; None without permission to read it."""
    try:
        return await read_asset(writer, "stream", name)
    except PermissionDenied:
        return None


async def exists(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> bool:
    """Return whether a stream or consumer of this name exists."""
    try:
        await read_config(writer, kind, stream, consumer)
    except NotFound:
        return False
    return True


def check_problems(problems: tuple[Problem, ...]) -> None:
    """Raise UsageError with the texts of all problems, if there are any."""
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problem.text for problem in problems)))


async def create(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Create a stream or consumer; raises Conflict if it exists.

    `undoes` is the journal's entry that this undoes, if any.
    """
    kind: AssetKind = "consumer" if change.action == "create_consumer" else "stream"
    wanted_config: Config = json.loads(change.body_json)
    name = change.consumer or change.stream
    await _check_config(writer, kind, change.stream, wanted_config)
    if await exists(writer, kind, change.stream, name):
        raise Conflict(f"{kind} {name} exists already")
    verb, body = _make_request(writer, kind, change, wanted_config, "create")
    loss = await count_loss_of_new(writer.client, change)
    request = WriteRequest(verb, body, wanted_config, loss=loss)
    reply = await writer.write(change, request, undoes)
    after: Config = reply["config"]
    created_name = after.get("name", name)
    text = f"{kind} {created_name} created"
    if use_text := describe_use_by_others(change.action, reply):
        text = f"{kind} {created_name} is there: {use_text}; undo does not delete it"
    return ChangeResult(
        text, None, after, find_unapplied_settings(kind, wanted_config, after),
        created_at_us=created_at_us_in(reply),
    )  # fmt: skip


async def edit(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Edit the configuration of a stream or consumer.

    `undoes` is the journal's entry that this undoes, if any.
    Raises EditConflict if it was changed since the user saw it.
    """
    kind: AssetKind = "consumer" if change.action == "edit_consumer" else "stream"
    wanted_config: Config = json.loads(change.body_json)
    asset = await read_target(writer, change)
    current_config = asset.config
    name = change.consumer or change.stream
    seen_config: Config | None = json.loads(change.seen_json) if change.seen_json else None
    if seen_config is not None and normalize_config(kind, seen_config) != normalize_config(
        kind, current_config
    ):
        raise EditConflict(f"{kind} {name}", seen_config, current_config)
    await _check_config(writer, kind, change.stream, wanted_config, current_config)
    requested_differences = differences(kind, current_config, wanted_config)
    if not requested_differences:
        return ChangeResult(
            f"{kind} {name} has this configuration already: nothing was changed",
            current_config,
            current_config,
        )
    check_problems(
        tuple(
            Problem(difference.path, difference.refused)
            for difference in requested_differences
            if difference.refused
        )
    )
    verb, body = _make_request(writer, kind, change, wanted_config, "update")
    asset = await add_loss(writer, change, asset)
    # The server cannot compare: an edit by somebody else since the first reading would be lost.
    current_asset = await read_target(writer, change)
    if (
        current_asset.created_at_us != asset.created_at_us
        or current_asset.config != current_config
    ):
        raise EditConflict(f"{kind} {name}", current_config, current_asset.config)
    request = WriteRequest(verb, body, wanted_config, asset)
    assets_after, read_errors = list[Asset](), list[NatstuiError]()

    async def read_back(reply: Config) -> Config:
        try:
            asset_after = await read_asset(writer, kind, change.stream, change.consumer or "")
        except NatstuiError as error:
            read_errors.append(error)
            return reply
        assets_after.append(asset_after)
        # After a restart, the server replies to the first change of a consumer with the previous
        # configuration. Otherwise the reply is used: what is read may have an edit by somebody
        # else, which an undo must not revert.
        return (
            reply
            if differences(kind, current_config, reply["config"])
            else {**reply, "config": asset_after.config}
        )

    after: Config = (await writer.write(change, request, undoes, read_back))["config"]
    if read_errors:
        raise make_reread_error(f"{kind} {name} changed", read_errors[0]) from read_errors[0]
    if assets_after[0].created_at_us != asset.created_at_us:
        problem = recreated_text(kind, name)
        return ChangeResult(f"{kind} {name} changed", current_config, after, (), problem)
    unapplied_settings = find_unapplied_settings(kind, wanted_config, after, current_config)
    if not differences(kind, current_config, after):
        setting_labels = ", ".join(difference.label for difference in unapplied_settings)
        problem = f"the server left it as it was, without a refusal: {setting_labels} not changed"
        return ChangeResult(
            f"{kind} {name} unchanged", current_config, after, unapplied_settings, problem
        )
    edited_paths = {difference.path for difference in requested_differences} - {
        difference.path for difference in unapplied_settings
    }
    overwritten_text = await _describe_overwritten(writer, change, asset, after, edited_paths)
    return ChangeResult(
        f"{kind} {name} changed", current_config, after, unapplied_settings, overwritten_text
    )


async def _describe_overwritten(
    writer: Writer, change: Change, before: Asset, replied_config: Config, edited_paths: set[str]
) -> str:
    """Return a text of the values of our edit that somebody else overwrote; empty if none.

    The server has no compare-and-set: an edit that is based on the previous configuration may
    arrive after ours, with the old values. `replied_config` is from the reply to our edit, which
    changed the fields `edited_paths`.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    # A new leader may be behind for a moment: a difference is read once more.
    for _ in range(2):
        await asyncio.sleep(REREAD_EDIT_AFTER_S)
        try:
            current = await read_asset(writer, kind, change.stream, change.consumer or "")
        except NatstuiError as error:
            reason = error.reason if isinstance(error, ConnectionLost) else str(error)
            return f"whether somebody else changed it at the same time is unknown: {reason}"
        if current.created_at_us != before.created_at_us:
            return recreated_text(kind, change.consumer or change.stream)
        later_differences = differences(kind, replied_config, current.config)
        overwritten_edits = [
            difference for difference in later_differences if difference.path in edited_paths
        ]
        if not overwritten_edits:
            return ""
    fields_text = ", ".join(
        f"{difference.label} was set to {difference.before or 'nothing'} and is now "
        f"{difference.after or 'nothing'}"
        for difference in overwritten_edits
    )
    return f"somebody else changed it at the same time: {fields_text}"


def _make_request(
    writer: Writer, kind: AssetKind, change: Change, config: Config, action: str
) -> tuple[str, Config]:
    """Return verb and body of the request that creates or updates a stream or consumer."""
    config = drop_newer_fields(config, fields_of(kind), writer.client.api_level)
    if kind == "stream":
        return f"STREAM.{action.upper()}.{change.stream}", config
    return consumer_request(change.stream, change.consumer or "", config, action)


async def _check_config(
    writer: Writer,
    kind: AssetKind,
    stream: str,
    wanted_config: Config,
    seen_config: Config | None = None,
) -> None:
    level = writer.client.api_level
    if kind == "stream":
        check_problems(stream_problems(wanted_config, level, config_before=seen_config))
        return
    stream_config = await read_config(writer, "stream", stream)
    check_problems(
        consumer_problems(wanted_config, stream_config, level, config_before=seen_config)
    )
