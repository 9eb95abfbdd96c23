"""A copy of messages: read, given another subject and an id, sent, counted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from natstui.errors import (
    BackupError,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    UsageError,
    WriteFailed,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import EXPECTED_STREAM, not_kept
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.copying.account import (
    MOST_RANGES,
    Account,
    Ranges,
    State,
    StateFile,
    merged_ranges,
    ranges_from,
    seqs_of,
)
from natstui.jetstream.messages.copying.message_file import MessageFile, lines_of
from natstui.jetstream.messages.copying.selection import Selection, messages
from natstui.jetstream.messages.copying.window import (
    Outgoing,
    Window,
    created_at,
    keeps_all,
)
from natstui.jetstream.messages.reading import Read
from natstui.model.assets.subjects import mapped, mapping_problem, overlap

MSG_ID, ROLLUP = "Nats-Msg-Id", "Nats-Rollup"
KEPT_ID = "Natstui-Msg-Id"
"""Under which the publisher's id is kept when the copy gets one of its own."""
_NOT_COPIED = ("nats-rollup", "nats-expected-", "nats-msg-size")
"""Headers that were meant for the stream of before, and would remove or refuse at another."""
_SERVERS = ("$JS.>", "$SYS.>")
_SAVE_S = 1.0
_DRAIN_S = 5.0

Ids = Literal["made", "kept"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast messages are sent; as fast as they are taken, where nothing is said."""

    per_s: float | None = None
    as_stored: bool = False
    """As far apart as they were stored."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where they go, and under which subjects."""

    stream: str | None = None
    """Only there: what would be stored elsewhere is refused."""
    maps: tuple[tuple[str, str], ...] = ()
    """What matches the first gets the second as its subject; of several, the first that does."""
    ids: Ids = "made"

    def subject_of(self, subject: str) -> str:
        """Return the subject a message gets."""
        return _subject_of(self.maps, subject)

    def check(self) -> None:
        """Raise UsageError for a mapping that cannot be done."""
        for source, wanted in self.maps:
            problem = mapping_problem(source, wanted)
            # A subject without `>` may take the place of all.
            if problem is not None and "must end with >" not in problem:
                raise UsageError(f"--map {source}:{wanted}: {problem}")
            try:
                mapped(source.replace("*", "x").replace(">", "x"), source, wanted)
            except ValueError as error:
                raise UsageError(f"--map {source}:{wanted}: {error}") from error


@lru_cache(maxsize=1024)
def _subject_of(maps: tuple[tuple[str, str], ...], subject: str) -> str:
    found = (mapped(subject, source, wanted) for source, wanted in maps)
    return next((one for one in found if one is not None), subject)


@lru_cache(maxsize=1024)
def _of_server(subject: str) -> bool:
    return any(overlap(one, subject) for one in _SERVERS)


class SeqRanges:
    """Sequences that are known, as ranges: of millions, only the ranges are in memory."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def __iter__(self) -> Iterator[int]:
        return seqs_of(self._ranges)


@dataclass
class Copy:
    """One copy: where from, where to, how fast, and how far it is."""

    target: Target
    selection: Selection | None = None
    """Of a stream."""
    from_file: Path | None = None
    pace: Pace = field(default_factory=Pace)
    state: State | None = None
    """Where one that was stopped goes on."""
    file: StateFile | None = None
    account: Account = field(default_factory=Account)
    on_progress: Callable[[Account, str], None] = lambda _account, _waits: None
    _saved_s: float = 0.0
    first_open_seq: Callable[[], int | None] = lambda: None
    """Returns the first message that was sent and whose fate is open."""
    _sent_seq: int = 0
    """The last message that was sent."""

    def sent(self, one: Read) -> None:
        """Note that a message was sent."""
        self._sent_seq = one.stream_seq

    @property
    def _untried(self) -> Ranges:
        """What was refused before and is not known to be stored now."""
        if self.state is None:
            return []
        open_seq = self.first_open_seq()
        from_seq = self._sent_seq + 1 if open_seq is None else open_seq
        return ranges_from(self.state.refused_ranges, from_seq)

    def check_source(self) -> None:
        """Raise UsageError when the stream is not the one that a stopped copy has read."""
        created_at_us = self.selection.created_at_us if self.selection else 0
        if self.state is not None and self.state.source_created_at_us != created_at_us:
            raise UsageError(
                f"{self.name} was deleted and recreated in the meantime: copy again without "
                "--resume"
            )

    @property
    def end_seq(self) -> int:
        """The last message that is wanted."""
        return self.selection.end_seq if self.selection is not None else 2**63 - 1

    @property
    def name(self) -> str:
        """What is copied, for people."""
        return self.selection.wanted.stream if self.selection else str(self.from_file)

    async def messages(
        self, client: Client, *, headers_only: bool = False
    ) -> AsyncGenerator[tuple[Read, str] | int, None]:
        """Yield the messages, and what tells each from others; first those that were refused."""
        after_seq = self.state.done_seq if self.state else 0
        if self.selection is None:
            assert self.from_file is not None
            async with aclosing(lines_of(self.from_file, after_seq)) as lines:
                async for line in lines:
                    yield line
            return
        parts = [(self.selection, after_seq)]
        if self.state and self.state.refused_ranges:
            again = replace(self.selection, seqs=SeqRanges(self.state.refused_ranges))
            parts.insert(0, (again, 0))
        made = f"{self.selection.wanted.stream} {self.selection.created_at_us}"
        for selection, after in parts:
            source = messages(client, selection, after, headers_only=headers_only)
            async with aclosing(source) as found:
                async for one in found:
                    yield one if isinstance(one, int) else (one, f"{made} {one.stream_seq}")

    def outgoing(self, one: Read, seen: str) -> Outgoing | str:
        """Return what is sent for a message, or why it is not."""
        subject = self.target.subject_of(one.subject)
        if _of_server(subject):
            return f"{subject.split('.')[0]} belongs to the server"
        kept = [pair for pair in one.headers if not pair[0].lower().startswith(_NOT_COPIED)]
        rolls = any(name.lower() == ROLLUP.lower() for name, _ in one.headers)
        self.account.without_rollup_msgs += rolls
        own = next((text.strip() for name, text in kept if name.lower() == MSG_ID.lower()), None)
        if own is None or self.target.ids == "made":
            kept = [
                (KEPT_ID if name.lower() == MSG_ID.lower() else name, text) for name, text in kept
            ]
            digest = hashlib.sha256(f"{seen} {subject}".encode()).hexdigest()
            kept.append((MSG_ID, f"natstui-{digest[:24]}"))
        if self.target.stream:
            kept.append((EXPECTED_STREAM, self.target.stream))
        return Outgoing(one.stream_seq, subject, one.payload, tuple(kept))

    @property
    def is_save_due(self) -> bool:
        """Whether a second has passed since it was kept where the copy is."""
        return self.file is not None and time.monotonic() - self._saved_s >= _SAVE_S

    def save(self, *, settled: bool = False, at_once: bool = False) -> None:
        """Keep where it is, once a second; raises SessionError."""
        if self.file is None or not (at_once or self.is_save_due):
            return
        self._saved_s = time.monotonic()
        before = self.state.done_seq if self.state else 0
        known = self.state.target_created_at_us if self.state else {}
        known_first = self.state.target_first_seq if self.state else {}
        account = self.account
        self.file.write(
            State(
                end_seq=self.end_seq, done_seq=max(before, account.done_seq),
                refused_ranges=merged_ranges(account.refused_ranges, self._untried),
                source_created_at_us=self.selection.created_at_us if self.selection else 0,
                target_created_at_us=known | account.target_created_at_us,
                target_first_seq=account.target_first_seq | known_first, is_settled=settled,
            )
        )  # fmt: skip

    def finish(self) -> None:
        """Forget where it is when all of it was taken, else keep it."""
        account = self.account
        if self.file is None:
            return
        if account.is_stopped or account.refused_msgs or account.unknown_msgs:
            self.save(settled=not account.unknown_msgs, at_once=True)
        else:
            self.forget()

    def forget(self) -> None:
        """Forget where it is: there is nothing to go on with."""
        if self.file is not None:
            self.file.remove()


async def send_copy(
    source: Client, writer: Writer, copy: Copy, confirmed: tuple[str, str | None],
    stop: asyncio.Event,
) -> None:  # fmt: skip
    """Copy messages into streams, journalled as one; the account says how far that came.

    `stop` ends it in order: what is on its way is waited for. Raises what `Writer.send` raises,
    OutcomeUnknown when the fate of messages cannot be known.
    """
    asked: dict[str, Any] = {
        "copied_from": copy.name, "subject": confirmed[0], "payload_bytes": 0,
        "maps": [f"{one} → {other}" for one, other in copy.target.maps],
    }  # fmt: skip
    account = copy.account
    copy.check_source()
    await _check_targets(writer.client, copy)

    async def work() -> None:
        async with Window(
            writer.client, account, lambda text: copy.on_progress(account, text)
        ) as w:
            copy.first_open_seq = lambda: w.first_waiting_seq
            try:
                try:
                    await _until_stopped(copy, _send(source, copy, w), stop)
                except NatstuiError:
                    # What was sent before is stored, and answers to it may be on their way.
                    with suppress(NatstuiError, TimeoutError):
                        async with asyncio.timeout(_DRAIN_S):
                            await w.drain()
                    raise
                async with asyncio.timeout(_DRAIN_S if account.is_stopped else None):
                    await w.drain()
                await _compare(writer.client, account)
            except TimeoutError:
                pass  # the account says how many are open
            finally:
                w.give_up()
                copy.finish()

    await writer.send(
        JournalDraft("publish", "", None, asked, doubt="some messages may have been stored"),
        confirmed,
        work,
        lambda _: {"sent_count": account.acknowledged_msgs, "read_count": account.read_msgs,
                   "refused_count": account.refused_msgs,
                   "not_kept_count": account.not_kept.total()},
    )  # fmt: skip


async def _compare(client: Client, account: Account) -> None:
    """Count what the target acknowledged and did not keep."""
    for stream, ranges in account.stored_ranges.items():
        try:
            missing = await not_kept(client, stream, ranges)
        except PermissionDenied:
            account.unchecked.append(stream)
            continue
        if missing is not None:
            count, reason = missing
            account.not_kept[reason] = min(count, account.acknowledged_msgs)


async def _check_targets(client: Client, copy: Copy) -> None:
    """Raise UsageError when what a stopped copy has stored is gone with its stream, or purged."""
    known = copy.state.target_created_at_us if copy.state else {}
    first_seqs = copy.state.target_first_seq if copy.state else {}
    for stream, created_at_us in known.items():
        if await created_at(client, stream) != created_at_us:
            raise UsageError(
                f"target stream {stream} was deleted or recreated, and the copies in it are "
                "lost: copy again without --resume"
            )
        if await _is_purged(client, stream, first_seqs.get(stream)):
            raise UsageError(
                f"target stream {stream} was purged, or several copies in it were deleted: copy "
                "again without --resume"
            )


async def _is_purged(client: Client, stream: str, first_seq: int | None) -> bool:
    """Return whether messages were removed that no limit or consumer of the stream removes.

    One that is gone where others stay was deleted by somebody who meant it: that is no purge.
    """
    try:
        info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    except NotFound:
        return False
    state = info["state"]
    if first_seq is None or not keeps_all(info["config"], state):
        return False
    gone = int(state["first_seq"]) - first_seq
    return gone > 1 or (gone == 1 and not state["messages"])


async def _until_stopped(copy: Copy, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            copy.account.is_stopped = True
            working.cancel()
            await asyncio.wait({working})
        if not working.cancelled():
            working.result()
    finally:
        working.cancel()
        stopping.cancel()


async def _send(source: Client, copy: Copy, window: Window) -> None:
    account, clock = copy.account, _Clock(copy.pace)
    async with aclosing(copy.messages(source)) as found:
        async for one in found:
            if isinstance(one, int):
                account.gone_msgs += 1
                continue
            await clock.wait(one[0].stored_at_us)
            out = copy.outgoing(*one)
            copy.sent(one[0])
            if isinstance(out, str):
                account.read_msgs += 1
                account.refuse(one[0].stream_seq, out)
                continue
            await window.send(out)
            if account.is_overfull:
                raise RequestFailed(
                    f"more than {MOST_RANGES:,} separate messages were refused: the copy stops "
                    "here, so that none is forgotten; --resume goes on with them"
                )
            copy.save()
            copy.on_progress(account, "")


class _Clock:
    """Waits as the pace wants it."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._began_s = 0.0
        self._first_us = 0
        self._count = 0

    async def wait(self, stored_at_us: int) -> None:
        if self._pace.per_s is None and not self._pace.as_stored:
            return
        now_s = time.monotonic()
        if not self._count:
            self._began_s, self._first_us = now_s, stored_at_us
        due_s = self._count / self._pace.per_s if self._pace.per_s else 0.0
        if self._pace.as_stored:
            due_s = max(due_s, (stored_at_us - self._first_us) / 1e6)
        self._count += 1
        if (left_s := self._began_s + due_s - now_s) > 0:
            await asyncio.sleep(left_s)


async def write_copy(source: Client, copy: Copy, path: Path, stop: asyncio.Event) -> None:
    """Copy messages into a file; raises UsageError and what reading raises."""
    copy.check_source()
    with MessageFile(path, copy.account) as file:
        file.begin(copy.state.done_seq if copy.state else 0)

        async def work() -> None:
            clock = _Clock(copy.pace)
            async with aclosing(copy.messages(source)) as found:
                async for one in found:
                    if isinstance(one, int):
                        copy.account.gone_msgs += 1
                        continue
                    await clock.wait(one[0].stored_at_us)
                    file.write(one[0], copy.target.subject_of(one[0].subject))
                    if copy.is_save_due:
                        # A killed copy goes on behind what is on the disk.
                        file.sync()
                        copy.save(settled=True)
                    copy.on_progress(copy.account, "")

        try:
            try:
                await _until_stopped(copy, work(), stop)
            finally:
                file.sync()
                copy.save(settled=True, at_once=True)
            if not copy.account.is_stopped:
                file.end()
        except (BackupError, WriteFailed) as error:
            # Nothing of it has the name that was asked for.
            file.discard()
            copy.account.lose_all(str(error))
            copy.forget()
            raise
        copy.finish()


@dataclass(slots=True)
class Counts:
    """What a copy would do."""

    messages: int = 0
    payload_bytes: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    gone: int = 0
    subjects: Counter[str] = field(default_factory=Counter)
    """Subject at the target → messages."""
    streams: dict[str, str | None] = field(default_factory=dict)
    """Of the subjects with most messages: the stream that would store them."""


MOST_SUBJECTS = 20


async def remembering_s(target: Client, copy: Copy) -> float:
    """Return for how long the target knows an id again; 0 when it is not one named stream."""
    if copy.target.stream is None:
        return 0.0
    info = json.loads(await target.request(f"STREAM.INFO.{copy.target.stream}"))
    return float(info["config"].get("duplicate_window") or 0) / 1e9


async def count_copy(source: Client, target: Client, copy: Copy) -> Counts:
    """Read all that would be copied, without sending any."""
    counts = Counts()
    async with aclosing(copy.messages(source, headers_only=True)) as found:
        async for one in found:
            if isinstance(one, int):
                counts.gone += 1
                continue
            read, _ = one
            counts.messages += 1
            size = dict(read.headers).get("Nats-Msg-Size", "")
            is_left_out = not read.payload and size.isdecimal()
            counts.payload_bytes += int(size) if is_left_out else len(read.payload)
            counts.first_seq = counts.first_seq or read.stream_seq
            counts.last_seq = read.stream_seq
            counts.subjects[copy.target.subject_of(read.subject)] += 1
    for subject, _ in counts.subjects.most_common(MOST_SUBJECTS):
        reply = json.loads(await target.request("STREAM.NAMES", {"subject": subject}))
        counts.streams[subject] = next(iter(reply.get("streams") or ()), None)
    return counts
