"""Subscribes to subjects on a connection of its own, and reports counts twice a second.

If there are too many messages, the server closes only this connection, and not the one with which
natstui watches it. Messages are lost while the connection is lost: that is reported, with the
reason.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnDenied
from natstui.jetstream.connection.wire_parser import BlockMessage
from natstui.jetstream.messages.decode import parse_headers
from natstui.jetstream.messages.listening.tally import (
    ROOT_NODE,
    InternalSubjects,
    SubjectFilter,
    SubjectTree,
    Tally,
    subject_text,
)
from natstui.model.assets.subjects import is_valid_subject
from natstui.model.live.row_filter import compile_filter
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    MAX_KEPT_MSGS,
    RATE_WINDOW_S,
    Listened,
    ListeningMessage,
    RowKind,
    StartListening,
    SubjectRow,
    SubjectRowOptions,
)
from natstui.model.records.messages import StoredMessage

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

_MAX_ROWS = 400
_MAX_ROWS_OF_BRANCH = 100


class _CountsSample(Struct, frozen=True):
    at_s: float
    msgs: Int64Array
    byte_counts: Int64Array


class NodeCounts(Struct, frozen=True):
    """Counters of each node in the subject tree, either without or with the nodes below it."""

    subjects: Int64Array
    msgs: Int64Array
    byte_counts: Int64Array
    msgs_per_s: Float64Array
    bytes_per_s: Float64Array

    def sort_column(self, order: str) -> Int64Array | Float64Array:
        """Return the counters of all nodes by which `order` sorts the rows."""
        column_by_order: dict[str, Int64Array | Float64Array] = {
            "bytes": self.byte_counts, "msgs_per_s": self.msgs_per_s,
            "bytes_per_s": self.bytes_per_s,
        }  # fmt: skip
        return column_by_order.get(order, self.msgs)


class RateSamples:
    """The counts of a tally at several times, from which rates are computed."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._samples: deque[_CountsSample] = deque()
        self._nodes_by_level: list[Int64Array] = []
        self._grouped_nodes_count = -1
        self._node_matches = np.zeros(1, np.bool_)
        self._subject_filter: SubjectFilter | None = None

    def add_sample(self, at_s: float) -> None:
        """Store the current counts, and drop samples older than the window of rates."""
        msgs, byte_counts = (
            _copy_to_array(counts) for counts in (self._tally.msgs, self._tally.byte_counts)
        )
        self._samples.append(_CountsSample(at_s, msgs, byte_counts))
        while len(self._samples) > 2 and at_s - self._samples[1].at_s >= RATE_WINDOW_S:
            self._samples.popleft()

    def read_counts(self) -> tuple[Int64Array, Int64Array, Float64Array, Float64Array]:
        """Return messages, bytes and the rates of both in the last sample, for each node without
        the nodes below it.
        """
        last_sample, first_sample = self._samples[-1], self._samples[0]
        elapsed_s = last_sample.at_s - first_sample.at_s

        def compute_rate(new_counts: Int64Array, old_counts: Int64Array) -> Float64Array:
            increase: Float64Array = new_counts.astype(np.float64)
            increase[: len(old_counts)] -= old_counts
            return increase / elapsed_s if elapsed_s > 0 else np.zeros(len(new_counts))

        return (
            last_sample.msgs,
            last_sample.byte_counts,
            compute_rate(last_sample.msgs, first_sample.msgs),
            compute_rate(last_sample.byte_counts, first_sample.byte_counts),
        )

    @property
    def has_rates(self) -> bool:
        """Return whether there are at least two samples, as rates need."""
        return len(self._samples) > 1

    def match_nodes(self, subject_filter: SubjectFilter) -> npt.NDArray[np.bool_]:
        """Return for each node whether its subject matches the filter."""
        paths = self._tally.tree.paths
        if subject_filter is not self._subject_filter:
            # The root matches: messages that are counted there may be of any subject.
            self._subject_filter, self._node_matches = subject_filter, np.ones(1, np.bool_)
        matched_nodes_count = len(self._node_matches)
        if matched_nodes_count < len(paths):
            new_matches = [
                subject_filter.matches_text(path) for path in paths[matched_nodes_count:]
            ]
            self._node_matches = np.concatenate(
                [self._node_matches, np.array(new_matches, np.bool_)]
            )
        return self._node_matches

    def sum_subtrees(self, own_counts: NodeCounts) -> NodeCounts:
        """Return the counters of each node together with those of all nodes below it."""
        tree, count = self._tally.tree, len(own_counts.msgs)
        if count != self._grouped_nodes_count:
            levels = _copy_to_array(tree.levels)
            deepest_level = int(levels.max())
            self._nodes_by_level = [
                np.flatnonzero(levels == level) for level in range(deepest_level, 0, -1)
            ]
            self._grouped_nodes_count = count
        parents = _copy_to_array(tree.parents)

        def sum_levels(values: npt.NDArray[np.int64] | Float64Array) -> Float64Array:
            sums_by_node: Float64Array = values.astype(np.float64)
            for level_nodes in self._nodes_by_level:
                sums_by_node += np.bincount(
                    parents[level_nodes], weights=sums_by_node[level_nodes], minlength=count
                )
            return sums_by_node

        subjects, msgs, byte_counts = (
            sum_levels(values).astype(np.int64)
            for values in (own_counts.subjects, own_counts.msgs, own_counts.byte_counts)
        )
        return NodeCounts(
            subjects,
            msgs,
            byte_counts,
            sum_levels(own_counts.msgs_per_s),
            sum_levels(own_counts.bytes_per_s),
        )


def _copy_to_array(values: object) -> Int64Array:
    # A view is copied and dropped at once, because an array with a view cannot grow.
    return np.frombuffer(values, np.int64).copy()  # type: ignore[call-overload,no-any-return]


class SubjectTable:
    """The rows of the listening screen, computed from a tally for one choice of options."""

    def __init__(
        self,
        tally: Tally,
        samples: RateSamples,
        row_options: SubjectRowOptions,
        subject_filter: SubjectFilter,
    ) -> None:
        self._tree: SubjectTree = tally.tree
        self._row_options, self._has_rates = row_options, samples.has_rates
        self._toggled_paths = frozenset(row_options.toggled)
        node_matches = samples.match_nodes(subject_filter)
        msgs, byte_counts, msgs_per_s, bytes_per_s = samples.read_counts()
        self.own_counts = NodeCounts(
            ((msgs > 0) & node_matches).astype(np.int64), msgs * node_matches,
            byte_counts * node_matches, msgs_per_s * node_matches, bytes_per_s * node_matches,
        )  # fmt: skip
        # The root stands for subjects without a node, and is none itself.
        self.own_counts.subjects[ROOT_NODE] = 0
        self.wanted_subjects_count = int(self.own_counts.subjects.sum())
        self.unwanted_msgs = int(msgs.sum() - self.own_counts.msgs.sum())
        self._counts = (
            samples.sum_subtrees(self.own_counts) if row_options.as_tree else self.own_counts
        )
        self._other_subjects_count = tally.other_subjects.count()
        self._rows: list[SubjectRow] = []

    def rows(self) -> tuple[SubjectRow, ...]:
        """Return the rows in the order of the screen."""
        if self._row_options.as_tree:
            self._add_branch(ROOT_NODE)
        else:
            nodes = np.flatnonzero(self._counts.subjects)
            self._add_rows(nodes, "", 0, _MAX_ROWS)
        if self.own_counts.msgs[ROOT_NODE]:
            self._rows.append(
                self._make_row(ROOT_NODE, "others", 0, self.own_counts, is_open=False)
            )
        return tuple(self._rows)

    def _add_branch(self, parent: int) -> None:
        children = self._tree.children.get(parent)
        if children is None:
            return
        nodes = _copy_to_array(children)
        nodes = nodes[(nodes < len(self._counts.msgs))]
        nodes = nodes[self._counts.subjects[nodes] > 0]
        row_limit = _MAX_ROWS if parent == ROOT_NODE else _MAX_ROWS_OF_BRANCH
        self._add_rows(nodes, self._tree.paths[parent], int(self._tree.levels[parent]), row_limit)

    def _add_rows(self, nodes: Int64Array, parent_path: str, level: int, limit: int) -> None:
        """Add a row for each of the first `limit` nodes, and one row for the others together."""
        first_nodes = self._select_first(nodes, min(limit, max(1, _MAX_ROWS - len(self._rows))))
        for node in map(int, first_nodes):
            is_open = self._is_node_expanded(node)
            has_children = self._row_options.as_tree and node in self._tree.children
            kind: RowKind = "branch" if has_children else "subject"
            self._rows.append(self._make_row(node, kind, level, self._counts, is_open=is_open))
            if is_open:
                self._add_branch(node)
        if len(first_nodes) < len(nodes):
            other_nodes = np.setdiff1d(nodes, first_nodes, assume_unique=True)
            self._rows.append(self._make_others_row(other_nodes, parent_path, level))

    def _is_node_expanded(self, node: int) -> bool:
        if not self._row_options.as_tree or node not in self._tree.children:
            return False
        if len(self._rows) >= _MAX_ROWS:
            return False
        is_above_level = self._tree.levels[node] < self._row_options.open_level
        return is_above_level is not (self._tree.paths[node] in self._toggled_paths)

    def _select_first(self, nodes: Int64Array, limit: int) -> Int64Array:
        """Return at most `limit` nodes, the first ones in the requested order of rows."""
        row_options, paths = self._row_options, self._tree.paths
        if row_options.by == "subject":
            select = heapq.nlargest if row_options.reverse else heapq.nsmallest
            sorted_nodes = select(limit, map(int, nodes), key=paths.__getitem__)
            return np.array(sorted_nodes, np.int64)
        sign = -1 if row_options.reverse else 1
        values = sign * self._counts.sort_column(row_options.by)[nodes]
        if len(nodes) > limit:
            first_indexes = np.argpartition(values, limit)[:limit]
            nodes, values = nodes[first_indexes], values[first_indexes]
        order = np.lexsort((nodes, -self._counts.msgs[nodes], values))
        return nodes[order]

    def _make_row(
        self, node: int, kind: RowKind, level: int, counts: NodeCounts, *, is_open: bool
    ) -> SubjectRow:
        count = self._other_subjects_count if kind == "others" else int(counts.subjects[node])
        msgs_per_s, bytes_per_s = float(counts.msgs_per_s[node]), float(counts.bytes_per_s[node])
        return SubjectRow(
            self._tree.paths[node], kind, level, is_open, count,
            int(counts.msgs[node]), int(counts.byte_counts[node]),
            msgs_per_s if self._has_rates else None,
            bytes_per_s if self._has_rates else None,
        )  # fmt: skip

    def _make_others_row(self, nodes: Int64Array, parent_path: str, level: int) -> SubjectRow:
        counts = self._counts
        msgs_per_s, bytes_per_s = (
            float(rates[nodes].sum()) if self._has_rates else None
            for rates in (counts.msgs_per_s, counts.bytes_per_s)
        )
        return SubjectRow(
            parent_path, "rest", level, False, int(counts.subjects[nodes].sum()),
            int(counts.msgs[nodes].sum()), int(counts.byte_counts[nodes].sum()), msgs_per_s,
            bytes_per_s,
        )  # fmt: skip


_MAX_KEPT_BYTES = 32 * 1024 * 1024


class _MessageBlock(NamedTuple):
    at_us: int
    message_numbers: range | list[int]
    data: bytes
    messages: list[BlockMessage]


class _MessageBlocks:
    """The newest blocks of received messages: with at least `MAX_KEPT_MSGS` messages, unless
    they are larger than `_MAX_KEPT_BYTES`.
    """

    def __init__(self) -> None:
        self.blocks: deque[_MessageBlock] = deque()
        self._messages_count = self._blocks_bytes = 0

    def add(self, block: _MessageBlock) -> None:
        self.blocks.append(block)
        self._messages_count += len(block.messages)
        self._blocks_bytes += len(block.data)
        while len(self.blocks) > 1 and (
            self._messages_count - len(self.blocks[0].messages) >= MAX_KEPT_MSGS
            or self._blocks_bytes > _MAX_KEPT_BYTES
        ):
            oldest_block = self.blocks.popleft()
            self._messages_count -= len(oldest_block.messages)
            self._blocks_bytes -= len(oldest_block.data)

    def newest(self) -> Iterator[tuple[int, int, bytes, BlockMessage]]:
        """Yield number, time (UTC µs), block and BlockMessage of each message, newest first."""
        for at_us, message_numbers, data, messages in reversed(self.blocks):
            for number, block_message in zip(
                reversed(message_numbers), reversed(messages), strict=True
            ):
                yield number, at_us, data, block_message


class NewestMessages:
    """The newest messages of all subjects, and the newest ones that match a filter."""

    def __init__(self, subject_filter: SubjectFilter) -> None:
        self._all_messages, self._matching_messages = _MessageBlocks(), _MessageBlocks()
        self._subject_filter = subject_filter
        self._received_msgs = 0

    def add(self, data: bytes, messages: list[BlockMessage], at_us: int) -> None:
        """Add the messages of a block."""
        first_number, self._received_msgs = (
            self._received_msgs,
            self._received_msgs + len(messages),
        )
        block = _MessageBlock(
            at_us, range(first_number + 1, self._received_msgs + 1), data, messages
        )
        self._all_messages.add(block)
        self._add_matching(block)

    def set_filter(self, subject_filter: SubjectFilter) -> None:
        """Change the filter, also for the stored messages."""
        self._subject_filter, self._matching_messages = subject_filter, _MessageBlocks()
        for block in self._all_messages.blocks:
            self._add_matching(block)

    def read_newest(self, preview_bytes: int) -> tuple[ListeningMessage, ...]:
        """Return the newest matching messages, oldest first, with `preview_bytes` of payload."""
        newest_messages = list[ListeningMessage]()
        for number, at_us, data, block_message in self._matching_messages.newest():
            newest_messages.append(
                _make_listening_message(number, at_us, data, block_message, preview_bytes)
            )
            if len(newest_messages) == MAX_KEPT_MSGS:
                break
        return tuple(reversed(newest_messages))

    def find(self, number: int) -> ListeningMessage | None:
        """Return the message `number` with its complete payload; None if it is discarded."""
        for blocks in (self._matching_messages, self._all_messages):
            for stored_number, at_us, data, block_message in blocks.newest():
                if stored_number == number:
                    return _make_listening_message(number, at_us, data, block_message, None)
        return None

    def _add_matching(self, block: _MessageBlock) -> None:
        if self._subject_filter.matches_everything:
            self._matching_messages.add(block)
            return
        matches = self._subject_filter.matches_subject
        pairs = [
            (number, block_message)
            for number, block_message in zip(block.message_numbers, block.messages, strict=True)
            if matches(block_message[0])
        ]
        if pairs:
            message_numbers, messages = map(list, zip(*pairs, strict=True))
            self._matching_messages.add(
                _MessageBlock(block.at_us, message_numbers, block.data, messages)
            )


def _make_listening_message(
    number: int, at_us: int, data: bytes, block_message: BlockMessage, preview_bytes: int | None
) -> ListeningMessage:
    subject, reply, start, header_bytes, size_bytes = block_message
    payload_start, end = start + header_bytes, start + size_bytes
    preview = data[
        payload_start : end if preview_bytes is None else min(end, payload_start + preview_bytes)
    ]
    message = StoredMessage(
        None,
        subject_text(subject),
        at_us,
        parse_headers(data[start:payload_start]) if header_bytes else (),
        base64.b64encode(preview).decode(),
        end - payload_start,
    )
    return ListeningMessage(number, subject_text(reply), message)


_REPORT_INTERVAL_S = 0.5
_REPORT_PAUSE_RATIO = 9
"""The pause after a report is at least so many times as long as the processor time of the report:
nine tenths of it remain for counting."""
_PREVIEW_BYTES = 256
_DENIAL_WAIT_S = 0.1


class Listener:
    """Counts messages by subject, stores the newest ones, and reports both."""

    def __init__(self, command: StartListening, on_report: Callable[[Listened], None]) -> None:
        """Create a listener for a command; raises UsageError for an invalid filter.

        `on_report` is called with each report.
        """
        self._command, self._on_report = command, on_report
        self._report_event = asyncio.Event()
        self._client: Client | None = None
        self._start_s = time.monotonic()
        self._is_connected = False
        self._lost_connections_count = 0
        self._lost_reason: str | None = None
        self._reset_counts("_INBOX")

    def _reset_counts(self, inbox_prefix: str) -> None:
        self._internal_subjects = InternalSubjects(inbox_prefix, self._command.subjects)
        self._tally = Tally(self._internal_subjects)
        self._samples = RateSamples(self._tally)
        self._row_options = self._command.look
        self._subject_filter = self._make_filter(self._row_options)
        self._newest_messages = NewestMessages(self._subject_filter)

    async def begin(self, connection: Connection, on_denied: OnDenied) -> None:
        """Connect and subscribe; `on_denied` is called when a subscription is denied later.

        Raises ConnectionFailed, PermissionDenied, and RequestFailed for an invalid subject.
        """
        for subject in self._command.subjects:
            if not is_valid_subject(subject):
                raise RequestFailed(f"{subject!r} is not a subject")
        self._reset_counts(connection.inbox_prefix)
        self._client = client = await connect(connection, on_link=self._on_link)
        try:
            await self._subscribe(client, on_denied)
        except BaseException:
            await client.close()
            raise
        self._start_s = time.monotonic()

    async def _subscribe(self, client: Client, on_denied: OnDenied) -> None:
        denied_future: asyncio.Future[PermissionDenied] = (
            asyncio.get_running_loop().create_future()
        )

        def on_denial(error: PermissionDenied) -> None:
            if denied_future.done():
                on_denied(error)
            else:
                denied_future.set_result(error)

        for subject in self._command.subjects:
            subscription = await client.subscribe(subject, self._on_early_message, on_denial)
            client.nc.deliver_blocks(subscription, self._on_message_block)
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self._command.subjects[0], limit_s) from error
        # From now on, no message is missed. The server sent denials before its reply to the ping,
        # but the client reports them a little later.
        await asyncio.wait({denied_future}, timeout=_DENIAL_WAIT_S)
        if denied_future.done():
            raise denied_future.result()
        denied_future.cancel()

    async def run(self) -> None:
        """Report the counts twice a second until cancelled."""
        assert self._client is not None
        try:
            while True:
                start_s = time.thread_time()
                self._report_event.clear()
                self._report()
                # Not the time that passed: on a busy machine the next report would be late.
                report_cpu_s = time.thread_time() - start_s
                await asyncio.sleep(report_cpu_s * _REPORT_PAUSE_RATIO)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, _REPORT_INTERVAL_S - report_cpu_s)):
                        await self._report_event.wait()
        finally:
            await self._client.close()

    def set_row_options(self, row_options: SubjectRowOptions) -> None:
        """Change the order and filter of the rows, and which tokens are expanded.

        Raises UsageError for an invalid filter.
        """
        previous_filter = (self._row_options.pattern, self._row_options.internal)
        if (row_options.pattern, row_options.internal) != previous_filter:
            self._subject_filter = self._make_filter(row_options)
            self._newest_messages.set_filter(self._subject_filter)
        self._row_options = row_options
        self._report_event.set()

    def find(self, number: int) -> ListeningMessage:
        """Return the received message `number`; raises RequestFailed if it is discarded."""
        message = self._newest_messages.find(number)
        if message is None:
            raise RequestFailed(
                f"message {number:,} is no longer kept: newer ones have replaced it"
            )
        return message

    def _make_filter(self, row_options: SubjectRowOptions) -> SubjectFilter:
        matches = compile_filter(row_options.pattern) if row_options.pattern else None
        return SubjectFilter(self._internal_subjects, matches, with_internal=row_options.internal)

    def _on_message_block(self, data: bytes, messages: list[BlockMessage]) -> None:
        self._tally.add(messages)
        self._newest_messages.add(data, messages, time.time_ns() // 1000)

    async def _on_early_message(self, msg: Msg) -> None:
        """Count a message that arrived before messages were delivered in blocks."""
        headers: bytes = getattr(msg.headers, "block", b"")
        data = headers + msg.data
        subject, reply = msg.subject.encode(), msg.reply.encode()
        self._on_message_block(data, [(subject, reply, 0, len(headers), len(data))])

    def _on_link(self, change: LinkChanged) -> None:
        was_connected, self._is_connected = self._is_connected, change.state == "connected"
        if was_connected and change.state == "reconnecting":
            self._lost_connections_count += 1
        if change.state == "reconnecting":
            self._lost_reason = change.reason or self._lost_reason

    def _report(self) -> None:
        self._samples.add_sample(time.monotonic())
        subject_table = SubjectTable(
            self._tally, self._samples, self._row_options, self._subject_filter
        )
        msgs, byte_counts, msgs_per_s, bytes_per_s = self._samples.read_counts()
        has_rates = self._samples.has_rates
        self._on_report(
            Listened(
                at_us=time.time_ns() // 1000,
                command_id=self._command.command_id,
                elapsed_s=time.monotonic() - self._start_s,
                look=self._row_options,
                came_msgs=int(msgs.sum()),
                came_bytes=int(byte_counts.sum()),
                msgs_per_s=float(msgs_per_s.sum()) if has_rates else None,
                bytes_per_s=float(bytes_per_s.sum()) if has_rates else None,
                subjects_count=int((msgs[1:] > 0).sum()),
                other_subjects_count=self._tally.other_subjects.count(),
                unwanted_msgs=subject_table.unwanted_msgs,
                wanted_subjects_count=subject_table.wanted_subjects_count,
                rows=subject_table.rows(),
                heard=self._newest_messages.read_newest(_PREVIEW_BYTES),
                interruptions_count=self._lost_connections_count,
                interrupted_by=self._lost_reason,
            )
        )
