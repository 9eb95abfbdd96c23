"""Events in `natstui watch`: rows that are printed once, when something changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from natstui.cli.watch.server import ServerRow, server_row
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    Advisory,
    Record,
    Restored,
    Unavailable,
)


class RemovedRow(Struct, frozen=True, kw_only=True):
    """A stream or a consumer was deleted; if recreated under its name, it is another one."""

    schema: Literal[1] = 1
    kind: Literal["removed"] = "removed"
    name: str
    stream: str | None
    """The stream of a consumer; null when a stream was deleted."""
    at_us: int
    created_at_us: int


class UnavailableRow(Struct, frozen=True, kw_only=True):
    """Something cannot be read; its last values become stale."""

    schema: Literal[1] = 1
    kind: Literal["unavailable"] = "unavailable"
    name: str
    """The API verb or source, as CONSUMER.LIST."""
    at_us: int
    reason: str
    denied_subject: str | None
    """The subject the user has no permission for, when that is the reason."""


class RestoredRow(Struct, frozen=True, kw_only=True):
    """Something that was unavailable can be read again."""

    schema: Literal[1] = 1
    kind: Literal["restored"] = "restored"
    name: str
    at_us: int


class AdvisoryRow(Struct, frozen=True, kw_only=True):
    """An advisory about a stream or a consumer."""

    schema: Literal[1] = 1
    kind: Literal["advisory"] = "advisory"
    name: str
    """The last word of the advisory's type, as max_deliver."""
    at_us: int
    stream: str | None
    consumer: str | None
    text: str


EventRow = RemovedRow | UnavailableRow | RestoredRow | AdvisoryRow


class SystemRow(Struct, frozen=True, kw_only=True):
    """A change of the process that watches one of several systems."""

    schema: Literal[1] = 1
    kind: Literal["system"] = "system"
    system: str
    """Its context or profile."""
    at_us: int
    state: Literal["started", "ended"]
    """An ended process is restarted after 2 s."""
    reason: str | None
    """Its last error, if there is one."""
    exit_code: int | None
    """Its exit code; negative for a signal."""


def create_event_rows(
    state_before: State, record: Record, state_after: State
) -> Iterator[EventRow | ServerRow]:
    """Yield the events of a record, which are printed at once.

    `state_before` and `state_after` are the states before and after the record. Most records have
    no event.
    """
    match record:
        case Snapshot():
            yield from removed_rows(state_before, state_after)
            yield from _reachability_rows(state_before, state_after)
        case LinkChanged() if record.state != "connected" and (row := server_row(state_after)):
            yield row
        case Unavailable():
            yield UnavailableRow(
                name=record.what,
                at_us=record.at_us,
                reason=record.reason,
                denied_subject=record.denied_subject,
            )
        case Restored():
            yield RestoredRow(name=record.what, at_us=record.at_us)
        case Advisory():
            yield AdvisoryRow(
                name=record.type,
                at_us=record.at_us,
                stream=record.stream,
                consumer=record.consumer,
                text=record.text,
            )
        case _:
            return


def removed_rows(state_before: State, state_after: State) -> Iterator[RemovedRow]:
    """Yield the streams and consumers of `state_before` that are deleted in `state_after`.

    A recreated stream or consumer has another creation time, so that the old one counts as
    deleted.
    """
    before_and_after_tables = (
        (state_before.streams, state_after.streams),
        (state_before.consumers, state_after.consumers),
    )
    for before_table, after_table in before_and_after_tables:
        if before_table.roster is after_table.roster:
            continue
        for key in before_table.roster.keys:
            if key not in after_table.roster.row_of:
                *path, created_at_us = key
                yield RemovedRow(
                    name=str(path[-1]),
                    stream=str(path[0]) if len(path) > 1 else None,
                    at_us=state_after.now_at_us,
                    created_at_us=int(created_at_us),
                )


_NO_REPLY_TEXT = "the leader does not reply"


def _reachability_rows(
    state_before: State, state_after: State
) -> Iterator[UnavailableRow | RestoredRow]:
    """Yield the streams and consumers that became unreachable, or reachable again."""
    name_changes = (
        (
            "STREAM.INFO",
            *_added_and_removed_names(
                state_before.unreachable_streams, state_after.unreachable_streams
            ),
        ),
        (
            "CONSUMER.INFO",
            *_added_and_removed_names(
                state_before.unreachable_consumers, state_after.unreachable_consumers
            ),
        ),
    )
    refusal_reason_by_name = {
        ".".join(filter(None, name)): reason for name, reason in state_after.offline.items()
    }
    for api_verb, unavailable_names, restored_names in name_changes:
        for name in unavailable_names:
            reason = (
                f"the server refuses to run it: {refusal_reason_by_name[name]}"
                if name in refusal_reason_by_name
                else None
            )
            yield UnavailableRow(
                name=f"{api_verb}.{name}",
                at_us=state_after.now_at_us,
                reason=reason or _NO_REPLY_TEXT,
                denied_subject=None,
            )
        for name in restored_names:
            yield RestoredRow(name=f"{api_verb}.{name}", at_us=state_after.now_at_us)


def _added_and_removed_names(
    assets_before: frozenset[str] | frozenset[tuple[str, str]],
    assets_after: frozenset[str] | frozenset[tuple[str, str]],
) -> tuple[list[str], list[str]]:
    """Return the names that are only in `assets_after`, then those only in `assets_before`, both
    ordered.
    """
    names_before, names_after = (
        {name if isinstance(name, str) else ".".join(name) for name in names}
        for names in (assets_before, assets_after)
    )
    return sorted(names_after - names_before), sorted(names_before - names_after)


def event_sentence(row: EventRow) -> str:
    """Return an event as a sentence, whose control characters are not replaced."""
    match row:
        case RemovedRow(stream=None):
            return f"deleted: stream {row.name}"
        case RemovedRow():
            return f"deleted: consumer {row.name} on {row.stream}"
        case UnavailableRow():
            return f"unavailable: {row.name}: {row.reason}"
        case RestoredRow():
            return f"available again: {row.name}"
        case AdvisoryRow():
            return f"advisory: {row.text}"
