"""Every pattern, with headers, and messages from 0 B to 1 MiB."""

from collections.abc import Callable

import pytest

from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Pattern, Payload, Role, StreamPlan
from natstui.model.bench.result import BenchmarkResult
from natstui.values import replace
from tests.bench.here import run_here
from tests.bench.running import plan

pytestmark = pytest.mark.server

MIB = 1 << 20
LARGE = "max_payload: 2MB"
"""Headers count too: a message of 1 MiB with headers is more than servers take by default."""
STREAM = StreamPlan("SIZES", subjects=("s.>",), allow_batches=True, keep=True)
BUCKET = StreamPlan("sizes", history_count=1, keep=True)
PUBLISHERS: tuple[Pattern, ...] = (
    "js-publish-sync",
    "js-publish-async",
    "js-publish-atomic",
    "js-publish-fast",
)
READERS: tuple[Pattern, ...] = ("js-get", "js-get-batch")
CONSUMERS: tuple[Pattern, ...] = ("js-consume", "js-fetch", "js-push", "js-ordered")


def by_role(result: BenchmarkResult, size: int) -> dict[str, int]:
    """What every role received, of the right size."""
    assert result.verdict == "ok", result.notes
    for worker in result.workers:
        assert worker.counts.received_bytes == worker.counts.received_msgs * size, worker.role
        assert worker.counts.sent_bytes == worker.counts.sent_msgs * size, worker.role
    return {worker.role: worker.counts.received_msgs for worker in result.workers}


@pytest.mark.parametrize(
    "size", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (16, 65_536)), MIB]
)
async def test_every_pattern_takes_every_size_with_headers(
    nats_server_factory: Callable[..., Broker], size: int
) -> None:
    connection = Connection(servers=(nats_server_factory(LARGE).url,))
    each = 8 if size == MIB else 40
    payload = Payload(size_bytes=size, headers=(("Kind", "test"), ("Two", "2")))

    def role(pattern: Pattern, **others: object) -> Role:
        subject = f"s.{pattern}" if pattern in PUBLISHERS else "core"
        made = Role(pattern, pattern, 1, subject, payload=payload, batch_msgs=5)
        return replace(made, window_msgs=10, **others)  # type: ignore[arg-type]

    publishers = [role(one, total_msgs=each) for one in PUBLISHERS]
    receivers = [role(one) for one in (*CONSUMERS, "subscribe")]
    what = plan(*receivers, role("publish", total_msgs=each), *publishers, stream=STREAM)
    result = await run_here(connection, what)
    received = by_role(result, size)
    stored = each * len(publishers)
    assert result.accounting.stored_msgs == stored
    assert result.accounting.lost_msgs == 0
    assert [received[pattern] for pattern in CONSUMERS] == [stored] * 4
    assert received["subscribe"] == each

    existing = replace(STREAM, create=False)
    readers = [role(one, total_msgs=each) for one in READERS]
    result = await run_here(connection, plan(*readers, stream=existing))
    assert set(by_role(result, size).values()) == {each}

    keys = {"subject": "$KV.sizes.key", "subjects_count": 4, "total_msgs": each}
    result = await run_here(connection, plan(role("kv-put", **keys), stream=BUCKET))
    assert (by_role(result, size), result.accounting.acked_msgs) == ({"kv-put": 0}, each)
    existing = replace(BUCKET, create=False)
    result = await run_here(connection, plan(role("kv-get", **keys), stream=existing))
    assert by_role(result, size) == {"kv-get": each}
