"""What the server would refuse in a consumer's configuration, and what is allowed but risky."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import is_on, number_at, read, strings_at, text_at
from natstui.model.assets.rules import Problem, common_problems, name_problems
from natstui.model.assets.subjects import first_overlap, has_wildcard, is_subject, overlap

_GROUP = re.compile(r"[A-Za-z0-9\-_/=)+]{1,16}")
_SHORTEST_HEARTBEAT_NS = 100_000_000
_SHORTEST_EXPIRES_NS = 1_000_000


def consumer_problems(
    config: Mapping[str, object],
    stream: Mapping[str, object] | None = None,
    api_level: int | None = None,
    *,
    seen: Mapping[str, object] | None = None,
) -> tuple[Problem, ...]:
    """Return everything wrong with a consumer's configuration.

    `stream` is the configuration of its stream, when known; `api_level` the connected server's.
    `seen` is what an edit began with: the server has accepted it, whatever we think of it.
    """
    found = _problems(config, stream, api_level)
    accepted = [] if seen is None else _problems(seen, stream, api_level)
    return tuple(problem for problem in found if problem not in accepted)


def _problems(
    config: Mapping[str, object], stream: Mapping[str, object] | None, api_level: int | None
) -> list[Problem]:
    found: list[Problem] = []
    for rule in (_names, _filters, _start, _delivery, _pull, _push, _priority):
        found += rule(config)
    if stream is not None:
        found += _for_stream(config, stream)
    found += common_problems(config, CONSUMER_FIELDS, api_level)
    return found


def _names(config: Mapping[str, object]) -> Iterator[Problem]:
    name, durable = text_at(config, "name"), text_at(config, "durable_name")
    if name:
        yield from name_problems("name", name, "consumer")
    if durable and durable != name:
        yield from name_problems("durable_name", durable, "consumer")
        if name:
            yield Problem(
                "durable_name", "name and durable name differ: make them equal, or leave one empty"
            )


def _filters(config: Mapping[str, object]) -> Iterator[Problem]:
    filters, single = strings_at(config, "filter_subjects"), text_at(config, "filter_subject")
    if filters and single:
        yield Problem(
            "filter_subjects",
            "both filter_subject and filter_subjects are set: use only one of them",
        )
    for subject in (*filters, *([single] if single else [])):
        if not is_subject(subject):
            yield Problem("filter_subjects", f"Filters: {subject!r} is not a valid subject")
    pair = first_overlap(filters)
    if pair:
        yield Problem("filter_subjects", f"the filters {pair[0]!r} and {pair[1]!r} overlap")


def _start(config: Mapping[str, object]) -> Iterator[Problem]:
    policy = text_at(config, "deliver_policy") or "all"
    for path, needed_by, what in (
        ("opt_start_seq", "by_start_sequence", "a start sequence"),
        ("opt_start_time", "by_start_time", "a start time"),
    ):
        given = bool(read(config, path))
        if policy == needed_by and not given:
            yield Problem(path, f"deliver {policy} needs {what}")
        if policy != needed_by and given:
            yield Problem(path, f"{what} works only with deliver {needed_by}, not with {policy}")
    filtered = strings_at(config, "filter_subjects") or text_at(config, "filter_subject")
    if policy == "last_per_subject" and not filtered:
        yield Problem("filter_subjects", "deliver last_per_subject needs a filter")


def _delivery(config: Mapping[str, object]) -> Iterator[Problem]:
    pauses = [pause for pause in _list(read(config, "backoff")) if isinstance(pause, int)]
    if any(pause_ns < 0 for pause_ns in pauses):
        yield Problem("backoff", "the backoff has a negative pause")
    if 0 < number_at(config, "max_deliver") < len(pauses):
        yield Problem(
            "max_deliver", "maximum deliveries is smaller than the number of backoff steps"
        )
    if number_at(config, "ack_wait") < 0:
        yield Problem("ack_wait", "ack wait is negative")
    sample = text_at(config, "sample_freq").removesuffix("%")
    if sample and not sample.isdecimal():
        yield Problem(
            "sample_freq", "the sample frequency is not a percentage: write it as 10 or 10%"
        )


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _pull(config: Mapping[str, object]) -> Iterator[Problem]:
    if text_at(config, "deliver_subject"):
        if number_at(config, "max_waiting") > 0:
            yield Problem("max_waiting", "maximum waiting works only for pull consumers")
        if strings_at(config, "priority_groups"):
            yield Problem("priority_groups", "priority groups work only for pull consumers")
    acks = (text_at(config, "ack_policy") or "none") != "none"
    if (
        text_at(config, "deliver_subject")
        and not acks
        and number_at(config, "max_ack_pending") > 0
    ):
        yield Problem("max_ack_pending", "maximum ack pending needs an ack policy other than none")
    expires_ns = number_at(config, "max_expires")
    if 0 < expires_ns < _SHORTEST_EXPIRES_NS and not text_at(config, "deliver_subject"):
        yield Problem("max_expires", "maximum expires is shorter than 1ms")


def _push(config: Mapping[str, object]) -> Iterator[Problem]:
    subject = text_at(config, "deliver_subject")
    if subject and not is_subject(subject):
        yield Problem("deliver_subject", f"Deliver subject: {subject!r} is not a valid subject")
    elif subject and has_wildcard(subject):
        yield Problem("deliver_subject", "the deliver subject has a wildcard")
    heartbeat_ns = number_at(config, "idle_heartbeat")
    by_acks = text_at(config, "ack_policy") == "flow_control"
    if not subject:
        for path, what in (
            ("rate_limit_bps", "a rate limit"),
            ("idle_heartbeat", "an idle heartbeat"),
            ("flow_control", "flow control"),
        ):
            if read(config, path):
                yield Problem(path, f"{what} works only for push consumers")
        if by_acks:
            yield Problem("ack_policy", "ack policy flow_control works only for push consumers")
    elif 0 < heartbeat_ns < _SHORTEST_HEARTBEAT_NS:
        yield Problem("idle_heartbeat", "the idle heartbeat is shorter than 100ms")
    elif is_on(config, "flow_control") and not heartbeat_ns and not by_acks:
        yield Problem("flow_control", "flow control needs an idle heartbeat")


def _priority(config: Mapping[str, object]) -> Iterator[Problem]:
    groups = strings_at(config, "priority_groups")
    policy = text_at(config, "priority_policy") or "none"
    if groups and policy == "none":
        yield Problem("priority_policy", "priority groups need a priority policy")
    if policy != "none" and not groups:
        yield Problem("priority_groups", f"priority policy {policy} needs a group")
    if policy == "none" and number_at(config, "priority_timeout") > 0:
        yield Problem("priority_timeout", "a pin timeout needs a priority policy")
    wrong = next((group for group in groups if not _GROUP.fullmatch(group)), None)
    if wrong is not None:
        text = (
            f"{wrong!r} is not a valid group name: use up to 16 characters of A-Z a-z 0-9 - _ "
            "/ = ) +"
        )
        yield Problem("priority_groups", text)


def _for_stream(config: Mapping[str, object], stream: Mapping[str, object]) -> Iterator[Problem]:
    if text_at(stream, "retention") == "workqueue":
        if (text_at(config, "ack_policy") or "none") != "explicit":
            yield Problem("ack_policy", "the stream is a work queue: set ack policy explicit")
        if (text_at(config, "deliver_policy") or "all") != "all":
            yield Problem("deliver_policy", "the stream is a work queue: set deliver policy all")
    most = number_at(stream, "consumer_limits.max_ack_pending")
    if most and number_at(config, "max_ack_pending") > most:
        yield Problem(
            "max_ack_pending", f"maximum ack pending is above {most}, the limit of the stream"
        )
    longest_ns = number_at(stream, "consumer_limits.inactive_threshold")
    if longest_ns and number_at(config, "inactive_threshold") > longest_ns:
        text = "the inactive threshold is longer than the stream allows"
        yield Problem("inactive_threshold", text)


def consumer_warnings(
    config: Mapping[str, object],
    stream: Mapping[str, object],
    other_filters: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return sentences; `other_filters` are those of the stream's other consumers, by name."""
    mine = strings_at(config, "filter_subjects") or (text_at(config, "filter_subject") or ">",)
    found: list[str] = []
    if text_at(stream, "retention") == "workqueue":
        found += _queue_overlaps(mine, other_filters)
    subjects = strings_at(stream, "subjects")
    rewritten = any(read(stream, key) for key in ("mirror", "sources", "subject_transform"))
    for wanted in mine:
        if subjects and not rewritten and not any(overlap(wanted, s) for s in subjects):
            found.append(f"no subject of the stream matches {wanted!r}: nothing will be delivered")
    if (text_at(config, "ack_policy") or "none") == "none" and number_at(
        config, "max_deliver"
    ) > 0:
        found.append("ack policy none never redelivers: maximum deliveries has no effect")
    if number_at(config, "num_replicas") > number_at(stream, "num_replicas") > 0:
        found.append("the consumer has more replicas than its stream: the server refuses that")
    return tuple(found)


def _queue_overlaps(mine: Sequence[str], others: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for name, theirs in others.items():
        for wanted in theirs or (">",):
            hit = next((own for own in mine if overlap(own, wanted)), None)
            if hit is not None:
                yield (
                    f"a work queue gives each message to one consumer: {hit!r} overlaps "
                    f"{wanted!r} of consumer {name}, so the server refuses this one"
                )
                break
