"""More changes to a plan: those that the flags of `nats bench` make. Pure.

A flag that would do harm, or says what is said elsewhere here, is refused with how to say it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from natstui.bench.plan.payload import sized
from natstui.model.bench.plan import BenchmarkPlan, Payload, RateSegment, Role, StreamPlan
from natstui.units import parse_bytes, parse_count, parse_duration_ns

Change = Callable[[BenchmarkPlan, str], BenchmarkPlan]


def _roles(
    plan: BenchmarkPlan, takes: Callable[[Role], bool], change: Callable[[Role], Role], who: str
) -> BenchmarkPlan:
    if not any(map(takes, plan.roles)):
        raise ValueError(f"nobody {who} here")
    return replace(plan, roles=tuple(change(one) if takes(one) else one for one in plan.roles))


def _sends(role: Role) -> bool:
    return role.traits.sends


def _puts_or_gets(role: Role) -> bool:
    return role.traits.has_end


def _consumes(role: Role) -> bool:
    return role.traits.has_shared_consumer


def _payload(plan: BenchmarkPlan, change: Callable[[Payload], Payload]) -> BenchmarkPlan:
    return _roles(plan, _sends, lambda one: replace(one, payload=change(one.payload)), "sends")


def _stream(plan: BenchmarkPlan, **changes: Any) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        raise ValueError("the stream exists already: give it to one that is made, with --create")
    return replace(plan, stream=replace(plan.stream, **changes))


def _clients(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Set the workers of who is meant by a form of one role, and of senders where both are."""
    count = parse_count(value)
    first = _puts_or_gets if any(map(_puts_or_gets, plan.roles)) else lambda _one: True
    return _roles(plan, first, lambda one: replace(one, workers_count=count), "works")


def _sleep(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Let each sender send once in that time; without senders, let receivers take that long."""
    each_s = parse_duration_ns(value) / 1e9
    if not each_s:
        return plan
    if any(map(_sends, plan.roles)):

        def slower(one: Role) -> Role:
            per_s = one.workers_count / each_s
            return replace(one, schedule=(RateSegment(None, per_s, per_s),))

        return _roles(plan, _sends, slower, "sends")
    if any(one.traits.answers for one in plan.roles):
        raise ValueError("a service answers at once here; natstui reply NAME --sleep waits")
    return _roles(
        plan, lambda one: one.traits.receives, lambda one: replace(one, think_s=each_s), "receives"
    )


def _headers(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Add headers, a line each."""
    pairs = []
    for line in value.splitlines():
        name, colon, text = line.partition(":")
        if not colon or not name.strip() or " " in name.strip():
            raise ValueError(f"write {line!r} as NAME:VALUE")
        pairs.append((name.strip(), text.strip()))
    return _payload(plan, lambda one: replace(one, headers=(*one.headers, *pairs)))


def _file(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _payload(plan, lambda one: sized(replace(one, kind="file", file=value)))


def _spread(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Spread messages over subjects; a stream that is made for them takes them all."""
    count = parse_count(value)
    if count < 2:
        raise ValueError("a subject for each message has no end here: give 2 or more")
    if any(map(_puts_or_gets, plan.roles)) and not any(map(_sends, plan.roles)):
        raise ValueError("who gets stored messages has no subject")
    plan = replace(plan, roles=tuple(replace(one, subjects_count=count) for one in plan.roles))
    if plan.stream is None or plan.stream.history_count is not None:
        return plan
    subjects = tuple(f"{one}.*" for one in plan.stream.subjects)
    return replace(plan, stream=replace(plan.stream, subjects=subjects))


def _random(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if all(one.subjects_count == 1 for one in plan.roles):
        raise ValueError("there is one subject only: say --multisubject as well")
    return _roles(plan, _puts_or_gets, lambda one: replace(one, subjects_random=True), "sends")


def _keys(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Take keys below a number by chance; 0: one after the other, as many as messages."""
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has keys")
    count = parse_count(value)
    if not count:
        return plan
    return _roles(
        plan,
        _puts_or_gets,
        lambda one: replace(one, subjects_count=count, subjects_random=True),
        "puts or gets",
    )


def _dedup(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    if plan.stream is None:
        raise ValueError("only a stream refuses what it has already")
    return _payload(plan, lambda one: replace(one, msg_ids=True))


def _consumer(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if any(one.traits.is_push for one in plan.roles):
        raise ValueError("a push consumer is made for the run here")
    return _roles(plan, _consumes, lambda one: replace(one, consumer=value), "shares a consumer")


def _double(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    return _roles(plan, _consumes, lambda one: replace(one, acks="double"), "acknowledges")


def _filter(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Take everything; another filter belongs to a consumer."""
    if value == ">":
        return plan
    stream = plan.stream.name if plan.stream is not None else "STREAM"
    made = f"natstui consumer add {stream} NAME --pull --filter {value}"
    raise ValueError(f"make a consumer with it first, {made}, then say --consumer NAME")


def _purge(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    """Accept it for a stream that begins empty; nothing of somebody else is removed on the way."""
    if plan.stream is None:
        raise ValueError("this benchmark works without a stream")
    if not plan.stream.create:
        name = plan.stream.name
        raise ValueError(f"a benchmark empties no stream: natstui stream purge {name} asks first")
    return plan


def _persist(plan: BenchmarkPlan, _value: str) -> BenchmarkPlan:
    name = plan.stream.name if plan.stream is not None else "STREAM"
    made = f"natstui stream add {name} --persist-mode async"
    raise ValueError(f"make the stream first, {made}, then say --stream {name} without --create")


def _outstanding(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    """Let so many batches wait for their acknowledgement."""
    count = parse_count(value)
    return _roles(
        plan, _sends, lambda one: replace(one, window_msgs=max(count, 1) * one.batch_msgs), "sends"
    )


def _max_bytes(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _stream(plan, max_bytes=parse_bytes(value))


def _window_s(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    return _stream(plan, duplicate_window_s=parse_duration_ns(value) / 1e9)


def _history(plan: BenchmarkPlan, value: str) -> BenchmarkPlan:
    if plan.stream is None or plan.stream.history_count is None:
        raise ValueError("only a bucket has a history")
    return _stream(plan, history_count=parse_count(value))


MORE: dict[str, Change] = {
    "clients": _clients,
    "sleep": _sleep,
    "header": _headers,
    "payload": _file,
    "multisubjectmax": _spread,
    "multisubjectrandomize": _random,
    "randomize": _keys,
    "dedup": _dedup,
    "dedupwindow": _window_s,
    "replicas": lambda plan, value: _stream(plan, replicas_count=parse_count(value)),
    "maxbytes": _max_bytes,
    "history": _history,
    "consumer": _consumer,
    "doubleack": _double,
    "filter": _filter,
    "purge": _purge,
    "persistasync": _persist,
    "max-outstanding-acks": _outstanding,
}
"""By the word of the flag; applied in this order."""


def bucket_plan_stream(name: str, *, create: bool) -> StreamPlan:
    """Return the bucket of a short form."""
    return StreamPlan(name, create=create, history_count=1)
