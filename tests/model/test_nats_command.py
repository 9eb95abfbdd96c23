"""Every flag of a printed command is one that natscli documents."""

from __future__ import annotations

import re
import shlex

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.differences import changed
from natstui.model.assets.fields import Field
from natstui.model.assets.nats_command import consumer_command, stream_command
from natstui.model.assets.stream_fields import STREAM_FIELDS

S = 1_000_000_000
STREAM_ADD = [
    "subjects",
    "description",
    "storage",
    "compression",
    "replicas",
    "tag",
    "tags",
    "cluster",
    "ack",
    "retention",
    "discard",
    "discard-per-subject",
    "first-sequence",
    "max-age",
    "max-bytes",
    "max-consumers",
    "max-msg-size",
    "max-msgs",
    "max-msgs-per-subject",
    "dupe-window",
    "mirror",
    "source",
    "allow-batch",
    "allow-fast",
    "allow-counter",
    "allow-rollup",
    "deny-delete",
    "deny-purge",
    "allow-direct",
    "allow-mirror-direct",
    "allow-msg-ttl",
    "allow-schedules",
    "subject-del-markers-ttl",
    "transform-source",
    "transform-destination",
    "metadata",
    "republish-source",
    "republish-destination",
    "republish-headers",
    "limit-consumer-inactive",
    "limit-consumer-max-pending",
    "persist-mode",
    "config",
    "defaults",
]
STREAM_EDIT = {*STREAM_ADD, "no-mirror", "no-transform", "no-republish", "force"} - {
    "storage", "first-sequence", "limit-consumer-inactive", "limit-consumer-max-pending",
    "persist-mode", "defaults",
}  # fmt: skip
CONSUMER_ADD = [
    "ack",
    "bps",
    "deliver",
    "deliver-group",
    "description",
    "ephemeral",
    "filter",
    "flow-control",
    "heartbeat",
    "headers-only",
    "max-deliver",
    "max-pending",
    "max-waiting",
    "max-pull-batch",
    "max-pull-expire",
    "max-pull-bytes",
    "pull",
    "replay",
    "sample",
    "target",
    "wait",
    "inactive-threshold",
    "memory",
    "replicas",
    "metadata",
    "pause",
    "pinned-groups",
    "pinned-ttl",
    "overflow-groups",
    "prioritized-groups",
    "config",
    "defaults",
]
CONSUMER_EDIT = {*CONSUMER_ADD, "force"} - {
    "ack", "bps", "deliver", "deliver-group", "ephemeral", "flow-control", "heartbeat",
    "max-waiting", "pull", "replay", "memory", "pause", "pinned-groups", "pinned-ttl",
    "overflow-groups", "prioritized-groups", "defaults",
}  # fmt: skip

VALUES = {
    "text": "x", "subject": "a.>", "subjects": ["a.*", "b"], "words": ["t1", "t2"], "switch": True,
    "count": 7, "bytes": 4096, "duration": 90 * S, "durations": [S, 2 * S],
    "time": "2026-01-01T00:00:00Z", "metadata": {"k": "v"}, "source": {"name": "ORIGIN"},
    "sources": [{"name": "A"}, {"name": "B"}], "threshold": "1",
}  # fmt: skip


def values_of(field: Field) -> list[object]:
    return list(field.choices) if field.kind == "choice" else [VALUES[field.kind]]


def flags_of(command: str) -> set[str]:
    words = shlex.split(command.rpartition("| ")[2])
    return {re.match(r"--([a-z-]+)", word)[1] for word in words if word.startswith("--")}  # type: ignore[index]


def is_known(flag: str, known: set[str]) -> bool:
    return flag in known or flag.removeprefix("no-") in known


def test_every_option_of_a_stream_is_said_with_flags_that_exist() -> None:
    for field in STREAM_FIELDS:
        for value in values_of(field):
            config = changed({"name": "S"}, field, value)
            added = flags_of(stream_command(config))
            edited = flags_of(stream_command(config, {"name": "S"}))
            assert all(is_known(flag, set(STREAM_ADD)) for flag in added), (field.path, added)
            assert all(is_known(flag, STREAM_EDIT) for flag in edited), (field.path, edited)
            removed = flags_of(stream_command({"name": "S"}, config))
            assert all(is_known(flag, STREAM_EDIT) for flag in removed), (field.path, removed)


def test_every_option_of_a_consumer_is_said_with_flags_that_exist() -> None:
    for field in CONSUMER_FIELDS:
        for value in values_of(field):
            config = changed({"name": "C", "durable_name": "C"}, field, value)
            added = flags_of(consumer_command("S", config))
            edited = flags_of(consumer_command("S", config, {"name": "C", "durable_name": "C"}))
            assert all(is_known(flag, set(CONSUMER_ADD)) for flag in added), (field.path, added)
            assert all(is_known(flag, CONSUMER_EDIT) for flag in edited), (field.path, edited)


def test_the_command_of_a_stream_reads_as_people_write_it() -> None:
    config = {
        "name": "REQUESTS", "subjects": ["users.requests"], "storage": "memory",
        "num_replicas": 3, "retention": "workqueue", "discard": "new", "max_age": 5 * S,
        "duplicate_window": 5 * S, "deny_delete": True, "description": "what users ask",
    }  # fmt: skip
    assert stream_command(config) == (
        "nats stream add REQUESTS '--description=what users ask' --subjects=users.requests "
        "--storage=memory --retention=work --max-age=5s --discard=new --dupe-window=5s "
        "--replicas=3 --no-allow-direct --deny-delete --defaults"
    )


def test_what_flags_cannot_say_is_passed_as_configuration() -> None:
    config = {"name": "M", "mirror": {"name": "A", "filter_subject": "it's.>"}}
    command = stream_command(config)
    assert command.startswith("printf %s '{")
    assert command.endswith("| nats stream add M --config /dev/stdin")
    assert '"filter_subject": "it' in command
    grouped = {"durable_name": "C", "priority_groups": ["A"], "priority_policy": "overflow"}
    assert "--overflow-groups=A" in consumer_command("S", grouped)


def test_an_edit_says_only_what_differs() -> None:
    before = {"name": "S", "max_age": 5 * S, "republish": {"src": ">", "dest": "r.>"}}
    after = {"name": "S", "max_bytes": 1 << 30}
    assert stream_command(after, before) == (
        "nats stream edit S --max-age=-1 --max-bytes=1GB --dupe-window=2m --no-republish --force"
    )
