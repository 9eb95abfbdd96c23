"""Subscribes to subjects on its own connection, and reports counts a few times a second.

With its own connection, a flood ends only that one, and never the one with which a server is
watched. Messages during an outage are lost: that is reported, with the reason.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnDenied
from natstui.jetstream.connection.wire_parser import Piece
from natstui.jetstream.messages.decode import headers_of
from natstui.jetstream.messages.listening.tally import (
    ROOT,
    Internal,
    SubjectFilter,
    SubjectTree,
    Tally,
    text_of,
)
from natstui.model.assets.subjects import is_subject
from natstui.model.live.row_filter import compiled
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    HEARD_KEPT_MSGS,
    RATE_OVER_S,
    Heard,
    Listened,
    RowKind,
    StartListening,
    SubjectRow,
    SubjectsLook,
)
from natstui.model.records.messages import StoredMessage

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_MOST_ROWS = 400
_MOST_BELOW_ONE = 100


@dataclass(frozen=True, slots=True)
class _Moment:
    at_s: float
    msgs: Int64s
    sizes: Int64s


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of each place in the subject tree, alone or with everything below."""

    subjects: Int64s
    msgs: Int64s
    sizes: Int64s
    msgs_per_s: Float64s
    bytes_per_s: Float64s

    def rows_by(self, order: str) -> Int64s | Float64s:
        """Return the counters to sort by."""
        by_name: dict[str, Int64s | Float64s] = {
            "bytes": self.sizes, "msgs_per_s": self.msgs_per_s, "bytes_per_s": self.bytes_per_s,
        }  # fmt: skip
        return by_name.get(order, self.msgs)


class Moments:
    """Two moments of a tally, for rates."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._kept: deque[_Moment] = deque()
        self._levels: list[Int64s] = []
        self._levels_of_count = -1
        self._fits = np.zeros(1, np.bool_)
        self._wanted: SubjectFilter | None = None

    def look(self, at_s: float) -> None:
        """Store the current moment."""
        msgs, sizes = (_copied(counts) for counts in (self._tally.msgs, self._tally.sizes))
        self._kept.append(_Moment(at_s, msgs, sizes))
        while len(self._kept) > 2 and at_s - self._kept[1].at_s >= RATE_OVER_S:
            self._kept.popleft()

    def own(self) -> tuple[Int64s, Int64s, Float64s, Float64s]:
        """Return messages, bytes and their rates, of each place alone, at the last moment."""
        now, before = self._kept[-1], self._kept[0]
        over_s = now.at_s - before.at_s

        def rate(new: Int64s, old: Int64s) -> Float64s:
            grown: Float64s = new.astype(np.float64)
            grown[: len(old)] -= old
            return grown / over_s if over_s > 0 else np.zeros(len(new))

        return now.msgs, now.sizes, rate(now.msgs, before.msgs), rate(now.sizes, before.sizes)

    @property
    def know_rates(self) -> bool:
        """Return whether there are two moments to compare."""
        return len(self._kept) > 1

    def fitting(self, subject_filter: SubjectFilter) -> npt.NDArray[np.bool_]:
        """Return for each place whether a subject that ends there matches the filter."""
        paths = self._tally.tree.paths
        if subject_filter is not self._wanted:
            # Those that were not told apart may be of any subject.
            self._wanted, self._fits = subject_filter, np.ones(1, np.bool_)
        known_count = len(self._fits)
        if known_count < len(paths):
            newer = [subject_filter.fits_text(path) for path in paths[known_count:]]
            self._fits = np.concatenate([self._fits, np.array(newer, np.bool_)])
        return self._fits

    def rolled_up(self, own_counts: Counts) -> Counts:
        """Return the counters with those of everything below."""
        tree, count = self._tally.tree, len(own_counts.msgs)
        if count != self._levels_of_count:
            levels = _copied(tree.levels)
            deepest = int(levels.max())
            self._levels = [np.flatnonzero(levels == level) for level in range(deepest, 0, -1)]
            self._levels_of_count = count
        above = _copied(tree.above)

        def sums(figures: npt.NDArray[np.int64] | Float64s) -> Float64s:
            totals: Float64s = figures.astype(np.float64)
            for level_places in self._levels:
                totals += np.bincount(
                    above[level_places], weights=totals[level_places], minlength=count
                )
            return totals

        subjects, msgs, sizes = (
            sums(values).astype(np.int64)
            for values in (own_counts.subjects, own_counts.msgs, own_counts.sizes)
        )
        return Counts(
            subjects, msgs, sizes, sums(own_counts.msgs_per_s), sums(own_counts.bytes_per_s)
        )


def _copied(figures: object) -> Int64s:
    # Copied at once: an array that is looked at cannot grow.
    return np.frombuffer(figures, np.int64).copy()  # type: ignore[call-overload,no-any-return]


class Picture:
    """The rows of a tally for a look at one moment."""

    def __init__(
        self, tally: Tally, moments: Moments, look: SubjectsLook, subject_filter: SubjectFilter
    ) -> None:
        self._tree: SubjectTree = tally.tree
        self._look, self._knows_rates = look, moments.know_rates
        self._toggled = frozenset(look.toggled)
        fits = moments.fitting(subject_filter)
        msgs, sizes, msgs_per_s, bytes_per_s = moments.own()
        self.own = Counts(
            ((msgs > 0) & fits).astype(np.int64), msgs * fits, sizes * fits,
            msgs_per_s * fits, bytes_per_s * fits,
        )  # fmt: skip
        # Place 0 stands for subjects that have no place.
        self.own.subjects[ROOT] = 0
        self.wanted_subjects_count = int(self.own.subjects.sum())
        self.unwanted_msgs = int(msgs.sum() - self.own.msgs.sum())
        self._counts = moments.rolled_up(self.own) if look.as_tree else self.own
        self._others_count = tally.others.count()
        self._rows: list[SubjectRow] = []

    def rows(self) -> tuple[SubjectRow, ...]:
        """Return the rows, in order."""
        if self._look.as_tree:
            self._branch(ROOT)
        else:
            places = np.flatnonzero(self._counts.subjects)
            self._list(places, "", 0, _MOST_ROWS)
        if self.own.msgs[ROOT]:
            self._rows.append(self._row(ROOT, "others", 0, self.own, is_open=False))
        return tuple(self._rows)

    def _branch(self, above: int) -> None:
        below = self._tree.below.get(above)
        if below is None:
            return
        places = _copied(below)
        places = places[(places < len(self._counts.msgs))]
        places = places[self._counts.subjects[places] > 0]
        row_limit = _MOST_ROWS if above == ROOT else _MOST_BELOW_ONE
        self._list(places, self._tree.paths[above], int(self._tree.levels[above]), row_limit)

    def _list(self, places: Int64s, above: str, level: int, limit: int) -> None:
        """Add rows for the first places, and one row for the others."""
        chosen_places = self._first(places, min(limit, max(1, _MOST_ROWS - len(self._rows))))
        for place in map(int, chosen_places):
            is_open = self._is_open(place)
            has_more = self._look.as_tree and place in self._tree.below
            kind: RowKind = "branch" if has_more else "subject"
            self._rows.append(self._row(place, kind, level, self._counts, is_open=is_open))
            if is_open:
                self._branch(place)
        if len(chosen_places) < len(places):
            other_places = np.setdiff1d(places, chosen_places, assume_unique=True)
            self._rows.append(self._rest(other_places, above, level))

    def _is_open(self, place: int) -> bool:
        if not self._look.as_tree or place not in self._tree.below:
            return False
        if len(self._rows) >= _MOST_ROWS:
            return False
        is_above_level = self._tree.levels[place] < self._look.open_level
        return is_above_level is not (self._tree.paths[place] in self._toggled)

    def _first(self, places: Int64s, limit: int) -> Int64s:
        """Return the first places in the requested order, at most `limit`."""
        look, paths = self._look, self._tree.paths
        if look.by == "subject":
            pick = heapq.nlargest if look.reverse else heapq.nsmallest
            by_path = pick(limit, map(int, places), key=paths.__getitem__)
            return np.array(by_path, np.int64)
        sign = -1 if look.reverse else 1
        figures = sign * self._counts.rows_by(look.by)[places]
        if len(places) > limit:
            nearest = np.argpartition(figures, limit)[:limit]
            places, figures = places[nearest], figures[nearest]
        order = np.lexsort((places, -self._counts.msgs[places], figures))
        return places[order]

    def _row(
        self, place: int, kind: RowKind, level: int, counts: Counts, *, is_open: bool
    ) -> SubjectRow:
        count = self._others_count if kind == "others" else int(counts.subjects[place])
        per_s, bytes_per_s = float(counts.msgs_per_s[place]), float(counts.bytes_per_s[place])
        return SubjectRow(
            self._tree.paths[place], kind, level, is_open, count,
            int(counts.msgs[place]), int(counts.sizes[place]),
            per_s if self._knows_rates else None,
            bytes_per_s if self._knows_rates else None,
        )  # fmt: skip

    def _rest(self, places: Int64s, above: str, level: int) -> SubjectRow:
        counts = self._counts
        per_s, bytes_per_s = (
            float(rates[places].sum()) if self._knows_rates else None
            for rates in (counts.msgs_per_s, counts.bytes_per_s)
        )
        return SubjectRow(
            above, "rest", level, False, int(counts.subjects[places].sum()),
            int(counts.msgs[places].sum()), int(counts.sizes[places].sum()), per_s, bytes_per_s,
        )  # fmt: skip


_MOST_BYTES = 32 * 1024 * 1024


class _Block(NamedTuple):
    at_us: int
    numbers: range | list[int]
    data: bytes
    run: list[Piece]


class _Kept:
    """Blocks with at least the newest `count` messages, within a limit of memory."""

    def __init__(self) -> None:
        self.blocks: deque[_Block] = deque()
        self._count = self._bytes = 0

    def add(self, block: _Block) -> None:
        self.blocks.append(block)
        self._count += len(block.run)
        self._bytes += len(block.data)
        while len(self.blocks) > 1 and (
            self._count - len(self.blocks[0].run) >= HEARD_KEPT_MSGS or self._bytes > _MOST_BYTES
        ):
            oldest_block = self.blocks.popleft()
            self._count -= len(oldest_block.run)
            self._bytes -= len(oldest_block.data)

    def newest(self) -> Iterator[tuple[int, int, bytes, Piece]]:
        """Yield number, time, data and piece of each message, the newest first."""
        for at_us, numbers, data, run in reversed(self.blocks):
            for number, message_piece in zip(reversed(numbers), reversed(run), strict=True):
                yield number, at_us, data, message_piece


class Newest:
    """The newest messages of all, and the newest that match a filter."""

    def __init__(self, subject_filter: SubjectFilter) -> None:
        self._all, self._chosen = _Kept(), _Kept()
        self._wanted = subject_filter
        self._came_msgs = 0

    def add(self, data: bytes, run: list[Piece], at_us: int) -> None:
        """Add the messages of a block."""
        first_number, self._came_msgs = self._came_msgs, self._came_msgs + len(run)
        block = _Block(at_us, range(first_number + 1, self._came_msgs + 1), data, run)
        self._all.add(block)
        self._choose(block)

    def want(self, subject_filter: SubjectFilter) -> None:
        """Change the filter; the newest received messages are filtered again."""
        self._wanted, self._chosen = subject_filter, _Kept()
        for block in self._all.blocks:
            self._choose(block)

    def told(self, preview_bytes: int) -> tuple[Heard, ...]:
        """Return the newest matching messages, oldest first."""
        received = list[Heard]()
        for number, at_us, data, message_piece in self._chosen.newest():
            received.append(_heard(number, at_us, data, message_piece, preview_bytes))
            if len(received) == HEARD_KEPT_MSGS:
                break
        return tuple(reversed(received))

    def find(self, number: int) -> Heard | None:
        """Return a message with its entire payload; None if it is not stored any more."""
        for blocks in (self._chosen, self._all):
            for stored_number, at_us, data, message_piece in blocks.newest():
                if stored_number == number:
                    return _heard(number, at_us, data, message_piece, None)
        return None

    def _choose(self, block: _Block) -> None:
        if self._wanted.is_everything:
            self._chosen.add(block)
            return
        fits = self._wanted.fits
        pairs = [(n, p) for n, p in zip(block.numbers, block.run, strict=True) if fits(p[0])]
        if pairs:
            numbers, run = map(list, zip(*pairs, strict=True))
            self._chosen.add(_Block(block.at_us, numbers, block.data, run))


def _heard(number: int, at_us: int, data: bytes, piece: Piece, preview_bytes: int | None) -> Heard:
    subject, reply, start, header_bytes, size_bytes = piece
    payload_start, end = start + header_bytes, start + size_bytes
    preview = data[
        payload_start : end if preview_bytes is None else min(end, payload_start + preview_bytes)
    ]
    message = StoredMessage(
        None,
        text_of(subject),
        at_us,
        headers_of(data[start:payload_start]) if header_bytes else (),
        base64.b64encode(preview).decode(),
        end - payload_start,
    )
    return Heard(number, text_of(reply), message)


_REPORT_S = 0.5
_REST_PER_REPORT = 9
"""Pause after a slow report, in durations of it: nine tenths of the time are for counting."""
_PREVIEW_BYTES = 256
_HANDED_OVER_S = 0.1


class Listener:
    """Counts messages, stores the newest, and reports both."""

    def __init__(self, command: StartListening, on_listened: Callable[[Listened], None]) -> None:
        """Create for the subjects of a command; raises UsageError for an invalid filter."""
        self._asked, self._on_listened = command, on_listened
        self.number = command.command_id
        self._look_soon = asyncio.Event()
        self._client: Client | None = None
        self._begun_s = time.monotonic()
        self._is_connected = False
        self._lost_count = 0
        self._lost_by: str | None = None
        self._began("_INBOX")

    def _began(self, inbox_prefix: str) -> None:
        self._internal = Internal(inbox_prefix, self._asked.subjects)
        self._tally = Tally(self._internal)
        self._moments = Moments(self._tally)
        self._look = self._asked.look
        self._wanted = self._wanted_of(self._look)
        self._newest = Newest(self._wanted)

    async def begin(self, connection: Connection, on_denied: OnDenied) -> None:
        """Connect and subscribe; `on_denied` is called when a subject is refused later on.

        Raises ConnectionFailed, PermissionDenied, and RequestFailed for an invalid subject.
        """
        for subject in self._asked.subjects:
            if not is_subject(subject):
                raise RequestFailed(f"{subject!r} is not a subject")
        self._began(connection.inbox_prefix)
        self._client = client = await connect(connection, on_link=self._on_link)
        try:
            await self._subscribe(client, on_denied)
        except BaseException:
            await client.close()
            raise
        self._begun_s = time.monotonic()

    async def _subscribe(self, client: Client, on_denied: OnDenied) -> None:
        denied_future: asyncio.Future[PermissionDenied] = (
            asyncio.get_running_loop().create_future()
        )

        def deny(error: PermissionDenied) -> None:
            if denied_future.done():
                on_denied(error)
            else:
                denied_future.set_result(error)

        for subject in self._asked.subjects:
            subscription = await client.subscribe(subject, self._late, deny)
            client.nc.deliver_runs(subscription, self._take)
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self._asked.subjects[0], limit_s) from error
        # From here on nothing is missed. What is refused was said before, and is handed over a
        # moment after.
        await asyncio.wait({denied_future}, timeout=_HANDED_OVER_S)
        if denied_future.done():
            raise denied_future.result()
        denied_future.cancel()

    async def run(self) -> None:
        """Report until cancelled."""
        assert self._client is not None
        try:
            while True:
                began_s = time.monotonic()
                self._look_soon.clear()
                self._report()
                took_s = time.monotonic() - began_s
                await asyncio.sleep(took_s * _REST_PER_REPORT)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, _REPORT_S - took_s)):
                        await self._look_soon.wait()
        finally:
            await self._client.close()

    def look_at(self, look: SubjectsLook) -> None:
        """Change order, filter or tree; raises UsageError for an invalid filter."""
        before = (self._look.pattern, self._look.internal)
        if (look.pattern, look.internal) != before:
            self._wanted = self._wanted_of(look)
            self._newest.want(self._wanted)
        self._look = look
        self._look_soon.set()

    def find(self, number: int) -> Heard:
        """Return a received message; raises RequestFailed if it is not stored any more."""
        received = self._newest.find(number)
        if received is None:
            raise RequestFailed(
                f"message {number:,} is no longer kept: newer ones have replaced it"
            )
        return received

    def _wanted_of(self, look: SubjectsLook) -> SubjectFilter:
        matches = compiled(look.pattern) if look.pattern else None
        return SubjectFilter(self._internal, matches, with_internal=look.internal)

    def _take(self, data: bytes, run: list[Piece]) -> None:
        self._tally.add(run)
        self._newest.add(data, run, time.time_ns() // 1000)

    async def _late(self, msg: Msg) -> None:
        """Count a message that came before block-wise delivery was active."""
        headers: bytes = getattr(msg.headers, "block", b"")
        data = headers + msg.data
        subject, reply = msg.subject.encode(), msg.reply.encode()
        self._take(data, [(subject, reply, 0, len(headers), len(data))])

    def _on_link(self, change: LinkChanged) -> None:
        was, self._is_connected = self._is_connected, change.state == "connected"
        if was and change.state == "reconnecting":
            self._lost_count += 1
        if change.state == "reconnecting":
            self._lost_by = change.reason or self._lost_by

    def _report(self) -> None:
        self._moments.look(time.monotonic())
        picture = Picture(self._tally, self._moments, self._look, self._wanted)
        msgs, sizes, msgs_per_s, bytes_per_s = self._moments.own()
        knows = self._moments.know_rates
        self._on_listened(
            Listened(
                at_us=time.time_ns() // 1000,
                command_id=self._asked.command_id,
                elapsed_s=time.monotonic() - self._begun_s,
                look=self._look,
                came_msgs=int(msgs.sum()),
                came_bytes=int(sizes.sum()),
                msgs_per_s=float(msgs_per_s.sum()) if knows else None,
                bytes_per_s=float(bytes_per_s.sum()) if knows else None,
                subjects_count=int((msgs[1:] > 0).sum()),
                other_subjects_count=self._tally.others.count(),
                unwanted_msgs=picture.unwanted_msgs,
                wanted_subjects_count=picture.wanted_subjects_count,
                rows=picture.rows(),
                heard=self._newest.told(_PREVIEW_BYTES),
                interruptions_count=self._lost_count,
                interrupted_by=self._lost_by,
            )
        )
