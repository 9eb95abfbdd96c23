"""What the comparison of clients reads in the output of `nats bench`."""

import pytest

from benchmarks.clients import Failed, rate_in

ONE = """
2026/11/23 21:01:02 Starting JetStream synchronous publisher benchmark [batch=0, msgs=2,000]
2026/11/23 21:01:02 [1] Starting JetStream synchronous publisher, publishing 2,000 messages

NATS JetStream synchronous publisher stats: 16,339 msgs/sec ~ 2.0 MiB/sec ~ min: 27.49us
"""
BOTH = """
  [1] 999,791 msgs/sec ~ 122 MiB/sec ~ min: 0.07us ~ avg: 0.09us (10,000 msgs)
  [2] 1,061,741 msgs/sec ~ 130 MiB/sec ~ min: 0.07us ~ avg: 0.09us (10,000 msgs)

 NATS Core NATS publisher aggregated stats: 1,823,298 msgs/sec ~ 223 MiB/sec
 message rates min 999,791 | avg 1,030,766 | max 1,061,741 | stddev 30,975 msgs
"""


def test_the_rate_of_all_clients_together_is_read() -> None:
    assert rate_in(ONE) == 16_339
    assert rate_in(BOTH) == 1_823_298
    with pytest.raises(Failed, match="nats: error: no such stream"):
        rate_in("nats: error: no such stream")
