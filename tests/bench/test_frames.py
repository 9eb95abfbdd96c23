"""The wire client's parser against nats-py's own, whatever the pieces the bytes arrive in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.protocol.parser import Parser

from natstui.bench.wire.deliveries import read_deliveries
from natstui.bench.wire.frames import FrameParser, FrameRun, ProtocolError

pytestmark = pytest.mark.server

Message = tuple[int, bytes, bytes, bytes, bytes]


class _Reference:
    """Takes what nats-py's parser calls its client with."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        self.seen.append((sid, subject, reply, headers or b"", data))

    async def _process_ping(self) -> None:
        self.seen.append("PING")

    async def _process_pong(self) -> None:
        self.seen.append("PONG")

    async def _process_err(self, text: str) -> None:
        self.seen.append(("-ERR", text))

    async def _process_info(self, info: dict[str, object]) -> None:
        self.seen.append(("INFO", len(info)))


def _ours(pieces: list[bytes]) -> list[object]:
    framer, seen = FrameParser(), []
    for piece in pieces:
        for found in framer.feed(piece):
            seen.extend(_messages(found) if isinstance(found, FrameRun) else _control(found))
    return seen


def _messages(run: FrameRun) -> list[object]:
    layout = run.layout
    empty = slice(0, 0)
    return [
        (
            layout.sid,
            run.text(row, layout.subject),
            run.text(row, layout.reply or empty),
            run.text(row, layout.headers),
            run.text(row, layout.payload),
        )
        for row in range(len(run))
    ]


def _control(line: bytes) -> list[object]:
    if line.startswith((b"PING", b"PONG")):
        return [line[:4].decode()]
    if line.startswith(b"-ERR"):
        return [("-ERR", line[5:].strip().decode().lower())]
    return [("INFO", 1)] if line.startswith(b"INFO") else []


async def _theirs(data: bytes) -> list[object]:
    reference = _Reference()
    await Parser(reference).parse(data)
    return reference.seen


_token = st.text("abcXYZ019$_-", min_size=1, max_size=9)
_subject = st.lists(_token, min_size=1, max_size=4).map(".".join)
_acks = st.integers(1, 10**6).map(lambda n: f"$JS.ACK.S.C.1.{n}.{n}.1763673600000000000.{n % 12}")
_payload = st.binary(max_size=40) | st.just(b"MSG a 1 2\r\nhi\r\n") | st.just(b"\r\n")


@st.composite
def _frame(draw: st.DrawFn) -> bytes:
    subject, sid = draw(_subject), draw(st.integers(1, 12))
    reply = draw(st.none() | _acks | _subject.filter(lambda text: not text.isdigit()))
    payload, copies = draw(_payload), draw(st.integers(1, 5))
    names = f"{subject} {sid}" + (f" {reply}" if reply else "")
    if draw(st.booleans()):
        return f"MSG {names} {len(payload)}\r\n".encode() + payload + b"\r\n"
    status = draw(st.sampled_from(["", " 100 Idle Heartbeat", " 503"]))
    headers = f"NATS/1.0{status}\r\nA: {copies}\r\n\r\n".encode()
    sizes = f"{len(headers)} {len(headers) + len(payload)}"
    return f"HMSG {names} {sizes}\r\n".encode() + headers + payload + b"\r\n"


_control_lines = st.sampled_from(
    [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'Some Thing'\r\n", b'INFO {"a":1}\r\n']
)
_stream = st.lists(st.tuples(_frame() | _control_lines, st.integers(1, 4)), max_size=8).map(
    lambda parts: b"".join(frame * copies for frame, copies in parts)
)


@settings(max_examples=5)
@given(_stream)
async def test_a_split_at_every_byte_changes_nothing(data: bytes) -> None:
    expected = await _theirs(data)
    assert _ours([data]) == expected
    assert _ours([data[at : at + 1] for at in range(len(data))]) == expected
    for at in range(len(data)):
        assert _ours([data[:at], data[at:]]) == expected


@settings(max_examples=30)
@given(st.lists(_acks, min_size=1, max_size=60), st.integers(1, 97))
async def test_deliveries_whose_numbers_grow_come_out_alike(acks: list[str], step: int) -> None:
    frames = [f"MSG b.{n % 3} 1 {ack} 4\r\n{n:04}\r\n".encode() for n, ack in enumerate(acks)]
    data = b"".join(frames)
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    assert _ours(pieces) == await _theirs(data)


def test_equal_messages_are_one_run_and_a_digit_more_begins_another() -> None:
    data = b"".join(b"MSG a 1 r.%d 2\r\nhi\r\n" % number for number in range(5, 15))
    assert [len(run) for run in FrameParser().feed(data)] == [5, 5]


@pytest.mark.parametrize(
    "data", [b"HELLO\r\n", b"MSG a\r\n", b"MSG a 1 2\r\nlong\r\n", b"HMSG a 1 2\r\nab\r\n"]
)
def test_what_is_not_the_protocol_is_refused_loudly(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameParser().feed(data))


def test_what_another_consumer_delivered_is_not_read_as_of_this_one() -> None:
    def run_of(*consumers: str) -> FrameRun:
        lines = [
            f"MSG a 1 $JS.ACK.S.{name}.1.7.7.1763673600000000000.0 2\r\nhi\r\n"
            for name in consumers
        ]
        (run,) = FrameParser().feed("".join(lines).encode())
        assert isinstance(run, FrameRun)
        return run

    own = ("S", "c1")
    assert read_deliveries(run_of("c1", "c1"), own).stream_seq.tolist() == [7, 7]
    for others in ("c2", "c1"), ("c1", "c2"), ("c2",), ("c1", "c1", *["c2"] * 40):
        with pytest.raises(ProtocolError, match="did not deliver"):
            read_deliveries(run_of(*others), own)
    with pytest.raises(ProtocolError, match="did not deliver"):
        read_deliveries(run_of("c1"), ("T", "c1"))


def test_a_frame_that_has_begun_is_not_whole() -> None:
    framer = FrameParser()
    for data, is_empty in ((b"", True), (b"PI", False), (b"NG\r\nPO", False), (b"NG\r\n", True)):
        list(framer.feed(data))
        assert framer.is_empty == is_empty, data
