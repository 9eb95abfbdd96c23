"""Scenarios: from TOML to a plan, and the ready ones that come with natstui."""

from __future__ import annotations

import os
import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from natstui.bench.plan_check import check
from natstui.bench.scenario_file import (
    FaultTable,
    PayloadTable,
    RateTable,
    RoleTable,
    ScenarioFile,
    StreamTable,
)
from natstui.bench.scenario_words import worded
from natstui.errors import UsageError
from natstui.model.benchmark_role import (
    BenchmarkPlan,
    Fault,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.units import parse_bytes, parse_count, parse_duration_ns


def ready_scenarios() -> dict[str, str]:
    """Return the ready scenarios: name → text of the file."""
    folder = resources.files("natstui.bench") / "scenarios"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f.name[:-5]: f.read_text("utf-8") for f in files if f.name.endswith(".toml")}


def find_scenario(name: str) -> BenchmarkPlan:
    """Return the plan of a ready scenario, or of a file. Raises UsageError."""
    ready = ready_scenarios()
    if name in ready:
        return read_scenario(ready[name], name)
    path = Path(name)
    try:
        return read_scenario(path.read_text("utf-8"), name)
    except FileNotFoundError as error:
        names = ", ".join(ready)
        raise UsageError(f"no scenario {name!r}: it is no file, and ready are {names}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the scenario {name!r} cannot be read: {error}") from error


def read_scenario(text: str, where: str) -> BenchmarkPlan:
    """Return the plan a scenario file describes; raise UsageError that says where it is wrong."""
    try:
        file = msgspec.convert(tomllib.loads(text), ScenarioFile, strict=True)
        plan = _plan(file)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"scenario {where}: not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"scenario {where}: {worded(error)}") from error
    except ValueError as error:
        raise UsageError(f"scenario {where}: {error}") from error
    check(plan, f"scenario {where}")
    return plan


def _seconds(text: str) -> float:
    return parse_duration_ns(text) / 1e9


def _count(number: int | str | None) -> int | None:
    return parse_count(number) if isinstance(number, str) else number


def _bytes(size: int | str | None) -> int | None:
    return parse_bytes(size) if isinstance(size, str) else size


def _plan(file: ScenarioFile) -> BenchmarkPlan:
    ramp_s = _seconds(file.ramp)
    return BenchmarkPlan(
        title=file.title,
        description=file.description,
        roles=tuple(_role(table, ramp_s) for table in file.role),
        stream=None if file.stream is None else _stream(file.stream, file.role),
        duration_s=None if file.duration is None else _seconds(file.duration),
        warmup_s=_seconds(file.warmup),
        ramp_s=ramp_s,
        drain_s=_seconds(file.drain),
        faults=tuple(map(_fault, file.fault)),
    )


def _role(table: RoleTable, ramp_s: float) -> Role:
    return Role(
        name=table.name,
        pattern=table.pattern,
        workers_count=table.workers,
        client=table.client,
        subject=table.subject,
        subjects_count=table.subjects,
        subjects_random=table.random_subjects,
        queue=table.queue,
        total_msgs=_count(table.msgs),
        payload=_payload(table.payload),
        schedule=segments(table.rate, ramp_s),
        batch_msgs=table.batch,
        window_msgs=table.window,
        consumer=table.consumer,
        acks=table.acks,
        ack_wait_s=_seconds(table.ack_wait),
        max_ack_pending_msgs=table.max_ack_pending,
        nak_ratio=table.naks,
        term_ratio=table.terms,
        never_ack_ratio=table.never_acked,
        think_s=_seconds(table.think),
        timeout_s=_seconds(table.timeout),
    )


def segments(rate: float | RateTable | None, ramp_s: float = 0.0) -> tuple[RateSegment, ...]:
    """Return the schedule of a rate; raise ValueError for one that is none."""
    if rate is None:
        return ()
    if isinstance(rate, RateTable):
        return _shaped(rate)
    start = (RateSegment(ramp_s, 0.0, rate),) if ramp_s else ()
    return (*start, RateSegment(None, rate, rate))


def _shaped(rate: RateTable) -> tuple[RateSegment, ...]:
    if rate.ramp is not None:
        first, last = rate.ramp
        return (RateSegment(_seconds(rate.over), first, last), RateSegment(None, last, last))
    every_s = _seconds(rate.every)
    if rate.steps:
        return tuple(RateSegment(every_s, step, step) for step in rate.steps)
    if rate.burst is None or every_s <= 0:
        raise ValueError("a rate is a number, or has one of: ramp, steps, burst with every")
    per_s = rate.burst / every_s
    return (RateSegment(None, per_s, per_s, burst_msgs=rate.burst),)


def _payload(table: PayloadTable) -> Payload:
    size_bytes = _bytes(table.size) or 0
    if table.kind == "file" and table.file and os.path.isfile(table.file):
        size_bytes = os.path.getsize(table.file)
    return Payload(
        kind=table.kind,
        size_bytes=size_bytes,
        size_max_bytes=_bytes(table.size_max),
        file=table.file,
        headers=tuple(table.headers.items()),
        msg_ids=table.msg_ids,
        duplicate_ratio=table.duplicates,
    )


def _stream(table: StreamTable, roles: list[RoleTable]) -> StreamPlan:
    subjects = tuple(table.subjects)
    if not subjects:
        senders = [role for role in roles if role.pattern.startswith(("js-publish", "publish"))]
        spread = (role.subject if role.subjects == 1 else f"{role.subject}.*" for role in senders)
        subjects = tuple(dict.fromkeys(spread))
    return StreamPlan(
        name=table.name,
        create=table.create,
        keep=table.keep,
        subjects=subjects,
        storage=table.storage,
        replicas_count=table.replicas,
        retention=table.retention,
        discard=table.discard,
        max_msgs=_count(table.max_msgs),
        max_bytes=_bytes(table.max_bytes),
        duplicate_window_s=_seconds(table.duplicate_window) if table.duplicate_window else None,
        allow_batches=any(role.pattern[11:] in ("atomic", "fast") for role in roles),
        history_count=table.history,
    )


def _fault(table: FaultTable) -> Fault:
    return Fault(_seconds(table.at), table.kind, table.role, table.worker)
