"""What messages look like: sizes of a range, whatever blocks they are written in."""

import re
from collections import Counter
from itertools import groupby

import numpy as np
import pytest

from natstui.bench.job.content import (
    SAME_SIZE_MSGS,
    MessageContent,
    SenderSettings,
    check_payload_sizes,
    size_index_of,
)
from natstui.bench.job.protocol import Orders
from natstui.errors import UsageError
from natstui.model.bench.plan import BenchmarkPlan, Payload, Role

RANGE = Role("p", "publish", payload=Payload("range", 30, 330))


def orders(role: Role) -> Orders:
    return Orders(
        connection="", run_id="r", role=role, worker_id=0, publisher_id=1,
        worker_index=0, workers_count=1,
        share_msgs=None, received_payload=role.payload,
    )  # fmt: skip


def sizes_of(content: MessageContent, blocks: list[int]) -> list[int]:
    """The sizes messages are announced with, block after block."""
    first, sizes = 0, []
    for count in blocks:
        data, total = content.frames(first, np.zeros(count, np.int64), 0)
        found = [int(size) for size in re.findall(rb"PUB \S+ (\d+)\r\n", data)]
        assert (len(found), sum(found)) == (count, total)
        sizes += found
        first += count
    return sizes


@pytest.mark.parametrize(
    "payload", [Payload(size_bytes=99_999_999_999_999), Payload("range", 30, 99_999_999_999_999)]
)
def test_a_payload_of_any_size_is_refused_without_being_made(payload: Payload) -> None:
    plan = BenchmarkPlan("p", "", (Role("p", "publish", payload=payload),), None, 1.0)
    with pytest.raises(UsageError, match=r"are larger than max_payload of the server, 1.00 MiB"):
        check_payload_sizes(plan, 1 << 20)


def test_sizes_belong_to_messages_and_not_to_blocks() -> None:
    whole = sizes_of(MessageContent(SenderSettings(orders(RANGE)), 5000), [4000])
    parts = sizes_of(
        MessageContent(SenderSettings(orders(RANGE)), 500),
        [1, 7, 16, 476, 500, 500, 500, 500, 500, 500, 500],
    )
    assert whole[:3500] == parts[:3500]


def test_sizes_of_a_range_come_evenly_often_and_change_every_few_messages() -> None:
    sizes = sizes_of(MessageContent(SenderSettings(orders(RANGE)), 5000), [4096])
    often = Counter(sizes)
    assert (len(often), min(often), max(often)) == (16, 30, 330)
    assert max(often.values()) < 1.3 * min(often.values())
    rows = [len(list(same)) for _, same in groupby(sizes)]
    assert max(rows) <= 2 * SAME_SIZE_MSGS
    alone = Counter(size_index_of(number, range(16)) for number in range(4096))
    assert max(alone.values()) < 1.3 * min(alone.values())
