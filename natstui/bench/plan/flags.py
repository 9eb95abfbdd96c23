"""Creates plans of the commands of `natstui bench`; changes plans by flags such as `msgs=1M`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from natstui.bench.plan.check import check_plan, with_file_size
from natstui.bench.plan.scenario import rate_segments
from natstui.errors import UsageError
from natstui.model.bench.patterns import traits
from natstui.model.bench.plan import (
    Acks,
    BenchmarkPlan,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.units import parse_bytes, parse_count, parse_duration_ns
from natstui.values import replace

PlanChange = Callable[[BenchmarkPlan, str], BenchmarkPlan]


def _change_roles(
    plan: BenchmarkPlan,
    is_selected: Callable[[Role], bool],
    change: Callable[[Role], Role],
    verb: str,
) -> BenchmarkPlan:
    if not any(map(is_selected, plan.roles)):
        raise ValueError(f"no role of this benchmark {verb}")
    return replace(
        plan, roles=tuple(change(role) if is_selected(role) else role for role in plan.roles)
    )


def _is_sender(role: Role) -> bool:
    return role.traits.sends


def _has_rate(role: Role) -> bool:
    return role.traits.has_rate


def _is_receiver(role: Role) -> bool:
    return role.traits.receives


def _has_end(role: Role) -> bool:
    return role.traits.has_own_end


def _has_shared_consumer(role: Role) -> bool:
    return role.traits.has_shared_consumer


def _change_payloads(plan: BenchmarkPlan, change: Callable[[Payload], Payload]) -> BenchmarkPlan:
    return _change_roles(
        plan, _is_sender, lambda role: replace(role, payload=change(role.payload)), "sends"
    )


def _change_new_stream(plan: BenchmarkPlan, **changes: Any) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        raise ValueError("the stream exists already: this option works only with --create")
    return replace(plan, stream=replace(plan.stream, **changes))


def _set_clients(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Set the number of workers of the roles that send or get messages.

    If no role does, set that of all roles.
    """
    count = parse_count(value)
    is_selected = _has_end if any(map(_has_end, plan.roles)) else lambda _role: True
    return _change_roles(
        plan, is_selected, lambda role: replace(role, workers_count=count), "works"
    )


def _set_sleep(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Let each worker with a rate send one message per `value`, a duration.

    If no role has a rate, set the processing delay of the receivers.
    """
    interval_s = parse_duration_ns(value) / 1e9
    if not interval_s:
        return plan
    if any(map(_has_rate, plan.roles)):

        def set_rate(role: Role) -> Role:
            msgs_per_s = role.workers_count / interval_s
            return replace(role, schedule=(RateSegment(None, msgs_per_s, msgs_per_s),))

        return _change_roles(plan, _has_rate, set_rate, "has a rate")
    if any(role.traits.replies for role in plan.roles):
        raise ValueError(
            "a service in a benchmark replies at once; for a delay use natstui reply NAME --sleep"
        )
    return _change_roles(
        plan, _is_receiver, lambda role: replace(role, think_s=interval_s), "receives"
    )


def _add_headers(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Add headers to the payloads; each line of `value` is one header."""
    new_headers = []
    for line in value.splitlines():
        name, colon, text = line.partition(":")
        if not colon or not name.strip() or " " in name.strip():
            raise ValueError(f"write {line!r} as NAME:VALUE")
        new_headers.append((name.strip(), text.strip()))
    return _change_payloads(
        plan, lambda payload: replace(payload, headers=(*payload.headers, *new_headers))
    )


def _set_payload_file(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_payloads(
        plan, lambda payload: with_file_size(replace(payload, kind="file", file=value))
    )


def _spread_subjects(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Spread messages over `value` subjects, and let the stream of the plan store all of them."""
    count = parse_count(value)
    if count < 2:
        raise ValueError("use 2 or more: a subject for each message is not supported")
    if any(map(_has_end, plan.roles)) and not any(map(_is_sender, plan.roles)):
        raise ValueError("a benchmark that reads stored messages has no subject")
    plan = replace(plan, roles=tuple(replace(role, subjects_count=count) for role in plan.roles))
    if plan.stream is None or plan.stream.history_count is not None:
        return plan
    subjects = tuple(f"{subject}.*" for subject in plan.stream.subjects)
    return replace(plan, stream=replace(plan.stream, subjects=subjects))


def _choose_random_subjects(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if all(role.subjects_count == 1 for role in plan.roles):
        raise ValueError("there is only one subject: add --multisubject")
    return _change_roles(plan, _has_end, lambda role: replace(role, subjects_random=True), "sends")


def _set_keys(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Choose the key of each message at random among `value` keys.

    0 leaves the plan unchanged: the keys are used in order.
    """
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has keys")
    count = parse_count(value)
    if not count:
        return plan
    return _change_roles(
        plan,
        _has_end,
        lambda role: replace(role, subjects_count=count, subjects_random=True),
        "puts or gets",
    )


def _add_msg_ids(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("only a stream detects duplicates")
    return _change_payloads(plan, lambda payload: replace(payload, msg_ids=True))


def _set_consumer(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if any(role.traits.is_push for role in plan.roles):
        raise ValueError("a push consumer is always created for the run: omit its name")
    return _change_roles(
        plan, _has_shared_consumer, lambda role: replace(role, consumer=value), "shares a consumer"
    )


def _set_double_acks(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    return _change_roles(
        plan, _has_shared_consumer, lambda role: replace(role, acks="double"), "acknowledges"
    )


def _check_filter(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Accept the filter `>`; raise ValueError for any other, which needs an existing consumer."""
    if value == ">":
        return plan
    stream = plan.stream.name if plan.stream is not None else "STREAM"
    command = f"natstui consumer add {stream} NAME --pull --filter {value}"
    raise ValueError(
        f"first create a consumer with this filter, {command}, then use --consumer NAME"
    )


def _check_purge(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    """Accept a purge of a stream that the run creates; raise ValueError for an existing one."""
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        name = plan.stream.name
        raise ValueError(f"a benchmark never purges a stream: use natstui stream purge {name}")
    return plan


def _refuse_persist(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    name = plan.stream.name if plan.stream is not None else "STREAM"
    command = f"natstui stream add {name} --persist-mode async"
    raise ValueError(
        f"first create the stream, {command}, then use --stream {name} without --create"
    )


def _set_outstanding_acks(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Set how many batches may be in flight."""
    count = parse_count(value)
    return _change_roles(
        plan,
        _is_sender,
        lambda role: replace(role, window_msgs=max(count, 1) * role.batch_msgs),
        "sends",
    )


def _set_max_bytes(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_new_stream(plan, max_bytes=parse_bytes(value))


def _set_duplicate_window(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_new_stream(plan, duplicate_window_s=parse_duration_ns(value) / 1e9)


def _set_history(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has a history")
    return _change_new_stream(plan, history_count=parse_count(value))


NATS_BENCH_FLAGS: dict[str, PlanChange] = {
    "clients": _set_clients,
    "sleep": _set_sleep,
    "header": _add_headers,
    "payload": _set_payload_file,
    "multisubjectmax": _spread_subjects,
    "multisubjectrandomize": _choose_random_subjects,
    "randomize": _set_keys,
    "dedup": _add_msg_ids,
    "dedupwindow": _set_duplicate_window,
    "replicas": lambda plan, value: _change_new_stream(plan, replicas_count=parse_count(value)),
    "maxbytes": _set_max_bytes,
    "history": _set_history,
    "consumer": _set_consumer,
    "doubleack": _set_double_acks,
    "filter": _check_filter,
    "purge": _check_purge,
    "persistasync": _refuse_persist,
    "max-outstanding-acks": _set_outstanding_acks,
}
"""Flag of `nats bench` → the function that changes the plan."""


def bucket_plan_stream(name: str, *, create: bool) -> StreamPlan:
    """Return the stream of the bucket `name`; `create`: the run creates and deletes it."""
    return StreamPlan(name, create=create, history_count=1)


_DEFAULT_MSGS = 100_000
_DEFAULT_ONE_AT_A_TIME_MSGS = 10_000
"""Default number of messages for patterns with one in flight."""


def core_plan(subject: str, *, pubs: int = 0, subs: int = 0) -> BenchmarkPlan:
    """Return the plan of `pubs` publishers and `subs` subscribers on a subject of core NATS."""
    roles = []
    if subs:
        roles.append(Role("subscribers", "subscribe", subs, subject=subject))
    if pubs:
        total = _DEFAULT_MSGS
        roles.append(Role("publishers", "publish", pubs, subject=subject, total_msgs=total))
    return _build_checked_plan(f"core on {subject}", roles, None)


def service_plan(subject: str, *, clients: int = 0, servers: int = 0) -> BenchmarkPlan:
    """Return the plan of `clients` that send requests and `servers` that reply to them."""
    roles = []
    if servers:
        roles.append(Role("service", "serve", servers, subject=subject))
    if clients:
        total = _DEFAULT_ONE_AT_A_TIME_MSGS
        roles.append(Role("clients", "request", clients, subject=subject, total_msgs=total))
    return _build_checked_plan(f"requests to {subject}", roles, None)


def publish_plan(
    pattern: Pattern, subject: str, workers: int, stream: StreamPlan
) -> BenchmarkPlan:
    """Return the plan of `workers` that publish to a stream with this pattern."""
    role = Role("publishers", pattern, workers, subject=subject, total_msgs=_default_msgs(pattern))
    return _build_checked_plan(f"{pattern} to {subject}", [role], stream)


def consume_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `workers` that consume a stream with this pattern."""
    role = Role("consumers", pattern, workers)
    return _build_checked_plan(f"{pattern} of {stream.name}", [role], stream)


def direct_get_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `workers` that get stored messages with this pattern."""
    role = Role("readers", pattern, workers, total_msgs=_default_msgs(pattern))
    return _build_checked_plan(f"{pattern} of {stream.name}", [role], stream)


def bucket_plan(
    pattern: Pattern, bucket: str | None, msgs: str | None, *, create: bool
) -> BenchmarkPlan:
    """Return the plan of one worker that puts or gets values of a bucket.

    Without `bucket` its name is NATSTUI_BENCH. `msgs` is the typed number of messages, each with
    its own key. `create`: the run creates the bucket. Raises UsageError for an invalid number.
    """
    name = bucket or "NATSTUI_BENCH"
    try:
        total = _default_msgs(pattern) if msgs is None else max(parse_count(msgs), 1)
    except ValueError as error:
        raise UsageError(f"--msgs: {error}") from error
    role = Role("keys", pattern, subject=f"$KV.{name}.key", subjects_count=total, total_msgs=total)
    stream = bucket_plan_stream(name, create=create)
    return _build_checked_plan(f"{pattern} of {name}", [role], stream)


def stream_plan(subject: str, *, pubs: int, subs: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `pubs` that publish to a stream and `subs` that consume it."""
    roles = [
        Role("consumers", "js-consume", subs, subject=subject),
        Role("publishers", "js-publish-async", pubs, subject=subject, total_msgs=_DEFAULT_MSGS),
    ]
    return _build_checked_plan(f"JetStream on {subject}", roles, stream)


def _default_msgs(pattern: Pattern) -> int:
    return _DEFAULT_ONE_AT_A_TIME_MSGS if traits(pattern).is_one_at_a_time else _DEFAULT_MSGS


def _build_checked_plan(title: str, roles: list[Role], stream: StreamPlan | None) -> BenchmarkPlan:
    plan = BenchmarkPlan(title, "", tuple(roles), stream, None)
    check_plan(plan, "the benchmark")
    return plan


def with_changes(plan: BenchmarkPlan, changes: Mapping[str, str]) -> BenchmarkPlan:
    """Return the plan with changes by flags: name → typed text.

    Raises UsageError for an unknown name or an invalid value.
    """
    # A duration replaces the number of messages of the plan, but not that of another flag.
    for name, value in sorted(changes.items(), key=lambda entry: entry[0] != "duration"):
        change = _CHANGE_BY_FLAG.get(name)
        if change is None:
            raise UsageError(f"no override {name!r}: there are {', '.join(_CHANGE_BY_FLAG)}")
        try:
            plan = change(plan, value)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from error
    check_plan(plan, "the plan")
    return plan


def _set_size(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    size_bytes = parse_bytes(value)
    return replace(
        plan,
        roles=tuple(
            replace(role, payload=replace(role.payload, size_bytes=size_bytes))
            for role in plan.roles
        ),
    )


def _set_duration(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return replace(
        plan,
        duration_s=parse_duration_ns(value) / 1e9,
        roles=tuple(
            replace(role, total_msgs=None) if _has_end(role) else role for role in plan.roles
        ),
    )


def _set_msgs(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    total = parse_count(value)
    return _change_roles(
        plan,
        _has_end if any(map(_has_end, plan.roles)) else _is_receiver,
        lambda role: replace(role, total_msgs=total),
        "ends after a number of messages",
    )


def _set_rate(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    msgs_per_s = parse_count(value)
    schedule = rate_segments(float(msgs_per_s)) if msgs_per_s else ()
    return _change_roles(
        plan, _has_rate, lambda role: replace(role, schedule=schedule), "has a rate"
    )


def _set_pubs(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    count = parse_count(value)
    return _change_roles(
        plan,
        _has_end,
        lambda role: replace(role, workers_count=count),
        "sends or gets messages",
    )


def _set_subs(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    count = parse_count(value)
    return _change_roles(
        plan, _is_receiver, lambda role: replace(role, workers_count=count), "receives"
    )


def _set_storage(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if value not in ("file", "memory"):
        raise ValueError(f"{value!r} must be file or memory")
    changes: dict[str, Any] = {"storage": value}
    changed_plan = _change_new_stream(plan, **changes)
    if plan.responses is None:
        return changed_plan
    return replace(changed_plan, responses=replace(plan.responses, **changes))


def _set_stream(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("this scenario works without a stream")
    return replace(plan, stream=replace(plan.stream, name=value))


def _set_acks(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if value not in get_args(Acks):
        raise ValueError(f"{value!r} is not one of {', '.join(get_args(Acks))}")
    return _change_roles(
        plan, _has_shared_consumer, lambda role: _with_field(role, "acks", value), "acknowledges"
    )


def _set_in_all_roles(plan: BenchmarkPlan, name: str, value: object) -> BenchmarkPlan:
    return replace(plan, roles=tuple(_with_field(role, name, value) for role in plan.roles))


def _with_field(role: Role, name: str, value: object) -> Role:
    changes: dict[str, Any] = {name: value}
    return replace(role, **changes)


_CHANGE_BY_FLAG: dict[str, Callable[[BenchmarkPlan, str], BenchmarkPlan]] = {
    "msgs": _set_msgs,
    "duration": _set_duration,
    "rate": _set_rate,
    "size": _set_size,
    "workers": lambda plan, value: _set_in_all_roles(plan, "workers_count", parse_count(value)),
    "pubs": _set_pubs,
    "subs": _set_subs,
    "stream": _set_stream,
    "storage": _set_storage,
    "acks": _set_acks,
    "batch": lambda plan, value: _set_in_all_roles(plan, "batch_msgs", parse_count(value)),
    "window": lambda plan, value: _set_in_all_roles(plan, "window_msgs", parse_count(value)),
    **NATS_BENCH_FLAGS,
}
