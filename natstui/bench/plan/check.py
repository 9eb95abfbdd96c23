"""Validates a plan, with a sentence per error, and sets the size of payloads from files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from natstui.errors import UsageError
from natstui.model.bench.plan import (
    BenchmarkPlan,
    Payload,
    Role,
)
from natstui.values import replace

_ROLE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,40}")
_SUBJECT_PATTERN = re.compile(r"[^\s*>.]+(\.[^\s*>.]+)*")
_RESERVED_FIRST_TOKENS = ("$JS", "$SYS")
_MAX_WORKERS_OF_ROLE = 256
MAX_WORKERS = 4000
"""Limit of workers in all roles, below the publishers that the stamp of a message can number."""
_MAX_IN_FLIGHT_MSGS = 1_000_000
"""Limit of messages in flight: each needs memory of a worker before the first is sent."""
_MAX_TOTAL_MSGS = 10**15
_MAX_RATE_PER_S = 10**9
_MAX_DURATION_S = 365 * 86_400
MIN_REQUEST_BYTES = 24
"""Minimum size of a request over streams: its stamp has requester, due time and sending time."""


def check_plan(plan: BenchmarkPlan, source: str) -> None:
    """Raise UsageError with the first error of a plan; `source` names the plan in the sentence."""
    for error_text in plan_errors(plan):
        raise UsageError(f"{source}: {error_text}")


def plan_errors(plan: BenchmarkPlan) -> Iterator[str]:
    """Yield a sentence for each error of a plan."""
    if not plan.roles:
        yield "no role is defined"
    names = [role.name for role in plan.roles]
    for name in names:
        if not _ROLE_NAME_PATTERN.fullmatch(name):
            yield f"role name {name!r} is not valid: use letters, digits, - and _"
        if names.count(name) > 1:
            yield f"two roles are named {name!r}"
    if (count := sum(role.workers_count for role in plan.roles)) > MAX_WORKERS:
        yield f"{count} workers are too many: at most {MAX_WORKERS} in all roles together"
    for role in plan.roles:
        for error_text in _role_errors(role, plan):
            yield f"role {role.name!r}: {error_text}"
    for fault in plan.faults:
        if fault.role not in names:
            yield f"a fault names role {fault.role!r}, which does not exist"
    if plan.duration_s is not None and plan.duration_s <= 0:
        yield "the duration must be longer than 0"
    times_s = (plan.duration_s or 0, plan.warmup_s, plan.ramp_s, plan.drain_s)
    if max(times_s) > _MAX_DURATION_S:
        yield "a benchmark and each of its parts must be at most a year long"


def _role_errors(role: Role, plan: BenchmarkPlan) -> Iterator[str]:
    yield from _number_errors(role)
    pattern, traits = role.pattern, role.traits
    if not _SUBJECT_PATTERN.fullmatch(role.subject):
        yield f"{role.subject!r} must be a subject without wildcards"
    if role.subject.split(".")[0] in _RESERVED_FIRST_TOKENS and (traits.sends or traits.replies):
        yield f"{role.subject!r} belongs to the server: messages there are requests to the server"
    if plan.stream is None and traits.needs_stream:
        yield f"pattern {pattern} needs a [stream]"
    if traits.needs_responses:
        yield from _requester_errors(role, plan)
    if traits.has_own_end and role.total_msgs is None and plan.duration_s is None:
        yield "the run has no end: set msgs or a duration"
    if traits.consumes and role.acks == "all" and role.nak_ratio + role.never_ack_ratio:
        yield "with acks 'all', single messages cannot be left unacknowledged"
    if role.payload.kind == "file" and not Path(role.payload.file or "").is_file():
        yield f"the payload file {role.payload.file!r} does not exist, or is no plain file"
    if role.payload.duplicate_ratio and not role.payload.msg_ids:
        yield "duplicates need msg-ids: without an id the server cannot detect them"
    if role.schedule and not traits.has_rate:
        yield f"pattern {pattern} works without a rate"
    if role.queue is not None and not traits.has_queue:
        yield f"pattern {pattern} works without a queue group"


def _requester_errors(role: Role, plan: BenchmarkPlan) -> Iterator[str]:
    """Yield the errors of a role that sends requests over a stream, or stores responses."""
    if plan.responses is None:
        yield f"pattern {role.pattern} needs a table [responses]: the stream for its responses"
    elif not plan.responses.create:
        yield "the stream of the responses is created for the run: use a name that does not exist"
    if role.payload.kind != "json" and role.payload.size_bytes < MIN_REQUEST_BYTES:
        yield (
            f"{role.payload.size_bytes} bytes are too small: a request contains its sender "
            "and time"
        )
    if role.traits.stores_responses and (role.acks not in ("explicit", "double") or role.consumer):
        yield "responders need acks 'explicit' or 'double', and no consumer of their own"
    if role.nak_ratio + role.term_ratio + role.never_ack_ratio:
        yield "every request gets a response: leave out naks, terms and never-acked"


def _number_errors(role: Role) -> Iterator[str]:
    if not 1 <= role.workers_count <= _MAX_WORKERS_OF_ROLE:
        yield (
            f"the number of workers must be between 1 and {_MAX_WORKERS_OF_ROLE}, not "
            f"{role.workers_count}"
        )
    for name in ("nak_ratio", "term_ratio", "never_ack_ratio"):
        if not 0 <= getattr(role, name) <= 1:
            yield (
                f"{name.removesuffix('_ratio')} share {getattr(role, name)} must be between 0 "
                "and 1"
            )
    if not 0 <= role.payload.duplicate_ratio < 1:
        yield f"share of duplicates {role.payload.duplicate_ratio} must be from 0 to below 1"
    if min(role.batch_msgs, role.window_msgs, role.subjects_count) < 1:
        yield "batch, window and subjects must be at least 1"
    if max(role.batch_msgs, role.window_msgs) > _MAX_IN_FLIGHT_MSGS:
        yield f"batch and window must be at most {_MAX_IN_FLIGHT_MSGS:,}"
    if max(role.total_msgs or 0, role.subjects_count) > _MAX_TOTAL_MSGS:
        yield f"msgs and subjects must be at most {_MAX_TOTAL_MSGS:,}"
    if role.payload.size_bytes < 0 or (role.payload.size_max_bytes or 0) < 0:
        yield "a size must not be negative"
    if role.total_msgs is not None and role.total_msgs < 1:
        yield f"msgs must be at least 1, not {role.total_msgs}"
    if any(min(segment.start_per_s, segment.end_per_s) < 0 for segment in role.schedule):
        yield "a rate must not be negative"
    if any(max(segment.start_per_s, segment.end_per_s) <= 0 for segment in role.schedule):
        yield "a rate must be above 0"
    # As it is written: a NaN of TOML is not above it either.
    if not all(
        max(segment.start_per_s, segment.end_per_s) <= _MAX_RATE_PER_S for segment in role.schedule
    ):
        yield f"a rate must be at most {_MAX_RATE_PER_S:,} messages a second"


def with_file_size(payload: Payload) -> Payload:
    """Return a payload with the size of its file; `check_plan` reports a missing file."""
    if payload.kind != "file" or not os.path.isfile(payload.file or ""):
        return payload
    return replace(payload, size_bytes=os.path.getsize(payload.file or ""), size_max_bytes=None)
