"""Every printed command makes what was asked for, read back by the grammar of the NATS CLI."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings

from natstui.model.assets.consumer_rules import consumer_problems
from natstui.model.assets.differences import AssetKind, normalize_config
from natstui.model.assets.stream_rules import stream_problems
from natstui.model.natscli.commands import consumer_command, stream_command
from tests.jetstream.random_configs import consumer_configs, stream_configs
from tests.model.natscli_effects import S, effect
from tests.model.natscli_grammar import Config, GrammarError, parsed_command

STREAMS: dict[str, Config] = {
    "plain": {},
    "subjects": {"subjects": ["a.*", "b.>"]},
    "a comma in a subject": {"subjects": ["a,b"]},
    "description": {"description": "what it's for"},
    "memory": {"storage": "memory"},
    "interest": {"retention": "interest"},
    "queue": {"retention": "workqueue"},
    "metadata": {"metadata": {"team": "ops", "note": "a=b, c:d"}},
    "metadata with a colon": {"metadata": {"a:b": "c"}},
    "age": {"max_age": 5 * S},
    "odd age": {"max_age": 97_200 * S + 1_500_000},
    "bytes": {"max_bytes": 1 << 30},
    "odd bytes": {"max_bytes": 1_000_003},
    "too many digits": {"max_bytes": 5_000_000_001},
    "petabytes": {"max_bytes": 3 << 50},
    "messages": {"max_msgs": 15_000},
    "per subject": {"max_msgs_per_subject": 1},
    "message size": {"max_msg_size": 65_536},
    "consumers": {"max_consumers": 5},
    "discard": {"discard": "new"},
    "new per subject": {
        "discard": "new", "max_msgs_per_subject": 4, "discard_new_per_subject": True,
    },
    "window": {"duplicate_window": 30 * S},
    "window as the age": {"duplicate_window": 5 * S, "max_age": 5 * S},
    "long window": {"duplicate_window": 3600 * S},
    "consumer limits": {
        "consumer_limits": {"inactive_threshold": 60 * S, "max_ack_pending": 50},
    },
    "no acks": {"no_ack": True},
    "ttl": {"allow_msg_ttl": True},
    "markers": {"subject_delete_marker_ttl": 60 * S},
    "rollups": {"allow_rollup_hdrs": True},
    "atomic": {"allow_atomic": True},
    "fast": {"allow_batched": True},
    "counters": {"allow_msg_counter": True},
    "schedules": {"allow_msg_schedules": True},
    "transform": {"subject_transform": {"src": "s.*", "dest": "t.$1"}},
    "transform of all": {"subject_transform": {"src": "", "dest": "t.>"}},
    "republish": {"republish": {"src": "s.>", "dest": "r.>"}},
    "republish headers": {"republish": {"src": "s.>", "dest": "r.>", "headers_only": True}},
    "replicas": {"num_replicas": 3},
    "cluster": {"placement": {"cluster": "east"}},
    "tags": {"placement": {"tags": ["ssd", "eu"]}},
    "mirror": {"mirror": {"name": "O"}, "subjects": None},
    "filtered mirror": {"mirror": {"name": "O", "filter_subject": "it's.>"}, "subjects": None},
    "mirror with a window": {
        "mirror": {"name": "O"}, "subjects": None, "duplicate_window": 60 * S,
    },
    "mirror direct": {"mirror": {"name": "O"}, "subjects": None, "mirror_direct": True},
    "sources": {"sources": [{"name": "A"}, {"name": "B", "opt_start_seq": 3}]},
    "sources alone": {"sources": [{"name": "A"}], "subjects": None},
    "sources with a window": {"sources": [{"name": "A"}], "duplicate_window": 60 * S},
    "sources with the usual window": {"sources": [{"name": "A"}], "duplicate_window": 120 * S},
    "compression": {"compression": "s2"},
    "async": {"persist_mode": "async"},
    "first sequence": {"first_seq": 1000},
    "no direct gets": {"allow_direct": False},
    "deny delete": {"deny_delete": True},
    "deny purge": {"deny_purge": True},
    "sealed": {"sealed": True},
    "monitored": {"metadata": {"io.nats.monitor.enabled": "true"}},
}  # fmt: skip
CONSUMERS: dict[str, Config] = {
    "plain": {},
    "description": {"description": "who consumes"},
    "ephemeral": {"durable_name": None},
    "nameless": {"durable_name": None, "name": None},
    "one filter": {"filter_subjects": ["s.a"]},
    "single filter": {"filter_subject": "s.a"},
    "filters": {"filter_subjects": ["s.a", "s.b"]},
    "acks of all": {"ack_policy": "all"},
    "no acks": {"ack_policy": "none"},
    "no acks and five deliveries": {"ack_policy": "none", "max_deliver": 5},
    "metadata": {"metadata": {"team": "ops"}},
    "new": {"deliver_policy": "new"},
    "last": {"deliver_policy": "last"},
    "last of each": {"deliver_policy": "last_per_subject", "filter_subjects": ["s.>"]},
    "from a sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 42},
    "from a time": {
        "deliver_policy": "by_start_time", "opt_start_time": "2026-01-31T12:00:00Z",
    },
    "original": {"replay_policy": "original"},
    "wait": {"ack_wait": 60 * S},
    "deliveries": {"max_deliver": 5},
    "backoff": {"backoff": [S, 2 * S], "max_deliver": 5},
    "other backoff": {"backoff": [3 * S, 4 * S], "max_deliver": 5},
    "ack pending": {"max_ack_pending": 77},
    "any ack pending": {"max_ack_pending": -1},
    "headers": {"headers_only": True},
    "sample": {"sample_freq": "50%"},
    "paused": {"pause_until": "2030-01-31T12:00:00Z"},
    "paused in a zone": {"pause_until": "2030-01-31T12:00:00+02:00"},
    "inactive": {"inactive_threshold": 3600 * S},
    "replicas": {"num_replicas": 3},
    "memory": {"mem_storage": True},
    "waiting": {"max_waiting": 9},
    "batch": {"max_batch": 10},
    "expires": {"max_expires": 10 * S},
    "bytes": {"max_bytes": 4096},
    "pinned": {"priority_policy": "pinned_client", "priority_groups": ["A"]},
    "pinned for long": {
        "priority_policy": "pinned_client", "priority_groups": ["A"], "priority_timeout": 60 * S,
    },
    "overflow": {"priority_policy": "overflow", "priority_groups": ["A"]},
    "prioritized": {"priority_policy": "prioritized", "priority_groups": ["A"]},
    "push": {"deliver_subject": "in.box"},
    "push without acks": {"deliver_subject": "in.box", "ack_policy": "none"},
    "push group": {"deliver_subject": "in.box", "deliver_group": "workers"},
    "push with flow control": {
        "deliver_subject": "in.box", "flow_control": True, "idle_heartbeat": 5 * S,
    },
    "push with a heartbeat": {"deliver_subject": "in.box", "idle_heartbeat": 5 * S},
    "push at a rate": {"deliver_subject": "in.box", "rate_limit_bps": 1000},
    "push as it was": {"deliver_subject": "in.box", "replay_policy": "original"},
    "push by flow control": {"deliver_subject": "in.box", "ack_policy": "flow_control"},
}  # fmt: skip
PLAIN: dict[AssetKind, Config] = {
    "stream": {"name": "S", "subjects": ["s.>"], "allow_direct": True},
    "consumer": {"name": "C", "durable_name": "C", "ack_policy": "explicit"},
}
MADE: dict[AssetKind, dict[str, Config]] = {
    kind: {
        label: {k: v for k, v in {**PLAIN[kind], **piece}.items() if v is not None}
        for label, piece in pieces.items()
    }
    for kind, pieces in (("stream", STREAMS), ("consumer", CONSUMERS))
}

CHANGES = [
    (kind, f"{label}, {way}", before, after)
    for kind, made in MADE.items()
    for label, config in made.items()
    for way, before, after in (
        ("added", None, config),
        ("set", made["plain"], config),
        ("taken away", config, made["plain"]),
        ("left", {**config, "num_replicas": 1}, {**config, "num_replicas": 5}),
    )
]
"""Every setting made, set by an edit, taken away, and there while something else changes."""


def printed(kind: AssetKind, before: Config | None, after: Config) -> str:
    if kind == "stream":
        return stream_command(after, before)
    return consumer_command("S", after, before)


def as_kept(kind: AssetKind, config: Config) -> Config:
    """Return it as the server would keep it, a percentage without its sign, a pause in UTC."""
    kept = normalize_config(kind, config)
    percent = str(kept.get("sample_freq", "")).removesuffix("%")
    pause = str(kept.get("pause_until", "")).replace("T12:00:00+02:00", "T10:00:00Z")
    return {**kept, "sample_freq": percent, "pause_until": pause}


def in_full(kind: AssetKind, config: Config) -> Config:
    """Return a configuration as it comes from the server."""
    full = normalize_config(kind, config)
    if kind == "stream" and full.get("republish") == {"headers_only": False}:
        del full["republish"]
    return full


def test_there_are_enough_changes() -> None:
    assert len(CHANGES) > 350


@pytest.mark.parametrize("kind", ["stream", "consumer"])
def test_every_printed_command_makes_what_was_asked_for(kind: AssetKind) -> None:
    wrong, commented = [], 0
    for of, label, before, after in CHANGES:
        if of != kind:
            continue
        base = None if before is None else in_full(kind, before)
        wanted = {**in_full(kind, after)} if base else after
        line = printed(kind, base, wanted)
        if line.startswith("#"):
            commented += 1
            assert base is not None, (label, line)
            assert "durable_name" not in base or "durable_name" not in wanted, (label, line)
            continue
        try:
            made = effect(parsed_command(line), base)
        except GrammarError as error:
            wrong.append(f"{label}: {error}: {line}")
            continue
        if "pause_until" in made:
            text = str(made["pause_until"])
            made["pause_until"] = {"2030-01-31T10:00:00Z": "2030-01-31T12:00:00+02:00"}.get(
                text, text
            )
        got, asked = as_kept(kind, made), as_kept(kind, wanted)
        if got != asked:
            keys = sorted(key for key in {*got, *asked} if got.get(key) != asked.get(key))
            wrong.append(f"{label}: {[(k, got.get(k), asked.get(k)) for k in keys]}: {line}")
    assert wrong == []
    assert commented == (6 if kind == "consumer" else 0)


_SOME = settings(max_examples=30, derandomize=True, database=None)


def checked(kind: AssetKind, base: Config | None, wanted: Config) -> None:
    line = printed(kind, base, wanted)
    assert as_kept(kind, effect(parsed_command(line), base)) == as_kept(kind, wanted), line


@pytest.mark.slow
@_SOME
@given(stream_configs(), stream_configs())
def test_any_stream_and_any_change_of_it_is_printed_right(first: Config, other: Config) -> None:
    second = {**other, "name": first["name"]}
    assume(not stream_problems(first) and not stream_problems(second))
    checked("stream", None, first)
    checked("stream", in_full("stream", first), in_full("stream", second))


@pytest.mark.slow
@_SOME
@given(consumer_configs(), consumer_configs())
def test_any_consumer_and_any_change_of_it_is_printed_right(first: Config, other: Config) -> None:
    second = {**other, "name": first["name"], "durable_name": first["name"]}
    assume(not consumer_problems(first) and not consumer_problems(second))
    checked("consumer", None, first)
    checked("consumer", in_full("consumer", first), in_full("consumer", second))


def test_flags_are_used_where_they_say_everything() -> None:
    lines = [printed(kind, before, after) for kind, _, before, after in CHANGES]
    with_file = [line for line in lines if line.startswith("printf")]
    assert len(with_file) < len(lines) / 3


def test_what_the_nats_cli_does_not_know_is_said() -> None:
    newer = {**PLAIN["stream"], "of_later": 5}
    assert stream_command(newer) == "# the NATS CLI cannot do this: it does not know of_later"
    edited = stream_command({**newer, "max_msgs": 7}, newer)
    lost = "it does not know of_later, and would remove it"
    assert edited == f"# the NATS CLI cannot do this: {lost}"
    odd = {"name": "S", "sources": [{"name": "A", "of_later": {"x": 1}}]}
    assert stream_command(odd).endswith("it does not know of_later")
    ephemeral = {"name": "C", "ack_policy": "explicit"}
    line = consumer_command("S", {**ephemeral, "description": "x"}, ephemeral)
    assert line == "# the NATS CLI cannot do this: it can edit only durable consumers"


def test_the_command_of_a_stream_reads_as_people_write_it() -> None:
    config: Config = {
        "name": "REQUESTS", "subjects": ["users.requests"], "storage": "memory",
        "num_replicas": 3, "retention": "workqueue", "discard": "new", "max_age": 5 * S,
        "duplicate_window": 5 * S, "deny_delete": True, "description": "what users ask",
    }  # fmt: skip
    assert stream_command(config) == (
        "nats stream add REQUESTS '--description=what users ask' --subjects=users.requests "
        "--storage=memory --retention=work --max-age=5s --discard=new --dupe-window=5s "
        "--replicas=3 --no-allow-direct --deny-delete --defaults"
    )


def test_an_edit_says_only_what_differs() -> None:
    before: Config = {**PLAIN["stream"], "max_age": 5 * S}
    transformed = {**before, "subject_transform": {"src": "s.>", "dest": "t.>"}}
    after: Config = {**PLAIN["stream"], "max_bytes": 1 << 30}
    assert stream_command(after, transformed) == (
        "nats stream edit S --max-age=0s --max-bytes=1GB --dupe-window=2m --no-transform --force"
    )


def test_names_that_look_like_flags_stay_names() -> None:
    command = parsed_command(stream_command({"name": "-x", "subjects": ["a"]}))
    assert command.names == ["-x"]
    mirror = {"name": "@x", "mirror": {"name": "A"}}
    assert parsed_command(stream_command({**mirror, "sealed": True}, mirror)).names == ["@x"]


def test_a_bucket_is_changed_from_a_file_because_the_nats_cli_asks_a_question() -> None:
    bucket = {**PLAIN["stream"], "name": "KV_B", "description": "x"}
    line = stream_command({**bucket, "description": ""}, bucket)
    assert line.endswith("> KV_B.json && nats stream edit KV_B --config KV_B.json --force")
    assert json.loads(json.dumps(parsed_command(line).config))["name"] == "KV_B"
