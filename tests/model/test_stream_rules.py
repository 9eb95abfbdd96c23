from __future__ import annotations

import pytest

from natstui.model.assets.consumer_rules import consumer_problems, consumer_warnings
from natstui.model.assets.differences import differences
from natstui.model.assets.meaning import size_estimate_text
from natstui.model.assets.rules import NamesInUse, OtherStream
from natstui.model.assets.stream_rules import stream_problems, stream_warnings
from natstui.model.assets.subjects import contains, mapping_problem, overlap
from natstui.model.assets.templates import BUILT_IN_TEMPLATES, template_config

S = 1_000_000_000


def test_a_choice_that_came_later_than_its_option_names_the_server_it_needs() -> None:
    push = {"name": "C", "deliver_subject": "d", "ack_policy": "flow_control"}
    assert [one.text for one in consumer_problems(push, api_level=3)] == [
        "Ack policy flow_control needs server 2.14 or newer"
    ]
    assert consumer_problems(push, api_level=4) == ()
    pull = {"name": "C", "priority_policy": "prioritized", "priority_groups": ["A"]}
    assert [one.text for one in consumer_problems(pull, api_level=1)] == [
        "Priority policy prioritized needs server 2.12 or newer"
    ]
    assert consumer_problems(pull, api_level=2) == ()


def test_what_a_newer_server_has_accepted_stays_when_something_else_is_edited() -> None:
    seen = {"name": "S", "compression": "zstd9", "no_ack": "sometimes", "max_msgs": 1.5}
    assert stream_problems({**seen, "description": "d"}, 5, config_before=seen) == ()
    assert [
        one.path for one in stream_problems({**seen, "compression": "lz4"}, 5, config_before=seen)
    ] == ["compression"]
    consumer = {"name": "C", "ack_policy": "perhaps"}
    assert (
        consumer_problems({**consumer, "description": "d"}, None, 5, config_before=consumer) == ()
    )
    assert [one.path for one in consumer_problems(consumer, None, 5)] == ["ack_policy"]


def test_an_overlapping_stream_is_named() -> None:
    around = NamesInUse(streams=(OtherStream("ORDERS", ("orders.>",)),), servers_count=1)
    config = {"name": "EU", "subjects": ["orders.eu.*"], "num_replicas": 3, "max_msgs": 5}
    assert stream_warnings(config, around) == (
        "'orders.eu.*' overlaps 'orders.>' of stream ORDERS: the server refuses that",
        "3 replicas need 3 servers; available: 1 server",
    )


def test_what_people_regret_is_said_beforehand() -> None:
    config = {"name": "M", "storage": "memory", "discard": "new", "retention": "interest"}
    assert stream_warnings(config, NamesInUse()) == (
        "memory storage: a restart of its server loses every message",
        "discard new has no effect without a limit of messages or bytes",
        "interest retention: messages published while there is no consumer are not kept",
    )


def test_a_window_longer_than_the_age_is_refused_with_its_reason() -> None:
    config = {"name": "A", "max_age": S, "duplicate_window": 2 * S}
    assert [problem.text for problem in stream_problems(config)] == [
        "the duplicate window is longer than the maximum age"
    ]


def test_what_the_server_does_not_know_yet_says_which_version_brings_it() -> None:
    config = {"name": "A", "allow_msg_ttl": True, "allow_batched": True}
    assert [problem.text for problem in stream_problems(config, api_level=1)] == [
        "Fast batches needs server 2.14 or newer"
    ]


def test_a_second_consumer_of_a_work_queue_is_warned() -> None:
    queue = {"name": "W", "retention": "workqueue", "subjects": ["w.>"]}
    assert consumer_warnings({"filter_subjects": ["w.*"]}, queue, {"FIRST": ["w.a"]}) == (
        "a work queue gives each message to one consumer: 'w.*' overlaps 'w.a' of consumer "
        "FIRST, so the server refuses this one",
    )
    assert [p.text for p in consumer_problems({"ack_policy": "all"}, queue)] == [
        "the stream is a work queue: set ack policy explicit"
    ]


def test_the_size_estimate_counts_overhead_and_replicas() -> None:
    config = {"subjects": ["abcd"], "num_replicas": 3}
    assert size_estimate_text(config, 1000, 100) == (
        "1,000 messages of 100 take 131 KiB × 3 replicas = 393 KiB on disk; "
        "33.2 KiB of it is overhead"
    )


def test_differences_are_between_what_the_server_keeps() -> None:
    before = {"name": "A", "subjects": ["A"], "max_msgs": 0, "metadata": {"_nats.ver": "2.15.1"}}
    after = {"name": "A", "max_msgs": -1, "storage": "memory", "unheard_of": 1}
    found = [(d.path, d.before, d.after, d.refused) for d in differences("stream", before, after)]
    assert found == [
        ("storage", "file", "memory",
         "the storage of a stream cannot change; copy it into a new stream"),
        ("unheard_of", "", "1", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a.*", "a.b", True),
        ("a.>", "a", False),
        (">", "a.b.c", True),
        ("a.*.c", "a.b.*", True),
        ("a.b", "a.b.c", False),
        ("*.b", "a.c", False),
    ],
)
def test_filters_overlap_when_a_subject_matches_both(one: str, other: str, both: bool) -> None:
    assert overlap(one, other) is both
    assert overlap(other, one) is both


def test_a_mapping_names_only_wildcards_that_exist() -> None:
    assert mapping_problem("a.*", "b.$1") is None
    assert mapping_problem("a.*", "b.{{partition(10,1)}}") is None
    assert mapping_problem("a.*", "b.$3") == "'b.$3' uses wildcard 3, but 'a.*' has 1"
    assert mapping_problem("a.*", "b.*") == "write $1 or {{wildcard(1)}} instead of * in 'b.*'"


def test_every_built_in_template_lacks_no_more_than_a_name() -> None:
    for template in BUILT_IN_TEMPLATES:
        config = template_config(template)
        config["name"] = config["name"] or "NAMED"
        assert stream_problems(config) == (), template.name


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        ("a.>", "a.b.>", True), ("a.>", "a", False), (">", "a", True), ("a.*", "a.b", True),
        ("a.*", "a.*", True), ("a.*", "a.>", False), ("a.b", "a.*", False), ("a", "a.b", False),
        ("*.b", "a.b", True),
    ],
)  # fmt: skip
def test_a_filter_contains_another_when_all_its_subjects_match(
    wide: str, narrow: str, holds: bool
) -> None:
    assert contains(wide, narrow) is holds


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"allow_msg_counter": True, "retention": "interest"},
         "a stream of counters needs limits retention"),
        ({"allow_msg_counter": True, "discard": "new"}, "a stream of counters cannot discard new"),
        ({"allow_msg_counter": True, "allow_msg_ttl": True},
         "a stream of counters cannot have message TTL"),
        ({"allow_msg_counter": True, "allow_msg_schedules": True},
         "a stream of counters cannot have schedules"),
        ({"allow_msg_schedules": True, "discard": "new"},
         "a stream with schedules cannot discard new"),
        ({"allow_msg_schedules": True, "sources": [{"name": "A"}]},
         "a stream with sources cannot schedule messages"),
        ({"persist_mode": "async", "storage": "memory"}, "async persist mode needs file storage"),
        ({"persist_mode": "async", "allow_atomic": True},
         "async persist mode does not work with atomic batches"),
    ],
)  # fmt: skip
def test_what_no_stream_can_have_together_is_said(config: dict[str, object], text: str) -> None:
    assert [problem.text for problem in stream_problems({"name": "S", **config})] == [text]
    for left_out in config:
        rest = {name: value for name, value in config.items() if name != left_out}
        assert stream_problems({"name": "S", **rest}) == ()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"deliver_subject": "d", "max_waiting": 1},
         "maximum waiting works only for pull consumers"),
        ({"deliver_subject": "d", "ack_policy": "none", "max_ack_pending": 1},
         "maximum ack pending needs an ack policy other than none"),
        ({"max_expires": 999_999}, "maximum expires is shorter than 1ms"),
    ],
)  # fmt: skip
def test_what_no_consumer_can_have_is_said(config: dict[str, object], text: str) -> None:
    named = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
    assert [problem.text for problem in consumer_problems(named | config)] == [text]
    assert consumer_problems(named | {"max_expires": 1_000_000, "max_waiting": 1}) == ()
