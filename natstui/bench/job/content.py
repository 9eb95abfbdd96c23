"""What a role's messages contain, and which message comes next: sizes, subjects, ids, repeats."""

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
from natstui.bench.job.stamps import NO_STAMP, STAMP_BYTES, StampPlace, of_run, place_for
from natstui.bench.job.template import SEQ_DIGITS, Frame, Part, Template
from natstui.errors import UsageError
from natstui.files import MOST_PAYLOAD_BYTES, read_given
from natstui.model.bench.plan import BenchmarkPlan, Payload
from natstui.units import bytes_text

_SIZES_OF_A_RANGE = 16
ALIKE_MSGS = 16
"""Messages of one size in a row where whole blocks are written; equal frames are what is fast."""
_SCALE = 2654435761
_JSON_HEAD = b'{"stamp":"'


def payload_place(payload: Payload) -> StampPlace:
    """Return where a payload has room for a stamp."""
    if payload.kind == "json":
        return StampPlace(len(_JSON_HEAD), STAMP_BYTES, as_hex=True)
    return place_for(payload.size_bytes)


def stamp_place(orders: Orders, payload: Payload | None) -> StampPlace:
    """Return where messages of this run carry their stamp; `payload` is what they are made of."""
    if payload is None:
        return NO_STAMP
    return of_run(payload_place(payload), orders.run_id, orders.epoch_ns)


def payload_texts(payload: Payload) -> list[bytes]:
    """Return the payloads to send: one, or one per size of a range. Raises UsageError."""
    match payload.kind:
        case "file":
            return [_read(payload.file or "")]
        case "json":
            return [_order_json(payload.size_bytes)]
        case "range":
            most = payload.size_max_bytes or payload.size_bytes
            sizes = np.linspace(payload.size_bytes, most, _SIZES_OF_A_RANGE).astype(int)
            return [_filler(size) for size in dict.fromkeys(sizes.tolist())]
        case _:
            return [_filler(payload.size_bytes)]


def check_fits(plan: BenchmarkPlan, most_bytes: int) -> None:
    """Raise UsageError for a payload the server would end the connection for, again and again."""
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


def which_size(number: int, of: Sequence[object]) -> int:
    """Return which of several sizes a message, or a group of them, has: evenly, in no order."""
    return ((number * _SCALE) & 0xFFFFFFFF) * len(of) >> 32


def _read(file: str) -> bytes:
    try:
        return read_given(Path(file), MOST_PAYLOAD_BYTES)
    except OSError as error:
        raise UsageError(f"the payload file {file!r} cannot be read: {error.strerror}") from error


def _filler(size_bytes: int) -> bytes:
    """Return bytes that do not compress to nothing, the same in every run."""
    return random.Random(size_bytes).randbytes(size_bytes)


def _order_json(size_bytes: int) -> bytes:
    """Return an order as a shop would send it; at least as long as its fields need."""
    head = _JSON_HEAD + b"0" * (2 * STAMP_BYTES)
    rest = (
        b'","type":"order.placed","customer":"c-104823","currency":"EUR","total":129.95,"note":"'
    )
    letters = random.Random(7).choices(string.ascii_letters + "     ", k=size_bytes)
    room = max(size_bytes - len(head) - len(rest) - 2, 0)
    return head + rest + "".join(letters[:room]).encode() + b'"}'


class SenderSettings:
    """What a sender sends now; it may change while a run goes."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        """Another object after every change."""
        self.place = stamp_place(orders, orders.role.payload)
        """Where receivers look for the stamp: the same during the whole run."""

    def change(self, payload: Payload) -> None:
        """Send another payload from now on."""
        role = replace(self.orders.role, payload=payload)
        self.orders = msgspec.structs.replace(self.orders, role=role)


class Content:
    """The frames of one sender."""

    def __init__(
        self,
        sending: SenderSettings,
        most: int,
        reply: tuple[Part, ...] = (),
        headers: tuple[tuple[Part, ...], ...] = (),
    ) -> None:
        self._sending, self._most = sending, most
        self._reply, self._headers = reply, headers
        self._make(sending.orders)

    def _make(self, orders: Orders) -> None:
        self._orders, role, place = orders, orders.role, self._sending.place
        headers = (*self._headers, *header_parts(orders))
        self.templates = [
            Template(Frame(subject_parts(orders), text, place, self._reply, headers), self._most)
            for text in payload_texts(role.payload)
        ]
        self.logical = repeats(role.payload.duplicate_ratio)
        """Number sent → number of the message: less where one is sent twice on purpose."""
        self._publisher = orders.publisher_id
        self._subjects = role.subjects_count
        self._random = np.random.default_rng(orders.publisher_id) if role.subjects_random else None

    def frames(
        self, first: int, due_ns: Int64s, now_ns: int, numbers: dict[str, Int64s] | None = None
    ) -> tuple[bytes, int]:
        """Return the frames of messages `first` …, ready to write, and their payload bytes."""
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
            some = {name: column[part] for name, column in values.items()}
            rows = template.fill(due_ns[part], now_ns, self._publisher, seqs[part], some)
            parts.append(rows.tobytes())
            payload_bytes += len(rows) * template.payload_bytes
            start = end - first
        return b"".join(parts), payload_bytes

    def _alike(self, number: int, end: int) -> tuple[int, Template]:
        """Return how far messages from this one on have its size, and their template."""
        if len(self.templates) == 1:
            template = self.templates[0]
            return min(end, number + template.most), template
        group = number // ALIKE_MSGS
        template = self.templates[which_size(group, self.templates)]
        return min(end, (group + 1) * ALIKE_MSGS, number + template.most), template

    def _spread(self, seqs: Int64s) -> Int64s:
        if self._random is None:
            return seqs % self._subjects
        return self._random.integers(0, self._subjects, len(seqs))


def subject_parts(orders: Orders) -> tuple[Part, ...]:
    """Return the subject, with a number at its end when messages are spread."""
    role = orders.role
    if role.subjects_count == 1:
        return (role.subject.encode(),)
    width = len(str(role.subjects_count - 1))
    return (role.subject.encode() + b".", ("subject", width))


def header_parts(orders: Orders) -> tuple[tuple[Part, ...], ...]:
    """Return the header lines the plan asks for."""
    payload = orders.role.payload
    lines: list[tuple[Part, ...]] = [
        (f"{name}: {value}".encode(),) for name, value in payload.headers
    ]
    if payload.msg_ids:
        prefix = f"Nats-Msg-Id: {orders.run_id}-{orders.publisher_id}-".encode()
        lines.append((prefix, ("id", SEQ_DIGITS)))
    return tuple(lines)


def repeats(ratio: float) -> Callable[[Int64s], Int64s]:
    """Return the map from the number of a send to that of its message; every n-th goes twice."""
    if ratio <= 0:
        return lambda sends: sends
    every = max(round(1 / ratio), 1)
    return lambda sends: sends // (every + 1) * every + np.minimum(sends % (every + 1), every - 1)
