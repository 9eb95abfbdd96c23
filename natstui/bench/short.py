"""The short forms of `natstui bench`, as plans: one or two roles on one subject. Pure."""

from __future__ import annotations

from natstui.bench.plan_check import check
from natstui.model.benchmark_role import BenchmarkPlan, Pattern, Role, StreamPlan

_DEFAULT_MSGS = 100_000
_SLOW: frozenset[Pattern] = frozenset({"request", "js-publish-sync"})
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
    total = _DEFAULT_MSGS if pattern == "js-get-batch" else _SLOW_MSGS
    role = Role("readers", pattern, workers, total_msgs=total)
    return _plan(f"{pattern} of {stream.name}", [role], stream)


def stream_plan(subject: str, *, pubs: int, subs: int, stream: StreamPlan) -> BenchmarkPlan:
    """Return publishers to a stream, and consumers of it, in one run."""
    roles = [
        Role("consumers", "js-consume", subs, subject=subject),
        Role("publishers", "js-publish-async", pubs, subject=subject, total_msgs=_DEFAULT_MSGS),
    ]
    return _plan(f"JetStream on {subject}", roles, stream)


def _total(pattern: Pattern) -> int:
    return _SLOW_MSGS if pattern in _SLOW else _DEFAULT_MSGS


def _plan(title: str, roles: list[Role], stream: StreamPlan | None) -> BenchmarkPlan:
    plan = BenchmarkPlan(title, "", tuple(roles), stream, None)
    check(plan, "the benchmark")
    return plan
