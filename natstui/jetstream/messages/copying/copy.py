"""A copy of messages: read, mapped to another subject and id, sent, counted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from natstui.clock import steady_s
from natstui.errors import (
    BackupError,
    NatstuiError,
    PermissionDenied,
    RequestFailed,
    SessionError,
    UsageError,
    WriteFailed,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import (
    EXPECTED_STREAM,
    gone_back_text,
    gone_since,
    has_gone_back,
    missing_count,
    newest_of,
    not_kept,
)
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.copying.account import (
    MOST_RANGES,
    Account,
    Ranges,
    State,
    StateFile,
    has_seq,
    merged_ranges,
    ranges_from,
    seqs_of,
)
from natstui.jetstream.messages.copying.message_file import (
    FilePart,
    MessageFile,
    SourceFile,
)
from natstui.jetstream.messages.copying.selection import (
    Gaps,
    Selection,
    after_outages,
    find_removed,
    messages,
)
from natstui.jetstream.messages.copying.window import (
    Outgoing,
    Window,
    created_at,
    keeps_all,
)
from natstui.jetstream.messages.reading import Read
from natstui.model.assets.limits_loss import ONE_WRITE_HEADERS, rolled_up_filters
from natstui.model.assets.subjects import has_wildcard, map_subject, mapping_problem, overlap
from natstui.units import duration_text

MSG_ID = "Nats-Msg-Id"
KEPT_ID = "Natstui-Msg-Id"
"""Header with the publisher's id when the copy gets one of its own."""
_SERVERS = ("$JS.>", "$SYS.>")
_SAVED_EVERY_S = 0.2
_FILE_SAVED_EVERY_S = 1.0
MOST_UNSAVED_MSGS = 1_000
"""Limit of messages that are sent before the state is written again: those of a killed copy."""
_DRAIN_S = 5.0

Ids = Literal["made", "kept"]


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate of sending; without limits as fast as messages are acknowledged."""

    per_s: float | None = None
    as_stored: bool = False
    """Keep the intervals in which messages were stored."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target stream and subjects of a copy."""

    stream: str | None = None
    """Required target stream: messages for other streams are refused."""
    maps: tuple[tuple[str, str], ...] = ()
    """Subject patterns → new subject; the first match counts."""
    ids: Ids = "made"

    def subject_of(self, subject: str) -> str:
        """Return the target subject of a message."""
        return _subject_of(self.maps, subject)

    def check(self) -> None:
        """Raise UsageError for an impossible mapping."""
        for source, new_subject in self.maps:
            problem = mapping_problem(source, new_subject)
            # A subject without `>` may take the place of all.
            if problem is not None and "must end with >" not in problem:
                raise UsageError(f"--map {source}:{new_subject}: {problem}")
            try:
                map_subject(source.replace("*", "x").replace(">", "x"), source, new_subject)
            except ValueError as error:
                raise UsageError(f"--map {source}:{new_subject}: {error}") from error


@lru_cache(maxsize=1024)
def _subject_of(maps: tuple[tuple[str, str], ...], subject: str) -> str:
    candidates = (map_subject(subject, source, new_subject) for source, new_subject in maps)
    return next((candidate for candidate in candidates if candidate is not None), subject)


@lru_cache(maxsize=1024)
def _of_server(subject: str) -> bool:
    return any(overlap(server_subject, subject) for server_subject in _SERVERS)


class SeqRanges:
    """Known sequences, in memory as ranges only."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def __iter__(self) -> Iterator[int]:
        return seqs_of(self._ranges)


@dataclass
class Copy:
    """A copy: source, target, pace and position."""

    target: Target
    selection: Selection | None = None
    """The messages of a stream; None for a file."""
    from_file: Path | None = None
    pace: Pace = field(default_factory=Pace)
    state: State | None = None
    """State of a stopped copy to continue."""
    file: StateFile | None = None
    account: Account = field(default_factory=Account)
    on_progress: Callable[[Account, str], None] = lambda _account, _waits: None
    first_open: Callable[[], Outgoing | None] = lambda: None
    """Returns the first message that was sent and has no result yet."""
    is_complete: bool = False
    """Whether all messages were read, and the results of all that were sent were waited for."""
    saved_seq: int | None = None
    """The sequence after which --resume continues; None before the state is written."""
    _saved: tuple[int, int] | None = None
    """The messages read and in flight when the state was written."""
    _sent_seq: int = 0
    """The last message that was sent."""
    _source_file: SourceFile | None = None
    """The file that is being read."""
    _gaps: Gaps | None = None
    """What is between the messages of a range; None where not all of them are wanted, or kept."""

    def sent(self, source_message: Read) -> None:
        """Count a message as sent."""
        self._sent_seq = source_message.stream_seq

    @property
    def _untried(self) -> Ranges:
        """Return the ranges that were refused before and have no result now."""
        if self.state is None:
            return []
        first_open = self.first_open()
        from_seq = self._sent_seq + 1 if first_open is None else first_open.seq
        return ranges_from(self.state.refused_ranges, from_seq)

    @property
    def _source_part(self) -> FilePart:
        """Return the part of the source file that the stopped copy has read."""
        state = self.state or State(end_seq=0)
        return FilePart(state.source_lines_count, state.source_sha256)

    async def check_source(self, client: Client) -> None:
        """Raise UsageError when the stream is not the one that the stopped copy has read."""
        created_at_us = self.selection.created_at_us if self.selection else 0
        if self.state is not None and self.state.source_created_at_us != created_at_us:
            raise UsageError(
                f"{self.name} was deleted and recreated in the meantime: copy again without "
                "--resume"
            )
        if self.state is None or self.selection is None:
            return
        state, newest = self.selection.state, self.state.source_newest
        if await has_gone_back(client, self.name, state, *newest):
            raise UsageError(f"{gone_back_text(self.name)}: copy again without --resume")

    @property
    def end_seq(self) -> int:
        """Return the last sequence to copy."""
        return self.selection.end_seq if self.selection is not None else 2**63 - 1

    @property
    def name(self) -> str:
        """Return a name of the copied messages for people."""
        return self.selection.wanted.stream if self.selection else str(self.from_file)

    async def messages(
        self, client: Client, *, headers_only: bool = False
    ) -> AsyncGenerator[tuple[Read, str] | int, None]:
        """Yield the messages with a text that identifies each; first those that were refused."""
        after_seq = self.state.done_seq if self.state else 0
        if self.selection is None:
            assert self.from_file is not None
            self._source_file = source_file = SourceFile(self.from_file, self._source_part)
            refused_ranges = self.state.refused_ranges if self.state else []
            wanted = source_file.messages(
                lambda seq: seq > after_seq or has_seq(refused_ranges, seq)
            )
            async with aclosing(wanted) as lines:
                async for line in lines:
                    yield line
            return
        identity = f"{self.selection.wanted.stream} {self.selection.created_at_us}"
        if self.selection.is_whole and not headers_only:
            self._gaps = Gaps(self.selection, self.state)
        if self.state is not None:
            removed_after = None if self._gaps else self.selection.removed_after(after_seq)
            for seqs in filter(None, (self.state.removed_seqs, removed_after)):
                self.account.miss(*seqs)
        parts = [(self.selection, after_seq)]
        if self.state and self.state.refused_ranges:
            retried = replace(self.selection, seqs=SeqRanges(self.state.refused_ranges))
            parts.insert(0, (retried, 0))
        for selection, after in parts:
            source = messages(client, selection, after, headers_only=headers_only)
            is_retried = selection is not self.selection
            gaps = None if is_retried else self._gaps
            last_read: Read | None = None
            async with aclosing(source) as source_messages:
                async for item in source_messages:
                    if isinstance(item, int):
                        if is_retried and not selection.may_be_consumed:
                            self.account.miss(item, item)
                        yield item
                        continue
                    last_read = item
                    if gaps is not None:
                        gaps.add(item.stream_seq)
                    # A stream that went back gives a sequence to another message.
                    yield item, f"{identity} {item.stream_seq} {item.stored_at_us}"
            removed_seqs = None
            if gaps is not None:
                removed_seqs = gaps.removed_seqs
            elif last_read is not None or not after:
                removed_seqs = await find_removed(client, selection, last_read)
            if removed_seqs is not None:
                self.account.miss(*removed_seqs)

    def outgoing(self, source_message: Read, identity: str) -> Outgoing | str:
        """Return the message to send, or why it is refused."""
        subject = self.target.subject_of(source_message.subject)
        if _of_server(subject):
            return f"{subject.split('.')[0]} belongs to the server"
        if self.from_file is not None and has_wildcard(subject):
            return "its subject has a wildcard: a message has one subject"
        headers = [
            pair
            for pair in source_message.headers
            if not pair[0].lower().startswith(ONE_WRITE_HEADERS)
        ]
        self.account.without_rollup_msgs += bool(
            rolled_up_filters(subject, source_message.headers)
        )
        own_id = next(
            (text.strip() for name, text in headers if name.lower() == MSG_ID.lower()), None
        )
        has_own_id = own_id is not None and self.target.ids == "kept"
        if not has_own_id:
            headers = [
                (KEPT_ID if name.lower() == MSG_ID.lower() else name, text)
                for name, text in headers
            ]
            digest = hashlib.sha256(f"{identity} {subject}".encode()).hexdigest()
            headers.append((MSG_ID, f"natstui-{digest[:24]}"))
        if self.target.stream:
            headers.append((EXPECTED_STREAM, self.target.stream))
        return Outgoing(
            source_message.stream_seq, subject, source_message.payload, tuple(headers), has_own_id
        )

    @property
    def unsaved_msgs(self) -> int:
        """Return how many messages were sent since the state was written."""
        return self.account.read_msgs - (self._saved[0] if self._saved else 0)

    def save(self) -> None:
        """Write the state, if there is anything new; raises SessionError.

        A killed copy has sent no more after this than `MOST_UNSAVED_MSGS`.
        """
        account = self.account
        if self._saved != (account.read_msgs, account.in_flight_msgs):
            self._write(account.in_flight_msgs + MOST_UNSAVED_MSGS)

    def save_written(self, file: MessageFile) -> None:
        """Write the state of a file; raises BackupError and SessionError."""
        # A killed copy goes on behind what is on the disk.
        file.sync()
        self._write(0, file.written_bytes, file.sha256)

    def _write(self, unknown_msgs: int, file_bytes: int = 0, file_sha256: str = "") -> None:
        if self.file is None:
            return
        account, before = self.account, self.state or State(end_seq=0)
        first_open = self.first_open()
        open_s = time.monotonic() - first_open.first_sent_s if first_open else 0.0
        done_seq = max(before.done_seq, account.done_seq)
        source_file = self._source_file
        source_part = source_file.part_until(done_seq) if source_file else self._source_part
        selection = self.selection
        self.file.write(
            State(
                begin_seq=selection.begin_seq if selection else 1,
                end_seq=self.end_seq, done_seq=done_seq,
                lacking_count=selection.lacking_count if selection else 0,
                skipped=self._gaps.until(done_seq) if self._gaps else before.skipped,
                removed_seqs=account.removed_seqs or before.removed_seqs,
                refused_ranges=merged_ranges(account.refused_ranges, self._untried),
                source_created_at_us=selection.created_at_us if selection else 0,
                source_newest=newest_of(selection.state) if selection else (0, 0),
                target_created_at_us=before.target_created_at_us | account.target_created_at_us,
                target_newest=before.target_newest | account.target_newest,
                target_ranges={
                    stream: merged_ranges(
                        before.target_ranges.get(stream, []), account.stored_ranges.get(stream, [])
                    )
                    for stream in before.target_ranges | account.stored_ranges
                },
                unknown_msgs=unknown_msgs, sent_at_us=round((time.time() - open_s) * 1e6),
                file_bytes=file_bytes, file_sha256=file_sha256,
                source_lines_count=source_part.lines_count, source_sha256=source_part.sha256,
            )
        )  # fmt: skip
        self.saved_seq, self._saved = done_seq, (account.read_msgs, account.in_flight_msgs)

    def finish(self) -> None:
        """Delete the state when all messages were stored, or none was sent; else write it."""
        account = self.account
        is_stored = self.is_complete and not (account.refused_msgs or account.unknown_msgs)
        if is_stored or not (account.read_msgs or account.is_stopped or self.state):
            self.forget()
        else:
            self._write(account.unknown_msgs)

    def forget(self) -> None:
        """Delete the state."""
        if self.file is not None:
            self.file.remove()


async def send_copy(
    source: Client, writer: Writer, copy: Copy, confirmed_names: tuple[str, str | None],
    stop: asyncio.Event,
) -> None:  # fmt: skip
    """Copy messages into streams, journalled as one; the account has the result.

    `stop` ends it regularly: messages in flight are waited for. Raises what `Writer.send` raises,
    OutcomeUnknown when the result of messages is unknown.
    """
    arguments: dict[str, Any] = {
        "copied_from": copy.name, "subject": confirmed_names[0], "payload_bytes": 0,
        "maps": [f"{pattern} → {new_subject}" for pattern, new_subject in copy.target.maps],
    }  # fmt: skip
    account, began_s = copy.account, steady_s()
    await copy.check_source(source)
    await _check_targets(writer.client, copy)

    async def send_all(window: Window) -> None:
        await _send(source, copy, window)
        await window.drain()
        await _compare(writer.client, account, began_s)

    async def work() -> None:
        async with Window(
            writer.client, account, lambda text: copy.on_progress(account, text)
        ) as w:
            copy.first_open = lambda: w.first_open
            try:
                try:
                    await _until_stopped(copy, send_all(w), stop, copy.save, _SAVED_EVERY_S)
                except NatstuiError:
                    # What was sent before is stored, and answers to it may be on their way.
                    with suppress(NatstuiError, TimeoutError):
                        async with asyncio.timeout(_DRAIN_S):
                            await w.drain()
                    raise
                if account.is_stopped:
                    async with asyncio.timeout(_DRAIN_S):
                        await w.drain()
                        await _compare(writer.client, account, began_s)
                copy.is_complete = not account.is_stopped
            except TimeoutError:
                pass  # the account says how many are open
            finally:
                w.give_up()
                copy.finish()

    await writer.send(
        JournalDraft("publish", "", None, arguments, doubt="some messages may have been stored"),
        confirmed_names,
        work,
        lambda _: {"sent_count": account.acknowledged_msgs, "read_count": account.read_msgs,
                   "refused_count": account.refused_msgs,
                   "not_kept_count": account.not_kept.total()},
    )  # fmt: skip


async def _compare(client: Client, account: Account, began_s: float) -> None:
    """Count messages that the target acknowledged, since `began_s` or before, and did not keep."""
    for stream, ranges in account.stored_ranges.items():
        check = partial(
            not_kept, client, stream, ranges, age_s=steady_s() - began_s,
            sent_msgs=account.stored_subjects.get(stream),
        )  # fmt: skip
        try:
            missing = await after_outages(check)
        except PermissionDenied:
            account.unchecked.append(stream)
            continue
        if missing is not None:
            count, reason = missing
            account.not_kept[reason] = min(count, account.acknowledged_msgs)
    for stream, ranges in account.had_ranges.items():
        try:
            count, reason, is_consumed = await after_outages(
                partial(gone_since, client, stream, ranges)
            )
        except PermissionDenied:
            account.unchecked.append(stream)
            continue
        if count:
            account.no_longer_there[reason] += count
            account.may_be_consumed &= is_consumed


async def _check_targets(client: Client, copy: Copy) -> None:
    """Raise UsageError when messages of a stopped copy were purged, or deleted with their
    stream; where its limits or consumers may have deleted them, they are counted at the end.
    """
    state = copy.state or State(end_seq=0)
    for stream, created_at_us in state.target_created_at_us.items():
        if await created_at(client, stream) != created_at_us:
            raise UsageError(
                f"target stream {stream} was deleted or recreated, and the copies in it are "
                "lost: copy again without --resume"
            )
        ranges = state.target_ranges.get(stream, [])
        info = json.loads(await client.request(f"STREAM.INFO.{stream}", {"deleted_details": True}))
        newest = state.target_newest.get(stream, (0, 0))
        if await has_gone_back(client, stream, info["state"], *newest):
            raise UsageError(
                f"target stream {gone_back_text(stream)}: copy again without --resume"
            )
        if not keeps_all(info["config"], info["state"]):
            copy.account.had_ranges[stream] = merged_ranges(ranges)
            continue
        gone_msgs = missing_count(ranges, info["state"])
        # A single deleted message was deleted on purpose: that is no purge.
        if gone_msgs > 1 or (gone_msgs == 1 and not info["state"]["messages"]):
            raise UsageError(
                f"target stream {stream} was purged, or several copies in it were deleted: copy "
                "again without --resume"
            )


async def _until_stopped(
    copy: Copy, work: Coroutine[Any, Any, None], stop: asyncio.Event, save: Callable[[], None],
    saved_every_s: float,
) -> None:  # fmt: skip
    """Copy until the end or until it is stopped, and save the position meanwhile."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    tasks = {working, stopping}
    try:
        while not (working.done() or stopping.done()):
            save()
            await asyncio.wait(tasks, timeout=saved_every_s, return_when=asyncio.FIRST_COMPLETED)
        copy.account.is_stopped = not working.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not working.cancelled():
        working.result()


async def _send(source: Client, copy: Copy, window: Window) -> None:
    account = copy.account
    clock = _Clock(copy.pace, partial(copy.on_progress, account))
    async with aclosing(copy.messages(source)) as source_messages:
        async for item in source_messages:
            if isinstance(item, int):
                account.gone_msgs += 1
                continue
            await clock.wait(item[0])
            outgoing = copy.outgoing(*item)
            if isinstance(outgoing, str):
                account.read(item[0].stream_seq, len(item[0].payload))
                account.refuse(item[0].stream_seq, outgoing)
            else:
                await window.send(outgoing)
            copy.sent(item[0])
            if account.is_overfull:
                raise RequestFailed(
                    f"more than {MOST_RANGES:,} separate messages were refused: the copy stops "
                    "here, so that none is forgotten; --resume goes on with them"
                )
            if copy.unsaved_msgs >= MOST_UNSAVED_MSGS:
                copy.save()
            copy.on_progress(account, "")


MOST_PAUSE_S = 86_400.0
"""Limit of a pause between messages; a longer one is more likely a wrong time than a wish."""
_SHOWN_PAUSE_S = 5.0


class _Clock:
    """Waits as the pace requires."""

    def __init__(self, pace: Pace, on_wait: Callable[[str], None]) -> None:
        """Create; `on_wait` shows how long a pause is."""
        self._pace = pace
        self._on_wait = on_wait
        self._began_s = 0.0
        self._first_us = 0
        self._count = 0

    async def wait(self, source_message: Read) -> None:
        """Wait until a message is due; raises RequestFailed when that is more than a day."""
        if self._pace.per_s is None and not self._pace.as_stored:
            return
        now_s, stored_at_us = time.monotonic(), source_message.stored_at_us
        if not self._count:
            self._began_s, self._first_us = now_s, stored_at_us
        due_s = self._count / self._pace.per_s if self._pace.per_s else 0.0
        if self._pace.as_stored:
            due_s = max(due_s, (stored_at_us - self._first_us) / 1e6)
        self._count += 1
        left_s = self._began_s + due_s - now_s
        if left_s > MOST_PAUSE_S:
            raise RequestFailed(
                f"message {source_message.stream_seq:,} would follow {duration_text(left_s)} "
                f"later at its original pace, more than {duration_text(MOST_PAUSE_S)}: the copy "
                "stops here; --resume goes on without this pause"
            )
        if left_s > _SHOWN_PAUSE_S:
            self._on_wait(f"the next message follows in {duration_text(left_s)}")
        if left_s > 0:
            await asyncio.sleep(left_s)


async def write_copy(source: Client, copy: Copy, path: Path, stop: asyncio.Event) -> None:
    """Copy messages into a file; raises UsageError and the errors of reading."""
    await copy.check_source(source)
    with MessageFile(path, copy.account) as file:
        if copy.state is None:
            file.begin(0, "")
        else:
            file.begin(copy.state.file_bytes, copy.state.file_sha256)
            copy.saved_seq = copy.state.done_seq

        async def work() -> None:
            clock = _Clock(copy.pace, partial(copy.on_progress, copy.account))
            async with aclosing(copy.messages(source)) as source_messages:
                async for item in source_messages:
                    if isinstance(item, int):
                        copy.account.gone_msgs += 1
                        continue
                    await clock.wait(item[0])
                    file.write(item[0], copy.target.subject_of(item[0].subject))
                    copy.on_progress(copy.account, "")

        save = partial(copy.save_written, file)
        try:
            try:
                await _until_stopped(copy, work(), stop, save, _FILE_SAVED_EVERY_S)
            finally:
                save()
            if not copy.account.is_stopped:
                file.end()
                copy.forget()
        except (BackupError, SessionError, WriteFailed) as error:
            file.stop_writing()
            copy.account.lose_newest(copy.unsaved_msgs, str(error))
            if copy.saved_seq is None:
                raise
            kept_text = f"--resume continues after sequence {copy.saved_seq:,}"
            raise type(error)(f"{error}; {kept_text}") from error


@dataclass(slots=True)
class Counts:
    """The effect of a copy."""

    messages: int = 0
    payload_bytes: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    gone: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    """Target subject → messages."""
    streams: dict[str, str | None] = field(default_factory=dict)
    """Most frequent subjects → the stream that would store them."""


MOST_SUBJECTS = 20


async def remembering_s(target: Client, copy: Copy) -> float:
    """Return the duplicate window of the target; 0 if it is not one named stream."""
    if copy.target.stream is None:
        return 0.0
    info = json.loads(await target.request(f"STREAM.INFO.{copy.target.stream}"))
    return float(info["config"].get("duplicate_window") or 0) / 1e9


async def count_copy(source: Client, target: Client, copy: Copy) -> Counts:
    """Read all messages of a copy, without sending any."""
    counts = Counts()
    async with aclosing(copy.messages(source, headers_only=True)) as source_messages:
        async for item in source_messages:
            if isinstance(item, int):
                counts.gone += 1
                continue
            source_message, _ = item
            counts.messages += 1
            size = dict(source_message.headers).get("Nats-Msg-Size", "")
            is_without_payload = not source_message.payload and size.isdecimal()
            counts.payload_bytes += (
                int(size) if is_without_payload else len(source_message.payload)
            )
            counts.first_seq = counts.first_seq or source_message.stream_seq
            counts.last_seq = source_message.stream_seq
            counts.subjects[copy.target.subject_of(source_message.subject)] += 1
    for subject, _ in counts.subjects.most_common(MOST_SUBJECTS):
        reply = json.loads(await target.request("STREAM.NAMES", {"subject": subject}))
        counts.streams[subject] = next(iter(reply.get("streams") or ()), None)
    return counts
