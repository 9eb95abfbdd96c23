"""The short forms of `natstui bench` as plans, and changes to a plan: `msgs=1M`, `rate=1000`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from natstui.bench.plan.check import check
from natstui.bench.plan.more_flags import MORE, bucket_plan_stream
from natstui.bench.plan.scenario import segments
from natstui.errors import UsageError
from natstui.model.bench.patterns import patterns_that, traits
from natstui.model.bench.plan import (
    Acks,
    BenchmarkPlan,
    Pattern,
    Role,
    StreamPlan,
)
from natstui.units import parse_bytes, parse_count, parse_duration_ns

_DEFAULT_MSGS = 100_000
_SLOW_MSGS = 10_000
"""Of patterns with one message in flight."""


def core_plan(subject: str, *, pubs: int = 0, subs: int = 0) -> BenchmarkPlan:
    """Return publishers, subscribers or both on a subject."""
    roles = []
    if subs:
        roles.append(Role("subscribers", "subscribe", subs, subject=subject))
    if pubs:
        total = _DEFAULT_MSGS
        roles.append(Role("publishers", "publish", pubs, subject=subject, total_msgs=total))
    return _plan(f"core on {subject}", roles, None)


def service_plan(subject: str, *, clients: int = 0, servers: int = 0) -> BenchmarkPlan:
    """Return requesters, a service or both on a subject."""
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
    """Return publishers to a stream."""
    role = Role("publishers", pattern, workers, subject=subject, total_msgs=_total(pattern))
    return _plan(f"{pattern} to {subject}", [role], stream)


def consume_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return receivers of what a stream holds."""
    role = Role("consumers", pattern, workers)
    return _plan(f"{pattern} of {stream.name}", [role], stream)


def read_plan(pattern: Pattern, workers: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return workers that get stored messages."""
    role = Role("readers", pattern, workers, total_msgs=_total(pattern))
    return _plan(f"{pattern} of {stream.name}", [role], stream)


def bucket_plan(
    pattern: Pattern, bucket: str | None, msgs: str | None, *, create: bool
) -> BenchmarkPlan:
    """Return workers that put or get values: a key for each message, unless told otherwise."""
    name = bucket or "NATSTUI_BENCH"
    total = _total(pattern) if msgs is None else max(parse_count(msgs), 1)
    role = Role("keys", pattern, subject=f"$KV.{name}.key", subjects_count=total, total_msgs=total)
    stream = bucket_plan_stream(name, create=create)
    return _plan(f"{pattern} of {name}", [role], stream)


def stream_plan(subject: str, *, pubs: int, subs: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return publishers to a stream, and consumers of it, in one run."""
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


def overridden(plan: BenchmarkPlan, changes: Mapping[str, str]) -> BenchmarkPlan:
    """Return the plan with changes; raise UsageError for a word or a value that is none."""
    for name, value in changes.items():
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
    timed = replace(plan, duration_s=parse_duration_ns(value) / 1e9)
    return _roles(timed, _SENDING, total_msgs=None)


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
        raise ValueError(f"{value!r} is not file or memory")
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
    **MORE,
}
