"""What a parsed command makes of a stream or consumer, as the NATS CLI does it step by step."""

from __future__ import annotations

import json
from datetime import datetime

from tests.model.natscli_grammar import Command, Config, GrammarError, duration

S = 1_000_000_000
_ZERO: dict[str, Config] = {
    "stream": {
        "retention": "limits", "storage": "file", "discard": "old", "max_consumers": 0,
        "max_msgs": 0, "max_bytes": 0, "max_age": 0, "num_replicas": 0,
    },
    "consumer": {
        "ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant",
        "num_replicas": 0,
    },
}  # fmt: skip
"""What a file says by leaving it out."""


def effect(command: Command, base: Config | None) -> Config:
    """Return the configuration that the NATS CLI sends; raises GrammarError where it stops."""
    kind, verb = command.verb.split()
    if (base is None) == (verb == "edit"):
        raise GrammarError("the wrong command")
    if command.config is not None:
        found = {**_ZERO[kind], **command.config}
    elif kind == "stream":
        found = _stream_edit(command, base) if base else _stream_add(command)
    else:
        found = _consumer_edit(command, base) if base else _consumer_add(command)
    _validate(kind, command, found, base)
    return {key: value for key, value in found.items() if value is not None}


def _validate(kind: str, command: Command, found: Config, base: Config | None) -> None:
    if kind == "stream":
        found["name"] = command.names[0]
        replicas = found["num_replicas"]
        if not isinstance(replicas, int) or replicas < 1:
            raise GrammarError("num_replicas: must be at least 1")
        if found.get("mirror") and found.get("subjects"):
            raise GrammarError("mirrors cannot listen for messages on subjects")
    elif base is not None:
        if not base.get("durable_name"):
            raise GrammarError("only durable consumers can be edited")
        if found.get("backoff") and found.get("ack_wait") != base.get("ack_wait"):
            raise GrammarError("consumers with backoff policies do not support editing Ack Wait")


def _both(command: Command, first: str, second: str) -> bool:
    if bool(command.text(first)) != bool(command.text(second)):
        raise GrammarError(f"must specify both --{first} and --{second}")
    return bool(command.text(first))


def _ends(command: Command, found: Config) -> None:
    if _both(command, "republish-source", "republish-destination"):
        found["republish"] = {
            "src": command.text("republish-source"),
            "dest": command.text("republish-destination"),
            "headers_only": bool(command.get("republish-headers")),
        }
    elif command.get("republish-headers"):
        raise GrammarError("--republish-headers needs both ends")
    if _both(command, "transform-source", "transform-destination"):
        found["subject_transform"] = {
            "src": command.text("transform-source"), "dest": command.text("transform-destination"),
        }  # fmt: skip


def _stream_add(command: Command) -> Config:
    if not command.get("defaults"):
        raise GrammarError("it would ask questions")
    copies = bool(command.get("mirror") or command.get("source"))
    if not copies and not command.get("subjects"):
        raise GrammarError("it would ask for subjects")
    age_ns = command.number("max-age") if command.text("max-age") != "-1" else 0
    window_ns = min(age_ns, 120 * S) if age_ns > 0 else 120 * S
    window_ns = 0 if command.get("mirror") else window_ns
    found: Config = {
        "description": command.text("description"), "subjects": command.get("subjects"),
        "storage": {"f": "file", "m": "memory"}.get(
            str(command.get("storage", "file")), command.get("storage", "file")
        ),
        "compression": command.get("compression", "none"),
        "num_replicas": command.number("replicas") or 1, "no_ack": not command.get("ack", True),
        "retention": _retention(command, "limits"), "discard": command.get("discard", "old"),
        "discard_new_per_subject": command.get("discard-per-subject", False),
        "first_seq": command.number("first-sequence"), "max_age": age_ns,
        "max_bytes": command.number("max-bytes") or -1,
        "max_consumers": command.number("max-consumers", -1),
        "max_msg_size": command.number("max-msg-size") or -1,
        "max_msgs": command.number("max-msgs") or -1,
        "max_msgs_per_subject": command.number("max-msgs-per-subject") or -1,
        "duplicate_window": command.number("dupe-window", window_ns),
        "allow_direct": command.get("allow-direct", True),
        "metadata": command.get("metadata"),
        "persist_mode": command.get("persist-mode", "default"),
        "subject_delete_marker_ttl": command.number("subject-del-markers-ttl"),
    }  # fmt: skip
    found |= {path: command.get(flag, False) for flag, path in _SWITCHES.items()}
    limits = {
        "inactive_threshold": command.number("limit-consumer-inactive"),
        "max_ack_pending": command.number("limit-consumer-max-pending"),
    }
    found["consumer_limits"] = {key: value for key, value in limits.items() if value > 0}
    if command.text("cluster") or command.get("tag"):
        found["placement"] = {"cluster": command.text("cluster"), "tags": command.get("tag", [])}
    if command.get("mirror"):
        found["mirror"] = _origin(command.text("mirror"))
    sources = command.get("source", [])
    assert isinstance(sources, list)
    found["sources"] = [_origin(text) for text in sources]
    _ends(command, found)
    return found


_SWITCHES = {
    "allow-rollup": "allow_rollup_hdrs", "deny-delete": "deny_delete", "deny-purge": "deny_purge",
    "allow-mirror-direct": "mirror_direct", "allow-schedules": "allow_msg_schedules",
    "allow-msg-ttl": "allow_msg_ttl", "allow-batch": "allow_atomic", "allow-fast": "allow_batched",
    "allow-counter": "allow_msg_counter",
}  # fmt: skip


def _origin(text: str) -> object:
    if not text.strip().startswith("{"):
        raise GrammarError(f"it would ask questions about {text}")
    return json.loads(text)


def _retention(command: Command, default: object) -> object:
    said = command.get("retention", default)
    return "workqueue" if said in ("work", "workq") else said


def _stream_edit(command: Command, base: Config) -> Config:
    if not command.get("force"):
        raise GrammarError("it would ask a question")
    if command.get("source") or command.get("mirror"):
        raise GrammarError("cannot edit mirrors, or sources using the CLI, use --config instead")
    found = json.loads(json.dumps(base))
    found["no_ack"] = not command.get("ack", True)
    for flag, path in _SWITCHES.items() | {
        ("allow-direct", "allow_direct"), ("discard-per-subject", "discard_new_per_subject"),
        ("compression", "compression"), ("discard", "discard"), ("subjects", "subjects"),
        ("max-age", "max_age"), ("dupe-window", "duplicate_window"), ("metadata", "metadata"),
        ("subject-del-markers-ttl", "subject_delete_marker_ttl"),
    }:  # fmt: skip
        if flag in command.flags:
            found[path] = command.get(flag)
    if "retention" in command.flags:
        found["retention"] = _retention(command, "")
    for flag, path, unset in (
        ("max-bytes", "max_bytes", 0), ("max-msgs", "max_msgs", 0),
        ("max-msgs-per-subject", "max_msgs_per_subject", 0), ("max-msg-size", "max_msg_size", 0),
        ("max-consumers", "max_consumers", -1), ("replicas", "num_replicas", 0),
        ("description", "description", ""),
    ):  # fmt: skip
        if command.get(flag, unset) != unset:
            found[path] = command.get(flag)
    found["placement"] = _placement(command, dict(found.get("placement") or {}))
    _ends(command, found)
    # Yes: the NATS CLI has a flag against republishing, and does nothing with it.
    for flag, path in (("no-transform", "subject_transform"), ("no-mirror", "mirror")):
        if command.get(flag):
            found[path] = None
    return found  # type: ignore[no-any-return]


def _placement(command: Command, placement: Config) -> Config | None:
    if "cluster" in command.flags:
        placement["cluster"] = command.get("cluster")
    if "tag" in command.flags:
        tags = command.get("tag")
        placement["tags"] = [] if tags == [""] else tags
    return placement if placement.get("cluster") or placement.get("tags") else None


def _policy_start(text: str) -> Config:
    words = {"all": "all", "last": "last", "new": "new", "next": "new",
             "subject": "last_per_subject", "last_per_subject": "last_per_subject"}  # fmt: skip
    if text in words:
        return {"deliver_policy": words[text]}
    if text.isdecimal():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(text)}
    return {"deliver_policy": "by_start_time", "opt_start_time": f"{duration(text)} ago"}


def _pause(text: str) -> str:
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f"):
        try:
            return datetime.strptime(text[:26], form).isoformat() + "Z"
        except ValueError:
            continue
    return f"{duration(text)} from now"


def _consumer_add(command: Command) -> Config:
    if not command.get("defaults"):
        raise GrammarError("it would ask questions")
    name = command.names[1] if len(command.names) > 1 else ""
    if not command.get("pull") and not command.text("target"):
        raise GrammarError("it would ask for the target")
    if not name and not command.get("ephemeral"):
        raise GrammarError("it would ask for the name")
    target = command.text("target")
    ack = command.get("ack", "none" if target else "explicit")
    found: Config = {
        "name" if command.get("ephemeral") else "durable_name": name, "deliver_subject": target,
        "description": command.text("description"), "ack_policy": ack,
        "deliver_group": command.text("deliver-group"),
        "replay_policy": "instant" if target else command.get("replay", "instant"),
        "ack_wait": max(0, command.number("wait", -1)),
        "mem_storage": command.get("memory", False),
        "sample_freq": str(command.number("sample")) if command.number("sample") > 0 else "",
        "headers_only": command.get("headers-only", False), "metadata": command.get("metadata"),
        "max_ack_pending": max(0, command.number("max-pending", -1)),
        "inactive_threshold": command.number("inactive-threshold"),
        "max_batch": max(0, command.number("max-pull-batch")),
        "max_expires": max(0, command.number("max-pull-expire")),
        "max_bytes": max(0, command.number("max-pull-bytes")),
        "max_deliver": -1 if ack == "none" else command.number("max-deliver") or -1,
        "rate_limit_bps": command.number("bps"), "num_replicas": command.number("replicas"),
    }  # fmt: skip
    found |= _policy_start(str(command.get("deliver", "all")))
    found["filter_subjects"] = command.get("filter", [])
    if found["deliver_policy"] == "last_per_subject" and not found["filter_subjects"]:
        found["filter_subjects"] = [">"]
    heartbeat = str(command.get("heartbeat", "-1"))
    if target:
        found["idle_heartbeat"] = None if heartbeat == "-1" else duration(heartbeat)
        found["flow_control"] = command.get("flow-control", False)
    elif heartbeat != "-1" or command.number("bps"):
        raise GrammarError("only push consumers have heartbeats and rate limits")
    else:
        found["max_waiting"] = command.number("max-waiting")
    if command.get("backoff") == "linear":
        raise GrammarError("nothing here prints a linear backoff")
    if command.get("pause"):
        found["pause_until"] = _pause(command.text("pause"))
    return {**found, **_groups(command)}


def _groups(command: Command) -> Config:
    if command.get("pinned-groups"):
        return {
            "priority_policy": "pinned_client", "priority_groups": command.get("pinned-groups"),
            "priority_timeout": command.number("pinned-ttl"),
        }  # fmt: skip
    if command.get("overflow-groups"):
        # Yes: it takes the names of the other flag, of which there are none.
        return {"priority_policy": "overflow", "priority_groups": []}
    if command.get("prioritized-groups"):
        groups = command.get("prioritized-groups")
        return {"priority_policy": "prioritized", "priority_groups": groups}
    return {}


def _consumer_edit(command: Command, base: Config) -> Config:
    if not command.get("force"):
        raise GrammarError("it would ask a question")
    found: Config = json.loads(json.dumps(base))
    for flag, path, unset in (
        ("description", "description", ""), ("inactive-threshold", "inactive_threshold", 0),
        ("max-deliver", "max_deliver", 0), ("max-pending", "max_ack_pending", -1),
        ("wait", "ack_wait", -S), ("target", "deliver_subject", ""),
    ):  # fmt: skip
        if command.get(flag, unset) != unset:
            found[path] = command.get(flag)
    for flag, path in (
        ("max-pull-batch", "max_batch"), ("max-pull-expire", "max_expires"),
        ("max-pull-bytes", "max_bytes"), ("replicas", "num_replicas"),
    ):  # fmt: skip
        if command.number(flag) > 0:
            found[path] = command.number(flag)
    said: Config = {
        "headers_only": command.get("headers-only"), "metadata": command.get("metadata"),
        "filter_subjects": command.get("filter"),
    }  # fmt: skip
    found |= {path: value for path, value in said.items() if value is not None}
    if command.get("filter"):
        found.pop("filter_subject", None)
    if command.number("sample", -1) != -1:
        found["sample_freq"] = str(command.number("sample") or "")
    if "backoff" in command.flags:
        found["backoff"] = None
    return found
