"""Rules for a consumer's configuration: problems that the server refuses, and warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from natstui.model.assets.consumer_fields import CONSUMER_FIELDS
from natstui.model.assets.fields import is_on, number_at, read, strings_at, text_at
from natstui.model.assets.rules import Problem, common_problems, name_problems
from natstui.model.assets.subjects import first_overlap, has_wildcard, is_valid_subject, overlap

_VALID_PRIORITY_GROUP = re.compile(r"[A-Za-z0-9\-_/=)+]{1,16}")
_MIN_HEARTBEAT_NS = 100_000_000
_MIN_PULL_EXPIRES_NS = 1_000_000


def consumer_problems(
    config: Mapping[str, object],
    stream: Mapping[str, object] | None = None,
    api_level: int | None = None,
    *,
    config_before: Mapping[str, object] | None = None,
) -> tuple[Problem, ...]:
    """Return all problems of a consumer's configuration.

    `stream` is the configuration of its stream, if known; `api_level` that of the connected
    server. `config_before` is the configuration before an edit, which the server has accepted.
    """
    problems = _find_problems(config, stream, api_level)
    accepted_problems = (
        [] if config_before is None else _find_problems(config_before, stream, api_level)
    )
    return tuple(problem for problem in problems if problem not in accepted_problems)


def _find_problems(
    config: Mapping[str, object], stream: Mapping[str, object] | None, api_level: int | None
) -> list[Problem]:
    problems: list[Problem] = []
    for rule in (
        _check_names,
        _check_filters,
        _check_start,
        _check_delivery,
        _check_pull,
        _check_push,
        _check_priority,
    ):
        problems += rule(config)
    if stream is not None:
        problems += _check_against_stream(config, stream)
    problems += common_problems(config, CONSUMER_FIELDS, api_level)
    return problems


def _check_names(config: Mapping[str, object]) -> Iterator[Problem]:
    name, durable = text_at(config, "name"), text_at(config, "durable_name")
    if name:
        yield from name_problems("name", name, "consumer")
    if durable and durable != name:
        yield from name_problems("durable_name", durable, "consumer")
        if name:
            yield Problem(
                "durable_name", "name and durable name differ: make them equal, or leave one empty"
            )


def _check_filters(config: Mapping[str, object]) -> Iterator[Problem]:
    filters, single_filter = (
        strings_at(config, "filter_subjects"),
        text_at(config, "filter_subject"),
    )
    if filters and single_filter:
        yield Problem(
            "filter_subjects",
            "both filter_subject and filter_subjects are set: use only one of them",
        )
    for subject in (*filters, *([single_filter] if single_filter else [])):
        if not is_valid_subject(subject):
            yield Problem("filter_subjects", f"Filters: {subject!r} is not a valid subject")
    overlapping_pair = first_overlap(filters)
    if overlapping_pair:
        yield Problem(
            "filter_subjects",
            f"the filters {overlapping_pair[0]!r} and {overlapping_pair[1]!r} overlap",
        )


def _check_start(config: Mapping[str, object]) -> Iterator[Problem]:
    policy = text_at(config, "deliver_policy") or "all"
    for path, required_policy, option_text in (
        ("opt_start_seq", "by_start_sequence", "a start sequence"),
        ("opt_start_time", "by_start_time", "a start time"),
    ):
        is_set = bool(read(config, path))
        if policy == required_policy and not is_set:
            yield Problem(path, f"deliver {policy} needs {option_text}")
        if policy != required_policy and is_set:
            yield Problem(
                path, f"{option_text} works only with deliver {required_policy}, not with {policy}"
            )
    has_filter = bool(strings_at(config, "filter_subjects") or text_at(config, "filter_subject"))
    if policy == "last_per_subject" and not has_filter:
        yield Problem("filter_subjects", "deliver last_per_subject needs a filter")


def _check_delivery(config: Mapping[str, object]) -> Iterator[Problem]:
    backoff_steps_ns = [
        step_ns for step_ns in _as_list(read(config, "backoff")) if isinstance(step_ns, int)
    ]
    if any(step_ns < 0 for step_ns in backoff_steps_ns):
        yield Problem("backoff", "the backoff has a negative pause")
    if 0 < number_at(config, "max_deliver") < len(backoff_steps_ns):
        yield Problem(
            "max_deliver", "maximum deliveries is smaller than the number of backoff steps"
        )
    if number_at(config, "ack_wait") < 0:
        yield Problem("ack_wait", "ack wait is negative")
    sample_percent = text_at(config, "sample_freq").removesuffix("%")
    if sample_percent and not sample_percent.isdecimal():
        yield Problem(
            "sample_freq", "the sample frequency is not a percentage: write it as 10 or 10%"
        )


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _check_pull(config: Mapping[str, object]) -> Iterator[Problem]:
    if text_at(config, "deliver_subject"):
        if number_at(config, "max_waiting") > 0:
            yield Problem("max_waiting", "maximum waiting works only for pull consumers")
        if strings_at(config, "priority_groups"):
            yield Problem("priority_groups", "priority groups work only for pull consumers")
    has_acks = (text_at(config, "ack_policy") or "none") != "none"
    if (
        text_at(config, "deliver_subject")
        and not has_acks
        and number_at(config, "max_ack_pending") > 0
    ):
        yield Problem("max_ack_pending", "maximum ack pending needs an ack policy other than none")
    max_expires_ns = number_at(config, "max_expires")
    if 0 < max_expires_ns < _MIN_PULL_EXPIRES_NS and not text_at(config, "deliver_subject"):
        yield Problem("max_expires", "maximum expires is shorter than 1ms")


def _check_push(config: Mapping[str, object]) -> Iterator[Problem]:
    subject = text_at(config, "deliver_subject")
    if subject and not is_valid_subject(subject):
        yield Problem("deliver_subject", f"Deliver subject: {subject!r} is not a valid subject")
    elif subject and has_wildcard(subject):
        yield Problem("deliver_subject", "the deliver subject has a wildcard")
    heartbeat_ns = number_at(config, "idle_heartbeat")
    is_ack_flow_control = text_at(config, "ack_policy") == "flow_control"
    if not subject:
        for path, option_text in (
            ("rate_limit_bps", "a rate limit"),
            ("idle_heartbeat", "an idle heartbeat"),
            ("flow_control", "flow control"),
        ):
            if read(config, path):
                yield Problem(path, f"{option_text} works only for push consumers")
        if is_ack_flow_control:
            yield Problem("ack_policy", "ack policy flow_control works only for push consumers")
    elif 0 < heartbeat_ns < _MIN_HEARTBEAT_NS:
        yield Problem("idle_heartbeat", "the idle heartbeat is shorter than 100ms")
    elif is_on(config, "flow_control") and not heartbeat_ns and not is_ack_flow_control:
        yield Problem("flow_control", "flow control needs an idle heartbeat")


def _check_priority(config: Mapping[str, object]) -> Iterator[Problem]:
    groups = strings_at(config, "priority_groups")
    policy = text_at(config, "priority_policy") or "none"
    if groups and policy == "none":
        yield Problem("priority_policy", "priority groups need a priority policy")
    if policy != "none" and not groups:
        yield Problem("priority_groups", f"priority policy {policy} needs a group")
    if policy == "none" and number_at(config, "priority_timeout") > 0:
        yield Problem("priority_timeout", "a pin timeout needs a priority policy")
    invalid_group = next(
        (group for group in groups if not _VALID_PRIORITY_GROUP.fullmatch(group)), None
    )
    if invalid_group is not None:
        text = (
            f"{invalid_group!r} is not a valid group name: use up to 16 characters of A-Z a-z 0-9 "
            "- _ / = ) +"
        )
        yield Problem("priority_groups", text)


def _check_against_stream(
    config: Mapping[str, object], stream: Mapping[str, object]
) -> Iterator[Problem]:
    if text_at(stream, "retention") == "workqueue":
        if (text_at(config, "ack_policy") or "none") != "explicit":
            yield Problem("ack_policy", "the stream is a work queue: set ack policy explicit")
        if (text_at(config, "deliver_policy") or "all") != "all":
            yield Problem("deliver_policy", "the stream is a work queue: set deliver policy all")
    max_ack_pending_msgs = number_at(stream, "consumer_limits.max_ack_pending")
    if max_ack_pending_msgs and number_at(config, "max_ack_pending") > max_ack_pending_msgs:
        yield Problem(
            "max_ack_pending",
            f"maximum ack pending is above {max_ack_pending_msgs}, the limit of the stream",
        )
    max_inactive_threshold_ns = number_at(stream, "consumer_limits.inactive_threshold")
    if (
        max_inactive_threshold_ns
        and number_at(config, "inactive_threshold") > max_inactive_threshold_ns
    ):
        text = "the inactive threshold is longer than the stream allows"
        yield Problem("inactive_threshold", text)


def consumer_warnings(
    config: Mapping[str, object],
    stream: Mapping[str, object],
    filters_by_other_consumer: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return the warnings about a valid configuration, a sentence each.

    `stream` is the configuration of its stream, `filters_by_other_consumer` has the filters of
    the stream's other consumers, by name.
    """
    filters = strings_at(config, "filter_subjects") or (text_at(config, "filter_subject") or ">",)
    warnings: list[str] = []
    if text_at(stream, "retention") == "workqueue":
        warnings += _warn_of_queue_overlaps(filters, filters_by_other_consumer)
    subjects = strings_at(stream, "subjects")
    may_rewrite_subjects = any(
        read(stream, key) for key in ("mirror", "sources", "subject_transform")
    )
    for filter_subject in filters:
        if (
            subjects
            and not may_rewrite_subjects
            and not any(overlap(filter_subject, subject) for subject in subjects)
        ):
            warnings.append(
                f"no subject of the stream matches {filter_subject!r}: nothing will be delivered"
            )
    if (text_at(config, "ack_policy") or "none") == "none" and number_at(
        config, "max_deliver"
    ) > 0:
        warnings.append("ack policy none never redelivers: maximum deliveries has no effect")
    if number_at(config, "num_replicas") > number_at(stream, "num_replicas") > 0:
        warnings.append("the consumer has more replicas than its stream: the server refuses that")
    return tuple(warnings)


def _warn_of_queue_overlaps(
    filters: Sequence[str], filters_by_other_consumer: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    for name, other_consumer_filters in filters_by_other_consumer.items():
        for other_filter in other_consumer_filters or (">",):
            own_filter = next(
                (
                    filter_subject
                    for filter_subject in filters
                    if overlap(filter_subject, other_filter)
                ),
                None,
            )
            if own_filter is not None:
                yield (
                    f"a work queue gives each message to one consumer: {own_filter!r} overlaps "
                    f"{other_filter!r} of consumer {name}, so the server refuses this one"
                )
                break
