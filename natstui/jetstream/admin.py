"""Changes to streams and consumers: read, change, write, read back. Raw JSON, nothing lost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from natstui.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    RequestTimedOut,
    ServerGone,
    UsageError,
)
from natstui.jetstream.writer import Config, Request, Writer
from natstui.model.config_change import AssetKind, Difference, differences, normal, not_taken
from natstui.model.config_rules import Problem
from natstui.model.consumer_rules import consumer_problems
from natstui.model.manage import Change
from natstui.model.stream_rules import stream_problems


class EditConflict(Conflict):
    """Somebody changed it between reading and writing; both versions are here."""

    def __init__(self, name: str, seen: Config, current: Config) -> None:
        super().__init__(f"{name} was changed by somebody else meanwhile: nothing was written")
        self.seen = seen
        self.current = current


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change did."""

    text: str
    """One sentence for people."""
    before: Config | None
    after: Config | None
    not_taken: tuple[Difference, ...] = ()
    """What was asked for and is not so: `before` is the wish, `after` what the server made."""


async def read_config(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> Config:
    """Return the configuration on the server; raises NotFound."""
    name = stream if kind == "stream" else f"{stream}.{consumer}"
    reply: Config = json.loads(await writer.client.request(f"{kind.upper()}.INFO.{name}"))
    config: Config = reply["config"]
    return config


async def exists(writer: Writer, kind: AssetKind, stream: str, consumer: str = "") -> bool:
    """Tell whether there is a stream or consumer of that name."""
    try:
        await read_config(writer, kind, stream, consumer)
    except NotFound:
        return False
    return True


def check_problems(problems: tuple[Problem, ...]) -> None:
    """Raise UsageError with every sentence, as the form shows them."""
    if problems:
        raise UsageError("; ".join(dict.fromkeys(problem.text for problem in problems)))


async def create(writer: Writer, change: Change, undoes: str | None = None) -> Changed:
    """Make a stream or consumer that does not exist yet; raises Conflict when it does."""
    kind: AssetKind = "consumer" if change.action == "create_consumer" else "stream"
    wanted: Config = json.loads(change.body_json)
    name = change.consumer or "" if kind == "consumer" else change.stream
    await _check(writer, kind, change.stream, wanted, creating=True)
    if name and await exists(writer, kind, change.stream, name):
        raise Conflict(f"{kind} {name} exists already")
    body = wanted if kind == "stream" else _consumer_body(change.stream, wanted, "create")
    request = Request(_verb("CREATE", kind, change), body, wanted)
    reply = await writer.write(change, request, undoes)
    after: Config = reply["config"]
    made = after.get("name", name)
    return Changed(f"{kind} {made} made", None, after, not_taken(kind, wanted, after))


async def edit(writer: Writer, change: Change, undoes: str | None = None) -> Changed:
    """Give a stream or consumer another configuration.

    Raises EditConflict when it is not as the user saw it any more.
    """
    kind: AssetKind = "consumer" if change.action == "edit_consumer" else "stream"
    wanted: Config = json.loads(change.body_json)
    current = await read_config(writer, kind, change.stream, change.consumer or "")
    name = change.consumer or change.stream
    seen: Config | None = json.loads(change.seen_json) if change.seen_json else None
    if seen is not None and normal(kind, seen) != normal(kind, current):
        raise EditConflict(f"{kind} {name}", seen, current)
    await _check(writer, kind, change.stream, wanted, creating=False)
    found = differences(kind, current, wanted)
    if not found:
        return Changed(f"{kind} {name} is so already: nothing was written", current, current)
    check_problems(tuple(Problem(d.path, d.refused) for d in found if d.refused))
    body = wanted if kind == "stream" else _consumer_body(change.stream, wanted, "update")
    request = Request(_verb("UPDATE", kind, change), body, wanted, current)
    await writer.write(change, request, undoes)
    try:
        after = await read_config(writer, kind, change.stream, change.consumer or "")
    except (RequestTimedOut, ServerGone) as error:
        raise OutcomeUnknown(f"{kind} {name} was changed, but {error}") from error
    return Changed(f"{kind} {name} changed", current, after, not_taken(kind, wanted, after))


def _consumer_body(stream: str, config: Config, action: str) -> dict[str, Any]:
    return {"stream_name": stream, "config": config, "action": action}


def _verb(verb: str, kind: AssetKind, change: Change) -> str:
    if kind == "stream":
        return f"STREAM.{verb}.{change.stream}"
    named = f".{change.consumer}" if change.consumer else ""
    return f"CONSUMER.CREATE.{change.stream}{named}"


async def _check(
    writer: Writer, kind: AssetKind, stream: str, wanted: Config, *, creating: bool
) -> None:
    level = writer.client.api_level
    if kind == "stream":
        check_problems(stream_problems(wanted, level, creating=creating))
        return
    owner = await read_config(writer, "stream", stream)
    check_problems(consumer_problems(wanted, owner, level))
