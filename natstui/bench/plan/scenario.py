"""Reads scenarios: plans of benchmarks as TOML, in files or built-in.

Errors are sentences in the terms of the scenario file.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from natstui.bench.plan.check import check_plan, with_file_size
from natstui.bench.plan.removed import CLIENT_OPTION_REMOVED_TEXT
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_user_file
from natstui.model.bench.patterns import traits
from natstui.model.bench.plan import (
    Acks,
    BenchmarkPlan,
    Fault,
    FaultKind,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.parsing import parse_toml
from natstui.units import parse_bytes, parse_count, parse_duration_ns
from natstui.values import replace


class ScenarioTable(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """A table of a scenario file; unknown keys are an error."""


class RateTable(ScenarioTable):
    """The table `rate = {…}` with one of ramp, steps, burst."""

    ramp: tuple[float, float] | None = None
    over: str = "10s"
    steps: list[float] | None = None
    every: str = "5s"
    burst: int | None = None


class PayloadTable(ScenarioTable):
    """The table `payload = {…}` of a role."""

    kind: Literal["fixed", "range", "file", "json"] = "fixed"
    size: int | str = 128
    size_max: int | str | None = None
    file: str | None = None
    headers: dict[str, str] = {}
    msg_ids: bool = False
    duplicates: float = 0.0


class RoleTable(ScenarioTable):
    """A table `[[role]]`."""

    name: str
    pattern: Pattern
    workers: int = 1
    subject: str = "bench"
    subjects: int = 1
    random_subjects: bool = False
    queue: str | None = None
    msgs: int | str | None = None
    payload: PayloadTable = msgspec.field(default_factory=PayloadTable)
    rate: float | RateTable | None = None
    batch: int = 500
    window: int = 8000
    consumer: str | None = None
    acks: Acks = "explicit"
    ack_wait: str = "30s"
    max_ack_pending: int = 10_000
    naks: float = 0.0
    terms: float = 0.0
    never_acked: float = 0.0
    think: str = "0s"
    timeout: str = "10s"


class StreamTable(ScenarioTable):
    """The table `[stream]` or `[responses]`."""

    name: str = "NATSTUI_BENCH"
    create: bool = True
    keep: bool = False
    subjects: list[str] = []
    storage: Literal["file", "memory"] = "memory"
    replicas: int = 1
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    discard: Literal["old", "new"] = "old"
    max_msgs: int | str | None = None
    max_bytes: int | str | None = None
    duplicate_window: str | None = None
    history: int | None = None
    """Number of values per key; a stream with a history is a KV bucket."""


class FaultTable(ScenarioTable):
    """A table `[[fault]]`."""

    at: str
    kind: FaultKind
    role: str
    worker: int | None = None


class ScenarioFile(ScenarioTable):
    """A scenario file: its keys and tables."""

    title: str
    role: list[RoleTable]
    description: str = ""
    duration: str | None = None
    warmup: str = "0s"
    ramp: str = "0s"
    drain: str = "10s"
    stream: StreamTable | None = None
    responses: StreamTable | None = None
    """The stream of the responses, if requests are sent over streams."""
    fault: list[FaultTable] = []
    assertions: list[str] = []
    """Conditions at the end, as for `--assert`."""


_ERROR_PATTERN = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN_FIELD_PATTERN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_PATH_STEP_PATTERN = re.compile(r"\.(?P<name>\w[\w-]*)(?:\[(?P<number>\d+)\])?")


def validation_sentence(error: msgspec.ValidationError) -> str:
    """Return a validation error as a sentence: its location in the file and the problem.

    For a key that is not valid, the sentence names the most similar valid key, or all valid keys.
    """
    match = _ERROR_PATTERN.fullmatch(str(error))
    problem, path = (match["what"], match["path"] or "") if match else (str(error), "")
    path_steps = list(_PATH_STEP_PATTERN.finditer(path))
    location = " › ".join(_step_text(step) for step in path_steps) or "the top of the file"
    unknown_field_match = _UNKNOWN_FIELD_PATTERN.fullmatch(problem)
    if unknown_field_match is None:
        return f"{location}: {problem[:1].lower()}{problem[1:]}"
    if unknown_field_match[1] == "client" and _list_valid_keys(path_steps) == _field_names(
        RoleTable
    ):
        return f"{location} has no `client`: {CLIENT_OPTION_REMOVED_TEXT}"
    unknown_field = unknown_field_match[1]
    correction_text = _correction_text(unknown_field, _list_valid_keys(path_steps))
    return f"{location} has no `{unknown_field}`{correction_text}"


def _step_text(path_step: re.Match[str]) -> str:
    return (
        path_step["name"]
        if path_step["number"] is None
        else f"{path_step['name']} {int(path_step['number']) + 1}"
    )


def _list_valid_keys(path_steps: list[re.Match[str]]) -> list[str]:
    """Return the valid keys of the table at a path; empty if there is no such table."""
    table: Any = ScenarioFile
    for step in path_steps:
        table = _table_type(get_type_hints(table).get(step["name"].replace("-", "_")))
        if table is None:
            return []
    return _field_names(table)


def _field_names(table: type[ScenarioTable]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(table)]


def _table_type(hint: Any) -> type[ScenarioTable] | None:
    """Return the table class in a type hint, also inside a list or union; None without one."""
    if isinstance(hint, type) and issubclass(hint, ScenarioTable):
        return hint
    if get_origin(hint) in (list, Union, UnionType):
        return next(filter(None, map(_table_type, get_args(hint))), None)
    return None


def _correction_text(name: str, valid_keys: list[str]) -> str:
    similar_names = get_close_matches(name, valid_keys, 1)
    if similar_names:
        return f"; did you mean `{similar_names[0]}`?"
    top_level_keys = _field_names(ScenarioFile)
    if name in top_level_keys and valid_keys != top_level_keys:
        return ": it belongs to the top of the file"
    return f"; valid names are {', '.join(valid_keys)}" if valid_keys else ""


def built_in_scenarios() -> dict[str, str]:
    """Return the TOML text of each built-in scenario by name."""
    folder = resources.files("natstui.bench.plan") / "scenarios"
    files = sorted(folder.iterdir(), key=lambda file: file.name.removesuffix(".toml"))
    return {
        file.name.removesuffix(".toml"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".toml")
    }


def find_scenario(name: str) -> BenchmarkPlan:
    """Return the plan of the built-in scenario `name`, or of the TOML file with this path.

    Raises UsageError if there is neither, or if the file is invalid.
    """
    text_by_built_in_name = built_in_scenarios()
    if name in text_by_built_in_name:
        return read_scenario(text_by_built_in_name[name], name)
    path = Path(name)
    try:
        return read_scenario(read_user_file(path, MAX_TEXT_BYTES).decode(), name)
    except FileNotFoundError as error:
        scenario_names = ", ".join(text_by_built_in_name)
        raise UsageError(
            f"no scenario {name!r}: it is neither a file nor built-in; "
            f"built-in are {scenario_names}"
        ) from error
    except OSError as error:
        raise UsageError(f"the scenario {name!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the scenario {name!r} cannot be read: it is not UTF-8") from error


def read_scenario(text: str, source: str) -> BenchmarkPlan:
    """Return the plan of a TOML text, which `source` names in errors.

    Raises UsageError with the location of the error.
    """
    try:
        file = msgspec.convert(parse_toml(text), ScenarioFile, strict=True)
        plan = _build_plan(file)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"scenario {source}: not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"scenario {source}: {validation_sentence(error)}") from error
    except ValueError as error:
        raise UsageError(f"scenario {source}: {error}") from error
    check_plan(plan, f"scenario {source}")
    return plan


def _parse_seconds(text: str) -> float:
    return parse_duration_ns(text) / 1e9


def _parse_count(number: int | str | None) -> int | None:
    return parse_count(number) if isinstance(number, str) else number


def _parse_bytes(size: int | str | None) -> int | None:
    return parse_bytes(size) if isinstance(size, str) else size


def _build_plan(file: ScenarioFile) -> BenchmarkPlan:
    ramp_s = _parse_seconds(file.ramp)
    return BenchmarkPlan(
        title=file.title,
        description=file.description,
        roles=tuple(_build_role(table, ramp_s) for table in file.role),
        stream=None if file.stream is None else _build_stream(file.stream, file.role),
        responses=None
        if file.responses is None
        else _build_response_stream(file.responses, file.role),
        duration_s=None if file.duration is None else _parse_seconds(file.duration),
        warmup_s=_parse_seconds(file.warmup),
        ramp_s=ramp_s,
        drain_s=_parse_seconds(file.drain),
        faults=tuple(map(_build_fault, file.fault)),
        assertions=tuple(file.assertions),
    )


def _build_role(table: RoleTable, ramp_s: float) -> Role:
    return Role(
        name=table.name,
        pattern=table.pattern,
        workers_count=table.workers,
        subject=table.subject,
        subjects_count=table.subjects,
        subjects_random=table.random_subjects,
        queue=table.queue,
        total_msgs=_parse_count(table.msgs),
        payload=_build_payload(table.payload),
        schedule=rate_segments(table.rate, ramp_s),
        batch_msgs=table.batch,
        window_msgs=table.window,
        consumer=table.consumer,
        acks=table.acks,
        ack_wait_s=_parse_seconds(table.ack_wait),
        max_ack_pending_msgs=table.max_ack_pending,
        nak_ratio=table.naks,
        term_ratio=table.terms,
        never_ack_ratio=table.never_acked,
        think_s=_parse_seconds(table.think),
        timeout_s=_parse_seconds(table.timeout),
    )


def rate_segments(rate: float | RateTable | None, ramp_s: float = 0.0) -> tuple[RateSegment, ...]:
    """Return the schedule of a rate: messages per second, a table, or None (as fast as possible).

    `ramp_s` is the time in which a constant rate is reached. Raises ValueError for an invalid
    table.
    """
    if rate is None:
        return ()
    if isinstance(rate, RateTable):
        return _table_segments(rate)
    ramp_segments = (RateSegment(ramp_s, 0.0, rate),) if ramp_s else ()
    return (*ramp_segments, RateSegment(None, rate, rate))


def _table_segments(rate: RateTable) -> tuple[RateSegment, ...]:
    if rate.ramp is not None:
        start_per_s, end_per_s = rate.ramp
        return (
            RateSegment(_parse_seconds(rate.over), start_per_s, end_per_s),
            RateSegment(None, end_per_s, end_per_s),
        )
    every_s = _parse_seconds(rate.every)
    if rate.steps:
        return tuple(RateSegment(every_s, step, step) for step in rate.steps)
    if rate.burst is None or every_s <= 0:
        raise ValueError("a rate is a number, or has one of: ramp, steps, burst with every")
    msgs_per_s = rate.burst / every_s
    return (RateSegment(None, msgs_per_s, msgs_per_s, burst_msgs=rate.burst),)


def _build_payload(table: PayloadTable) -> Payload:
    payload = Payload(
        kind=table.kind,
        size_bytes=_parse_bytes(table.size) or 0,
        size_max_bytes=_parse_bytes(table.size_max),
        file=table.file,
        headers=tuple(table.headers.items()),
        msg_ids=table.msg_ids,
        duplicate_ratio=table.duplicates,
    )
    return with_file_size(payload)


def _build_stream(table: StreamTable, roles: list[RoleTable]) -> StreamPlan:
    subjects = tuple(table.subjects)
    if not subjects:
        senders = [role for role in roles if traits(role.pattern).feeds_stream]
        stream_subjects = (
            role.subject if role.subjects == 1 else f"{role.subject}.*" for role in senders
        )
        subjects = tuple(dict.fromkeys(stream_subjects))
    return StreamPlan(
        name=table.name,
        create=table.create,
        keep=table.keep,
        subjects=subjects,
        storage=table.storage,
        replicas_count=table.replicas,
        retention=table.retention,
        discard=table.discard,
        max_msgs=_parse_count(table.max_msgs),
        max_bytes=_parse_bytes(table.max_bytes),
        duplicate_window_s=_parse_seconds(table.duplicate_window)
        if table.duplicate_window
        else None,
        allow_batches=any(traits(role.pattern).required_stream_option for role in roles),
        history_count=table.history,
    )


def _build_response_stream(table: StreamTable, roles: list[RoleTable]) -> StreamPlan:
    """Return the plan of the stream for responses, whose subject begins with that of requests."""
    request_subject = next(
        (role.subject for role in roles if traits(role.pattern).awaits_responses), "bench"
    )
    return replace(_build_stream(table, []), subjects=(f"{request_subject}-responses.*",))


def _build_fault(table: FaultTable) -> Fault:
    return Fault(_parse_seconds(table.at), table.kind, table.role, table.worker)
