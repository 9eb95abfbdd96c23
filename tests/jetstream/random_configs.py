"""Random configurations that a single nats-server accepts, for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import Field
from natstui.model.assets.stream_fields import STREAM_FIELDS

S = 1_000_000_000
_TOKEN = st.sampled_from(["a", "b", "orders", "x1", "Ü", "$KV", "*"])
_NAME = st.text("ABCxyz019_-", min_size=1, max_size=12)
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30)
_METADATA = st.dictionaries(_NAME, st.text("abc 12.", min_size=1, max_size=8), max_size=3)


@st.composite
def subjects(draw: Any, prefix: str) -> list[str]:
    """Up to three subjects under a prefix that do not overlap each other."""
    tails = draw(st.lists(st.lists(_TOKEN, max_size=2), min_size=1, max_size=3))
    return [
        ".".join([prefix, f"s{index}", *tail, *draw(st.sampled_from([[], [">"]]))])
        for index, tail in enumerate(tails)
    ]


_STREAM_OPTIONS: dict[str, Any] = {
    "description": _TEXT.filter(str.strip),
    "storage": st.sampled_from(["file", "memory"]),
    "retention": st.sampled_from(["limits", "interest", "workqueue"]),
    "metadata": _METADATA,
    "max_age": st.integers(10 * S, 10**6 * S),
    "max_bytes": st.integers(1, 1 << 30),
    "max_msgs": st.integers(-1, 10**9),
    "max_msgs_per_subject": st.integers(-1, 10**6),
    "max_msg_size": st.integers(-1, 2**31 - 1),
    "max_consumers": st.integers(-1, 1000),
    "discard": st.sampled_from(["old", "new"]),
    "duplicate_window": st.integers(S // 10, 10 * S),
    "consumer_limits": st.fixed_dictionaries(
        {"inactive_threshold": st.integers(1, 10**12), "max_ack_pending": st.integers(1, 10**6)}
    ),
    "num_replicas": st.just(1),
    "placement": st.fixed_dictionaries({"tags": st.sampled_from([[], ["ssd", "eu"]])}),
    "sources": st.just([{"name": "ORIGIN", "opt_start_seq": 3, "filter_subject": "origin.a"}]),
    "compression": st.sampled_from(["none", "s2"]),
    "persist_mode": st.sampled_from(["default", "async"]),
    "first_seq": st.integers(1, 10**15),
    "no_ack": st.booleans(),
    "allow_msg_ttl": st.booleans(),
    "subject_delete_marker_ttl": st.integers(S, 10**6 * S),
    "allow_rollup_hdrs": st.booleans(),
    "allow_atomic": st.booleans(),
    "allow_batched": st.booleans(),
    "allow_msg_counter": st.booleans(),
    "allow_msg_schedules": st.booleans(),
    "subject_transform": st.just({"src": ">", "dest": "renamed.>"}),
    "republish": st.just({"src": ">", "dest": "again.>", "headers_only": True}),
    "allow_direct": st.booleans(),
    "deny_delete": st.booleans(),
    "deny_purge": st.booleans(),
}


NEWEST_LEVEL = 5


def _known(options: dict[str, Any], fields: Sequence[Field], api_level: int) -> dict[str, Any]:
    """Return the options, and their choices, that a server of a level has."""
    newer = {field.path for field in fields if field.needed_api_level > api_level}
    known = {path: values for path, values in options.items() if path not in newer}
    for field in fields:
        for choice, level in field.choices_min_api_level:
            if level > api_level and field.path in known:
                known[field.path] = known[field.path].filter(choice.__ne__)
    return known


@st.composite
def stream_configs(draw: Any, api_level: int = NEWEST_LEVEL) -> dict[str, Any]:
    """Any mixture of options of a server; many mixtures are refused, by us and by the server."""
    options = _known(_STREAM_OPTIONS, STREAM_FIELDS, api_level)
    chosen = draw(st.sets(st.sampled_from(sorted(options)), max_size=9))
    config: dict[str, Any] = {key: draw(options[key]) for key in sorted(chosen)}
    name = "P" + draw(_NAME)
    mirror = draw(st.integers(0, 9)) == 0
    if mirror:
        config["mirror"] = {"name": "ORIGIN", "filter_subject": "origin.b"}
    elif draw(st.booleans()):
        config["subjects"] = draw(subjects(name))
    return {"name": name, **config}


_CONSUMER_OPTIONS: dict[str, Any] = {
    "description": _TEXT.filter(str.strip),
    "metadata": _METADATA,
    "ack_policy": st.sampled_from(["explicit", "explicit", "all", "none"]),
    "deliver_policy": st.sampled_from(
        ["all", "new", "last", "last_per_subject", "by_start_sequence", "by_start_time"]
    ),
    "opt_start_seq": st.integers(1, 10**6),
    "opt_start_time": st.sampled_from(
        ["2026-01-01T00:00:00.123456789Z", "2026-05-01T10:00:00-05:00"]
    ),
    "filter_subjects": st.sampled_from([["origin.a"], ["origin.a", "origin.b.>"], ["origin.>"]]),
    "replay_policy": st.sampled_from(["instant", "original"]),
    "ack_wait": st.integers(S, 10**6 * S),
    "max_deliver": st.integers(-1, 20),
    "backoff": st.lists(st.integers(1, 10**4 * S), max_size=4),
    "max_ack_pending": st.integers(-1, 10**6),
    "headers_only": st.booleans(),
    "sample_freq": st.sampled_from(["10", "100%", "abc"]),
    "max_waiting": st.integers(0, 10**4),
    "max_batch": st.integers(1, 10**4),
    "max_expires": st.integers(500_000, 10**4 * S),
    "max_bytes": st.integers(1, 10**9),
    "priority_policy": st.sampled_from(["overflow", "pinned_client", "prioritized"]),
    "priority_groups": st.sampled_from([["A"], ["A", "b-1"], ["too long for a group"]]),
    "priority_timeout": st.integers(S, 10**3 * S),
    "deliver_subject": st.just("delivered.here"),
    "deliver_group": st.just("workers"),
    "flow_control": st.booleans(),
    "idle_heartbeat": st.integers(S // 20, 100 * S),
    "rate_limit_bps": st.integers(1000, 10**9),
    "inactive_threshold": st.integers(600 * S, 10**6 * S),
    "num_replicas": st.sampled_from([0, 1]),
    "mem_storage": st.booleans(),
}


@st.composite
def consumer_configs(draw: Any, api_level: int = NEWEST_LEVEL) -> dict[str, Any]:
    """Any mixture of a server's options of a durable consumer on the stream ORIGIN."""
    options = _known(_CONSUMER_OPTIONS, CONSUMER_FIELDS, api_level)
    chosen = draw(st.sets(st.sampled_from(sorted(options)), max_size=8))
    config: dict[str, Any] = {key: draw(options[key]) for key in sorted(chosen)}
    name = "C" + draw(_NAME)
    return {"name": name, "durable_name": name, **config}
