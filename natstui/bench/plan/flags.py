"""The short forms of `natstui bench` as plans, and changes to a plan: `msgs=1M`, `rate=1000`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from natstui.bench.plan.check import check, with_file_size
from natstui.bench.plan.scenario import segments
from natstui.errors import UsageError
from natstui.model.bench.patterns import patterns_that, traits
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

Change = Callable[[BenchmarkPlan, str], BenchmarkPlan]


def _change_roles(
    plan: BenchmarkPlan,
    takes: Callable[[Role], bool],
    change: Callable[[Role], Role],
    role_name: str,
) -> BenchmarkPlan:
    if not any(map(takes, plan.roles)):
        raise ValueError(f"nobody {role_name} here")
    return replace(plan, roles=tuple(change(role) if takes(role) else role for role in plan.roles))


def _sends(role: Role) -> bool:
    return role.traits.sends


def _puts_or_gets(role: Role) -> bool:
    return role.traits.has_end


def _consumes(role: Role) -> bool:
    return role.traits.has_shared_consumer


def _change_payloads(plan: BenchmarkPlan, change: Callable[[Payload], Payload]) -> BenchmarkPlan:
    return _change_roles(
        plan, _sends, lambda role: replace(role, payload=change(role.payload)), "sends"
    )


def _change_new_stream(plan: BenchmarkPlan, **changes: Any) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        raise ValueError("the stream exists already: this option works only with --create")
    return replace(plan, stream=replace(plan.stream, **changes))


def _clients(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Set the workers of a single role, or of the senders if there are both."""
    count = parse_count(value)
    first = _puts_or_gets if any(map(_puts_or_gets, plan.roles)) else lambda _role: True
    return _change_roles(plan, first, lambda role: replace(role, workers_count=count), "works")


def _sleep(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Let each sender send once in that time; without senders, set the receivers'
    processing time.
    """
    each_s = parse_duration_ns(value) / 1e9
    if not each_s:
        return plan
    if any(map(_sends, plan.roles)):

        def slower(role: Role) -> Role:
            per_s = role.workers_count / each_s
            return replace(role, schedule=(RateSegment(None, per_s, per_s),))

        return _change_roles(plan, _sends, slower, "sends")
    if any(role.traits.answers for role in plan.roles):
        raise ValueError(
            "a service in a benchmark replies at once; for a delay use natstui reply NAME --sleep"
        )
    return _change_roles(
        plan,
        lambda role: role.traits.receives,
        lambda role: replace(role, think_s=each_s),
        "receives",
    )


def _headers(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Add headers, a line each."""
    pairs = []
    for line in value.splitlines():
        name, colon, text = line.partition(":")
        if not colon or not name.strip() or " " in name.strip():
            raise ValueError(f"write {line!r} as NAME:VALUE")
        pairs.append((name.strip(), text.strip()))
    return _change_payloads(
        plan, lambda payload: replace(payload, headers=(*payload.headers, *pairs))
    )


def _file(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_payloads(
        plan, lambda payload: with_file_size(replace(payload, kind="file", file=value))
    )


def _spread(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Spread messages over subjects; the run's own stream stores all of them."""
    count = parse_count(value)
    if count < 2:
        raise ValueError("use 2 or more: a subject for each message is not supported")
    if any(map(_puts_or_gets, plan.roles)) and not any(map(_sends, plan.roles)):
        raise ValueError("a benchmark that reads stored messages has no subject")
    plan = replace(plan, roles=tuple(replace(role, subjects_count=count) for role in plan.roles))
    if plan.stream is None or plan.stream.history_count is not None:
        return plan
    subjects = tuple(f"{subject}.*" for subject in plan.stream.subjects)
    return replace(plan, stream=replace(plan.stream, subjects=subjects))


def _random(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if all(role.subjects_count == 1 for role in plan.roles):
        raise ValueError("there is only one subject: add --multisubject")
    return _change_roles(
        plan, _puts_or_gets, lambda role: replace(role, subjects_random=True), "sends"
    )


def _keys(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Choose keys below a number at random; 0: in order, one per message."""
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has keys")
    count = parse_count(value)
    if not count:
        return plan
    return _change_roles(
        plan,
        _puts_or_gets,
        lambda role: replace(role, subjects_count=count, subjects_random=True),
        "puts or gets",
    )


def _dedup(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("only a stream detects duplicates")
    return _change_payloads(plan, lambda payload: replace(payload, msg_ids=True))


def _consumer(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if any(role.traits.is_push for role in plan.roles):
        raise ValueError("a push consumer is always created for the run: omit its name")
    return _change_roles(
        plan, _consumes, lambda role: replace(role, consumer=value), "shares a consumer"
    )


def _double(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    return _change_roles(
        plan, _consumes, lambda role: replace(role, acks="double"), "acknowledges"
    )


def _filter(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Accept a filter for everything; another filter belongs to a consumer."""
    if value == ">":
        return plan
    stream = plan.stream.name if plan.stream is not None else "STREAM"
    command = f"natstui consumer add {stream} NAME --pull --filter {value}"
    raise ValueError(
        f"first create a consumer with this filter, {command}, then use --consumer NAME"
    )


def _purge(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    """Accept it for the run's own empty stream; no messages of others are purged."""
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        name = plan.stream.name
        raise ValueError(f"a benchmark never purges a stream: use natstui stream purge {name}")
    return plan


def _persist(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    name = plan.stream.name if plan.stream is not None else "STREAM"
    command = f"natstui stream add {name} --persist-mode async"
    raise ValueError(
        f"first create the stream, {command}, then use --stream {name} without --create"
    )


def _outstanding(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Set how many batches wait for their ack."""
    count = parse_count(value)
    return _change_roles(
        plan,
        _sends,
        lambda role: replace(role, window_msgs=max(count, 1) * role.batch_msgs),
        "sends",
    )


def _max_bytes(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_new_stream(plan, max_bytes=parse_bytes(value))


def _window_s(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _change_new_stream(plan, duplicate_window_s=parse_duration_ns(value) / 1e9)


def _history(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has a history")
    return _change_new_stream(plan, history_count=parse_count(value))


NATS_BENCH_FLAGS: dict[str, Change] = {
    "clients": _clients,
    "sleep": _sleep,
    "header": _headers,
    "payload": _file,
    "multisubjectmax": _spread,
    "multisubjectrandomize": _random,
    "randomize": _keys,
    "dedup": _dedup,
    "dedupwindow": _window_s,
    "replicas": lambda plan, value: _change_new_stream(plan, replicas_count=parse_count(value)),
    "maxbytes": _max_bytes,
    "history": _history,
    "consumer": _consumer,
    "doubleack": _double,
    "filter": _filter,
    "purge": _purge,
    "persistasync": _persist,
    "max-outstanding-acks": _outstanding,
}
"""Flag → its change of the plan; applied in this order."""


def bucket_plan_stream(name: str, *, create: bool) -> StreamPlan:
    """Return the stream of the bucket `name`; `create`: the run creates and deletes it."""
    return StreamPlan(name, create=create, history_count=1)


_DEFAULT_MSGS = 100_000
_SLOW_MSGS = 10_000
"""Default number of messages for patterns with one in flight."""


def core_plan(subject: str, *, pubs: int = 0, subs: int = 0) -> BenchmarkPlan:
    """Return the plan of `pubs` publishers and `subs` subscribers on a subject of core NATS."""
    roles = []
    if subs:
        roles.append(Role("subscribers", "subscribe", subs, subject=subject))
    if pubs:
        total = _DEFAULT_MSGS
        roles.append(Role("publishers", "publish", pubs, subject=subject, total_msgs=total))
    return _plan(f"core on {subject}", roles, None)


def service_plan(subject: str, *, clients: int = 0, servers: int = 0) -> BenchmarkPlan:
    """Return the plan of `clients` that send requests and `servers` that reply to them."""
    roles = []
    if servers:
        roles.append(Role("service", "serve", servers, subject=subject))
    if clients:
        total = _SLOW_MSGS
        roles.append(Role("clients", "request", clients, subject=subject, total_msgs=total))
    return _plan(f"requests to {subject}", roles, None)


def publish_plan(
    pattern: Pattern, subject: str, workers: int, stream: StreamPlan
) -> BenchmarkPlan:
    """Return the plan of `workers` that publish to a stream with this pattern."""
    role = Role("publishers", pattern, workers, subject=subject, total_msgs=_total(pattern))
    return _plan(f"{pattern} to {subject}", [role], stream)


def consume_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `workers` that consume a stream with this pattern."""
    role = Role("consumers", pattern, workers)
    return _plan(f"{pattern} of {stream.name}", [role], stream)


def read_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `workers` that get stored messages with this pattern."""
    role = Role("readers", pattern, workers, total_msgs=_total(pattern))
    return _plan(f"{pattern} of {stream.name}", [role], stream)


def bucket_plan(
    pattern: Pattern, bucket: str | None, msgs: str | None, *, create: bool
) -> BenchmarkPlan:
    """Return the plan of one worker that puts or gets values.

    `bucket` is its name, None: one of the run. `msgs` is the typed number of messages: each has
    its own key by default. `create`: the run creates the bucket.
    """
    name = bucket or "NATSTUI_BENCH"
    try:
        total = _total(pattern) if msgs is None else max(parse_count(msgs), 1)
    except ValueError as error:
        raise UsageError(f"--msgs: {error}") from error
    role = Role("keys", pattern, subject=f"$KV.{name}.key", subjects_count=total, total_msgs=total)
    stream = bucket_plan_stream(name, create=create)
    return _plan(f"{pattern} of {name}", [role], stream)


def stream_plan(subject: str, *, pubs: int, subs: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return the plan of `pubs` that publish to a stream and `subs` that consume it."""
    roles = [
        Role("consumers", "js-consume", subs, subject=subject),
        Role("publishers", "js-publish-async", pubs, subject=subject, total_msgs=_DEFAULT_MSGS),
    ]
    return _plan(f"JetStream on {subject}", roles, stream)


def _total(pattern: Pattern) -> int:
    return _SLOW_MSGS if traits(pattern).is_slow else _DEFAULT_MSGS


def _plan(title: str, roles: list[Role], stream: StreamPlan | None) -> BenchmarkPlan:
    plan = BenchmarkPlan(title, "", tuple(roles), stream, None)
    check(plan, "the benchmark")
    return plan


_SENDERS = patterns_that(lambda row: row.sends)
_RECEIVERS = patterns_that(lambda row: row.receives)
_SENDING = patterns_that(lambda row: row.has_end)


def with_changes(plan: BenchmarkPlan, changes: Mapping[str, str]) -> BenchmarkPlan:
    """Return the plan with the changes of flags: name → text as typed.

    Raises UsageError for an unknown name or an invalid value.
    """
    # A duration replaces the number of messages of the plan, but not one that is given beside it.
    for name, value in sorted(changes.items(), key=lambda entry: entry[0] != "duration"):
        change = _CHANGES.get(name)
        if change is None:
            raise UsageError(f"no override {name!r}: there are {', '.join(_CHANGES)}")
        try:
            plan = change(plan, value)
        except ValueError as error:
            raise UsageError(f"--{name}: {error}") from error
    check(plan, "the plan")
    return plan


def _roles(plan: BenchmarkPlan, patterns: frozenset[str], **changes: Any) -> BenchmarkPlan:
    return replace(
        plan,
        roles=tuple(
            replace(role, **changes) if role.pattern in patterns else role for role in plan.roles
        ),
    )


def _payload(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    size_bytes = parse_bytes(value)
    return replace(
        plan,
        roles=tuple(
            replace(role, payload=replace(role.payload, size_bytes=size_bytes))
            for role in plan.roles
        ),
    )


def _duration(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    limited_plan = replace(plan, duration_s=parse_duration_ns(value) / 1e9)
    return _roles(limited_plan, _SENDING, total_msgs=None)


def _msgs(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    sends = any(role.traits.has_end for role in plan.roles)
    return _roles(plan, _SENDING if sends else _RECEIVERS, total_msgs=parse_count(value))


def _rate(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    per_s = parse_count(value)
    return _roles(plan, _SENDERS, schedule=segments(float(per_s)) if per_s else ())


def _stream(plan: BenchmarkPlan, value: str, name: str) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("this scenario works without a stream")
    if name == "storage" and value not in ("file", "memory"):
        raise ValueError(f"{value!r} must be file or memory")
    changes: dict[str, Any] = {name: value}
    if plan.responses is not None and name != "name":
        plan = replace(plan, responses=replace(plan.responses, **changes))
    assert plan.stream is not None
    return replace(plan, stream=replace(plan.stream, **changes))


def _acks(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if value not in get_args(Acks):
        raise ValueError(f"{value!r} is not one of {', '.join(get_args(Acks))}")
    return _everybody(plan, "acks", value)


def _everybody(plan: BenchmarkPlan, name: str, value: object) -> BenchmarkPlan:
    return replace(plan, roles=tuple(_with(role, name, value) for role in plan.roles))


def _with(role: Role, name: str, value: object) -> Role:
    changes: dict[str, Any] = {name: value}
    return replace(role, **changes)


_CHANGES: dict[str, Callable[[BenchmarkPlan, str], BenchmarkPlan]] = {
    "msgs": _msgs,
    "duration": _duration,
    "rate": _rate,
    "size": _payload,
    "workers": lambda plan, value: _everybody(plan, "workers_count", parse_count(value)),
    "pubs": lambda plan, value: _roles(plan, _SENDING, workers_count=parse_count(value)),
    "subs": lambda plan, value: _roles(plan, _RECEIVERS, workers_count=parse_count(value)),
    "stream": lambda plan, value: _stream(plan, value, "name"),
    "storage": lambda plan, value: _stream(plan, value, "storage"),
    "acks": _acks,
    "batch": lambda plan, value: _everybody(plan, "batch_msgs", parse_count(value)),
    "window": lambda plan, value: _everybody(plan, "window_msgs", parse_count(value)),
    **NATS_BENCH_FLAGS,
}
