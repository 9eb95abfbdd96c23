"""What a configuration does, in one sentence, and what its empty fields stand for."""

from __future__ import annotations

import pytest

from natstui.model.assets.consumer_fields import CONSUMER_FIELD_BY_PATH
from natstui.model.assets.defaults import normalize_consumer, normalize_stream
from natstui.model.assets.meaning import behaviour_text, empty_text
from natstui.model.assets.stream_fields import STREAM_FIELD_BY_PATH

_S = 1_000_000_000
_DAY = 86_400 * _S

STREAMS = [
    ({"name": "A"}, "Stores A; keeps each message for ever; on disk of one server."),
    (
        {"name": "A", "retention": "workqueue", "max_age": 7 * _DAY, "num_replicas": 3},
        "Stores A; keeps each message until one consumer has acknowledged it or is 7d old; on "
        "disk of 3 servers.",
    ),
    (
        {"subjects": ["a.>", "b"], "max_msgs": 1000, "max_bytes": 1 << 30, "discard": "new"},
        "Stores a.>, b; keeps each message, at most 1,000 messages and 1GB in total, then new "
        "ones are refused; on disk of one server.",
    ),
    (
        {"name": "A", "max_msgs_per_subject": 1, "max_msgs": 1, "storage": "memory"},
        "Stores A; keeps each message, at most 1 message in total, then the oldest are removed, "
        "only the last of each subject; in the memory of one server.",
    ),
    (
        {"name": "A", "mirror": {"name": "B"}, "max_age": 60 * _S},
        "Is a copy of B; keeps each message for 1m; on disk of one server.",
    ),
    (
        {"name": "A", "sources": [{"name": "B"}, {"name": "C"}]},
        "Copies B and C; keeps each message for ever; on disk of one server.",
    ),
    (
        {"name": "A", "retention": "interest"},
        "Stores A; keeps each message until every consumer whose filter matches has acknowledged "
        "it; on disk of one server.",
    ),
    (
        {"name": "A", "sealed": True},
        "Keeps its messages for ever: nothing can be added or removed; on disk of one server.",
    ),
]

CONSUMERS = [
    (
        {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "x.y"},
        "Delivers x.y of S from the first message, to whoever pulls; each again after 30s "
        "without an acknowledgement, until it is acknowledged; waits while 1,000 are "
        "unacknowledged.",
    ),
    (
        {"deliver_subject": "d", "deliver_group": "g", "deliver_policy": "new"},
        "Delivers everything of S from the next message, to d, shared by the group g; each "
        "once, acknowledged or not; is ephemeral: deleted when no client subscribes for 5s.",
    ),
    (
        {
            "durable_name": "c", "ack_policy": "all", "backoff": [_S, 5 * _S], "max_deliver": 4,
            "max_ack_pending": 1, "deliver_policy": "by_start_sequence", "opt_start_seq": 1200,
        },
        "Delivers everything of S from sequence 1,200 on, to whoever pulls; each again after "
        "1s, then 5s without an acknowledgement, at most 4 times in total; waits while 1 is "
        "unacknowledged; an acknowledgement covers all earlier messages.",
    ),
    (
        {"durable_name": "c", "deliver_policy": "by_start_time", "opt_start_time": "NOON"},
        "Delivers everything of S from NOON on, to whoever pulls; each once, acknowledged or not.",
    ),
    (
        {"durable_name": "c", "ack_policy": "explicit", "max_deliver": 1, "max_ack_pending": -1},
        "Delivers everything of S from the first message, to whoever pulls; each once, also "
        "when it is not acknowledged.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "said"), STREAMS)
def test_a_stream_is_one_sentence(config: dict[str, object], said: str) -> None:
    assert behaviour_text("stream", "", config) == said


@pytest.mark.parametrize(("config", "said"), CONSUMERS)
def test_a_consumer_is_one_sentence(config: dict[str, object], said: str) -> None:
    assert behaviour_text("consumer", "S", config) == said


def test_an_empty_field_stands_for_what_the_server_takes_then() -> None:
    def of_stream(path: str, config: dict[str, object]) -> str:
        return empty_text(STREAM_FIELD_BY_PATH[path], normalize_stream(config))

    assert of_stream("subjects", {"name": "A"}) == "A"
    assert of_stream("subjects", {"name": "A", "mirror": {"name": "B"}}) == "none"
    assert of_stream("duplicate_window", {"name": "A"}) == "2m"
    assert of_stream("duplicate_window", {"name": "A", "max_age": 30 * _S}) == "30s"
    assert of_stream("max_age", {}) == of_stream("max_bytes", {}) == "unlimited"
    assert of_stream("num_replicas", {}) == of_stream("first_seq", {}) == "1"


def test_of_a_consumer_too() -> None:
    def of_consumer(path: str, config: dict[str, object]) -> str:
        return empty_text(CONSUMER_FIELD_BY_PATH[path], normalize_consumer(config))

    explicit: dict[str, object] = {"ack_policy": "explicit"}
    assert of_consumer("ack_wait", explicit) == "30s"
    assert of_consumer("ack_wait", explicit | {"backoff": [_S]}) == "1s"
    assert of_consumer("ack_wait", {}) == "not used: the consumer needs no acks"
    assert of_consumer("max_ack_pending", explicit) == "1000"
    assert of_consumer("max_ack_pending", {}) == "unlimited"
    assert of_consumer("inactive_threshold", explicit) == "5s"
    assert of_consumer("inactive_threshold", explicit | {"durable_name": "c"}) == "it stays"
    assert of_consumer("num_replicas", explicit) == "as many as the stream"
