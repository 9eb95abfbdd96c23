"""The flags of every benchmark run, and how they change a plan."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from natstui.bench.plan.removed import CLIENT_OPTION_REMOVED_TEXT, REMOTE_WORKERS_REMOVED_TEXT
from natstui.cli.options import OutputPath, connection_options
from natstui.cli.sections import section_option_factory
from natstui.errors import UsageError
from natstui.units import duration_text

if TYPE_CHECKING:
    from natstui.config.settings import Settings
    from natstui.model.records.confirmation import Confirmation


_PLAN_FLAG_NAMES = (
    "msgs", "duration", "rate", "size", "workers", "pubs", "subs", "stream", "storage", "acks",
    "batch", "window",
)  # fmt: skip
_CLOCK_TIME_PATTERN = re.compile(r"\d{1,2}:\d{2}")
_DEFAULT_SUBJECTS_COUNT_TEXT = "100000"
"""Number of subjects of --multisubject without --multisubjectmax."""

_load_section_option, _stream_section_option, _result_section_option = map(
    section_option_factory, ("Load", "Stream or bucket", "Result")
)

_NATS_BENCH_OPTIONS = (
    _load_section_option(
        "--clients",
        metavar="N",
        help="Number of workers that send; the same as --pubs or --workers.",
    ),
    _load_section_option("--throughput", metavar="N", help="As --rate."),
    _load_section_option(
        "--sleep", metavar="TIME", help="Pause between two messages of a worker."
    ),
    _load_section_option(
        "-H", "--header", metavar="NAME:VALUE", multiple=True, help="Header of each message."
    ),
    _load_section_option("--payload", metavar="FILE", help="File with the payload to send."),
    _load_section_option(
        "--multisubject", is_flag=True, help="Spread messages over several subjects."
    ),
    _load_section_option(
        "--multisubjectmax", metavar="N", help="Number of subjects of --multisubject."
    ),
    _load_section_option(
        "--multisubjectrandomize",
        is_flag=True,
        help="Choose subjects of --multisubject at random.",
    ),
    _load_section_option(
        "--randomize", metavar="N", help="Use random keys below N in the bucket."
    ),
    _load_section_option("--dedup", is_flag=True, help="Send message ids."),
    _stream_section_option(
        "--dedupwindow", metavar="TIME", help="Duplicate window of the created stream."
    ),
    _stream_section_option("--replicas", metavar="N", help="Replicas of the created stream."),
    _stream_section_option("--maxbytes", metavar="BYTES", help="Max bytes of the created stream."),
    _stream_section_option("--history", metavar="N", help="History of the created bucket."),
    _stream_section_option("--consumer", metavar="NAME", help="An existing durable consumer."),
    _load_section_option("--doubleack", is_flag=True, help="As --acks double."),
    click.option("--filter", metavar="SUBJECT", hidden=True),
    click.option("--purge", is_flag=True, hidden=True),
    click.option("--persistasync", is_flag=True, hidden=True),
    _load_section_option(
        "--max-outstanding-acks", metavar="N", help="Batches in flight of pub fast."
    ),
    _result_section_option(
        "--csv",
        "csv_file",
        metavar="FILE",
        type=OutputPath(),
        help="Write a row for each worker.",
    ),
    _result_section_option(
        "--progress/--no-progress", default=True, help="Show a progress line during the run."
    ),
)
"""Additional flags of `nats bench`."""

_RUN_OPTIONS = (
    _load_section_option(
        "--msgs",
        metavar="N",
        help="Total messages, as 1M. Who only receives ends then, and may have received more.",
    ),
    _load_section_option("--duration", metavar="TIME", help="Run for this time, e.g. 5s."),
    _load_section_option(
        "--rate", metavar="N", help="Messages per second; 0: as fast as possible."
    ),
    _load_section_option("--size", metavar="BYTES", help="Payload size, e.g. 128 or 64KB."),
    _load_section_option("--workers", metavar="N", help="Worker processes per role."),
    _load_section_option("--pubs", metavar="N", help="Number of sending workers."),
    _load_section_option("--subs", metavar="N", help="Number of receiving workers."),
    _stream_section_option("--stream", metavar="NAME", help="Stream to work on."),
    _stream_section_option(
        "--storage",
        type=click.Choice(["file", "memory"]),
        help="Storage of the created stream.",
    ),
    _load_section_option(
        "--acks",
        type=click.Choice(["explicit", "all", "none", "double"]),
        help="How messages are acknowledged.",
    ),
    _load_section_option("--batch", metavar="N", help="Messages per pull, batch or block."),
    _load_section_option("--window", metavar="N", help="Unacknowledged messages in flight."),
    click.option("--client", metavar="NAME", multiple=True, hidden=True),
    click.option("--machines", metavar="N", hidden=True),
    _load_section_option(
        "--at",
        metavar="TIME",
        help="Start at this moment, as 14:30:00Z or 2026-01-31T14:30:00+01:00.",
    ),
    _load_section_option(
        "--repeat",
        "repeat_count",
        type=click.IntRange(1, 100),
        default=1,
        help="Number of runs; each result is printed.",
    ),
    _result_section_option(
        "--assert",
        "checks",
        metavar="CHECK",
        multiple=True,
        help="Fail unless this is true, e.g. 'lost == 0'.",
    ),
    _result_section_option(
        "--json", "as_json", is_flag=True, help="Print the result as one JSON object."
    ),
    _result_section_option(
        "--record",
        is_flag=False,
        flag_value="",
        metavar="[NAME]",
        help="Record the benchmark and its streams as a session.",
    ),
    _result_section_option(
        "--save/--no-save", default=True, help="Keep the result in the run library."
    ),
    _stream_section_option(
        "--yes",
        is_flag=True,
        help="Do not prompt before removing or consuming messages of others.",
    ),
    _stream_section_option(
        "--confirm",
        metavar="NAME",
        help="Name that the prompt shows, to confirm: of a consumer, stream or subject.",
    ),
)


_RUN_FLAG_NAMES = (
    *_PLAN_FLAG_NAMES, "clients", "throughput", "sleep", "header", "payload",
    "multisubject", "multisubjectmax", "multisubjectrandomize", "randomize", "dedup",
    "dedupwindow", "replicas", "maxbytes", "history", "consumer", "doubleack", "filter", "purge",
    "persistasync", "max_outstanding_acks", "csv_file", "progress",
    "repeat_count",
)  # fmt: skip


class RunOptions(Struct, frozen=True):
    """The options of a run: how to run a plan, and what to do with its result."""

    plan_changes: dict[str, str]
    """Overrides of the plan, as typed."""
    repeat_count: int
    check_texts: tuple[str, ...]
    as_json: bool
    library_folder: Path | None
    """Folder to save the result in; None: it is not saved."""
    recording_name: str | None
    """Name of the session, may be empty; None: nothing is recorded."""
    settings: Settings
    csv_file: Path | None = None
    """File for a row per worker."""
    shows_progress: bool = True
    """Whether to show a progress line on stderr."""
    start_at_us: int | None = None
    """When the load starts; None: as soon as possible."""
    yes: bool = False
    """Whether to skip the prompt before a run consumes messages of others."""
    confirm: str | None = None
    """The typed name of the stream or consumer whose messages are consumed."""
    confirmation: Confirmation | None = None
    """The confirmation that was shown when the name was typed: nothing else is consumed."""


def _parse_start_at_us(text: str) -> int:
    """Return the start time of --at, in UTC µs; raises UsageError for a time in the past."""
    now = datetime.now(UTC)
    try:
        start_time = parse_start_time(text, now)
    except ValueError as error:
        raise UsageError(f"--at: {error}") from error
    if start_time <= now:
        age_text = duration_text((now - start_time).total_seconds())
        raise UsageError(f"--at: {text} was {age_text} ago")
    return round(start_time.timestamp() * 1e6)


def parse_start_time(text: str, now: datetime) -> datetime:
    """Return the time of a text such as `14:30:00Z`, or of a date and time with a time zone.

    A time without a date is of today, or of tomorrow if it was more than 12 hours before `now`.
    Raises ValueError for an invalid text, and for one without a time zone.
    """
    text = text.strip()
    try:
        if _CLOCK_TIME_PATTERN.match(text):
            clock_time = dt.time.fromisoformat(text)
            start_time = datetime.combine(now.astimezone(clock_time.tzinfo).date(), clock_time)
        else:
            start_time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write it as 14:30:00Z or 2026-01-31T14:30:00+01:00"
        ) from None
    if start_time.tzinfo is None:
        raise ValueError(
            f"{text!r} has no zone, and hosts may be in several: write {text}Z for UTC"
        )
    is_clock_time = _CLOCK_TIME_PATTERN.match(text) is not None
    if is_clock_time and now - start_time > timedelta(hours=12):
        start_time += timedelta(days=1)
    return start_time


def _nats_bench_changes(flags: dict[str, Any]) -> dict[str, str]:
    """Return the flags of `nats bench` as changes of the plan by name, in the order of
    `NATS_BENCH_FLAGS`.
    """
    from natstui.bench.plan.flags import NATS_BENCH_FLAGS

    if flags.pop("multisubject") or flags["multisubjectrandomize"]:
        flags["multisubjectmax"] = flags["multisubjectmax"] or _DEFAULT_SUBJECTS_COUNT_TEXT
    flags["header"] = "\n".join(flags["header"])
    flag_values = {name: flags.pop(name.replace("-", "_")) for name in NATS_BENCH_FLAGS}
    return {
        name: "" if value is True else str(value)
        for name, value in flag_values.items()
        if value is True or value not in (None, "", False)
    }


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a benchmark run and of the connection to a command.

    The command gets `options: RunOptions` and `connection: Connection`; an invalid flag raises
    UsageError.
    """

    @connection_options
    @functools.wraps(command)
    def call_command_with_options(
        *,
        settings: Settings,
        at: str | None,
        client: tuple[str, ...],
        machines: str | None,
        checks: tuple[str, ...],
        as_json: bool,
        save: bool,
        record: str | None,
        yes: bool,
        confirm: str | None,
        **other_options: Any,
    ) -> Any:
        if client:
            raise UsageError(CLIENT_OPTION_REMOVED_TEXT)
        if machines is not None:
            raise UsageError(REMOTE_WORKERS_REMOVED_TEXT)
        flags = {name: other_options.pop(name) for name in _RUN_FLAG_NAMES}
        flags["rate"] = flags["rate"] or flags.pop("throughput")
        flag_values = {name: flags.pop(name) for name in _PLAN_FLAG_NAMES}
        csv_file, shows_progress = flags.pop("csv_file"), flags.pop("progress")
        repeat_count = flags.pop("repeat_count")
        if at is not None and repeat_count > 1:
            raise UsageError("--at starts one run: give each repetition a moment of its own")
        plan_changes = {name: value for name, value in flag_values.items() if value is not None}
        plan_changes |= _nats_bench_changes(flags)
        from natstui.bench.result.library import library_folder

        folder = library_folder(settings.benchmark.folder) if save else None
        options = RunOptions(
            plan_changes, repeat_count, checks, as_json, folder, record, settings,
            Path(csv_file) if csv_file else None, shows_progress,
            None if at is None else _parse_start_at_us(at), yes, confirm,
        )  # fmt: skip
        return command(options=options, **other_options)

    decorated_command = call_command_with_options
    for flag in reversed((*_RUN_OPTIONS, *_NATS_BENCH_OPTIONS)):
        decorated_command = flag(decorated_command)
    return decorated_command
