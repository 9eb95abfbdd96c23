"""The content of a role's messages: sizes, subjects, ids, repeats."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.bench.job.protocol import Orders
from natstui.bench.job.stamps import NO_STAMP, STAMP_BYTES, StampPlace, binary_place, place_of_run
from natstui.bench.job.template import SEQ_DIGITS, Frame, Part, Template
from natstui.errors import UsageError
from natstui.files import MOST_PAYLOAD_BYTES, read_plain
from natstui.model.bench.plan import BenchmarkPlan, Payload
from natstui.units import bytes_text

_SIZES_OF_A_RANGE = 16
ALIKE_MSGS = 16
"""Messages of one size in a row where entire blocks are written; equal frames are fast."""
_SCALE = 2654435761
_JSON_HEAD = b'{"stamp":"'


def payload_place(payload: Payload) -> StampPlace:
    """Return the place of the stamp in a payload."""
    if payload.kind == "json":
        return StampPlace(len(_JSON_HEAD), STAMP_BYTES, as_hex=True)
    return binary_place(payload.size_bytes)


def stamp_place(orders: Orders, payload: Payload | None) -> StampPlace:
    """Return the place of the stamp in messages of this run; `payload` is their content."""
    if payload is None:
        return NO_STAMP
    return place_of_run(payload_place(payload), orders.run_id, orders.epoch_ns)


def payload_texts(payload: Payload) -> list[bytes]:
    """Return the payloads to send: one, or one per size of a range.

    Raises UsageError if the payload file cannot be read.
    """
    match payload.kind:
        case "file":
            return [_read(payload.file or "")]
        case "json":
            return [_order_json(payload.size_bytes)]
        case "range":
            max_bytes = payload.size_max_bytes or payload.size_bytes
            sizes = np.linspace(payload.size_bytes, max_bytes, _SIZES_OF_A_RANGE).astype(int)
            return [_random_bytes(size) for size in dict.fromkeys(sizes.tolist())]
        case _:
            return [_random_bytes(payload.size_bytes)]


def check_fits(plan: BenchmarkPlan, most_bytes: int) -> None:
    """Raise UsageError if a payload of the plan is longer than `most_bytes`.

    That is `max_payload` of the server, which would close the connection.
    """
    for role in plan.roles:
        if not role.traits.sends:
            continue
        # As it is asked for: what is far too large is never made.
        size_bytes = max(role.payload.size_bytes, role.payload.size_max_bytes or 0)
        if size_bytes <= most_bytes:
            size_bytes = max(map(len, payload_texts(role.payload)))
        if size_bytes > most_bytes:
            raise UsageError(
                f"role {role.name!r}: payloads of {bytes_text(size_bytes)} are larger than "
                f"max_payload of the server, {bytes_text(most_bytes)}"
            )


def size_index_of(number: int, sizes: Sequence[object]) -> int:
    """Return the index in `sizes` of the size of message (or group of messages) `number`.

    Sizes are evenly distributed, without an order, and the same in every run.
    """
    return ((number * _SCALE) & 0xFFFFFFFF) * len(sizes) >> 32


def _read(file: str) -> bytes:
    try:
        return read_plain(Path(file), MOST_PAYLOAD_BYTES)
    except OSError as error:
        raise UsageError(f"the payload file {file!r} cannot be read: {error.strerror}") from error


def _random_bytes(size_bytes: int) -> bytes:
    """Return bytes that compress badly, the same in every run."""
    return random.Random(size_bytes).randbytes(size_bytes)


def _order_json(size_bytes: int) -> bytes:
    """Return an order of a shop as JSON; at least as long as its fields need."""
    head = _JSON_HEAD + b"0" * (2 * STAMP_BYTES)
    filler = (
        b'","type":"order.placed","customer":"c-104823","currency":"EUR","total":129.95,"note":"'
    )
    letters = random.Random(7).choices(string.ascii_letters + "     ", k=size_bytes)
    room = max(size_bytes - len(head) - len(filler) - 2, 0)
    return head + filler + "".join(letters[:room]).encode() + b'"}'


class SenderSettings:
    """The current payload of a sender; it may change during a run."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        """The orders with the current payload: a new object after every change."""
        self.place = stamp_place(orders, orders.role.payload)
        """Position of the stamp for receivers, constant during the run."""

    def change(self, payload: Payload) -> None:
        """Use another payload from the next message on, by replacing `orders`."""
        role = replace(self.orders.role, payload=payload)
        self.orders = msgspec.structs.replace(self.orders, role=role)


class Content:
    """The frames of one sender: subject, headers, stamp and payload of its messages."""

    def __init__(
        self,
        sending: SenderSettings,
        max_msgs: int,
        reply: tuple[Part, ...] = (),
        headers: tuple[tuple[Part, ...], ...] = (),
    ) -> None:
        self._sending, self._most = sending, max_msgs
        self._reply, self._headers = reply, headers
        self._make(sending.orders)

    def _make(self, orders: Orders) -> None:
        self._orders, role, stamp = orders, orders.role, self._sending.place
        headers = (*self._headers, *header_parts(orders))
        self.templates = [
            Template(Frame(subject_parts(orders), text, stamp, self._reply, headers), self._most)
            for text in payload_texts(role.payload)
        ]
        self.logical = repeated_numbers(role.payload.duplicate_ratio)
        """Maps the number of a send to that of its message, lower after intended repeats."""
        self._publisher = orders.publisher_id
        self._subjects = role.subjects_count
        self._random = np.random.default_rng(orders.publisher_id) if role.subjects_random else None

    def frames(
        self, first: int, due_ns: Int64s, now_ns: int, numbers: dict[str, Int64s] | None = None
    ) -> tuple[bytes, int]:
        """Return the frames of messages from number `first` on, ready to write, and their payload
        bytes.

        There is one for each of `due_ns` (steady clock), sent at `now_ns`. `numbers` are further
        values for the template by name, one per message.
        """
        if self._sending.orders is not self._orders:
            self._make(self._sending.orders)
        seqs = self.logical(np.arange(first, first + len(due_ns)))
        values = {"id": seqs, **(numbers or {})}
        if self._subjects > 1:
            values["subject"] = self._spread(seqs)
        parts, payload_bytes, start = [], 0, 0
        while start < len(due_ns):
            end, template = self._alike(first + start, first + len(due_ns))
            part = slice(start, end - first)
            part_values = {name: column[part] for name, column in values.items()}
            rows = template.fill(due_ns[part], now_ns, self._publisher, seqs[part], part_values)
            parts.append(rows.tobytes())
            payload_bytes += len(rows) * template.payload_bytes
            start = end - first
        return b"".join(parts), payload_bytes

    def _alike(self, number: int, end: int) -> tuple[int, Template]:
        """Return how many messages from this one on have its size, and their template."""
        if len(self.templates) == 1:
            template = self.templates[0]
            return min(end, number + template.most), template
        group = number // ALIKE_MSGS
        template = self.templates[size_index_of(group, self.templates)]
        return min(end, (group + 1) * ALIKE_MSGS, number + template.most), template

    def _spread(self, seqs: Int64s) -> Int64s:
        if self._random is None:
            return seqs % self._subjects
        return self._random.integers(0, self._subjects, len(seqs))


def subject_parts(orders: Orders) -> tuple[Part, ...]:
    """Return the subject of a frame; it ends in a number if messages have several subjects."""
    role = orders.role
    if role.subjects_count == 1:
        return (role.subject.encode(),)
    width = len(str(role.subjects_count - 1))
    return (role.subject.encode() + b".", ("subject", width))


def header_parts(orders: Orders) -> tuple[tuple[Part, ...], ...]:
    """Return the header lines of a frame: those of the plan, and the message id if it has one."""
    payload = orders.role.payload
    lines: list[tuple[Part, ...]] = [
        (f"{name}: {value}".encode(),) for name, value in payload.headers
    ]
    if payload.msg_ids:
        prefix = f"Nats-Msg-Id: {orders.run_id}-{orders.publisher_id}-".encode()
        lines.append((prefix, ("id", SEQ_DIGITS)))
    return tuple(lines)


def repeated_numbers(ratio: float) -> Callable[[Int64s], Int64s]:
    """Return a function that maps the numbers of sends to those of their messages.

    With `ratio` 0.1, every tenth message is sent twice: both sends have its number.
    """
    if ratio <= 0:
        return lambda sends: sends
    interval = max(round(1 / ratio), 1)
    return lambda sends: (
        sends // (interval + 1) * interval + np.minimum(sends % (interval + 1), interval - 1)
    )
