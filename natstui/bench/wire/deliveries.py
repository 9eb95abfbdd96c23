"""Reads the sequences of deliveries and of replies to DIRECT.GET, and writes acks."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from natstui.bench.job.digits import Bytes2D, Int64s, read_digits
from natstui.bench.wire.frames import FrameRun, ProtocolError
from natstui.model.bench.plan import Role

_HASH_MULTIPLIER = np.uint64(2654435761)
_SEQ_HEADER_PATTERN = re.compile(rb"\r\nNats-Sequence: *(\d+)", re.IGNORECASE)
_NAK_BYTES = np.frombuffer(b"-NAK", np.uint8)


class Deliveries(Struct, frozen=True):
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
    skipped_tokens_count = {9: 4, 11: 6, 12: 6}.get(len(tokens), 0)
    if replies is None or not skipped_tokens_count or not first_reply.startswith(b"$JS.ACK."):
        raise ProtocolError(f"a message was delivered without an ack subject: {first_reply!r}")
    columns, token_start = [], sum(map(len, tokens[:skipped_tokens_count])) + skipped_tokens_count
    if consumer is not None:
        is_own_consumer = tokens[skipped_tokens_count - 2 : skipped_tokens_count] == [
            name.encode() for name in consumer
        ]
        # The rows of a run may differ in the digits of names.
        if not is_own_consumer or (replies[:, :token_start] != replies[0, :token_start]).any():
            raise ProtocolError(
                f"a message arrived that this consumer did not deliver: {first_reply!r}"
            )
    for token in tokens[skipped_tokens_count : skipped_tokens_count + 4]:
        columns.append(read_digits(replies[:, token_start : token_start + len(token)]))
        token_start += len(token) + 1
    return Deliveries(replies, columns[0], columns[1], columns[2], columns[3])


def read_direct_get_seq(headers: bytes) -> int | None:
    """Return the stream sequence in the headers of a reply to DIRECT.GET; None without one."""
    # Publishers may use the same name: the server's own header comes behind theirs.
    seqs = _SEQ_HEADER_PATTERN.findall(headers)
    return int(seqs[-1]) if seqs else None


class Refusals(Struct, frozen=True):
    """Masks of the deliveries that are not acked on purpose: to nak, to terminate, or neither."""

    nak: npt.NDArray[np.bool_]
    term: npt.NDArray[np.bool_]
    leave_unacked: npt.NDArray[np.bool_]


def choose_refusals(role: Role, deliveries: Deliveries) -> Refusals:
    """Return which deliveries to nak, to terminate or to leave without ack, by the role's ratios.

    Only first deliveries are chosen, by stream sequence: the choice is the same in every run.
    """
    choice_ratio = choice_ratios(deliveries.stream_seq)
    first_delivery_mask = deliveries.delivered_count == 1
    nak_below = role.nak_ratio
    term_below = nak_below + role.term_ratio
    return Refusals(
        nak=first_delivery_mask & (choice_ratio < nak_below),
        term=first_delivery_mask & (choice_ratio >= nak_below) & (choice_ratio < term_below),
        leave_unacked=first_delivery_mask
        & (choice_ratio >= term_below)
        & (choice_ratio < term_below + role.never_ack_ratio),
    )


def choice_ratios(stream_seq: Int64s) -> npt.NDArray[np.float64]:
    """Return a pseudorandom number from 0 to 1 per stream sequence, the same in every run."""
    hashed_seqs = (stream_seq.astype(np.uint64) * _HASH_MULTIPLIER) & np.uint64(0xFFFFFFFF)
    ratio: npt.NDArray[np.float64] = hashed_seqs.astype(np.float64) / 2**32
    return ratio


def ack_frames(
    replies: Bytes2D,
    nak: npt.NDArray[np.bool_] | None = None,
    confirmation_reply_subjects: Bytes2D | None = None,
) -> bytes:
    """Return the frames of acks to (n, length) reply subjects, or of naks where `nak` is true.

    The server confirms each ack to its row of `confirmation_reply_subjects`.
    """
    count, width = replies.shape
    separator = b"" if confirmation_reply_subjects is None else b" "
    confirm_bytes = (
        0 if confirmation_reply_subjects is None else confirmation_reply_subjects.shape[1] + 1
    )
    ack_end = b" 4\r\n+ACK\r\n"
    frames = np.empty((count, 4 + width + confirm_bytes + len(ack_end)), np.uint8)
    frames[:, :4] = np.frombuffer(b"PUB ", np.uint8)
    frames[:, 4 : 4 + width] = replies
    if confirmation_reply_subjects is not None:
        frames[:, 4 + width] = separator[0]
        frames[:, 5 + width : 4 + width + confirm_bytes] = confirmation_reply_subjects
    frames[:, 4 + width + confirm_bytes :] = np.frombuffer(ack_end, np.uint8)
    if nak is not None and nak.any():
        frames[nak, -6:-2] = _NAK_BYTES
    return frames.tobytes()


def term_frames(replies: Bytes2D) -> bytes:
    """Return the frames that terminate the deliveries with (n, length) reply subjects."""
    return b"".join(b"PUB %s 5\r\n+TERM\r\n" % reply.tobytes() for reply in replies)
