"""Verdicts over `io.nats.monitor.*`: a row per state of a stream or consumer.

The expected verdicts were measured on `nats server check stream` and read in its documentation.
"""

from __future__ import annotations

import pytest

from natstui.model.assets.monitor_keys import CONSUMER_KEYS, PREFIX, STREAM_KEYS
from natstui.model.findings.monitor_metadata import (
    ConsumerFacts,
    StreamFacts,
    ThresholdResult,
    consumer_checks,
    stream_checks,
)
from natstui.model.live.snapshot import Peer, Upstream
from natstui.values import replace
from tests.model.findings.life import Life

S = 1_000_000_000
STREAM = StreamFacts(
    stored_msgs=100, subjects_count=10, is_clustered=False, leader="n1", peers=(), upstreams=(),
    mirror=False,
)  # fmt: skip
CONSUMER = ConsumerFacts(
    ack_pending_msgs=5, waiting_pulls_count=5, pending_msgs=5, redelivered_msgs=5,
    delivered_ago_ns=10 * S, acked_ago_ns=10 * S, pins_client=True, pinned_client="id",
)  # fmt: skip


def peer(lag: int = 0, active_ns: int | None = S, *, offline: bool = False) -> Peer:
    return Peer("n", current=True, offline=offline, active_ns=active_ns, lag_msgs=lag)


def upstream(lag: int = 0, active_ns: int | None = S, *, mirror: bool = False) -> Upstream:
    return Upstream("O", lag_msgs=lag, active_ns=active_ns, error=None, mirror=mirror)


def clustered(*peers: Peer, leader: str | None = "n1") -> StreamFacts:
    return replace(STREAM, is_clustered=True, peers=peers, leader=leader)


def sourcing(*sources: Upstream) -> StreamFacts:
    return replace(STREAM, upstreams=sources)


def mirroring(*mirrors: Upstream) -> StreamFacts:
    return replace(STREAM, upstreams=mirrors, mirror=True)


def metadata(text: str) -> dict[str, str]:
    """Read `key=value key=value`, keys without their prefix."""
    return {PREFIX + key: value for key, _, value in (w.partition("=") for w in text.split())}


def worst(checks: list[ThresholdResult]) -> str:
    """Return the verdict on the whole, as the exit code tells it."""
    order = ("critical", "warning", "ok")
    return min((one.severity for one in checks), key=order.index, default="ok")


TWO = clustered(peer(), peer())
STREAMS = [
    # Nothing asked for.
    ("", STREAM, "ok"), ("", TWO, "ok"), ("enabled=true", STREAM, "ok"),
    ("enabled=false", STREAM, "ok"), ("enabled=T", STREAM, "ok"), ("enabled=0", STREAM, "ok"),
    # Messages: too few is the fault.
    ("msgs-critical=99", STREAM, "ok"), ("msgs-critical=100", STREAM, "critical"),
    ("msgs-critical=101", STREAM, "critical"), ("msgs-critical=0", STREAM, "ok"),
    ("msgs-warn=99", STREAM, "ok"), ("msgs-warn=100", STREAM, "warning"),
    ("msgs-warn=0", STREAM, "ok"), ("msgs-warn=200 msgs-critical=50", STREAM, "warning"),
    ("msgs-warn=200 msgs-critical=150", STREAM, "critical"),
    ("msgs-warn=50 msgs-critical=200", STREAM, "critical"),
    ("msgs-critical=1", replace(STREAM, stored_msgs=0), "critical"),
    ("msgs-warn=1", replace(STREAM, stored_msgs=0), "warning"),
    # Subjects: too many, unless the warning is not below the critical number.
    ("subjects-warn=5 subjects-critical=20", STREAM, "warning"),
    ("subjects-warn=5 subjects-critical=10", STREAM, "critical"),
    ("subjects-warn=11 subjects-critical=20", STREAM, "ok"),
    ("subjects-warn=10 subjects-critical=20", STREAM, "warning"),
    ("subjects-critical=10", STREAM, "critical"), ("subjects-critical=9", STREAM, "critical"),
    # Only a critical number: the warning of 0 is below it, and every count reaches it.
    ("subjects-critical=11", STREAM, "warning"),
    ("subjects-warn=20 subjects-critical=5", STREAM, "warning"),
    ("subjects-warn=20 subjects-critical=10", STREAM, "critical"),
    ("subjects-warn=9 subjects-critical=5", STREAM, "ok"),
    ("subjects-warn=10", STREAM, "warning"), ("subjects-warn=9", STREAM, "ok"),
    ("subjects-warn=20", STREAM, "warning"),
    ("subjects-warn=10 subjects-critical=10", STREAM, "critical"),
    ("subjects-warn=9 subjects-critical=9", STREAM, "ok"),
    ("subjects-warn=0 subjects-critical=0", STREAM, "ok"),
    # Replicas.
    ("peer-expect=3", STREAM, "critical"), ("peer-expect=0", STREAM, "ok"),
    ("peer-expect=3", TWO, "ok"), ("peer-expect=2", TWO, "critical"),
    ("peer-expect=4", TWO, "critical"), ("peer-expect=1", clustered(), "ok"),
    ("peer-expect=1", clustered(leader=None), "critical"),
    ("peer-expect=3", clustered(peer(), peer(), leader=None), "critical"),
    # No number is 0, which no cluster has.
    ("enabled=true", TWO, "critical"), ("msgs-critical=1", TWO, "critical"),
    ("peer-expect=3", clustered(peer(), peer(offline=True)), "critical"),
    ("peer-expect=3 peer-lag-critical=10", clustered(peer(10), peer(10)), "ok"),
    ("peer-expect=3 peer-lag-critical=10", clustered(peer(11), peer()), "critical"),
    ("peer-expect=3 peer-lag-critical=0", clustered(peer(11), peer()), "ok"),
    ("peer-expect=3 peer-seen-critical=1s", TWO, "ok"),
    ("peer-expect=3 peer-seen-critical=1s", clustered(peer(), peer(0, S + 1)), "critical"),
    ("peer-expect=3 peer-seen-critical=0", clustered(peer(), peer(0, 9 * S)), "ok"),
    ("peer-expect=3 peer-seen-critical=1s", clustered(peer(), peer(0, None)), "ok"),
    ("peer-lag-critical=1", STREAM, "ok"), ("peer-seen-critical=1s", STREAM, "ok"),
    # Sources.
    ("min-sources=1", STREAM, "critical"), ("min-sources=1", sourcing(upstream()), "ok"),
    ("min-sources=2", sourcing(upstream()), "critical"), ("min-sources=0", STREAM, "ok"),
    ("max-sources=1", sourcing(upstream()), "ok"),
    ("max-sources=1", sourcing(upstream(), upstream()), "critical"),
    ("max-sources=0", sourcing(upstream()), "ok"),
    ("min-sources=1 max-sources=2", sourcing(upstream(), upstream()), "ok"),
    ("lag-critical=10", sourcing(upstream(9)), "ok"),
    ("lag-critical=10", sourcing(upstream(10)), "critical"),
    ("lag-critical=10", sourcing(upstream(), upstream(11)), "critical"),
    ("seen-critical=1s", sourcing(upstream(0, S - 1)), "ok"),
    ("seen-critical=1s", sourcing(upstream(0, S)), "critical"),
    ("seen-critical=0", sourcing(upstream(0, S)), "ok"),
    ("seen-critical=1s", sourcing(upstream(0, None)), "ok"),
    ("min-sources=1", mirroring(upstream(mirror=True)), "critical"),
    # A mirror.
    ("lag-critical=10", mirroring(upstream(9, mirror=True)), "ok"),
    ("lag-critical=10", mirroring(upstream(10, mirror=True)), "critical"),
    ("seen-critical=1m", mirroring(upstream(0, 59 * S, mirror=True)), "ok"),
    ("seen-critical=1m", mirroring(upstream(0, 60 * S, mirror=True)), "critical"),
    ("seen-critical=1m", mirroring(upstream(0, None, mirror=True)), "ok"),
    ("lag-critical=10", mirroring(), "critical"), ("lag-critical=10", STREAM, "critical"),
    ("seen-critical=1s", STREAM, "critical"), ("lag-critical=0 seen-critical=0", STREAM, "ok"),
    # What cannot be read spoils the whole check.
    ("msgs-critical=many", STREAM, "critical"), ("msgs-critical=-1", STREAM, "critical"),
    ("msgs-critical=+1", STREAM, "critical"), ("msgs-critical=1_000", STREAM, "critical"),
    ("msgs-critical=1e3", STREAM, "critical"), ("msgs-critical=", STREAM, "critical"),
    ("msgs-critical=18446744073709551616", STREAM, "critical"),
    ("msgs-critical=18446744073709551615", STREAM, "critical"),
    ("msgs-warn=٣", STREAM, "critical"), ("subjects-warn=-1", STREAM, "ok"),
    ("min-sources=-1", STREAM, "ok"), ("peer-expect=+0", STREAM, "ok"),
    ("peer-expect=9223372036854775808", STREAM, "critical"),
    ("seen-critical=soon", STREAM, "critical"), ("seen-critical=10", STREAM, "critical"),
    ("enabled=yes", STREAM, "critical"), ("enabled=", STREAM, "critical"),
    ("enabled=tRUE", STREAM, "critical"), ("unknown=1", STREAM, "ok"),
]  # fmt: skip

CONSUMERS = [
    ("", CONSUMER, "ok"), ("enabled=true", CONSUMER, "ok"), ("unknown=x", CONSUMER, "ok"),
    ("outstanding-ack-critical=6", CONSUMER, "ok"),
    ("outstanding-ack-critical=5", CONSUMER, "critical"),
    ("outstanding-ack-critical=0", CONSUMER, "ok"),
    ("outstanding-ack-critical=-1", CONSUMER, "ok"),
    ("outstanding-ack-critical=few", CONSUMER, "critical"),
    ("waiting-critical=6", CONSUMER, "ok"), ("waiting-critical=5", CONSUMER, "critical"),
    ("unprocessed-critical=6", CONSUMER, "ok"), ("unprocessed-critical=5", CONSUMER, "critical"),
    ("redelivery-critical=6", CONSUMER, "ok"), ("redelivery-critical=5", CONSUMER, "critical"),
    ("redelivery-critical=0", CONSUMER, "ok"),
    ("last-delivery-critical=11s", CONSUMER, "ok"),
    ("last-delivery-critical=10s", CONSUMER, "critical"),
    ("last-delivery-critical=0", CONSUMER, "ok"),
    ("last-delivery-critical=1d", replace(CONSUMER, delivered_ago_ns=None), "critical"),
    # Nothing is pending, and still it is late: that is how the key is documented.
    ("last-delivery-critical=10s", replace(CONSUMER, pending_msgs=0), "critical"),
    ("last-ack-critical=11s", CONSUMER, "ok"), ("last-ack-critical=10s", CONSUMER, "critical"),
    ("last-ack-critical=1M", replace(CONSUMER, acked_ago_ns=None), "critical"),
    ("last-ack-critical=1M", CONSUMER, "ok"), ("last-ack-critical=0", CONSUMER, "ok"),
    ("last-ack-critical=x", CONSUMER, "critical"),
    ("pinned=true", CONSUMER, "ok"), ("pinned=1", CONSUMER, "ok"),
    ("pinned=true", replace(CONSUMER, pinned_client=None), "critical"),
    ("pinned=true", replace(CONSUMER, pins_client=False, pinned_client=None), "critical"),
    ("pinned=false", replace(CONSUMER, pinned_client=None), "ok"),
    ("pinned=please", CONSUMER, "critical"),
    ("unprocessed-critical=9 last-ack-critical=1s", CONSUMER, "critical"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "facts", "expected"), STREAMS)
def test_a_stream_is_judged_as_its_metadata_says(
    keys: str, facts: StreamFacts, expected: str
) -> None:
    assert worst(stream_checks(metadata(keys), facts)) == expected


@pytest.mark.parametrize(("keys", "facts", "expected"), CONSUMERS)
def test_a_consumer_is_judged_as_its_metadata_says(
    keys: str, facts: ConsumerFacts, expected: str
) -> None:
    assert worst(consumer_checks(metadata(keys), facts)) == expected


def test_the_matrix_is_large_and_names_every_key() -> None:
    assert len(STREAMS) + len(CONSUMERS) >= 100
    for rows, keys in ((STREAMS, STREAM_KEYS), (CONSUMERS, CONSUMER_KEYS)):
        text = " ".join(keys for keys, *_ in rows)
        assert [one.name for one in keys if f"{one.name}=" not in text] == []


def test_a_verdict_names_its_key_its_number_and_its_limit() -> None:
    (check,) = consumer_checks(metadata("unprocessed-critical=5"), CONSUMER)
    assert check.name == "unprocessed-critical"
    assert check.text == "5 pending messages, the limit is 5"
    (check,) = consumer_checks(metadata("last-ack-critical=x"), CONSUMER)
    assert "io.nats.monitor.last-ack-critical='x' is no duration" in check.text


def test_thresholds_become_findings_and_end_when_they_are_kept_again() -> None:
    key = PREFIX
    of_consumer = {"metadata": {f"{key}unprocessed-critical": "10"}}
    of_stream = {"metadata": {f"{key}msgs-warn": "50", f"{key}msgs-critical": "5"}}
    life = Life({"settings": of_consumer}, {"settings": of_stream})
    codes = {"NT-C13", "NT-S08", "NT-S32"}
    for pending, stored, expected in (
        (0, 100, set()),
        (10, 100, {"NT-C13"}),
        (9, 50, {"NT-S32"}),
        (0, 5, {"NT-S08"}),
        (0, 51, set()),
    ):
        life.polls(3, pending_msgs=pending, waiting_pulls_count=1, stream={"stored_msgs": stored})
        found = {one.kind.code: one.text for one in life.state.findings.list_open_findings()}
        assert found.keys() & codes == expected
        if pending == 10:
            assert found["NT-C13"] == (
                "unprocessed-critical: 10 pending messages, the limit is 10"
            )
