"""Creating and editing streams and consumers, as raw JSON: read, change, write, read back."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, replace

from natstui.errors import (
    Conflict,
    NatstuiError,
    NotFound,
    PermissionDenied,
    Refused,
    RequestFailed,
    ServerGone,
    UsageError,
)
from natstui.jetstream.connection.storing import gone_back_text, has_gone_back, newest_of
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, Config, Request, Writer, used_text
from natstui.jetstream.managing.losses import TELLS_GROWTH, loss_of, loss_of_new
from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.differences import (
    AssetKind,
    Difference,
    differences,
    fields_of,
    normal,
    not_taken,
    not_taken_text,
)
from natstui.model.assets.rules import Problem, without_newer
from natstui.model.assets.stream_rules import stream_problems
from natstui.model.records.actions import IRREVERSIBLE, OF_CONSUMER
from natstui.model.records.managing import Change
from natstui.units import counted

OVERWRITTEN_WITHIN_S = 0.25
"""How long after ours the edit of somebody may arrive who read the configuration before ours."""


class EditConflict(Conflict):
    """Somebody changed it between reading and writing; contains both versions."""

    def __init__(self, name: str, seen_config: Config, current: Config) -> None:
        super().__init__(f"{name} was changed by somebody else meanwhile: nothing was written")
        self.seen = seen_config
        self.current = current


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a change."""

    text: str
    """One sentence for people."""
    before: Config | None
    after: Config | None
    not_taken: tuple[Difference, ...] = ()
    """Values that are not as requested: `before` is the request, `after` the server's value."""
    unfinished: str = ""
    """The part of the change that is not done yet, or could not be done."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer that was created; None if the reply has none."""

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Return what is not as requested and what is unfinished; empty when all is done."""
        otherwise = tuple(map(not_taken_text, self.not_taken))
        return (*otherwise, self.unfinished) if self.unfinished else otherwise

    @property
    def sentence(self) -> str:
        """Return the result, with everything that is not as requested."""
        return "; ".join((self.text, *self.shortfalls))


async def read_asset(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> Asset:
    """Return the asset of a name on the server; raises NotFound."""
    name = stream if kind == "stream" else f"{stream}.{consumer}"
    info: Config = json.loads(await writer.client.request(f"{kind.upper()}.INFO.{name}"))
    return Asset(info["config"], time_us(info["created"]), info)


async def read_config(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> Config:
    """Return the configuration on the server; raises NotFound."""
    return (await read_asset(writer, kind, stream, consumer)).config


def recreated_text(kind: str, name: str) -> str:
    """Return that another asset has the name after a change than before it.

    The server changes what has the name when the request arrives.
    """
    return f"the {kind} {name} of now is another one: it was recreated meanwhile"


async def with_stream_now(
    writer: Writer, kind: str, name: str, before: Asset, result: ChangeResult
) -> ChangeResult:
    """Return the result of a change in a stream, unfinished if another stream has its name now.

    `kind` and `name` are what people call it. Raises RequestFailed if it cannot be read again.
    """
    stream = before.config["name"]
    return await with_asset_now(
        writer, ("stream", stream, ""), kind, name, before.created_at_us, result
    )


async def with_asset_now(
    writer: Writer,
    asset_name: tuple[AssetKind, str, str],
    kind: str,
    name: str,
    created_at_us: int,
    result: ChangeResult,
) -> ChangeResult:
    """Return the result of a change, unfinished if another asset has the name now.

    `asset_name` is kind, stream and consumer, `kind` and `name` what people call it;
    `created_at_us` is the creation time before the change. Raises RequestFailed if it cannot be
    read again.
    """
    try:
        now = await read_asset(writer, *asset_name)
    except (RequestFailed, ServerGone) as error:
        raise unread_after("; ".join((result.text, *result.shortfalls)), error) from error
    if now.created_at_us == created_at_us:
        return result
    problems = (*result.shortfalls, recreated_text(kind, name))
    return replace(result, unfinished="; ".join(problems))


def unread_after(text: str, error: NatstuiError) -> RequestFailed:
    """Return the error of a change that the server confirmed, and that cannot be read again."""
    reason = error.reason if isinstance(error, ServerGone) else str(error)
    return RequestFailed(f"{text}, as the server replied; it could not be read again: {reason}")


def check_named(change: Change) -> None:
    """Raise Refused if a change of a consumer names none."""
    if change.consumer is None and change.action in OF_CONSUMER:
        raise Refused(f"no consumer of {change.stream} was named: nothing was changed")


async def current_target(writer: Writer, change: Change) -> Asset:
    """Return the stream or consumer of a change, in its current state.

    Raises Conflict when it was deleted and recreated since the user decided, and Refused when the
    consumer is not named, or a confirmed change has no identity.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    target_text = f"{kind} {change.consumer or change.stream}"
    check_named(change)
    unsaid = change.confirmed is not None and change.created_at_us is None
    if unsaid and change.action in IRREVERSIBLE:
        raise Refused(f"the creation time of {target_text} is missing: nothing was changed")
    asset = await read_asset(writer, kind, change.stream, change.consumer or "")
    if change.created_at_us not in (None, asset.created_at_us):
        raise Conflict(f"{target_text} was recreated before you confirmed: nothing was changed")
    return asset


async def target_with_loss(writer: Writer, change: Change) -> Asset:
    """Return the target of a change with its losses; raises what `current_target` raises."""
    return await with_counted_loss(writer, change, await current_target(writer, change))


async def with_counted_loss(writer: Writer, change: Change, asset: Asset) -> Asset:
    """Return the asset with the losses of a change counted.

    Raises Conflict when they are more than the preview and later messages, or of other messages.
    """
    stream = await _stream(writer, change.stream) if change.consumer else asset
    last_seq, last_at_us = newest_of(stream.info["state"]) if stream else (None, None)
    seen = change.previewed_last_seq or 0, change.previewed_last_at_us or 0
    if stream and await has_gone_back(writer.client, change.stream, stream.info["state"], *seen):
        raise Conflict(f"{gone_back_text(change.stream)}: nothing was changed")
    loss, seen_msgs = await loss_of(writer.client, change, asset), change.previewed_msgs
    if seen_msgs is not None and loss.most_msgs is not None and loss.most_msgs > seen_msgs:
        now, then_seq = await _stream(writer, change.stream), change.previewed_last_seq
        is_told = seen_msgs > 0 or change.action in TELLS_GROWTH
        published_msgs = 0
        if is_told and now and then_seq is not None:
            published_msgs = last_seq_of(now) - then_seq
        if loss.most_msgs > seen_msgs + published_msgs:
            seen_text = counted(seen_msgs, "message")
            raise Conflict(
                f"{loss.text}, but it was {seen_text} when you confirmed: nothing was changed"
            )
    return replace(
        asset,
        loss=loss,
        stream_created_at_us=stream.created_at_us if stream and change.consumer else None,
        stream_last_seq=last_seq,
        stream_last_at_us=last_at_us,
    )


def last_seq_of(stream: Asset) -> int:
    """Return the last sequence of a stream."""
    return int(stream.info["state"]["last_seq"])


async def _stream(writer: Writer, name: str) -> Asset | None:
    """Return a stream in its current state; None if the user may not read it."""
    try:
        return await read_asset(writer, "stream", name)
    except PermissionDenied:
        return None


async def exists(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> bool:
    """Return whether a stream or consumer of that name exists."""
    try:
        await read_config(writer, kind, stream, consumer)
    except NotFound:
        return False
    return True


def check_problems(problems: tuple[Problem, ...]) -> None:
    """Raise UsageError with every problem, as the form shows them."""
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problem.text for problem in problems)))


async def create(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Create a stream or consumer; raises Conflict when it exists."""
    kind: AssetKind = "consumer" if change.action == "create_consumer" else "stream"
    wanted_config: Config = json.loads(change.body_json)
    if kind == "consumer" and not change.consumer:
        # A name of the server would be in no journal, and nothing could undo it.
        change = replace(change, consumer=uuid.uuid4().hex[:8])
        wanted_config["name"] = change.consumer
    name = change.consumer or change.stream
    await _check(writer, kind, change.stream, wanted_config)
    if await exists(writer, kind, change.stream, name):
        raise Conflict(f"{kind} {name} exists already")
    verb, body = _asked(writer, kind, change, wanted_config, "create")
    loss = await loss_of_new(writer.client, change)
    request = Request(verb, body, wanted_config, loss=loss)
    reply = await writer.write(change, request, undoes)
    after: Config = reply["config"]
    created_name = after.get("name", name)
    created_text = reply.get("created")
    text = f"{kind} {created_name} created"
    if used := used_text(reply):
        text = f"{kind} {created_name} is there: {used}; undo does not delete it"
    return ChangeResult(
        text, None, after, not_taken(kind, wanted_config, after),
        created_at_us=time_us(created_text) if created_text else None,
    )  # fmt: skip


async def edit(writer: Writer, change: Change, undoes: str | None = None) -> ChangeResult:
    """Change the configuration of a stream or consumer.

    Raises EditConflict when it was changed since the user saw it.
    """
    kind: AssetKind = "consumer" if change.action == "edit_consumer" else "stream"
    wanted_config: Config = json.loads(change.body_json)
    asset = await current_target(writer, change)
    current = asset.config
    name = change.consumer or change.stream
    seen_config: Config | None = json.loads(change.seen_json) if change.seen_json else None
    if seen_config is not None and normal(kind, seen_config) != normal(kind, current):
        raise EditConflict(f"{kind} {name}", seen_config, current)
    await _check(writer, kind, change.stream, wanted_config, current)
    diffs = differences(kind, current, wanted_config)
    if not diffs:
        return ChangeResult(
            f"{kind} {name} has this configuration already: nothing was changed", current, current
        )
    check_problems(tuple(Problem(d.path, d.refused) for d in diffs if d.refused))
    verb, body = _asked(writer, kind, change, wanted_config, "update")
    asset = await with_counted_loss(writer, change, asset)
    # The server cannot compare: whoever changed it since it was read here would lose the change.
    newest = await current_target(writer, change)
    if newest.created_at_us != asset.created_at_us or newest.config != current:
        raise EditConflict(f"{kind} {name}", current, newest.config)
    request = Request(verb, body, wanted_config, asset)
    assets, problems = list[Asset](), list[NatstuiError]()

    async def read_back(reply: Config) -> Config:
        try:
            now = await read_asset(writer, kind, change.stream, change.consumer or "")
        except NatstuiError as error:
            problems.append(error)
            return reply
        assets.append(now)
        # After a restart the server replies to the first change of a consumer with what was there
        # before. Else what it shows now may have a change by somebody else, which is not ours to
        # undo.
        return (
            reply
            if differences(kind, current, reply["config"])
            else {**reply, "config": now.config}
        )

    after: Config = (await writer.write(change, request, undoes, read_back))["config"]
    if problems:
        raise unread_after(f"{kind} {name} changed", problems[0]) from problems[0]
    if assets[0].created_at_us != asset.created_at_us:
        problem = recreated_text(kind, name)
        return ChangeResult(f"{kind} {name} changed", current, after, (), problem)
    missing = not_taken(kind, wanted_config, after, current)
    if not differences(kind, current, after):
        labels = ", ".join(difference.label for difference in missing)
        problem = f"the server left it as it was, without a refusal: {labels} not changed"
        return ChangeResult(f"{kind} {name} unchanged", current, after, missing, problem)
    paths = {diff.path for diff in diffs} - {difference.path for difference in missing}
    overwritten = await _overwritten(writer, change, asset, after, paths)
    return ChangeResult(f"{kind} {name} changed", current, after, missing, overwritten)


async def _overwritten(
    writer: Writer, change: Change, before: Asset, replied: Config, edited_paths: set[str]
) -> str:
    """Return what somebody else set back or changed of an edit at the same time; empty if nothing.

    The server has no compare-and-set: an edit by somebody who read the configuration before ours
    arrives after it, and has the old values. `replied` is what the server replied to ours,
    which set `edited_paths`.
    """
    kind: AssetKind = "stream" if change.consumer is None else "consumer"
    # A new leader may be a moment behind: what differs is read once more.
    for _ in range(2):
        await asyncio.sleep(OVERWRITTEN_WITHIN_S)
        try:
            now = await read_asset(writer, kind, change.stream, change.consumer or "")
        except NatstuiError as error:
            reason = error.reason if isinstance(error, ServerGone) else str(error)
            return f"whether somebody else changed it at the same time is unknown: {reason}"
        if now.created_at_us != before.created_at_us:
            return recreated_text(kind, change.consumer or change.stream)
        diffs = differences(kind, replied, now.config)
        lost = [difference for difference in diffs if difference.path in edited_paths]
        if not lost:
            return ""
    fields = ", ".join(
        f"{difference.label} was set to {difference.before or 'nothing'} and is now "
        f"{difference.after or 'nothing'}"
        for difference in lost
    )
    return f"somebody else changed it at the same time: {fields}"


def _asked(
    writer: Writer, kind: AssetKind, change: Change, config: Config, action: str
) -> tuple[str, Config]:
    """Return verb and body of a request that creates or updates."""
    config = without_newer(config, fields_of(kind), writer.client.api_level)
    if kind == "stream":
        return f"STREAM.{action.upper()}.{change.stream}", config
    return consumer_request(change.stream, change.consumer or "", config, action)


async def _check(
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
    owner = await read_config(writer, "stream", stream)
    check_problems(consumer_problems(wanted_config, owner, level, config_before=seen_config))
