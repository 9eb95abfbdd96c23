"""Pause, resume, reset, unpin, delete, step down: what is done to a consumer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from natstui.errors import RequestFailed, UsageError
from natstui.jetstream.admin import Changed, read_config
from natstui.jetstream.writer import Config, Request, Writer
from natstui.model.config_field import SERVER_OF_LEVEL
from natstui.model.manage import Change
from natstui.units import parse_duration_ns

_PAUSE_LEVEL, _UNPIN_LEVEL, _RESET_LEVEL = 1, 1, 4


async def delete_consumer(writer: Writer, change: Change, undoes: str | None = None) -> Changed:
    """Delete a consumer and what it knows of deliveries."""
    before = await _config(writer, change)
    await writer.write(change, Request(_verb("DELETE", change), None, {}, before), undoes)
    return Changed(f"{_what(change)} deleted", before, None)


async def pause_consumer(writer: Writer, change: Change) -> Changed:
    """Deliver nothing before the moment `pause_until`: a time, or a duration from now."""
    _need(writer, _PAUSE_LEVEL, "pausing")
    asked: Config = json.loads(change.body_json)
    until = moment_of(str(asked.get("pause_until") or ""))
    before = await _config(writer, change)
    body = {"pause_until": until}
    reply = await writer.write(change, Request(_verb("PAUSE", change), body, body, before))
    if not reply.get("paused"):
        return Changed(f"{_what(change)} is not paused: {until} is past", before, before)
    return Changed(f"{_what(change)} paused until {reply['pause_until']}", before, before)


async def resume_consumer(writer: Writer, change: Change, undoes: str | None = None) -> Changed:
    """Deliver again."""
    _need(writer, _PAUSE_LEVEL, "pausing")
    before = await _config(writer, change)
    await writer.write(change, Request(_verb("PAUSE", change), {}, {}, before), undoes)
    return Changed(f"{_what(change)} resumed", before, before)


async def reset_consumer(writer: Writer, change: Change) -> Changed:
    """Deliver again from the ack floor, or from the sequence `seq`."""
    _need(writer, _RESET_LEVEL, "resetting")
    asked: Config = json.loads(change.body_json)
    body = {"seq": asked["seq"]} if asked.get("seq") else {}
    before = await _config(writer, change)
    await writer.write(change, Request(_verb("RESET", change), body, body, before))
    where = f"sequence {asked['seq']}" if body else "its ack floor"
    return Changed(f"{_what(change)} delivers again from {where}", before, before)


async def unpin_consumer(writer: Writer, change: Change) -> Changed:
    """Take the pin of the priority group `group` from its client."""
    _need(writer, _UNPIN_LEVEL, "unpinning")
    asked: Config = json.loads(change.body_json)
    body = {"group": str(asked.get("group") or "")}
    before = await _config(writer, change)
    await writer.write(change, Request(_verb("UNPIN", change), body, body, before))
    return Changed(f"group {body['group']!r} of {_what(change)} unpinned", before, before)


async def step_down_consumer(writer: Writer, change: Change) -> Changed:
    """Let a replicated consumer elect another leader."""
    await writer.write(change, Request(_verb("LEADER.STEPDOWN", change), None, {}))
    return Changed(f"the leader of {_what(change)} steps down", None, None)


def moment_of(text: str, now: datetime | None = None) -> str:
    """Return the moment that `1h30m` from now or a written time means; raises UsageError."""
    try:
        if "-" in text:
            moment = datetime.fromisoformat(text)
            return text if moment.tzinfo else moment.astimezone().isoformat()
        after = timedelta(microseconds=parse_duration_ns(text) / 1000)
        moment = (now or datetime.now(UTC)) + after
    except ValueError as error:
        raise UsageError(f"{text!r} is neither a time nor a duration") from error
    except OverflowError as error:
        raise UsageError(f"{text!r} from now is beyond the calendar") from error
    return moment.isoformat().replace("+00:00", "Z")


async def _config(writer: Writer, change: Change) -> Config:
    return await read_config(writer, "consumer", change.stream, change.consumer or "")


def _verb(verb: str, change: Change) -> str:
    return f"CONSUMER.{verb}.{change.stream}.{change.consumer}"


def _what(change: Change) -> str:
    return f"consumer {change.consumer} on {change.stream}"


def _need(writer: Writer, level: int, what: str) -> None:
    """Raise RequestFailed for an older server, which would not answer at all."""
    present = writer.client.api_level
    if present is not None and present < level:
        raise RequestFailed(f"{what} a consumer needs server {SERVER_OF_LEVEL[level]} or newer")
