"""Copies messages: reads them, maps their subjects and ids, sends or writes them, and counts."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

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
    count_missing,
    count_missing_since,
    count_not_kept,
    has_lost_newest,
    lost_newest_text,
    newest_message,
)
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.copying.account import (
    MAX_RANGES,
    CopyAccount,
    CopyState,
    FirstAndLastSeqs,
    StateFile,
    has_seq,
    merged_ranges,
    ranges_from,
    ranges_until,
    seqs_of,
)
from natstui.jetstream.messages.copying.message_file import (
    FilePart,
    MessageFile,
    SourceFile,
)
from natstui.jetstream.messages.copying.selection import (
    Selection,
    SequenceGaps,
    find_removed_range,
    read_messages,
    retry_after_outages,
)
from natstui.jetstream.messages.copying.window import (
    MessageWindow,
    OutgoingMessage,
    keeps_all_messages,
    read_creation_us,
)
from natstui.jetstream.messages.reading import StreamMessage
from natstui.model.assets.limits_loss import SINGLE_PUBLISH_HEADER_PREFIXES, rolled_up_filters
from natstui.model.assets.subjects import has_wildcard, map_subject, mapping_problem, overlap
from natstui.units import duration_text
from natstui.values import replace

MESSAGE_ID_HEADER = "Nats-Msg-Id"
ORIGINAL_ID_HEADER = "Natstui-Msg-Id"
"""Header with the publisher's message id, if the copy gets an id of its own."""
_SERVER_SUBJECTS = ("$JS.>", "$SYS.>")
_SAVE_INTERVAL_S = 0.2
_FILE_SAVE_INTERVAL_S = 1.0
MAX_UNSAVED_MSGS = 1_000
"""Maximum number of messages that are sent before the state is written again. So many may have an
unknown result when a copy is killed."""
_DRAIN_TIMEOUT_S = 5.0

MessageIdMode = Literal["made", "kept"]


class CopyPace(Struct, frozen=True):
    """Limits of the rate of sending; without any, messages are sent as fast as the target
    acknowledges them.
    """

    msgs_per_s: float | None = None
    keeps_intervals: bool = False
    """Whether the copies have the same intervals as the originals."""


class CopyTarget(Struct, frozen=True):
    """The target stream of a copy, and the subjects and ids of the copies."""

    stream: str | None = None
    """Name of the target stream, which refuses messages that another stream would store; None if
    any stream may store them."""
    subject_maps: tuple[tuple[str, str], ...] = ()
    """Pairs of a subject pattern and the new subject; the first pattern that matches counts."""
    message_id_mode: MessageIdMode = "made"

    def subject_of(self, subject: str) -> str:
        """Return the target subject of a message."""
        return _subject_of(self.subject_maps, subject)

    def check(self) -> None:
        """Raise UsageError for an impossible mapping."""
        for source, new_subject in self.subject_maps:
            problem = mapping_problem(source, new_subject)
            # The new subject may be one without `>`: all messages get it.
            if problem is not None and "must end with >" not in problem:
                raise UsageError(f"--map {source}:{new_subject}: {problem}")
            try:
                map_subject(source.replace("*", "x").replace(">", "x"), source, new_subject)
            except ValueError as error:
                raise UsageError(f"--map {source}:{new_subject}: {error}") from error


@lru_cache(maxsize=1024)
def _subject_of(subject_maps: tuple[tuple[str, str], ...], subject: str) -> str:
    mapped_subjects = (
        map_subject(subject, source, new_subject) for source, new_subject in subject_maps
    )
    return next((mapped for mapped in mapped_subjects if mapped is not None), subject)


@lru_cache(maxsize=1024)
def _is_server_subject(subject: str) -> bool:
    return any(overlap(server_subject, subject) for server_subject in _SERVER_SUBJECTS)


class SeqRanges:
    """An iterable of sequences, which are in memory only as ranges."""

    def __init__(self, ranges: FirstAndLastSeqs) -> None:
        self._seq_ranges = ranges

    def __iter__(self) -> Iterator[int]:
        return seqs_of(self._seq_ranges)


@dataclass
class MessageCopy:
    """A copy of messages: its source, target and pace, and how far it is."""

    target: CopyTarget
    selection: Selection | None = None
    """The selected messages of a stream; None to copy from a file."""
    from_file: Path | None = None
    pace: CopyPace = field(default_factory=CopyPace)
    state: CopyState | None = None
    """The state of the stopped copy that this one continues; None if it continues none."""
    file: StateFile | None = None
    account: CopyAccount = field(default_factory=CopyAccount)
    on_progress: Callable[[CopyAccount, str], None] = lambda _account, _waits: None
    get_first_open_message: Callable[[], OutgoingMessage | None] = lambda: None
    """Returns the first message that was sent and has no result yet; None if there is none."""
    is_complete: bool = False
    """Whether all messages were read, and all those sent have a result."""
    saved_seq: int | None = None
    """The sequence after which --resume continues; None until the state is written."""
    _saved_read_and_in_flight_msgs: tuple[int, int] | None = None
    """Numbers of read messages and of messages in flight when the state was last written."""
    _sent_seq: int = 0
    """Sequence of the last message that was sent."""
    _source_file: SourceFile | None = None
    """The file from which messages are read."""
    _gaps: SequenceGaps | None = None
    """The sequences without a message in a range; None unless all messages of the range are wanted
    and none is removed by consumers."""

    def mark_sent(self, source_message: StreamMessage) -> None:
        """Store the sequence of the last message that was sent."""
        self._sent_seq = source_message.stream_seq

    @property
    def _untried_ranges(self) -> FirstAndLastSeqs:
        """Return the ranges that were refused in the stopped copy, and not tried again yet."""
        if self.state is None:
            return []
        first_open_message = self.get_first_open_message()
        from_seq = self._sent_seq + 1 if first_open_message is None else first_open_message.seq
        return ranges_from(self.state.refused_ranges, from_seq)

    @property
    def _source_part(self) -> FilePart:
        """Return the part of the source file that the stopped copy had read."""
        state = self.state or CopyState(end_seq=0)
        return FilePart(state.source_lines_count, state.source_sha256)

    async def check_source(self, client: Client) -> None:
        """Raise UsageError if the stream is not the one that the stopped copy had read."""
        created_at_us = self.selection.created_at_us if self.selection else 0
        if self.state is not None and self.state.source_created_at_us != created_at_us:
            raise UsageError(
                f"{self.name} was deleted and recreated in the meantime: copy again without "
                "--resume"
            )
        if self.state is None or self.selection is None:
            return
        state, newest = self.selection.state, self.state.source_newest
        if await has_lost_newest(client, self.name, state, *newest):
            raise UsageError(f"{lost_newest_text(self.name)}: copy again without --resume")

    @property
    def end_seq(self) -> int:
        """Return the last sequence to copy."""
        return self.selection.end_seq if self.selection is not None else 2**63 - 1

    @property
    def name(self) -> str:
        """Return the name of the source, for display."""
        return self.selection.request.stream if self.selection else str(self.from_file)

    async def read_messages(
        self, client: Client, *, headers_only: bool = False
    ) -> AsyncGenerator[tuple[StreamMessage, str] | int, None]:
        """Yield each message with a text that identifies it; of a deleted one, its sequence.

        Messages that were refused up to the position of the stopped copy come first; later ones
        are read in order with the others. With `headers_only`, payloads may be left out.
        """
        after_seq = self.state.done_seq if self.state else 0
        if self.selection is None:
            assert self.from_file is not None
            self._source_file = source_file = SourceFile(self.from_file, self._source_part)
            refused_ranges = self.state.refused_ranges if self.state else []
            file_lines = source_file.read_messages(
                lambda seq: seq > after_seq or has_seq(refused_ranges, seq)
            )
            async with aclosing(file_lines) as lines:
                async for line in lines:
                    yield line
            return
        identity = f"{self.selection.request.stream} {self.selection.created_at_us}"
        if self.selection.is_complete_range and not headers_only:
            self._gaps = SequenceGaps(self.selection, self.state)
        if self.state is not None:
            later_removed_seqs = (
                None if self._gaps else self.selection.removed_range_after(after_seq)
            )
            for seqs in filter(None, (self.state.removed_seqs, later_removed_seqs)):
                self.account.add_removed(*seqs)
        selections_and_after_seqs = [(self.selection, after_seq)]
        refused_ranges = ranges_until(self.state.refused_ranges, after_seq) if self.state else []
        if refused_ranges:
            selections_and_after_seqs.insert(
                0, (replace(self.selection, seqs=SeqRanges(refused_ranges)), 0)
            )
        for selection, part_after_seq in selections_and_after_seqs:
            source = read_messages(client, selection, part_after_seq, headers_only=headers_only)
            is_retried = selection is not self.selection
            gaps = None if is_retried else self._gaps
            last_message: StreamMessage | None = None
            async with aclosing(source) as source_messages:
                async for message_or_seq in source_messages:
                    if isinstance(message_or_seq, int):
                        if is_retried and not selection.may_be_consumed:
                            self.account.add_removed(message_or_seq, message_or_seq)
                        yield message_or_seq
                        continue
                    last_message = message_or_seq
                    if gaps is not None:
                        gaps.add(message_or_seq.stream_seq)
                    # After a rollback, another message may have the same sequence.
                    yield (
                        message_or_seq,
                        f"{identity} {message_or_seq.stream_seq} {message_or_seq.stored_at_us}",
                    )
            removed_seqs = None
            if gaps is not None:
                removed_seqs = gaps.removed_seqs
            elif last_message is not None or not part_after_seq:
                removed_seqs = await find_removed_range(client, selection, last_message)
            if removed_seqs is not None:
                self.account.add_removed(*removed_seqs)

    def make_outgoing(self, source_message: StreamMessage, identity: str) -> OutgoingMessage | str:
        """Return the message to send, or the reason why it must not be sent."""
        subject = self.target.subject_of(source_message.subject)
        if _is_server_subject(subject):
            return f"{subject.split('.')[0]} belongs to the server"
        if self.from_file is not None and has_wildcard(subject):
            return "its subject has a wildcard: a message has one subject"
        headers = [
            pair
            for pair in source_message.headers
            if not pair[0].lower().startswith(SINGLE_PUBLISH_HEADER_PREFIXES)
        ]
        self.account.without_rollup_msgs += bool(
            rolled_up_filters(subject, source_message.headers)
        )
        own_message_id = next(
            (text.strip() for name, text in headers if name.lower() == MESSAGE_ID_HEADER.lower()),
            None,
        )
        has_own_id = own_message_id is not None and self.target.message_id_mode == "kept"
        if not has_own_id:
            headers = [
                (ORIGINAL_ID_HEADER if name.lower() == MESSAGE_ID_HEADER.lower() else name, text)
                for name, text in headers
            ]
            digest = hashlib.sha256(f"{identity} {subject}".encode()).hexdigest()
            headers.append((MESSAGE_ID_HEADER, f"natstui-{digest[:24]}"))
        if self.target.stream:
            headers.append((EXPECTED_STREAM, self.target.stream))
        return OutgoingMessage(
            source_message.stream_seq, subject, source_message.payload, tuple(headers), has_own_id
        )

    @property
    def unsaved_msgs(self) -> int:
        """Return how many messages were read since the state was last written."""
        return self.account.read_msgs - (
            self._saved_read_and_in_flight_msgs[0] if self._saved_read_and_in_flight_msgs else 0
        )

    def save(self) -> None:
        """Write the state if anything changed; raises SessionError if it cannot be written.

        Until the next call, at most `MAX_UNSAVED_MSGS` messages may be sent.
        """
        account = self.account
        if self._saved_read_and_in_flight_msgs != (account.read_msgs, account.in_flight_msgs):
            self._write(account.in_flight_msgs + MAX_UNSAVED_MSGS)

    def save_written(self, file: MessageFile) -> None:
        """Sync the target file, then write the state; raises BackupError and SessionError."""
        # The state must not contain more than what is on the disk.
        file.sync()
        self._write(0, file.written_bytes, file.sha256)

    def _write(self, unknown_msgs: int, file_bytes: int = 0, file_sha256: str = "") -> None:
        if self.file is None:
            return
        account, before = self.account, self.state or CopyState(end_seq=0)
        first_open_message = self.get_first_open_message()
        oldest_age_s = (
            time.monotonic() - first_open_message.first_sent_s if first_open_message else 0.0
        )
        done_seq = max(before.done_seq, account.done_seq)
        source_file = self._source_file
        source_part = source_file.part_until(done_seq) if source_file else self._source_part
        selection = self.selection
        self.file.write(
            CopyState(
                begin_seq=selection.begin_seq if selection else 1,
                end_seq=self.end_seq, done_seq=done_seq,
                since_us=selection.request.since_us if selection else None,
                until_us=selection.request.until_us if selection else None,
                lacking_count=selection.lacking_count if selection else 0,
                skipped=self._gaps.until(done_seq) if self._gaps else before.skipped,
                removed_seqs=account.removed_seqs or before.removed_seqs,
                refused_ranges=merged_ranges(account.refused_ranges, self._untried_ranges),
                source_created_at_us=selection.created_at_us if selection else 0,
                source_newest=newest_message(selection.state) if selection else (0, 0),
                target_created_at_us=before.target_created_at_us | account.target_created_at_us,
                target_newest=before.target_newest | account.target_newest,
                target_ranges={
                    stream: merged_ranges(
                        before.target_ranges.get(stream, []), account.stored_ranges.get(stream, [])
                    )
                    for stream in before.target_ranges | account.stored_ranges
                },
                unknown_msgs=unknown_msgs, sent_at_us=round((time.time() - oldest_age_s) * 1e6),
                file_bytes=file_bytes, file_sha256=file_sha256,
                source_lines_count=source_part.lines_count, source_sha256=source_part.sha256,
            )
        )  # fmt: skip
        self.saved_seq, self._saved_read_and_in_flight_msgs = (
            done_seq,
            (account.read_msgs, account.in_flight_msgs),
        )

    def finish(self) -> None:
        """Delete the state if nothing is left to do or nothing was sent; otherwise write it."""
        account = self.account
        is_stored = self.is_complete and not (account.refused_msgs or account.unknown_msgs)
        if is_stored or not (account.read_msgs or account.is_stopped or self.state):
            self.delete_state()
        else:
            self._write(account.unknown_msgs)

    def delete_state(self) -> None:
        """Delete the state file."""
        if self.file is not None:
            self.file.remove()


async def send_copy(
    source: Client, writer: Writer, copy: MessageCopy,
    required_and_typed_name: tuple[str, str | None], stop: asyncio.Event,
) -> None:  # fmt: skip
    """Copy messages into streams, with one journal entry; the copy's account has the result.

    After `stop`, only the messages in flight are waited for. Raises what `Writer.send` raises, and
    OutcomeUnknown if the result of some messages is unknown.
    """
    arguments: dict[str, Any] = {
        "copied_from": copy.name, "subject": required_and_typed_name[0], "payload_bytes": 0,
        "maps": [
            f"{pattern} → {new_subject}" for pattern, new_subject in copy.target.subject_maps
        ],
    }  # fmt: skip
    account, start_s = copy.account, steady_s()
    await copy.check_source(source)
    await _check_targets(writer.client, copy)

    async def send_all(window: MessageWindow) -> None:
        await _read_and_send(source, copy, window)
        await window.drain()
        await _count_not_kept(writer.client, account, start_s)

    async def work() -> None:
        async with MessageWindow(
            writer.client, account, lambda text: copy.on_progress(account, text)
        ) as window:
            copy.get_first_open_message = lambda: window.first_open_message
            try:
                try:
                    await _run_until_stopped(
                        copy, send_all(window), stop, copy.save, _SAVE_INTERVAL_S
                    )
                except NatstuiError:
                    # Messages sent before may be stored, and their acks may still arrive.
                    with suppress(NatstuiError, TimeoutError):
                        async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                            await window.drain()
                    raise
                if account.is_stopped:
                    async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                        await window.drain()
                        await _count_not_kept(writer.client, account, start_s)
                copy.is_complete = not account.is_stopped
            except TimeoutError:
                pass  # the account counts those without a result as unknown
            finally:
                window.count_unknown_messages()
                copy.finish()

    await writer.send(
        JournalDraft("publish", "", None, arguments, doubt="some messages may have been stored"),
        required_and_typed_name,
        work,
        lambda _: {"sent_count": account.acknowledged_msgs, "read_count": account.read_msgs,
                   "refused_count": account.refused_msgs,
                   "not_kept_count": account.not_kept.total()},
    )  # fmt: skip


async def _count_not_kept(client: Client, account: CopyAccount, start_s: float) -> None:
    """Count the messages that the target acknowledged but did not keep: those of this copy, which
    began at `start_s`, and earlier ones.
    """
    for stream, ranges in account.stored_ranges.items():
        count_stream_not_kept = partial(
            count_not_kept, client, stream, ranges, age_s=steady_s() - start_s,
            sent_msgs=account.stored_subjects.get(stream),
        )  # fmt: skip
        try:
            not_kept = await retry_after_outages(count_stream_not_kept)
        except PermissionDenied:
            account.unchecked.append(stream)
            continue
        if not_kept is not None:
            count, reason = not_kept
            account.not_kept[reason] = min(count, account.acknowledged_msgs)
    for stream, ranges in account.stored_before_ranges.items():
        try:
            count, reason, may_be_acked = await retry_after_outages(
                partial(count_missing_since, client, stream, ranges)
            )
        except PermissionDenied:
            account.unchecked.append(stream)
            continue
        if count:
            account.no_longer_there[reason] += count
            account.may_be_consumed &= may_be_acked


async def _check_targets(client: Client, copy: MessageCopy) -> None:
    """Raise UsageError if the copies that a stopped copy stored were purged, or deleted with their
    stream.

    If limits or consumers of the stream may have deleted them, they are counted at the end
    instead.
    """
    state = copy.state or CopyState(end_seq=0)
    for stream, created_at_us in state.target_created_at_us.items():
        if await read_creation_us(client, stream) != created_at_us:
            raise UsageError(
                f"target stream {stream} was deleted or recreated, and the copies in it are "
                "lost: copy again without --resume"
            )
        ranges = state.target_ranges.get(stream, [])
        info = await client.stream_info(stream, {"deleted_details": True})
        newest = state.target_newest.get(stream, (0, 0))
        if await has_lost_newest(client, stream, info.state, *newest):
            raise UsageError(
                f"target stream {lost_newest_text(stream)}: copy again without --resume"
            )
        if not keeps_all_messages(info.read_config(), info.state):
            copy.account.stored_before_ranges[stream] = merged_ranges(ranges)
            continue
        missing_msgs = count_missing(ranges, info.state)
        # One missing message is no purge: somebody deleted it on purpose.
        if missing_msgs > 1 or (missing_msgs == 1 and not info.state.messages):
            raise UsageError(
                f"target stream {stream} was purged, or several copies in it were deleted: copy "
                "again without --resume"
            )


async def _run_until_stopped(
    copy: MessageCopy, work: Coroutine[Any, Any, None], stop: asyncio.Event,
    save: Callable[[], None], save_interval_s: float,
) -> None:  # fmt: skip
    """Run `work` until it ends or `stop` is set, and call `save` every `save_interval_s`."""
    work_task, stop_task = asyncio.create_task(work), asyncio.create_task(stop.wait())
    tasks = {work_task, stop_task}
    try:
        while not (work_task.done() or stop_task.done()):
            save()
            await asyncio.wait(tasks, timeout=save_interval_s, return_when=asyncio.FIRST_COMPLETED)
        copy.account.is_stopped = not work_task.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not work_task.cancelled():
        work_task.result()


async def _read_and_send(source: Client, copy: MessageCopy, window: MessageWindow) -> None:
    account = copy.account
    pacer = _Pacer(copy.pace, partial(copy.on_progress, account))
    async with aclosing(copy.read_messages(source)) as source_messages:
        async for message_or_seq in source_messages:
            if isinstance(message_or_seq, int):
                account.gone_msgs += 1
                continue
            source_message, identity = message_or_seq
            await pacer.wait(source_message)
            outgoing = copy.make_outgoing(source_message, identity)
            if isinstance(outgoing, str):
                account.count_read(source_message.stream_seq, len(source_message.payload))
                account.count_refused(source_message.stream_seq, outgoing)
            else:
                await window.send(outgoing)
            copy.mark_sent(source_message)
            if account.is_overfull:
                raise RequestFailed(
                    f"more than {MAX_RANGES:,} separate messages were refused: the copy stops "
                    "here, so that all are recorded; --resume continues with these"
                )
            if copy.unsaved_msgs >= MAX_UNSAVED_MSGS:
                copy.save()
            copy.on_progress(account, "")


MAX_PAUSE_S = 86_400.0
"""Maximum pause between two messages; a longer one is probably due to a wrong time."""
_MIN_SHOWN_PAUSE_S = 5.0


class _Pacer:
    """Delays the messages of a copy, so that the limits of its `CopyPace` are kept."""

    def __init__(self, pace: CopyPace, on_wait: Callable[[str], None]) -> None:
        """Create a pacer; `on_wait` is called with a sentence before a pause of over 5 s."""
        self._pace = pace
        self._on_wait = on_wait
        self._first_sent_s = 0.0
        self._first_stored_at_us = 0
        self._paced_msgs = 0

    async def wait(self, source_message: StreamMessage) -> None:
        """Wait until a message is due; raises RequestFailed if that takes more than a day."""
        if self._pace.msgs_per_s is None and not self._pace.keeps_intervals:
            return
        now_s, stored_at_us = time.monotonic(), source_message.stored_at_us
        if not self._paced_msgs:
            self._first_sent_s, self._first_stored_at_us = now_s, stored_at_us
        due_s = self._paced_msgs / self._pace.msgs_per_s if self._pace.msgs_per_s else 0.0
        if self._pace.keeps_intervals:
            due_s = max(due_s, (stored_at_us - self._first_stored_at_us) / 1e6)
        self._paced_msgs += 1
        left_s = self._first_sent_s + due_s - now_s
        if left_s > MAX_PAUSE_S:
            raise RequestFailed(
                f"message {source_message.stream_seq:,} would follow {duration_text(left_s)} "
                f"later at its original pace, more than {duration_text(MAX_PAUSE_S)}: the copy "
                "stops here; --resume goes on without this pause"
            )
        if left_s > _MIN_SHOWN_PAUSE_S:
            self._on_wait(f"the next message follows in {duration_text(left_s)}")
        if left_s > 0:
            await asyncio.sleep(left_s)


async def write_copy(source: Client, copy: MessageCopy, path: Path, stop: asyncio.Event) -> None:
    """Copy messages into a file, until all are copied or `stop` is set.

    Raises UsageError, BackupError, SessionError, WriteFailed and the errors of reading.
    """
    await copy.check_source(source)
    with MessageFile(path, copy.account) as file:
        if copy.state is None:
            file.open(0, "")
        else:
            file.open(copy.state.file_bytes, copy.state.file_sha256)
            copy.saved_seq = copy.state.done_seq

        async def work() -> None:
            pacer = _Pacer(copy.pace, partial(copy.on_progress, copy.account))
            async with aclosing(copy.read_messages(source)) as source_messages:
                async for message_or_seq in source_messages:
                    if isinstance(message_or_seq, int):
                        copy.account.gone_msgs += 1
                        continue
                    source_message, _ = message_or_seq
                    await pacer.wait(source_message)
                    file.write(source_message, copy.target.subject_of(source_message.subject))
                    copy.on_progress(copy.account, "")

        save = partial(copy.save_written, file)
        try:
            try:
                await _run_until_stopped(copy, work(), stop, save, _FILE_SAVE_INTERVAL_S)
            finally:
                save()
            if not copy.account.is_stopped:
                file.move_to_path()
                copy.delete_state()
        except (BackupError, SessionError, WriteFailed) as error:
            file.stop_writing()
            copy.account.lose_newest(copy.unsaved_msgs, str(error))
            if copy.saved_seq is None:
                raise
            resume_text = f"--resume continues after sequence {copy.saved_seq:,}"
            raise type(error)(f"{error}; {resume_text}") from error


@dataclass(slots=True)
class CopyCounts:
    """The messages that a copy would send, counted without sending any."""

    messages: int = 0
    payload_bytes: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    gone: int = 0
    """Number of messages that were requested by their sequence, but are already deleted."""
    subjects: Counter[str] = field(default_factory=Counter)
    """Subject of the copies → number of messages."""
    streams: dict[str, str | None] = field(default_factory=dict)
    """Most frequent target subjects → the stream that would store them; None if there is none."""


MAX_SHOWN_SUBJECTS = 20


async def read_duplicate_window_s(target: Client, copy: MessageCopy) -> float:
    """Return the duplicate window of the target stream, in seconds; 0 without a named stream."""
    if copy.target.stream is None:
        return 0.0
    config = (await target.stream_info(copy.target.stream)).read_config()
    return float(config.get("duplicate_window") or 0) / 1e9


async def count_copy(source: Client, target: Client, copy: MessageCopy) -> CopyCounts:
    """Read all messages of a copy, and return their counts, without sending any.

    The account of the copy is not changed.
    """
    counts = CopyCounts()
    # Without payloads, sequences that had no message before count as removed.
    counted_copy = dataclasses.replace(copy, account=CopyAccount())
    async with aclosing(counted_copy.read_messages(source, headers_only=True)) as source_messages:
        async for message_or_seq in source_messages:
            if isinstance(message_or_seq, int):
                counts.gone += 1
                continue
            source_message, _ = message_or_seq
            counts.messages += 1
            size = dict(source_message.headers).get("Nats-Msg-Size", "")
            is_without_payload = not source_message.payload and size.isdecimal()
            counts.payload_bytes += (
                int(size) if is_without_payload else len(source_message.payload)
            )
            counts.first_seq = counts.first_seq or source_message.stream_seq
            counts.last_seq = source_message.stream_seq
            counts.subjects[copy.target.subject_of(source_message.subject)] += 1
    for subject, _ in counts.subjects.most_common(MAX_SHOWN_SUBJECTS):
        reply = json.loads(await target.request("STREAM.NAMES", {"subject": subject}))
        counts.streams[subject] = next(iter(reply.get("streams") or ()), None)
    return counts
