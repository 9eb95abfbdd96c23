"""JetStream deliveries: parsing of reply subjects, and acks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from natstui.bench.job.digits import Bytes2D, Int64s, read_digits
from natstui.bench.wire.frames import ProtocolBroken, Run
from natstui.model.bench.plan import Role

_SCALE = np.uint64(2654435761)
_NOT_ACKS = np.frombuffer(b"-NAK", np.uint8)


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The numbers in the reply subjects of a run, as columns."""

    replies: Bytes2D
    delivered_count: Int64s
    """1 for the first delivery."""
    stream_seq: Int64s
    consumer_seq: Int64s
    stored_ns: Int64s
    """Time on the server's wall clock."""


def read_deliveries(run: Run, consumer: tuple[str, str] | None = None) -> Deliveries:
    """Return the numbers in the reply subjects of a run of frames.

    Raises ProtocolBroken for another form; with `consumer` (stream and name), also for deliveries
    of another one: an ack of those would be a message to a foreign subject.
    """
    replies = run.replies
    first = b"" if replies is None else replies[0].tobytes()
    tokens = first.split(b".")
    # With a domain (and in the second form of acks) the account's tokens come before the stream.
    skip = {9: 4, 11: 6, 12: 6}.get(len(tokens), 0)
    if replies is None or not skip or not first.startswith(b"$JS.ACK."):
        raise ProtocolBroken(f"a message was delivered without a way to acknowledge it: {first!r}")
    columns, start = [], sum(map(len, tokens[:skip])) + skip
    if consumer is not None:
        is_own = tokens[skip - 2 : skip] == [name.encode() for name in consumer]
        # The rows of a run may differ in the digits of names.
        if not is_own or (replies[:, :start] != replies[0, :start]).any():
            raise ProtocolBroken(
                f"a message arrived that this consumer did not deliver: {first!r}"
            )
    for token in tokens[skip : skip + 4]:
        columns.append(read_digits(replies[:, start : start + len(token)]))
        start += len(token) + 1
    return Deliveries(replies, columns[0], columns[1], columns[2], columns[3])


@dataclass(frozen=True, slots=True)
class Refusals:
    """Masks of the deliveries to refuse on purpose: nak, terminate, never ack."""

    nak: npt.NDArray[np.bool_]
    term: npt.NDArray[np.bool_]
    never: npt.NDArray[np.bool_]


def refusals(role: Role, deliveries: Deliveries) -> Refusals:
    """Return which deliveries to refuse on purpose, by the ratios of the role.

    They are chosen by stream sequence, at the first delivery, so that the choice can be checked.
    """
    ratio = choice_ratios(deliveries.stream_seq)
    first = deliveries.delivered_count == 1
    upto_nak = role.nak_ratio
    upto_term = upto_nak + role.term_ratio
    return Refusals(
        nak=first & (ratio < upto_nak),
        term=first & (ratio >= upto_nak) & (ratio < upto_term),
        never=first & (ratio >= upto_term) & (ratio < upto_term + role.never_ack_ratio),
    )


def choice_ratios(stream_seq: Int64s) -> npt.NDArray[np.float64]:
    """Return a number from 0 to 1 per stream sequence, evenly spread and always the same."""
    hashed = (stream_seq.astype(np.uint64) * _SCALE) & np.uint64(0xFFFFFFFF)
    ratio: npt.NDArray[np.float64] = hashed.astype(np.float64) / 2**32
    return ratio


def ack_frames(
    replies: Bytes2D,
    nak: npt.NDArray[np.bool_] | None = None,
    confirm_to: Bytes2D | None = None,
) -> bytes:
    """Return the acks of deliveries, or naks where the mask `nak` is true, ready to write.

    `replies` are their (n, length) reply subjects; `confirm_to` the reply subjects of
    confirmations, one row each.
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
        frames[nak, -6:-2] = _NOT_ACKS
    return frames.tobytes()


def term_frames(replies: Bytes2D) -> bytes:
    """Return the frames that terminate the deliveries with (n, length) reply subjects."""
    return b"".join(b"PUB %s 5\r\n+TERM\r\n" % reply.tobytes() for reply in replies)
