"""Reads where delivered and got messages are stored, and writes acks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from natstui.bench.job.digits import Bytes2D, Int64s, read_digits
from natstui.bench.wire.frames import FrameRun, ProtocolError
from natstui.model.bench.plan import Role

_HASH_MULTIPLIER = np.uint64(2654435761)
_SEQ = re.compile(rb"\r\nNats-Sequence: *(\d+)", re.IGNORECASE)
_NAK_BYTES = np.frombuffer(b"-NAK", np.uint8)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The deliveries of a run of frames: the numbers in their reply subjects, as columns."""

    replies: Bytes2D
    delivered_count: Int64s
    """1 for the first delivery."""
    stream_seq: Int64s
    consumer_seq: Int64s
    stored_ns: Int64s
    """Time of storing, on the server's wall clock."""


def read_deliveries(run: FrameRun, consumer: tuple[str, str] | None = None) -> Deliveries:
    """Return the deliveries of a run of frames.

    Raises ProtocolError for a message without the reply subject of a delivery; with `consumer`
    (stream and name) also for a delivery of another consumer, which must not be acked.
    """
    replies = run.replies
    first_reply = b"" if replies is None else replies[0].tobytes()
    tokens = first_reply.split(b".")
    # With a domain (and in the second form of acks) the account's tokens come before the stream.
    skip = {9: 4, 11: 6, 12: 6}.get(len(tokens), 0)
    if replies is None or not skip or not first_reply.startswith(b"$JS.ACK."):
        raise ProtocolError(f"a message was delivered without an ack subject: {first_reply!r}")
    columns, start = [], sum(map(len, tokens[:skip])) + skip
    if consumer is not None:
        is_own = tokens[skip - 2 : skip] == [name.encode() for name in consumer]
        # The rows of a run may differ in the digits of names.
        if not is_own or (replies[:, :start] != replies[0, :start]).any():
            raise ProtocolError(
                f"a message arrived that this consumer did not deliver: {first_reply!r}"
            )
    for token in tokens[skip : skip + 4]:
        columns.append(read_digits(replies[:, start : start + len(token)]))
        start += len(token) + 1
    return Deliveries(replies, columns[0], columns[1], columns[2], columns[3])


def got_seq(headers: bytes) -> int | None:
    """Return the stream sequence in the headers of a reply to DIRECT.GET; None without one."""
    # Publishers may use the same name: the server's own header comes behind theirs.
    seqs = _SEQ.findall(headers)
    return int(seqs[-1]) if seqs else None


@dataclass(frozen=True, slots=True)
class Refusals:
    """Masks of the deliveries that are not acked on purpose: to nak, to terminate, to leave."""

    nak: npt.NDArray[np.bool_]
    term: npt.NDArray[np.bool_]
    leave: npt.NDArray[np.bool_]


def choose_refusals(role: Role, deliveries: Deliveries) -> Refusals:
    """Return which deliveries to nak, to terminate or to leave without ack, by the role's ratios.

    Only first deliveries are chosen, by stream sequence: the choice is the same in every run.
    """
    ratio = choice_ratios(deliveries.stream_seq)
    first = deliveries.delivered_count == 1
    upto_nak = role.nak_ratio
    upto_term = upto_nak + role.term_ratio
    return Refusals(
        nak=first & (ratio < upto_nak),
        term=first & (ratio >= upto_nak) & (ratio < upto_term),
        leave=first & (ratio >= upto_term) & (ratio < upto_term + role.never_ack_ratio),
    )


def choice_ratios(stream_seq: Int64s) -> npt.NDArray[np.float64]:
    """Return a pseudorandom number from 0 to 1 per stream sequence, the same in every run."""
    hashed = (stream_seq.astype(np.uint64) * _HASH_MULTIPLIER) & np.uint64(0xFFFFFFFF)
    ratio: npt.NDArray[np.float64] = hashed.astype(np.float64) / 2**32
    return ratio


def ack_frames(
    replies: Bytes2D,
    nak: npt.NDArray[np.bool_] | None = None,
    confirm_to: Bytes2D | None = None,
) -> bytes:
    """Return the frames of acks to (n, length) reply subjects, or of naks where `nak` is true.

    `confirm_to` has the reply subjects to which the server confirms the acks, one row each.
    """
    count, width = replies.shape
    middle = b"" if confirm_to is None else b" "
    confirm = 0 if confirm_to is None else confirm_to.shape[1] + 1
    tail = b" 4\r\n+ACK\r\n"
    frames = np.empty((count, 4 + width + confirm + len(tail)), np.uint8)
    frames[:, :4] = np.frombuffer(b"PUB ", np.uint8)
    frames[:, 4 : 4 + width] = replies
    if confirm_to is not None:
        frames[:, 4 + width] = middle[0]
        frames[:, 5 + width : 4 + width + confirm] = confirm_to
    frames[:, 4 + width + confirm :] = np.frombuffer(tail, np.uint8)
    if nak is not None and nak.any():
        frames[nak, -6:-2] = _NAK_BYTES
    return frames.tobytes()


def term_frames(replies: Bytes2D) -> bytes:
    """Return the frames that terminate the deliveries with (n, length) reply subjects."""
    return b"".join(b"PUB %s 5\r\n+TERM\r\n" % reply.tobytes() for reply in replies)
