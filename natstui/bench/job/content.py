"""The messages of a role as protocol: sizes, subjects, message ids, intended repeats."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.bench.job.protocol import Orders
from natstui.bench.job.stamps import (
    NO_STAMP,
    STAMP_BYTES,
    StampLayout,
    binary_stamp_layout,
    layout_of_run,
)
from natstui.bench.job.template import (
    SEQ_DIGITS,
    FrameFormat,
    FramePart,
    FrameTemplate,
    NumberField,
)
from natstui.errors import UsageError
from natstui.files import MAX_PAYLOAD_BYTES, read_regular_file
from natstui.model.bench.plan import BenchmarkPlan, Payload
from natstui.units import bytes_text
from natstui.values import replace

_SIZES_PER_RANGE = 16
SAME_SIZE_MSGS = 16
"""Consecutive messages of the same size in a range of sizes: equal frames are written faster."""
_HASH_MULTIPLIER = 2654435761
_JSON_HEAD = b'{"stamp":"'


def payload_stamp_layout(payload: Payload) -> StampLayout:
    """Return the layout of the stamp in a payload; the id of the run is not set."""
    if payload.kind == "json":
        return StampLayout(len(_JSON_HEAD), STAMP_BYTES, is_hex=True)
    return binary_stamp_layout(payload.size_bytes)


def stamp_layout(orders: Orders, payload: Payload | None) -> StampLayout:
    """Return the layout of the stamp in messages of this run with this payload.

    `NO_STAMP` if `payload` is None.
    """
    if payload is None:
        return NO_STAMP
    return layout_of_run(payload_stamp_layout(payload), orders.run_id, orders.epoch_ns)


def build_payloads(payload: Payload) -> list[bytes]:
    """Return the payloads to send: one, or one per size of a range.

    Raises UsageError if the payload file cannot be read.
    """
    match payload.kind:
        case "file":
            return [_read_payload_file(payload.file or "")]
        case "json":
            return [_shop_order_json(payload.size_bytes)]
        case "range":
            max_bytes = payload.size_max_bytes or payload.size_bytes
            sizes = np.linspace(payload.size_bytes, max_bytes, _SIZES_PER_RANGE).astype(int)
            return [_random_bytes(size) for size in dict.fromkeys(sizes.tolist())]
        case _:
            return [_random_bytes(payload.size_bytes)]


def check_payload_sizes(plan: BenchmarkPlan, max_bytes: int) -> None:
    """Raise UsageError if a payload of the plan is longer than `max_bytes`.

    That is `max_payload` of the server, which would close the connection.
    """
    for role in plan.roles:
        if not role.traits.sends:
            continue
        # By the plan's sizes first: a payload that is far too large is never generated.
        size_bytes = max(role.payload.size_bytes, role.payload.size_max_bytes or 0)
        if size_bytes <= max_bytes:
            size_bytes = max(map(len, build_payloads(role.payload)))
        if size_bytes > max_bytes:
            raise UsageError(
                f"role {role.name!r}: payloads of {bytes_text(size_bytes)} are larger than "
                f"max_payload of the server, {bytes_text(max_bytes)}"
            )


def size_index_of(number: int, sizes: Sequence[object]) -> int:
    """Return the index in `sizes` of the size that message (or group of messages) `number` has.

    Sizes are evenly distributed, in a pseudorandom order that is the same in every run.
    """
    return ((number * _HASH_MULTIPLIER) & 0xFFFFFFFF) * len(sizes) >> 32


def _read_payload_file(file: str) -> bytes:
    try:
        return read_regular_file(Path(file), MAX_PAYLOAD_BYTES)
    except OSError as error:
        raise UsageError(f"the payload file {file!r} cannot be read: {error.strerror}") from error


def _random_bytes(size_bytes: int) -> bytes:
    """Return bytes that compress badly, the same in every run."""
    return random.Random(size_bytes).randbytes(size_bytes)


def _shop_order_json(size_bytes: int) -> bytes:
    """Return an order of a shop as JSON of `size_bytes`, or longer if its fields need more."""
    json_start = _JSON_HEAD + b"0" * (2 * STAMP_BYTES)
    order_fields_json = (
        b'","type":"order.placed","customer":"c-104823","currency":"EUR","total":129.95,"note":"'
    )
    letters = random.Random(7).choices(string.ascii_letters + "     ", k=size_bytes)
    note_chars = max(size_bytes - len(json_start) - len(order_fields_json) - 2, 0)
    return json_start + order_fields_json + "".join(letters[:note_chars]).encode() + b'"}'


class SenderSettings:
    """The current payload of a sender; it may change during a run."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        """The orders with the current payload: a new object after every change."""
        self.stamp_layout = stamp_layout(orders, orders.role.payload)
        """Layout of the stamp, by which receivers read it; constant during the run."""

    def change_payload(self, payload: Payload) -> None:
        """Change the payload from the next message on, by replacing `orders`."""
        role = replace(self.orders.role, payload=payload)
        self.orders = replace(self.orders, role=role)


class MessageContent:
    """The frames of one sender: subject, headers, stamp and payload of its messages."""

    def __init__(
        self,
        settings: SenderSettings,
        max_msgs: int,
        reply_subject: tuple[FramePart, ...] = (),
        headers: tuple[tuple[FramePart, ...], ...] = (),
    ) -> None:
        self._settings, self._max_msgs = settings, max_msgs
        self._reply_subject, self._headers = reply_subject, headers
        self._build_templates(settings.orders)

    def _build_templates(self, orders: Orders) -> None:
        self._orders, role, layout = orders, orders.role, self._settings.stamp_layout
        headers = (*self._headers, *header_parts(orders))
        self.templates = [
            FrameTemplate(
                FrameFormat(subject_parts(orders), payload, layout, self._reply_subject, headers),
                self._max_msgs,
            )
            for payload in build_payloads(role.payload)
        ]
        self.to_message_numbers = message_numbering(role.payload.duplicate_ratio)
        """Maps the numbers of sends to those of their messages, lower after intended repeats."""
        self._publisher = orders.publisher_id
        self._subjects_count = role.subjects_count
        self._rng = np.random.default_rng(orders.publisher_id) if role.subjects_random else None

    def frames(
        self,
        first_number: int,
        due_ns: Int64s,
        now_ns: int,
        numbers_by_name: dict[str, Int64s] | None = None,
    ) -> tuple[bytes, int]:
        """Return frames of messages from `first_number` on, and the sum of their payload bytes.

        There is a frame for each time of `due_ns` (steady clock), sent at `now_ns`.
        `numbers_by_name`: name of another number → its value in each frame.
        """
        if self._settings.orders is not self._orders:
            self._build_templates(self._settings.orders)
        seqs = self.to_message_numbers(np.arange(first_number, first_number + len(due_ns)))
        numbers_by_field = {"id": seqs, **(numbers_by_name or {})}
        if self._subjects_count > 1:
            numbers_by_field["subject"] = self._choose_subjects(seqs)
        frame_blocks, payload_bytes, start_index = [], 0, 0
        while start_index < len(due_ns):
            end_number, template = self._choose_template(
                first_number + start_index, first_number + len(due_ns)
            )
            part_slice = slice(start_index, end_number - first_number)
            part_values = {name: column[part_slice] for name, column in numbers_by_field.items()}
            rows = template.fill(
                due_ns[part_slice], now_ns, self._publisher, seqs[part_slice], part_values
            )
            frame_blocks.append(rows.tobytes())
            payload_bytes += len(rows) * template.payload_bytes
            start_index = end_number - first_number
        return b"".join(frame_blocks), payload_bytes

    def _choose_template(self, number: int, end: int) -> tuple[int, FrameTemplate]:
        """Return the number after the last message that one template can write, and the template.

        These messages begin with `number`, have the same size, and end before message `end`.
        """
        if len(self.templates) == 1:
            template = self.templates[0]
            return min(end, number + template.max_frames), template
        size_group = number // SAME_SIZE_MSGS
        template = self.templates[size_index_of(size_group, self.templates)]
        return min(end, (size_group + 1) * SAME_SIZE_MSGS, number + template.max_frames), template

    def _choose_subjects(self, seqs: Int64s) -> Int64s:
        if self._rng is None:
            return seqs % self._subjects_count
        return self._rng.integers(0, self._subjects_count, len(seqs))


def subject_parts(orders: Orders) -> tuple[FramePart, ...]:
    """Return the subject of messages; it ends in a number if they have several subjects."""
    role = orders.role
    if role.subjects_count == 1:
        return (role.subject.encode(),)
    digits_count = len(str(role.subjects_count - 1))
    return (role.subject.encode() + b".", NumberField("subject", digits_count))


def header_parts(orders: Orders) -> tuple[tuple[FramePart, ...], ...]:
    """Return the header lines of a frame: the plan's headers, and the message id if it has one."""
    payload = orders.role.payload
    header_lines: list[tuple[FramePart, ...]] = [
        (f"{name}: {value}".encode(),) for name, value in payload.headers
    ]
    if payload.msg_ids:
        prefix = f"Nats-Msg-Id: {orders.run_id}-{orders.publisher_id}-".encode()
        header_lines.append((prefix, NumberField("id", SEQ_DIGITS)))
    return tuple(header_lines)


def message_numbering(ratio: float) -> Callable[[Int64s], Int64s]:
    """Return a function that maps the numbers of sends to those of their messages.

    With `ratio` 0.1, every tenth message is sent twice: both sends have its number.
    """
    if ratio <= 0:
        return lambda sends: sends
    repeat_interval_msgs = max(round(1 / ratio), 1)
    return lambda sends: (
        sends // (repeat_interval_msgs + 1) * repeat_interval_msgs
        + np.minimum(sends % (repeat_interval_msgs + 1), repeat_interval_msgs - 1)
    )
